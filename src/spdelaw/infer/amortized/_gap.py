"""The ceiling of the encoder: exact marginal likelihood of the very model whose bound it raises."""

from __future__ import annotations

import numpy as np

from spdelaw.infer._observed import Observed
from spdelaw.model import ChaosModel, Parameters, chaos_log_likelihood, collapse

Array = np.ndarray


def truncated_log_likelihood(
    observed: Observed, basis: Array, parameters: Parameters, n_time: int, horizon: float
) -> Array:
    """``log p(X)`` of every path in the truncated model with ``z0, xi ~ N(0, I)``, (P,).

    The bound is this minus ``KL(q(z0, xi | X) || p(z0, xi | X))``: the difference is what the
    encoder gives away, the amortization gap (a Gaussian with independent entries included).

    Args:
        observed: fields.
        basis: eigenfunctions at the points, (M, N).
        parameters: eigenvalues, noise variances, one observation variance a point.
        n_time: K.
        horizon: T.
    """
    n = parameters.n_modes
    weighted = parameters._replace(
        initial_mean=np.zeros(n), initial_variance=np.ones(n), initial_kind="gaussian",
        observation_variance=np.asarray(1.0),
    )  # fmt: skip
    weights = 1.0 / parameters.observation_variance
    collapsed = collapse(observed.load(), observed.times, basis, weights)
    return chaos_log_likelihood(collapsed, weighted, ChaosModel(n_time, horizon, "dropped"))
