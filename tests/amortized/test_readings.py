"""Readings of the paper's training: what each does to the loss, to the variance, to the law."""

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized.engine import amortized_posterior, sample_decoder
from spdelaw.amortized.neural import new_model
from spdelaw.amortized.structured import make_config
from spdelaw.amortized.vae import elbo
from spdelaw.chaos.bases import CosineBasis
from spdelaw.chaos.propagators import propagate
from spdelaw.errors import InputError

from .amortized_cases import (
    DOMAIN,
    EQUATION,
    GRID,
    SMALL,
    TIMES,
    fields,
    model_of,
    noise_of,
    paths_of,
    with_gaps,
)


def fit(data, **settings):
    return sl.fit(data, DOMAIN, 3, engine="amortized", **(SMALL | settings))


# ------------------------------------------------------------------ the loss


@pytest.mark.parametrize("scale", ["per_value", "per_time"])
@pytest.mark.parametrize("data", [fields(5), with_gaps(n_paths=5)], ids=["complete", "gaps"])
def test_a_loss_per_value_or_time_is_the_sum_over_their_number(data, scale):
    terms = elbo(model_of(), paths_of(data), noise_of(5))
    total = -terms.objective(make_config(**SMALL)).mean()
    each = -terms.objective(make_config(**SMALL, loss_scale=scale)).mean()
    n_values = np.isfinite(data.values).sum() / 5
    n = n_values if scale == "per_value" else n_values / data.sizes["x"]
    assert each.item() * n == pytest.approx(total.item(), rel=1e-12)


def test_divergences_as_means_stand_beside_a_likelihood_per_value():
    terms = elbo(model_of(), paths_of(fields(5)), noise_of(5))
    config = make_config(**SMALL, loss_scale="per_value", kl_scale="mean")
    likelihood = terms.log_likelihood.mean().item() / (21 * 10)
    kl_initial, kl_chaos = terms.kl_initial.mean().item(), terms.kl_chaos.mean().item()
    expected = -likelihood + 0.07 * kl_initial + 1.3 * kl_chaos
    assert -terms.objective(config).mean().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("what", "decays"), [("all", [True] * 3), ("encoder", [True, False, False])]
)
def test_weight_decay_of_all_parameters_or_of_the_encoder_alone(what, decays):
    config = make_config(**SMALL, decay_of=what)
    model = new_model(DOMAIN.eigenfunctions(GRID, 3), config, 0)
    assert [group.get("weight_decay") != 0 for group in model.groups(config)] == decays


# ------------------------------------------------------------------ the observation variance


@pytest.mark.parametrize("variance", ["log", "squared"])
def test_both_ways_to_write_a_variance_start_where_asked(variance):
    config = make_config(**SMALL, variance=variance, variance_start=0.3)
    model = new_model(DOMAIN.eigenfunctions(GRID, 3), config, 0)
    found = torch.exp(model.log_observation_variance()).detach().numpy()
    np.testing.assert_allclose(found, 0.3**2, rtol=1e-12)


def test_both_ways_to_write_a_variance_have_one_bound():
    paths, noise = paths_of(fields(5)), noise_of(5)
    bounds = [elbo(model_of(variance=v), paths, noise).bound() for v in ("log", "squared")]
    torch.testing.assert_close(*bounds)


def test_a_standard_deviation_as_a_square_converges_faster():
    """The same number of steps at the same rate, from 1 towards values below 0.5."""
    data = 0.3 * fields(60)
    laws = [fit(data, variance=v, epochs=30, variance_rate=1e-2) for v in ("log", "squared")]
    slow, fast = (np.mean(law.observation_variance) for law in laws)
    assert fast < 0.5 * slow


# ------------------------------------------------------------------ L driving processes


@pytest.mark.parametrize("n_noise", [2, 5])
def test_other_numbers_of_driving_processes(n_noise, tmp_path):
    data = fields()
    law = fit(data, n_noise=n_noise, checkpoint=tmp_path / "run")
    found = amortized_posterior(law, data)
    assert dict(found["xi_mean"].sizes) == {"path": 60, "k": 4, "noise": n_noise}
    assert dict(found["z0_mean"].sizes) == {"path": 60, "mode": 3}
    assert law.info["amortization_gap"] > 0
    assert np.isfinite(law.reconstruct(data)["mean"].values).all()
    assert len(law.info["latent_use"]["kl_chaos"]) == n_noise


def test_a_mode_that_nothing_drives_only_decays():
    model = model_of(n_noise=2)
    paths = paths_of(fields(5))
    curves = model.curves(paths)
    generator = torch.Generator().manual_seed(0)
    xi = torch.randn(5, 4, 2, generator=generator)
    c = model.coefficients(curves, paths, torch.ones(5, 3), xi)
    decay = np.exp(-np.exp(2.0) * TIMES)
    np.testing.assert_allclose(c[:, :, 2].detach().numpy(), np.tile(decay, (5, 1)), atol=1e-6)
    assert c[:, :, 0].detach().numpy().std(0)[-1] > 0.1


def test_spare_processes_drive_nothing():
    """The first three of five give what three of three give."""
    paths = paths_of(fields(5))
    generator = torch.Generator().manual_seed(0)
    xi = torch.randn(5, 4, 5, generator=generator)
    many, few = model_of(n_noise=5), model_of()
    a = many.coefficients(many.curves(paths), paths, torch.ones(5, 3), xi)
    b = few.coefficients(few.curves(paths), paths, torch.ones(5, 3), xi[..., :3])
    torch.testing.assert_close(a, b)


# ------------------------------------------------------------------ the bound at zeros of all modes


def test_points_where_every_mode_is_zero_are_no_part_of_the_bound():
    """The field is known there: a smaller variance would raise the density without end."""
    ends = np.linspace(0.0, np.pi, 12)
    data = sl.simulate(EQUATION, 60, TIMES, ends, seed=0)
    inside = data.isel(x=slice(1, -1))
    whole, part = (paths_of(d) for d in (data, inside))
    config = make_config(**SMALL)
    model = new_model(DOMAIN.eigenfunctions(ends, 3), config, 0)
    with torch.no_grad():
        before = elbo(model, whole, None)
        model.log_variance[[0, -1]] = -60.0
        after = elbo(model, whole, None)
    torch.testing.assert_close(before.bound(), after.bound())
    assert (after.log_likelihood > before.log_likelihood + 1000.0).all()
    assert before.bound().shape == (len(part),)
    law = fit(data)
    assert any("every mode is zero" in note for note in law.info["warnings"])
    assert not any("every mode is zero" in note for note in fit(inside).info["warnings"])


# ------------------------------------------------------------------ samples of the decoder


def test_samples_of_the_decoder_have_its_moments():
    """Null: mean and variance of every value are the decoder's; |z| < 5.5 for all 420 of them."""
    law, n = fit(fields()), 4000
    draws = sample_decoder(law, n, seed=3).values
    lam, q = law.linear.drift, law.linear.noise
    curves = propagate(CosineBasis(1.0), TIMES, lam, np.sqrt(q), 4)
    phi = DOMAIN.eigenfunctions(GRID, 3)
    mean = (curves.decay * law.initial.mean) @ phi.T
    driven = q * (curves.response**2).sum(1)
    variance = driven @ (phi**2).T + law.observation_variance
    assert (np.abs(draws.mean(0) - mean) / np.sqrt(variance / n) < 5.5).all()
    ratio = draws.var(0, ddof=1) / variance
    assert (np.abs(ratio - 1.0) / np.sqrt(2.0 / n) < 5.5).all()
    smooth = sample_decoder(law, 2, seed=3, observation_noise=False).values
    assert np.abs(np.diff(smooth, axis=1)).max() < np.abs(np.diff(draws[:2], axis=1)).max()


def test_a_law_without_truncation_has_no_decoder_to_sample():
    law = sl.fit(fields(), DOMAIN, 3)
    with pytest.raises(InputError, match=r"law\.sample"):
        sample_decoder(law)


# ------------------------------------------------------------------ Runge-Kutta on the paper's grid


@pytest.mark.parametrize("rate", [0.1, 1.0, 2.6])
def test_runge_kutta_multiplies_by_its_own_polynomial(rate):
    """``1 - h + h^2/2 - h^3/6 + h^4/24`` a step for ``h = lambda dt``: at 2.6, ten times e^-h."""
    times = np.linspace(0.0, 1.0, 201)
    curves = propagate(CosineBasis(1.0), times, [rate * 200.0], [1.0], 2, method="rk4")
    factor = np.polynomial.Polynomial([1.0, -1.0, 1 / 2, -1 / 6, 1 / 24])(rate)
    step = curves.decay[1, 0] / curves.decay[0, 0]
    assert step == pytest.approx(factor, rel=1e-9)
    assert (factor > 10.0 * np.exp(-rate)) == (rate == 2.6)
