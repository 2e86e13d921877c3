"""Maximum of a smooth log-posterior in coordinates scaled to standard errors.

Every coordinate is divided by a rough standard error, so that curvature is near one, steps
are of natural size and a gradient of 1e-4 means one ten-thousandth of a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError, SpdeLawError
from spdelaw.infer._bend import Bend, balanced
from spdelaw.infer._curvature import Objective, difference_information
from spdelaw.infer._watch import current_watch

if TYPE_CHECKING:
    from spdelaw.infer._posterior import LogPosterior

Array = np.ndarray
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
MANY, MEMORY = 150, 60
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
    bend: Bend | None = None
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
        x, start, gradient, information, value, bend = found
        decrement = np.nan_to_num(bend.decrement(gradient), nan=np.inf)
        if not left or counted.is_spent:
            break
        if value - start < (POLISHED if decrement > FAR else SADDLE_GAIN):
            beside = _off_saddle(counted, x, value, bend)
            if beside is None:
                break
            x = beside
        x, value, _ = _search(counted, x, scale, curvature)
    uphill = bend.uphill(gradient)
    return Optimum(x, value, information, counted.calls, float(decrement), uphill, bend, way)


class Counted:
    """An objective that counts its calls, and has no likelihood where it cannot be computed.

    ``most`` is how many calls a search may make; a last curvature is left to it beyond them.
    """

    def __init__(self, objective: Objective, most: float = np.inf) -> None:
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

    heights: list[float] = []

    def bounded(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        heights.append(float(intermediate_result.fun))
        past = heights[-1 - ITERATIONS :]
        if objective.is_spent or (len(past) > ITERATIONS and past[0] - past[-1] < CRAWL):
            raise StopIteration

    if not len(start):  # everything is held
        return start, objective(start)[0]
    options, method = {"gtol": slope, "maxiter": MOST_ITERATIONS}, "BFGS"
    if len(start) > MANY:  # a matrix of that size costs more to update than the likelihood
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
) -> tuple[Array, float, Array, Array, float, Bend]:
    """Newton steps with the differenced score as Hessian, until a step gains nothing.

    With ``may_leave`` also until they gain so much that they have left a saddle. Returns the point,
    the value at the start, slope and information, the value, and the information taken apart.
    """
    value, gradient = objective(x)
    start, enough = value, value + (SADDLE_GAIN if may_leave else np.inf)
    for _ in range(6):
        information = curvature(x, scale)
        bend = Bend.of(information, scale)
        x, value, gradient = _newton_steps(objective, x, value, gradient, bend)
        if bend.decrement(gradient) < POLISHED or value > enough or objective.is_spent:
            break
    return x, start, gradient, information, value, bend


def _off_saddle(objective: Objective, x: Array, value: float, bend: Bend) -> Array | None:
    """A higher point along the direction that bends up most, or None where there is none."""
    values, vectors, scale = bend.values, bend.vectors, bend.scale
    if not values.min(initial=0.0) < -1e-6 * max(values.max(initial=0.0), 1e-12):
        return None
    step = scale * vectors[:, 0] * min(3.0, 1.0 / np.sqrt(-values[0]))
    height, end = max(((objective(x + s)[0], i) for i, s in enumerate((step, -step))))
    return x + (step, -step)[end] if height > value + POLISHED else None


def _newton_steps(
    objective: Objective, x: Array, value: float, gradient: Array, bend: Bend
) -> tuple[Array, float, Array]:
    """Up to three steps with one Hessian; a step that loses is halved."""
    for _ in range(3):
        step = bend.step(gradient)
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
