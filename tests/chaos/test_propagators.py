"""Closed-form propagators against quadrature, an ODE solver, torch and finite differences."""

import numpy as np
import pytest
from scipy import integrate

from spdelaw.chaos.propagators import (
    CosineBasis,
    first_order,
    latent_dimension,
    propagate,
    unit_response,
)

torch = pytest.importorskip("torch")

T = 1.5
BASIS = CosineBasis(T)
RATES = np.array([0.0, 1e-300, 1e-12, 1e-6, 0.1, 1.0, 64.0, 1e4, 1e9])


def kernel_integral(t, lam, k, power=0):
    """int_0^t (-(t - s))^power e^(-lambda (t - s)) m_k(s) ds by adaptive quadrature."""

    def f(u):
        return (-u) ** power * np.exp(-lam * u) * BASIS.values(np.array([t - u]), k)[0, -1]

    # Beyond 60 / lambda the exponential is below 1e-26.
    end = min(t, 60.0 / lam) if lam > 0 else t
    small = 1e-14 * end ** (1 + power)  # an integral may vanish, and then has no relative error
    return integrate.quad(f, 0.0, end, epsabs=small, epsrel=1e-12, limit=200)[0]


@pytest.mark.parametrize("lam", [0.0, 1e-9, 1e-3, 1.0, 64.0, 1e4])
def test_against_adaptive_quadrature(lam):
    t = np.array([1e-4, 0.4, 1.5])
    psi = unit_response(BASIS, t, [lam], 6)[..., 0]
    expected = [[kernel_integral(s, lam, k) for k in range(1, 7)] for s in t]
    np.testing.assert_allclose(psi, expected, rtol=1e-10, atol=1e-13 * np.abs(psi).max())


def test_limits():
    """lambda -> 0: the integral of m_k. Large lambda: m_k / lambda, once e^(-lambda t) is gone."""
    t = np.linspace(0.1, T, 15)
    w = np.arange(1, 6) * np.pi / T
    integral = np.hstack([t[:, None] / np.sqrt(T), np.sqrt(2 / T) * np.sin(np.outer(t, w)) / w])
    for lam in (0.0, 1e-300, 1e-14):
        psi = unit_response(BASIS, t, [lam], 6)[..., 0]
        np.testing.assert_allclose(psi, integral, atol=1e-13)
    lam = 1e9
    np.testing.assert_allclose(
        lam * unit_response(BASIS, t, [lam], 6)[..., 0], BASIS.values(t, 6), atol=1e-7
    )


def test_small_times_keep_relative_precision():
    """psi_k(t) = m_k(0) t (1 - lambda t / 2 + ...): the plain numerator has no digit left here."""
    t, lam = np.array([1e-12, 1e-9]), np.array([10.0, 1e3])
    expected = (
        BASIS.values(np.zeros(1), 4)[0][:, None]
        * t[:, None, None]
        * (1 - lam * t[:, None, None] / 2)
    )
    np.testing.assert_allclose(unit_response(BASIS, t, lam, 4), expected, rtol=1e-11)


# ------------------------------------------------------------------ torch


def test_numpy_and_torch_are_one():
    t = np.linspace(0, T, 21)
    t.flags.writeable = False  # as the arrays of an equation are
    b = np.random.default_rng(0).normal(size=(3, 9))
    for factor in (b[0], b):
        plain = propagate(BASIS, t, RATES, factor, 16)
        tensor = propagate(BASIS, torch.tensor(t), torch.tensor(RATES), torch.tensor(factor), 16)
        by_request = propagate(BASIS, t, RATES, factor, 16, xp=torch)
        for one, two, three in zip(plain, tensor, by_request, strict=True):
            assert two.dtype == three.dtype == torch.float64
            np.testing.assert_allclose(two.numpy(), one, rtol=1e-12, atol=1e-15)
            np.testing.assert_array_equal(three.numpy(), two.numpy())
        np.testing.assert_allclose(first_order(tensor).numpy(), first_order(plain), rtol=1e-12)


@pytest.mark.parametrize("lam", [0.0, 1e-12, 1e-5, 1e-3, 1.0, 64.0, 1e4])
def test_gradients_against_quadrature(lam):
    """d psi_k / d lambda = -int (t - s) e^(-lambda (t - s)) m_k(s) ds, at lambda = 0 as well."""
    t, k = np.array([0.02, 0.9, T]), 4
    skew = np.random.default_rng(1).normal(size=(3, k))
    tensor = torch.tensor([lam], dtype=torch.float64, requires_grad=True)
    psi = unit_response(BASIS, t, tensor, k)
    (psi[..., 0] * torch.tensor(skew)).sum().backward()
    exact = np.array([[kernel_integral(s, lam, j, 1) for j in range(1, k + 1)] for s in t])
    np.testing.assert_allclose(tensor.grad.item(), (skew * exact).sum(), rtol=1e-9)


# ------------------------------------------------------------------ the noise factor, counts


def test_first_order_with_a_dense_factor():
    """z_{k,l,n} = B[l, n] psi_k(t; lambda_n), entry by entry; a diagonal B is the short form."""
    t, lam, b = [0.2, 1.0], np.array([1.0, 3.0]), np.array([[1.0, 2.0], [0.0, -1.0], [4.0, 0.5]])
    curves = propagate(BASIS, t, lam, b, 4)
    z = first_order(curves)
    assert z.shape == (2, 4, 3, 2)
    assert (curves.n_modes, curves.n_time, curves.n_noise) == (2, 4, 3)
    assert curves.latent_dimension == latent_dimension(2, 4, 3) == 2 * (1 + 4 * 3)
    for index in np.ndindex(z.shape):
        i, k, l, n = index
        assert z[index] == b[l, n] * curves.response[i, k, n]
    short = first_order(propagate(BASIS, t, lam, [2.0, 0.5], 4))
    full = first_order(propagate(BASIS, t, lam, np.diag([2.0, 0.5]), 4))
    np.testing.assert_array_equal(np.einsum("tknn->tkn", full), short)
    assert np.count_nonzero(full) == np.count_nonzero(short)
