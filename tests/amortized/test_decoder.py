"""Decoders that are polynomial in xi: propagators with gradients, and moments in closed form."""

import numpy as np
import pytest
import torch

import spdelaw as sl
from spdelaw.amortized.encoder import Encoded
from spdelaw.amortized.vae import (
    LatentDynamics,
    PolynomialDynamics,
    StateNoise,
)
from spdelaw.chaos import augment, propagate_chaos, total_degree_set
from spdelaw.chaos.indices import decoder_indices
from spdelaw.processes.state_noise import bind_state_noise

DOMAIN = sl.Interval(0.0, np.pi)
AGES = np.linspace(0.0, 1.0, 5)


def dynamics(order=2, n_modes=3, n_time=2, n_noise=2, affine=False):
    """Rates and amplitudes that differ from mode to mode."""
    amplitude = bind_state_noise("affine", DOMAIN, n_modes)
    noise = StateNoise(amplitude.operators, amplitude.constants if affine else None)
    out = PolynomialDynamics(noise, decoder_indices(n_time, n_noise, order, 400))
    with torch.no_grad():
        out.log_eigenvalues.copy_(torch.tensor([0.0, 1.0, 2.0])[:n_modes])
        out.log_factor.diagonal().copy_(torch.tensor([-0.5, -1.0, -1.5])[:n_noise])
        if affine:
            out.offset.fill_(0.4)
    return out


def posterior(n_paths=1, n_modes=3, n_time=2, n_noise=2):
    draw = np.random.default_rng(3)
    shapes = 2 * ((n_paths, n_modes),) + 2 * ((n_paths, n_time, n_noise),)
    parts = [torch.from_numpy(draw.standard_normal(shape)).float() for shape in shapes]
    return Encoded(parts[0], parts[1] - 1.0, parts[2], parts[3] - 1.0)


@pytest.mark.parametrize("affine", [False, True])
def test_propagators_are_those_of_numpy_and_their_gradients_differences(affine):
    d = dynamics(affine=affine)
    amplitude = bind_state_noise("affine", DOMAIN, 3)
    lam, q, gamma = np.exp([0.0, 1.0, 2.0]), np.exp([-1.0, -2.0]), 0.4 * affine

    def in_numpy(lam, q, gamma):
        b = np.sqrt(q)[:, None, None] * amplitude.operators[:2]
        given = augment(-lam, b, gamma * np.sqrt(q)[:, None] * amplitude.constants[:2])
        phi = propagate_chaos(*given, np.eye(4), AGES, total_degree_set(2, 2, 2), horizon=1.0)
        return phi[:, :, :3] if affine else phi[:, :, :3, :3]

    got = d.curves(AGES, 2, "closed_form")
    assert got.dtype == torch.float32
    exact = d.propagators(AGES)
    expected = in_numpy(lam, q, gamma)
    np.testing.assert_allclose(exact.detach().numpy(), expected, atol=1e-8)
    weights = np.random.default_rng(0).standard_normal(expected.shape)
    (exact * torch.from_numpy(weights)).sum().backward()
    step = 1e-6

    def slope(change):
        plus, minus = (in_numpy(*change(sign * step)) for sign in (1, -1))
        return ((plus - minus) * weights).sum() / (2 * step)

    unit = np.eye(3)
    for n in range(3):
        by_rate = slope(lambda h, n=n: (lam * np.exp(h * unit[n]), q, gamma))
        assert float(d.log_eigenvalues.grad[n]) == pytest.approx(by_rate, rel=1e-5, abs=1e-6)
    for l in range(2):
        by_noise = slope(lambda h, l=l: (lam, q * np.exp(2 * h * unit[l, :2]), gamma))
        assert float(d.log_factor.grad[l, l]) == pytest.approx(by_noise, rel=1e-5, abs=1e-6)
    if affine:
        by_offset = slope(lambda h: (lam, q, gamma + h))
        assert float(d.offset.grad) == pytest.approx(by_offset, rel=1e-5)


@pytest.mark.parametrize(("order", "affine"), [(1, False), (2, True), (3, False)])
def test_moments_are_those_of_draws(order, affine):
    """Null: 60,000 draws have the mean and the covariance; |z| < 6 for each of 60 numbers."""
    d, q, n = dynamics(order, affine=affine), posterior(), 60_000
    curves = d.curves(AGES, 2, "closed_form").detach()
    mean, covariance = d.moments(curves, q)
    generator = torch.Generator().manual_seed(1)
    draws = d.coefficients(
        curves,
        q.initial_mean
        + torch.exp(0.5 * q.initial_log_variance) * torch.randn(n, 3, generator=generator),
        q.chaos_mean
        + torch.exp(0.5 * q.chaos_log_variance) * torch.randn(n, 2, 2, generator=generator),
    ).double()
    centred = draws - mean.double()
    products = centred[..., :, None] * centred[..., None, :]
    for sample, expected in ((draws, mean), (products, covariance)):
        error = sample.std(0) / np.sqrt(n) + 1e-6
        assert ((sample.mean(0) - expected[0]).abs() < 6.0 * error).all()


def test_operators_of_additive_noise_give_the_linear_decoder():
    linear, zero = LatentDynamics(3, 3), np.zeros((3, 3, 3))
    affine = PolynomialDynamics(StateNoise(zero, np.eye(3)), decoder_indices(4, 3, 2, 400))
    with torch.no_grad():
        affine.offset.fill_(1.0)
        for d in (linear, affine):
            d.log_eigenvalues.copy_(torch.tensor([0.0, 1.0, 2.0]))
            d.log_factor.diagonal().copy_(torch.tensor([0.0, -0.5, -1.0]))
    q = posterior(2, 3, 4, 3)
    one, other = (d.moments(d.curves(AGES, 4, "closed_form"), q) for d in (linear, affine))
    torch.testing.assert_close(one[0], other[0], rtol=1e-5, atol=1e-5)
    diagonal = torch.diagonal(other[1], dim1=-2, dim2=-1)
    torch.testing.assert_close(one[1], diagonal, rtol=1e-5, atol=1e-5)


def test_indices_beyond_the_first_order_are_ranked():
    kept = decoder_indices(16, 8, 2, 300)
    assert len(kept) == 300
    assert (kept.orders == 1).sum() == 128
    assert kept.degrees[129, 0, 0] == 2  # of the slowest function and the first mode
    assert len(decoder_indices(16, 8, 2, 100)) == 129
    assert decoder_indices(3, 2, 1, 400).order == 1
