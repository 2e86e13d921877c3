"""Transport on the sphere, the disk and a channel, from fields that no matrix has made."""

import numpy as np
import pytest
import xarray as xr
from tests.infer.coupled import assert_recovers

import spdelaw as sl
from spdelaw.errors import InputError

STEP = 0.1


def carried(at_rest: xr.DataArray, dim: str) -> xr.DataArray:
    """Fields of an equation at rest, pushed on by one cell of the grid a time step.

    Where neither decay nor noise prefers a place along ``dim``, this has the law of the equation
    that carries its fields one cell a step.
    """
    steps = [at_rest.isel(time=[i]).roll({dim: i}) for i in range(at_rest.sizes["time"])]
    return xr.concat(steps, "time")


def both(domain: sl.AbstractDomain, n_modes: int, speed: float) -> tuple[sl.SpectralSPDE, ...]:
    """At rest, and moving; with noise that depends on the eigenvalue only."""
    settings = {"kappa": 0.4, "nu": 0.1, "noise": 1.0 / (1.0 + domain.eigenvalues(n_modes))}
    return (
        sl.catalogue.heat_on(domain, n_modes, **settings),
        sl.catalogue.advection_diffusion_on(domain, n_modes, speed=speed, **settings),
    )


def sphere_fields(n_paths: int, seed: int) -> tuple[xr.DataArray, sl.SpectralSPDE]:
    sphere = sl.Sphere()
    speed = np.radians(360.0 / 16) / STEP
    at_rest, moving = both(sphere, 9, speed)
    times = STEP * np.arange(31)
    return carried(sl.simulate(at_rest, n_paths, times, sphere.grid(8), seed=seed), "lon"), moving


def test_sphere():
    data, moving = sphere_fields(40, seed=0)
    law = sl.fit(data, domain=sl.Sphere(), n_modes=9, drift="normal", initial="stationary")
    assert law.info["route"] == "statistics"
    assert_recovers(law, moving)
    turning = law.eigenmodes().period.dropna("eigenmode")
    assert turning.sizes["eigenmode"] == 3


def test_sphere_with_land_and_noise():
    data, moving = sphere_fields(16, seed=1)
    noisy = data + 0.1 * np.random.default_rng(2).standard_normal(data.shape)
    ocean = noisy.where((abs(noisy.lat) > 30) | (noisy.lon > 90))
    law = sl.fit(sl.as_fields(ocean, dims=("lat", "lon")), sl.Sphere(), 9, drift="normal",
                 initial="stationary")  # fmt: skip
    assert law.info["route"] == "filter"
    assert_recovers(law, moving)


def test_channel():
    """A box that is periodic in y; eight modes cut no pair, so nothing is carried out of them."""
    channel = sl.Box((0.0, 1.0), (0.0, 3.0), boundary=("neumann", "periodic"))
    at_rest, moving = both(channel, 8, 0.25 / STEP)
    grid = channel.grid((8, 12))
    data = carried(sl.simulate(at_rest, 40, STEP * np.arange(31), grid, seed=3), "y")
    law = sl.fit(data, channel, 8, drift="normal", initial="stationary")
    assert_recovers(law, moving)


def test_a_cut_pair_is_said():
    data, _ = sphere_fields(8, seed=5)
    cut = sl.fit(data, sl.Sphere(), 8, drift="normal", initial="stationary", nuisance=0)
    assert any("n_modes=9" in note for note in cut.info["warnings"])
    whole = sl.fit(data, sl.Sphere(), 9, drift="normal", initial="stationary", nuisance=0)
    assert not any("partner" in note for note in whole.info["warnings"])


def test_law_forecasts_downstream(tmp_path):
    """The mean forecast is the last field, carried on and decayed; saved, loaded, the same."""
    data, _ = sphere_fields(30, seed=4)
    sl.fit(data, sl.Sphere(), 9, drift="normal", initial="stationary").save(tmp_path / "a.law")
    law = sl.load(tmp_path / "a.law")
    history, later = data[:5, :21], data[:5, 21:24]
    ahead = law.forecast(history, later.time.values)["mean"].sel(time=later.time)
    still = law.equation.domain.analyse(history[:, -1], 9)
    assert ahead.dims == ("path", "time", "lat", "lon")
    moved = history[:, -1].roll(lon=1)
    toward = float(((ahead[:, 0] - later[:, 0]) ** 2).mean())
    assert toward < float(((history[:, -1] - later[:, 0]) ** 2).mean())
    decayed = still.copy(data=still.values * np.exp(-STEP * np.diag(law.linear.drift)))
    expected = sl.Sphere().synthesise(decayed, sl.Sphere().grid(8)).roll(lon=1)
    scale = float(np.abs(moved).max())
    np.testing.assert_allclose(ahead[:, 0].values, expected.values, atol=0.05 * scale)


def test_a_domain_without_rotation_is_refused():
    box = sl.Box((0, 1), (0, 1), boundary="periodic")
    data = sl.simulate(sl.catalogue.heat_on(box, 4), 4, [0.0, 0.1, 0.2], box.grid(6), seed=0)
    with pytest.raises(InputError, match="one periodic side"):
        sl.fit(data, box, 4, drift="normal")
