"""Against the climatologists' linear inverse model: equal where it is exact, better where not.

The model here is a few lines of its own: ``Lambda = -log(C(tau) C(0)^-1) / tau`` and the noise
from the balance ``Lambda C(0) + C(0) Lambda' = Q`` (Penland 1989). On patterns of the data, fields
of a non-normal law on the sphere are seen on an ocean with land that is never observed.
"""

import functools

import numpy as np
import pytest
import xarray as xr
from scipy import linalg
from tests.infer.coupled import POINTS, RING, N, assert_recovers, equation, stable
from tests.infer.recovery import estimates

import spdelaw as sl

SPHERE, STEP = sl.Sphere(), 0.2

#: An inverse model has no mean, and its first state is given.
STATED = {"mean": "zero", "initial": "deterministic"}


def inverse_model(c: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Drift, noise and covariance of the errors of one step of coefficients (path, time, mode)."""
    now, then = (x.reshape(-1, c.shape[-1]) for x in (c[:, :-1], c[:, 1:]))
    before, cross = now.T @ now / len(now), then.T @ now / len(now)
    factor = cross @ np.linalg.inv(before)
    drift = -np.real(linalg.logm(factor)) / tau
    error = then - now @ factor.T
    return drift, drift @ before + before @ drift.T, error.T @ error / len(error)


def dense(data, domain, n_modes, **words):
    return sl.fit(data, domain, n_modes, drift="dense", noise="dense", **STATED | words)


@pytest.mark.parametrize("n_paths", [1, 30])
def test_same_law_on_complete_noise_free_fields_with_equal_steps(n_paths):
    """Given the first states, the lag-covariance drift is the maximum of the likelihood.

    So is the covariance of its one-step errors. The balance of noise and drift supposes a record
    so long that its ends do not matter.
    """
    times = 0.1 * np.arange(1001 if n_paths == 1 else 41)
    data = sl.simulate(equation("dense", "dense"), n_paths, times, POINTS, seed=3)
    law = dense(data, RING, N, observation_noise="none")
    c = data.values @ np.linalg.pinv(RING.eigenfunctions(POINTS, N)).T
    drift, noise, error = inverse_model(c, 0.1)
    np.testing.assert_allclose(estimates(law, "drift"), drift, atol=1e-6)
    step = law.linear.over(np.array([0.1]))
    np.testing.assert_allclose(step.covariance[0], error, atol=1e-7)
    if n_paths == 1:
        gap = np.abs(estimates(law, "noise_covariance") - noise)
        assert (gap < 3.0 * estimates(law, "noise_covariance", "stderr")).all()


@functools.cache
def truth() -> sl.SpectralSPDE:
    drift, noise = stable(4, seed=3, rate=2.0)
    drift = drift + 0.3 * np.eye(4)
    assert np.linalg.norm(drift @ drift.T - drift.T @ drift) > 0.5  # far from normal
    return sl.SpectralSPDE(SPHERE, 4, drift, noise=noise, initial="stationary")


def ocean(n_times: int, std: float = 0.0, seed: int = 0) -> xr.DataArray:
    times, grid = STEP * np.arange(n_times), SPHERE.grid(6)
    data = sl.simulate(truth(), 1, times, grid, seed=seed, observation_std=std)
    return data.where((data.lat > 0) | (data.lon > 120))


def in_patterns(eofs: sl.Empirical) -> tuple[np.ndarray, sl.SpectralSPDE]:
    """R with ``c_eof = R c`` and the truth in patterns, ``R Lambda R^-1`` and ``R Q R'``."""
    h = SPHERE.eigenfunctions(eofs.nodes, 4)
    turn = eofs.modes.T @ (eofs.node_weights[:, None] * h)
    np.testing.assert_allclose(eofs.modes @ turn, h, atol=1e-7)  # they span the same fields
    drift = turn @ truth().drift_matrix @ np.linalg.inv(turn)
    noise = turn @ truth().noise_covariance @ turn.T
    return turn, sl.SpectralSPDE(eofs, 4, drift, noise=noise, initial="stationary")


def test_much_complete_data_give_the_inverse_model_and_the_truth():
    data = ocean(6000)
    eofs = sl.Empirical(data, 4, weights=SPHERE)
    law = dense(data, eofs, 4, observation_noise="none")
    drift, noise, _ = inverse_model(eofs.analyse(data, 4).values, STEP)
    np.testing.assert_allclose(estimates(law, "drift"), drift, atol=1e-5)
    # The balance of noise and drift forgets the ends of the record.
    gap = np.abs(estimates(law, "noise_covariance") - noise)
    assert (gap < 0.5 * estimates(law, "noise_covariance", "stderr")).all()
    assert_recovers(law, in_patterns(eofs)[1])


def test_a_dense_law_does_not_depend_on_the_basis():
    """On patterns and on harmonics the same field is forecast, with the same spread."""
    data = ocean(300, seed=1)
    eofs = sl.Empirical(data, 4, weights=SPHERE)
    laws = [dense(data, domain, 4, observation_noise="none") for domain in (eofs, SPHERE)]
    turn = in_patterns(eofs)[0]
    same = turn @ estimates(laws[1], "drift") @ np.linalg.inv(turn)
    np.testing.assert_allclose(estimates(laws[0], "drift"), same, atol=1e-4)
    ahead = [float(data.time[-1]) + 1.0]
    one, two = (law.forecast(data, ahead).isel(path=0, time=-1) for law in laws)
    sea = data[0, 0].notnull()
    for name in ("mean", "std"):
        np.testing.assert_allclose(one[name].where(sea), two[name].where(sea), atol=1e-4)
    assert bool(one["mean"].isnull().where(~sea, True).all())
