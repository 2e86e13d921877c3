"""Expected information of coupled laws: against the joint Gaussian of a path."""

import numpy as np
import pytest
from scipy import linalg
from tests.infer.coupled import stable

from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import linear_state_space, log_likelihood
from spdelaw.statespace.information import complete_information, expected_information, tangents

N, DT, R = 3, 0.4, 0.5


def problem():
    drift, noise = stable(N, 1)
    i, j = np.tril_indices(N)
    by_noise = np.zeros((len(i), N, N))
    by_noise[np.arange(len(i)), i, j] = by_noise[np.arange(len(i)), j, i] = 1.0
    by_drift = np.eye(N * N).reshape(-1, N, N)
    space = linear_state_space(drift, noise, np.zeros(N), np.eye(N), R)
    return space, by_drift, by_noise


def moved(space, by_drift, by_noise, x):
    a = space.linear.drift + np.tensordot(x[: N * N], by_drift, 1)
    return a, space.linear.noise + np.tensordot(x[N * N :], by_noise, 1)


def covariance(space, error, n_times, by_drift, by_noise, x):
    a, q = moved(space, by_drift, by_noise, x[:-1])
    p = linalg.solve_continuous_lyapunov(a, q)
    f = linalg.expm(-DT * a)
    lags = [np.linalg.matrix_power(f, k) @ p for k in range(n_times)]
    times = range(n_times)
    rows = [[lags[t - s] if t >= s else lags[s - t].T for s in times] for t in times]
    return np.block(rows) + np.kron(np.eye(n_times), error * np.exp(x[-1]))


def test_expected_information_is_that_of_a_further_time():
    """``1/2 tr(S^-1 dS S^-1 dS)`` of longer and shorter paths: ends do not count."""
    space, by_drift, by_noise = problem()
    error = R * np.linalg.inv(np.diag([3.0, 1.0, 2.0]) + 0.3)
    way = tangents(space, by_drift, by_noise, DT)
    got = expected_information(way, error, 20.0)
    whole = []
    for n_times in (20, 40):
        args = (space, error, n_times, by_drift, by_noise)
        inverse = np.linalg.inv(covariance(*args, np.zeros(len(got))))
        white = np.array(
            [
                inverse @ (covariance(*args, step) - covariance(*args, -step)) / 2e-5
                for step in 1e-5 * np.eye(len(got))
            ]
        )
        whole.append(0.5 * np.einsum("aij,bji->ab", white, white))
    expected = whole[1] - whole[0]
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((got - expected) / size).max() < 1e-4


def test_complete_information_is_the_curvature_at_the_maximum():
    space, by_drift, by_noise = problem()
    way, n = tangents(space, by_drift, by_noise, DT), 50.0
    p = linalg.solve_discrete_lyapunov(way.factor, way.covariance)
    # Sums for which this law is the maximum: those that it expects.
    sums = np.stack([n * p, n * p @ way.factor.T, n * p])[:, None]
    got = complete_information(way, n, n * p)

    def height(x):
        step = Linear(*moved(space, by_drift, by_noise, x)).over([DT])
        return log_likelihood(np.array([n]), sums, step)

    rng = np.random.default_rng(0)
    for _ in range(5):
        x = 1e-3 * rng.normal(size=len(got))
        bend = -(height(x) - 2.0 * height(0 * x) + height(-x))
        assert bend == pytest.approx(x @ got @ x, rel=1e-3)
