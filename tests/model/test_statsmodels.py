"""The same regular-grid problem given to statsmodels' Kalman filter and smoother."""

import numpy as np
import pytest
from tests.model.cases import KINDS, basis, draw, hide, parameters
from tests.model.numbers import evaluate_likelihood, smooth_states
from tests.model.test_smoother import lag_diagonals

from spdelaw.model import collapse

kalman = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")

AGREE = 1e-8
DT = 0.2


def by_statsmodels(p, y, phi):
    """Filter and smoother results for one path; the first time is the initial state."""
    n_points, n = phi.shape
    a = np.exp(-p.drift * DT)
    omega = p.noise * (1 - a**2) / (2 * p.drift)
    model = kalman.KalmanSmoother(k_endog=n_points, k_states=n, k_posdef=n)
    model["design"], model["transition"], model["selection"] = phi, np.diag(a), np.eye(n)
    model["state_cov"] = np.diag(omega)
    model["obs_cov"] = float(p.observation_variance) * np.eye(n_points)
    model.initialize_known(p.initial_mean, np.diag(p.initial_covariance))
    model.bind(np.asfortranarray(y.T))
    return model.smooth()


@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random", "rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_and_smoother(kind, pattern):
    rng = np.random.default_rng(2)
    p, phi = parameters(kind), basis(pattern in ("orthogonal", "rows"))
    t = DT * np.arange(12)
    values = hide(np.stack([draw(p, t, phi, rng) for _ in range(3)]), pattern, rng)
    collapsed = collapse(values, t, phi)
    found = evaluate_likelihood(collapsed, p).log_likelihood
    for block in collapsed.blocks:
        states = smooth_states(block, p)
        lag = lag_diagonals(block, p)
        for j, path in enumerate(block.paths):
            other = by_statsmodels(p, values[path], phi)
            b = 0 if states.covariance.shape[-1] == 1 else j
            np.testing.assert_allclose(found[path], other.llf, rtol=AGREE)
            np.testing.assert_allclose(states.mean[..., j], other.smoothed_state.T, atol=AGREE)
            theirs = other.smoothed_state_cov.transpose(2, 0, 1)
            ours = states.covariance[..., b]
            if block.is_diagonal:
                theirs = np.einsum("tnn->tn", theirs)
            np.testing.assert_allclose(ours, theirs, atol=AGREE)
            # smoothed_state_autocov[:, :, t] is Cov(c_{t+1}, c_t).
            autocov = np.einsum("nnt->tn", other.smoothed_state_autocov)[: len(t) - 1]
            first = 1 if kind == "deterministic" else 0
            np.testing.assert_allclose(lag[..., b], autocov[first:], atol=AGREE)
