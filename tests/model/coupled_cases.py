"""Small problems of coupled modes, with the joint Gaussian written down in full."""

import numpy as np
from scipy import linalg
from tests.equation.test_matrices import stable
from tests.model import _brute_force as oracle
from tests.model.cases import Case, basis, hide

from spdelaw.model import CoupledParameters


def parameters(kind: str, observation_variance: float = 0.04) -> CoupledParameters:
    drift, noise = stable(3, seed=3)
    mean = np.array([1.2, -0.4, 0.3])
    spread = stable(3, seed=5)[1]
    if kind == "deterministic":
        spread = np.zeros((3, 3))
    if kind == "stationary":
        mean, spread = np.zeros(3), linalg.solve_continuous_lyapunov(drift, noise)
    return CoupledParameters(drift, noise, mean, spread, np.asarray(observation_variance), kind)


def state_moments(p: CoupledParameters, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (T N,) and covariance (T N, T N) of all states, by matrix exponentials.

    ``Omega = P - F P F'`` with the stationary covariance P: not the way of the package.
    """
    n, age = len(p.drift), t - t[0]
    stationary = linalg.solve_continuous_lyapunov(p.drift, p.noise_covariance)
    factors = [linalg.expm(-h * p.drift) for h in age]
    spread = [f @ (p.initial_covariance - stationary) @ f.T + stationary for f in factors]
    out = np.empty((len(t), n, len(t), n))
    for i in range(len(t)):
        for j in range(i + 1):
            out[i, :, j] = linalg.expm(-(age[i] - age[j]) * p.drift) @ spread[j]
            out[j, :, i] = out[i, :, j].T
    mean = np.array([f @ p.initial_mean for f in factors])
    return mean.ravel(), out.reshape(len(t) * n, -1)


def joint(p: CoupledParameters, t: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the noisy field."""
    mean, covariance = state_moments(p, t)
    observe = np.kron(np.eye(len(t)), phi)
    noise = np.tile(np.broadcast_to(p.observation_variance, len(phi)), len(t))
    return observe @ mean, observe @ covariance @ observe.T + np.diag(noise)


def log_likelihood(p: CoupledParameters, y: np.ndarray, t: np.ndarray, phi: np.ndarray) -> float:
    mean, covariance = joint(p, t, phi)
    seen = ~np.isnan(y.ravel())
    return oracle.log_density(y.ravel()[seen], mean[seen], covariance[np.ix_(seen, seen)])


def smoothed(p: CoupledParameters, y: np.ndarray, t: np.ndarray, phi: np.ndarray):
    """Mean (T N,) and covariance (T N, T N) of the states given one path."""
    mean, prior = state_moments(p, t)
    seen = ~np.isnan(y.ravel())
    h = np.kron(np.eye(len(t)), phi)[seen]
    gain = np.linalg.solve(
        h @ prior @ h.T + float(p.observation_variance) * np.eye(seen.sum()), h @ prior
    ).T
    return mean + gain @ (y.ravel()[seen] - h @ mean), prior - gain @ h @ prior


def make(kind: str, pattern: str, n_paths: int = 5, n_times: int = 6, seed: int = 0) -> Case:
    """Paths drawn from the joint Gaussian itself."""
    rng = np.random.default_rng(seed)
    p, phi = parameters(kind), basis(pattern in ("orthogonal", "rows"))
    shape = (n_paths, n_times)
    times = np.cumsum(rng.uniform(0.05, 0.4, shape if pattern == "own_times" else n_times), -1)
    if pattern == "orthogonal":
        times = 0.3 * np.arange(n_times)
    values = []
    for t in np.broadcast_to(times, shape):
        mean, covariance = joint(p, t, phi)
        values.append(rng.multivariate_normal(mean, covariance).reshape(n_times, -1))
    return Case(p, hide(np.stack(values), pattern, rng), times, phi)
