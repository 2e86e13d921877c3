"""One observation variance a point, by conditional maximisation.

Given the variances, the spectra are a maximum-likelihood problem with known noise; given the
spectra, the expected squared residual of each point is its variance in closed form,

    r_m = mean over paths and times of  (y_m - h(x_m)' E[c | y])^2 + h(x_m)' Cov(c | y) h(x_m).

Each round raises the likelihood. The points outnumber the modes, so a few rounds are enough.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.infer._filter_route import by_filter
from spdelaw.infer._fitted import Fitted
from spdelaw.infer._observed import Observed
from spdelaw.infer._settings import Settings
from spdelaw.law._states import smooth_fields

Array = np.ndarray

#: Largest change of a log variance that ends the rounds, and their number at most.
TOLERANCE, ROUNDS = 1e-3, 25
#: No variance falls below this share of the largest.
FLOOR = 1e-10


def estimate_per_point(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings
) -> Fitted:
    """Estimate with a variance of its own for each point.

    The standard errors of the spectra are those given the variances; these rest on all paths
    and times of their point and add next to nothing.
    """
    one = dataclasses.replace(settings, observation_noise="estimate")
    fitted = by_filter(observed, domain, n_modes, one, polish=False)
    variance = np.full(len(observed.points), float(fitted.solution.parameters.observation_variance))
    for _ in range(ROUNDS):
        new = _expected_residual(observed, domain, fitted, variance)
        change = np.abs(np.log(new / variance)).max()
        variance = new
        known = dataclasses.replace(settings, observation_noise=np.sqrt(variance))
        if change < TOLERANCE:
            break
        fitted = by_filter(observed, domain, n_modes, known, polish=False)
    fitted = by_filter(observed, domain, n_modes, known)
    counts = (~np.isnan(observed.load())).sum((0, 1))
    return dataclasses.replace(
        fitted,
        point_variance=variance,
        point_error=np.sqrt(variance / (2.0 * np.maximum(counts, 1))),
    )


def _expected_residual(
    observed: Observed, domain: AbstractDomain, fitted: Fitted, variance: Array
) -> Array:
    parameters = fitted.solution.parameters
    unit = parameters._replace(observation_variance=np.asarray(1.0))
    basis = domain.eigenfunctions(observed.points, parameters.n_modes)
    values = observed.load()
    moments = smooth_fields(values, observed.times, basis, unit, basis, 1.0 / variance)
    square = np.nanmean((values - moments.mean) ** 2 + moments.variance, axis=(0, 1))
    return np.maximum(square, FLOOR * square.max())
