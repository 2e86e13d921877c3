"""Every dynamics of the package keeps the contract that others inherit."""

import numpy as np

import spdelaw as sl
from spdelaw.processes.forcing import Season
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.testing import DynamicsContract


class TestDiagonal(DynamicsContract):
    is_fitted = False

    def make_dynamics(self):
        return Linear(np.array([1.0, 4.0]), np.array([1.0, 0.5]))


class TestCoupledWithSeasonsAroundAMean(DynamicsContract):
    is_fitted = False

    def make_dynamics(self):
        drift = np.array([[1.0, 0.6], [-0.6, 1.5]])
        noise = np.array([[1.0, 0.2], [0.2, 0.5]])
        return Linear(drift, noise, Season(0.5, [1.5, 0.5]), mean=np.array([0.5, -0.2]))


class TestReacting(DynamicsContract):
    is_fitted = False
    closure_error = 0.02

    def make_dynamics(self):
        ring = sl.Interval(0, 2 * np.pi, "periodic")
        rates, noise = ring.eigenvalues(3), np.full(3, 0.1)
        return Reacting(ring, ("u", "u^3"), np.array([1.0, -1.0]), rates, noise)


def on_ring(kind, **numbers):
    ring = sl.Interval(0, 2 * np.pi, "periodic")
    rates, noise = 0.3 + 0.2 * ring.eigenvalues(3), np.full(3, 0.2)
    return Reacting(ring, (), np.zeros(0), rates, noise, state_noise=kind, **numbers)


class TestAffineNoise(DynamicsContract):
    is_fitted = False

    def make_dynamics(self):
        return on_ring("affine", noise_offset=0.5)


class TestProportionalNoiseWithAReaction(DynamicsContract):
    is_fitted = False
    closure_error = 0.05

    def make_dynamics(self):
        linear = on_ring("proportional")
        numbers = np.array([0.2, -0.1]), linear.rates, linear.noise
        return Reacting(linear.domain, ("u", "u^3"), *numbers, state_noise="proportional")


class TestOperators(DynamicsContract):
    is_fitted = False

    def make_dynamics(self):
        turn = np.zeros((2, 3, 3))
        turn[0, 1, 2], turn[0, 2, 1], turn[1] = 1.0, -1.0, 0.5 * np.eye(3)
        linear = on_ring("none")
        noise = np.array([0.3, 0.2])
        return Reacting(linear.domain, (), np.zeros(0), linear.rates, noise, state_noise=turn)
