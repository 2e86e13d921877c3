"""The mean of a law: estimated last, given all else, with the uncertainty of all else.

The other parameters theta maximise the likelihood with the mean integrated out
(`spdelaw.model.evaluate_restricted`). Given them the mean is a Gaussian regression, and

    m = m_hat(theta),    Cov m = C + (dm / dtheta) Cov theta (dm / dtheta)'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spdelaw.data import Observed
from spdelaw.infer._estimate import Estimate, MeanEstimate
from spdelaw.model import StateSpace, with_mean

if TYPE_CHECKING:
    from spdelaw.infer._posed import Posed

Array = np.ndarray

#: Step of the differences, in standard errors, and the most that a coordinate moves by.
STEP, LARGEST_STEP = 0.02, 0.05
#: Means are at most so many times larger than the data.
OUT_OF_SIGHT = 1e3


def centred_fields(observed: Observed, n_modes: int) -> tuple[Observed, Array]:
    """Fields less the part of their mean that lies in the modes, and its coefficients, (n,)."""
    phi = observed.basis(n_modes)
    centre = _centre(observed, phi)
    return observed._replace(values=observed.values - phi @ centre), centre


def _centre(observed: Observed, phi: Array) -> Array:
    """Coefficients of the mean of all values at each point, (n,)."""
    if observed.survey is not None:
        total, seen = observed.survey.total, observed.survey.times_seen
    else:
        parts = [(np.nansum(x, (0, 1)), (~np.isnan(x)).sum((0, 1))) for x in observed.chunks()]
        total, seen = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
    return np.asarray(np.linalg.lstsq(phi, total / np.maximum(seen, 1), rcond=None)[0])


def distance_of_fields(observed: Observed, n_modes: int) -> float:
    """Mean of the fields in the modes, relative to their deviations from it."""
    phi = observed.basis(n_modes)
    mean = phi @ _centre(observed, phi)
    if observed.is_lazy:
        square = float(np.nanmean((observed.values - mean) ** 2))
    else:
        parts = [(np.nansum((x - mean) ** 2), (~np.isnan(x)).sum()) for x in observed.chunks()]
        square = float(np.divide(*np.sum(parts, axis=0)))
    return float(np.sqrt(np.mean(mean**2) / max(square, 1e-300)))


def around_mean(found: Estimate, problem: Posed) -> Estimate:
    """The estimate with its mean: model around it, and the likelihood there.

    ``found`` is the maximum of the restricted likelihood. Where nothing decays within the record, a
    mean far away is a trend, and sums with so large a number in them have no digits left for the
    likelihood: it ends at `OUT_OF_SIGHT`. How it follows the other parameters is left out where
    standard errors are.
    """
    value, given = problem.mean_given(found.state_space)
    most = OUT_OF_SIGHT * float(np.abs(problem.mean_and_deviation).max())
    value = np.clip(value, -most, most)
    space = with_mean(found.state_space, value, problem.anchored)
    slopes = np.zeros((len(value), found.columns.shape[1]))
    if problem.polish:
        slopes = _slopes(found, problem, value, given)
    plain = float(problem.at_mean(space).log_likelihood.sum())
    total = value + problem.centre

    def at(space: StateSpace) -> tuple[Array, Array]:
        mean, covariance = problem.mean_given(space)
        return mean + problem.centre, covariance

    own = MeanEstimate(total, given, slopes, problem.anchored, found.log_likelihood, at)
    space = space._replace(dynamics=space.linear.with_mean(total))
    return found._replace(state_space=space, log_likelihood=plain, mean=own)


def _slopes(found: Estimate, problem: Posed, value: Array, given: Array) -> Array:
    """Change of the mean along each column of the covariance; (N, free)."""
    n, free = len(value), found.columns.shape[1]
    slopes = _by_scores(found, problem, value, given) if n < free else _by_means(found, problem)
    return np.nan_to_num(slopes, posinf=0.0, neginf=0.0)


def _by_scores(found: Estimate, problem: Posed, value: Array, given: Array) -> Array:
    """``C d2 log p / dm dtheta``: the score is quadratic in m, central differences are exact."""
    own, mixed = found.parametrisation, np.zeros((len(value), len(found.full)))
    errors = np.sqrt(np.diag(given))
    for i in np.flatnonzero(errors):
        ends = []
        for way in (-1.0, 1.0):
            mean = value + way * errors[i] * (np.arange(len(value)) == i)
            space = with_mean(found.state_space, mean, problem.anchored)
            ends.append(own.score(found.full, space, problem.at_mean(space)))
        mixed[i] = (ends[1] - ends[0]) / (2.0 * errors[i])
    return given @ mixed @ found.columns


def _by_means(found: Estimate, problem: Posed) -> Array:
    """Differences of m, where columns are fewer than modes.

    Zero along a direction that leads out of what has a likelihood.
    """
    slopes = np.zeros((found.state_space.n_modes, found.columns.shape[1]))
    for i, column in enumerate(found.columns.T):
        step = min(STEP, LARGEST_STEP / max(float(np.abs(column).max(initial=0.0)), 1e-300))
        with np.errstate(all="ignore"):
            try:
                at = [found.full + way * column for way in (-step, step)]
                spaces = map(found.parametrisation.state_space, at)
                ends = [problem.mean_given(space)[0] for space in spaces]
            except np.linalg.LinAlgError:
                continue
        slopes[:, i] = (ends[1] - ends[0]) / (2.0 * step)
    return slopes
