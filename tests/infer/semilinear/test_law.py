"""Semilinear laws through the door of every fit, from complete fields and through the filter."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import (
    ConvergenceError,
    DataError,
    EquationError,
    IdentifiabilityWarning,
    InputError,
)
from spdelaw.infer.semilinear.engine import notes
from spdelaw.infer.semilinear.fits import fit_complete
from spdelaw.infer.semilinear.observations import noise_score
from spdelaw.infer.semilinear.starts import invert_information
from spdelaw.processes.semilinear import Reacting
from spdelaw.statespace.semilinear import transition_innovations, transitions

#: A true null fails once in 16,000 numbers.
WITHIN = 4.0


@cache
def fields():
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41), initial=start)
    return e, sl.simulate(e, 8, grid=e.domain.grid(16), seed=0)


@cache
def gappy():
    """The same with 30 % gaps and noise of 0.1, on ten paths."""
    e, _ = fields()
    noisy = sl.simulate(e, 10, grid=e.domain.grid(16), seed=0, observation_std=0.1)
    return sl.mask(noisy, "random", 0.3, seed=0)


@cache
def filtered():
    return sl.fit(gappy(), fields()[0].domain, 5, terms=("u", "u^3"))


@cache
def law():
    e, data = fields()
    return sl.fit(data, e.domain, 5, terms=("u", "u^3"))


@pytest.mark.parametrize("which", [law, filtered])
def test_parameters_are_recovered_with_intervals(which):
    e, _ = fields()
    found = which().parameters
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
    assert "coefficient of u^3" in repr(which())
    assert which().info.noise == which().info.drift == "parametric"


def test_log_likelihood_is_that_of_the_closure_filter():
    """The same numbers by another way: the filter with noise as small as rounding."""
    _, data = fields()
    other = law().log_likelihood(data)
    named = law().info.log_likelihood_of
    assert named["kind"] == other.attrs["of"] == "coefficients"
    assert named["count"] == other.attrs["count"] == 8 * 41 * 5
    assert law().info.log_likelihood == pytest.approx(float(other.sum()), rel=1e-10)


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


def test_route_and_noise():
    """Null: the noise of 0.1 within `WITHIN` standard errors."""
    assert law().info.route == "closure of transitions"
    assert filtered().info.route == "closure filter"
    std = filtered().parameters.observation_std
    z = (std.sel(statistic="estimate") - 0.1) / std.sel(statistic="stderr")
    assert abs(float(z)) < WITHIN
    assert filtered().info["closure"]["burn"] > 0.2


def test_a_law_through_the_filter_is_a_whole_law(tmp_path):
    """Null: reconstructed values of 10 paths, inside 95 % bands for 90 to 99 % of them."""
    found, data = filtered(), gappy()
    own = found.log_likelihood(data)
    assert found.info.log_likelihood == pytest.approx(float(own.sum()), rel=1e-12)
    assert found.info.log_likelihood_of["count"] == own.attrs["count"] == int(data.notnull().sum())
    e, _ = fields()
    truth = sl.simulate(e, 10, grid=e.domain.grid(16), seed=0)
    smooth = found.reconstruct(data)
    inside = (np.abs(smooth["mean"] - truth) < 1.96 * smooth["std"]).values
    assert 0.90 < inside.mean() < 0.99
    assert found.initial.covariance[0] == pytest.approx(1.0, abs=1.8)  # ten starts of variance 1
    found.save(tmp_path / "law")
    again = sl.load(tmp_path / "law")
    np.testing.assert_array_equal(again.log_likelihood(data), own)
    assert sl.evaluate(found, data).check.fits


@pytest.mark.slow
def test_a_plane_with_gaps():
    """Null: a square, 30 % missing, noise of 0.1; coefficients, and bands of what is hidden."""
    start = sl.Gaussian(0.0, 3.0 / np.arange(1.0, 14.0) ** 2)
    e = sl.catalogue.allen_cahn_2d(13, times=0.1 * np.arange(41), initial=start)
    truth = sl.simulate(e, 6, seed=1)
    seen = sl.mask(sl.simulate(e, 6, seed=1, observation_std=0.1), fraction=0.3, seed=1)
    found = sl.fit(seen, e.domain, 13, terms=("u", "u^3"))
    assert_near(found)
    smooth = found.reconstruct(seen)
    assert 0.90 < float((np.abs(smooth["mean"] - truth) < 1.96 * smooth["std"]).mean()) < 0.99
    ahead = found.forecast(seen[:, :30], seen.time.values[30:36])
    z = np.abs(ahead["mean"] - truth[:, 30:36]) / ahead["std"]
    assert 0.85 < float((z < 1.96).mean()) <= 1.0


def test_other_doors():
    """The learner of scikit-learn's kind, and the table for pandas."""
    e, data = fields()
    learner = sl.Learner(e.domain, 5, terms=("u", "u^3")).fit(data)
    found = learner.law_.parameters.coefficient
    np.testing.assert_array_equal(found, law().parameters.coefficient)
    table = law().to_pandas()
    row = table[table.term == "u^3"]
    assert list(row.parameter) == ["coefficient"]
    assert row["mode"].isna().all()
    assert float(row.estimate.iloc[0]) == float(found.sel(term="u^3", statistic="estimate"))


def test_fields_of_a_scheme():
    """Steps of 0.3 with ``lambda dt`` up to 0.6: read as the equation, coefficients are off."""
    domain, start = sl.Interval(0, 2 * np.pi, "periodic"), sl.Gaussian(0.0, np.ones(5))
    e = sl.catalogue.allen_cahn(5, nu=0.5, times=0.3 * np.arange(61), initial=start)
    data = sl.simulate(e, 10, seed=0, scheme="semi_implicit")
    found = sl.fit(data, domain, 5, terms=("u", "u^3"), scheme="semi_implicit")
    other = sl.fit(data, domain, 5, terms=("u", "u^3"))

    def z(law):
        estimate, error = law.info["estimates"], law.info["standard_errors"]
        return np.array([(estimate[k] - v) / error[k] for k, v in (("nu", 0.5), *e.terms.items())])

    assert np.abs(z(found)).max() < WITHIN
    assert np.abs(z(other)).max() > 6.0
    assert found.info["closure"]["scheme"] == "semi_implicit"
    assert found.info.log_likelihood > other.info.log_likelihood + 20.0
    chosen = sl.discover(data, domain, 5, ("u", "u^2", "u^3"), scheme="semi_implicit", bootstrap=0)
    assert chosen.terms == ("u", "u^3")
    with pytest.raises(DataError, match="complete fields without noise for scheme"):
        sl.fit(sl.mask(data, fraction=0.3, seed=0), domain, 5, terms=("u",), scheme="semi_implicit")
    with pytest.raises(InputError, match="scheme"):
        sl.fit(data, domain, 5, terms=("u",), scheme="euler")


def test_forecast_from_a_start_that_is_zero():
    """Nothing but zeros was seen: no scale for the digits of a filter but that of the law."""
    e = sl.catalogue.allen_cahn(3, times=0.1 * np.arange(31))
    data = sl.simulate(e, 6, seed=0)
    found = sl.fit(data, e.domain, 3, terms=("u", "u^3"))
    seen = data.where(data.time < 0.05)
    later = found.reconstruct(seen)
    assert np.isfinite(later["std"]).all()
    assert float(np.abs(later["mean"]).max()) < 0.05


def test_bands_of_closure_and_of_an_ensemble():
    """Both ways to forecast from one law: means within 5 standard errors, deviations within 12 %.

    Null: 1,000 draws ten steps ahead; a deviation of 1,000 draws is known to 2.3 %.
    """
    _, data = fields()
    found = filtered()
    ahead = found.forecast(data[:3, :30], data.time.values[[34, 39]], n_samples=1000, seed=0)
    drawn, std = ahead["sample"], ahead["std"]
    z = np.abs(drawn.mean("draw") - ahead["mean"]) / (std / np.sqrt(1000.0))
    assert float(z.max()) < 5.0
    ratio = drawn.std("draw") / std
    assert float(np.abs(ratio - 1.0).max()) < 0.12


@pytest.mark.parametrize(
    "see",
    [
        lambda x: sl.mask(x, "rows", 0.2, seed=1),
        lambda x: x.assign_coords(path_time=(("path", "time"), x.time.values + _late(x))),
    ],
)
def test_rows_that_determine_the_modes_need_no_filter(see):
    """Whole rows missing, or clocks of their own, without noise: transitions as they are."""
    e, data = fields()
    found = sl.fit(see(data), e.domain, 5, terms=("u", "u^3"))
    assert found.info.route == "closure of transitions"
    assert_near(found)


def _late(x):
    return 0.01 * np.arange(x.sizes["path"])[:, None]


def assert_near(found):
    row = found.parameters.coefficient
    z = (row.sel(statistic="estimate") - [1.0, -1.0]) / row.sel(statistic="stderr")
    assert float(np.abs(z).max()) < WITHIN


def test_noise_shows_in_the_errors_of_predictions():
    """As many points as modes: nothing is left over, and only the errors can tell.

    Null: a normal score without noise, beyond 4.5 once in 300,000; noise of 0.1 is far beyond.
    """
    e, _ = fields()
    x = e.domain.grid(5)
    scores = []
    for std in (0.0, 0.1):
        data = sl.simulate(e, 8, grid=x, seed=4, observation_std=std)
        c = data.values @ np.linalg.inv(e.domain.eigenfunctions(x, 5)).T
        fit = fit_complete(c, e.times, e.domain, ("u", "u^3"))
        closure, pairs = fit.layout.closure(fit.x), transitions(c, e.times)
        errors = transition_innovations(closure, pairs, fit.diagnostics["n_steps"])
        scores.append(noise_score(closure, pairs, errors, np.full(5, 5 / (2 * np.pi))))
    assert abs(scores[0]) < 4.5
    assert scores[1] > 8.0


def test_few_sensors():
    """Four sensors for five modes, with a known noise."""
    e, _ = fields()
    x = np.array([0.3, 1.9, 3.4, 5.0])
    data = sl.simulate(e, 10, grid=x, seed=2, observation_std=0.05)
    found = sl.fit(
        data, e.domain, 4, terms=("u", "u^3"), observation_noise=0.05, fixed={"kappa": 0, "s": 1.0}
    )
    assert found.info.route == "closure filter"
    assert float(found.observation_variance) == 0.05**2
    row = found.parameters.coefficient
    assert (row.sel(statistic="lower") < row.sel(statistic="upper")).all()


def test_refusals():
    e, data = fields()
    with pytest.raises(InputError, match="names in a tuple"):
        sl.fit(data, e.domain, 5, terms="u^3")
    with pytest.raises(InputError, match="season"):
        sl.fit(data, e.domain, 5, terms=("u",), season=sl.Season(1.0, 2))
    with pytest.raises(InputError, match="bootstrap"):
        sl.fit(data, e.domain, 5, terms=("u",), bootstrap=3)
    with pytest.raises(InputError, match="parametric"):
        sl.fit(data, e.domain, 5, terms=("u",), noise="dense")
    for drift in ("diagonal", "dense"):
        with pytest.raises(InputError, match="the term 'u' is already a part"):
            sl.fit(data, e.domain, 5, terms=("u", "u^3"), drift=drift)
    with pytest.raises(InputError, match="minus kappa"):
        sl.fit(data, e.domain, 5, terms=("u", "u^3"), fixed={"kappa": None})
    with pytest.raises(InputError, match="per_point"):
        sl.fit(data, e.domain, 5, terms=("u",), observation_noise="per_point")
    with pytest.raises(EquationError, match="u_y"):
        sl.fit(data, e.domain, 5, terms=("u u_y",))


def test_terms_that_are_alike_inside_one_well():
    e, _ = fields()
    well = np.sqrt(2.0 * np.pi) * np.eye(3)[0]
    noise = sl.PowerLaw(1.5, 0.01)
    quiet = sl.catalogue.allen_cahn(3, times=0.1 * np.arange(31), initial=well, noise=noise)
    data = sl.simulate(quiet, 4, seed=0)
    with pytest.raises(ConvergenceError, match="alike inside one well"):
        sl.fit(data, e.domain, 3, terms=("u", "u^2", "u^3"))
    c = e.domain.analyse(data, 3, method="dense").values
    fit = fit_complete(c, quiet.times, e.domain, ("u", "u^3"), fixed={"nu": 0.05})
    at = [fit.layout.free_names.index(name) for name in ("u", "u^3")]
    poor = fit.covariance.copy()
    poor[np.ix_(at, at)] = [[100.0, -99.0], [-99.0, 100.0]]
    assert any(
        "u and u^3 apart" in note for note in notes(dataclasses.replace(fit, covariance=poor))
    )


def test_a_drift_that_runs_away():
    """The growth out of zero, without what ends it."""
    e, _ = fields()
    growth = sl.catalogue.allen_cahn(3, times=0.1 * np.arange(9), initial=0.0)
    with pytest.warns(IdentifiabilityWarning, match="drift is unstable"):
        found = sl.fit(sl.simulate(growth, 20, seed=0), e.domain, 3, terms=("u",))
    law_up = dataclasses.replace(
        found, dynamics=dataclasses.replace(found.dynamics, terms=("u^3",))
    )
    with pytest.raises(ConvergenceError, match="runs away"):
        law_up.sample(2, np.array([0.0, 1e3]))


def test_a_reaction_too_fast_for_its_steps():
    """The law says so; a likelihood without a maximum is an error that names the reason."""
    e = sl.catalogue.allen_cahn(3, times=1.0 * np.arange(21))
    data = sl.simulate(e, 4, seed=0)
    with pytest.warns(IdentifiabilityWarning, match="times itself between observations"):
        sl.fit(data, e.domain, 3, terms=("u", "u^3"))
    with pytest.raises(ConvergenceError, match="times itself between them"):
        invert_information(-np.eye(2), 2.0)
