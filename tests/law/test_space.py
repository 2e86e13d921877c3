"""A law on a square, a disk and a sphere: everything a law does keeps the labels of the data."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.errors import DomainError
from spdelaw.law.prediction import chaos_posterior

TIMES = np.linspace(0.0, 1.0, 21)
DOMAINS = {
    "box": (sl.Box((0, np.pi), (0, 2.0)), 7, ("x", "y")),
    "disk": (sl.Disk(), 9, ("x", "y")),
    "sphere": (sl.Sphere(), 6, ("lat", "lon")),
}


@pytest.fixture(scope="module", params=DOMAINS)
def case(request):
    domain, n_points, dims = DOMAINS[request.param]
    equation = sl.catalogue.heat_on(domain, 3)
    data = sl.simulate(equation, 24, TIMES, domain.grid(n_points), seed=0, observation_std=0.05)
    law = sl.fit(data, domain, 3, initial="stationary", observation_noise="estimate")
    return domain, dims, equation, data, law


def test_fields_come_back_as_they_went_in(case):
    _, dims, _, data, law = case
    assert data.dims == ("path", "time", *dims)
    for result in (law.reconstruct(data)["mean"], law.sample(2), law.forecast(data, [2.0])["std"]):
        assert result.dims == data.dims
        for dim in dims:
            np.testing.assert_array_equal(result[dim], data[dim])
        # Cells of the grid outside the domain are NaN before and after.
        np.testing.assert_array_equal(
            result.isnull().all(("path", "time")), data.isnull().all(("path", "time"))
        )


def test_labelled_and_scattered_points_give_the_same_answer(case):
    domain, dims, _, data, law = case
    flat = domain.flatten(data)
    assert flat.dims == ("path", "time", "point")
    shuffled = flat.isel(point=np.random.default_rng(0).permutation(flat.sizes["point"]))
    np.testing.assert_allclose(law.log_likelihood(shuffled), law.log_likelihood(data), rtol=1e-9)
    turned = data.transpose(*reversed(data.dims)).isel({dims[0]: slice(None, None, -1)})
    np.testing.assert_allclose(law.log_likelihood(turned), law.log_likelihood(data), rtol=1e-9)
    again = sl.fit(shuffled, domain, 3, initial="stationary", observation_noise="estimate")
    np.testing.assert_allclose(again.dynamics.drift, law.dynamics.drift, rtol=1e-4)


def test_other_points_own_times_and_gaps(case):
    domain, _, _, data, law = case
    there = law.reconstruct(data, law.points[[3, 1, 8]])
    assert there["mean"].dims == ("path", "time", "point")
    whole = domain.flatten(law.reconstruct(data)["mean"])
    np.testing.assert_allclose(there["mean"], whole.isel(point=[3, 1, 8]), atol=1e-12)
    ragged = sl.stack([data[0], data[1].isel(time=slice(3, 15))], dims=domain.dims)
    gappy = sl.mask(ragged, "random", 0.4, seed=1)
    result = law.reconstruct(gappy)
    assert result["mean"].dims == data.dims
    assert "path_time" in result.coords
    draws = law.forecast(gappy, [1.5, 2.0], n_samples=3)["sample"]
    assert draws.dims == ("draw", *data.dims)


def test_files_and_scores(case, tmp_path):
    domain, dims, equation, data, law = case
    sl.write(data, tmp_path / "data.nc")
    for given in (dims, None):
        assert sl.read(tmp_path / "data.nc", dims=given).identical(data)
    law.save(tmp_path / "a.law")
    loaded = sl.load(tmp_path / "a.law")
    assert loaded.domain == domain
    xr.testing.assert_identical(loaded.sample(2, seed=1), law.sample(2, seed=1))
    assert set(dims) < set(sl.describe(data)["coordinates"])
    card = sl.evaluate(law, sl.mask(data, "blocks", 0.2, seed=0), truth=equation)
    assert card.distance["largest_z"] < 4


def test_bootstrap_point_noise_and_chaos_coordinates(case):
    domain, _, _, data, _ = case
    again = 3 if isinstance(domain, sl.Box) else 0
    law = sl.fit(data[:12], domain, 2, bootstrap=again, observation_noise="per_point")
    assert not again or law.info["bootstrap"]["used"] >= 2
    assert law.parameters["observation_std"].sizes["point"] == len(law.points)
    assert law.sample(2, observation_noise=True).dims == data.dims
    law = sl.fit(data[:8], domain, 2, engine="chaos", n_time=3)
    assert chaos_posterior(law, data[:8])["reconstruct_truncated"].dims == data.dims


def test_data_of_another_domain_are_refused(case):
    _, dims, _, data, law = case
    with pytest.raises((sl.errors.DataError, DomainError), match="dim"):
        law.reconstruct(data.rename({dims[0]: "height"}))
