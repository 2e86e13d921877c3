"""Small problems of every kind of initial state and every pattern of observation."""

from typing import NamedTuple

import numpy as np
from scipy import linalg
from tests.model import _brute_force as oracle
from tests.model.numbers import Numbers, evaluate_likelihood

import spdelaw as sl
from spdelaw.model import Collapsed, collapse

KINDS = ("deterministic", "gaussian", "stationary")
#: Complete and orthogonal, complete and not, gaps, gaps shared by all paths, rows missing
#: on an orthogonal grid, rows missing on another one, times of each path's own.
#: Drift and noise that leave modes apart or couple them, in every combination.
STRUCTURES = ("diagonal", "matrix", "dense_noise", "dense_drift")
PATTERNS = ("orthogonal", "oblique", "random", "shared", "rows", "oblique_rows", "own_times")


class Case(NamedTuple):
    parameters: Numbers
    values: np.ndarray
    times: np.ndarray
    phi: np.ndarray

    @property
    def collapsed(self) -> Collapsed:
        return collapse(self.values, self.times, self.phi)

    def clock(self, path: int) -> np.ndarray:
        return self.times if self.times.ndim == 1 else self.times[path]


def parameters(
    kind: str, n_modes: int = 3, observation_variance: float = 0.04, structure: str = "diagonal"
) -> Numbers:
    """Uneven numbers: symmetric ones would hide a mistake."""
    lam = np.array([0.6, 2.3, 5.1, 9.7, 14.2])[:n_modes]
    q = np.array([0.9, 0.35, 1.4, 0.2, 0.6])[:n_modes]
    mean = np.array([1.2, -0.4, 0.3, 0.8, -1.1])[:n_modes]
    variance = np.array([0.5, 0.2, 0.9, 0.3, 0.1])[:n_modes]
    if structure in ("matrix", "dense_drift"):
        lam = stable(n_modes, seed=3)
    if structure in ("matrix", "dense_noise"):
        q = covariance(n_modes, seed=4)
    if structure == "matrix":
        variance = covariance(n_modes, seed=5)
    if kind == "deterministic":
        variance = np.zeros_like(variance)
    if kind == "stationary":
        mean = np.zeros(n_modes)
        full = linalg.solve_continuous_lyapunov(oracle.matrix(lam), oracle.matrix(q))
        variance = np.diag(full) if structure == "diagonal" else full
    return Numbers(lam, q, mean, variance, np.asarray(observation_variance), kind)


def stable(n: int, seed: int) -> np.ndarray:
    """A drift matrix whose modes turn and decay."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=(n, n))
    return (0.5 * np.eye(n) + turn - turn.T) @ covariance(n, seed + 1)


def covariance(n: int, seed: int) -> np.ndarray:
    half = np.random.default_rng(seed).normal(size=(n, n + 2))
    return half @ half.T / (n + 2) + 0.2 * np.eye(n)


def basis(orthogonal: bool, n_modes: int = 3, n_points: int = 7) -> np.ndarray:
    domain = sl.Interval(0.0, np.pi)
    even = domain.grid(n_points + 2)[1:-1]
    points = even if orthogonal else np.sort(np.random.default_rng(5).uniform(0.1, 3.0, n_points))
    return domain.eigenfunctions(points, n_modes)


def make(
    kind: str, pattern: str, n_paths: int = 5, n_times: int = 6, seed: int = 0,
    structure: str = "diagonal", **more,
) -> Case:  # fmt: skip
    """Paths drawn from the joint Gaussian itself; ``more`` are season and forcing."""
    rng = np.random.default_rng(seed)
    p = parameters(kind, structure=structure)._replace(**more)
    phi = basis(pattern in ("orthogonal", "rows"))
    shape = (n_paths, n_times)
    times = np.cumsum(rng.uniform(0.05, 0.4, shape if pattern == "own_times" else n_times), -1)
    values = np.stack([draw(p, t, phi, rng) for t in np.broadcast_to(times, shape)])
    return Case(p, hide(values, pattern, rng), times, phi)


def draw(p: Numbers, t: np.ndarray, phi: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One noisy path (T, M)."""
    mean, spread = oracle.state_moments(p, t)
    c = rng.multivariate_normal(mean, spread, method="eigh").reshape(len(t), -1)
    noise = np.sqrt(p.observation_variance) * rng.standard_normal((len(t), len(phi)))
    return c @ phi.T + noise


def hide(values: np.ndarray, pattern: str, rng: np.random.Generator) -> np.ndarray:
    out = values.copy()
    if pattern in ("random", "own_times"):
        out[rng.random(out.shape) < 0.35] = np.nan
    elif pattern == "shared":
        out[:, rng.random(out.shape[1:]) < 0.35] = np.nan
        out[:, 2, 2:] = np.nan  # fewer values than modes
    elif pattern in ("rows", "oblique_rows"):
        out[rng.random(out.shape[:2]) < 0.4] = np.nan
        out[0, 0] = np.nan
    return out


def check_initial_information(case: Case) -> None:
    """The log-likelihood is quadratic in m0: differences of its score are exact."""
    found = evaluate_likelihood(case.collapsed, case.parameters).initial_information
    for n in range(3):
        ends = []
        for sign in (1, -1):
            mean = case.parameters.initial_mean.copy()
            mean[n] += sign
            trial = case.parameters._replace(initial_mean=mean)
            ends.append(evaluate_likelihood(case.collapsed, trial).by_initial_mean)
        np.testing.assert_allclose(
            found[:, n], 0.5 * (ends[1] - ends[0]), rtol=1e-9, atol=1e-9 * np.abs(found).max()
        )
