"""Small problems of every kind of initial state and every pattern of observation."""

from typing import NamedTuple

import numpy as np

import spdelaw as sl
from spdelaw.model import AnyParameters, Collapsed, Parameters, collapse, evaluate_likelihood

KINDS = ("deterministic", "gaussian", "stationary")
#: Complete and orthogonal, complete and not, gaps, gaps shared by all paths, rows missing
#: on an orthogonal grid, rows missing on another one, times of each path's own.
PATTERNS = ("orthogonal", "oblique", "random", "shared", "rows", "oblique_rows", "own_times")


class Case(NamedTuple):
    parameters: AnyParameters
    values: np.ndarray
    times: np.ndarray
    phi: np.ndarray

    @property
    def collapsed(self) -> Collapsed:
        return collapse(self.values, self.times, self.phi)

    def clock(self, path: int) -> np.ndarray:
        return self.times if self.times.ndim == 1 else self.times[path]


def parameters(kind: str, n_modes: int = 3, observation_variance: float = 0.04) -> Parameters:
    """Uneven numbers: symmetric ones would hide a mistake."""
    lam = np.array([0.6, 2.3, 5.1, 9.7, 14.2])[:n_modes]
    q = np.array([0.9, 0.35, 1.4, 0.2, 0.6])[:n_modes]
    mean = np.array([1.2, -0.4, 0.3, 0.8, -1.1])[:n_modes]
    variance = np.array([0.5, 0.2, 0.9, 0.3, 0.1])[:n_modes]
    if kind == "deterministic":
        variance = np.zeros(n_modes)
    if kind == "stationary":
        mean, variance = np.zeros(n_modes), q / (2 * lam)
    return Parameters(lam, q, mean, variance, np.asarray(observation_variance), kind)


def basis(orthogonal: bool, n_modes: int = 3, n_points: int = 7) -> np.ndarray:
    domain = sl.Interval(0.0, np.pi)
    even = domain.grid(n_points + 2)[1:-1]
    points = even if orthogonal else np.sort(np.random.default_rng(5).uniform(0.1, 3.0, n_points))
    return domain.eigenfunctions(points, n_modes)


def make(kind: str, pattern: str, n_paths: int = 5, n_times: int = 6, seed: int = 0) -> Case:
    """Paths drawn from the model itself."""
    rng = np.random.default_rng(seed)
    p = parameters(kind)
    phi = basis(pattern in ("orthogonal", "rows"))
    shape = (n_paths, n_times)
    times = np.cumsum(rng.uniform(0.05, 0.4, shape if pattern == "own_times" else n_times), -1)
    clocks = np.broadcast_to(times, shape)
    values = np.stack([draw(p, t, phi, rng) for t in clocks])
    return Case(p, hide(values, pattern, rng), times, phi)


def draw(p: Parameters, t: np.ndarray, phi: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One noisy path (T, M), transition by transition."""
    c = p.initial_mean + np.sqrt(p.initial_variance) * rng.standard_normal(p.n_modes)
    states = [c]
    for dt in np.diff(t):
        a = np.exp(-p.eigenvalues * dt)
        omega = p.noise_variance * (1 - a**2) / (2 * p.eigenvalues)
        c = a * c + np.sqrt(omega) * rng.standard_normal(p.n_modes)
        states.append(c)
    noise = np.sqrt(p.observation_variance) * rng.standard_normal((len(t), len(phi)))
    return np.array(states) @ phi.T + noise


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
