"""Predictive distribution of a law, and scores of predictions with and without a distribution.

The predictive distribution of a path is conditioned on its initial state alone. The paths of a
truncated model are sums of K functions of time; what they cannot represent is white observation
noise. Scores leave out the first time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import spdelaw as sl
from spdelaw.chaos import CosineBasis, expand, propagate
from spdelaw.evaluation import gaussian_crps
from spdelaw.evaluation.tasks import coverage
from spdelaw.law import relative_l2, rmse
from spdelaw.statespace import StateSpace

Array = np.ndarray
#: Draws behind an energy score, and the step between times that enter it.
N_DRAWS, EVERY = 200, 4


class Distribution(NamedTuple):
    """Gaussian law of a field on a grid of times and points.

    Attributes:
        space: dynamics and initial state of all modes, none of them coupled.
        noise: variance of white noise at every point, (M,).
        basis: eigenfunctions at the points, (M, N).
        times: from the initial state on, (T,).
        n_time: K of a truncated model, else None.
    """

    space: StateSpace
    noise: Array
    basis: Array
    times: Array
    n_time: int | None

    def coefficients(self) -> tuple[Array, Array]:
        """Mean and variance of each mode, both (T, N)."""
        d, start, age = self.space.linear, self.space.initial, self.times - self.times[0]
        mean = np.exp(-np.outer(age, d.drift)) * start.mean
        if self.n_time is None:
            step = d.over(age)
            return mean, step.factor**2 * start.covariance + step.covariance
        curves = self._curves(self.n_time)
        driven = d.noise * (curves.response**2).sum(1)
        return mean, curves.decay**2 * start.covariance + driven

    def field(self) -> tuple[Array, Array]:
        """Mean and standard deviation of observed values, both (T, M)."""
        mean, variance = self.coefficients()
        return mean @ self.basis.T, np.sqrt(variance @ (self.basis**2).T + self.noise)

    def draw(self, n: int, seed: int) -> Array:
        """Joint draws of observed values, (n, T, M)."""
        start, n_modes, rng = self.space.initial, self.space.n_modes, np.random.default_rng(seed)
        z0 = start.mean + np.sqrt(start.covariance) * rng.standard_normal((n, n_modes))
        if self.n_time is None:
            c = self._transitions(z0, rng)
        else:
            xi = rng.standard_normal((n, self.n_time, n_modes))
            c = expand(self._curves(self.n_time), z0, xi)
        values = c @ self.basis.T
        return values + np.sqrt(self.noise) * rng.standard_normal(values.shape)

    def _curves(self, n_time: int) -> Any:
        d, age = self.space.linear, self.times - self.times[0]
        return propagate(CosineBasis(float(age[-1])), age, d.drift, np.sqrt(d.noise), n_time)

    def _transitions(self, z0: Array, rng: np.random.Generator) -> Array:
        states = [z0]
        for t, dt in zip(self.times, np.diff(self.times), strict=False):
            states.append(self.space.dynamics.sample(states[-1], float(t), float(dt), rng))
        return np.stack(states, 1)


def of_law(law: sl.Law, times: Array, points: Array) -> Distribution:
    """Distribution of a learned law; truncated where its engine truncates."""
    info = law.info
    # The paper's learner drops the tail.
    tail = info.get("tail", "dropped" if info["engine"] == "amortized" else None)
    k = info["config"]["n_time"] if info["engine"] == "amortized" else info.get("n_time")
    noise = np.broadcast_to(law.observation_variance, (len(points),))
    basis = law.domain.eigenfunctions(points, law.dynamics.n_modes)
    n_time = k if tail == "dropped" else None
    return Distribution(law.state_space, noise + law.unresolved_variance, basis, times, n_time)


def of_equation(equation: sl.SpectralSPDE, times: Array, points: Array) -> Distribution:
    """Distribution of an equation, without observation noise."""
    e = equation
    space = StateSpace(e.dynamics, e.initial_state, np.zeros(()))
    basis = e.domain.eigenfunctions(points, e.n_modes)
    return Distribution(space, np.zeros(len(points)), basis, times, None)


# ------------------------------------------------------------------ scores


def point_scores(predicted: Array, truth: Array) -> dict[str, float]:
    """Both errors of the paper, and the standard error of the first over paths.

    Arrays (path, time, x). The relative error is a mean over test paths of ratios: with other
    paths from the same law it would differ by about the standard error.
    """
    p, t = predicted[:, 1:], truth[:, 1:]
    each = np.linalg.norm((p - t).reshape(len(t), -1), axis=1)
    each = each / np.linalg.norm(t.reshape(len(t), -1), axis=1)
    error = float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan
    return {"relative_l2": relative_l2(p, t), "rmse": rmse(p, t), "standard_error": error}


def best_constant_path(paths: Array, n_steps: int = 60) -> Array:
    """The path ``a`` with the least mean of ``|a - X| / |X|`` over paths, by Weiszfeld's steps.

    What a system converges to that minimises relative errors and knows nothing of a path. The
    weights ``1 / |X|`` pull it towards zero, away from the mean path.

    Example:
        >>> best_constant_path(np.array([[1.0], [1.0], [4.0]])).round(6)
        array([1.])
    """
    x = paths.reshape(len(paths), -1)
    norm, a = np.linalg.norm(x, axis=1), x.mean(0)
    for _ in range(n_steps):
        distance = np.sqrt(np.maximum(norm**2 - 2.0 * x @ a + a @ a, 1e-12 * norm**2))
        weight = 1.0 / (norm * distance)
        a = weight @ x / weight.sum()
    return a.reshape(paths.shape[1:])


def gaussian_scores(mean: Array, std: Array, truth: Array) -> dict[str, float]:
    """Errors, CRPS and 95 % coverage of pointwise normals; mean and std may lack paths."""
    mean = np.broadcast_to(mean, truth.shape)
    m, s, t = mean[:, 1:], np.broadcast_to(std, truth.shape)[:, 1:], truth[:, 1:]
    return {
        **point_scores(mean, truth),
        "crps": float(np.mean(gaussian_crps(m, s, t))),
        "coverage": coverage(m, s, t),
    }


def predictive_scores(law: Distribution, truth: Array, seed: int) -> dict[str, float]:
    """Scores of a law that is given only the initial states of the paths."""
    draws = law.draw(N_DRAWS, seed)
    return {**gaussian_scores(*law.field(), truth), "energy_score": energy_score(draws, truth)}


def energy_score(draws: Array, truth: Array) -> float:
    """``mean |X - y| - mean |X - X'| / 2`` over draws X, X' and paths y, per root of values.

    A proper score of whole paths (Gneiting and Raftery, 2007): it also depends on the correlation
    of values. In the unit of the field; every fourth time enters.

    Example:
        >>> draws = np.array([np.zeros((2, 4)), np.full((2, 4), 4.0)])
        >>> energy_score(draws, np.full((1, 2, 4), 5.0))  # (5 + 1) / 2 - 4 / 2
        1.0
    """
    x, y = (v[:, 1::EVERY].reshape(len(v), -1) for v in (draws, truth))
    n = len(x)
    between = _distances(x, y).mean()
    within = _distances(x, x).sum() / (n * (n - 1))
    return float((between - 0.5 * within) / np.sqrt(x.shape[1]))


def _distances(x: Array, y: Array) -> Array:
    square = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2.0 * x @ y.T
    return np.sqrt(np.maximum(square, 0.0))
