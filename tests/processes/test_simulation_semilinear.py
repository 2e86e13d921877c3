"""Strang steps: orders, the linear limit, the scheme of SPDEBench, streams and refusals."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import ConvergenceError, InputError


def one_mode(terms, q=0.3, lam=0.2):
    """``dx = (-lam x + f(x)) dt + sqrt(q) dw``: the constant mode of an interval of length one."""
    linear = sl.SpectralSPDE(
        sl.Interval(0, 1, "neumann"), 1, sl.OperatorFormula(lam), noise=[q], initial=[0.5]
    )
    return sl.Semilinear(linear, terms)


def test_strong_order_is_one():
    e = sl.catalogue.allen_cahn(7, noise=sl.PowerLaw(1.5, 0.5))
    generator, finest, horizon = np.random.default_rng(0), 256, 1.0
    variance = e.dynamics.half_step(horizon / finest)[1]
    noise = np.sqrt(variance) * generator.standard_normal((2 * finest, 200, 7))
    start = np.tile(e.domain.project(np.sin, 7), (200, 1))
    ends = {}
    for n in (256, 64, 32, 16, 8):
        pieces, factor = noise, e.dynamics.half_step(horizon / finest)[0]
        while len(pieces) > 2 * n:
            pieces, factor = factor * pieces[0::2] + pieces[1::2], factor**2
        ends[n] = e.dynamics.strang(start, horizon, pieces, factor)
    errors = [np.sqrt(((ends[n] - ends[256]) ** 2).mean()) for n in (8, 16, 32, 64)]
    slope = -np.polyfit(np.log([8, 16, 32, 64]), np.log(errors), 1)[0]
    assert 0.85 < slope < 1.35, (slope, errors)


def test_weak_order_is_two():
    """``E x(1)^2`` of one mode, by Gauss-Hermite sums on a fine grid instead of by chance."""
    e = one_mode({"u": 1.0, "u^3": -1.0})
    z, w = np.polynomial.hermite_e.hermegauss(24)
    w = w / w.sum()
    grid = np.linspace(-4.0, 4.0, 3201)

    def second_moment(n):
        decay, variance = e.dynamics.half_step(1.0 / n)
        value = grid**2
        for _ in range(n):  # backwards: v(x) <- E v(step from x)
            inner = np.interp(decay * grid[:, None] + np.sqrt(variance) * z, grid, value) @ w
            reacted = e.dynamics.react(grid[:, None], 1.0 / n)[:, 0]
            inner = np.interp(reacted, grid, inner)
            value = np.interp(decay * grid[:, None] + np.sqrt(variance) * z, grid, inner) @ w
        return np.interp(0.5, grid, value)

    values = [second_moment(n) for n in (4, 8, 16, 32)]
    # Differences of successive refinements fall like the error itself.
    ratios = np.diff(values)[:-1] / np.diff(values)[1:]
    assert (np.abs(np.log2(ratios) - 2.0) < 0.35).all(), ratios


def test_without_terms_the_law_is_the_linear_one():
    heat = sl.catalogue.periodic_heat(4, initial="stationary")
    times = np.array([0.1, 0.4])
    fields = sl.simulate(sl.Semilinear(heat, {"u": 0.0}), 4000, times, seed=2)
    c = heat.domain.analyse(fields, 4, method="dense").values
    expected = heat.stationary_variance().values
    z = (c.var(0) - expected) / (expected * np.sqrt(2.0 / 4000))
    assert np.abs(z).max() < 4.5


def test_semi_implicit_is_the_scheme():
    e = sl.catalogue.allen_cahn(5, times=[0.0, 0.1, 0.2, 0.3])
    c = e.domain.analyse(
        sl.simulate(e, 3, seed=1, scheme="semi_implicit"), 5, method="dense"
    ).values
    lam, q, dt = e.linear.eigenvalues, e.linear.noise_variance, 0.1
    drift = c[:, :-1] + dt * (e.dynamics.drift(c[:, :-1]) + lam * c[:, :-1])
    z = ((1.0 + lam * dt) * c[:, 1:] - drift) / np.sqrt(q * dt)
    assert 0.5 < z.std() < 1.6
    again = sl.simulate(e, 1, seed=1, scheme="semi_implicit")
    np.testing.assert_allclose(
        again.values[0], sl.simulate(e, 3, seed=1, scheme="semi_implicit")[0]
    )


def test_labels_and_stated_error():
    fields = sl.simulate(sl.catalogue.allen_cahn_2d(9, times=[0.0, 0.1]), 2, seed=0)
    assert fields.dims == ("path", "time", "x", "y")
    assert 0.0 < fields.attrs["step_error"] <= 0.01
    assert fields.attrs["sub_steps"] >= 2


def test_a_field_that_runs_away_is_an_error():
    e = sl.catalogue.allen_cahn(5, b=-1.0, initial=lambda x: 3.0 + 0.0 * x, times=[0.0, 5.0])
    with pytest.raises(ConvergenceError, match="diverges"):
        sl.simulate(e, 1, seed=0)
    with pytest.raises(InputError, match="return_noise"):
        sl.simulate(e, 1, return_noise=True)
