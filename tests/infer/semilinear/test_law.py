"""Semilinear laws through the door of every fit."""

from functools import cache

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.equation import Reacting
from spdelaw.errors import DataError, InputError

#: A true null fails once in 16,000 numbers.
WITHIN = 4.0


@cache
def fields():
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41), initial=start)
    return e, sl.simulate(e, 8, grid=e.domain.grid(16), seed=0)


@cache
def law():
    e, data = fields()
    return sl.fit(data, e.domain, 5, terms=("u", "u^3"), noise="parametric")


def test_parameters_are_recovered_with_intervals():
    e, _ = fields()
    found = law().parameters
    assert found.coefficient.dims == ("term", "statistic")
    assert list(found.term.values) == ["u", "u^3"]
    assert list(found.statistic.values) == ["estimate", "stderr", "lower", "upper"]
    truth = {
        "coefficient": [1.0, -1.0],
        "eigenvalue": e.linear.eigenvalues,
        "noise_variance": e.linear.noise_variance,
    }
    for name, expected in truth.items():
        estimate, error = (found[name].sel(statistic=s).values for s in ("estimate", "stderr"))
        known = error == 0  # nu times an eigenvalue of zero
        assert (np.abs(estimate - expected)[~known] < WITHIN * error[~known]).all()
        np.testing.assert_allclose(estimate[known], np.asarray(expected)[known])
    assert (found.coefficient.sel(statistic="stderr") < 0.5).all()
    assert "coefficient of u^3" in repr(law())


def test_log_likelihood_is_that_of_the_closure_filter():
    """The same numbers by another way: the filter with almost no noise."""
    _, data = fields()
    other = law().log_likelihood(data)
    named = law().info.log_likelihood_of
    assert named["kind"] == other.attrs["of"] == "coefficients"
    assert named["count"] == other.attrs["count"] == 8 * 41 * 5
    assert law().info.log_likelihood == pytest.approx(float(other.sum()), rel=2e-3)


def test_samples_and_forecasts_follow_the_dynamics(tmp_path):
    """Null: last values of draws; means of both ways within 4.5 standard errors of 400 draws."""
    _, data = fields()
    assert isinstance(law().dynamics, Reacting)
    paths = law().sample(3, seed=1)
    assert paths.shape == (3, 41, 16)
    assert np.isfinite(paths).all()
    np.testing.assert_array_equal(law().sample(2, seed=1), paths[:2])
    ahead = law().forecast(data[:2, :20], data.time.values[20:22], n_samples=400, seed=0)
    drawn, std = ahead["sample"], ahead["std"]
    assert (np.abs(drawn.mean("draw") - ahead["mean"]) < 4.5 * std / 20.0).all()
    error = (ahead["mean"] - data[:2, 20:22]) / std
    assert np.abs(error).max() < 6.0
    law().save(tmp_path / "law")
    again = sl.load(tmp_path / "law")
    np.testing.assert_array_equal(again.sample(3, seed=1), paths)
    assert again.parameters.identical(law().parameters)


def test_discovery_finds_the_terms_that_act():
    """Terms that act are never missed here; BIC adds an idle one in 1.6 % of 320 transitions.

    ``P(z^2 > log 320)`` is too often to assert that none was added.
    """
    e, data = fields()
    found = sl.discover(
        data, e.domain, 5, library=("u", "u^2", "u^3"), noise="parametric", bootstrap=50
    )
    about = found.info["discovery"]
    assert about["terms"] == [str(name) for name in found.parameters.term.values]
    assert {"u", "u^3"} <= set(about["terms"])
    assert set(about["inclusion"]) == {"u", "u^2", "u^3"}
    assert about["inclusion"]["u^3"] > 0.9
    assert about["inclusion"]["u^2"] < about["inclusion"]["u^3"]
    assert about["bic"][0] == 0.0
    assert found.dynamics.terms == tuple(about["terms"])


def test_refusals():
    e, data = fields()
    gaps = sl.mask(data, "random", 0.1, seed=0)
    with pytest.raises(DataError, match="complete fields"):
        sl.fit(gaps, e.domain, 5, terms=("u",))
    with pytest.raises(DataError, match="complete fields"):
        sl.discover(gaps, e.domain, 5)
    with pytest.raises(InputError, match="names in a tuple"):
        sl.fit(data, e.domain, 5, terms="u^3")
    with pytest.raises(InputError, match="season"):
        sl.fit(data, e.domain, 5, terms=("u",), season=sl.Season(1.0, 2))
    with pytest.raises(InputError, match="bootstrap"):
        sl.fit(data, e.domain, 5, terms=("u",), bootstrap=3)
    with pytest.raises(InputError, match="parametric"):
        sl.fit(data, e.domain, 5, terms=("u",), noise="dense")
