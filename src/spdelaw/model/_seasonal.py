"""Score of transitions whose noise has seasons.

The variance of a step is ``q g`` with ``g = sum_k w_k G_k(lambda)`` and ``G_k`` the step's exposure
to part k of the period; the formulas of `spdelaw.model._moments` hold with this g.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import Season
from spdelaw.model._moments import (
    Moments,
    StepFunctions,
    step_score,
    step_score_by_g,
    steps_of,
)

Array = np.ndarray
TINY = 1e-200


class SeasonalScore(NamedTuple):
    """Gradient by ``lambda`` and ``q``, (N, ...), and by the weights ``w``, (K,)."""

    by_eigenvalue: Array
    by_noise_variance: Array
    by_weight: Array


def seasonal_score(
    moments: Moments, times: Array, season: Season, eigenvalues: Array, noise_variance: Array
) -> SeasonalScore:
    """Gradient at the smoother's moments.

    Args:
        moments: (T, N) for all paths, or (T, N, P).
        times: (T,), or (T, P).
        season: of the noise.
        eigenvalues: ``lambda``, (N,), or (N, 1).
        noise_variance: ``q``, likewise.
    """
    start, end = times[:-1, None], times[1:, None]
    dt = end - start
    # One complex step gives the exposures and their derivatives by lambda.
    exposures = season.exposures(2.0 * (eigenvalues + 1j * TINY), start, end)
    g, dg = exposures.real @ season.weights, exposures.imag @ season.weights / TINY
    a = np.exp(-eigenvalues * dt)
    f = StepFunctions(a, g, -dt * a, dg)
    steps = steps_of(moments, dt)
    by_g = step_score_by_g(steps, f, noise_variance)
    by_weight = np.einsum("ik,i->k", exposures.real.reshape(-1, season.n_parts), by_g.reshape(-1))
    return SeasonalScore(*step_score(steps, f, noise_variance), by_weight)
