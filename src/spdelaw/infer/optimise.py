"""Maximum of a smooth log-posterior in coordinates scaled to standard errors."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError, SpdeLawError
from spdelaw.infer.model import Decision
from spdelaw.infer.parameters import Parametrisation
from spdelaw.law.likelihood import Numbers
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.statistics import Statistics

if TYPE_CHECKING:
    from spdelaw.infer.objective import LogPosterior


# ---------- Progress reports of a search
#
# Fits that end within two seconds report nothing. The number of remaining evaluations is unknown.


#: Seconds of silence at the start, and between two reports.
PATIENCE, REPORT_INTERVAL = 2.0, 1.0


@dataclasses.dataclass(frozen=True)
class SearchProgress:
    """State of a fit.

    Attributes:
        evaluations: of the likelihood so far.
        log_likelihood: highest of the present search.
        gain: of it since the last report; NaN where another search has begun.
        seconds: since the fit began.
    """

    evaluations: int
    log_likelihood: float
    gain: float
    seconds: float

    def __str__(self) -> str:
        """One line."""
        gained = "" if self.gain != self.gain else f"  gained {self.gain:.3g}"
        return (
            f"{self.evaluations} evaluations  log-likelihood {self.log_likelihood:.8g}{gained}  "
            f"{self.seconds:.0f} s"
        )


class Watch:
    """Counts evaluations and reports now and then."""

    def __init__(self, report: Callable[[SearchProgress], None]) -> None:
        self.report, self.evaluations = report, 0
        self.begin = self.last = time.monotonic()
        self.best = self.reported = -float("inf")

    def search(self) -> None:
        """Another search begins, whose likelihood may be one of other numbers."""
        self.best, self.reported = -float("inf"), float("nan")

    def count(self, value: float) -> None:
        """Take one evaluation into account."""
        self.evaluations, self.best = self.evaluations + 1, max(self.best, value)
        now = time.monotonic()
        if now - self.begin < PATIENCE or now - self.last < REPORT_INTERVAL:
            return
        gain, self.reported, self.last = self.best - self.reported, self.best, now
        self.report(SearchProgress(self.evaluations, self.best, gain, now - self.begin))


_CURRENT: ContextVar[Watch | None] = ContextVar("watch", default=None)


def current_watch() -> Watch | None:
    """The watch of the present fit."""
    return _CURRENT.get()


@contextlib.contextmanager
def watched(progress: Any) -> Iterator[None]:
    """Watch all searches inside.

    Args:
        progress: False or None for silence, True for lines on standard error, or a function of
            `SearchProgress`.
    """
    if progress is None or progress is False:
        yield
        return
    token = _CURRENT.set(Watch(_print if progress is True else progress))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _print(state: SearchProgress) -> None:
    print(state, file=sys.stderr, flush=True)


# ---------- The information around a point, factored: Newton steps and flat directions
#
# In coordinates scaled to standard errors, by Cholesky where the matrix is well conditioned and by
# eigenvectors elsewhere.


Array = np.ndarray


class FactoredHessian(NamedTuple):
    """Information in scaled coordinates, factored once.

    Attributes:
        scale: rough standard errors.
        factor: lower Cholesky factor of the information with rows and columns backwards, where it
            has one and no direction without information.
        values, vectors: eigenvalues and eigenvectors where not.
    """

    scale: Array
    factor: Array | None
    values: Array
    vectors: Array

    @classmethod
    def of(cls, information: Array, scale: Array) -> FactoredHessian:
        """Factor by Cholesky, or by eigenvectors where that fails."""
        scale = balanced(information, scale)
        scaled = scale[:, None] * information * scale
        factor = well_conditioned_factor(scaled[::-1, ::-1])
        if factor is not None:
            return cls(scale, factor, np.ones(0), np.ones((len(scale), 0)))
        return cls(scale, None, *np.linalg.eigh(scaled))

    def step(self, gradient: Array) -> Array:
        """Newton step on the directions that carry information, uphill also at a saddle.

        No coordinate moves by more than three standard errors or one, whichever is more.
        """
        slope, scale = self.scale * gradient, self.scale
        if self.factor is not None:
            factorisation = (self.factor, True)
            step = scipy.linalg.cho_solve(factorisation, slope[::-1], check_finite=False)[::-1]
        else:
            sizes = np.abs(self.values)
            usable = sizes > 1e-6 * max(sizes.max(initial=0.0), 1e-12)
            vectors = self.vectors[:, usable]
            step = vectors @ ((vectors.T @ slope) / sizes[usable])
        longest = max(np.abs(step).max(initial=0.0), 1e-300)
        farthest = max(np.abs(scale * step).max(initial=0.0), 1e-300)
        return np.asarray(scale * step * min(1.0, max(3.0 / longest, 1.0 / farthest)))

    @property
    def is_saddle(self) -> bool:
        """Whether the log-likelihood bends up in some direction."""
        most = max(self.values.max(initial=0.0), 1e-12)
        return bool(self.values.min(initial=0.0) < -1e-6 * most)

    def decrement(self, gradient: Array) -> float:
        """Log-likelihood that a step gains where it is quadratic."""
        return float(0.5 * gradient @ self.step(gradient))

    def uphill(self, gradient: Array) -> float:
        """Slope in the directions without curvature, which a Newton step leaves out."""
        flat = self.vectors[:, self.values <= 1e-6 * max(self.values.max(initial=0.0), 1e-12)]
        return float(np.linalg.norm(flat.T @ (self.scale * gradient)))


def balanced(information: Array, scale: Array) -> Array:
    """Rough standard errors, reduced where the information shows smaller ones.

    Next to a coordinate whose rough error is hundreds of times too large, every other direction
    looks as if it had no information.
    """
    return scale / np.sqrt(np.maximum(scale**2 * np.diag(information), 1.0))


def well_conditioned_factor(matrix: Array) -> Array | None:
    """Lower Cholesky factor of a symmetric matrix whose condition number is below 1e5, or None."""
    if not len(matrix) or not np.isfinite(matrix).all():
        return None
    # Symmetric: rows of a C array are the columns that LAPACK expects.
    factor, failed = scipy.linalg.lapack.dpotrf(np.ascontiguousarray(matrix).T, lower=1, clean=1)
    if failed:
        return None
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.abs(matrix).sum(0).max(), uplo="L")
    return factor if reciprocal > 1e-5 else None


# ---------- Curvature of a log-posterior from differences of its score


SmoothFunction = Callable[[Array], tuple[float, Array]]

#: Step of the differences of the score, in standard errors.
DIFFERENCE_STEP = 0.02
#: Number of coordinates from which one-sided differences are tried, and their step.
ONE_SIDED, SMALL_STEP = 24, 1e-4
#: Asymmetry of one-sided differences, relative to the diagonal, above which central ones follow;
#: number of coordinates after which it is checked first; information, relative to that of the
#: rough standard errors, below which a coordinate has none.
ASYMMETRY, FIRST_CHECK, UNINFORMED = 1e-4, 10, 1e-3
#: Owner of a coordinate that all modes share.
SHARED = -1


def difference_information(
    objective: SmoothFunction,
    x: Array,
    scale: Array,
    n_plain: int,
    known_block: Callable[[Array], Array],
    owners: Array | None = None,
) -> Array:
    """``-d2 log p`` by differences of the analytic score; symmetric (p, p).

    Central ones; of many coordinates one-sided ones, as long as these are symmetric.

    Args:
        objective: value and gradient.
        x: where, (p,).
        scale: rough standard errors, (p,).
        n_plain: coordinates to difference; the curvature among the others is ``known_block(x)``.
        known_block: curvature among the others.
        owners: where the likelihood does not couple modes, the mode that each coordinate belongs
            to, `SHARED` for none; (p,). Coordinates of different modes are then moved at once, so
            that the number of evaluations does not grow with the number of modes.
    """
    information = None
    if owners is None and n_plain >= ONE_SIDED:
        information = _forward_differences(objective, x, scale, n_plain)
    if information is None:
        information = _central_differences(objective, x, scale, n_plain, owners)
    if n_plain < len(x):
        information[n_plain:, n_plain:] = known_block(x)
    return information


def _central_differences(
    objective: SmoothFunction, x: Array, scale: Array, n_plain: int, owners: Array | None
) -> Array:
    size = len(x)
    owners = np.full(size, SHARED) if owners is None else owners
    information, count = np.zeros((size, size)), np.zeros((size, size))
    for group in _simultaneous_groups(owners[:n_plain]):
        step = np.zeros(size)
        step[group] = DIFFERENCE_STEP * scale[group]
        slope = 0.5 * (objective(x - step)[1] - objective(x + step)[1])
        rows, columns = _determined_entries(owners, group)
        information[rows, columns] += slope[rows] / step[columns]
        count[rows, columns] += 1.0
    # Entries computed twice, as row and as column, are averaged.
    both = count + count.T
    return np.asarray((information + information.T) / np.maximum(both, 1.0))


def _forward_differences(
    objective: SmoothFunction, x: Array, scale: Array, n_plain: int
) -> Array | None:
    """One-sided differences; None where rounding or a change of curvature shows.

    Curvature is symmetric, and its columns are computed one by one: two entries that should agree
    differ about as much as either is wrong.
    """
    here, columns = objective(x)[1], np.zeros((len(x), n_plain))
    for j in range(n_plain):
        step = np.zeros(len(x))
        step[j] = SMALL_STEP * scale[j]
        columns[:, j] = (here - objective(x + step)[1]) / step[j]
        if j + 1 in (FIRST_CHECK, n_plain):
            square = columns[: j + 1, : j + 1]
            size = np.sqrt(np.maximum(np.abs(np.diag(square)), UNINFORMED / scale[: j + 1] ** 2))
            if not (np.abs(square - square.T) <= ASYMMETRY * np.outer(size, size)).all():
                return None
    information = np.zeros((len(x),) * 2)
    information[:, :n_plain] = columns
    information[:n_plain, n_plain:] = columns[n_plain:].T
    information[:n_plain, :n_plain] = 0.5 * (square + square.T)
    return information


def _simultaneous_groups(owners: Array) -> Iterator[Array]:
    """Coordinates to move at once: one of each mode, or one that all share."""
    yield from np.flatnonzero(owners == SHARED)[:, None]
    left = np.flatnonzero(owners != SHARED)
    while left.size:
        _, first = np.unique(owners[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def _determined_entries(owners: Array, group: Array) -> tuple[Array, Array]:
    """Rows and columns of the information that moving a group determines."""
    if owners[group[0]] == SHARED:
        return np.arange(len(owners)), np.repeat(group, len(owners))
    column_of = dict(zip(owners[group].tolist(), group.tolist(), strict=True))
    rows = [i for i, owner in enumerate(owners.tolist()) if owner in column_of]
    return np.array(rows), np.array([column_of[int(owners[i])] for i in rows])


# ---------- Maximum of a smooth log-posterior in coordinates scaled to standard errors
#
# Every coordinate is divided by a rough standard error, so that curvature is near one, steps
# are of natural size and a gradient of 1e-4 means one ten-thousandth of a standard error.


#: Information at a point, for coordinates of these rough standard errors.
Curvature = Callable[[Array, Array], Array]

#: Log-likelihood that a further Newton step may gain: half the squared step in standard errors.
#: Polishing ends at the first; above the second, 0.04 of a standard error, the law has a warning;
#: above the third, a tenth of one, the search has not converged.
POLISHED_GAIN, NEAR_GAIN, UNCONVERGED_GAIN = 1e-4, 1e-3, 5e-3
#: Gain of the last Newton step. The same data in other pieces, whose sums differ by rounding, then
#: have the same law to nine digits.
LAST_STEP_GAIN = 1e-16
#: Gain per coordinate up to which curvature that takes long is not computed again: a fifth of a
#: standard error each.
MOVED_GAIN = 0.02
#: Slope, in log-likelihood per standard error, that a direction without curvature may have.
UPHILL_TOLERANCE = 0.1
#: Gain of Newton steps above which they have left a saddle, so that the search restarts there, and
#: the number of searches.
SADDLE_GAIN, SEARCH_ROUNDS = 1.0, 3
#: Largest number of iterations of a quasi-Newton method.
MOST_ITERATIONS = 300
#: Number of coordinates above which a search keeps its last steps in place of a matrix; how many.
LIMITED_MEMORY, MEMORY_STEPS = 150, 60
#: Ratio of standard errors to rough ones below which the latter are too large for differences.
COARSE_RATIO = 0.2
#: Slopes, in log-likelihood per rough standard error, at which a search and a rough one end.
SEARCH_SLOPE, ROUGH_SLOPE = 1e-4, 1e-3
#: Rough seconds of one evaluation above which the work is bounded.
SLOW = 5e-3
#: Bounds for slow evaluations: rough seconds of one maximisation, and of differences for curvature.
#: Evaluations are counted, not seconds, so that the same data have the same law on every machine.
SEARCH_SECONDS, DIFFERENCE_SECONDS = 5.0, 1.5
#: Evaluations that a maximisation may always take.
MINIMUM_EVALUATIONS = 150
#: A search with bounded work that gains less than this in so many iterations crawls along a ridge
#: outside its scale: it ends, and curvature takes over.
CRAWL_GAIN, CRAWL_ITERATIONS = 0.01, 20
#: Stands for minus a log-likelihood that cannot be computed.
NO_LIKELIHOOD = 1e300
#: Longest step of a quasi-Newton search in rough standard errors or in coordinates, logarithms most
#: of them, whichever is more; share of the expected rise that is enough; trials along a step.
LONGEST_ERRORS, LONGEST_STEP, SUFFICIENT_SHARE, MOST_HALVINGS = 10.0, 2.0, 1e-4, 12
#: What to try where a search ends short.
ADVICE = (
    "subtract means and cycles first (anomalies); check the domain, its boundary (a wrong basis "
    "has no maximum) and the unit of time; else fit fewer modes, fix or tie parameters "
    "(drift='parametric'), or give a prior"
)


class Optimum(NamedTuple):
    """Maximum with its curvature.

    Attributes:
        x: coordinates, (p,).
        value: log-posterior.
        information: minus the Hessian, (p, p).
        n_evaluations: how often the objective was computed, the Hessian included.
        decrement: log-likelihood that a further Newton step would gain; NaN where not computed.
        uphill: slope, in log-likelihood per standard error, in directions without curvature.
        hessian: the factored information, where computed.
        curvature: how the information was computed: "analytic", "expected", "differenced" or
            "none".
        scores: of each term of the log-likelihood, (n, p), where the search went by these.
        mixed: ``d2 log p / dm dx`` by the mean of a law, (N, p); without rows where there is none.
    """

    x: Array
    value: float
    information: Array
    n_evaluations: int
    decrement: float
    uphill: float = 0.0
    hessian: FactoredHessian | None = None
    curvature: str = "none"
    scores: Array | None = None
    mixed: Array = np.zeros((0, 0))

    @property
    def is_bounded(self) -> bool:
        """Whether the likelihood bends down in every direction in which it rises."""
        return self.uphill < UPHILL_TOLERANCE and not np.isinf(self.decrement)

    @property
    def converged(self) -> bool:
        """Whether a maximum was reached."""
        return self.is_bounded and not self.decrement >= UNCONVERGED_GAIN

    @property
    def note(self) -> str | None:
        """Warning of a law whose search ended short of the maximum."""
        if not self.is_bounded:
            slope = f", by {self.uphill:.2g} per standard error" if np.isfinite(self.uphill) else ""
            return (
                "the optimiser did not converge: the log-likelihood keeps increasing along one "
                f"direction{slope}; {ADVICE}"
            )
        if not self.decrement > NEAR_GAIN:
            return None
        short = f"{np.sqrt(2.0 * self.decrement):.2f} standard errors short of the maximum"
        if self.converged:
            return f"the optimiser stopped {short}: the likelihood is nearly flat there"
        return (
            f"the optimiser stopped {short}: about {self.decrement:.2g} more log-likelihood is "
            f"possible; {ADVICE}"
        )


def maximise(
    posterior: LogPosterior, *, polish: bool = True, search: bool = True, rough: bool = False
) -> Optimum:
    """Maximum reached from the origin, polished by Newton steps, or where the search ended.

    `ConvergenceError` only where there is no likelihood to start from.

    Args:
        posterior: the objective. Its curvature is analytic where there is a formula, expected
            where differences take too long, and differenced elsewhere.
        polish: False looks neither at curvature nor at convergence.
        search: False takes the origin as close to the maximum: Newton steps alone.
        rough: stop where slopes are a fraction of a nat per standard error; never polished.
    """
    if (by_scores := posterior.maximum_by_scores()) is not None:
        return by_scores
    scale, seconds, n_plain = posterior.scale, posterior.seconds, posterior.n_plain
    most = max(SEARCH_SECONDS / seconds, MINIMUM_EVALUATIONS) if seconds >= SLOW else np.inf
    counted, mixed = Counted(posterior.at, most), np.zeros((0, len(scale)))
    is_long = seconds >= SLOW and 2.0 * n_plain * seconds > DIFFERENCE_SECONDS
    curvature_kind = "none"

    def curvature(x: Array, scale: Array) -> Array:
        nonlocal curvature_kind, mixed
        information, curvature_kind = posterior.exact_information(x), "analytic"
        if information is None and is_long:
            information, curvature_kind = posterior.expected_information(x), "expected"
        if information is None:
            curvature_kind = "differenced"
            information, mixed = posterior.differenced_information(counted, x, scale)
            finer = balanced(information, scale)
            if (finer < COARSE_RATIO * scale).any():
                # Differences over many standard errors are no curvature.
                information, mixed = posterior.differenced_information(counted, x, finer)
        return information

    x = np.zeros(len(scale))
    if search:
        slope = ROUGH_SLOPE if rough else SEARCH_SLOPE
        x, value, scale = _search(counted, x, scale, curvature, slope)
    if rough or not polish:
        flat = np.diag(1.0 / scale**2)
        return Optimum(x, value, flat, counted.calls, np.nan)
    for rounds_left in reversed(range(SEARCH_ROUNDS if search else 1)):
        polished = _polish(counted, x, scale, curvature, rounds_left > 0)
        x, start, gradient, information, value, hessian = polished
        decrement = np.nan_to_num(hessian.decrement(gradient), nan=np.inf)
        if not rounds_left or counted.is_spent:
            break
        if value - start < (POLISHED_GAIN if decrement > UNCONVERGED_GAIN else SADDLE_GAIN):
            higher_point = _off_saddle(counted, x, value, hessian)
            if higher_point is None:
                break
            x = higher_point
        x, value, _ = _search(counted, x, scale, curvature)
    uphill = hessian.uphill(gradient)
    report = (counted.calls, float(decrement), uphill, hessian, curvature_kind)
    return Optimum(x, value, information, *report, mixed=mixed)


class Counted:
    """An objective that counts its calls, and has no likelihood where it cannot be computed.

    ``most`` is how many calls a search may make; a last curvature may exceed it. A search ends
    where the next step begins: the last point is not computed again.
    """

    def __init__(self, objective: Callable[[Array], tuple], most: float = np.inf) -> None:
        self.objective, self.calls, self.watch = objective, 0, current_watch()
        self.most, self.last = most, (objective, np.full(1, np.nan), (np.nan, np.zeros(0)))
        if self.watch is not None:
            self.watch.search()

    @property
    def is_spent(self) -> bool:
        """Whether the allowed number of calls is used up."""
        return self.calls >= self.most

    def __call__(
        self, x: Array, objective: Callable[[Array], tuple] | None = None
    ) -> tuple[float, Array]:
        """Value and gradient, or those of another objective.

        Minus infinity where a trial step went too far.
        """
        objective = objective or self.objective
        if objective == self.last[0] and np.array_equal(x, self.last[1]):
            return self.last[2]
        self.calls += 1
        with np.errstate(all="ignore"):
            try:
                value, gradient = objective(x)[:2]
            except SpdeLawError:
                raise
            except (ArithmeticError, ValueError):  # LinAlgError is a ValueError
                return -np.inf, np.full_like(x, np.nan)
        if self.watch is not None:
            self.watch.count(value)
        self.last = objective, x.copy(), (value, gradient)
        return value, gradient


def _search(
    objective: Counted, x: Array, scale: Array, curvature: Curvature, slope: float = SEARCH_SLOPE
) -> tuple[Array, float, Array]:
    """Point near the maximum, its value, and the scale of the curvature around it."""
    x, value = _quasi_newton(objective, x, scale, slope)
    if not abs(value) < NO_LIKELIHOOD:
        expected, got = "a likelihood to start from", "none that is finite"
        raise ConvergenceError("fit", expected=expected, got=got, fix=ADVICE)
    for _ in range(3):
        # Where the data say less than the scale supposes, the method stops short of the
        # maximum; it goes on in the scale of the curvature found there.
        if objective.is_spent or np.abs(scale * objective(x)[1]).max(initial=0.0) < 0.05:
            break
        information = curvature(x, scale)
        scale = 1.0 / np.sqrt(np.fmax(np.abs(np.diag(information)), 0.1))  # not NaN
        x, value = _quasi_newton(objective, x, scale, slope)
    return x, value, scale


def _quasi_newton(
    objective: Counted, start: Array, scale: Array, slope: float
) -> tuple[Array, float]:
    """Highest point and its value; the methods work in units of ``scale``."""

    def scaled(u: Array) -> tuple[float, Array]:
        value, gradient = objective(start + scale * u)
        return value, gradient * scale

    progress: list[float] = []

    def ends(value: float) -> bool:
        progress.append(value)
        past = progress[-1 - CRAWL_ITERATIONS :]
        crawls = len(past) > CRAWL_ITERATIONS and past[-1] - past[0] < CRAWL_GAIN
        return objective.most < np.inf and (objective.is_spent or crawls)

    if not len(start):  # everything is held
        return start, objective(start)[0]
    method = _bfgs if len(start) <= LIMITED_MEMORY else _limited_memory_bfgs
    u, value = method(scaled, scale, slope, ends)
    return start + scale * u, value


def _bfgs(
    scaled: SmoothFunction, scale: Array, least: float, ends: Callable[[float], bool]
) -> tuple[Array, float]:
    """Quasi-Newton steps of bounded length, as far as slopes of ``least``.

    From a rough start an unbounded step takes the logarithm of a rate to where nothing depends on
    it, and no slope leads back.
    """
    u, metric = np.zeros(len(scale)), np.eye(len(scale))
    value, gradient = scaled(u)
    for i in range(MOST_ITERATIONS):
        if not np.isfinite(value) or np.abs(gradient).max() < least or ends(value):
            break
        step = metric @ gradient
        if not step @ gradient > 0.0:
            metric, step = np.eye(len(scale)), gradient
        longest, farthest = np.abs(step).max(), np.abs(scale * step).max()
        length = min(1.0, max(LONGEST_ERRORS / longest, LONGEST_STEP / farthest))
        length = length if i else min(length, 1.0 / float(np.linalg.norm(step)))
        higher = _higher_point(scaled, u, value, length * step, length * float(step @ gradient))
        if higher is None:
            break
        metric = learned_metric(metric, higher[0] - u, gradient - higher[2])
        u, value, gradient = higher
    return u, value


def _higher_point(
    scaled: SmoothFunction, u: Array, value: float, step: Array, rise: float
) -> tuple[Array, float, Array] | None:
    """A point that is higher by a part of the ``rise`` along the step; None without one."""
    length = 1.0
    for _ in range(MOST_HALVINGS):
        trial, gradient = scaled(u + length * step)
        if trial >= value + SUFFICIENT_SHARE * length * rise and np.isfinite(gradient).all():
            return u + length * step, trial, gradient
        fall = length * rise - (trial - value)  # of a parabola below its tangent
        best = 0.5 * length * rise / fall if np.isfinite(fall) and fall > 0 else 0.0
        length *= float(np.clip(best, 0.1, 0.5))
    return None


def learned_metric(metric: Array, step: Array, change: Array) -> Array:
    """Inverse curvature after a step along which the slope fell by ``change`` (BFGS)."""
    curvature, along = float(step @ change), metric @ change
    if not curvature > 1e-10 * float(change @ along):
        return metric
    factor = (1.0 + float(change @ along) / curvature) / curvature
    mixed = np.outer(along, step) / curvature
    return metric + factor * np.outer(step, step) - mixed - mixed.T


def _limited_memory_bfgs(
    scaled: SmoothFunction, scale: Array, least: float, ends: Callable[[float], bool]
) -> tuple[Array, float]:
    """The same without a matrix, which would cost more to update than the likelihood."""
    best: tuple[float, Array] = (-np.inf, np.zeros(len(scale)))

    def negative(u: Array) -> tuple[float, Array]:
        nonlocal best
        value, gradient = scaled(u)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return NO_LIKELIHOOD, np.zeros_like(u)
        best = max(best, (value, u), key=lambda one: one[0])
        return -value, -gradient

    def check(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        if ends(-float(intermediate_result.fun)):
            raise StopIteration

    options = {"gtol": least, "maxiter": MOST_ITERATIONS, "maxcor": MEMORY_STEPS, "ftol": 1e-13}
    with np.errstate(all="ignore"):  # a likelihood without end overflows the method itself
        scipy.optimize.minimize(
            negative, np.zeros(len(scale)), (), "L-BFGS-B", True, callback=check,
            options={**options, "maxfun": 10**6},
        )  # fmt: skip
    return best[1], best[0]


def _polish(
    objective: Counted, x: Array, scale: Array, curvature: Curvature, may_leave: bool
) -> tuple[Array, float, Array, Array, float, FactoredHessian]:
    """Newton steps with the differenced score as Hessian, until a step gains nothing.

    With ``may_leave`` also until they gain so much that they have left a saddle. Returns the point,
    the value at the start, slope and information, the value, and the factored information.
    """
    value, gradient = objective(x)
    start, enough = value, value + (SADDLE_GAIN if may_leave else np.inf)
    takes_long = objective.most < np.inf or len(x) > LIMITED_MEMORY
    moved = max(MOVED_GAIN * len(x), NEAR_GAIN) if takes_long else NEAR_GAIN
    for _ in range(6):
        information, before = curvature(x, scale), value
        hessian = FactoredHessian.of(information, scale)
        x, value, gradient = _newton_steps(objective, x, value, gradient, hessian)
        is_there = hessian.decrement(gradient) < POLISHED_GAIN and value - before < moved
        if is_there or value > enough or objective.is_spent:
            break
    return x, start, gradient, information, value, hessian


def _off_saddle(
    objective: SmoothFunction, x: Array, value: float, hessian: FactoredHessian
) -> Array | None:
    """A higher point along the direction that bends up most, or None where there is none."""
    values, vectors, scale = hessian.values, hessian.vectors, hessian.scale
    if not hessian.is_saddle:
        return None
    step = scale * vectors[:, 0] * min(3.0, 1.0 / np.sqrt(-values[0]))
    highest, end = max(((objective(x + s)[0], i) for i, s in enumerate((step, -step))))
    return x + (step, -step)[end] if highest > value + POLISHED_GAIN else None


def _newton_steps(
    objective: SmoothFunction, x: Array, value: float, gradient: Array, hessian: FactoredHessian
) -> tuple[Array, float, Array]:
    """Up to six steps with one Hessian; a step that loses is halved."""
    for _ in range(6):
        step = hessian.step(gradient)
        if 0.5 * gradient @ step < LAST_STEP_GAIN:
            break
        for _ in range(4):
            trial, slope = objective(x + step)
            is_usable = np.isfinite(trial) and np.isfinite(slope).all()
            if is_usable and trial >= value - 1e-12 * abs(value):
                x, value, gradient = x + step, trial, slope
                break
            step = 0.5 * step
        else:
            break
    return x, value, gradient


# ---------- Estimates with their covariance, and the record of a fit


class MeanEstimate(NamedTuple):
    """The mean m of the law given the other parameters, and how it follows them.

    Attributes:
        value: ``m_hat``, (N,).
        given: its covariance given the others, (N, N).
        slopes: what it moves by along the columns of the others' covariance, (N, free).
        anchored: whether the initial mean was that of the state, and not of its deviation.
        restricted: log-likelihood with the mean integrated out.
        at: ``m_hat`` and its covariance at other parameters.
    """

    value: Array
    given: Array
    slopes: Array
    anchored: bool
    restricted: float
    at: Callable[[StateSpace], tuple[Array, Array]]

    @property
    def errors(self) -> Array:
        """Standard errors, the uncertainty of the other parameters included; (N,)."""
        return np.sqrt(np.diag(self.given) + (self.slopes**2).sum(-1))


class Estimate(NamedTuple):
    """Maximum-likelihood estimate with the covariance of its coordinates.

    Attributes:
        state_space: the model at the estimate.
        full: coordinates, (p,).
        columns: directions of unit variance, (p, free): ``columns columns'`` is the covariance.
            The last ones move the initial mean alone.
        log_likelihood: at the estimate, without priors.
        optimum: the maximiser's own report.
        posterior: what was maximised.
        mean: of the law, where one is estimated; ``state_space`` is then around it, and
            ``log_likelihood`` at it.
    """

    state_space: StateSpace
    full: Array
    columns: Array
    log_likelihood: float
    optimum: Optimum
    posterior: LogPosterior
    mean: MeanEstimate | None = None

    @property
    def parametrisation(self) -> Parametrisation:
        """Of the full vector."""
        return self.posterior.parametrisation

    @property
    def covariance(self) -> Array:
        """Covariance of the coordinates, zero where fixed; (p, p)."""
        return self.columns @ self.columns.T

    @property
    def n_free(self) -> int:
        """Number of free numbers: coordinates, and the mean of each mode."""
        return self.columns.shape[1] + (0 if self.mean is None else len(self.mean.value))

    def errors(self, part: str) -> Array:
        """Standard errors of a part's coordinates."""
        return np.sqrt((self.columns[self.parametrisation.slices[part]] ** 2).sum(-1))

    def roots(self, part: str) -> Array:
        """Columns of a root of the covariance of a part's numbers: their shape and (free,).

        A coordinate that diverged has no slope there and counts as known.
        """
        where = self.parametrisation.slices[part]
        return self.parametrisation.parts[part].push(self.full[where], self.columns[where])


@dataclasses.dataclass(frozen=True)
class Fit:
    """An estimate with its diagnostics, from which `assemble` makes a `Law`.

    Attributes:
        estimate: the numbers.
        n_modes: reported ones, without nuisance.
        route: the way the likelihood was computed.
        n_observed: number of values that it is a density of.
        outside_variance: mean square outside the modes that is not noise.
        density: log density of the data, and of which numbers; None where that follows from
            ``statistics``.
        statistics: sufficient ones, where the route has them.
        notes: warnings.
        decisions: by what they are about.
        seconds: by stage.
        point_variance, point_error: observation variance of each point and the error of its root,
            where each has its own.
        initial_error: errors of the initial mean, where it is no coordinate.
        engine: that made the estimate.
    """

    estimate: Estimate
    n_modes: int
    route: str
    n_observed: float
    outside_variance: float
    density: tuple[Any, Numbers] | None = None
    statistics: Statistics | None = None
    notes: tuple[str, ...] = ()
    decisions: dict[str, Decision] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    point_variance: Any = None
    point_error: Any = None
    initial_error: Any = None
    engine: str = "exact"
