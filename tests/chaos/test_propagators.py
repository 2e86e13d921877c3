"""Closed-form propagators against quadrature, an ODE solver, torch and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

import spdelaw as sl
from spdelaw.chaos import (
    CosineBasis,
    first_order,
    latent_dimension,
    propagate,
    unit_response,
    zero_order,
)
from spdelaw.errors import InputError, SpdeLawError

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


def test_against_an_ode_solver():
    """All rates at once: psi' = -lambda psi + m(t), psi(0) = 0, and the decay beside it."""
    t, lam, k = np.linspace(0, T, 13), np.array([0.0, 0.5, 4.0, 64.0]), 16

    def slope(s, y):
        m = np.concatenate([[0.0], BASIS.values(np.array([s]), k)[0]])
        return (m[:, None] - lam * y.reshape(k + 1, 4)).ravel()

    start = np.zeros((k + 1, 4))
    start[0] = 1.0
    run = integrate.solve_ivp(slope, (0, T), start.ravel(), "DOP853", t, rtol=1e-12, atol=1e-13)
    y = run.y.T.reshape(13, k + 1, 4)
    np.testing.assert_allclose(zero_order(t, lam), y[:, 0], atol=1e-10)
    np.testing.assert_allclose(unit_response(BASIS, t, lam, k), y[:, 1:], atol=1e-10)


def test_the_formula_of_the_design():
    """sqrt(2/T) (l cos wt + w sin wt - l e^-lt) / (l^2 + w^2), and sqrt(1/T) (1 - e^-lt) / l."""
    t, lam = np.linspace(0, T, 31)[:, None, None], np.array([0.3, 5.0, 40.0])
    w = (np.arange(1, 5) * np.pi / T)[:, None]
    late = lam * np.cos(w * t) + w * np.sin(w * t) - lam * np.exp(-lam * t)
    psi = unit_response(BASIS, t.ravel(), lam, 5)
    np.testing.assert_allclose(psi[:, 1:], np.sqrt(2 / T) * late / (lam**2 + w**2), atol=1e-14)
    first = np.sqrt(1 / T) * (1 - np.exp(-lam * t)) / lam
    np.testing.assert_allclose(psi[:, :1], first, atol=1e-14)


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


@given(
    lam=st.floats(0, 1e5), scale=st.floats(1e-2, 1e2), k=st.integers(1, 20), share=st.floats(0, 1)
)
def test_change_of_time_unit(lam, scale, k, share):
    """psi on [0, c T] at rate lambda / c is sqrt(c) psi on [0, T]: substitute s -> c s."""
    t = np.array([share])
    one = unit_response(CosineBasis(1.0), t, [lam], k)
    other = unit_response(CosineBasis(scale), t * scale, [lam / scale], k)
    bound = 1e-12 * np.sqrt(scale)
    np.testing.assert_allclose(other, np.sqrt(scale) * one, rtol=1e-9, atol=bound)


@given(lam=st.floats(0, 1e3), t=st.floats(0, T), gap=st.floats(0, T), k=st.integers(1, 12))
def test_restarting_at_a_time_changes_nothing(lam, t, gap, k):
    """psi(t) = e^(-lambda (t - r)) psi(r) + int_r^t: bounded by the Cauchy-Schwarz of the rest."""
    r, t = sorted((t, min(gap, T)))
    if t - r < 1e-6:
        return
    early, late = unit_response(BASIS, [r, t], [lam], k)[:, -1, 0]
    rest = late - np.exp(-lam * (t - r)) * early
    energy = -np.expm1(-2 * lam * (t - r)) / (2 * lam) if lam > 1e-9 else t - r
    assert rest**2 <= energy * (1 + 1e-9) + 1e-15


# ------------------------------------------------------------------ torch


def test_numpy_and_torch_are_one():
    t = np.linspace(0, T, 21)
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


def test_read_only_arrays_of_an_equation_enter_torch():
    e = sl.catalogue.heat(n_modes=4)
    p = propagate(CosineBasis(), e.times, e.eigenvalues, np.sqrt(e.noise_variance), 3, xp=torch)
    assert p.response.shape == (201, 3, 4)


def test_float32_stays_float32_and_accurate():
    t, lam = np.linspace(0, T, 201), np.array([0.0, 1e-4, 1.0, 64.0, 1e4])
    psi = unit_response(BASIS, t, torch.tensor(lam, dtype=torch.float32), 16)
    assert psi.dtype == torch.float32
    exact = unit_response(BASIS, t, lam.astype(np.float32).astype(float), 16)
    error = np.abs(psi.numpy() - exact).max((0, 1))
    assert (error < 3e-6 * np.abs(exact).max((0, 1))).all()


@pytest.mark.parametrize("lam", [0.0, 1e-12, 1e-5, 1e-3, 1.0, 64.0, 1e4])
def test_gradients_against_quadrature_and_finite_differences(lam):
    """d psi_k / d lambda = -int (t - s) e^(-lambda (t - s)) m_k(s) ds, at lambda = 0 as well."""
    t, k = np.array([0.02, 0.9, T]), 4
    skew = np.random.default_rng(1).normal(size=(3, k))
    tensor = torch.tensor([lam], dtype=torch.float64, requires_grad=True)
    psi = unit_response(BASIS, t, tensor, k)
    (psi[..., 0] * torch.tensor(skew)).sum().backward()
    exact = np.array([[kernel_integral(s, lam, j, 1) for j in range(1, k + 1)] for s in t])
    np.testing.assert_allclose(tensor.grad.item(), (skew * exact).sum(), rtol=1e-9)
    step = 1e-4 * max(lam, 1.0)
    up, down = (unit_response(BASIS, t, [lam + s * step], k)[..., 0] for s in (1, -1))
    fd = ((up - down) * skew).sum() / (2 * step)
    np.testing.assert_allclose(tensor.grad.item(), fd, rtol=1e-6)


def test_gradients_are_finite_for_every_rate():
    for dtype in (torch.float32, torch.float64):
        lam = torch.tensor([*RATES[RATES != 1e-300], 1e15], dtype=dtype, requires_grad=True)
        amplitude = torch.ones(len(lam), dtype=dtype, requires_grad=True)
        curves = propagate(BASIS, np.linspace(0, T, 11), lam, amplitude, 8)
        (first_order(curves).sum() + curves.decay.sum()).backward()
        assert torch.isfinite(lam.grad).all()
        assert torch.isfinite(amplitude.grad).all()


# ------------------------------------------------------------------ the noise factor, counts


def test_first_order_with_a_dense_factor():
    """z_{k,l,n} = B[l, n] psi_k(t; lambda_n), entry by entry; a diagonal B is the short form."""
    t, lam, b = [0.2, 1.0], np.array([1.0, 3.0]), np.array([[1.0, 2.0], [0.0, -1.0], [4.0, 0.5]])
    curves = propagate(BASIS, t, lam, b, 4)
    z = first_order(curves)
    assert z.shape == (2, 4, 3, 2)
    for index in np.ndindex(z.shape):
        i, k, l, n = index
        assert z[index] == b[l, n] * curves.response[i, k, n]
    short = first_order(propagate(BASIS, t, lam, [2.0, 0.5], 4))
    full = first_order(propagate(BASIS, t, lam, np.diag([2.0, 0.5]), 4))
    np.testing.assert_array_equal(np.einsum("tknn->tkn", full), short)
    assert np.count_nonzero(full) == np.count_nonzero(short)


def test_latent_dimension():
    assert latent_dimension(8, 16, 8) == 1032
    curves = propagate(BASIS, [1.0], np.ones(5), np.ones((3, 5)), 7)
    assert curves.latent_dimension == 5 * (1 + 7 * 3)
    assert (curves.n_modes, curves.n_time, curves.n_noise) == (5, 7, 3)
    z = first_order(curves)
    assert curves.latent_dimension == curves.decay[0].size + z[0].size


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"times": [0.0, 2.0]}, "times"),
        ({"times": [-0.1, 1.0]}, "times"),
        ({"times": [1.0, 0.5]}, "times"),
        ({"eigenvalues": 1.0}, "eigenvalues"),
        ({"eigenvalues": [np.nan, 1.0]}, "eigenvalues"),
        ({"noise_factor": [1.0, 1.0, 1.0]}, "noise_factor"),
        ({"noise_factor": [1.0, np.inf]}, "noise_factor"),
        ({"noise_factor": np.ones((2, 2, 2))}, "noise_factor"),
        ({"n_time": 0}, "n_time"),
        ({"n_time": 2.0}, "n_time"),
        ({"method": "euler"}, "method"),
        ({"basis": "cosine"}, "basis"),
        ({"xp": "torch"}, "xp"),
    ],
)
def test_bad_input(change, what):
    good = {
        "basis": BASIS, "times": [0.0, 1.0], "eigenvalues": [1.0, 2.0], "noise_factor": [1.0, 1.0],
        "n_time": 3,
    }  # fmt: skip
    propagate(**good)
    with pytest.raises(SpdeLawError) as caught:
        propagate(**(good | change))
    assert isinstance(caught.value, InputError)
    assert caught.value.what == what
    assert caught.value.expected
    assert caught.value.got
    assert caught.value.fix


def test_times_may_pass_the_horizon_by_rounding_only():
    propagate(BASIS, [T * (1 + 1e-12)], [1.0], [1.0], 2)
    with pytest.raises(InputError, match="longer horizon"):
        propagate(BASIS, [T * 1.001], [1.0], [1.0], 2)
