"""The same regular-grid problem given to statsmodels' Kalman filter and smoother."""

import numpy as np
import pytest
from tests.parameters import cross
from tests.statespace.cases import KINDS, basis, draw, hide, of_path, parameters
from tests.statespace.numbers import evaluate_likelihood, smooth_states
from tests.statespace.test_smoother import lag_diagonals

from spdelaw.statespace.collapse import collapse

kalman = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")

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


@cross(pattern=["orthogonal", "oblique", "random", "rows"], kind=KINDS)
def test_likelihood_and_smoother(kind, pattern):
    rng = np.random.default_rng(2)
    p, phi, t = parameters(kind), basis(pattern in ("orthogonal", "rows")), DT * np.arange(12)
    values = hide(draw(p, t, phi, rng, 3), pattern, rng)
    collapsed, close = collapse(values, t, phi), {"rtol": 0.0, "atol": 1e-8}
    got = evaluate_likelihood(collapsed, p).log_likelihood
    for block in collapsed.blocks:
        states, lags = smooth_states(block, p), lag_diagonals(block, p)
        for j, path in enumerate(block.paths):
            other = by_statsmodels(p, values[path], phi)
            np.testing.assert_allclose(got[path], other.llf, rtol=1e-8)
            np.testing.assert_allclose(states.mean[..., j], other.smoothed_state.T, **close)
            theirs = other.smoothed_state_cov.transpose(2, 0, 1)
            theirs = np.einsum("tnn->tn", theirs) if block.is_diagonal else theirs
            np.testing.assert_allclose(of_path(states.covariance, j), theirs, **close)
            # smoothed_state_autocov[:, :, t] is Cov(c_{t+1}, c_t).
            autocov = np.einsum("nnt->tn", other.smoothed_state_autocov)[: len(t) - 1]
            first = 1 if kind == "deterministic" else 0
            np.testing.assert_allclose(of_path(lags, j), autocov[first:], **close)
