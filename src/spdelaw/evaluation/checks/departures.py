"""Tests of one-step errors against the ways in which a law can be wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.interval import Interval
from spdelaw.evaluation.checks.errors import EstimationErrorSpace, Uncertainty, allowance
from spdelaw.processes.terms import bind

# ---------- One series of errors, made white, and regressions on it
#
# Under the right law no regressor available before a step explains anything: the F statistic of
# a regression of the white errors on it has its textbook distribution. The gain in log-likelihood
# that a richer model promises is ``n/2 log(1 + explained / left)`` less what chance explains, half
# a nat for each number.


Array = np.ndarray

#: Fewest errors of a series that are tested.
FEWEST = 20
#: Size of a direction, relative to that of a change of scale, that differences do not resolve.
ROUNDING = 1e-3
#: Size of a state, relative to the largest of all modes, that is rounding.
NO_STATE = 1e-9
#: Least length of a unit column after projection: shorter ones lie in the space taken out.
LEAST_LENGTH = 0.03
#: Standard error of the logarithm of a variance that is not determined.
UNDETERMINED = 1.0
#: Factor on the uncertainty of a law on its training data, where its parameters cannot be tested.
TRAINING_INFLATION = 1e6


class RegressionSums(NamedTuple):
    """Sums of squares of a regression: explained by ``k`` columns, residual, and its degrees."""

    explained: float
    left: float
    k: int
    n: int

    @property
    def p_value(self) -> float:
        """Of the F statistic; NaN where nothing was regressed."""
        if self.k < 1 or self.n < 5 or self.left <= 0:
            return float("nan")
        f = self.explained / self.k / (self.left / self.n)
        return float(scipy.special.fdtrc(self.k, self.n, f))

    @property
    def gain(self) -> float:
        """Nats that the columns promise beyond chance."""
        if self.left <= 0:
            return 0.0
        n = self.n + self.k
        return max(0.5 * n * float(np.log1p(self.explained / self.left)) - 0.5 * self.k, 0.0)


NO_REGRESSION = RegressionSums(0.0, 0.0, 0, 0)


def pooled(regressions: list[RegressionSums]) -> RegressionSums:
    """Several regressions of series of equal variance as one."""
    some = [sums for sums in regressions if sums.k]
    return (
        RegressionSums(*(sum(column) for column in zip(*some, strict=True)))
        if some
        else NO_REGRESSION
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """Errors of one series at its observed values.

    Attributes:
        at: where they are, boolean (path, time).
        z: standardised by the law, (n,).
        e: white and of variance 1, (n,).
        scale: variance of the errors, 1 under the law.
        log_error: standard error of its logarithm that the estimate of the law alone makes.
        allowance: for what the law may be wrong by.
        at_bound: the same of a decay at its bound of zero, which need not follow its own data.
    """

    at: Array
    z: Array
    e: Array
    scale: float
    log_error: float
    allowance: EstimationErrorSpace
    at_bound: EstimationErrorSpace | None = None

    @property
    def n(self) -> int:
        """How many errors."""
        return len(self.z)

    def column(self, values: Array) -> Array:
        """Values (path, time, ...) where the series is observed; missing values count as zero."""
        return np.nan_to_num(values[self.at])

    def regress(
        self, columns: Array, *, free: Array | None = None, robust: bool = False
    ) -> RegressionSums:
        """White errors on columns (n, k), given others that are free (n, m).

        ``robust``: significant also where the variance of the errors varies (`_robust_square`).
        """
        x, y = self.allowance.whiten(unit(columns)), self.e
        lost = self.allowance.out.shape[1]
        if free is not None:
            basis = span(self.allowance.whiten(unit(free)))
            x, y = x - basis @ (basis.T @ x), y - basis @ (basis.T @ y)
            lost += basis.shape[1]
        basis = span(x)
        along, k = basis.T @ y, basis.shape[1]
        explained, n = float(along @ along), self.n - k - lost
        left = float(y @ y) - explained
        if robust and k:
            explained = min(explained, _robust_square(_meat(basis, y, along), along) * left / n)
        return RegressionSums(explained, left, k, n)


def unit(x: Array) -> Array:
    """Columns of unit length; those of zeros stay."""
    size = np.linalg.norm(x, axis=0)
    return x / np.where(size > 0, size, 1.0)


def span(x: Array) -> Array:
    """Orthonormal columns with the span of ``x``, whose columns once were of unit length.

    Columns that an allowance removes almost entirely hold rounding errors alone.
    """
    if not x.shape[1]:
        return x
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, s > LEAST_LENGTH]


def make_series(
    z: Array,
    slopes: Array,
    growth: Array,
    free: Array,
    estimated: Array,
    uncertainty: Uncertainty,
    index: int,
) -> Series | None:
    """Series ``index`` of errors (path, time); None where too few are observed.

    Args:
        z: errors, (path, time).
        slopes: ``dz / dtheta_j``, (j, path, time).
        growth: ``dlog sigma / dtheta_j``, (j, path, time).
        free: columns that the law leaves free, (path, time, k).
        estimated: columns whose coefficients were estimated from the training data, where there are
            no slopes, (path, time, m): as regressors, each direction has ``n_train`` errors.
        uncertainty: of the parameters.
        index: of the series.
    """
    at = ~np.isnan(z)
    if at.sum() < FEWEST + free.shape[-1]:
        return None
    y, x, root = z[at], np.nan_to_num(slopes[:, at]).T, uncertainty.roots
    if root is None:
        log_error, floor = np.sqrt(2.0 / uncertainty.n_train), 0.0
        x = span(unit(np.nan_to_num(estimated[at])))
        root = np.sqrt(len(y) / uncertainty.n_train) * np.eye(x.shape[1])
    else:
        # As many directions as parameters, whatever the number of columns of the root.
        root = np.asarray(np.linalg.qr(root[:, index].T, mode="r")).T
        grow = np.nan_to_num(growth[:, at]).T @ root
        log_error = float(2.0 * np.linalg.norm(grow.mean(0)))
        # Changes of scale may cancel, as of a fast mode's decay and noise; their rounding does not.
        regress_each = np.abs(np.nan_to_num(growth[:, at])).T @ np.linalg.norm(root, axis=1)
        floor = ROUNDING * float(np.linalg.norm(y * regress_each))
    columns = np.nan_to_num(free[at])
    at_bound = allowance(columns, x, root, floor) if index in uncertainty.at_bound else None
    if uncertainty.on_training_data:
        root, floor = TRAINING_INFLATION * root, TRAINING_INFLATION * floor
    error_space = allowance(columns, x, root, floor)
    e = error_space.whiten(y)
    left = float(e @ e) / (len(y) - error_space.out.shape[1])
    # Maximum likelihood divides by all errors, not by the degrees of freedom left.
    scale = float(y @ y) / len(y) if uncertainty.on_training_data else left
    return Series(at, y, e / np.sqrt(left), scale, log_error, error_space, at_bound)


# ---------- Tests of one-step errors against the ways in which a law can be wrong
#
# Of each series: variance and decay against those of the law, memory (its own past errors),
# normality (Neyman's smooth test). Of all together and each alone: a mean, a trend, a season,
# coupling (states of other modes), correlation of the noise, nonlinear drift (projections of
# ``u^2``, ``u^3`` and products with slopes), noise that grows with the state. Squares are tested
# through ``v = -ndtri(2 ndtr(-|e|))``, which is normal where e is, so that F statistics keep their
# level.


#: Regressors (n, k) of series n, and those that every series may have besides.
Columns = Callable[[int, Series], Array]
Free = Callable[[Series], Array] | None

#: Lags of the test for memory, and how many other modes may couple to one: its nearest.
LAGS, NEIGHBOURS = 10, 30
#: Errors for each regressor.
ERRORS_PER_REGRESSOR = 10
#: Correlations of normalised Legendre polynomials of ``2 ndtr(e) - 1`` with ``e^2 - 1`` and ``e``.
EVEN, ODD = 0.8717275, 0.1830082
#: p-value below which a regression has to be significant with robust standard errors too.
ROBUST_BELOW = 0.05


@dataclasses.dataclass(frozen=True)
class TestResult:
    """One way of being wrong.

    Attributes:
        test: its name.
        p_series: p-value of each series, (S,); NaN where it has none.
        p: of all together, NaN where it has none.
        gain: nats that a law without it promises on these data.
        detail: a number that a sentence may quote.
        numbers: how many such a law has more.
        place: where it is, as text of a sentence.
    """

    test: str
    p_series: Array
    p: float = float("nan")
    gain: float = 0.0
    detail: float = float("nan")
    numbers: float = 0.0
    place: str = ""

    @property
    def expected_gain(self) -> float:
        """Nats on new data: every number that is estimated costs half a nat (Akaike)."""
        return self.gain - 0.5 * self.numbers


def regression(
    test: str, regressions: list[RegressionSums | None], shrink: float = 1.0
) -> TestResult:
    """A departure from regressions of each series; ``shrink`` for an estimated null."""
    shrunk = [
        None if sums is None else sums._replace(explained=sums.explained / shrink)
        for sums in regressions
    ]
    p = [float("nan") if sums is None else sums.p_value for sums in shrunk]
    whole = pooled([sums for sums in shrunk if sums is not None])
    return TestResult(test, np.array(p), whole.p_value, whole.gain, numbers=whole.k)


def regress_each(
    series: list[Series | None], columns: Columns, free: Free = None, robust: bool = False
) -> list[RegressionSums | None]:
    """Regress each series on ``columns(n, series)``, given ``free(series)``."""
    out: list[RegressionSums | None] = []
    for n, one in enumerate(series):
        x = None if one is None else columns(n, one)
        if one is None or x is None or not x.shape[1]:
            out.append(None)
        else:
            out.append(one.regress(x, free=None if free is None else free(one), robust=robust))
    return out


def variance(series: list[Series | None]) -> TestResult:
    """Variance of the errors against 1: F, with the degrees of freedom that the estimate has."""
    p = np.full(len(series), np.nan)
    for i, one in enumerate(series):
        if one is not None and one.log_error < UNDETERMINED:
            n, nu = one.n - one.allowance.out.shape[1], 2.0 / max(one.log_error**2, 2e-7)
            tails = (f(n, nu, one.scale) for f in (scipy.special.fdtr, scipy.special.fdtrc))
            p[i] = min(1.0, 2.0 * min(tails))
    return TestResult("variance", p)


def decay(series: list[Series | None]) -> TestResult:
    """Errors along the directions of the parameters, against what these may be wrong by."""
    p, gain = np.full(len(series), np.nan), 0.0
    for i, one in enumerate(series):
        if one is not None:
            total, k = (one.at_bound or one.allowance).shift(one.z / np.sqrt(one.scale))
            p[i] = scipy.special.fdtrc(k, one.n - k, total / k) if k else np.nan
            gain += max(0.5 * (total - k), 0.0)
    return TestResult("decay", p, gain=gain)


def memory(series: list[Series | None], z: Array) -> TestResult:
    """Errors on their own past."""

    def lags(n: int, one: Series) -> Array:
        most = min(LAGS, z.shape[1] // 4, one.n // ERRORS_PER_REGRESSOR)
        columns = np.zeros((*z.shape[:2], most))
        for lag in range(1, most + 1):
            columns[:, lag:, lag - 1] = z[:, :-lag, n]
        return one.column(columns)

    return regression("memory", regress_each(series, lags))


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


def normality(series: list[Series | None]) -> TestResult:
    """Whether the errors of each series are normal."""
    return TestResult(
        "normality", np.array([np.nan if s is None else normal_p(s.e) for s in series])
    )


def normal_p(e: Array) -> float:
    """Neyman's smooth test: ``sum_k (sum_i g_k(e_i))^2 / (n Var g_k)`` is chi-squared.

    ``g_k`` are Legendre polynomials of ``2 ndtr(e) - 1`` of degree 2 and 3, less their part along
    ``e^2 - 1`` and ``e``, which an estimated variance and mean take out. They grow slowly, so the
    test keeps its level far out, where those of skewness and kurtosis do not; single values far
    out are outliers.
    """
    u = 2.0 * scipy.special.ndtr(e) - 1.0
    even = np.sqrt(5.0) * (1.5 * u**2 - 0.5) - EVEN * (e**2 - 1.0) / np.sqrt(2.0)
    odd = np.sqrt(7.0) * (2.5 * u**3 - 1.5 * u) - ODD * e
    total = even.sum() ** 2 / (1.0 - EVEN**2) + odd.sum() ** 2 / (1.0 - ODD**2)
    return float(scipy.special.chdtrc(2, total / len(e)))


def coupling(series: list[Series | None], state: Array, held: Array, shrink: float) -> TestResult:
    """Errors on the states of other modes; ``held`` (N, N) are pairs that the law couples.

    States that are rounding errors follow the other modes, and drive none.
    """
    size = np.sqrt(np.nansum(state**2, (0, 1)))
    moves = size > NO_STATE * size.max(initial=0.0)

    def others(n: int, one: Series) -> Array:
        near = [m for m in np.flatnonzero(moves) if m != n and not held[n, m]]
        near = sorted(near, key=lambda m: abs(m - n))[
            : min(NEIGHBOURS, one.n // ERRORS_PER_REGRESSOR)
        ]
        return one.column(state[..., near])

    return regression("coupling", regress_each(series, others), shrink)


def correlation(series: list[Series | None]) -> TestResult:
    """Errors of one time on one another: ``sqrt(n - 3) atanh r`` is normal."""
    tested = [one for one in series if one is not None]
    p = np.full(len(series), np.nan)
    if len(tested) < 2:
        return TestResult("correlation", p)
    e = np.full((*tested[0].at.shape, len(tested)), np.nan)
    for i, one in enumerate(tested):
        e[one.at, i] = one.e
    observed = ~np.isnan(e)
    flat = np.where(observed, e, 0.0).reshape(-1, len(tested))
    counts = observed.reshape(-1, len(tested))
    n = np.maximum(counts.T.astype(float) @ counts, 4.0)
    r = np.clip(flat.T @ flat / n, -0.999, 0.999)
    chi = np.where(n > 10, (n - 3.0) * np.arctanh(r) ** 2, 0.0)
    np.fill_diagonal(chi, 0.0)
    k = len(tested) - 1
    p[[i for i, one in enumerate(series) if one is not None]] = scipy.special.chdtrc(k, chi.sum(1))
    total, pairs = 0.5 * float(chi.sum()), 0.5 * k * (k + 1)
    np.fill_diagonal(r, 0.0)
    share = np.abs(np.linalg.eigvalsh(r)).max() ** 2 / max(float((r**2).sum()), 1e-300)
    whole = float(scipy.special.chdtrc(pairs, total))
    gain = max(0.5 * (total - pairs), 0.0)
    return TestResult("correlation", p, whole, gain, float(share), pairs)


def regress_shared(
    test: str, series: list[Series | None], columns: list[Array | None], squares: bool = False
) -> TestResult:
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
        return TestResult(test, nothing)
    k = pairs[0][1].shape[1]
    gram, pull, full, power, n = np.zeros((k, k)), np.zeros(k), np.zeros(k), 0.0, 0
    for one, x in pairs:
        y, white = _whitened(one, x, squares)
        gram, pull, power = gram + white.T @ white, pull + white.T @ y, power + float(y @ y)
        n += one.n - squares - one.allowance.out.shape[1]
        full = full + (x**2).sum(0)
    size = np.sqrt(np.where(full > 0, full, 1.0))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    kept = values > LEAST_LENGTH**2
    onto = vectors[:, kept] / size[:, None] / np.sqrt(values[kept])
    along, k = onto.T @ pull, int(kept.sum())
    explained = float(along @ along)
    sums = RegressionSums(explained, power - explained, k, n - k)
    if not squares and sums.p_value < ROBUST_BELOW:
        sums = max(
            sums,
            _robust_regression(pairs, onto, along, n - k),
            key=lambda candidate: candidate.p_value,
        )
    alone = pull**2 / np.maximum(np.diag(gram), LEAST_LENGTH**2 * np.maximum(full, 1e-300))
    detail = float(np.argmax(alone)) if len(pull) > 1 else float(np.sign(pull[0]))
    return TestResult(test, nothing, sums.p_value, sums.gain, detail, k)


def _whitened(one: Series, x: Array, squares: bool) -> tuple[Array, Array]:
    """Errors and columns of a series for a regression; both less their mean for squares."""
    if not squares:
        return one.e, one.allowance.whiten(x)
    y = normal_squares(one.e)
    return y - y.mean(), x - x.mean(0)


def _robust_regression(
    pairs: list[tuple[Series, Array]], onto: Array, along: Array, n: int
) -> RegressionSums:
    """The same regression where the variance of the errors may vary from value to value.

    With orthonormal regressors ``B = X onto`` and ``t = B' y``: ``t' S^-1 t``, where
    ``S = B' diag(r_i / (1 - h_i))^2 B`` of residuals r and leverages h (MacKinnon and White 1985,
    HC3): noise of uneven variance is no drift.
    """
    meat = np.zeros((len(along), len(along)))
    for one, x in pairs:
        y, white = _whitened(one, x, False)
        meat += _meat(white @ onto, y, along)
    return RegressionSums(_robust_square(meat, along), float(n), len(along), n)


def _meat(basis: Array, y: Array, along: Array) -> Array:
    left = (y - basis @ along) / np.maximum(1.0 - (basis**2).sum(1), LEAST_LENGTH)
    rows = basis * left[:, None]
    return rows.T @ rows


def _robust_square(meat: Array, along: Array) -> float:
    return float(along @ np.linalg.pinv(meat) @ along)


def normal_squares(e: Array) -> Array:
    """``-ndtri(2 ndtr(-|e|))``: standard normal where e is, and large where |e| is."""
    return -scipy.special.ndtri(np.clip(2.0 * scipy.special.ndtr(-np.abs(e)), 1e-300, 1.0 - 1e-12))


def regress_squares(test: str, series: list[Series | None], columns: Columns) -> TestResult:
    """Squares of each series on ``columns(n, series)``, a constant aside."""
    regressions: list[RegressionSums | None] = []
    for n, one in enumerate(series):
        if one is None:
            regressions.append(None)
            continue
        y, x = normal_squares(one.e), columns(n, one)
        y, basis = y - y.mean(), span(unit(x - x.mean(0)))
        explained, k = float(((basis.T @ y) ** 2).sum()), basis.shape[1]
        regressions.append(RegressionSums(explained, float(y @ y) - explained, k, one.n - 1 - k))
    return regression(test, regressions)


# ---------- Terms of a nonlinear drift: projections ``<g(u), h_n>`` of powers and products


#: Values of fields whose powers are computed at once.
BLOCK_VALUES = 1_000_000
#: Most modes for which products are computed on a separate grid.
MOST_MODES = 400
POWERS = ("u^2", "u^3")


def nonlinear_terms(domain: AbstractDomain, n_modes: int) -> tuple[str, ...]:
    """Candidate terms; those with derivatives on an interval or a box alone."""
    if n_modes > MOST_MODES or not isinstance(domain, Interval | Box):
        return POWERS
    slopes = ("u u_x", "u_x^2") if isinstance(domain, Interval) else ("|grad u|^2",)
    return (*POWERS, *slopes)


def projections(
    state: Array, observed: Observed, domain: AbstractDomain, terms: tuple[str, ...]
) -> Array:
    """Each term of states (P, T, N) on the modes, some rows at a time; (terms, P, T, N).

    On an interval or a box products are exact; elsewhere `POWERS` are those at the points of the
    data.
    """
    rows = state.reshape(-1, state.shape[-1])
    exact = None if terms == POWERS else bind(terms, domain, rows.shape[-1])
    basis = observed.basis(rows.shape[-1]) if exact is None else exact.analysis
    out, step = np.empty((len(terms), *rows.shape)), max(1, BLOCK_VALUES // len(basis))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        out[:, start : start + step] = _powers(some, basis) if exact is None else exact.values(some)
    return out.reshape(len(terms), *state.shape)


def _powers(rows: Array, basis: Array) -> Array:
    field, back = rows @ basis.T, np.linalg.pinv(basis).T
    return np.stack([field**2 @ back, field**3 @ back])
