"""The forward filter and smoother for any dynamics: linear ones give the chain's numbers."""

import numpy as np
import pytest
from tests.parameters import cross
from tests.statespace.cases import EXTRAS, STRUCTURES, every_case, make, of_path
from tests.statespace.numbers import evaluate_likelihood, smooth_states

from spdelaw.processes.linear import Linear
from spdelaw.statespace.filter import filter_log_likelihood, forward_filter, rts_smoother

SAME = 1e-9


@every_case
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
        means, covariances = rts_smoother(forward_filter(block, space))
        for j in range(len(block.paths)):
            np.testing.assert_allclose(means[:, j], states.mean[..., j], atol=SAME)
            other, covariance = of_path(states.covariance, j), covariances[:, j]
            covariance = np.einsum("tnn->tn", covariance) if other.ndim == 2 else covariance
            np.testing.assert_allclose(covariance, other, atol=SAME)


@cross(structure=STRUCTURES, extra={key: EXTRAS[key] for key in ("plain", "both")})
def test_pull_back_of_a_step(structure, extra):
    """Gradients of a random function of the moments, by central differences."""
    p = make("gaussian", "oblique", structure=structure, **extra).parameters
    rng = np.random.default_rng(2)
    half = rng.normal(size=(3, 3))
    at = {
        "mean": rng.normal(size=3), "covariance": half @ half.T, "drift": p.drift, "noise": p.noise,
    }  # fmt: skip
    weights = rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

    def step(mean, covariance, drift, noise):
        return Linear(drift, noise, p.season, p.forcing, p.origin).moments(
            mean, covariance, 0.2, 0.37
        )

    by_mean, by_covariance, by_numbers = step(**at).pull_back(*weights)
    gradients = {"mean": by_mean, "covariance": by_covariance, **by_numbers}
    for name, x in at.items():
        way = rng.normal(size=x.shape)
        way = way + way.T if name in ("covariance", "noise") and way.ndim == 2 else way
        high, low = (
            sum(
                (w * m).sum()
                for w, m in zip(weights, step(**at | {name: x + h * way})[:3], strict=True)
            )
            for h in (1e-6, -1e-6)
        )
        rel = 1e-5 if name in ("drift", "noise") else 1e-6
        assert (gradients[name] * way).sum() == pytest.approx((high - low) / 2e-6, rel=rel), name
