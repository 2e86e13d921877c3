"""The bound against a closed form, the exact marginal likelihood, and itself by other roads."""

import numpy as np
import pytest
import torch
from scipy import stats

import spdelaw as sl
from spdelaw.amortized.neural import NeuralRun, new_model
from spdelaw.amortized.structured import make_config, truncated_log_likelihood
from spdelaw.amortized.vae import Paths, _SquaredResiduals, elbo
from spdelaw.chaos.propagators import CosineBasis, propagate
from spdelaw.data.observed import observe
from spdelaw.statespace.chain import linear_state_space

from .amortized_cases import (
    DOMAIN,
    EQUATION,
    GRID,
    SMALL,
    TIMES,
    fields,
    model_of,
    noise_of,
    own_times,
    paths_of,
    with_gaps,
)

FLOAT32 = 2e-5
KINDS = {"complete": fields(5), "gaps": with_gaps(n_paths=5), "own times": own_times(5)}


def dense_map(model, ages, n_time=4):
    """Matrix from (z0, xi) to the field, built entry by entry in NumPy: (T, M, N (1 + K))."""
    lam = np.exp(model.dynamics.log_eigenvalues.detach().numpy())
    b = np.exp(model.dynamics.log_factor.detach().diagonal().numpy())
    curves = propagate(CosineBasis(), ages, lam, b, n_time)
    phi = DOMAIN.eigenfunctions(GRID, 3)
    columns = [curves.decay[:, None, n] * phi[None, :, n] for n in range(3)]
    for k in range(n_time):
        columns += [b[n] * curves.response[:, k, None, n] * phi[None, :, n] for n in range(3)]
    return np.stack(columns, -1)


@pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)
def test_bound_is_the_closed_form_and_below_the_exact_likelihood(data):
    """``E log N(y; A u, R) = log N(y; A m, R) - tr(A' R^-1 A V) / 2`` with dense matrices.

    The gap is ``KL(q || p(z0, xi | X))``, computed here from the dense posterior.
    """
    model, paths, observed = model_of(), paths_of(data), observe(data, DOMAIN)
    terms, r = elbo(model, paths, None), np.exp(model.log_variance.detach().numpy())
    bound = terms.bound().detach().numpy()
    with torch.no_grad():
        q = model.encode(paths)
    mean = torch.cat([q.initial_mean, q.chaos_mean.flatten(1)], 1).double().numpy()
    logs = torch.cat([q.initial_log_variance, q.chaos_log_variance.flatten(1)], 1).double().numpy()
    variance = np.exp(logs)
    divergence = 0.5 * (mean**2 + variance - 1 - logs).sum(1)
    total = (terms.kl_initial.sum(1) + terms.kl_chaos.sum((1, 2))).detach().numpy()
    np.testing.assert_allclose(total, divergence, rtol=FLOAT32)
    state = linear_state_space(
        np.exp(model.dynamics.log_eigenvalues.detach().numpy()),
        np.exp(2 * model.dynamics.log_factor.detach().diagonal().numpy()),
        np.zeros(3), np.ones(3), r,
    )  # fmt: skip
    exact = truncated_log_likelihood(observed, DOMAIN.eigenfunctions(GRID, 3), state, 4, 1.0)
    assert (bound < exact).all()
    for p in range(len(paths)):
        ages = observed.times if observed.times.ndim == 1 else observed.times[p]
        is_known = ~np.isnan(observed.values[p])
        rows, y = dense_map(model, ages)[is_known], observed.values[p][is_known]
        spread = np.broadcast_to(r, is_known.shape)[is_known]
        at_mean = stats.norm.logpdf(y, rows @ mean[p], np.sqrt(spread)).sum()
        expected = at_mean - 0.5 * ((rows**2 @ variance[p]) / spread).sum()
        assert terms.log_likelihood[p].item() == pytest.approx(expected, rel=FLOAT32)
        weighted = rows / spread[:, None]
        precision = np.eye(rows.shape[1]) + rows.T @ weighted
        d = mean[p] - np.linalg.solve(precision, weighted.T @ y)
        gap = 0.5 * (
            np.diag(precision) @ variance[p] + d @ precision @ d - len(d)
            - np.linalg.slogdet(precision)[1] - np.log(variance[p]).sum()
        )  # fmt: skip
        assert exact[p] - bound[p] == pytest.approx(gap, rel=1e-4, abs=1e-3)


def test_sampled_bound_is_unbiased():
    """Null: the mean over draws is the exact expectation; |z| < 4.5 for each of 5 paths."""
    model, paths = model_of(), paths_of(fields(5))
    with torch.no_grad():
        exact = elbo(model, paths, None).log_likelihood.numpy()
        draws = np.stack(
            [elbo(model, paths, noise_of(5, s)).log_likelihood.numpy() for s in range(400)]
        )
    z = (draws.mean(0) - exact) / (draws.std(0, ddof=1) / np.sqrt(len(draws)))
    assert (np.abs(z) < 4.5).all()


def gradients(method, data, noise):
    """Bound and all gradients; on 81 times and lambda up to 7.4 rk4 is good to 1e-8."""
    model, paths = model_of(propagators=method), paths_of(data)
    loss = -elbo(model, paths, noise).bound().mean()
    loss.backward()
    return loss.item(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("gaps", [False, True])
def test_rk4_gives_the_same_bound_and_gradients(gaps):
    data = sl.simulate(EQUATION, 6, np.linspace(0, 1, 81), GRID, seed=1)
    if gaps:
        data = data.where(np.random.default_rng(0).random(data.shape) > 0.2)
    closed, by_closed = gradients("closed_form", data, noise_of(6))
    rk4, by_rk4 = gradients("rk4", data, noise_of(6))
    assert rk4 == pytest.approx(closed, rel=1e-5)
    total = sum(gradient.norm().item() for gradient in by_closed.values())
    for name, gradient in by_closed.items():
        difference = (by_rk4[name] - gradient).norm().item()
        # The softmax does not see the key's bias: its gradient is rounding, hence the floor.
        assert difference < 1e-4 * gradient.norm().item() + 1e-7 * total, name


def test_missing_values_have_no_part():
    paths = paths_of(with_gaps(n_paths=5))
    values = torch.where(paths.observed > 0, paths.values, torch.tensor(1e3))
    wild = Paths(values, paths.observed, paths.ages, paths.index)
    a, b = (elbo(model_of(), x, noise_of(5)) for x in (paths, wild))
    assert torch.equal(a.bound(), b.bound())
    data, model = fields(5).copy(), model_of()
    data[:, :, 3] = np.nan
    elbo(model, paths_of(data), noise_of(5)).bound().sum().backward()
    assert model.log_variance.grad[3] == 0.0
    assert (model.log_variance.grad[[0, 1, 2, 4]] != 0.0).all()
    gradient = model.dynamics.log_factor.grad  # noise couples no modes
    assert torch.equal(gradient - torch.diag(gradient.diagonal()), torch.zeros(3, 3).double())
    assert (gradient.diagonal() != 0).all()


def test_common_clock_and_own_clocks_agree():
    data, clocks = fields(5), np.tile(TIMES, (5, 1))
    late = data.drop_vars("time").assign_coords(path_time=(("path", "time"), clocks))
    a, b = (elbo(model_of(), paths_of(x), noise_of(5)).bound() for x in (data, late))
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-3)


def test_residual_gradients_by_differences():
    g = torch.Generator().manual_seed(0)
    c = torch.randn(2, 4, 3, generator=g, dtype=torch.float64, requires_grad=True)
    basis = torch.randn(5, 3, generator=g, dtype=torch.float64)
    values = torch.randn(2, 4, 5, generator=g, dtype=torch.float64)
    observed = (torch.rand(2, 4, 5, generator=g) > 0.3).double()
    for mask in (None, observed):
        assert torch.autograd.gradcheck(
            lambda c, mask=mask: _SquaredResiduals.apply(c, basis, values, mask), (c,)
        )


# -- readings of the paper's loss ----------------------------------------------------------------


@pytest.mark.parametrize("data", [fields(5), with_gaps(n_paths=5)], ids=["complete", "gaps"])
def test_scales_of_the_loss_and_weights_of_its_divergences(data):
    terms = elbo(model_of(), paths_of(data), noise_of(5))
    total = -terms.objective(make_config(**SMALL)).mean()
    n_values = np.isfinite(data.values).sum() / 5
    for scale, n in (("per_value", n_values), ("per_time", n_values / data.sizes["x"])):
        each = -terms.objective(make_config(**SMALL, loss_scale=scale)).mean()
        assert each.item() * n == pytest.approx(total.item(), rel=1e-12)
    change = terms.weighted(0.5, 2.0) - terms.bound()
    expected = 0.5 * terms.kl_initial.sum(1) - terms.kl_chaos.sum((1, 2))
    torch.testing.assert_close(change, expected)


@pytest.mark.parametrize(
    ("what", "decays"), [("all", [True] * 3), ("encoder", [True, False, False])]
)
def test_weight_decay_of_all_parameters_or_of_the_encoder_alone(what, decays):
    config = make_config(**SMALL, decay_of=what)
    model = new_model(DOMAIN.eigenfunctions(GRID, 3), config, 0)
    assert [group.get("weight_decay") != 0 for group in model.groups(config)] == decays


def test_both_ways_to_write_a_variance_have_one_start_and_one_bound():
    paths, noise = paths_of(fields(5)), noise_of(5)
    bounds = [elbo(model_of(variance=v), paths, noise).bound() for v in ("log", "squared")]
    torch.testing.assert_close(*bounds)
    for variance in ("log", "squared"):
        config = make_config(**SMALL, variance=variance, variance_start=0.3)
        model = new_model(DOMAIN.eigenfunctions(GRID, 3), config, 0)
        start = torch.exp(model.log_observation_variance()).detach().numpy()
        np.testing.assert_allclose(start, 0.3**2, rtol=1e-12)


def test_numbers_of_driving_processes():
    """A mode that nothing drives only decays; spare processes drive nothing."""
    paths, xi = (
        paths_of(fields(5)),
        torch.randn(5, 4, 5, generator=torch.Generator().manual_seed(0)),
    )
    c = {}
    for n in (2, 3, 5):
        model = model_of(n_noise=n)
        start = torch.ones(5, 3)
        c[n] = model.coefficients(model.curves(paths), paths, start, xi[..., :n]).detach()
    decay = np.exp(-np.exp(2.0) * TIMES)
    np.testing.assert_allclose(c[2][:, :, 2].numpy(), np.tile(decay, (5, 1)), atol=1e-6)
    assert c[2][:, :, 0].numpy().std(0)[-1] > 0.1
    torch.testing.assert_close(c[5], c[3])


def test_points_where_every_mode_is_zero_are_no_part_of_the_bound():
    """The field is known there: a smaller variance would raise the density without end."""
    ends = np.linspace(0.0, np.pi, 12)
    data = sl.simulate(EQUATION, 60, TIMES, ends, seed=0)
    paths, model = (
        paths_of(data),
        new_model(DOMAIN.eigenfunctions(ends, 3), make_config(**SMALL), 0),
    )
    with torch.no_grad():
        before = elbo(model, paths, None)
        model.log_variance[[0, -1]] = -60.0
        after = elbo(model, paths, None)
    torch.testing.assert_close(before.bound(), after.bound())
    assert (after.log_likelihood > before.log_likelihood + 1000.0).all()
    for fields_, is_noted in ((data, True), (data.isel(x=slice(1, -1)), False)):
        law = sl.fit(fields_, DOMAIN, 3, engine="amortized", **SMALL | {"epochs": 1})
        assert any("every mode is zero" in note for note in law.info["warnings"]) == is_noted


# -- rescaling --------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["mtan", "ode_rnn"])
@pytest.mark.parametrize("n_noise", [None, 2])
def test_rescaling_sets_the_second_moment_to_one_and_keeps_every_field(encoder, n_noise):
    """``sqrt(q) xi`` stays, so do the coefficients, the residuals and their expectation."""
    data = fields(30)
    config = make_config(**SMALL, encoder=encoder, n_noise=n_noise, rescale=True)
    model, paths = model_of(encoder=encoder, n_noise=n_noise), paths_of(data)
    run = NeuralRun(model, paths, paths, config, 0)
    with torch.no_grad():
        model.encoder.head.weight.mul_(3.0)
        before, moment = elbo(model, paths), run._chaos_moment()
        amplitude = model.dynamics.amplitudes()
        assert not torch.allclose(moment, torch.ones_like(moment), atol=0.05)
        model.rescale(moment)
        after = elbo(model, paths)
    torch.testing.assert_close(run._chaos_moment(), torch.ones_like(moment), rtol=1e-5, atol=0)
    torch.testing.assert_close(after.coefficients, before.coefficients, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after.log_likelihood, before.log_likelihood, rtol=1e-6, atol=1e-3)
    torch.testing.assert_close(after.kl_initial, before.kl_initial)
    ratio = (model.dynamics.amplitudes()[: len(moment)] / amplitude[: len(moment)]) ** 2
    torch.testing.assert_close(ratio, moment, rtol=1e-6, atol=0)


def test_an_epoch_of_the_preset_ends_rescaled():
    config = make_config(**(SMALL | {"preset": "rescaled"}))
    paths = paths_of(fields(30))
    run = NeuralRun(model_of(preset="rescaled"), paths, paths, config, 0)
    run.epoch(0)
    torch.testing.assert_close(run._chaos_moment(), torch.ones(3).double(), rtol=1e-5, atol=0)
