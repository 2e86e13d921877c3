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
