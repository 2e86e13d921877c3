"""The distribution a law gives to a path before anything but its start is seen.

A truncated model is taken at its word: its paths are sums of K functions of time, and what those
cannot carry is white observation noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.chaos import CosineBasis, expand, propagate
from spdelaw.equation import SpectralSPDE
from spdelaw.law import Law
from spdelaw.model import StateSpace

Array = np.ndarray


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


def of_law(law: Law, times: Array, points: Array) -> Distribution:
    """Distribution of a learned law; truncated where the law was learned so."""
    info = law.info
    # The paper's learner has no tail to model.
    tail = info.get("tail", "dropped" if info["engine"] == "amortized" else None)
    k = info["config"]["n_time"] if info["engine"] == "amortized" else info.get("n_time")
    noise = np.broadcast_to(law.observation_variance, (len(points),))
    basis = law.domain.eigenfunctions(points, law.dynamics.n_modes)
    n_time = k if tail == "dropped" else None
    return Distribution(law.state_space, noise + law.unresolved_variance, basis, times, n_time)


def of_equation(equation: SpectralSPDE, times: Array, points: Array) -> Distribution:
    """Distribution of a known equation, without observation noise."""
    e = equation
    space = StateSpace(e.dynamics, e.initial_state, np.zeros(()))
    basis = e.domain.eigenfunctions(points, e.n_modes)
    return Distribution(space, np.zeros(len(points)), basis, times, None)
