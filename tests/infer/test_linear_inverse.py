"""Against the climatologists' linear inverse model: equal where it is exact, better where not.

The model here is a few lines of its own: ``Lambda = -log(C(tau) C(0)^-1) / tau`` and the noise
from the balance ``Lambda C(0) + C(0) Lambda' = Q`` (Penland 1989).
"""

import numpy as np
import pytest
from scipy import linalg
from tests.infer.coupled import POINTS, RING, TIMES, WITHIN, N, equation, fields, z_scores

import spdelaw as sl


def coefficients(data: np.ndarray) -> np.ndarray:
    """Least squares row by row on what was observed; (path, time, mode)."""
    phi = RING.eigenfunctions(POINTS, N)
    rows = data.reshape(-1, len(POINTS))
    out = np.full((len(rows), N), np.nan)
    for i, y in enumerate(rows):
        seen = ~np.isnan(y)
        if seen.sum() >= N:
            out[i] = np.linalg.lstsq(phi[seen], y[seen], rcond=None)[0]
    return out.reshape(*data.shape[:2], N)


def inverse_model(c: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drift, noise and covariance of the errors of one step, over all times with a next one."""
    now, then = c[:, :-1].reshape(-1, N), c[:, 1:].reshape(-1, N)
    both = ~np.isnan(now + then).any(1)
    now, then = now[both], then[both]
    before, cross = now.T @ now / len(now), then.T @ now / len(now)
    factor = cross @ np.linalg.inv(before)
    drift = -np.real(linalg.logm(factor)) / tau
    error = then - now @ factor.T
    return drift, drift @ before + before @ drift.T, error.T @ error / len(error)


def estimate(law: sl.Law, name: str, statistic: str = "estimate") -> np.ndarray:
    return law.parameters[name].sel(statistic=statistic).values


@pytest.mark.parametrize("n_paths", [1, 30])
def test_same_law_on_complete_noise_free_fields_with_equal_steps(n_paths):
    """Given the first states, the lag-covariance drift is the maximum of the likelihood.

    So is the covariance of its one-step errors. The balance of noise and drift supposes a record
    so long that its ends do not matter.
    """
    times = np.linspace(0.0, 100.0 if n_paths == 1 else 4.0, 1001 if n_paths == 1 else 41)
    data = sl.simulate(equation("dense", "dense"), n_paths, times, POINTS, seed=3)
    law = sl.fit(data, RING, N, drift="dense", noise="dense", observation_noise="none")
    drift, noise, error = inverse_model(coefficients(data.values), 0.1)
    np.testing.assert_allclose(estimate(law, "drift"), drift, atol=1e-6)
    step = law.linear.over(np.array([0.1]))
    np.testing.assert_allclose(step.covariance[0], error, atol=1e-7)
    if n_paths == 1:
        gap = np.abs(estimate(law, "noise_covariance") - noise)
        assert (gap < 3.0 * estimate(law, "noise_covariance", "stderr")).all()


def test_irregular_steps_use_all_of_them():
    """A step twice as long now and then: one law for both, where lag covariances see one."""
    e = equation("dense", "dense")
    t = np.delete(np.linspace(0.0, 8.0, 81), np.arange(5, 80, 3))
    law = sl.fit(sl.simulate(e, 40, t, POINTS, seed=4), RING, N, drift="dense", noise="dense")
    assert np.abs(z_scores(law, e)).max() < WITHIN


def test_noise_and_gaps_bias_lag_covariances_and_not_the_likelihood():
    """White noise looks like decay: the decay rates of lag covariances add up to too much."""
    e = equation("normal", "dense")
    data = sl.mask(fields(e, 50, std=0.4), "rows", 0.2, seed=2)
    data = sl.mask(data, "random", 0.1, seed=3)
    law = sl.fit(data, RING, N, drift="dense", noise="dense", initial="stationary")
    assert np.abs(z_scores(law, e)).max() < WITHIN
    drift = inverse_model(coefficients(data.values), float(np.diff(TIMES)[0]))[0]
    # At most: the standard errors of the rates, added up.
    stderr = np.trace(estimate(law, "drift", "stderr"))
    truth = np.trace(e.drift_matrix)
    assert np.trace(drift) > truth + 5.0 * stderr
    assert abs(np.trace(estimate(law, "drift")) - truth) < WITHIN * stderr
