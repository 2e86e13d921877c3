"""What every law has in common, whatever engine and data it comes from."""

import numpy as np
import pytest
import xarray as xr
from tests.fitted import RECIPES, fitted

import spdelaw as sl


@pytest.mark.parametrize("name", RECIPES)
def test_saved_and_loaded_laws_are_the_same(name, tmp_path):
    data, _, law = fitted(name)
    law.save(tmp_path / "a.law")
    again = sl.load(tmp_path / "a.law")
    xr.testing.assert_identical(again.parameters, law.parameters)
    assert again.info == law.info
    xr.testing.assert_identical(again.sample(2, seed=1), law.sample(2, seed=1))
    ahead = (one.forecast(data[:2, :20], data.time.values[20:22]) for one in (law, again))
    xr.testing.assert_identical(*ahead)


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {"chaos_dropped"}))
def test_the_likelihood_reported_is_that_of_the_law(name):
    """By another way than that of the fit, where it went over statistics or transitions."""
    data, _, law = fitted(name)
    log_likelihoods = law.log_likelihood(data)
    assert law.info["log_likelihood"] == pytest.approx(float(log_likelihoods.sum()), rel=1e-9)
    assert law.info["log_likelihood_of"]["count"] == log_likelihoods.attrs["count"]
    assert law.info["log_likelihood_of"]["kind"] == log_likelihoods.attrs["of"]


@pytest.mark.parametrize("name", RECIPES)
def test_samples_depend_on_their_seed_only(name):
    law = fitted(name).law
    paths = law.sample(3, seed=1)
    assert np.isfinite(paths).all()
    np.testing.assert_array_equal(law.sample(2, seed=1), paths[:2])
    assert not np.array_equal(law.sample(3, seed=2), paths)
