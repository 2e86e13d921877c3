"""A dense law on patterns of the data is the climatologists' linear inverse model.

Fields of a non-normal law on the sphere, seen on an ocean with land that is never observed; the
patterns are orthogonal on the ocean under area weights, and turn truth and estimates into theirs.
"""

import functools

import numpy as np
import pytest
import xarray as xr
from scipy import linalg
from tests.infer.coupled import WITHIN, assert_recovers, stable

import spdelaw as sl

SPHERE, N, STEP = sl.Sphere(), 4, 0.2


@functools.cache
def truth() -> sl.SpectralSPDE:
    drift, noise = stable(N, seed=3, rate=2.0)
    drift = drift + 0.3 * np.eye(N)
    assert np.linalg.norm(drift @ drift.T - drift.T @ drift) > 0.5  # far from normal
    return sl.SpectralSPDE(SPHERE, N, drift, noise=noise, initial="stationary")


def ocean(n_times: int, std: float = 0.0, seed: int = 0) -> xr.DataArray:
    grid = SPHERE.grid(6)
    data = sl.simulate(truth(), 1, STEP * np.arange(n_times), grid, seed=seed, observation_std=std)
    return data.where((data.lat > 0) | (data.lon > 120))


def in_patterns(eofs: sl.Empirical) -> tuple[np.ndarray, sl.SpectralSPDE]:
    """R with ``c_eof = R c`` and the truth in patterns, ``R Lambda R^-1`` and ``R Q R'``."""
    h = SPHERE.eigenfunctions(eofs.nodes, N)
    turn = eofs.modes.T @ (eofs.node_weights[:, None] * h)
    np.testing.assert_allclose(eofs.modes @ turn, h, atol=1e-7)  # they span the same fields
    drift = turn @ truth().drift_matrix @ np.linalg.inv(turn)
    noise = turn @ truth().noise_covariance @ turn.T
    return turn, sl.SpectralSPDE(eofs, N, drift, noise=noise, initial="stationary")


def lag_covariances(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Penland's estimates from coefficients (time, mode)."""
    before, cross = c[:-1].T @ c[:-1] / (len(c) - 1), c[1:].T @ c[:-1] / (len(c) - 1)
    drift = -np.real(linalg.logm(cross @ np.linalg.inv(before))) / STEP
    return drift, drift @ before + before @ drift.T


def estimate(law: sl.Law, name: str, statistic: str = "estimate") -> np.ndarray:
    return law.parameters[name].sel(statistic=statistic).values


def dense(data: xr.DataArray, domain: sl.AbstractDomain, **settings: object) -> sl.Law:
    return sl.fit(data, domain, N, drift="dense", noise="dense", **settings)


def test_much_complete_data_give_the_inverse_model_and_the_truth():
    data = ocean(6000)
    eofs = sl.Empirical(data, N, weights=SPHERE)
    law = dense(data, eofs, observation_noise="none")
    principal = eofs.analyse(data, N).values[0]
    drift, noise = lag_covariances(principal)
    np.testing.assert_allclose(estimate(law, "drift"), drift, atol=1e-5)
    # The balance of noise and drift forgets the ends of the record.
    gap = np.abs(estimate(law, "noise_covariance") - noise)
    assert (gap < 0.5 * estimate(law, "noise_covariance", "stderr")).all()
    assert_recovers(law, in_patterns(eofs)[1])


def test_a_dense_law_does_not_depend_on_the_basis():
    """On patterns and on harmonics the same field is forecast, with the same spread."""
    data = ocean(300, seed=1)
    eofs = sl.Empirical(data, N, weights=SPHERE)
    on_patterns = dense(data, eofs, observation_noise="none")
    on_harmonics = dense(data, SPHERE, observation_noise="none")
    turn = in_patterns(eofs)[0]
    same = turn @ estimate(on_harmonics, "drift") @ np.linalg.inv(turn)
    np.testing.assert_allclose(estimate(on_patterns, "drift"), same, atol=1e-4)
    ahead = [float(data.time[-1]) + 1.0]
    one, two = (law.forecast(data, ahead) for law in (on_patterns, on_harmonics))
    seen = data[0, 0].notnull()
    for name in ("mean", "std"):
        a, b = (f[name].isel(path=0, time=-1).where(seen) for f in (one, two))
        np.testing.assert_allclose(a, b, atol=1e-4)
    assert bool(one["mean"].isel(path=0, time=-1).isnull().where(~seen, True).all())


@pytest.mark.slow
def test_noise_biases_lag_covariances_of_patterns_and_not_the_likelihood():
    """White noise adds to ``C(0)`` and reads as decay; the likelihood knows it for what it is."""
    data = ocean(1500, std=0.5, seed=2)
    gappy = sl.mask(data, "random", 0.2, seed=3)
    eofs = sl.Empirical(ocean(1500, seed=2), N, weights=SPHERE)  # patterns known from elsewhere
    law = dense(gappy, eofs, initial="stationary")
    expected = in_patterns(eofs)[1]
    assert_recovers(law, expected)
    std = law.parameters.observation_std.values
    assert abs(std[0] - 0.5) < WITHIN * std[1]
    stderr = np.trace(estimate(law, "drift", "stderr"))
    drift, _ = lag_covariances(eofs.analyse(data, N).values[0])
    assert np.trace(drift) > np.trace(expected.drift_matrix) + 2.0 * stderr
