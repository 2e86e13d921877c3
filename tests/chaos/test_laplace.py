"""Posterior of the coordinates of nonlinear laws, and the covariance of what is cut off."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.chaos import (
    CosineBasis,
    augment,
    chaos_equation,
    expand_equation,
    laplace_posterior,
    truncation_floor,
)
from spdelaw.chaos.nonlinear import MOST_INDICES, second_moment_kernel
from spdelaw.chaos.posterior import ChaosModel, chaos_latents
from spdelaw.errors import DataError, EquationError
from spdelaw.processes import Linear, Reacting
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import collapse

LINE = sl.Interval(0, np.pi)
RATES = np.array([1.0, 4.0, 9.0])
NOISE = 0.4 / np.arange(1.0, 4.0) ** 2
AGES = np.linspace(0.0, 1.0, 21)
POINTS = np.linspace(0.0, np.pi, 30)
BASIS = LINE.eigenfunctions(POINTS, 3)


def dynamics(state_noise="proportional", terms=(), coefficients=()):
    return Reacting(
        LINE, terms, np.array(coefficients, float), RATES, NOISE, state_noise=state_noise
    )


def start(variance=0.0):
    kind = "gaussian" if variance else "deterministic"
    return InitialState(kind, np.array([1.0, 0.3, 0.0]), np.full(3, variance))


def proportional_paths(n_paths, seed, n_steps=400):
    """Paths of ``dX = A X dt + X dW`` by exponential Euler steps, with their coordinates."""
    rng, h = np.random.default_rng(seed), 1.0 / n_steps
    operators, _, q = dynamics().noise_operators
    m = CosineBasis().values((np.arange(n_steps) + 0.5) * h, 4)
    state, xi = np.tile(start().mean, (n_paths, 1)), np.zeros((n_paths, 4, 3))
    path = [state]
    for step in range(n_steps):
        dw = np.sqrt(h) * rng.standard_normal((n_paths, 3))
        xi += m[step][:, None] * dw[:, None, :]
        moved = np.einsum("pl,lij,pj->pi", dw * np.sqrt(q), operators, state)
        state = np.exp(-RATES * h) * (state + moved)
        path.append(state)
    return np.stack(path, 1)[:, :: n_steps // 20], xi, rng


# ------------------------------------------------------------------ the tail


@pytest.mark.parametrize("variance", [0.0, 0.2])
def test_the_tail_is_a_covariance_and_falls_with_the_order(variance):
    equation = chaos_equation(dynamics(), start(variance))
    whole = second_moment_kernel(equation, AGES).reshape(63, 63)
    last = np.inf
    for order in (1, 2, 3):
        expansion = expand_equation(equation, AGES, 3, order, 1.0)
        tail = expansion.tail.reshape(63, 63)
        kept = expansion.values.transpose(0, 2, 1).reshape(63, -1)
        np.testing.assert_allclose(kept @ kept.T + tail, whole, atol=1e-12)
        assert np.linalg.eigvalsh(tail).min() > -1e-12
        assert np.trace(tail) < last
        last = np.trace(tail)


@pytest.mark.parametrize("unit", [1e-30, 1e12, 1e30])
def test_shares_of_the_variance_do_not_depend_on_the_unit(unit):
    def shares(u):
        noisy = Reacting(
            LINE, ("1",), np.array([0.3 * u]), RATES, NOISE, None, "affine", noise_offset=0.5 * u
        )
        e = chaos_equation(noisy, InitialState("deterministic", u * start().mean, np.zeros(3)))
        floor = truncation_floor(e.generator, e.couplings, e.moment, AGES[-1:], 3)[0]
        expansion = expand_equation(e, AGES, 4, 2, 1.0)
        return floor, expansion.values / u, expansion.tail / u**2

    for here, usual in zip(shares(unit), shares(1.0), strict=True):
        np.testing.assert_allclose(here, usual, rtol=1e-9, atol=1e-11)


def test_moments_at_two_times_of_affine_noise_with_a_forcing():
    """Scalar ``dX = (a X + f) dt + s (X + g) dw``: ``E X_t X_s = e^(a (t - s)) E X_s^2 + ...``."""
    one = sl.Interval(0.0, 1.0, "periodic")  # its first mode is constant
    a, f, q, g = -0.7, 0.4, 0.3, 0.5
    flat = Reacting(
        one, ("1",), np.array([f]), np.array([-a]), np.array([q]), None, "affine", noise_offset=g
    )
    equation = chaos_equation(flat, InitialState("deterministic", np.ones(1), np.zeros(1)))
    t = np.array([0.0, 0.4, 1.1])
    mean = np.exp(a * t) + f * np.expm1(a * t) / a
    kernel = second_moment_kernel(equation, t)[:, 0, :, 0]
    for i in range(3):
        for j in range(i + 1):
            lag = t[i] - t[j]
            moved = np.exp(a * lag) * kernel[j, j] + f * np.expm1(a * lag) / a * mean[j]
            np.testing.assert_allclose(kernel[i, j], moved, atol=1e-12)
    # d E(X + g)^2 = (2 a + q) E(X + g)^2 + 2 (f - a g) E(X + g), solved by fine Euler steps
    y, m, n = (1.0 + g) ** 2, 1.0 + g, 200_000
    for _ in range(n):
        y, m = (
            y + 1.1 / n * ((2 * a + q) * y + 2 * (f - a * g) * m),
            m + 1.1 / n * (a * (m - g) + f),
        )
    np.testing.assert_allclose(kernel[2, 2], y - 2 * g * mean[2] - g**2, rtol=1e-5)


def test_many_indices_are_chosen_by_their_energies():
    equation = chaos_equation(dynamics(), start())
    expansion = expand_equation(equation, AGES[::4], 12, 3, 1.0)  # C(39, 3) = 9,139 of them
    assert MOST_INDICES <= len(expansion.indices) <= MOST_INDICES + 36
    assert (expansion.indices.orders == 1).sum() == 36
    few = expand_equation(equation, AGES[::4], 12, 1, 1.0)
    assert np.trace(expansion.tail.reshape(18, 18)) < 0.9 * np.trace(few.tail.reshape(18, 18))


def test_what_has_no_expansion_is_refused():
    with pytest.raises(EquationError, match="square_root"):
        chaos_equation(dynamics("square_root"), start())
    expansion = expand_equation(
        chaos_equation(dynamics(), start()), np.linspace(0, 1, 1001), 2, 1, 1.0
    )
    collapsed = collapse(np.zeros((1, 1001, 30)), np.linspace(0, 1, 1001), BASIS)
    with pytest.raises(DataError, match="reconstruct"):
        laplace_posterior(collapsed, expansion, 1.0)


# ------------------------------------------------------------------ the posterior


@pytest.mark.parametrize("variance", [0.0, 0.2])
@pytest.mark.parametrize("tail", ["modelled", "dropped"])
def test_a_linear_law_has_the_exact_posterior(variance, tail):
    """Additive noise, with gaps: the posterior of `chaos_latents`, at every order."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 21, 30))
    values[0, 3:9] = np.nan
    values[1, 5, ::2] = np.nan
    r, initial = 0.05, start(variance)
    space = StateSpace(Linear(RATES, NOISE), initial, np.asarray(r))
    collapsed = collapse(values, AGES, BASIS)
    expected = {
        int(p): (one.mean[..., i], one.std, one.initial_mean[:, i], one.initial_std)
        for one in chaos_latents(collapsed, space, ChaosModel(4, 1.0, tail))
        for i, p in enumerate(one.paths)
    }
    equation = chaos_equation(dynamics("none"), initial)
    for order in (1, 2):
        expansion = expand_equation(equation, AGES, 4, order, 1.0, tail)
        for one in laplace_posterior(collapsed, expansion, r):
            assert one.converged.all()
            for i, p in enumerate(one.paths):
                mean, std, z0, z0_std = expected[int(p)]
                np.testing.assert_allclose(one.mean[i, :4], mean, atol=1e-8)
                np.testing.assert_allclose(one.std[i, :4], std, atol=1e-8)
                if variance:
                    scale = np.sqrt(variance)
                    np.testing.assert_allclose(initial.mean + scale * one.mean[i, 4], z0, atol=1e-8)
                    np.testing.assert_allclose(scale * one.std[i, 4], z0_std, atol=1e-8)


@pytest.mark.parametrize("tail", ["modelled", "dropped"])
def test_coupled_modes_are_uncoupled_ones_in_another_basis(tail):
    """The law of ``O c`` observed through ``Phi O'`` has the coordinates of c."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    values = rng.standard_normal((2, 21, 30))
    values[1, 4:9] = np.nan
    r, initial = 0.05, start(0.2)
    plain = StateSpace(Linear(RATES, NOISE), initial, np.asarray(r))
    a, b = turn * RATES @ turn.T, turn * np.sqrt(NOISE)
    mean, root = turn @ initial.mean, turn * np.sqrt(initial.covariance)
    # Linear laws are driven through the symmetric root: c' = O c has the factor O sqrt(Q).
    equation = chaos_equation(Linear(a, b @ b.T), InitialState("gaussian", mean, root @ root.T))
    generator, couplings = augment(-a, noise=b.T / equation.mean[-1])
    equation = equation._replace(
        generator=generator, couplings=couplings, root=np.pad(root, (0, 1))
    )
    expansion = expand_equation(equation, AGES, 4, 1, 1.0, tail)
    coupled = laplace_posterior(collapse(values, AGES, BASIS @ turn.T), expansion, r)
    expected = chaos_latents(collapse(values, AGES, BASIS), plain, ChaosModel(4, 1.0, tail))
    for one, other in zip(coupled, expected, strict=True):
        np.testing.assert_array_equal(one.paths, other.paths)
        np.testing.assert_allclose(one.mean[:, :4], other.mean.transpose(2, 0, 1), atol=1e-8)
        np.testing.assert_allclose(one.std[:, :4], other.std[None], atol=1e-8)
        z0 = mean + one.mean[:, 4] @ root.T
        np.testing.assert_allclose(z0 @ turn, other.initial_mean.T, atol=1e-8)
        np.testing.assert_allclose(
            one.states @ turn, other.coefficients.transpose(2, 0, 1), atol=1e-8
        )


def test_the_symmetric_root_drives_coupled_noise():
    noise = np.array([[1.0, 0.4], [0.4, 0.5]])
    initial = InitialState("deterministic", np.zeros(2), np.zeros(2))
    equation = chaos_equation(Linear(np.ones(2), noise), initial)
    couplings = equation.couplings[:, :2, 2] * equation.mean[2]
    np.testing.assert_allclose(couplings.T @ couplings, noise, atol=1e-14)
    np.testing.assert_allclose(couplings, couplings.T, atol=1e-14)


def test_intervals_of_coordinates_of_proportional_noise_hold():
    """Against the noise that drove 100 paths, 1,200 coordinates.

    They are nearly independent: five standard errors of a share of 95 % are 3.2 %.
    """
    coefficients, xi, rng = proportional_paths(100, seed=1)
    std = 0.02
    values = coefficients @ BASIS.T + std * rng.standard_normal((100, 21, 30))
    collapsed = collapse(values, AGES, BASIS)
    equation, errors, state_errors = chaos_equation(dynamics(), start()), [], []
    for order in (1, 2, 3):
        expansion = expand_equation(equation, AGES, 4, order, 1.0)
        (one,) = laplace_posterior(collapsed, expansion, std**2)
        assert one.converged.all()
        z = (one.mean - xi[one.paths]) / one.std
        assert abs((np.abs(z) < 1.96).mean() - 0.95) < 0.032
        errors.append(float(np.sqrt(((one.mean - xi[one.paths]) ** 2).mean())))
        state_errors.append(float(((one.states - coefficients[one.paths]) ** 2).mean()))
    assert errors[1] < 0.8 * errors[0]
    assert errors[2] < errors[1]
    assert state_errors[2] < state_errors[1] < state_errors[0]


def test_the_mode_of_a_scalar_posterior_by_quadrature():
    """One observation of geometric Brownian motion, one coordinate, order 6."""
    one = sl.Interval(0.0, 1.0, "periodic")
    flat = Reacting(one, (), np.zeros(0), np.zeros(1), np.array([0.5]), state_noise="proportional")
    equation = chaos_equation(flat, InitialState("deterministic", np.ones(1), np.zeros(1)))
    expansion = expand_equation(equation, np.array([0.0, 1.0]), 1, 6, 1.0, "dropped")
    basis, y, r = one.eigenfunctions(np.array([0.3]), 1), 1.9, 0.04
    collapsed = collapse(np.array([[[1.0], [y]]]), np.array([0.0, 1.0]), basis)
    (posterior,) = laplace_posterior(collapsed, expansion, r)
    x = np.linspace(-4.0, 4.0, 80_001)
    p = expansion.indices.polynomials(x[:, None, None]) @ expansion.values[-1, :, 0]
    mode = x[np.argmin((y - p) ** 2 / r + x**2)]
    np.testing.assert_allclose(posterior.mean[0, 0, 0], mode, atol=2e-4)
