"""Maximum of a smooth log-posterior in coordinates scaled to standard errors.

Every coordinate is divided by a rough standard error, so that curvature is near one, steps
are of natural size and a gradient of 1e-4 means one ten-thousandth of a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.errors import ConvergenceError
from spdelaw.infer._curvature import Objective, difference_information

Array = np.ndarray
#: Information at a point, for coordinates of these rough standard errors.
Curvature = Callable[[Array, Array], Array]

#: Log-likelihood that a further Newton step may gain: half the squared step in standard errors.
#: Polishing ends at the first; beyond the second, 0.04 of a standard error, the law says so; beyond
#: the third, a tenth of one, there is no maximum.
POLISHED, NEAR, FAR = 1e-4, 1e-3, 5e-3
#: Slope, in log-likelihood a standard error, that a direction without curvature may have.
UPHILL_TOLERANCE = 0.1


class Optimum(NamedTuple):
    """Maximum with its curvature.

    Attributes:
        x: coordinates, (p,).
        value: log-posterior.
        gradient: at the maximum, (p,).
        information: minus the Hessian, (p, p).
        n_evaluations: how often the objective was computed, the Hessian included.
        decrement: log-likelihood that a further Newton step would gain.
    """

    x: Array
    value: float
    gradient: Array
    information: Array
    n_evaluations: int
    decrement: float

    @property
    def note(self) -> str | None:
        """What a law should say where the search ended short of the maximum."""
        if not self.decrement > NEAR:
            return None
        return (
            f"the search ended {np.sqrt(2.0 * self.decrement):.2f} standard errors short of the "
            "maximum: the likelihood is nearly flat there"
        )


def maximise(
    objective: Objective,
    scale: Array,
    n_plain: int,
    known_block: Callable[[Array], Array],
    *,
    owners: Array | None = None,
    polish: bool = True,
    search: bool = True,
    max_iterations: int = 300,
) -> Optimum:
    """Maximum reached from the origin, polished by Newton steps, or `ConvergenceError`.

    Args:
        objective: value and gradient.
        scale: rough standard errors, (p,).
        n_plain: coordinates whose curvature is differenced; that of the others is known.
        known_block: curvature among the others at a point.
        owners: see `difference_information`.
        polish: False looks neither at curvature nor at convergence.
        search: False takes the origin as close to the maximum: Newton steps alone.
        max_iterations: of the quasi-Newton method.
    """
    calls = [0]

    def curvature(x: Array, scale: Array) -> Array:
        return difference_information(counted, x, scale, n_plain, known_block, owners)

    def counted(x: Array) -> tuple[float, Array]:
        calls[0] += 1
        # A trial step may overflow; no likelihood there sends the search back.
        with np.errstate(all="ignore"):
            try:
                return objective(x)
            except (np.linalg.LinAlgError, FloatingPointError):
                return -np.inf, np.full_like(x, np.nan)

    x = np.zeros(len(scale))
    if search:
        x, value, scale = _search(counted, x, scale, curvature, max_iterations)
    if not polish:
        flat = np.diag(1.0 / scale**2)
        return Optimum(x, value, np.zeros(len(scale)), flat, calls[0], np.nan)
    x, value, gradient, information = _polish(counted, x, scale, curvature)
    decrement = _decrement(gradient, information, scale)
    if not decrement < FAR:
        raise _no_maximum(f"a point from which {decrement:.2g} more could be gained")
    uphill = _uphill(gradient, information, scale)
    if not uphill < UPHILL_TOLERANCE:
        raise _no_maximum(f"a slope of {uphill:.2g} a standard error in a direction without end")
    return Optimum(x, value, gradient, information, calls[0], decrement)


def _search(
    objective: Objective, x: Array, scale: Array, curvature: Curvature, max_iterations: int
) -> tuple[Array, float, Array]:
    """Point near the maximum, its value, and the scale of the curvature around it."""
    x, value = _quasi_newton(objective, x, scale, max_iterations)
    if not np.isfinite(value) or abs(value) >= 1e300:
        raise _no_maximum("no finite likelihood at the start")
    for _ in range(3):
        # Where the data say less than the scale supposes, the method stops short of the
        # maximum; it goes on in the scale of the curvature found there.
        if np.abs(scale * objective(x)[1]).max(initial=0.0) < 0.05:
            break
        information = curvature(x, scale)
        scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 0.1))
        x, value = _quasi_newton(objective, x, scale, max_iterations)
    return x, value, scale


def _quasi_newton(
    objective: Objective, start: Array, scale: Array, max_iterations: int
) -> tuple[Array, float]:
    def negative(u: Array) -> tuple[float, Array]:
        value, gradient = objective(start + scale * u)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e300, np.zeros_like(u)
        return -value, -gradient * scale

    if not len(start):  # everything is held
        return start, objective(start)[0]
    options = {"gtol": 1e-4, "maxiter": max_iterations}
    origin = np.zeros(len(start))
    result = scipy.optimize.minimize(negative, origin, jac=True, method="BFGS", options=options)
    return start + scale * result.x, -float(result.fun)


def _polish(
    objective: Objective, x: Array, scale: Array, curvature: Curvature
) -> tuple[Array, float, Array, Array]:
    """Newton steps with the differenced score as Hessian, until a step gains nothing."""
    value, gradient = objective(x)
    for _ in range(6):
        information = curvature(x, scale)
        x, value, gradient = _newton_steps(objective, x, value, gradient, information, scale)
        if _decrement(gradient, information, scale) < POLISHED:
            break
    return x, value, gradient, information


def _newton_steps(
    objective: Objective, x: Array, value: float, gradient: Array, information: Array, scale: Array
) -> tuple[Array, float, Array]:
    """Up to three steps with one Hessian; a step that loses is halved."""
    for _ in range(3):
        if _decrement(gradient, information, scale) < 1e-8:
            break
        step = _newton_step(gradient, information, scale)
        for _ in range(4):
            trial, slope = objective(x + step)
            if np.isfinite(trial) and trial >= value - 1e-12 * abs(value):
                x, value, gradient = x + step, trial, slope
                break
            step = 0.5 * step
        else:
            break
    return x, value, gradient


def _newton_step(gradient: Array, information: Array, scale: Array) -> Array:
    """Newton step on the directions that carry information, uphill also at a saddle.

    No coordinate moves by more than three standard errors or one, whichever is more.
    """
    values, vectors = np.linalg.eigh(scale[:, None] * information * scale)
    usable = np.abs(values) > 1e-6 * max(np.abs(values).max(initial=0.0), 1e-12)
    part = vectors[:, usable]
    step = part @ ((part.T @ (scale * gradient)) / np.abs(values[usable]))
    longest = max(np.abs(step).max(initial=0.0), 1e-300)
    farthest = max(np.abs(scale * step).max(initial=0.0), 1e-300)
    return scale * step * min(1.0, max(3.0 / longest, 1.0 / farthest))


def _uphill(gradient: Array, information: Array, scale: Array) -> float:
    """Slope in the directions that a Newton step leaves out, where nothing bends it down."""
    values, vectors = np.linalg.eigh(scale[:, None] * information * scale)
    flat = vectors[:, values <= 1e-6 * max(values.max(initial=0.0), 1e-12)]
    return float(np.linalg.norm(flat.T @ (scale * gradient)))


def _decrement(gradient: Array, information: Array, scale: Array) -> float:
    return float(0.5 * gradient @ _newton_step(gradient, information, scale))


def _no_maximum(got: str) -> ConvergenceError:
    return ConvergenceError(
        "fit",
        expected="a maximum of the likelihood",
        got=got,
        fix="check the domain, its boundary (a wrong basis has no maximum) and the unit of time; "
        "else fit fewer modes, fix or tie parameters (drift='parametric'), or give a prior",
    )
