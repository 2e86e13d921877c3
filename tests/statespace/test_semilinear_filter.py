"""The closure filter against the exact linear one, brute force and a particle filter."""

import dataclasses

import numpy as np
import pytest
from tests.statespace._one_mode import GRID, equation, kernel

import spdelaw as sl
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.specification import InitialState
from spdelaw.statespace import filter as filters
from spdelaw.statespace.chain import StateSpace, linear_state_space
from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.filter import filter_scores, in_segments, smooth_block, smooth_states
from spdelaw.statespace.likelihood import evaluate_likelihood
from spdelaw.statespace.transitions import transition_innovations, transitions

RING = sl.Interval(0.0, 2 * np.pi, "periodic")
PRIOR = InitialState("gaussian", np.full(5, 0.1), np.full(5, 0.7))


def space_of(dynamics, r, prior=PRIOR, n_steps=1):
    return StateSpace(dataclasses.replace(dynamics, n_steps=n_steps), prior, np.asarray(r))


def observed(own_times=False, n=5, n_paths=3, seed=1):
    """Noisy fields at 8 points with 40 % missing, collapsed."""
    e = sl.catalogue.allen_cahn(n, times=0.1 * np.arange(9), initial=sl.Gaussian(0.0, 1.0))
    x, generator = RING.grid(8), np.random.default_rng(seed)
    values = sl.simulate(e, n_paths, seed=seed, observation_std=0.1, grid=x).values
    values[generator.random(values.shape) < 0.4] = np.nan
    values[0, 3] = np.nan  # a time without any observation
    times = np.asarray(e.times)
    if own_times:
        times = np.tile(times, (n_paths, 1)) + np.cumsum(0.05 * generator.random((n_paths, 9)), 1)
    return e, collapse(values, times, RING.eigenfunctions(x, n))


@pytest.mark.parametrize("own_times", [False, True])
def test_terms_held_at_zero_leave_the_exact_filter(own_times):
    e, data = observed(own_times)
    lam, q, r = e.linear.eigenvalues + 0.3, e.linear.noise_variance, 0.012
    space = space_of(Reacting(RING, ("u", "u^3"), np.zeros(2), lam, q), r)
    exact = linear_state_space(lam, q, PRIOR.mean, PRIOR.covariance, r, "gaussian")
    got = sum(filter_scores(b, space).log_likelihood.sum() for b in data.blocks)
    expected = evaluate_likelihood(data, exact).log_likelihood.sum()
    assert got == pytest.approx(expected, rel=1e-8)
    for block in data.blocks:
        smooth, states = smooth_block(block, space), smooth_states(block, exact)
        np.testing.assert_allclose(smooth.mean, states.mean, atol=1e-8)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("own_times", [False, True])
def test_gradients_against_differences(own_times, kept, monkeypatch):
    """Whether the moves are kept or computed anew; the first state has gradients too."""
    monkeypatch.setattr(filters, "TAPE_BYTES", 3e8 if kept else 0.0)
    e, data = observed(own_times)
    names = ("coefficient", "eigenvalue", "noise_variance")
    names += ("observation", "initial_mean", "initial_variance")
    lam, q = e.linear.eigenvalues, e.linear.noise_variance
    begin = Reacting(RING, ("u", "u^3", "u u_x"), np.array([1.0, -1.0, 0.3]), lam, q)

    def scores(theta, lam, q, r, mean, variance):
        dynamics = dataclasses.replace(begin, coefficients=theta, rates=lam, noise=q)
        space = space_of(dynamics, r, InitialState("gaussian", mean, variance), 2)
        return [filter_scores(b, space, burn=0.25) for b in data.blocks]

    at = [begin.coefficients, lam, q, np.array(0.012), PRIOR.mean, PRIOR.covariance]
    here = scores(*at)
    for k, name in enumerate(names):
        slope = sum(s.by[name].sum(0) for s in here)
        d = np.random.default_rng(k).standard_normal(at[k].shape) * (0.01 if k in (2, 3) else 1.0)
        high, low = (
            sum(s.log_likelihood.sum() for s in scores(*at[:k], at[k] + h * d, *at[k + 1 :]))
            for h in (1e-5, -1e-5)
        )
        assert (slope * d).sum() == pytest.approx((high - low) / 2e-5, rel=1e-5, abs=1e-6), name


def test_one_mode_against_the_exact_filter():
    """100 noisy observations of a state that starts in a well; the exact filter is on a grid."""
    e, dt, r = equation(0.1), 0.1, 0.04
    values = sl.simulate(e, 1, dt * np.arange(101), grid=[0.5], seed=4, observation_std=0.2).values
    move, width = kernel(0.1, dt), GRID[1] - GRID[0]
    density = np.exp(-0.5 * (GRID - 1.0) ** 2 / 0.02) / np.sqrt(2 * np.pi * 0.02)
    expected = 0.0
    for k, y in enumerate(values[0, :, 0]):
        density = width * (density @ move) if k else density
        weight = np.exp(-0.5 * (y - GRID) ** 2 / r) / np.sqrt(2 * np.pi * r)
        evidence = width * (weight * density).sum()
        expected, density = expected + np.log(evidence), weight * density / evidence
    (block,) = collapse(values, dt * np.arange(101), np.ones((1, 1))).blocks
    prior = InitialState("gaussian", np.array([1.0]), np.array([0.02]))
    got = filter_scores(block, space_of(e.dynamics, r, prior)).log_likelihood[0]
    assert abs(got - expected) < 0.5, (got, expected)


@pytest.mark.slow
def test_particle_filter():
    """Five modes, 60 times, rate dt about 0.1-0.2: within 0.5 nats, and the maximum along the
    reaction's strength within 0.2 standard errors of that of the particle filter."""
    n, dt, r, n_particles = 5, 0.1, 0.02, 20_000
    e = sl.catalogue.allen_cahn(
        n, times=dt * np.arange(61), initial=lambda x: np.tanh(2 * np.cos(x)),
        noise=sl.PowerLaw(1.5, 0.05),
    )  # fmt: skip
    x = RING.grid(8)
    values = sl.simulate(e, 1, seed=6, observation_std=np.sqrt(r), grid=x).values
    h = RING.eigenfunctions(x, n)
    (block,) = collapse(values, e.times, h).blocks
    prior = InitialState("gaussian", e.linear.initial_mean, np.full(n, 0.01))
    strengths, ours, theirs = (0.4, 1.0, 1.6), [], []
    for s in strengths:
        scaled = sl.Semilinear(e.linear, {"u": s, "u^3": -s})
        ours.append(filter_scores(block, space_of(scaled.dynamics, r, prior)).log_likelihood[0])
        runs = [_particles(scaled, values[0], h, dt, r, prior, n_particles, k) for k in range(3)]
        theirs.append(np.mean(runs))
    assert np.abs(np.array(ours) - theirs).max() < 0.5, (ours, theirs)
    # The top of a parabola through three points, and its standard error.
    (a, b, _), (c, d, _) = (np.polyfit(strengths, v, 2) for v in (ours, theirs))
    assert abs(b / (2 * a) - d / (2 * c)) < 0.2 * np.sqrt(-0.5 / a)


def _particles(e, values, h, dt, r, prior, n, seed):
    """Log-likelihood by a bootstrap particle filter with systematic resampling."""
    generator = np.random.default_rng(seed)
    state = prior.mean + np.sqrt(prior.covariance) * generator.standard_normal((n, len(prior.mean)))
    total = 0.0
    for k, y in enumerate(values):
        state = e.dynamics.sample(state, 0.0, dt, generator, n_steps=4) if k else state
        log = -0.5 * ((y - state @ h.T) ** 2 / r + np.log(2 * np.pi * r)).sum(1)
        weight = np.exp(log - log.max())
        total += log.max() + np.log(weight.mean())
        edges = np.cumsum(weight / weight.sum())
        at = np.searchsorted(edges, (np.arange(n) + generator.random()) / n)
        state = state[np.minimum(at, n - 1)]
    return total


def test_innovations_are_standard_normal():
    """Mean and mean square of thousands of errors, within 4.5 standard deviations."""
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41), initial=sl.Gaussian(0.0, 1.0))
    fields = sl.simulate(e, 20, seed=8, grid=RING.grid(8))
    c = RING.analyse(fields, 5, method="dense").values
    z = transition_innovations(e.closure, transitions(c, e.times), 2).ravel()
    assert abs(z.mean()) < 4.5 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1.0) < 4.5 * np.sqrt(2.0 / z.size)


def test_segments_leave_the_likelihood_as_it_is():
    """Run-ins of two time scales change the log-likelihood of 400 times by less than 0.5."""
    e = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(400), initial=sl.Gaussian(0.0, 1.0))
    x = RING.grid(8)
    values = sl.simulate(e, 1, seed=9, grid=x, observation_std=0.1).values
    values[np.random.default_rng(0).random(values.shape) < 0.3] = np.nan
    (block,) = collapse(values, np.asarray(e.times), RING.eigenfunctions(x, 5)).blocks
    cut, prior = in_segments(block, 1.0), InitialState("gaussian", np.zeros(5), np.ones(5))
    assert cut.vector.shape[2] > 4
    space = space_of(e.dynamics, 0.01, prior)
    whole, parts = (filter_scores(b, space, burn=1.0) for b in (block, cut))
    assert parts.log_likelihood.sum() == pytest.approx(whole.log_likelihood.sum(), abs=0.5)
    by_whole, by_parts = (scores.by["observation"].sum() for scores in (whole, parts))
    assert by_parts == pytest.approx(by_whole, rel=0.05, abs=50.0)
