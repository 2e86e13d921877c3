"""What a bound falls short of: the likelihood of its own model, and that of the untruncated one."""

from __future__ import annotations

import dataclasses

import numpy as np

from spdelaw.data import Observed
from spdelaw.equation import InitialState
from spdelaw.errors import ConvergenceError
from spdelaw.infer._filter_route import NO_MISFIT, pose
from spdelaw.infer._model import Model
from spdelaw.model import ChaosModel, StateSpace, collapse, evaluate_chaos

Array = np.ndarray


def truncated_log_likelihood(
    observed: Observed, basis: Array, parameters: StateSpace, n_time: int, horizon: float
) -> Array:
    """``log p(X)`` of every path in the truncated model with ``z0, xi ~ N(0, I)``, (P,).

    The bound is this minus ``KL(q(z0, xi | X) || p(z0, xi | X))``: the difference is what the
    encoder gives away, the amortization gap (a Gaussian with independent entries included).

    Args:
        observed: fields.
        basis: eigenfunctions at the points, (M, N).
        parameters: eigenvalues, noise variances, one observation variance per point.
        n_time: K.
        horizon: T.
    """
    n = parameters.n_modes
    standard = InitialState("gaussian", np.zeros(n), np.ones(n))
    weighted = parameters.with_noise(1.0)._replace(initial=standard)
    weights = 1.0 / parameters.observation_variance
    collapsed = collapse(observed.values, observed.times, basis, weights)
    model = ChaosModel(n_time, horizon, "dropped")
    return evaluate_chaos(collapsed, weighted, model).log_likelihood


def untruncated_log_likelihood(observed: Observed, n_modes: int) -> float | None:
    """Largest ``log p(X)`` of all paths without truncation, the same modes and one variance.

    None where there is no such number: fields that lie in the modes without noise have no
    density, and a wrong basis has no maximum.
    """
    model = Model(observation_noise="estimate", nuisance=0)
    try:
        problem = pose(observed, n_modes, model, polish=False)
        collapsed = problem.collapsed
        spare = collapsed.n_values - collapsed.n_states
        energy = float(np.nanmean(observed.values**2))
        if spare <= 0 or collapsed.misfit <= NO_MISFIT * spare * energy:
            return None
        whole = dataclasses.replace(problem, count=spare, outside=None)
        return float(whole.run().log_likelihood)
    except ConvergenceError:
        return None
