"""Tests of one-step errors against the ways in which a law can be wrong.

Of each series: variance and decay against those of the law, memory (its own past errors), normality
(D'Agostino's omnibus test). Of all together and each alone: a mean, a trend, a season, coupling
(states of other modes), correlation of the noise, drift that bends (projections of ``u^2``, ``u^3``
and products with slopes), noise that grows with the state. Squares are tested through
``v = -ndtri(2 ndtr(-|e|))``, which is normal where e is, so that F statistics keep their level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy

from spdelaw.evaluation._series import LEFT, Explained, Series, span, together, unit

Array = np.ndarray
#: Regressors (n, k) of series n, and those that every series may have besides.
Columns = Callable[[int, Series], Array]
Free = Callable[[Series], Array] | None

#: Lags of the test for memory, and how many other modes may couple to one: its nearest.
LAGS, NEIGHBOURS = 10, 30
#: Errors for each regressor.
ROWS = 10
#: p-value from which on downwards a regression has to stand out with uneven errors too.
SUSPECT = 0.05


@dataclasses.dataclass(frozen=True)
class Departure:
    """One way of being wrong.

    Attributes:
        test: its name.
        p_series: p-value of each series, (S,); NaN where it has none.
        p: of all together, NaN where it has none.
        gain: nats that a law without it promises on these data.
        detail: a number that a sentence may quote.
        numbers: how many such a law has more.
    """

    test: str
    p_series: Array
    p: float = float("nan")
    gain: float = 0.0
    detail: float = float("nan")
    numbers: float = 0.0

    @property
    def promise(self) -> float:
        """Nats on new data: every number that is estimated costs half a nat (Akaike)."""
        return self.gain - 0.5 * self.numbers


def regression(test: str, found: list[Explained | None], shrink: float = 1.0) -> Departure:
    """A departure from regressions of each series; ``shrink`` for an estimated null."""
    parts = [
        None if part is None else part._replace(explained=part.explained / shrink) for part in found
    ]
    p = [float("nan") if part is None else part.p_value for part in parts]
    whole = together([part for part in parts if part is not None])
    return Departure(test, np.array(p), whole.p_value, whole.gain, numbers=whole.k)


def each(
    series: list[Series | None], columns: Columns, free: Free = None
) -> list[Explained | None]:
    """Regress each series on ``columns(n, series)``, given ``free(series)``."""
    out: list[Explained | None] = []
    for n, one in enumerate(series):
        x = None if one is None else columns(n, one)
        if one is None or x is None or not x.shape[1]:
            out.append(None)
        else:
            out.append(one.regress(x, free=None if free is None else free(one)))
    return out


def variance(series: list[Series | None]) -> Departure:
    """Variance of the errors against 1: F, with the degrees of freedom that the estimate has."""
    p = np.full(len(series), np.nan)
    for i, one in enumerate(series):
        if one is not None:
            n, nu = one.n - one.allowance.out.shape[1], min(2.0 / one.log_error**2, 1e7)
            tails = (f(n, nu, one.scale) for f in (scipy.special.fdtr, scipy.special.fdtrc))
            p[i] = min(1.0, 2.0 * min(tails))
    return Departure("variance", p)


def decay(series: list[Series | None]) -> Departure:
    """Errors along the directions of the parameters, against what these may be wrong by."""
    p = np.full(len(series), np.nan)
    for i, one in enumerate(series):
        if one is not None:
            total, k = one.allowance.shift(one.z / np.sqrt(one.scale))
            p[i] = scipy.special.fdtrc(k, one.n - k, total / k) if k else np.nan
    return Departure("decay", p)


def memory(series: list[Series | None], z: Array) -> Departure:
    """Errors on their own past."""

    def lags(n: int, one: Series) -> Array:
        most = min(LAGS, z.shape[1] // 4, one.n // ROWS)
        columns = np.zeros((*z.shape[:2], most))
        for lag in range(1, most + 1):
            columns[:, lag:, lag - 1] = z[:, :-lag, n]
        return one.column(columns)

    return regression("memory", each(series, lags))


def lag_one(series: list[Series | None]) -> float:
    """Mean correlation of white errors with the ones before, weighted by their number."""
    total = count = 0.0
    for one in series:
        if one is not None:
            e = np.full(one.at.shape, np.nan)
            e[one.at] = one.e
            pairs = e[:, 1:] * e[:, :-1]
            total, count = total + float(np.nansum(pairs)), count + int((~np.isnan(pairs)).sum())
    return total / max(count, 1.0)


def normality(series: list[Series | None]) -> Departure:
    """D'Agostino's transformed skewness and kurtosis: they keep their level far out."""
    from scipy import stats  # slow to import, and needed here only

    p = [np.nan if one is None else float(stats.normaltest(one.e).pvalue) for one in series]
    return Departure("normality", np.array(p, float))


def coupling(series: list[Series | None], state: Array, held: Array, shrink: float) -> Departure:
    """Errors on the states of other modes; ``held`` (N, N) are pairs that the law couples."""

    def others(n: int, one: Series) -> Array:
        near = [m for m in range(state.shape[-1]) if m != n and not held[n, m]]
        near = sorted(near, key=lambda m: abs(m - n))[: min(NEIGHBOURS, one.n // ROWS)]
        return one.column(state[..., near])

    return regression("coupling", each(series, others), shrink)


def correlation(series: list[Series | None]) -> Departure:
    """Errors of one time on one another: ``sqrt(n - 3) atanh r`` is normal."""
    there = [one for one in series if one is not None]
    p = np.full(len(series), np.nan)
    if len(there) < 2:
        return Departure("correlation", p)
    e = np.full((*there[0].at.shape, len(there)), np.nan)
    for i, one in enumerate(there):
        e[one.at, i] = one.e
    seen = ~np.isnan(e)
    flat, counts = np.where(seen, e, 0.0).reshape(-1, len(there)), seen.reshape(-1, len(there))
    n = np.maximum(counts.T.astype(float) @ counts, 4.0)
    r = np.clip(flat.T @ flat / n, -0.999, 0.999)
    chi = np.where(n > 10, (n - 3.0) * np.arctanh(r) ** 2, 0.0)
    np.fill_diagonal(chi, 0.0)
    k = len(there) - 1
    p[[i for i, one in enumerate(series) if one is not None]] = scipy.special.chdtrc(k, chi.sum(1))
    total, pairs = 0.5 * float(chi.sum()), 0.5 * k * (k + 1)
    np.fill_diagonal(r, 0.0)
    share = np.abs(np.linalg.eigvalsh(r)).max() ** 2 / max(float((r**2).sum()), 1e-300)
    whole = float(scipy.special.chdtrc(pairs, total))
    gain = max(0.5 * (total - pairs), 0.0)
    return Departure("correlation", p, whole, gain, float(share), pairs)


def shared(
    test: str, series: list[Series | None], columns: list[Array | None], squares: bool = False
) -> Departure:
    """All series on columns (n, k) with coefficients they share.

    ``detail``: sign of a single one, or which of several explains most alone.
    """
    pairs = [
        (one, x)
        for one, x in zip(series, columns, strict=True)
        if one is not None and x is not None
    ]
    nothing = np.full(len(series), np.nan)
    if not pairs:
        return Departure(test, nothing)
    k = pairs[0][1].shape[1]
    gram, pull, full, power, n = np.zeros((k, k)), np.zeros(k), np.zeros(k), 0.0, 0
    for one, x in pairs:
        y, white = _white(one, x, squares)
        gram, pull, power = gram + white.T @ white, pull + white.T @ y, power + float(y @ y)
        n += one.n - squares - one.allowance.out.shape[1]
        full = full + (x**2).sum(0)
    size = np.sqrt(np.where(full > 0, full, 1.0))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    kept = values > LEFT**2
    onto = vectors[:, kept] / size[:, None] / np.sqrt(values[kept])
    along, k = onto.T @ pull, int(kept.sum())
    explained = float(along @ along)
    found = Explained(explained, power - explained, k, n - k)
    if not squares and found.p_value < SUSPECT:
        found = max(found, _uneven(pairs, onto, along, n - k), key=lambda part: part.p_value)
    alone = pull**2 / np.maximum(np.diag(gram), LEFT**2 * np.maximum(full, 1e-300))
    detail = float(np.argmax(alone)) if len(pull) > 1 else float(np.sign(pull[0]))
    return Departure(test, nothing, found.p_value, found.gain, detail, k)


def _white(one: Series, x: Array, squares: bool) -> tuple[Array, Array]:
    """Errors and columns of a series for a regression; both less their mean for squares."""
    if not squares:
        return one.e, one.allowance.whiten(x)
    y = normal_squares(one.e)
    return y - y.mean(), x - x.mean(0)


def _uneven(pairs: list[tuple[Series, Array]], onto: Array, along: Array, n: int) -> Explained:
    """The same regression where errors may be larger at some places than at others.

    With orthonormal regressors ``B = X onto`` and ``t = B' y``: ``t' S^-1 t``, where
    ``S = B' diag(r_i / (1 - h_i))^2 B`` of residuals r and leverages h (MacKinnon and White 1985,
    HC3): uneven noise is no drift.
    """
    meat = np.zeros((len(along), len(along)))
    for one, x in pairs:
        y, white = _white(one, x, False)
        basis = white @ onto
        left = (y - basis @ along) / np.maximum(1.0 - (basis**2).sum(1), LEFT)
        rows = basis * left[:, None]
        meat += rows.T @ rows
    return Explained(float(along @ np.linalg.pinv(meat) @ along), float(n), len(along), n)


def normal_squares(e: Array) -> Array:
    """``-ndtri(2 ndtr(-|e|))``: standard normal where e is, and large where |e| is."""
    return -scipy.special.ndtri(np.clip(2.0 * scipy.special.ndtr(-np.abs(e)), 1e-300, 1.0 - 1e-12))


def of_squares(test: str, series: list[Series | None], columns: Columns) -> Departure:
    """Squares of each series on ``columns(n, series)``, a constant aside."""
    found: list[Explained | None] = []
    for n, one in enumerate(series):
        if one is None:
            found.append(None)
            continue
        y, x = normal_squares(one.e), columns(n, one)
        y, basis = y - y.mean(), span(unit(x - x.mean(0)))
        explained, k = float(((basis.T @ y) ** 2).sum()), basis.shape[1]
        found.append(Explained(explained, float(y @ y) - explained, k, one.n - 1 - k))
    return regression(test, found)
