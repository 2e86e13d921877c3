"""Chaos of any order: index sets, propagators of coupled modes, second moments."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import gammaln

from spdelaw.chaos import (
    CosineBasis,
    HaarBasis,
    IndexSet,
    augment,
    first_order,
    order_moments,
    propagate,
    propagate_chaos,
    second_moments,
    total_degree_set,
    truncation_floor,
    weighted_set,
)
from spdelaw.errors import InputError


def random_equation(n_modes, n_noise, seed=0, coupled=False, scale=0.4):
    """Generator, couplings and an initial state."""
    rng = np.random.default_rng(seed)
    a = -(np.arange(1.0, n_modes + 1) ** 2)
    if coupled:
        a = np.diag(a) + 0.5 * rng.standard_normal((n_modes, n_modes))
        a[0, 1], a[1, 0] = 4.0, -4.0  # two of them rotate
    b = scale * rng.standard_normal((n_noise, n_modes, n_modes))
    return a, b, rng.standard_normal(n_modes)


def bilinear_heat(n_modes=4, variance=0.4):
    """``dX = X'' dt + sigma X dW`` on sines, ``q_l = l^-2``, from the first mode."""
    x = (np.arange(200) + 0.5) * np.pi / 200
    h = np.sqrt(2 / np.pi) * np.sin(np.outer(np.arange(1, n_modes + 1), x))
    b = np.einsum("lx,mx,nx->lnm", h, h, h) * np.pi / 200
    n = np.arange(1.0, n_modes + 1)
    return -(n**2), np.sqrt(variance) * b / n[:, None, None], np.eye(n_modes)[0]


def lifted(a, b):
    """Matrices of ``M -> A M + M A'`` and ``M -> sum B M B'`` on vec(M)."""
    a = np.diag(a) if a.ndim == 1 else a
    eye = np.eye(len(a))
    return np.kron(a, eye) + np.kron(eye, a), sum(np.kron(one, one) for one in b)


# ------------------------------------------------------------------ index sets


def test_derivatives_of_polynomials():
    indices = total_degree_set(2, 2, 4)
    xi = np.random.default_rng(0).standard_normal((3, 2, 2))
    values = indices.polynomials(xi)
    slopes = indices.derivatives(values)
    h = 1e-6
    for v in range(4):
        step = np.zeros(4)
        step[v] = h
        step = step.reshape(2, 2)
        central = (indices.polynomials(xi + step) - indices.polynomials(xi - step)) / (2 * h)
        np.testing.assert_allclose(slopes[:, v], central, atol=1e-7)


@given(st.integers(0, 10_000), st.integers(1, 120))
@settings(max_examples=15, deadline=None)
def test_weighted_set_holds_the_cheapest_indices(seed, size):
    rho = np.random.default_rng(seed).uniform(0.0, 0.8, (3, 2))
    chosen, every = weighted_set(rho, size), total_degree_set(3, 2, 9)

    def cost(indices):
        return np.sort(
            (indices.degrees * -np.log(rho)).sum((1, 2))
            + gammaln(indices.degrees + 1.0).sum((1, 2))
        )

    np.testing.assert_allclose(cost(chosen), cost(every)[:size], atol=1e-9)


def test_weighted_set_rescales_slow_decay_and_skips_silent_noise():
    chosen = weighted_set([[3.0, 0.0], [0.3, 0.0]], 30, max_order=4)
    assert chosen.order == 4
    assert not chosen.degrees[:, :, 1].any()
    assert len(chosen) == math.comb(2 + 4, 4)  # fewer indices exist than were requested


def test_a_set_with_holes_is_refused():
    with pytest.raises(InputError, match="holes"):
        IndexSet(np.array([[[0]], [[2]]]))
    with pytest.raises(InputError, match="degrees"):
        IndexSet(np.zeros((2, 2)))


# ------------------------------------------------------------------ propagators


@pytest.mark.parametrize("dense", [False, True])
def test_first_order_equals_the_closed_form(dense):
    n, k = 6, 8
    lam, t = np.arange(1.0, n + 1) ** 2, np.linspace(0.0, 1.5, 31)
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((3, n)) if dense else np.diag(rng.uniform(0.1, 1.0, n))
    basis, start = CosineBasis(1.5), rng.standard_normal(n)
    curves = propagate(basis, t, lam, factor, k)
    expected = first_order(curves).reshape(len(t), -1, n)
    indices = total_degree_set(k, len(factor), 2)
    a, b = augment(-lam, noise=factor)
    u = propagate_chaos(a, b, np.append(start, 1.0), t, indices)
    np.testing.assert_allclose(u[:, 0, :n], curves.decay * start, rtol=0, atol=1e-12)
    np.testing.assert_allclose(u[:, indices.rows(1), :n], expected, rtol=0, atol=1e-12)
    # Additive noise in a linear equation has no chaos beyond the first.
    assert not u[:, indices.rows(2), :n].any()


@pytest.mark.parametrize("basis", [CosineBasis(2.0), HaarBasis(2.0)])
def test_geometric_brownian_motion_in_closed_form(basis):
    drift, sigma, k, order = 0.3, 0.7, 4, 5
    t, indices = np.array([0.3, 1.1, 2.0]), total_degree_set(k, 1, order)
    u = propagate_chaos([drift], [[[sigma]]], [1.5], t, indices, basis=basis)[..., 0]
    a, b = augment([0.0], noise=[[1.0]])  # integrals of the basis
    integral = propagate_chaos(a, b, [0.0, 1.0], t, total_degree_set(k, 1, 1), basis=basis)[
        :, 1:, 0
    ]
    degrees = indices.degrees[:, :, 0]
    expected = (
        1.5
        * np.exp(drift * t)[:, None]
        * np.prod(
            (sigma * integral[:, None, :]) ** degrees / np.sqrt(np.exp(gammaln(degrees + 1.0))),
            axis=2,
        )
    )
    np.testing.assert_allclose(u, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("coupled", [False, True])
def test_orders_are_the_homogeneous_parts_of_the_controlled_equation(coupled):
    """``v' = (A + sum c_kl m_k B_l) v`` is ``sum_alpha u_alpha c^alpha / sqrt(alpha!)``."""
    n, k, n_noise, order = 3, 2, 2, 3
    a, b, x0 = random_equation(n, n_noise, seed=3, coupled=coupled)
    basis, indices = CosineBasis(1.0), total_degree_set(k, n_noise, order)
    c = 0.5 * np.random.default_rng(1).standard_normal((k, n_noise))
    matrix = np.diag(a) if a.ndim == 1 else a
    n_roots = 16
    roots = np.exp(2j * np.pi * np.arange(n_roots) / n_roots)

    def slope(t, y):
        m = basis.values(np.array([t]), k)[0]
        noise = np.einsum("k,kl,lij->ij", m, c, b)
        states = y.reshape(n_roots, n)
        return (states @ matrix.T + roots[:, None] * (states @ noise.T)).ravel()

    start = np.tile(x0 + 0j, n_roots)
    end = solve_ivp(slope, (0, 1), start, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    parts = np.fft.fft(end.reshape(n_roots, n), axis=0) / n_roots
    u = propagate_chaos(a, b, x0, [1.0], indices)[0]
    flat = indices.degrees.reshape(len(indices), -1)
    monomials = np.prod(c.ravel() ** flat / np.sqrt(np.exp(gammaln(flat + 1.0))), axis=1)
    for p in range(order + 1):
        rows = indices.rows(p)
        np.testing.assert_allclose(monomials[rows] @ u[rows], parts[p].real, atol=1e-9)


def test_any_downward_closed_set_is_exact():
    a, b, x0 = random_equation(4, 3, seed=5)
    t = np.array([0.2, 1.0])
    large, small = total_degree_set(3, 3, 4), weighted_set(np.full((3, 3), 0.3), 40, 3)
    at = {tuple(d.ravel()): i for i, d in enumerate(large.degrees)}
    same = [at[tuple(d.ravel())] for d in small.degrees]
    u = propagate_chaos(a, b, x0, t, large)
    np.testing.assert_allclose(propagate_chaos(a, b, x0, t, small), u[:, same], rtol=0, atol=1e-14)


def test_stiff_equations_and_many_modes_agree_with_short_pieces(monkeypatch):
    n = 14
    a, b, x0 = random_equation(n, 2, seed=2, scale=0.1)
    a, t, indices = 50.0 * a, np.array([1e-5, 1e-3, 0.1, 1.0]), total_degree_set(3, 2, 2)
    u = propagate_chaos(a, b, x0, t, indices)
    np.testing.assert_allclose(propagate_chaos(np.diag(a), b, x0, t, indices), u, atol=1e-13)
    monkeypatch.setattr("spdelaw.chaos.higher_order.PIECES_PER_FUNCTION", 5)
    monkeypatch.setattr("spdelaw.chaos.higher_order.FIRST_PIECE", 0.3)
    np.testing.assert_allclose(propagate_chaos(a, b, x0, t, indices), u, atol=1e-10 * abs(x0).max())


def test_coefficients_are_the_mean_of_the_field_times_its_polynomial():
    """Against Euler paths; 5.7 standard errors over 2 x 15 numbers: false alarms below 1e-6."""
    a, b, x0 = np.array([-1.0, -2.0]), 0.5 * np.array([[[1.0, 0.5], [-0.3, 0.8]]]), np.ones(2)
    rng, n_paths, n_steps = np.random.default_rng(0), 20_000, 256
    h, state = 1.0 / n_steps, np.tile(x0, (n_paths, 1))
    m = CosineBasis().values((np.arange(n_steps) + 0.5) * h, 4)
    xi = np.zeros((n_paths, 4, 1))
    for step in range(n_steps):
        dw = np.sqrt(h) * rng.standard_normal(n_paths)
        xi[:, :, 0] += dw[:, None] * m[step]
        state = state + h * a * state + dw[:, None] * (state @ b[0].T)
    indices = total_degree_set(4, 1, 2)
    u = propagate_chaos(a, b, x0, [1.0], indices)[0]
    products = indices.polynomials(xi)[:, :, None] * state[:, None]
    error = products.std(0) / np.sqrt(n_paths)
    assert (abs(products.mean(0) - u) < 5.7 * error + 2.0 * h * abs(x0).max() * 0.5).all()


def test_gradients_flow_through_the_propagators():
    torch = pytest.importorskip("torch")
    a, b, x0 = (torch.tensor(x) for x in random_equation(2, 2, seed=1))
    indices = total_degree_set(2, 2, 2)

    def at_end(generator, couplings):
        return propagate_chaos(generator, couplings, x0, [0.5, 1.0], indices)

    for part in (a, b):
        part.requires_grad_(True)
    assert torch.autograd.gradcheck(at_end, (a, b))
    plain = propagate_chaos(a.detach().numpy(), b.detach().numpy(), x0.numpy(), [0.5, 1.0], indices)
    np.testing.assert_allclose(at_end(a, b).detach().numpy(), plain, atol=1e-14)
    xi = np.random.default_rng(0).standard_normal((3, 2, 2))
    polynomials = indices.polynomials(torch.tensor(xi), torch)
    np.testing.assert_allclose(polynomials.numpy(), indices.polynomials(xi), atol=1e-14)


def test_wrong_shapes_are_refused():
    indices = total_degree_set(2, 1, 2)
    with pytest.raises(InputError, match="couplings"):
        propagate_chaos([-1.0], np.ones((2, 1, 1)), [1.0], [1.0], indices)
    with pytest.raises(InputError, match="initial"):
        propagate_chaos([-1.0], [[[1.0]]], [1.0, 2.0], [1.0], indices)
    with pytest.raises(InputError, match="NaN"):
        propagate_chaos([np.nan], [[[1.0]]], [1.0], [1.0], indices)


# ------------------------------------------------------------------ second moments and windows


@pytest.mark.parametrize("kind", ["diagonal", "coupled", "defective"])
def test_moments_equal_the_lifted_matrix_exponential(kind):
    a, b, x0 = random_equation(4, 3, seed=7, coupled=kind == "coupled")
    if kind == "defective":  # equal eigenvalues with one eigenvector
        a = np.diag(a)
        a[:2, :2] = [[-1.0, 1.0], [0.0, -1.0]]
    start, t = np.outer(x0, x0) + np.eye(4), np.array([0.0, 0.1, 0.7, 3.0])
    both, coupling = lifted(a, b)
    exact = [(expm((both + coupling) * s) @ start.ravel()).reshape(4, 4) for s in t]
    np.testing.assert_allclose(second_moments(a, b, start, t), exact, rtol=1e-10, atol=1e-10)
    order = 3
    chain = np.kron(np.eye(order + 1), both) + np.kron(np.eye(order + 1, k=-1), coupling)
    first = np.append(start.ravel(), np.zeros(order * 16))
    parts = [(expm(chain * s) @ first).reshape(order + 1, 4, 4) for s in t]
    np.testing.assert_allclose(order_moments(a, b, start, t, order), parts, rtol=1e-9, atol=1e-9)


def test_affine_noise_and_forcing_have_the_moments_of_their_linear_equation():
    """``dX = (A X + f) dt + (B X + b) dw`` by the moments of X alone."""
    a, b, x0 = random_equation(2, 1, seed=4, coupled=True)
    noise, f = np.array([[0.5, -0.2]]), np.array([1.0, 0.3])
    wide, couplings = augment(a, b, noise, f)
    start = np.append(x0, 1.0)
    moment = second_moments(wide, couplings, np.outer(start, start), [0.8])[0]

    def slope(t, y):
        m, s = y[:2], y[2:].reshape(2, 2)
        rate = b[0] @ s @ b[0].T + np.outer(b[0] @ m, noise[0]) + np.outer(noise[0], b[0] @ m)
        by_s = a @ s + s @ a.T + rate + np.outer(noise[0], noise[0])
        return np.append(a @ m + f, (by_s + np.outer(m, f) + np.outer(f, m)).ravel())

    y = solve_ivp(slope, (0, 0.8), np.append(x0, np.outer(x0, x0)), rtol=1e-11, atol=1e-12).y
    np.testing.assert_allclose(moment[:2, 2], y[:2, -1], atol=1e-9)
    np.testing.assert_allclose(moment[:2, :2], y[2:, -1].reshape(2, 2), atol=1e-9)


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_energies_add_up_from_below_to_the_second_moment(seed):
    a, b, x0 = random_equation(3, 2, seed, scale=0.5)
    t = np.array([0.5, 1.0])
    exact = second_moments(a, b, np.outer(x0, x0), t)
    for k in (2, 5):
        u = propagate_chaos(a, b, x0, t, total_degree_set(k, 2, 3))
        missing = exact - np.einsum("tai,taj->tij", u, u)
        assert np.linalg.eigvalsh(missing).min() > -1e-11 * np.trace(exact[0])
        floor = truncation_floor(a, b, np.outer(x0, x0), t, 3)[:, 3]
        variance = np.trace(exact - np.einsum("ti,tj->tij", u[:, 0], u[:, 0]), axis1=1, axis2=2)
        assert (np.trace(missing, axis1=1, axis2=2) > (floor - 1e-10) * variance).all()


def test_errors_of_the_bilinear_heat_equation():
    """The variance at T = 1 for orders 1, 2, 3 with K = 4, and the slopes in order and K."""
    a, b, x0 = bilinear_heat()
    moment = np.outer(x0, x0)
    floor = truncation_floor(a, b, moment, [1.0], 4)[0]
    variance = np.trace(second_moments(a, b, moment, [1.0])[0]) - np.exp(2 * a[0])

    def error(k, order):
        u = propagate_chaos(a, b, x0, [1.0], total_degree_set(k, 4, order))[0]
        return 1.0 - (u[1:] ** 2).sum() / variance

    assert 0.09 < error(4, 1) < 0.1
    assert error(4, 2) <= 1e-2
    assert error(4, 3) <= 2e-3
    # Beside the floor of the order the error at T falls in K as K^-3: u(T) sees smooth functions.
    excess = [error(k, 1) - floor[1] for k in (8, 16, 32)]
    slopes = np.diff(np.log2(excess))
    assert (np.abs(slopes + 3.0) < 0.2).all()
    # An order more divides the floor by about (p + 1) / |sum B B'|.
    strength = np.linalg.norm(np.einsum("lij,lkj->ik", b, b), 2)
    for p in (1, 2, 3):
        assert floor[p + 1] < strength / (p + 1) * floor[p]
