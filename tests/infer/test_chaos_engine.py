"""engine="chaos": estimates, what the truncation costs and biases, reconstruction at the floor."""

import functools

import numpy as np
import pytest
from tests.fitted import Case, fitted, heat
from tests.infer.recovery import z_scores

import spdelaw as sl
from spdelaw.chaos.posterior import ChaosModel, evaluate_chaos
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.tasks import decoder_floor
from spdelaw.law.derived import relative_l2, rmse
from spdelaw.law.prediction import chaos_posterior
from spdelaw.statespace.chain import linear_state_space
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.likelihood import evaluate_likelihood

N_PATHS = 100
#: No standardised error of 16 normals passes 4.5 but once in 10,000 times.
LIMIT = 4.5
OTHER = pytest.param("ornstein_uhlenbeck", marks=pytest.mark.slow)


def equation_of(name, n_modes=8):
    return getattr(sl.catalogue, name)(n_modes=n_modes)


@functools.cache
def paths(name, n_modes=8, seed=1):
    return sl.simulate(equation_of(name, n_modes), n_paths=N_PATHS, seed=seed)


@functools.cache
def learned(name, tail, n_modes=8):
    if (name, n_modes) == ("heat", 8):
        return fitted("chaos" if tail == "modelled" else "chaos_dropped").law
    words = {"engine": "chaos", "tail": tail, "n_modes": 8}
    return Case(paths(name, n_modes), equation_of(name), words).fit()


# -- estimates -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["heat", OTHER])
def test_modelled_tail_recovers_the_law_and_a_dropped_one_biases_it(name):
    """The same data, eight modes, K = 16: several numbers are many standard errors off."""
    law, cut, e = learned(name, "modelled"), learned(name, "dropped"), equation_of(name)
    truth = {"eigenvalue": e.eigenvalues, "noise_variance": e.noise_variance}
    assert np.abs(z_scores(law, **truth)).max() < LIMIT
    exact = sl.fit(paths(name), e.domain, 8)
    np.testing.assert_allclose(law.linear.drift, exact.linear.drift, rtol=1e-10)
    for row, x in truth.items():
        assert (np.abs(z_scores(cut, **{row: x})) > 6).sum() >= 2
    assert cut.observation_variance > 0
    assert any("biased" in note for note in cut.info["warnings"])


def test_a_law_says_what_was_done():
    law = learned("heat", "dropped")
    assert law.info["engine"] == "chaos"
    assert (law.info["tail"], law.info["n_time"]) == ("dropped", 16)
    assert law.info["latent_dimension"] == 1032
    assert "Wiener Chaos" in law.citation()
    assert learned("heat", "modelled").info["truncation_loss"] == 0.0


@pytest.mark.slow
def test_truncation_loss_is_the_difference_of_two_maxima():
    law = learned("heat", "dropped", 50)
    assert law.info["truncation_loss_of"] == "fields"
    fields, truth = paths("heat", 50), heat(50)
    basis = law.domain.eigenfunctions(law.points, 8)
    collapsed = collapse(fields.values, law.times, basis)
    model = ChaosModel(16, 1.0, "dropped")
    total = evaluate_chaos(collapsed, law.state_space, model).log_likelihood.sum()
    assert total == pytest.approx(law.info["log_likelihood"], rel=1e-10)
    whole = law.info["truncation_loss"] + total / N_PATHS
    # The untruncated model at the truth, with the energy outside as noise, is close below.
    outside = collapsed.misfit / (collapsed.n_values - N_PATHS * 201 * 8)
    start, none = truth.initial_mean[:8], np.zeros(8)
    near = linear_state_space(truth.eigenvalues[:8], truth.noise_variance[:8], start, none, outside)
    at_truth = evaluate_likelihood(collapsed, near).log_likelihood
    assert 0 < whole - at_truth.mean() < 0.05 * law.info["truncation_loss"]


def test_loss_falls_with_more_functions_of_time_on_every_domain():
    """The trace of the tail falls as 1 / K, and the law tends to the exact one."""
    sphere = sl.Sphere()
    equation, times = sl.catalogue.heat_on(sphere, 4, nu=0.3, initial=0.0), np.linspace(0, 1, 21)
    fields = sl.simulate(equation, 20, times, sphere.grid(6), seed=0, observation_std=0.05)
    gappy, words = sl.mask(fields, "random", 0.2, seed=0), {"initial": "deterministic"}
    exact = sl.fit(gappy, sphere, 4, **words)
    words |= {"engine": "chaos", "tail": "dropped"}
    few, many = (sl.fit(gappy, sphere, 4, n_time=k, **words) for k in (8, 32))
    assert abs(many.info["truncation_loss"]) < 0.1 * few.info["truncation_loss"]
    far, near = (np.abs(np.log(x.linear.noise / exact.linear.noise)).max() for x in (few, many))
    assert near < 0.5 * far


def test_gaps_and_own_patterns():
    fields = sl.simulate(heat(2), 8, np.linspace(0, 1, 21), heat(2).domain.grid(9), seed=0)
    gappy = sl.mask(fields, fraction=0.2, seed=0)
    law = sl.fit(gappy, heat(2).domain, 2, engine="chaos", tail="dropped", n_time=4)
    assert np.isfinite(law.info["log_likelihood"])
    assert law.info["truncation_loss"] is None  # no noise outside the modes: no density
    assert not np.isnan(chaos_posterior(law, gappy)["reconstruct_truncated"].values).any()


# -- chaos coordinates and reconstruction --------------------------------------------------


def errors_of(field, truth):
    scored = np.where(np.arange(truth.shape[1])[:, None] > 0, truth, np.nan)
    field = np.where(np.isnan(scored), np.nan, field)
    return np.array([relative_l2(field, scored), rmse(field, scored)])


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("heat", 8),
        pytest.param("ornstein_uhlenbeck", 8, marks=pytest.mark.slow),
        pytest.param("heat", 50, marks=pytest.mark.slow),
        pytest.param("ornstein_uhlenbeck", 50, marks=pytest.mark.slow),
    ],
)
def test_truncated_reconstruction_of_new_paths_is_at_the_floor(name, reference):
    """And that of the modelled tail, without truncation, far below it."""
    law, new = learned(name, "dropped", reference), paths(name, reference, seed=2)
    floor = np.array(decoder_floor(new, law.domain, 8, 16, equation_of(name).eigenvalues)[:2])
    got = errors_of(chaos_posterior(law, new)["reconstruct_truncated"].values, new.values)
    assert (got <= 1.02 * floor).all()
    if reference == 8:
        whole = learned(name, "modelled").reconstruct(new[:20])["mean"]
        assert (errors_of(whole.values, new[:20].values) < 0.01 * floor).all()


def test_coordinates_are_standard_normal_with_a_modelled_tail():
    """Var E[xi | y] + E Var(xi | y) = 1 for every coordinate, within sampling error."""
    posterior = chaos_posterior(learned("heat", "modelled"), paths("heat", seed=2))
    second = (posterior["xi_mean"] ** 2 + posterior["xi_std"] ** 2).mean("path").values
    assert np.abs(second - 1).max() < LIMIT * np.sqrt(2 / N_PATHS)
    assert (posterior["z0_std"] == 0).all()


def test_posterior_of_a_law_of_another_engine():
    fields, _, law = fitted("complete")
    posterior = chaos_posterior(law, fields, n_time=3, tail="dropped")
    assert posterior["xi_mean"].shape == (40, 3, 3)
    assert posterior.attrs == {"n_time": 3, "tail": "dropped", "horizon": 1.0}


def test_paths_with_clocks_of_their_own_have_no_common_coordinates():
    fields, _, law = fitted("chaos")
    clocks = np.broadcast_to(fields["time"].values, (3, fields.sizes["time"])) + np.zeros((3, 1))
    late = fields[:3].drop_vars("time").assign_coords(path_time=(("path", "time"), clocks))
    with pytest.raises(DataError, match="one clock"):
        chaos_posterior(law, late)


def test_a_linear_law_has_no_chaos_beyond_the_first_order():
    data, domain = paths("heat")[:20], heat(8).domain
    first, third = (sl.fit(data, domain, 4, engine=sl.Chaos(order=order)) for order in (1, 3))
    assert first.info["log_likelihood"] == third.info["log_likelihood"]
    with pytest.raises(InputError, match="order"):
        sl.Chaos(order=0)
