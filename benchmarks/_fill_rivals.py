"""Other ways to fill gaps, written from their published descriptions.

- DINEOF (Beckers and Rixen 2003, Alvera-Azcarate et al. 2005): missing anomalies start at zero and
  are replaced by a truncated singular value decomposition until they no longer change; the number
  of patterns is the one with the least error at values set aside, which is the deviation too.
- Simple kriging in space, time by time: an exponential covariance with a nugget, pooled over times.
- A Gaussian process in space and time: product of two exponentials with a nugget, each time
  predicted from the values of a window of times around it.

All get anomalies, times and points; each returns mean and deviation at all values, (T, M).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg, optimize

Array = np.ndarray
Predict = Callable[[Array, Array, Array], tuple[Array, Array]]

#: DINEOF: share of values set aside, most patterns, most rounds, change that ends them.
ASIDE, PATTERNS, ROUNDS, CHANGE = 0.03, 25, 150, 1e-3
#: Times around one from which the Gaussian process predicts, and rows its search looks at.
WINDOW, ROWS = 2, 24
#: Values of one window that the Gaussian process takes at most.
MOST = 1000


def dineof(values: Array, days: Array, points: Array) -> tuple[Array, Array]:
    """Iterated truncated decompositions, with the number of patterns by cross-validation."""
    rng = np.random.default_rng(0)
    seen = np.isfinite(values)
    aside = seen & (rng.uniform(size=values.shape) < ASIDE)
    filled, best, least, worse = np.where(seen & ~aside, values, 0.0), 1, np.inf, 0
    for k in range(1, min(PATTERNS, min(values.shape) - 1) + 1):
        filled = _iterated(values, seen & ~aside, k, filled)
        error = float(np.sqrt(np.mean((filled - values)[aside] ** 2)))
        best, least, worse = (k, error, 0) if error < least else (best, least, worse + 1)
        if worse == 4:
            break
    filled = np.where(seen, values, 0.0)
    for k in range(1, best + 1):
        filled = _iterated(values, seen, k, filled)
    return filled, np.full(values.shape, least)


def _iterated(values: Array, known: Array, k: int, start: Array) -> Array:
    filled = np.where(known, values, start)
    for _ in range(ROUNDS):
        low_rank = _truncated(filled, k)
        moved = float(np.sqrt(np.mean((low_rank - filled)[~known] ** 2)))
        filled = np.where(known, values, low_rank)
        if moved < CHANGE * float(np.nanstd(values)):
            break
    return filled


def _truncated(filled: Array, k: int) -> Array:
    """The k leading parts of a singular value decomposition, by its smaller side."""
    if filled.shape[0] > filled.shape[1]:
        return _truncated(filled.T, k).T
    n = len(filled)
    _, u = linalg.eigh(filled @ filled.T, subset_by_index=[n - k, n - 1])
    return u @ (u.T @ filled)


def kriging(values: Array, days: Array, points: Array) -> tuple[Array, Array]:
    """Space alone, one covariance for all times."""
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    rows = np.linspace(0, len(values) - 1, ROWS).astype(int)

    def loss(logs: Array) -> float:
        sill, length, nugget = np.exp(logs)
        return sum(_minus_log(values[t], sill * np.exp(-distance / length), nugget) for t in rows)

    start = np.log([np.nanvar(values), 0.3 * distance.max(), 0.1 * np.nanvar(values)])
    sill, length, nugget = np.exp(optimize.minimize(loss, start, method="Nelder-Mead").x)
    cov = sill * np.exp(-distance / length)
    mean, std = np.zeros(values.shape), np.zeros(values.shape)
    for t, row in enumerate(values):
        mean[t], variance = _predicted(row, cov, cov, nugget)
        std[t] = np.sqrt(variance + nugget)
    return mean, std


def gaussian_process(values: Array, days: Array, points: Array) -> tuple[Array, Array]:
    """Space and time, a product of exponentials, by windows of times."""
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    step = float(np.median(np.diff(days)))
    rng = np.random.default_rng(0)
    windows = [
        _window(values, days, t, rng) for t in np.linspace(0, len(values) - 1, 6).astype(int)
    ]

    def loss(logs: Array) -> float:
        sill, length, time, nugget = np.exp(logs)
        total = 0.0
        for rows, columns, when in windows:
            few = _few(len(columns))
            cov = sill * _product(distance, columns[few], when[few], length, time)
            total += _minus_log(values[rows[few], columns[few]], cov, nugget)
        return total

    start = np.log([np.nanvar(values), 0.3 * distance.max(), 2 * step, 0.1 * np.nanvar(values)])
    found = optimize.minimize(loss, start, method="Nelder-Mead", options={"maxfev": 200}).x
    sill, length, time, nugget = np.exp(found)
    mean, std = np.zeros(values.shape), np.zeros(values.shape)
    for t in range(len(values)):
        rows, columns, when = _window(values, days, t, rng)
        cov = sill * _product(distance, columns, when, length, time)
        decay = np.exp(-np.abs(when - days[t]) / time)
        cross = sill * np.exp(-distance[:, columns] / length) * decay
        factor = linalg.cho_factor(cov + nugget * np.eye(len(cov)), lower=True)
        mean[t] = cross @ linalg.cho_solve(factor, values[rows, columns])
        half = linalg.solve_triangular(factor[0], cross.T, lower=True)
        std[t] = np.sqrt(np.maximum(sill - (half**2).sum(0), 0.0) + nugget)
    return mean, std


def _few(n: int, most: int = 300) -> Array:
    """The same few of n indices every time."""
    return np.sort(np.random.default_rng(1).choice(n, min(n, most), replace=False))


def _window(
    values: Array, days: Array, t: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    rows = np.arange(max(0, t - WINDOW), min(len(values), t + WINDOW + 1))
    r, c = np.nonzero(np.isfinite(values[rows]))
    if len(r) > MOST:
        order = np.argsort(np.abs(rows[r] - t) + rng.uniform(size=len(r)))[:MOST]
        r, c = r[order], c[order]
    return rows[r], c, days[rows[r]]


def _product(distance: Array, columns: Array, when: Array, length: float, time: float) -> Array:
    space = np.exp(-distance[np.ix_(columns, columns)] / length)
    return space * np.exp(-np.abs(when[:, None] - when) / time)


def _minus_log(row: Array, cov: Array, nugget: float) -> float:
    seen = np.isfinite(row)
    if not seen.any():
        return 0.0
    system = cov[np.ix_(seen, seen)] + nugget * np.eye(int(seen.sum()))
    try:
        factor = linalg.cholesky(system, lower=True)
    except linalg.LinAlgError:
        return 1e12
    z = linalg.solve_triangular(factor, row[seen], lower=True)
    return float(np.log(np.diag(factor)).sum() + 0.5 * z @ z)


def _predicted(row: Array, cov: Array, cross: Array, nugget: float) -> tuple[Array, Array]:
    seen = np.isfinite(row)
    if not seen.any():
        return np.zeros(len(row)), np.diag(cov)
    system = cov[np.ix_(seen, seen)] + nugget * np.eye(int(seen.sum()))
    weights = linalg.solve(system, cross[:, seen].T, assume_a="pos")
    variance = np.diag(cov) - (cross[:, seen].T * weights).sum(0)
    return weights.T @ row[seen], np.maximum(variance, 0.0)


RIVALS: dict[str, Predict] = {
    "DINEOF": dineof,
    "kriging in space": kriging,
    "Gaussian process": gaussian_process,
}
