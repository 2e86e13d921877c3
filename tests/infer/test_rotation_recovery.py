"""Transport on the sphere and in a channel, from fields that no matrix has made."""

import numpy as np
import pytest
import xarray as xr
from tests.infer.coupled import assert_recovers

import spdelaw as sl

STEP = 0.1
CHANNEL = sl.Box((0.0, 1.0), (0.0, 3.0), boundary=("neumann", "periodic"))
#: Domain, modes that cut no pair, grid, dim of the transport, and its speed of a cell a step.
CASES = {
    "sphere": (sl.Sphere(), 9, sl.Sphere().grid(8), "lon", np.radians(360.0 / 16) / STEP),
    "channel": (CHANNEL, 8, CHANNEL.grid((8, 12)), "y", 0.25 / STEP),
}


def carried(name: str, n_paths: int, seed: int) -> tuple[xr.DataArray, sl.SpectralSPDE]:
    """Fields of an equation at rest, pushed on by one cell of the grid a time step.

    Where neither decay nor noise prefers a place along ``dim``, this has the law of the equation
    that carries its fields one cell a step.
    """
    domain, n, grid, dim, speed = CASES[name]
    words = {"kappa": 0.4, "nu": 0.1, "noise": 1.0 / (1.0 + domain.eigenvalues(n))}
    at_rest = sl.catalogue.heat_on(domain, n, **words)
    moving = sl.catalogue.advection_diffusion_on(domain, n, speed=speed, **words)
    fields = sl.simulate(at_rest, n_paths, STEP * np.arange(31), grid, seed=seed)
    steps = [fields.isel(time=[i]).roll({dim: i}) for i in range(fields.sizes["time"])]
    return xr.concat(steps, "time"), moving


def turning(data, domain, n, **words):
    return sl.fit(data, domain, n, drift="normal", initial="stationary", **words)


@pytest.mark.parametrize("name", CASES)
def test_transport_is_recovered(name):
    data, moving = carried(name, 40, seed=0)
    law = turning(data, moving.domain, moving.n_modes)
    assert law.info["route"] == "statistics"
    assert_recovers(law, moving)
    assert law.eigenmodes().period.dropna("eigenmode").sizes["eigenmode"] == 3


def test_a_cut_pair_is_said_and_a_whole_one_forecasts_downstream(tmp_path):
    """The mean forecast is the last field, carried on and decayed; saved, loaded, the same."""
    data, _ = carried("sphere", 8, seed=4)
    cut, whole = (turning(data, sl.Sphere(), n, nuisance=0) for n in (8, 9))
    assert any("n_modes=9" in note for note in cut.info["warnings"])
    assert not any("partner" in note for note in whole.info["warnings"])
    whole.save(tmp_path / "a.law")
    law = sl.load(tmp_path / "a.law")
    history, later = data[:5, :21], data[:5, 21:24]
    ahead = law.forecast(history, later.time.values)["mean"].sel(time=later.time)
    assert ahead.dims == ("path", "time", "lat", "lon")
    toward = float(((ahead[:, 0] - later[:, 0]) ** 2).mean())
    assert toward < float(((history[:, -1] - later[:, 0]) ** 2).mean())
    still = law.equation.domain.analyse(history[:, -1], 9)
    decayed = still.copy(data=still.values * np.exp(-STEP * np.diag(law.linear.drift)))
    expected = sl.Sphere().synthesise(decayed, sl.Sphere().grid(8)).roll(lon=1)
    scale = float(np.abs(history[:, -1]).max())
    np.testing.assert_allclose(ahead[:, 0].values, expected.values, atol=0.05 * scale)
