"""Semilinear dynamics as one of the laws that the package moves states by."""

import json

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import EquationError
from spdelaw.processes.linear import dynamics_from_dict
from spdelaw.processes.semilinear import Reacting

RING = sl.Interval(0.0, 2 * np.pi, "periodic")
RATES = 0.3 * RING.eigenvalues(5) - 0.2  # the first grows
NOISE = 0.2 / np.arange(1.0, 6.0)


def reacting(theta=(1.0, -1.0, 0.4), rates=RATES, noise=NOISE):
    return Reacting(RING, ("u", "u^3", "u u_x"), np.array(theta), rates, noise)


def gaussian(seed=0):
    generator = np.random.default_rng(seed)
    root = 0.2 * generator.standard_normal((5, 5))
    return 0.6 * generator.standard_normal(5), root @ root.T


def test_pull_back_against_differences():
    m, p = gaussian()
    generator = np.random.default_rng(1)
    weights = [generator.standard_normal(shape) for shape in (5, (5, 5), (5, 5))]

    def value(mean, covariance, theta, rates, noise):
        step = reacting(theta, rates, noise).moments(mean, covariance, 0.0, 0.3)
        return sum((w * part).sum() for w, part in zip(weights, step[:3], strict=True))

    at = [m, p, np.array([1.0, -1.0, 0.4]), RATES, NOISE]
    step = reacting().moments(m, p, 0.0, 0.3)
    by_mean, by_covariance, numbers = step.pull_back(*weights)
    slopes = [
        by_mean,
        by_covariance,
        *(numbers[k] for k in ("coefficient", "eigenvalue", "noise_variance")),
    ]
    for k, slope in enumerate(slopes):
        d = generator.standard_normal(at[k].shape)
        d = d + d.T if d.ndim == 2 else d
        up, down = (value(*at[:k], at[k] + h * d, *at[k + 1 :]) for h in (1e-5, -1e-5))
        assert (slope * d).sum() == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("domain", [RING, sl.Box((0.0, 1.0), (0.0, 2.0)), sl.Sphere()], ids=repr)
def test_read_back_from_its_description(domain):
    n = 4
    dynamics = Reacting(
        domain, ("u", "u^3"), np.array([0.5, -0.5]), domain.eigenvalues(n), np.ones(n)
    )
    description, state = dynamics.to_dict(), np.linspace(-1.0, 1.0, n)
    as_lists = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in description.items()}
    plain = dynamics_from_dict("semilinear", json.loads(json.dumps(as_lists)))
    np.testing.assert_array_equal(plain.drift(state), dynamics.drift(state))
    with pytest.raises(EquationError, match="coefficient per term"):
        dynamics_from_dict("semilinear", {**description, "coefficients": np.ones(3)})


def test_leading_modes():
    first = reacting().leading(3)
    assert first.n_modes == 3
    state = np.array([0.3, -0.2, 0.1])
    whole = reacting().drift(np.concatenate([state, np.zeros(2)]))
    np.testing.assert_allclose(first.drift(state), whole[:3], atol=1e-12)
