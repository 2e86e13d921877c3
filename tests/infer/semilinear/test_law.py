"""Semilinear laws through the door of every fit, from complete fields and through the filter."""

import dataclasses
import warnings

import numpy as np
import pytest
from tests.fitted import case, fitted

import spdelaw as sl
from spdelaw.errors import ConvergenceError, DataError, IdentifiabilityWarning
from spdelaw.infer.semilinear.fits import invert_information
from spdelaw.processes.semilinear import Reacting

#: A true null fails once in 16,000 numbers.
WITHIN = 4.0
TERMS = ("u", "u^3")


@pytest.mark.parametrize("name", ["reaction", "reaction_gaps"])
def test_parameters_are_recovered_with_intervals(name):
    """Null: every number within `WITHIN` standard errors, also the noise of 0.1."""
    _, e, law = fitted(name)
    table = law.parameters
    assert table.coefficient.dims == ("term", "statistic")
    assert list(table.term.values) == ["u", "u^3"]
    assert list(table.statistic.values) == ["estimate", "stderr", "lower", "upper"]
    truth = {"coefficient": [1.0, -1.0], "eigenvalue": e.linear.eigenvalues}
    truth["noise_variance"] = e.linear.noise_variance
    if name == "reaction_gaps":
        truth["observation_std"] = 0.1
        assert law.info["closure"]["burn"] > 0.2
    for row, expected in truth.items():
        estimate, error = (table[row].sel(statistic=s).values for s in ("estimate", "stderr"))
        is_fixed = error == 0  # nu times an eigenvalue of zero
        assert (np.abs(estimate - expected)[~is_fixed] < WITHIN * error[~is_fixed]).all()
        np.testing.assert_allclose(estimate[is_fixed], np.asarray(expected)[is_fixed])
    assert (table.coefficient.sel(statistic="stderr") < 0.5).all()
    assert "coefficient of u^3" in repr(law)
    assert (law.info.drift, law.info.noise) == ("parametric", "diagonal")
    routes = {"reaction": "closure of transitions", "reaction_gaps": "closure filter"}
    assert law.info.route == routes[name]


def test_forecasts_and_tables():
    data, _, law = fitted("reaction")
    assert isinstance(law.dynamics, Reacting)
    ahead = law.forecast(data[:2, :20], data.time.values[20:22])
    assert np.abs((ahead["mean"] - data[:2, 20:22]) / ahead["std_field"]).max() < 6.0
    table = law.to_pandas()
    row = table[table.term == "u^3"]
    assert list(row.parameter) == ["coefficient"]
    estimate = law.parameters.coefficient.sel(term="u^3", statistic="estimate")
    assert float(row.estimate.iloc[0]) == float(estimate)


def test_a_law_through_the_filter_is_a_whole_law():
    """Null: reconstructed values of 10 paths, inside 95 % bands for 90 to 99 % of them."""
    data, e, law = fitted("reaction_gaps")
    assert law.info.log_likelihood_of["count"] == int(data.notnull().sum())
    smooth = law.reconstruct(data)
    truth = sl.simulate(e, 10, grid=e.domain.grid(16), seed=0)
    inside = (np.abs(smooth["mean"] - truth) < 1.96 * smooth["std_field"]).values
    assert 0.90 < inside.mean() < 0.99
    assert law.initial.covariance[0] == pytest.approx(1.0, abs=1.8)  # ten starts of variance 1
    assert sl.evaluate(law, data).check.fits


@pytest.mark.slow
def test_fields_of_a_scheme():
    """Steps of 0.3 with ``lambda dt`` up to 0.6: read as the equation, coefficients are off."""
    domain, start = sl.Interval(0, 2 * np.pi, "periodic"), sl.Gaussian(0.0, np.ones(5))
    e = sl.catalogue.allen_cahn(5, nu=0.5, times=0.3 * np.arange(61), initial=start)
    data = sl.simulate(e, 10, seed=0, scheme="semi_implicit")
    law = sl.fit(data, domain, 5, terms=TERMS, scheme="semi_implicit")
    with pytest.warns(IdentifiabilityWarning, match="times its size between observations"):
        other = sl.fit(data, domain, 5, terms=TERMS)

    def z(one):
        estimate, error = one.info["estimates"], one.info["standard_errors"]
        return np.array([(estimate[k] - v) / error[k] for k, v in (("nu", 0.5), *e.terms.items())])

    assert np.abs(z(law)).max() < WITHIN
    assert np.abs(z(other)).max() > 6.0
    assert law.info["closure"]["scheme"] == "semi_implicit"
    assert law.info.log_likelihood > other.info.log_likelihood + 20.0
    chosen = sl.discover(data, domain, 5, ("u", "u^2", "u^3"), scheme="semi_implicit", bootstrap=0)
    assert chosen.terms == TERMS
    noisy = data + 0.05 * np.random.default_rng(0).standard_normal(data.shape)
    for bad in (sl.mask(data, fraction=0.3, seed=0), sl.mask(data, "rows", 0.2, seed=0), noisy):
        with pytest.raises(DataError, match="complete fields without noise for scheme"):
            sl.fit(bad, domain, 5, terms=TERMS, scheme="semi_implicit")


def test_forecast_from_a_start_that_is_zero():
    """Nothing but zeros was seen: no scale for the digits of a filter but that of the law."""
    e = sl.catalogue.allen_cahn(3, times=0.1 * np.arange(31))
    data = sl.simulate(e, 6, seed=0)
    law = sl.fit(data, e.domain, 3, terms=TERMS)
    later = law.reconstruct(data.where(data.time < 0.05))
    assert np.isfinite(later["std_field"]).all()
    assert float(np.abs(later["mean"]).max()) < 0.05


def test_bands_of_closure_and_of_an_ensemble():
    """Both ways to forecast from one law: means within 5 standard errors, deviations within 35 %.

    Null: 1,000 draws ten steps ahead; the deviation of 100 members in pairs is known to 10 %.
    """
    data, law = case("reaction").data, fitted("reaction_gaps").law
    ahead = law.forecast(data[:3, :30], data.time.values[[34, 39]], n_samples=1000, seed=0)
    drawn, std = ahead["sample"], ahead["std_field"]
    z = np.abs(drawn.mean("draw") - ahead["mean"]) / (std * np.sqrt(1 / 1000 + 1 / 100))
    assert float(z.max()) < 5.0
    ratio = drawn.std("draw") / std
    assert float(np.abs(ratio - 1.0).max()) < 0.35


@pytest.mark.parametrize("kind", ["rows", "clocks"])
def test_rows_that_determine_the_modes_need_no_filter(kind):
    """Whole rows missing, or clocks of their own, without noise: transitions as they are."""
    data, e, words = case("reaction")
    late = data.time.values + 0.01 * np.arange(data.sizes["path"])[:, None]
    changed = data.assign_coords(path_time=(("path", "time"), late))
    changed = sl.mask(data, "rows", 0.2, seed=1) if kind == "rows" else changed
    law = sl.fit(changed, e.domain, 5, **words)
    assert law.info.route == "closure of transitions"
    assert_near(law)


def assert_near(law):
    row = law.parameters.coefficient
    z = (row.sel(statistic="estimate") - [1.0, -1.0]) / row.sel(statistic="stderr")
    assert float(np.abs(z).max()) < WITHIN


@pytest.mark.parametrize(("n_modes", "is_cut"), [(15, False), (7, True)])
def test_modes_that_are_cut_off(n_modes, is_cut, recwarn):
    """Finer modes hold little energy and still push the others: nu is some 3 errors off."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 16.0) ** 2)
    e = sl.catalogue.allen_cahn(15, times=0.1 * np.arange(41), initial=start)
    data = sl.simulate(e, 8, seed=3, grid=e.domain.grid(31))
    law = sl.fit(data, e.domain, n_modes, terms=TERMS)
    error = law.info["estimates"]["nu"] - 0.05
    assert (abs(error) > 2.5 * law.info["standard_errors"]["nu"]) == is_cut
    assert any("which shifts nu by" in note for note in law.info["warnings"]) == is_cut


def test_fewer_sensors_than_modes():
    """Five noisy sensors and nine modes: the filter needs no row that determines its state."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 10.0) ** 2)
    e = sl.catalogue.allen_cahn(9, times=0.1 * np.arange(61), initial=start)
    data = sl.simulate(e, 8, seed=1, grid=e.domain.grid(5), observation_std=0.05)
    law = sl.fit(data, e.domain, 9, terms=TERMS, noise="parametric")
    assert_near(law)
    assert law.info.route == "closure filter"


@pytest.mark.slow
def test_fewer_sensors_than_modes_from_a_wrong_maximum():
    """One start ended at a negative nu, 12 nats below the truth; some noises are not determined."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 10.0) ** 2)
    e = sl.catalogue.allen_cahn(9, times=0.1 * np.arange(61), initial=start)
    data = sl.simulate(e, 8, seed=2, grid=e.domain.grid(5), observation_std=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        law = sl.fit(data, e.domain, 9, terms=TERMS)
    assert_near(law)
    assert abs(law.info["estimates"]["nu"] - 0.05) < WITHIN * law.info["standard_errors"]["nu"]


def test_a_field_that_is_never_observed_has_no_unit():
    data, _, words = case("two_fields")
    hidden = data.where(data["variable"] == "u")
    with pytest.raises(DataError, match="held coefficient of v") as error:
        sl.fit(hidden, **words)
    assert "fixed={'u: v': 1.0}" in str(error.value)


@pytest.mark.slow
def test_a_field_that_is_never_observed():
    """The recovery by what it does to the voltage, in the unit that a held coefficient gives."""
    data, equation, words = case("two_fields")
    hidden = data.where(data["variable"] == "u").isel(time=slice(0, 61))
    held = {**words["fixed"], "u: v": -1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        law = sl.fit(hidden, **{**words, "fixed": held, "noise": "parametric"})
    for name in ("u: u", "u: u^3", "v: u", "v: v"):
        error = law.info["estimates"][name] - equation.terms[name]
        assert abs(error) < WITHIN * law.info["standard_errors"][name], name


@pytest.mark.parametrize("terms", [TERMS, ("1", "u", "u^2", "u^3")])
def test_values_far_from_zero(terms, recwarn):
    """Powers of u count from zero: a note or an error names the offset."""
    data, e, _ = case("reaction")
    try:
        said = sl.fit(data + 300.0, e.domain, 5, terms=terms).info["warnings"]
    except ConvergenceError as error:
        said = [str(error)]
    assert any("standard deviations from zero" in text and "anomalies" in text for text in said)


def test_an_unstable_law_cannot_be_evaluated():
    data, _, law = fitted("reaction")
    wrong = dataclasses.replace(law.dynamics, terms=("u^3",), coefficients=np.array([5.0]))
    with pytest.raises(ConvergenceError, match="law is unstable"):
        sl.evaluate(dataclasses.replace(law, dynamics=wrong), data)


def test_terms_that_are_alike_inside_one_well():
    domain, well = case("reaction").equation.domain, np.sqrt(2.0 * np.pi) * np.eye(3)[0]
    noise = sl.PowerLaw(1.5, 0.01)
    quiet = sl.catalogue.allen_cahn(3, times=0.1 * np.arange(31), initial=well, noise=noise)
    data = sl.simulate(quiet, 4, seed=0)
    with pytest.warns(IdentifiabilityWarning, match="cannot separate u from u\\^2"):
        law = sl.fit(data, domain, 3, terms=("u", "u^2", "u^3"))
    row = law.parameters.coefficient
    z = (row.sel(statistic="estimate") - [1.0, 0.0, -1.0]) / row.sel(statistic="stderr")
    assert float(np.abs(z).max()) < WITHIN
    assert float(row.sel(statistic="stderr").min()) > 5.0


def test_a_drift_that_runs_away():
    """The growth out of zero, without what ends it."""
    growth = sl.catalogue.allen_cahn(3, times=0.1 * np.arange(9), initial=0.0)
    with pytest.warns(IdentifiabilityWarning, match="drift is unstable"):
        law = sl.fit(sl.simulate(growth, 20, seed=0), growth.domain, 3, terms=("u",))
    up = dataclasses.replace(law, dynamics=dataclasses.replace(law.dynamics, terms=("u^3",)))
    with pytest.raises(ConvergenceError, match="diverge"):
        up.sample(2, np.array([0.0, 1e3]))


def test_a_reaction_too_fast_for_its_steps():
    """The law says so; a likelihood without a maximum is an error that names the reason."""
    e = sl.catalogue.allen_cahn(3, times=1.0 * np.arange(21))
    with pytest.warns(IdentifiabilityWarning, match="times its size between observations"):
        sl.fit(sl.simulate(e, 4, seed=0), e.domain, 3, terms=TERMS)
    with pytest.raises(ConvergenceError, match="between them"):
        invert_information(-np.eye(2), 2.0)


def test_noise_outside_the_modes_is_noise_inside_them():
    """Errors of predictions alone did not show it: rows were states, and nu 2.6 errors off."""
    well = sl.catalogue.allen_cahn(
        3, times=0.1 * np.arange(41), initial=np.sqrt(2.0 * np.pi) * np.eye(3)[0],
        noise=sl.PowerLaw(1.5, 0.01),
    )  # fmt: skip
    noisy = sl.simulate(well, 2, seed=0, grid=well.domain.grid(9), observation_std=0.02)
    law = sl.fit(noisy, well.domain, 3, terms=TERMS)
    assert law.info.route == "closure filter"
    _, _, lower, upper = law.parameters["observation_std"].values
    assert lower < 0.02 < upper
