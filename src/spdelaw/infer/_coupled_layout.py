"""The vector of free coordinates where drift or noise couple the modes."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from spdelaw.equation import stationary_covariance, stationary_pull_back
from spdelaw.infer._coordinates import AbstractCoordinates
from spdelaw.infer._coupled_starts import CoupledRough
from spdelaw.infer._layout import Layout
from spdelaw.model import CoupledParameters

Array = np.ndarray

#: Least eigenvalue of a starting covariance, relative to its diagonal.
LEAST = 1e-6


@dataclasses.dataclass(frozen=True)
class CoupledLayout(Layout):
    """A `Layout` whose drift and noise are matrices.

    Args:
        initial: coordinates of the initial covariance, where there is one to estimate.
    """

    initial: AbstractCoordinates | None = None

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Number of coordinates of each part, in order."""
        n = len(self.initial.names) if self.initial is not None else 0
        return {**super().sizes, "initial_variance": n}

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """One name a coordinate of the full vector."""
        n = self.sizes["initial_mean"]
        return (
            self.drift.names
            + self.noise.names
            + (("observation_std",) if self.n_noise else ())
            + (self.initial.names if self.initial is not None else ())
            + tuple(f"initial_mean[{i}]" for i in range(1, n + 1))
        )

    @functools.cached_property
    def is_log(self) -> Array:
        """Whether a coordinate is a logarithm; (size,)."""
        initial = self.initial.is_log if self.initial is not None else np.zeros(0, bool)
        noise = np.ones(self.sizes["observation"], bool)
        mean = np.zeros(self.sizes["initial_mean"], bool)
        return np.concatenate([self.drift.is_log, self.noise.is_log, noise, initial, mean])

    def unpack(self, full: Array, initial_mean: Array) -> CoupledParameters:
        """Parameters at a full vector; ``initial_mean`` where it is no coordinate."""
        s = self.slices
        a, q = self.drift.values(full[s["drift"]]), self.noise.values(full[s["noise"]])
        spread = np.zeros_like(a)
        if self.initial is not None:
            spread = self.initial.values(full[s["initial_variance"]])
        elif self.initial_kind == "stationary":
            spread = stationary_covariance(a, q)
        mean = full[s["initial_mean"]] if self.sizes["initial_mean"] else initial_mean
        r = np.exp(2.0 * full[s["observation"]])[0] if self.n_noise else self.known_variance
        return CoupledParameters(a, q, mean, spread, np.asarray(r), self.initial_kind)

    def score(self, full: Array, parameters: Any, evaluation: Any) -> Array:
        """Gradient by the full vector, by the chain rule."""
        s = self.slices
        out = np.zeros(len(self.names))
        by_drift, by_noise = evaluation.by_drift, evaluation.by_noise_covariance
        by_initial = evaluation.by_initial_covariance
        if self.initial_kind == "stationary":
            own = stationary_pull_back(parameters.drift, parameters.initial_covariance, by_initial)
            by_drift, by_noise = by_drift + own[0], by_noise + own[1]
        out[s["drift"]] = np.tensordot(by_drift, self.drift.jacobian(full[s["drift"]]))
        out[s["noise"]] = np.tensordot(by_noise, self.noise.jacobian(full[s["noise"]]))
        if self.n_noise:
            # The coordinate is log(std): d/d log(std) = 2 r d/dr.
            r = float(parameters.observation_variance)
            out[s["observation"]] = 2.0 * r * evaluation.by_observation_variance
        if self.initial is not None:
            jacobian = self.initial.jacobian(full[s["initial_variance"]])
            out[s["initial_variance"]] = np.tensordot(by_initial, jacobian)
        if self.sizes["initial_mean"]:
            out[s["initial_mean"]] = evaluation.by_initial_mean
        return out

    def starting_vector(
        self, rough: CoupledRough, observation_std: float, mean: Array, spread: Array
    ) -> Array:
        """Full vector near rough estimates; ``spread`` is the covariance of the first states."""
        s = self.slices
        full = np.zeros(len(self.names))
        full[s["drift"]] = self.drift.start(rough.drift)
        full[s["noise"]] = self.noise.start(rough.noise_covariance)
        full[s["observation"]] = np.log(max(observation_std, 1e-150))
        if self.initial is not None:
            floor = np.diag(LEAST * rough.energy + 1e-300)
            full[s["initial_variance"]] = self.initial.start(spread + floor)
        if self.sizes["initial_mean"]:
            full[s["initial_mean"]] = mean
        return full

    def starting_scale(
        self, full: Array, rough: CoupledRough, n_paths: int, n_steps: int, span: float,
        count: float,
    ) -> Array:  # fmt: skip
        """Rough standard errors of the coordinates from the information of noise-free paths.

        The information on ``Lambda_ij`` is about ``E c_j^2 span / q_i`` a path, that on
        ``Q_ij`` half the number of transitions over ``q_i q_j``.
        """
        s = self.slices
        q, v = np.diag(rough.noise_covariance), rough.energy
        transitions = 0.5 * max(n_paths * n_steps, 2)
        scale = np.ones(len(self.names))
        phi, psi = full[s["drift"]], full[s["noise"]]
        scale[s["drift"]] = _scale_of(self.drift.jacobian(phi), n_paths * span * v / q[:, None])
        scale[s["noise"]] = _scale_of(self.noise.jacobian(psi), transitions / np.outer(q, q))
        scale[s["observation"]] = 1.0 / np.sqrt(max(2.0 * count, 1.0))
        if self.initial is not None:
            at = full[s["initial_variance"]]
            own = np.diag(self.initial.values(at))
            information = 0.5 * max(n_paths, 2) / np.outer(own, own)
            scale[s["initial_variance"]] = _scale_of(self.initial.jacobian(at), information)
        return scale


def _scale_of(jacobian: Array, information: Array) -> Array:
    total = np.tensordot(information, jacobian**2)
    return 1.0 / np.sqrt(np.maximum(total, 1e-2))
