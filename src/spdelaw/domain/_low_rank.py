"""Leading singular vectors of a large matrix, with or without gaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.errors import ConvergenceError

Array = np.ndarray

#: Extra directions, and passes over the matrix, of the randomised method.
OVERSAMPLING, PASSES = 12, 4
#: Shorter side up to which a matrix with gaps is factored exactly.
SMALL = 400
#: Relative change of the filled values at which iterations stop, and the most of them.
TOLERANCE, MOST_ROUNDS = 1e-6, 500


class LowRank(NamedTuple):
    """``X ~ U diag(values) V'``: singular values (r,) and right vectors (M, r)."""

    values: Array
    right: Array


def randomised_svd(x: Array, rank: int, generator: np.random.Generator) -> LowRank:
    """Leading right singular vectors by a random range finder with power iterations.

    Halko, Martinsson and Tropp (2011), algorithms 4.4 and 5.1: the error of each singular value
    falls by the square of the spectral gap in every pass.
    """
    width = min(rank + OVERSAMPLING, *x.shape)
    q = np.linalg.qr(x.T @ generator.standard_normal((len(x), width)))[0]
    for _ in range(PASSES):
        q = np.linalg.qr(x.T @ np.linalg.qr(x @ q)[0])[0]
    _, s, v = np.linalg.svd(x @ q, full_matrices=False)
    return LowRank(s[:rank], (q @ v.T)[:, :rank])


def fill_and_factor(x: Array, rank: int, generator: np.random.Generator) -> LowRank:
    """The same where NaN marks gaps: each gap is filled by the low-rank fit of the rest.

    Rounds of filling and factoring go on where no gap changes. The fit shrinks each singular
    value by the share that white noise has in it, as estimated from the known entries: without
    that, a column with few entries would ask for any value in its gaps (Josse and Husson 2012).
    Rounds are sped up by momentum, which starts anew whenever changes grow.
    """
    gaps = np.isnan(x)
    if not gaps.any():
        return randomised_svd(x, rank, generator)
    filled = np.where(gaps, 0.0, x)
    scale = np.sqrt(np.mean(filled[~gaps] ** 2))
    change, before, age = np.inf, filled[gaps], 0
    found = randomised_svd(filled, rank, generator)
    for _ in range(MOST_ROUNDS):
        fit = _shrunk_fit(filled, found, gaps)[gaps]
        last, change = change, float(np.sqrt(np.mean((fit - filled[gaps]) ** 2)))
        age = 0 if change > last else age + 1
        filled[gaps] = fit + age / (age + 3.0) * (fit - before)
        before = fit
        found = _refactor(filled, found, rank, generator)
        if change <= TOLERANCE * scale:
            return found
    expected = f"gaps filled to {TOLERANCE:g} in {MOST_ROUNDS} rounds"
    got, fix = f"a change of {change / scale:.1e}", "ask for fewer modes, or drop empty rows"
    raise ConvergenceError("Empirical", expected=expected, got=got, fix=fix)


def _shrunk_fit(filled: Array, found: LowRank, gaps: Array) -> Array:
    """``X V diag(d) V'`` with ``d = 1 - noise / s^2``, noise that of the known entries."""
    rows, columns = filled.shape
    amplitude = filled @ found.right
    left = np.mean((filled - amplitude @ found.right.T)[~gaps] ** 2)
    # Of all entries the r patterns take r (rows + columns - r) degrees of freedom.
    r = len(found.values)
    free = max(1.0 - r * (rows + columns - r) / (rows * columns), 1e-3)
    noise = left / free * max(rows, columns)
    keep = np.clip(1.0 - noise / np.maximum(found.values**2, 1e-300), 0.0, 1.0)
    return (amplitude * keep) @ found.right.T


def _refactor(x: Array, last: LowRank, rank: int, generator: np.random.Generator) -> LowRank:
    """Singular vectors of a matrix that changed a little: exact where it is small."""
    if min(x.shape) <= SMALL:
        wide = x.shape[0] >= x.shape[1]
        values, vectors = np.linalg.eigh(x.T @ x if wide else x @ x.T)
        s = np.sqrt(np.maximum(values[::-1][:rank], 0.0))
        v = vectors[:, ::-1][:, :rank]
        return LowRank(s, v if wide else x.T @ v / np.maximum(s, 1e-300))
    start = np.hstack([last.right, generator.standard_normal((x.shape[1], OVERSAMPLING))])
    q = np.linalg.qr(x.T @ (x @ start))[0]
    q = np.linalg.qr(x.T @ (x @ q))[0]
    _, s, v = np.linalg.svd(x @ q, full_matrices=False)
    return LowRank(s[:rank], (q @ v.T)[:, :rank])
