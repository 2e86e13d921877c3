"""Laws of two fields: recovery, one pass against closure, discovery, verbs, refusals."""

import numpy as np
import pytest
from tests.fitted import TERMS, case, fitted

import spdelaw as sl
from spdelaw.errors import DataError
from spdelaw.infer.semilinear.fits import fit_increments, fit_transitions
from spdelaw.infer.semilinear.increments import increment_scores
from spdelaw.infer.semilinear.layout import layout
from spdelaw.statespace.transitions import closure_log_likelihood, closure_scores, transitions

#: Standard errors that an estimate may be off; one in 16,000 is, by chance.
ALLOWED = 4.0
GRAY_SCOTT = {"nu u": 0.16, "nu v": 0.08}
GRAY_SCOTT |= {f"q {field} {n}": 1e-4 for field in "uv" for n in range(1, 82)}
REACTION = {"u": ("1", "u", "u v^2"), "v": ("v", "u v^2")}


def truth(equation):
    out = {"nu u": 0.1, "scale u": 0.1, "exponent u": 1.5, "scale v": 0.02, "exponent v": 1.5}
    for field in "uv":
        scale, exponent = out[f"scale {field}"], out[f"exponent {field}"]
        out |= {f"q {field} {n}": scale * n**-exponent for n in (1, 2, 3)}
    return out | dict(equation.terms)


def assert_recovered(law, numbers):
    for name, error in law.info["standard_errors"].items():
        estimate, true = law.info["estimates"][name], numbers[name]
        if name.startswith("q "):  # a variance has its interval on the scale of logarithms
            estimate, true, error = np.log(estimate), np.log(true), error / estimate
        assert abs(estimate - true) < ALLOWED * error, name


def test_recovery_and_a_dataset_is_the_same():
    data, equation, law = fitted("two_fields")
    assert_recovered(law, truth(equation))
    row = law.parameters.coefficient.sel(term="u: u^3")
    assert row.sel(statistic="lower") < -1.0 < row.sel(statistic="upper")
    again = sl.fit(data.to_dataset("variable"), **case("two_fields").words)
    assert again.info["estimates"] == law.info["estimates"]


def test_gradients_are_differences():
    fields, equation, _ = case("two_fields")
    domain, n = equation.domain, equation.n_modes
    form = layout(domain, n, list(equation.terms))
    data = transitions(domain.analyse(fields, n).values, equation.times).draw(40)
    x = form.vector(truth(equation) | {"nu v": 0.02})

    def value(at):
        return closure_scores(form.closure(at), data, 1).log_likelihood.sum()

    score, h = form.scores(x, closure_scores(form.closure(x), data, 1).by).sum(0), 1e-5
    for k, step in enumerate(h * np.eye(len(x))):
        slope = (value(x + step) - value(x - step)) / (2 * h)
        np.testing.assert_allclose(score[k], slope, rtol=1e-5, atol=1e-3)


def test_one_pass_is_the_closure_where_steps_are_short():
    """Without the correction it would be off by some ``rate dt / 2``, several standard errors.

    Its variance has the mean slope of the reaction in place of that at each state, which is wrong
    by shares e of ``dt`` times the spread of the slope; over m values such shares change a
    log-likelihood by ``m e^2 / 4`` with a standard deviation of ``e sqrt(m / 2)``.
    """
    e = sl.catalogue.fitzhugh_nagumo(3, times=0.02 * np.arange(401))
    fields = sl.simulate(e, 4, seed=1)
    data = transitions(e.domain.analyse(fields, 6).values, e.times)
    form = layout(e.domain, 6, list(e.terms), fixed={"nu v": 0.0})
    one, exact = fit_increments(form, data), fit_transitions(form, data)
    error = np.array(list(exact.standard_errors.values()))
    apart = np.array([one.values[name] - exact.values[name] for name in exact.standard_errors])
    assert np.abs(apart / error).max() < 0.3
    np.testing.assert_allclose(list(one.standard_errors.values()), error, rtol=0.1)
    height = closure_log_likelihood(form.closure(one.estimate.full), data).sum()
    assert exact.log_likelihood - height < 0.5 * 0.3**2
    slope = (1.0 - 3.0 * fields.sel(variable="u") ** 2).mean("x")
    share, m = 0.02 * float(slope.std()), 3 * len(data.dt)
    most = m * share**2 / 4 + 4.0 * share * np.sqrt(m / 2)
    assert most < 5.0
    assert one.log_likelihood == pytest.approx(exact.log_likelihood, abs=most)


def test_finer_steps_are_tried_at_the_estimate():
    """Where steps were doubled, twice as many have no score left: one Newton step took it."""
    e = sl.catalogue.fitzhugh_nagumo(3, times=0.6 * np.arange(61))
    data = transitions(e.domain.analyse(sl.simulate(e, 1, seed=1), 6).values, e.times)
    form = layout(e.domain, 6, list(e.terms), fixed={"nu v": 0.0})
    fit = fit_increments(form, data)
    n, full, free = fit.diagnostics["n_steps"], fit.estimate.full, form.free
    finer = form.with_steps(2 * n).state_space(full).dynamics
    score = increment_scores(finer, data, form.directions(full))[1].sum(0)
    covariance = fit.estimate.covariance[np.ix_(free, free)]
    assert n > 1
    assert np.abs(covariance @ score / np.sqrt(np.diag(covariance))).max() < 0.1


def test_a_recovery_without_noise_of_its_own():
    """Hypoelliptic: all that moves v comes through u, which makes its equation sharp."""
    e = sl.catalogue.fitzhugh_nagumo(3, times=0.1 * np.arange(61), recovery_noise=sl.White(0.0))
    held = {"nu v": 0.0, "scale v": 0.0}
    law = sl.fit(sl.simulate(e, 6, seed=2), e.domain.domain, 3, terms=TERMS, fixed=held)
    assert_recovered(law, truth(e))
    assert law.info["standard_errors"]["v: u"] < 0.002


@pytest.mark.slow
def test_gaps_and_noise_go_through_the_filter():
    equation, words = case("two_fields")[1:]
    data = sl.simulate(equation, 4, grid=equation.domain.grid(8), seed=3, observation_std=0.05)
    law = sl.fit(sl.mask(data.isel(time=slice(0, 41)), fraction=0.3, seed=1), **words)
    assert law.info["route"] == "closure filter"
    assert_recovered(law, truth(equation) | {"observation_std": 0.05})


def test_forecasts_have_both_fields():
    fields, _, law = fitted("two_fields")
    assert law.sample(2, seed=1).dims == ("path", "time", "variable", "x")
    ahead = law.forecast(fields.isel(path=[0], time=slice(0, 60)), steps=2)
    assert ahead["variable"].values.tolist() == ["u", "v"]
    error = (fields.isel(path=[0], time=slice(60, 62)).values - ahead["mean"]) / ahead["std_field"]
    assert float(np.abs(error).max()) < 5.0


def test_discovery_keeps_the_terms_of_each_equation():
    fields, equation, _ = case("two_fields")
    library = {"u": ("u", "v", "u^2", "u^3"), "v": ("1", "u", "v", "u v")}
    chosen = sl.discover(fields, equation.domain.domain, 3, library, bootstrap=20)
    assert set(chosen.terms) == set(equation.terms)
    assert chosen.table["linear"].values.any()


def test_one_pass_discovery_of_gray_scott():
    """Many modes need complete fields without noise."""
    e = sl.catalogue.gray_scott(81, times=np.arange(0.0, 60.5, 0.5))
    fields, domain = sl.simulate(e, 1, grid=e.domain.grid(16), seed=1), e.domain.domain
    library = ("1", "u", "v", "u v", "u v^2")
    chosen = sl.discover(fields, domain, 81, {"u": library, "v": library}, bootstrap=0)
    assert set(chosen.terms) == set(e.terms)
    assert chosen.law.info["route"] == "one pass over the increments"
    assert_recovered(chosen.law, GRAY_SCOTT | dict(e.terms))
    assert chosen.law.sample(1, times=[0.0, 1.0]).sizes["variable"] == 2
    with pytest.raises(DataError, match="complete fields"):
        sl.fit(sl.mask(fields, fraction=0.1, seed=0), domain, 81, terms=REACTION)
    noisy = fields + 0.05 * np.random.default_rng(0).standard_normal(fields.shape)
    with pytest.raises(DataError, match="noise of observations"):
        sl.fit(noisy, domain, 81, terms=REACTION)


def test_two_fields_over_a_plane_by_the_closure():
    """Points of two fields share their places; a fit, its likelihood and a report know which."""
    e = sl.catalogue.gray_scott(9, times=np.arange(0.0, 30.5, 0.5))
    fields = sl.simulate(e, 2, grid=e.domain.grid(6), seed=3)
    law = sl.fit(fields, e.domain.domain, 9, terms=REACTION)
    assert law.info["route"] == "closure of transitions"
    assert_recovered(law, GRAY_SCOTT | dict(e.terms))
    total = float(law.log_likelihood(fields).sum())
    assert total == pytest.approx(law.info["log_likelihood"], rel=1e-10)
    assert law.forecast(fields.isel(time=slice(0, 20)), steps=1)["mean"].dims == fields.dims


def test_data_of_one_field_are_refused():
    data, _, words = case("two_fields")
    with pytest.raises(DataError, match="one variable per field"):
        sl.fit(data.sel(variable="u", drop=True), **words)
