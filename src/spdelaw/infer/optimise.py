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

from spdelaw.errors import ConvergenceError, InputError, SpdeLawError
from spdelaw.infer.model import Decision
from spdelaw.infer.parameters import Parametrisation
from spdelaw.law.likelihood import Numbers
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.statistics import Statistics

if TYPE_CHECKING:
    from spdelaw.infer.objective import LogPosterior


# ---------- What a search says while it goes on: evaluations, what was gained, how long it took
#
# Fits that end within two seconds say nothing. How many evaluations are left is not known.


#: Seconds of silence at the start, and between two reports.
PATIENCE, EVERY = 2.0, 1.0


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
        self.best = self.told = -float("inf")

    def search(self) -> None:
        """Another search begins, whose likelihood may be one of other numbers."""
        self.best, self.told = -float("inf"), float("nan")

    def tell(self, value: float) -> None:
        """Take one evaluation into account."""
        self.evaluations, self.best = self.evaluations + 1, max(self.best, value)
        now = time.monotonic()
        if now - self.begin < PATIENCE or now - self.last < EVERY:
            return
        gain, self.told, self.last = self.best - self.told, self.best, now
        self.report(SearchProgress(self.evaluations, self.best, gain, now - self.begin))


_CURRENT: ContextVar[Watch | None] = ContextVar("watch", default=None)


def current_watch() -> Watch | None:
    """Whoever watches the present fit."""
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
    if progress is not True and not callable(progress):
        expected, fix = "True, False or a function", "progress=True"
        raise InputError("progress", expected=expected, got=repr(progress), fix=fix)
    token = _CURRENT.set(Watch(_print if progress is True else progress))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _print(state: SearchProgress) -> None:
    print(state, file=sys.stderr, flush=True)


# ---------- The information around a point, taken apart: Newton steps, and directions that nothing
# bends
#
# In coordinates scaled to standard errors, by Cholesky where that holds and by eigenvectors else.


Array = np.ndarray


class FactoredHessian(NamedTuple):
    """Information in scaled coordinates, taken apart once.

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
        """Taken apart by the cheaper way that holds."""
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
            known = (self.factor, True)
            step = scipy.linalg.cho_solve(known, slope[::-1], check_finite=False)[::-1]
        else:
            sizes = np.abs(self.values)
            usable = sizes > 1e-6 * max(sizes.max(initial=0.0), 1e-12)
            part = self.vectors[:, usable]
            step = part @ ((part.T @ slope) / sizes[usable])
        longest = max(np.abs(step).max(initial=0.0), 1e-300)
        farthest = max(np.abs(scale * step).max(initial=0.0), 1e-300)
        return np.asarray(scale * step * min(1.0, max(3.0 / longest, 1.0 / farthest)))

    def decrement(self, gradient: Array) -> float:
        """Log-likelihood that a step gains where it is quadratic."""
        return float(0.5 * gradient @ self.step(gradient))

    def uphill(self, gradient: Array) -> float:
        """Slope in the directions that a Newton step leaves out, where nothing bends it down."""
        flat = self.vectors[:, self.values <= 1e-6 * max(self.values.max(initial=0.0), 1e-12)]
        return float(np.linalg.norm(flat.T @ (self.scale * gradient)))


def balanced(information: Array, scale: Array) -> Array:
    """Rough standard errors, smaller where the information says so.

    Beside a coordinate whose error was supposed to be hundreds of times too large, every other
    direction looks as if it had no information.
    """
    return scale / np.sqrt(np.maximum(scale**2 * np.diag(information), 1.0))


def well_conditioned_factor(matrix: Array) -> Array | None:
    """Lower Cholesky factor of a symmetric matrix whose condition number is below 1e5, or None."""
    if not len(matrix) or not np.isfinite(matrix).all():
        return None
    # Symmetric: rows of a C array are the columns that LAPACK wants.
    factor, failed = scipy.linalg.lapack.dpotrf(np.ascontiguousarray(matrix).T, lower=1, clean=1)
    if failed:
        return None
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.abs(matrix).sum(0).max(), uplo="L")
    return factor if reciprocal > 1e-5 else None


# ---------- Curvature of a log-posterior from differences of its score


SmoothFunction = Callable[[Array], tuple[float, Array]]

#: Step of the differences of the score, in standard errors.
DIFFERENCE_STEP = 0.02
#: Coordinates from which on the score is differenced to one side, and the step of that.
ONE_SIDED, SMALL_STEP = 100, 1e-4
#: Asymmetry of what is found so, relative to its diagonal, beyond which both sides are needed, and
#: after how many coordinates it is looked at first; information, relative to that of the rough
#: standard errors, below which a coordinate has none.
ASYMMETRY, FIRST, UNSEEN = 1e-4, 10, 1e-3
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

    Central ones; of many coordinates to one side, as long as that gives the same.

    Args:
        objective: value and gradient.
        x: where, (p,).
        scale: rough standard errors, (p,).
        n_plain: coordinates to difference; the curvature among the others is ``known_block(x)``.
        known_block: of the others.
        owners: where modes do not meet in the likelihood, the mode that each coordinate belongs
            to, `SHARED` for none; (p,). Coordinates of different modes are then moved at once, so
            that the number of evaluations does not grow with the number of modes.
    """
    information = None
    if owners is None and n_plain >= ONE_SIDED:
        information = _to_one_side(objective, x, scale, n_plain)
    if information is None:
        information = _to_both_sides(objective, x, scale, n_plain, owners)
    if n_plain < len(x):
        information[n_plain:, n_plain:] = known_block(x)
    return information


def _to_both_sides(
    objective: SmoothFunction, x: Array, scale: Array, n_plain: int, owners: Array | None
) -> Array:
    size = len(x)
    owners = np.full(size, SHARED) if owners is None else owners
    found, count = np.zeros((size, size)), np.zeros((size, size))
    for group in _groups(owners[:n_plain]):
        step = np.zeros(size)
        step[group] = DIFFERENCE_STEP * scale[group]
        slope = 0.5 * (objective(x - step)[1] - objective(x + step)[1])
        rows, columns = _meeting(owners, group)
        found[rows, columns] += slope[rows] / step[columns]
        count[rows, columns] += 1.0
    # What was found twice, as row and as column, is averaged.
    both = count + count.T
    return np.asarray((found + found.T) / np.maximum(both, 1.0))


def _to_one_side(objective: SmoothFunction, x: Array, scale: Array, n_plain: int) -> Array | None:
    """By differences to one side; None where rounding or a change of curvature shows.

    Curvature is symmetric, and its columns are found one by one: two that should agree differ
    about as much as either is wrong.
    """
    here, found = objective(x)[1], np.zeros((len(x), n_plain))
    for j in range(n_plain):
        step = np.zeros(len(x))
        step[j] = SMALL_STEP * scale[j]
        found[:, j] = (here - objective(x + step)[1]) / step[j]
        if j + 1 in (FIRST, n_plain):
            square = found[: j + 1, : j + 1]
            size = np.sqrt(np.maximum(np.abs(np.diag(square)), UNSEEN / scale[: j + 1] ** 2))
            if not (np.abs(square - square.T) <= ASYMMETRY * np.outer(size, size)).all():
                return None
    information = np.zeros((len(x),) * 2)
    information[:, :n_plain] = found
    information[:n_plain, n_plain:] = found[n_plain:].T
    information[:n_plain, :n_plain] = 0.5 * (square + square.T)
    return information


def _groups(owners: Array) -> Iterator[Array]:
    """Coordinates to move at once: one of each mode, or one that all share."""
    yield from np.flatnonzero(owners == SHARED)[:, None]
    left = np.flatnonzero(owners != SHARED)
    while left.size:
        _, first = np.unique(owners[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def _meeting(owners: Array, group: Array) -> tuple[Array, Array]:
    """Rows and columns of the information that moving a group tells."""
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
#: Polishing ends at the first; beyond the second, 0.04 of a standard error, the law says so; beyond
#: the third, a tenth of one, the search has not converged.
POLISHED, NEAR, FAR = 1e-4, 1e-3, 5e-3
#: Slope, in log-likelihood per standard error, that a direction without curvature may have.
UPHILL_TOLERANCE = 0.1
#: Log-likelihood gained by Newton steps from which on they have left a saddle: the search goes on
#: from there. How often it may.
SADDLE_GAIN, ROUNDS = 1.0, 3
#: Iterations that a quasi-Newton method may take.
MOST_ITERATIONS = 300
#: Coordinates from which on a search remembers its last steps in place of a matrix; how many steps.
LIMITED_MEMORY, MEMORY = 150, 60
#: Standard errors, relative to the rough ones, below which those are too large for differences.
COARSE = 0.2
#: Slopes, in log-likelihood per rough standard error, at which a search and a rough one may end.
STEEP, ROUGH = 1e-4, 0.01
#: Seconds of one evaluation, about, from which on work is bounded.
SLOW = 5e-3
#: Where it is: seconds of one maximisation, and of a curvature by differences, about. Evaluations
#: are what is counted, so that the same data have the same law on every machine.
SEARCH_SECONDS, DIFFERENCE_SECONDS = 5.0, 1.5
#: Evaluations that a maximisation may take however long they are.
ENOUGH = 150
#: Where it is, a search that gains less log-likelihood than this in so many iterations crawls along
#: a ridge that it has no scale for: it ends, and curvature takes over.
CRAWL, ITERATIONS = 0.01, 20
#: Stands for minus a log-likelihood that cannot be computed.
NOWHERE = 1e300
#: What to try where a search ends short.
ADVICE = (
    "take means and cycles off first (anomalies); check the domain, its boundary (a wrong basis "
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
        decrement: log-likelihood that a further Newton step would gain; NaN where nobody looked.
        uphill: slope, in log-likelihood per standard error, where nothing bends it down.
        bend: the information taken apart, where somebody looked.
        curvature: how the information was found: "analytic", "expected" or "differenced"; "none"
            where nobody looked.
    """

    x: Array
    value: float
    information: Array
    n_evaluations: int
    decrement: float
    uphill: float = 0.0
    hessian: FactoredHessian | None = None
    curvature: str = "none"

    @property
    def is_bounded(self) -> bool:
        """Whether the likelihood bends down in every direction in which it rises."""
        return self.uphill < UPHILL_TOLERANCE

    @property
    def converged(self) -> bool:
        """Whether a maximum was reached."""
        return self.is_bounded and not self.decrement >= FAR

    @property
    def note(self) -> str | None:
        """What a law should say where the search ended short of the maximum."""
        if not self.is_bounded:
            return (
                "the search ended without a maximum: the log-likelihood still rises by "
                f"{self.uphill:.2g} a standard error in a direction without end; {ADVICE}"
            )
        if not self.decrement > NEAR:
            return None
        short = f"{np.sqrt(2.0 * self.decrement):.2f} standard errors short of the maximum"
        if self.converged:
            return f"the search ended {short}: the likelihood is nearly flat there"
        return (
            f"the search ended {short}: about {self.decrement:.2g} of log-likelihood could still "
            f"be gained; {ADVICE}"
        )


def maximise(
    posterior: LogPosterior, *, polish: bool = True, search: bool = True, rough: bool = False
) -> Optimum:
    """Maximum reached from the origin, polished by Newton steps, or where the search ended.

    `ConvergenceError` only where there is no likelihood to start from.

    Args:
        posterior: what to maximise. Its curvature is what a formula says, what the model expects
            where differences take too long, and differences of the score else.
        polish: False looks neither at curvature nor at convergence.
        search: False takes the origin as close to the maximum: Newton steps alone.
        rough: stop where slopes are a fraction of a nat per standard error; never polished.
    """
    scale, seconds, n_plain = posterior.scale, posterior.seconds, posterior.n_plain
    most = max(SEARCH_SECONDS / seconds, ENOUGH) if seconds >= SLOW else np.inf
    counted, owners = Counted(lambda x: posterior.at(x)[:2], most), posterior.owners()
    is_long = seconds >= SLOW and 2.0 * n_plain * seconds > DIFFERENCE_SECONDS
    way, known_block = "none", posterior.initial_information

    def curvature(x: Array, scale: Array) -> Array:
        nonlocal way
        found, way = posterior.exact_information(x), "analytic"
        if found is None and is_long:
            found, way = posterior.expected_information(x), "expected"
        if found is not None:
            return found
        way = "differenced"
        found = differences(x, scale)
        finer = balanced(found, scale)
        # Differences over many standard errors are no curvature.
        return differences(x, finer) if (finer < COARSE * scale).any() else found

    def differences(x: Array, scale: Array) -> Array:
        found = difference_information(counted, x, scale, n_plain, known_block, owners)
        # Beside the edge of what can be computed there is no difference, and none is used.
        return np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)

    x = np.zeros(len(scale))
    if rough:
        x, value = _quasi_newton(counted, x, scale, ROUGH)
        polish = False
    elif search:
        x, value, scale = _search(counted, x, scale, curvature)
    if not polish:
        flat = np.diag(1.0 / scale**2)
        return Optimum(x, value, flat, counted.calls, np.nan)
    for left in reversed(range(ROUNDS if search else 1)):
        found = _polish(counted, x, scale, curvature, left > 0)
        x, start, gradient, information, value, hessian = found
        decrement = np.nan_to_num(hessian.decrement(gradient), nan=np.inf)
        if not left or counted.is_spent:
            break
        if value - start < (POLISHED if decrement > FAR else SADDLE_GAIN):
            beside = _off_saddle(counted, x, value, hessian)
            if beside is None:
                break
            x = beside
        x, value, _ = _search(counted, x, scale, curvature)
    uphill = hessian.uphill(gradient)
    return Optimum(x, value, information, counted.calls, float(decrement), uphill, hessian, way)


class Counted:
    """An objective that counts its calls, and has no likelihood where it cannot be computed.

    ``most`` is how many calls a search may make; a last curvature is left to it beyond them.
    """

    def __init__(self, objective: SmoothFunction, most: float = np.inf) -> None:
        self.objective, self.calls, self.watch = objective, 0, current_watch()
        self.most = most
        if self.watch is not None:
            self.watch.search()

    @property
    def is_spent(self) -> bool:
        """Whether the work is done that may be."""
        return self.calls >= self.most

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Value and gradient; minus infinity where a trial step went too far."""
        self.calls += 1
        with np.errstate(all="ignore"):
            try:
                value, gradient = self.objective(x)
            except SpdeLawError:
                raise
            except (ArithmeticError, ValueError):  # LinAlgError is a ValueError
                return -np.inf, np.full_like(x, np.nan)
        if self.watch is not None:
            self.watch.tell(value)
        return value, gradient


def _search(
    objective: Counted, x: Array, scale: Array, curvature: Curvature
) -> tuple[Array, float, Array]:
    """Point near the maximum, its value, and the scale of the curvature around it."""
    x, value = _quasi_newton(objective, x, scale)
    if not abs(value) < NOWHERE:
        expected, got = "a likelihood to start from", "none that is finite"
        raise ConvergenceError("fit", expected=expected, got=got, fix=ADVICE)
    for _ in range(3):
        # Where the data say less than the scale supposes, the method stops short of the
        # maximum; it goes on in the scale of the curvature found there.
        if objective.is_spent or np.abs(scale * objective(x)[1]).max(initial=0.0) < 0.05:
            break
        information = curvature(x, scale)
        scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 0.1))
        x, value = _quasi_newton(objective, x, scale)
    return x, value, scale


def _quasi_newton(
    objective: Counted, start: Array, scale: Array, slope: float = STEEP
) -> tuple[Array, float]:
    best: tuple[float, Array] = (NOWHERE, start)

    def negative(u: Array) -> tuple[float, Array]:
        nonlocal best
        value, gradient = objective(start + scale * u)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return NOWHERE, np.zeros_like(u)
        if -value < best[0]:
            best = -value, start + scale * u
        return -value, -gradient * scale

    log_likelihoods: list[float] = []

    def bounded(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        log_likelihoods.append(float(intermediate_result.fun))
        past = log_likelihoods[-1 - ITERATIONS :]
        if objective.is_spent or (len(past) > ITERATIONS and past[0] - past[-1] < CRAWL):
            raise StopIteration

    if not len(start):  # everything is held
        return start, objective(start)[0]
    options, method = {"gtol": slope, "maxiter": MOST_ITERATIONS}, "BFGS"
    if (
        len(start) > LIMITED_MEMORY
    ):  # a matrix of that size costs more to update than the likelihood
        method, options = "L-BFGS-B", {**options, "maxcor": MEMORY, "ftol": 1e-13, "maxfun": 10**6}
    callback = bounded if objective.most < np.inf else None
    with np.errstate(all="ignore"):  # a likelihood without end overflows the method itself
        found = scipy.optimize.minimize(
            negative, np.zeros(len(start)), (), method, True, callback=callback, options=options
        )
    if found.fun < NOWHERE:
        return start + scale * found.x, -float(found.fun)
    return best[1], -best[0]


def _polish(
    objective: Counted, x: Array, scale: Array, curvature: Curvature, may_leave: bool
) -> tuple[Array, float, Array, Array, float, FactoredHessian]:
    """Newton steps with the differenced score as Hessian, until a step gains nothing.

    With ``may_leave`` also until they gain so much that they have left a saddle. Returns the point,
    the value at the start, slope and information, the value, and the information taken apart.
    """
    value, gradient = objective(x)
    start, enough = value, value + (SADDLE_GAIN if may_leave else np.inf)
    for _ in range(6):
        information = curvature(x, scale)
        hessian = FactoredHessian.of(information, scale)
        x, value, gradient = _newton_steps(objective, x, value, gradient, hessian)
        if hessian.decrement(gradient) < POLISHED or value > enough or objective.is_spent:
            break
    return x, start, gradient, information, value, hessian


def _off_saddle(
    objective: SmoothFunction, x: Array, value: float, hessian: FactoredHessian
) -> Array | None:
    """A higher point along the direction that bends up most, or None where there is none."""
    values, vectors, scale = hessian.values, hessian.vectors, hessian.scale
    if not values.min(initial=0.0) < -1e-6 * max(values.max(initial=0.0), 1e-12):
        return None
    step = scale * vectors[:, 0] * min(3.0, 1.0 / np.sqrt(-values[0]))
    height, end = max(((objective(x + s)[0], i) for i, s in enumerate((step, -step))))
    return x + (step, -step)[end] if height > value + POLISHED else None


def _newton_steps(
    objective: SmoothFunction, x: Array, value: float, gradient: Array, hessian: FactoredHessian
) -> tuple[Array, float, Array]:
    """Up to three steps with one Hessian; a step that loses is halved."""
    for _ in range(3):
        step = hessian.step(gradient)
        if 0.5 * gradient @ step < 1e-8:
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


# ---------- What an estimation finds: numbers with their covariance, and what they rest on


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

        A coordinate that ran off to infinity has no slope there and counts as known.
        """
        where = self.parametrisation.slices[part]
        return self.parametrisation.parts[part].push(self.full[where], self.columns[where])


@dataclasses.dataclass(frozen=True)
class Fit:
    """An estimate and what it rests on, ready to be turned into a `Law`.

    Attributes:
        estimate: the numbers.
        n_modes: reported ones, without nuisance.
        route: the way the likelihood was computed.
        n_observed: values that it is a density of.
        outside_variance: mean square outside the modes that is not noise.
        density: log density of the data, and of which numbers; None where that follows from
            ``statistics``.
        statistics: sufficient ones, where the route has them.
        notes: reasons in words.
        decisions: by what they are about.
        seconds: by stage.
        point_variance, point_error: observation variance of each point and the error of its root,
            where each has its own.
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
