"""Small problems of every kind of initial state and every pattern of observation."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import linalg
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace.numbers import Numbers

import spdelaw as sl
from spdelaw.statespace.collapse import Collapsed, collapse

KINDS = ("deterministic", "gaussian", "stationary")
#: Drift and noise that leave modes apart or couple them, in every combination.
STRUCTURES = ("diagonal", "matrix", "dense_noise", "dense_drift")
#: Complete and orthogonal, complete and not, gaps, gaps shared by all paths, rows missing
#: on an orthogonal grid, rows missing on another one, times that differ between paths.
PATTERNS = ("orthogonal", "oblique", "random", "shared", "rows", "oblique_rows", "own_times")
SEASON = sl.Season(0.5, [3.0, 0.4, 1.1], origin=0.05)
FORCING = sl.Forcing(
    [-1.0, 0.4, 1.1, 9.0], [[3.0, -1.0, 2.0], [0.0, 4.0, 1.0], [5.0, 0.0, -6.0], [1.0, 2.0, 3.0]]
)
EXTRAS = {
    "plain": {},
    "season": {"season": SEASON},
    "forcing": {"forcing": FORCING},
    "both": {"season": SEASON, "forcing": FORCING},
}
SCORE_TOLERANCE = 1e-6
FIELDS = ("drift", "noise", "initial_mean", "initial_covariance", "observation_variance")

every_case = cross(structure=STRUCTURES, kind=KINDS, pattern=PATTERNS, extra=EXTRAS)


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

    def by_path(self, function, *more) -> list:
        """A function of the oracle, for each path."""
        return [
            function(self.parameters, y, self.clock(i), self.phi, *more)
            for i, y in enumerate(self.values)
        ]


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
    kind: str, pattern: str, n_paths: int = 3, n_times: int = 6, seed: int = 0,
    structure: str = "diagonal", **more,
) -> Case:  # fmt: skip
    """Paths drawn from the joint Gaussian itself; ``more`` are season and forcing."""
    rng = np.random.default_rng(seed)
    p = parameters(kind, structure=structure)._replace(**more)
    phi = basis(pattern in ("orthogonal", "rows"))
    if pattern == "own_times":
        times = np.cumsum(rng.uniform(0.05, 0.4, (n_paths, n_times)), -1)
        values = np.concatenate([draw(p, t, phi, rng) for t in times])
    else:
        times = np.cumsum(rng.uniform(0.05, 0.4, n_times))
        values = draw(p, times, phi, rng, n_paths)
    return Case(p, hide(values, pattern, rng), times, phi)


def draw(
    p: Numbers, t: np.ndarray, phi: np.ndarray, rng: np.random.Generator, n_paths: int = 1
) -> np.ndarray:
    """Noisy paths (P, T, M)."""
    mean, spread = oracle.state_moments(p, t)
    c = rng.multivariate_normal(mean, spread, n_paths, method="eigh")
    noise = np.sqrt(p.observation_variance) * rng.standard_normal((n_paths, len(t), len(phi)))
    return c.reshape(n_paths, len(t), -1) @ phi.T + noise


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


def of_path(array: np.ndarray, j: int) -> np.ndarray:
    """Path j of an array whose last axis is the path, or one that all paths share."""
    return array[..., 0 if array.shape[-1] == 1 else j]


def check_score(evaluate, p: Numbers) -> None:
    """The score in two directions of each parameter, by central differences."""
    result, rng = evaluate(p), np.random.default_rng(1)

    def slope(h: float, **way: np.ndarray) -> float:
        ends = []
        for sign in (1, -1):
            moved = {key: getattr(p, key) + sign * h * w for key, w in way.items()}
            ends.append(evaluate(p._replace(**moved)).log_likelihood.sum())
        return (ends[0] - ends[1]) / (2 * h)

    for field in FIELDS:
        if field == "initial_covariance" and p.initial_kind == "deterministic":
            continue
        gradient, x = (np.asarray(a) for a in (getattr(result, f"by_{field}"), getattr(p, field)))
        assert gradient.shape == x.shape, field
        for _ in range(2):
            way = rng.normal(size=x.shape) * max(0.3 * np.abs(x).max(), 0.01)
            way = way + way.T if x.ndim == 2 and field != "drift" else way
            scale = max(np.abs(gradient * way).max(), 1.0)
            assert (gradient * way).sum() == pytest.approx(
                slope(1e-5, **{field: way}), rel=SCORE_TOLERANCE, abs=SCORE_TOLERANCE * scale
            ), field
    if p.season is not None:
        way = np.array([1.0, -0.3, -0.7])  # weights keep their mean of 1
        ends = [
            evaluate(p._replace(season=p.season.with_weights(p.season.weights + h * way)))
            for h in (1e-6, -1e-6)
        ]
        expected = (ends[0].log_likelihood.sum() - ends[1].log_likelihood.sum()) / 2e-6
        assert result.by_season @ way == pytest.approx(expected, rel=1e-5, abs=1e-4)


def check_initial_information(evaluate, p: Numbers, tolerance: float = 1e-9) -> None:
    """A log-likelihood that is quadratic in m0: differences of its score are exact."""
    information = evaluate(p).initial_information
    for way, column in zip(np.eye(p.n_modes), information.T, strict=True):
        low, high = (
            evaluate(p._replace(initial_mean=p.initial_mean + s * way)).by_initial_mean
            for s in (-1, 1)
        )
        bound = tolerance * np.abs(information).max()
        np.testing.assert_allclose(column, 0.5 * (low - high), rtol=tolerance, atol=bound)
