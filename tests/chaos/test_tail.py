"""The truncated remainder: brute force, Gram matrices, convergence, positivity, torch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdelaw.chaos.propagators import (
    CosineBasis,
    HaarBasis,
    decay_mean,
    tail_covariance,
    unit_response,
)

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 1, 9)
RATES = np.array([0.0, 1.0, 20.0])
SKEWED = np.array([[1.0, 0.5, 0.0], [0.2, -2.0, 0.3], [0.0, 0.1, 0.7], [0.4, 0.0, 0.0]])
BASES = [CosineBasis(), HaarBasis()]


def residual_kernels(basis, n_time):
    """g_t(s) = e^(-lambda (t - s)) 1_{s < t} - sum_k psi_k(t) m_k(s) on quadrature points.

    Gauss-Legendre on 64 pieces: no kink or jump of TIMES or of the first 16 wavelets inside one.
    """
    u, w = np.polynomial.legendre.leggauss(12)
    s = ((np.arange(64)[:, None] + 0.5 * (1 + u)) / 64).ravel()
    gap = TIMES[:, None, None] - s[:, None]
    kernel = np.where(gap > 0, np.exp(-RATES * np.maximum(gap, 0)), 0.0)  # (T, s, N)
    psi, m = unit_response(basis, TIMES, RATES, n_time), basis.values(s, n_time)
    return kernel - np.einsum("tkn,sk->tsn", psi, m), np.tile(w, 64) / 128


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("n_time", [1, 5, 16])
def test_is_the_gram_matrix_of_the_residual_kernels(basis, n_time):
    """Cov r(t, s) = int g_t g_s by Ito's isometry; for a dense factor across modes as well."""
    g, w = residual_kernels(basis, n_time)
    amplitude = np.array([1.0, 0.5, 3.0])
    expected = np.einsum("asn,bsn,s,n->nab", g, g, w, amplitude**2)
    tail = tail_covariance(basis, TIMES, RATES, amplitude, n_time)
    np.testing.assert_allclose(tail, expected, atol=1e-12)
    dense = np.einsum("asn,bsm,s,ln,lm->namb", g, g, w, SKEWED, SKEWED, optimize=True)
    tail = tail_covariance(basis, TIMES, RATES, SKEWED, n_time)
    np.testing.assert_allclose(tail, dense, atol=1e-12)


def test_brownian_bridge():
    """lambda = 0, K = 1: Brownian motion without its end point, min(t, s) - t s / T."""
    t = np.linspace(0, 2, 6)
    tail = tail_covariance(CosineBasis(2.0), t, [0.0], [1.0], 1)[0]
    np.testing.assert_allclose(tail, np.minimum.outer(t, t) - np.outer(t, t) / 2, atol=1e-15)


@given(
    lam=st.lists(st.floats(0, 1e4), min_size=2, max_size=2),
    k=st.integers(1, 40),
    haar=st.booleans(),
)
def test_positive_semidefinite_and_smaller_with_each_function(lam, k, haar):
    basis = HaarBasis() if haar else CosineBasis()
    t = np.linspace(0, 1, 12)
    now = tail_covariance(basis, t, lam, np.ones(2), k)
    one_more = tail_covariance(basis, t, lam, np.ones(2), k + 1)
    for matrix in (now, now - one_more):
        assert (np.linalg.eigvalsh(matrix) > -1e-13).all()
    dense = tail_covariance(basis, t, lam, [[1.0, 0.3], [0.1, -2.0]], k).reshape(24, 24)
    assert np.linalg.eigvalsh(dense).min() > -1e-12


def test_parseval_and_the_rate_of_convergence():
    """Mean tail variance -> T / (pi^2 K): slope -1 in [-1.02, -0.98], the constant within 2 %."""
    horizon = 2.0
    t = (np.arange(400) + 0.5) * horizon / 400
    counts = np.array([32, 64, 128, 256])
    basis, lam = CosineBasis(horizon), np.array([0.0, 1.0, 5.0])
    psi = unit_response(basis, t, lam, counts[-1])
    energy = t[:, None] * decay_mean(2 * t[:, None] * lam)  # int_0^t e^(-2 lambda (t - s)) ds
    missing = np.array([(energy - (psi[:, :k] ** 2).sum(1)).mean(0) for k in counts])
    slopes = np.polyfit(np.log(counts), np.log(missing), 1)[0]
    assert (np.abs(slopes + 1) < 0.02).all()
    np.testing.assert_allclose(missing[-1] * counts[-1] * np.pi**2 / horizon, 1.0, rtol=0.02)


@pytest.mark.parametrize("b", [np.array([1.0, 0.5, 3.0]), SKEWED])
def test_numpy_and_torch_are_one_and_gradients_are_finite(b):
    plain = tail_covariance(CosineBasis(), TIMES, RATES, b, 4)
    lam, factor = (torch.tensor(a, requires_grad=True) for a in (RATES, b))
    tail = tail_covariance(CosineBasis(), TIMES, lam, factor, 4)
    np.testing.assert_allclose(tail.detach().numpy(), plain, atol=1e-14)
    skew = np.random.default_rng(0).normal(size=plain.shape)
    (tail * torch.tensor(skew)).sum().backward()
    step, fd = 1e-5, np.empty(3)
    for i in range(3):
        up, down = (
            tail_covariance(CosineBasis(), TIMES, RATES + s * step * np.eye(3)[i], b, 4)
            for s in (1, -1)
        )
        fd[i] = ((up - down) * skew).sum() / (2 * step)
    np.testing.assert_allclose(lam.grad.numpy(), fd, rtol=1e-6, atol=1e-8)
    assert torch.isfinite(factor.grad).all()
