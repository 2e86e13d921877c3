"""Exact transitions of ``dc = -Lambda c dt + dW``, ``Cov dW = w(t) Q dt``, and their gradients.

Over a step from ``t`` to ``t + dt`` the state is Gaussian,

    c(t + dt) = F c(t) + N(0, Omega),   F = e^(-Lambda dt),
    Omega = int_0^dt w(t + dt - s) e^(-Lambda s) Q e^(-Lambda' s) ds.

Diagonal operators have closed forms, matrices go to `_matrix_transition`. Steps of equal length,
and of equal phase where the noise has seasons, share one transition.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from spdelaw.equation._decay import decay_mean, decay_mean_slope
from spdelaw.equation._matrix_transition import Pull, matrix_transition
from spdelaw.equation._season import Season

Array = np.ndarray

#: Steps that differ by less than this share of the longest are the same: times carry rounding.
SAME_STEP = 1e-12


class Transition(Protocol):
    """Transitions of U steps.

    Attributes:
        factor: ``F``, (U, N) or (U, N, N).
        covariance: ``Omega``, likewise.
    """

    @property
    def factor(self) -> Array: ...

    @property
    def covariance(self) -> Array: ...

    def pull_back(self, by_factor: Array, by_covariance: Array) -> Pull:
        """Gradient by the operators from those by ``F`` and ``Omega``."""


def distinct_steps(dt: Array) -> tuple[Array, Array]:
    """Lengths that occur (U,), and which of them each step has, in the shape of ``dt``."""
    flat = np.ravel(dt)
    order = np.argsort(flat, kind="stable")
    is_new = np.diff(flat[order], prepend=-np.inf) > SAME_STEP * flat.max(initial=0.0)
    which = np.empty(len(flat), int)
    which[order] = np.cumsum(is_new) - 1
    return flat[order][is_new], which.reshape(np.shape(dt))


def distinct_spans(times: Array, season: Season | None) -> tuple[Array, Array, Array]:
    """Starts and lengths (U,) of the steps between ``times`` (T, ...), and which each step has.

    Without seasons only the length of a step counts.
    """
    start, dt = times[:-1], np.diff(times, axis=0)
    lengths, which = distinct_steps(dt)
    if season is None:
        return np.zeros(len(lengths)), lengths, which
    phases, phase = distinct_steps(season.phase(start))
    both, index = np.unique(phase.ravel() * len(lengths) + which.ravel(), return_inverse=True)
    return phases[both // len(lengths)], lengths[both % len(lengths)], index.reshape(dt.shape)


def transition(
    drift: Array, noise: Array, dt: Array, start: Array | None = None, season: Season | None = None
) -> Transition:
    """Transitions for steps of lengths ``dt`` (U,) that begin at ``start`` (U,)."""
    begin = np.zeros(len(dt)) if start is None else np.asarray(start, float)
    if drift.ndim == noise.ndim == 1:
        return _diagonal(drift, noise, np.asarray(dt, float), begin, season)
    return matrix_transition(drift, noise, np.asarray(dt, float), begin, season)


@dataclasses.dataclass(frozen=True)
class DiagonalTransition:
    """``a = e^(-lambda dt)`` and ``omega = q g``, one per mode; (U, N) each.

    ``shares`` (U, N, K) are the parts of ``g`` that the K parts of a season have, ``slope`` is
    ``dg / d lambda``.
    """

    factor: Array
    covariance: Array
    _dt: Array
    _noise: Array
    _g: Array
    _slope: Array
    _shares: Array | None

    def pull_back(self, by_factor: Array, by_covariance: Array) -> Pull:
        """By the chain rule, summed over steps."""
        by_g = by_covariance * self._noise
        by_drift = (by_g * self._slope - by_factor * self._dt[:, None] * self.factor).sum(0)
        by_season = np.zeros(1)
        if self._shares is not None:
            by_season = np.tensordot(by_g, self._shares, 2)
        return by_drift, (by_covariance * self._g).sum(0), by_season


def _diagonal(
    drift: Array, noise: Array, dt: Array, start: Array, season: Season | None
) -> DiagonalTransition:
    x = drift * dt[:, None]
    if season is None:
        g = dt[:, None] * decay_mean(2.0 * x)
        slope, shares = 2.0 * dt[:, None] ** 2 * decay_mean_slope(2.0 * x), None
    else:
        g, slope, shares = _seasonal(drift, dt[:, None], start[:, None], season)
    return DiagonalTransition(np.exp(-x), noise * g, dt, noise, g, slope, shares)


def _seasonal(drift: Array, dt: Array, start: Array, season: Season) -> tuple[Any, Any, Array]:
    """``g``, its slope and the shares of the parts; a complex step gives the slope exactly."""
    tiny = 1e-200
    exposures = season.exposures(2.0 * (drift + 1j * tiny), start, start + dt)
    shares = exposures.real
    return shares @ season.weights, exposures.imag @ season.weights / tiny, shares
