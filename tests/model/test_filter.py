"""The forward filter and smoother for any dynamics: linear ones give the chain's own numbers."""

import numpy as np
import pytest
from tests.model.cases import KINDS, STRUCTURES, make
from tests.model.numbers import evaluate_likelihood, smooth_states
from tests.model.test_likelihood import FORCING, SEASON

from spdelaw.equation import Linear
from spdelaw.model import filter_log_likelihood, forward_filter, rts_smoother

SAME = 1e-9
PATTERNS = ("orthogonal", "oblique", "random", "rows", "own_times")
EXTRAS = ({}, {"season": SEASON, "forcing": FORCING})


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("extra", EXTRAS)
def test_linear_dynamics_have_the_likelihood_and_states_of_the_chain(
    structure, kind, pattern, extra
):
    case = make(kind, pattern, structure=structure, **extra)
    expected = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    space = case.parameters.state_space
    for block in case.collapsed.blocks:
        got = filter_log_likelihood(block, space)
        np.testing.assert_allclose(got, expected[block.paths], rtol=SAME)
        states = smooth_states(block, case.parameters)
        for j in range(len(block.paths)):
            mean, covariance = rts_smoother(forward_filter(block, space, j))
            np.testing.assert_allclose(mean, states.mean[..., j], atol=SAME)
            own = states.covariance[..., 0 if states.covariance.shape[-1] == 1 else j]
            covariance = np.einsum("tnn->tn", covariance) if own.ndim == 2 else covariance
            np.testing.assert_allclose(covariance, own, atol=SAME)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("extra", EXTRAS)
def test_pull_back_of_a_step(structure, extra):
    """Gradients of a random function of the moments, by central differences."""
    p = make("gaussian", "oblique", structure=structure, **extra).parameters
    dynamics, rng = p.state_space.dynamics, np.random.default_rng(2)
    mean, half = rng.normal(size=3), rng.normal(size=(3, 3))
    covariance = half @ half.T
    weights = rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

    def value(m, c, d):
        step = d.moments(m, c, 0.2, 0.37)
        return sum((w * x).sum() for w, x in zip(weights, step[:3], strict=True))

    by_mean, by_covariance, by_numbers = dynamics.moments(mean, covariance, 0.2, 0.37).pull_back(
        *weights
    )

    def slope(moved):
        return (value(*moved(1e-6)) - value(*moved(-1e-6))) / 2e-6

    way = rng.normal(size=3)
    assert by_mean @ way == pytest.approx(
        slope(lambda h: (mean + h * way, covariance, dynamics)), rel=1e-6
    )
    way = rng.normal(size=(3, 3))
    way = way + way.T
    assert (by_covariance * way).sum() == pytest.approx(
        slope(lambda h: (mean, covariance + h * way, dynamics)), rel=1e-6
    )
    for name in ("drift", "noise"):
        numbers = dynamics.parameters[name]
        way = rng.normal(size=numbers.shape)
        way = way + way.T if name == "noise" and way.ndim == 2 else way

        def other(h, name=name, numbers=numbers, way=way):
            settings = {"drift": dynamics.drift, "noise": dynamics.noise, name: numbers + h * way}
            made = Linear(**settings, season=p.season, forcing=p.forcing, origin=p.origin)
            return mean, covariance, made

        assert (by_numbers[name] * way).sum() == pytest.approx(slope(other), rel=1e-5)


def test_draws_have_the_moments_of_a_step():
    """Null: exact transitions; mean within 5 and covariance within 6 standard errors."""
    p = make("gaussian", "oblique", structure="matrix", forcing=FORCING).parameters
    dynamics, state = p.state_space.dynamics, np.array([1.0, -2.0, 0.5])
    step = dynamics.moments(state, np.zeros((3, 3)), 0.1, 0.3)
    n = 20000
    draws = dynamics.sample(np.tile(state, (n, 1)), 0.1, 0.3, np.random.default_rng(0))
    error = np.sqrt(np.diag(step.covariance) / n)
    assert (np.abs(draws.mean(0) - step.mean) < 5 * error).all()
    v = np.diag(step.covariance)
    spread = np.sqrt((np.outer(v, v) + step.covariance**2) / n)
    assert (np.abs(np.cov(draws.T) - step.covariance) < 6 * spread).all()
