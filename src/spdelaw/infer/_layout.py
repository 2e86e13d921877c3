"""One vector of free coordinates for all parameters, and the score in it.

Order: drift, noise, seasons, observation variance, initial variance, initial mean. Coordinates that
are fixed keep their place in the full vector and are left out of the free one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.equation import Season
from spdelaw.errors import InputError
from spdelaw.infer._coordinates import AbstractCoordinates
from spdelaw.infer._priors import LogNormal, Normal
from spdelaw.model import AnyParameters, InitialKind, Parameters

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where each parameter lives in the full vector.

    Args:
        drift, noise: coordinates of the spectra.
        initial_kind: decides which initial parameters exist.
        n_modes: modes in all, nuisance included.
        n_noise: observation variances: 0 (known), 1, or one a point.
        known_variance: the observation variance where it is not estimated.
        season: of the noise, whose weights are coordinates: ``log(w_k / w_1)`` for k > 1.
    """

    drift: AbstractCoordinates
    noise: AbstractCoordinates
    initial_kind: InitialKind
    n_modes: int
    n_noise: int
    known_variance: Any = 0.0
    has_mean: bool = True
    season: Season | None = None

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Number of coordinates of each part, in order."""
        gaussian = self.initial_kind == "gaussian"
        mean = self.has_mean and self.initial_kind != "stationary"
        return {
            "drift": len(self.drift.names),
            "noise": len(self.noise.names),
            "season": 0 if self.season is None else self.season.n_parts - 1,
            "observation": self.n_noise,
            "initial_variance": self.n_modes if gaussian else 0,
            "initial_mean": self.n_modes if mean else 0,
        }

    @functools.cached_property
    def slices(self) -> dict[str, slice]:
        """Slice of each part in the full vector."""
        stops = np.cumsum([0, *self.sizes.values()])
        return {key: slice(stops[i], stops[i + 1]) for i, key in enumerate(self.sizes)}

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """One name a coordinate of the full vector."""
        count = self.sizes
        noise = (
            ("observation_std",)
            if count["observation"] == 1
            else tuple(f"observation_std[{m}]" for m in range(1, count["observation"] + 1))
        )
        return (
            self.drift.names
            + self.noise.names
            + tuple(f"season[{k}]" for k in range(2, count["season"] + 2))
            + noise
            + tuple(f"initial_variance[{n}]" for n in range(1, count["initial_variance"] + 1))
            + tuple(f"initial_mean[{n}]" for n in range(1, count["initial_mean"] + 1))
        )

    @functools.cached_property
    def is_log(self) -> Array:
        """Whether a coordinate is a logarithm; (size,)."""
        count = self.sizes
        middle = np.ones(count["observation"] + count["initial_variance"], bool)
        mean = np.zeros(count["initial_mean"], bool)
        season = np.zeros(count["season"], bool)
        return np.concatenate([self.drift.is_log, self.noise.is_log, season, middle, mean])

    def unpack(self, full: Array, initial_mean: Array) -> AnyParameters:
        """Parameters at a full vector; ``initial_mean`` where it is no coordinate."""
        s = self.slices
        lam, q = self.drift.values(full[s["drift"]]), self.noise.values(full[s["noise"]])
        r = np.exp(2.0 * full[s["observation"]])
        variance = np.zeros(self.n_modes)
        if self.initial_kind == "gaussian":
            variance = np.exp(full[s["initial_variance"]])
        elif self.initial_kind == "stationary":
            variance = q / (2.0 * lam)
        mean = full[s["initial_mean"]] if self.sizes["initial_mean"] else initial_mean
        observation = r if self.n_noise > 1 else r[0] if self.n_noise else self.known_variance
        season = self.season
        if season is not None:
            season = season.with_weights(season_weights(full[s["season"]]))
        return Parameters(
            lam, q, mean, variance, np.asarray(observation), self.initial_kind, season
        )

    def score(self, full: Array, parameters: Any, evaluation: Any) -> Array:
        """Gradient by the full vector, by the chain rule."""
        s = self.slices
        out = np.zeros(len(self.names))
        by_lambda, by_q = evaluation.by_eigenvalue, evaluation.by_noise_variance
        if self.initial_kind == "stationary":
            v, lam = parameters.initial_variance, parameters.eigenvalues
            by_lambda = by_lambda - evaluation.by_initial_variance * v / lam
            by_q = by_q + evaluation.by_initial_variance / (2.0 * lam)
        out[s["drift"]] = by_lambda @ self.drift.jacobian(full[s["drift"]])
        out[s["noise"]] = by_q @ self.noise.jacobian(full[s["noise"]])
        if self.season is not None:
            out[s["season"]] = evaluation.by_season @ season_jacobian(full[s["season"]])
        # The coordinate is log(std): d/d log(std) = 2 r d/dr.
        out[s["observation"]] = (
            2.0 * parameters.observation_variance * evaluation.by_observation_variance
            if self.n_noise
            else 0.0
        )
        if self.sizes["initial_variance"]:
            out[s["initial_variance"]] = (
                evaluation.by_initial_variance * parameters.initial_variance
            )
        if self.sizes["initial_mean"]:
            out[s["initial_mean"]] = evaluation.by_initial_mean
        return out


def season_weights(contrasts: Array) -> Array:
    """``w_k = K e^(x_k) / sum_j e^(x_j)`` with ``x_1 = 0``; mean 1."""
    x = np.concatenate([[0.0], contrasts])
    e = np.exp(x - x.max())
    return len(x) * e / e.sum()


def season_jacobian(contrasts: Array) -> Array:
    """``dw_k / dx_j = w_k (delta_kj - w_j / K)``; (K, K - 1)."""
    w = season_weights(contrasts)
    return (np.diag(w) - np.outer(w, w) / len(w))[:, 1:]


def fixed_values(layout: Layout, fixed: Mapping[str, Any] | None) -> dict[int, float]:
    """Positions and coordinate values of fixed parameters.

    Keys are coordinate names such as ``kappa`` or ``eigenvalue[3]``, or a group such as
    ``eigenvalue`` with one number a mode, NaN for free.
    """
    out: dict[int, float] = {}
    for key, value in (fixed or {}).items():
        for position, number in _positions(layout, key, value, "fixed"):
            if np.isnan(number):
                continue
            # Without decay a mode is Brownian motion; without noise it has no density.
            least = 0.0 if position < layout.slices["drift"].stop else 5e-324
            if not np.isfinite(number) or (layout.is_log[position] and number < least):
                raise InputError(
                    f"fixed[{key!r}]",
                    expected="a finite number, positive where it is a variance",
                    got=repr(number), fix="give the variance itself, or NaN for free",
                )  # fmt: skip
            with np.errstate(divide="ignore"):
                out[position] = float(np.log(number)) if layout.is_log[position] else number
    return out


def prior_terms(layout: Layout, priors: Mapping[str, Any] | None) -> list[tuple[int, Any]]:
    """Positions with their prior; keys as in `fixed_values`."""
    out = []
    for key, prior in (priors or {}).items():
        if not isinstance(prior, (LogNormal, Normal)):
            raise InputError(
                f"priors[{key!r}]", expected="sl.LogNormal(...) or sl.Normal(...)",
                got=type(prior).__name__, fix="priors={'eigenvalue': sl.LogNormal(5.0, 1.0)}",
            )  # fmt: skip
        for position, _ in _positions(layout, key, 1.0, "priors"):
            if isinstance(prior, LogNormal) and not layout.is_log[position]:
                raise InputError(
                    f"priors[{key!r}]", expected="a Normal prior for a number of either sign",
                    got="LogNormal", fix="use sl.Normal(mean, std)",
                )  # fmt: skip
            out.append((position, prior))
    return out


def _positions(layout: Layout, key: str, value: Any, argument: str) -> list[tuple[int, float]]:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument}[{key!r}]", expected="numbers", got=repr(value),
            fix="give one number a mode, NaN for free",
        ) from error  # fmt: skip
    if key in layout.names and numbers.ndim == 0:
        return [(layout.names.index(key), float(numbers))]
    group = [i for i, name in enumerate(layout.names) if name == key or name.startswith(f"{key}[")]
    if not group:
        known = sorted({name.split("[")[0] for name in layout.names})
        raise InputError(
            f"{argument}[{key!r}]", expected=f"a parameter of this fit, one of {known}",
            got=repr(key), fix="group names take one number a mode, NaN for free",
        )  # fmt: skip
    if numbers.ndim and numbers.shape != (len(group),):
        raise InputError(
            f"{argument}[{key!r}]", expected=f"one number, or {len(group)}",
            got=f"shape {numbers.shape}", fix="give one number a mode, NaN for free",
        )  # fmt: skip
    return list(zip(group, np.broadcast_to(numbers, len(group)).tolist(), strict=True))
