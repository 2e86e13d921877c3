"""engine="chaos": estimates, what the truncation costs and biases, reconstruction at the floor."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.chaos.bases import CosineBasis
from spdelaw.chaos.posterior import ChaosModel, evaluate_chaos
from spdelaw.chaos.propagators import chaos_coordinates
from spdelaw.data.observed import observe
from spdelaw.errors import ConvergenceError, DataError, IdentifiabilityWarning, InputError
from spdelaw.evaluation.tasks import decoder_floor
from spdelaw.infer.engines import chaos as truncated
from spdelaw.infer.objective import estimate
from spdelaw.law.derived import relative_l2, rmse
from spdelaw.law.prediction import chaos_posterior
from spdelaw.statespace.chain import linear_state_space
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.likelihood import evaluate_likelihood

N_PATHS = 100
#: No standardised error of 16 normals passes 4.5 but once in 10,000 times.
LIMIT = 4.5


def equation_of(name, n_modes=8):
    return getattr(sl.catalogue, name)(n_modes=n_modes)


@functools.cache
def paths(name, n_modes=8, seed=1):
    return sl.simulate(equation_of(name, n_modes), n_paths=N_PATHS, seed=seed)


@functools.cache
def fitted(name, tail, n_modes=8):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        return sl.fit(paths(name, n_modes), equation_of(name).domain, 8, engine="chaos", tail=tail)


def standardised(law, equation):
    """Errors of lambda and q in standard errors; two arrays (8,)."""
    table = law.parameters
    out = []
    for name, truth in (("eigenvalue", equation.eigenvalues),
                        ("noise_variance", equation.noise_variance)):  # fmt: skip
        row = table[name]
        error = row.sel(statistic="estimate").values - truth[:8]
        out.append(error / row.sel(statistic="stderr").values)
    return out


# -- estimates -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["heat", "ornstein_uhlenbeck"])
def test_modelled_tail_recovers_the_law(name):
    law = fitted(name, "modelled")
    for errors in standardised(law, equation_of(name)):
        assert np.abs(errors).max() < LIMIT
    exact = sl.fit(paths(name), equation_of(name).domain, 8)
    np.testing.assert_allclose(law.linear.drift, exact.linear.drift, rtol=1e-10)


@pytest.mark.parametrize("name", ["heat", "ornstein_uhlenbeck"])
def test_dropped_tail_biases_the_law(name):
    """The same data, eight modes, K = 16: several numbers are many standard errors off."""
    law = fitted(name, "dropped")
    by_rate, by_noise = standardised(law, equation_of(name))
    assert (np.abs(by_rate) > 6).sum() >= 2
    assert (np.abs(by_noise) > 6).sum() >= 2
    assert law.observation_variance > 0
    assert any("biased" in note for note in law.info["warnings"])


def test_dropped_tail_suppresses_high_modes():
    """Seen through the eight modes alone, noise and roughness of high modes are one.

    Maximum of the truncated density of the coefficients, from the truth: the noise variances
    of modes 6 and 7 fall below a half and below a tenth, that of mode 1 stays.
    """
    heat, model = equation_of("heat"), ChaosModel(16, 1.0, "dropped")
    fields = paths("heat")
    basis = heat.domain.eigenfunctions(fields["x"].values, 8)
    collapsed = collapse(fields.values, fields["time"].values, basis)
    observed = observe(fields, heat.domain)
    maximum = truncated._maximiser(collapsed, observed, sl.Model(), model, None)
    cut = functools.partial(evaluate_chaos, collapsed, model=model, density="coefficients")
    posterior = maximum(cut, polish=False).posterior
    base = posterior.base.copy()
    base[:16] = np.log(np.concatenate([heat.eigenvalues, heat.noise_variance]))
    found = estimate(dataclasses.replace(posterior, base=base), polish=False).state_space
    ratio = found.linear.noise / heat.noise_variance
    assert 0.8 < ratio[0] < 1.2
    assert ratio[5] < 0.5
    assert ratio[6] < 0.1


def test_info_says_what_was_done():
    law = fitted("heat", "dropped")
    assert law.info["engine"] == "chaos"
    assert (law.info["tail"], law.info["n_time"]) == ("dropped", 16)
    assert law.info["latent_dimension"] == 1032
    assert "Wiener Chaos" in law.citation()
    assert fitted("heat", "modelled").info["truncation_loss"] == 0.0


def test_truncation_loss_is_the_difference_of_two_maxima():
    law = fitted("heat", "dropped", 50)
    assert law.info["truncation_loss_of"] == "fields"
    model = ChaosModel(16, 1.0, "dropped")
    fields = paths("heat", 50)
    basis = law.domain.eigenfunctions(law.points, 8)
    collapsed = collapse(fields.values, law.times, basis)
    own = evaluate_chaos(collapsed, law.state_space, model).log_likelihood.sum()
    assert own == pytest.approx(law.info["log_likelihood"], rel=1e-10)
    whole = law.info["truncation_loss"] + own / N_PATHS
    # The untruncated model at the truth, with the energy outside as noise, is close below.
    heat = equation_of("heat", 50)
    outside = collapsed.misfit / (collapsed.n_values - N_PATHS * 201 * 8)
    near = linear_state_space(
        heat.eigenvalues[:8], heat.noise_variance[:8], heat.initial_mean[:8], np.zeros(8), outside
    )
    at_truth = evaluate_likelihood(collapsed, near).log_likelihood
    assert 0 < whole - at_truth.mean() < 0.05 * law.info["truncation_loss"]


def test_loss_falls_with_more_functions_of_time():
    heat = equation_of("heat", 4)
    fields = sl.simulate(heat, 30, seed=4, observation_std=0.05)
    losses = [
        sl.fit(
            fields, heat.domain, 4, engine="chaos", tail="dropped", n_time=k,
            initial="deterministic", observation_noise=0.05,
        ).info["truncation_loss"]
        for k in (8, 64)
    ]  # fmt: skip
    # The trace of the tail falls as 1 / K.
    assert 0 < losses[1] < 0.15 * losses[0]


def test_gaps_and_own_patterns():
    heat = equation_of("heat", 2)
    fields = sl.simulate(heat, 8, np.linspace(0, 1, 21), heat.domain.grid(9), seed=0)
    gappy = sl.mask(fields, fraction=0.2, seed=0)
    law = sl.fit(gappy, heat.domain, 2, engine="chaos", tail="dropped", n_time=4)
    assert np.isfinite(law.info["log_likelihood"])
    assert law.info["truncation_loss"] is None  # no noise outside the modes: no density
    assert not np.isnan(chaos_posterior(law, gappy)["reconstruct_truncated"].values).any()


def test_saved_and_loaded(tmp_path):
    law = fitted("heat", "dropped")
    law.save(tmp_path / "heat.law")
    again = sl.load(tmp_path / "heat.law")
    assert again.info == law.info
    first, second = (chaos_posterior(x, paths("heat")[:2]) for x in (law, again))
    assert first.equals(second)


# -- chaos coordinates and reconstruction --------------------------------------------------


def errors_of(field, truth):
    scored = np.where(np.arange(truth.shape[1])[:, None] > 0, truth, np.nan)
    field = np.where(np.isnan(scored), np.nan, field)
    return np.array([relative_l2(field, scored), rmse(field, scored)])


regimes = [
    ("heat", 8),
    ("heat", 50),
    ("ornstein_uhlenbeck", 8),
    pytest.param("ornstein_uhlenbeck", 50, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "reference"), regimes)
def test_truncated_reconstruction_of_new_paths_is_at_the_floor(name, reference):
    law, new = fitted(name, "dropped", reference), paths(name, reference, seed=2)
    floor = decoder_floor(new, law.domain, 8, 16, equation_of(name).eigenvalues)
    got = errors_of(chaos_posterior(law, new)["reconstruct_truncated"].values, new.values)
    assert (got <= 1.02 * np.array(floor[:2])).all()


@pytest.mark.parametrize("name", ["heat", "ornstein_uhlenbeck"])
def test_the_modelled_tail_reconstructs_below_the_floor(name):
    law, new = fitted(name, "modelled"), paths(name, seed=2)[:20]
    floor = decoder_floor(new, law.domain, 8, 16, equation_of(name).eigenvalues)
    cut = errors_of(chaos_posterior(law, new)["reconstruct_truncated"].values, new.values)
    whole = errors_of(law.reconstruct(new)["mean"].values, new.values)
    assert (cut < 1.05 * np.array(floor[:2])).all()
    assert (whole < 0.01 * np.array(floor[:2])).all()


def test_coordinates_are_standard_normal_with_a_modelled_tail():
    """Var E[xi | y] + E Var(xi | y) = 1 for every coordinate, within sampling error."""
    found = chaos_posterior(fitted("heat", "modelled"), paths("heat", seed=2))
    second = (found["xi_mean"] ** 2 + found["xi_std"] ** 2).mean("path").values
    error = np.sqrt(2 / N_PATHS)
    assert np.abs(second - 1).max() < LIMIT * error
    assert (found["z0_std"] == 0).all()


def test_coordinates_match_those_of_the_driving_noise():
    heat = equation_of("heat", 3)
    simulated = sl.simulate(heat, 30, seed=5, return_noise=True)
    true = chaos_coordinates(simulated, heat, CosineBasis(), 4).values
    fields = simulated["field"] if "field" in simulated else simulated[next(iter(simulated))]
    law = sl.fit(fields, heat.domain, 3, engine="chaos", n_time=4)
    found = chaos_posterior(law, fields)["xi_mean"].values
    assert np.corrcoef(found.ravel(), true.ravel())[0, 1] > 0.95


def test_posterior_of_a_law_of_another_engine():
    heat = equation_of("heat", 2)
    fields = sl.simulate(heat, 20, np.linspace(0, 1, 21), seed=0)
    law = sl.fit(fields, heat.domain, 2)
    found = chaos_posterior(law, fields, n_time=3, tail="dropped")
    assert found["xi_mean"].shape == (20, 3, 2)
    assert found.attrs == {"n_time": 3, "tail": "dropped", "horizon": 1.0}


# -- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"engine": "exact", "n_time": 8}, "n_time: expected engine='chaos'"),
        ({"engine": "exact", "tail": "dropped"}, "tail: expected engine='chaos'"),
        ({"n_time": 0}, "n_time: expected a positive integer"),
        ({"tail": "cut"}, "tail: expected one of"),
        ({"tail": "dropped", "observation_noise": "none"}, "observation_noise"),
        ({"tail": "dropped", "observation_noise": "per_point"}, "observation_noise"),
        ({"tail": "dropped", "nuisance": 3}, "nuisance"),
        ({"tail": "dropped", "bootstrap": 5}, "bootstrap"),
    ],
)
def test_words_that_do_not_fit(words, message):
    with pytest.raises(InputError, match=message):
        sl.fit(paths("heat")[:5], equation_of("heat").domain, 2, **{"engine": "chaos", **words})


def test_paths_with_clocks_of_their_own_have_no_common_coordinates():
    law = fitted("heat", "modelled")
    fields = paths("heat")[:3]
    clocks = np.broadcast_to(fields["time"].values, fields.shape[:2]) + np.zeros((3, 1))
    own = fields.drop_vars("time").assign_coords(path_time=(("path", "time"), clocks))
    with pytest.raises(DataError, match="one clock"):
        chaos_posterior(law, own)


def test_a_likelihood_that_cannot_be_computed_is_reported():
    heat = equation_of("heat", 2)
    fields = sl.simulate(heat, 5, np.linspace(0, 1, 11), seed=0)
    observed = observe(fields, heat.domain)
    basis = heat.domain.eigenfunctions(observed.points, 2)
    collapsed = collapse(fields.values, observed.times, basis)
    model = ChaosModel(4, 1.0, "dropped")
    maximum = truncated._maximiser(collapsed, observed, sl.Model(), model, None)
    with pytest.raises(ConvergenceError, match="raise n_time"):
        maximum(lambda p: evaluate_chaos(collapsed, p, model), np.inf)


def test_a_linear_law_has_no_chaos_beyond_the_first_order():
    data, domain = paths("heat")[:20], equation_of("heat").domain
    first, third = (sl.fit(data, domain, 4, engine=sl.Chaos(order=order)) for order in (1, 3))
    assert first.info["log_likelihood"] == third.info["log_likelihood"]
    with pytest.raises(InputError, match="order"):
        sl.Chaos(order=0)
