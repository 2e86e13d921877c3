"""The bound against a closed form, the exact marginal likelihood, and itself by other roads."""

import numpy as np
import pytest
import torch
from scipy import stats

import spdelaw as sl
from spdelaw.amortized.structured import truncated_log_likelihood
from spdelaw.amortized.vae import Paths, _SquaredResiduals, elbo
from spdelaw.chaos.bases import CosineBasis
from spdelaw.chaos.propagators import propagate
from spdelaw.data.observed import observe
from spdelaw.statespace.chain import linear_state_space

from .amortized_cases import (
    DOMAIN,
    EQUATION,
    GRID,
    TIMES,
    fields,
    model_of,
    noise_of,
    own_times,
    paths_of,
    with_gaps,
)

FLOAT32 = 2e-5


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


def flat_posterior(model, paths):
    with torch.no_grad():
        q = model.encode(paths)
    mean = torch.cat([q.initial_mean, q.chaos_mean.flatten(1)], 1).double().numpy()
    logs = torch.cat([q.initial_log_variance, q.chaos_log_variance.flatten(1)], 1).double().numpy()
    return mean, np.exp(logs)


@pytest.mark.parametrize("data", [fields(5), with_gaps(n_paths=5)], ids=["complete", "gaps"])
def test_exact_expectation_is_the_closed_form(data):
    """``E log N(y; A u, R) = log N(y; A m, R) - tr(A' R^-1 A V) / 2`` with dense matrices."""
    model, paths = model_of(), paths_of(data)
    found = elbo(model, paths, None)
    mean, variance = flat_posterior(model, paths)
    a, r = dense_map(model, TIMES), np.exp(model.log_variance.detach().numpy())
    for p in range(len(paths)):
        seen = ~np.isnan(data.values[p])
        rows, spread = a[seen], np.broadcast_to(r, seen.shape)[seen]
        at_mean = stats.norm.logpdf(data.values[p][seen], rows @ mean[p], np.sqrt(spread)).sum()
        expected = at_mean - 0.5 * ((rows**2 @ variance[p]) / spread).sum()
        assert found.log_likelihood[p].item() == pytest.approx(expected, rel=FLOAT32)
    divergence = 0.5 * (mean**2 + variance - 1 - np.log(variance)).sum(1)
    own = (found.kl_initial.sum(1) + found.kl_chaos.sum((1, 2))).detach().numpy()
    np.testing.assert_allclose(own, divergence, rtol=FLOAT32)


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


@pytest.mark.parametrize("data", [fields(8), with_gaps(n_paths=8), own_times(8)],
                         ids=["complete", "gaps", "own times"])  # fmt: skip
def test_bound_is_below_the_exact_likelihood_and_reaches_it(data):
    """The gap is ``KL(q || p(z0, xi | X))``, computed here from the dense posterior."""
    model, paths, observed = model_of(), paths_of(data), observe(data, DOMAIN)
    state = linear_state_space(
        np.exp(model.dynamics.log_eigenvalues.detach().numpy()),
        np.exp(2 * model.dynamics.log_factor.detach().diagonal().numpy()),
        np.zeros(3), np.ones(3), np.exp(model.log_variance.detach().numpy()),
    )  # fmt: skip
    exact = truncated_log_likelihood(observed, DOMAIN.eigenfunctions(GRID, 3), state, 4, 1.0)
    bound = elbo(model, paths, None).bound().detach().numpy()
    assert (bound < exact).all()
    mean, variance = flat_posterior(model, paths)
    r = np.exp(model.log_variance.detach().numpy())
    for p in range(len(paths)):
        ages = observed.times if observed.times.ndim == 1 else observed.times[p]
        seen = ~np.isnan(observed.values[p])
        rows = dense_map(model, ages)[seen]
        weighted = rows / np.broadcast_to(r, seen.shape)[seen][:, None]
        precision = np.eye(rows.shape[1]) + rows.T @ weighted
        centre = np.linalg.solve(precision, weighted.T @ observed.values[p][seen])
        d = mean[p] - centre
        gap = 0.5 * (
            np.diag(precision) @ variance[p] + d @ precision @ d - len(d)
            - np.linalg.slogdet(precision)[1] - np.log(variance[p]).sum()
        )  # fmt: skip
        assert exact[p] - bound[p] == pytest.approx(gap, rel=1e-4, abs=1e-3)


def test_weights_of_the_two_divergences():
    found = elbo(model_of(), paths_of(fields(5)), noise_of(5))
    change = found.weighted(0.5, 2.0) - found.bound()
    expected = 0.5 * found.kl_initial.sum(1) - found.kl_chaos.sum((1, 2))
    torch.testing.assert_close(change, expected)


def gradients(method, data, noise):
    """Bound and all gradients; on 81 times and lambda up to 7.4 rk4 is good to 1e-8."""
    model, paths = model_of(propagators=method), paths_of(data)
    loss = -elbo(model, paths, noise).bound().mean()
    loss.backward()
    return loss.item(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("gaps", [False, True])
def test_rk4_gives_the_same_bound_and_gradients(gaps):
    fine = np.linspace(0, 1, 81)
    data = sl.simulate(EQUATION, 6, fine, GRID, seed=1)
    if gaps:
        data = data.where(np.random.default_rng(0).random(data.shape) > 0.2)
    closed, by_closed = gradients("closed_form", data, noise_of(6))
    rk4, by_rk4 = gradients("rk4", data, noise_of(6))
    assert rk4 == pytest.approx(closed, rel=1e-5)
    total = sum(gradient.norm().item() for gradient in by_closed.values())
    total = sum(gradient.norm().item() for gradient in by_closed.values())
    for name, gradient in by_closed.items():
        difference = (by_rk4[name] - gradient).norm().item()
        # The softmax does not see the key's bias: its gradient is rounding, hence the floor.
        assert difference < 1e-4 * gradient.norm().item() + 1e-7 * total, name


def test_missing_values_are_left_out():
    data = with_gaps(n_paths=5)
    model, paths = model_of(), paths_of(data)
    wild = Paths(
        torch.where(paths.observed > 0, paths.values, torch.tensor(1e3)), paths.observed,
        paths.ages, paths.index,
    )  # fmt: skip
    a, b = elbo(model, paths, noise_of(5)), elbo(model, wild, noise_of(5))
    assert torch.equal(a.bound(), b.bound())


def test_a_point_nobody_saw_has_no_part():
    data = fields(5).copy()
    data[:, :, 3] = np.nan
    model, paths = model_of(), paths_of(data)
    elbo(model, paths, noise_of(5)).bound().sum().backward()
    assert model.log_variance.grad[3] == 0.0
    assert (model.log_variance.grad[[0, 1, 2, 4]] != 0.0).all()


def test_off_diagonal_noise_is_masked():
    model = model_of()
    elbo(model, paths_of(fields(5)), noise_of(5)).bound().sum().backward()
    gradient = model.dynamics.log_factor.grad
    assert torch.equal(gradient - torch.diag(gradient.diagonal()), torch.zeros(3, 3).double())
    assert (gradient.diagonal() != 0).all()


def test_common_clock_and_own_clocks_agree():
    data = fields(5)
    own = data.drop_vars("time").assign_coords(path_time=(("path", "time"), np.tile(TIMES, (5, 1))))
    a = elbo(model_of(), paths_of(data), noise_of(5)).bound()
    b = elbo(model_of(), paths_of(own), noise_of(5)).bound()
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
