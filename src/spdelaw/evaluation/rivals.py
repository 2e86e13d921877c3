"""Rivals of a law: climatology, persistence, damped persistence and a linear inverse model.

Each learns from the history alone. With x the prepared field less the mean of its past at each
point (zero where the preparation took means off), k the lead in steps and r the correlation of a
point with itself one step later,

    climatology 0,   persistence x(t),   damped persistence r^k x(t),   LIM  E G^k E' x(t),

where E are empirical orthogonal functions and ``G = C(1) C(0)^-1`` is the regression of their
amplitudes over one step (Penland and Sardeshmukh 1995). Deviations are those of the same rule
within the history, point by point and lead by lead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.domains.empirical import Empirical
from spdelaw.errors import ConvergenceError, DomainError
from spdelaw.evaluation.scores import Prediction
from spdelaw.evaluation.tasks import Task

Array = np.ndarray

#: Numbers of patterns that a linear inverse model may have, and the share of a history's end by
#: whose forecasts one of them is chosen.
LIM_PATTERNS, HELD_OUT = (1, 2, 3, 5, 8, 12, 20), 0.25
#: Deviation of errors, relative to that of the history, below which it is none.
LEAST_DEVIATION = 1e-6
#: Times of a history per pattern, at least.
TIMES_PER_PATTERN = 4


def mean_field(past: Array) -> Array:
    """Mean over paths and times of values (P, T, M) at each point, zero where nothing is; (M,)."""
    observed = ~np.isnan(past)
    return np.where(observed, past, 0.0).sum((0, 1)) / np.maximum(observed.sum((0, 1)), 1)


def memory(past: Array) -> Array:
    """Correlation of each point with itself one step later, from values (P, T, M); (M,)."""
    product = np.nansum(past[:, 1:] * past[:, :-1], axis=(0, 1))
    square = np.nansum(np.where(np.isnan(past[:, 1:]), np.nan, past[:, :-1]) ** 2, axis=(0, 1))
    return np.clip(product / np.where(square > 0, square, 1.0), 0.0, 1.0)


def damped(history: Array, leads: tuple[int, ...], factor: float | Array) -> Prediction:
    """``factor^k`` of the last value of each point; 0 for the mean, 1 for persistence.

    A point that is missing at the end decays from its last value on.
    """
    last, age = last_observed(history)
    means, errors = [], []
    for k in leads:
        means.append(last * np.power(factor, k + age))
        late, early = history[:, k:], history[:, : history.shape[1] - k]
        errors.append(_deviation(late - np.power(factor, k) * early))
    return Prediction(np.stack(means), _with_history_deviation(np.stack(errors), history))


def last_observed(history: Array) -> tuple[Array, Array]:
    """Last value of each path and point, NaN where there is none, and how many steps ago."""
    observed = ~np.isnan(history)
    age = observed[:, ::-1].argmax(1)
    last_index = history.shape[1] - 1 - age
    return np.take_along_axis(history, last_index[:, None], 1)[:, 0], age


def _deviation(errors: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a point without a pair of times
        return np.sqrt(np.nanmean(errors**2, axis=(0, 1)))


def _with_history_deviation(errors: Array, history: Array) -> Array:
    """Deviations (lead, M) for all paths; that of the history where there are none.

    Nor are those of a point that was seen once or twice, which any pattern may meet.
    """
    history_deviation = _deviation(history)
    deviation = np.where(errors > LEAST_DEVIATION * history_deviation, errors, history_deviation)
    return np.broadcast_to(deviation[:, None], (len(errors), len(history), history.shape[-1]))


class InverseModel(NamedTuple):
    """A linear inverse model: patterns (M, k), their propagator over a step, and its errors.

    ``noise`` is the variance outside the patterns relative to that of each amplitude.
    """

    patterns: Array
    propagator: Array
    noise: Array
    errors: Array
    leads: tuple[int, ...]

    @property
    def n_patterns(self) -> int:
        """How many patterns."""
        return len(self.propagator)

    def predict(self, history: Array, leads: tuple[int, ...]) -> Prediction:
        """Forecast from the last field, at the leads that it was learned for."""
        now = amplitudes(history[:, -1:], self.patterns, self.noise)[:, 0]
        means = [self.power(k, now) @ self.patterns.T for k in leads]
        return Prediction(np.stack(means), _with_history_deviation(self.errors, history))

    def power(self, k: int, amplitude: Array) -> Array:
        """``G^k`` times amplitudes in rows."""
        return amplitude @ np.linalg.matrix_power(self.propagator, k).T


def inverse_model(past: xr.DataArray, n: int, leads: tuple[int, ...], dims: tuple) -> InverseModel:
    """Learn one with n patterns from prepared fields (path, time, space)."""
    values = past.values.reshape(*past.shape[:2], -1)
    patterns = np.zeros((values.shape[-1], n))
    observed = ~np.isnan(values).all((0, 1))
    patterns[observed] = Empirical(past, n, dims=dims).modes
    first = amplitudes(values, patterns, np.zeros(n))
    residual_variance = float(np.nanmean((values - first @ patterns.T) ** 2))
    noise = residual_variance / np.maximum((first**2).mean((0, 1)), 1e-300)
    a = amplitudes(values, patterns, noise)
    early, late = a[:, :-1].reshape(-1, n), a[:, 1:].reshape(-1, n)
    propagator = np.linalg.lstsq(early, late, rcond=None)[0].T
    model = InverseModel(patterns, propagator, noise, np.zeros((0, 0)), leads)
    errors = [
        _deviation(values[:, k:] - model.power(k, a[:, : a.shape[1] - k]) @ patterns.T)
        for k in leads
    ]
    return model._replace(errors=np.stack(errors))


def amplitudes(values: Array, patterns: Array, noise: Array) -> Array:
    """Amplitudes of patterns (M, k) in values (P, T, M); gaps count as what they are.

    Where a row has gaps, least squares with the prior variance of each amplitude, without which
    a few points could give any amplitude.
    """
    out = np.where(np.isnan(values), 0.0, values) @ patterns
    gram = patterns.T @ patterns
    complete = ~np.isnan(values).any(-1)
    if complete.any():
        out[complete] = np.linalg.lstsq(gram, out[complete].T, rcond=None)[0].T
    for p, t in np.argwhere(~complete):
        observed_patterns = patterns[~np.isnan(values[p, t])]
        system = observed_patterns.T @ observed_patterns + np.diag(np.maximum(noise, 1e-9))
        out[p, t] = np.linalg.solve(system, out[p, t])
    return out


def learn_inverse_model(
    past: xr.DataArray, leads: tuple[int, ...], dims: tuple[str, ...], n: int | None
) -> InverseModel:
    """One of n patterns or, for None, of as many as forecast the end of the history best."""
    if n is None:
        n = _best_pattern_count(past, leads, dims)
    return inverse_model(past, n, leads, dims)


def _best_pattern_count(past: xr.DataArray, leads: tuple[int, ...], dims: tuple[str, ...]) -> int:
    start = round((1.0 - HELD_OUT) * past.sizes["time"])
    values = past.values.reshape(*past.shape[:2], -1)
    most = min(start // TIMES_PER_PATTERN, values.shape[-1], start - max(leads) - 1)
    scores = {}
    for n in [n for n in LIM_PATTERNS if n <= most] or [1]:
        try:
            model = inverse_model(past.isel(time=slice(start)), n, leads, dims)
        except (ConvergenceError, DomainError):  # too few values for so many patterns
            break
        a = amplitudes(values, model.patterns, model.noise)
        scores[n] = sum(_relative_error(model, a, values, start, k) for k in leads)
    return min(scores, key=lambda n: scores[n]) if scores else 1


def _relative_error(model: InverseModel, a: Array, values: Array, start: int, k: int) -> float:
    """Mean square of forecasts from the held-out end, relative to that of the mean field."""
    early = a[:, start - 1 : a.shape[1] - k]
    late = values[:, start - 1 + k :]
    if not np.isfinite(late).any():
        return 0.0
    error = late - model.power(k, early) @ model.patterns.T
    return float(np.nanmean(error**2) / np.nanmean(late**2))


#: Forecasts (lead, path, point) at some leads from a history of values (path, time, point).
Rule = Callable[[Array, tuple[int, ...]], Prediction]
#: Rivals that need no more than the values of the history.
SIMPLE: dict[str, Rule] = {
    "climatology": lambda history, leads: damped(history, leads, 0.0),
    "persistence": lambda history, leads: damped(history, leads, 1.0),
    "damped persistence": lambda history, leads: damped(history, leads, memory(history)),
}


class Rival(NamedTuple):
    """A rule as a predictor; ``centre`` is the mean of the past at each point."""

    rule: Rule
    leads: tuple[int, ...]
    centre: Array

    def predict(self, given: Observed, times: Array) -> Prediction:
        """Mean and deviation of values at the first leads, which these times are."""
        prediction = self.rule(given.values - self.centre, self.leads)
        mean, std = (moment[: len(times)].swapaxes(0, 1) for moment in prediction[:2])
        return Prediction(self.centre + mean, std)


# ---------- Rivals in any task
#
# With the mean m and variance v of each point, its correlation r with itself one step later, and
# its last value x given k steps ago,
#
#     climatology  N(m, v),    damped persistence  N(m + r^k (x - m), v (1 - r^2k)).


#: Rivals of `rival_predictions`.
TASK_RIVALS = ("climatology", "damped persistence")
#: Least share of a point's variance that damped persistence leaves open.
LEAST_OPEN_SHARE = 1e-6


def rival_predictions(values: Array, task: Task) -> list[Prediction]:
    """Predictions of `TASK_RIVALS` of values (path, time, x) from those that a task gives."""
    given = np.where(task.given, values, np.nan)
    mean = mean_field(given)
    away = given - mean
    variance = mean_field(away**2)
    variance = np.broadcast_to(np.where(variance > 0, variance, variance.mean()), values.shape)
    rows = np.where(task.given, np.arange(values.shape[1])[:, None], -1)
    last = np.maximum.accumulate(rows, axis=1)
    age = np.where(last >= 0, np.arange(values.shape[1])[:, None] - last, np.inf)
    value = np.take_along_axis(np.nan_to_num(away), np.maximum(last, 0), axis=1)
    factor = np.where(np.isfinite(age), memory(away) ** age, 0.0)
    left = np.maximum(1.0 - factor**2, LEAST_OPEN_SHARE)
    return [
        Prediction(np.broadcast_to(mean, values.shape), np.sqrt(variance)),
        Prediction(mean + factor * value, np.sqrt(left * variance)),
    ]
