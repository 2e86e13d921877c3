"""The distribution a law gives to a path before anything but its start is seen.

A truncated model is taken at its word: its paths are sums of K functions of time, and what those
cannot carry is white observation noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from spdelaw.chaos import CosineBasis, expand, propagate
from spdelaw.equation import SpectralSPDE, mode_variance, transition
from spdelaw.law import Law
from spdelaw.model import Parameters

Array = np.ndarray


class Distribution(NamedTuple):
    """Gaussian law of a field on a grid of times and points.

    Attributes:
        parameters: of all modes.
        noise: variance of white noise at every point, (M,).
        basis: eigenfunctions at the points, (M, N).
        times: from the initial state on, (T,).
        n_time: K of a truncated model, else None.
    """

    parameters: Parameters
    noise: Array
    basis: Array
    times: Array
    n_time: int | None

    def coefficients(self) -> tuple[Array, Array]:
        """Mean and variance of each mode, both (T, N)."""
        p, age = self.parameters, self.times - self.times[0]
        mean = np.exp(-np.outer(age, p.eigenvalues)) * p.initial_mean
        if self.n_time is None:
            args = p.eigenvalues, p.noise_variance, p.initial_variance, age[:, None]
            return mean, mode_variance(*args)
        curves = self._curves(self.n_time)
        driven = p.noise_variance * (curves.response**2).sum(1)
        return mean, curves.decay**2 * p.initial_variance + driven

    def field(self) -> tuple[Array, Array]:
        """Mean and standard deviation of observed values, both (T, M)."""
        mean, variance = self.coefficients()
        return mean @ self.basis.T, np.sqrt(variance @ (self.basis**2).T + self.noise)

    def draw(self, n: int, seed: int) -> Array:
        """Joint draws of observed values, (n, T, M)."""
        p, rng = self.parameters, np.random.default_rng(seed)
        z0 = p.initial_mean + np.sqrt(p.initial_variance) * rng.standard_normal((n, p.n_modes))
        if self.n_time is None:
            c = self._transitions(z0, rng)
        else:
            xi = rng.standard_normal((n, self.n_time, p.n_modes))
            c = expand(self._curves(self.n_time), z0, xi)
        values = c @ self.basis.T
        return values + np.sqrt(self.noise) * rng.standard_normal(values.shape)

    def _curves(self, n_time: int) -> Any:
        p, age = self.parameters, self.times - self.times[0]
        amplitude = np.sqrt(p.noise_variance)
        return propagate(CosineBasis(float(age[-1])), age, p.eigenvalues, amplitude, n_time)

    def _transitions(self, z0: Array, rng: np.random.Generator) -> Array:
        p = self.parameters
        states = [z0]
        for dt in np.diff(self.times):
            a, omega = transition(p.eigenvalues, p.noise_variance, dt)
            states.append(a * states[-1] + np.sqrt(omega) * rng.standard_normal(z0.shape))
        return np.stack(states, 1)


def of_law(law: Law, times: Array, points: Array) -> Distribution:
    """Distribution of a learned law; truncated where the law was learned so."""
    info = law.info
    # The paper's learner has no tail to model.
    tail = info.get("tail", "dropped" if info["engine"] == "amortized" else None)
    k = info["config"]["n_time"] if info["engine"] == "amortized" else info.get("n_time")
    noise = np.broadcast_to(law.state.observation_variance, (len(points),))
    basis = law.domain.eigenfunctions(points, law.state.n_modes)
    n_time = k if tail == "dropped" else None
    state = cast(Parameters, law.state)
    return Distribution(state, noise + law.unresolved_variance, basis, times, n_time)


def of_equation(equation: SpectralSPDE, times: Array, points: Array) -> Distribution:
    """Distribution of a known equation, without observation noise."""
    e, n = equation, equation.n_modes
    parameters = Parameters(
        e.eigenvalues, e.noise_variance, e.initial_mean, e.initial_variance, np.asarray(0.0)
    )
    basis = e.domain.eigenfunctions(points, n)
    return Distribution(parameters, np.zeros(len(points)), basis, times, None)
