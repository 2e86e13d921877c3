"""The contract that all dynamics keep: inherit it, return dynamics, run pytest.

Example::

    class TestMyDynamics(DynamicsContract):
        def make_dynamics(self):
            return MyDynamics(rate=[1.0, 4.0], noise=[1.0, 0.5])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.equation import Dynamics, dynamics_from_dict

Array = np.ndarray
#: Standard errors that a Monte Carlo mean may be off; a normal one is, once in 10,000,000 numbers.
ALLOWED = 5.5


class DynamicsContract:
    """Tests of what a `spdelaw.Law` asks of its dynamics."""

    #: A step to take: when, and how long.
    start: float = 0.3
    step: float = 0.1
    #: Draws of a step that are compared with its moments.
    n_draws: int = 4000
    #: Width of the state before the step; small where moments hold to first order only.
    spread: float = 0.2
    #: Relative error that the moments of a closure may have beside the error of the draws.
    closure_error: float = 0.0

    def make_dynamics(self) -> Dynamics:
        """Return the dynamics under test."""
        raise TypeError("a contract test class returns its dynamics from make_dynamics()")

    def _state(self) -> tuple[Dynamics, Array, Array]:
        """Dynamics, and a mean and covariance without any symmetry."""
        dynamics = self.make_dynamics()
        n, rng = dynamics.n_modes, np.random.default_rng(0)
        root = self.spread * (np.eye(n) + 0.3 * np.tril(rng.standard_normal((n, n)), -1))
        return dynamics, rng.uniform(0.2, 0.8, n), root @ root.T

    def test_it_is_found_by_its_name(self) -> None:
        """Files of laws name their dynamics."""
        dynamics = self.make_dynamics()
        assert Dynamics.registry[dynamics.name] is type(dynamics)

    def test_moments_are_those_of_its_draws(self) -> None:
        """Null: draws of ``sample`` have the mean, covariance and cross-covariance of the step."""
        dynamics, mean, covariance = self._state()
        rng = np.random.default_rng(1)
        before = rng.multivariate_normal(mean, covariance, self.n_draws)
        after = dynamics.sample(before, self.start, self.step, rng)
        step = dynamics.moments(mean, covariance, self.start, self.step)
        assert after.shape == before.shape
        self._compare(after, step.mean)
        self._compare(_products(after - step.mean, after - step.mean), step.covariance)
        self._compare(_products(before - mean, after - step.mean), step.cross)

    def _compare(self, draws: Array, expected: Array) -> None:
        error = draws.std(0) / np.sqrt(len(draws))
        limit = ALLOWED * error + self.closure_error * np.abs(expected)
        np.testing.assert_array_less(np.abs(draws.mean(0) - expected), limit + 1e-12)

    def test_no_time_changes_nothing(self) -> None:
        """A step that is very short leaves mean, covariance and cross-covariance as they are."""
        dynamics, mean, covariance = self._state()
        step = dynamics.moments(mean, covariance, self.start, 1e-9)
        np.testing.assert_allclose(step.mean, mean, atol=1e-6)
        for found in (step.covariance, step.cross):
            np.testing.assert_allclose(found, covariance, atol=1e-6)

    def test_pull_back_is_the_derivative(self) -> None:
        """Gradients by the mean and the covariance are differences of the moments."""
        dynamics, mean, covariance = self._state()
        rng, n = np.random.default_rng(2), dynamics.n_modes
        by = (rng.standard_normal(n), *rng.standard_normal((2, n, n)))
        by_mean, by_covariance, _ = dynamics.moments(
            mean, covariance, self.start, self.step
        ).pull_back(*by)
        direction = rng.standard_normal(n)
        tilt = np.outer(direction, direction)

        def height(shift: float, widen: float) -> float:
            step = dynamics.moments(
                mean + shift * direction, covariance + widen * tilt, self.start, self.step
            )
            return float(sum((g * x).sum() for g, x in zip(by, step[:3], strict=True)))

        h = 1e-5
        slope = (height(h, 0.0) - height(-h, 0.0)) / (2.0 * h)
        np.testing.assert_allclose(by_mean @ direction, slope, rtol=1e-5, atol=1e-7)
        slope = (height(0.0, h) - height(0.0, -h)) / (2.0 * h)
        np.testing.assert_allclose((by_covariance * tilt).sum(), slope, rtol=1e-5, atol=1e-7)

    def test_a_description_gives_it_back(self) -> None:
        """``to_dict`` and ``from_dict`` keep every number."""
        dynamics, mean, covariance = self._state()
        again = dynamics_from_dict(dynamics.name, _plain(dynamics.to_dict()))
        for name, value in dynamics.parameters.items():
            np.testing.assert_array_equal(again.parameters[name], value)
        one, two = (d.moments(mean, covariance, self.start, self.step) for d in (dynamics, again))
        np.testing.assert_array_equal(one.mean, two.mean)

    def test_its_first_modes(self) -> None:
        """``leading(n)`` has n modes."""
        assert self.make_dynamics().leading(1).n_modes == 1


def _products(a: Array, b: Array) -> Array:
    return np.asarray(a[:, :, None] * b[:, None, :])


def _plain(value: Any) -> Any:
    """Copies, so that nothing is shared with what was described."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return np.array(value) if isinstance(value, np.ndarray) else value
