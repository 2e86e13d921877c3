"""What a law does not explain of its data: memory of the residual, and spread of forecasts."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.infer.model import Model
from spdelaw.law.law import Law
from spdelaw.law.observations import (
    modes_at,
    noise_at,
    noisy_state_space,
    observed_for_law,
    response,
    smooth_fields,
    weights_of,
)
from spdelaw.law.prediction import smooth_modes_and_residual
from spdelaw.law.residuals import AR1
from spdelaw.processes import operators
from spdelaw.processes.linear import SAME_STEP, Linear

Array = np.ndarray

#: Level of the test of "auto", and the least correlation of neighbours that is worth a memory:
#: below, errors of one step fall by less than half a percent.
FALSE_ALARM, LEAST_CORRELATION = 1e-4, 0.1
#: Share of the mean square of the values below which a residual counts as rounding.
ROUNDING_SHARE = 1e-8
#: Values that the test looks at.
TESTED_VALUES = 500_000


def with_residual(law: Law, observed: Observed, model: Model) -> Law:
    """The law with the memory of its residual: for "memory", or for "auto" where significant.

    "auto" tests the first values of data in memory by a linear smoother. It reads no lazy data
    again, and leaves out nonlinear dynamics, whose smoother takes longer than their fit.
    """
    tests = isinstance(law.dynamics, Linear) and not observed.is_lazy
    if model.residual == "white" or (model.residual == "auto" and not tests):
        return law
    n_paths, n_times = _tested(observed.n_paths, observed.times.shape[-1], len(observed.points))
    residuals, share = _residuals(law, observed.paths(slice(n_paths)).at_times(slice(n_times)))
    decision = {"word": model.residual, **memory_test(residuals), "share": share}
    if model.residual == "auto" and not (decision["found"] and share > ROUNDING_SHARE):
        return law.with_info(residual=decision | {"answer": "white"})
    if residuals.shape[:2] != (observed.n_paths, observed.times.shape[-1]):
        residuals, _ = _residuals(law, observed)
    residual = AR1.fit(residuals, observed.times, model.known_variance)
    law = law.with_info(residual=decision | {"answer": "memory"})
    return dataclasses.replace(law, residual_memory=residual)


# ---------- Spread of forecasts by lead
#
# The modes of a law forget exponentially. Weather does not: errors of forecasts over six hours are
# larger than hourly steps promise, and those over an hour are smaller. So the data are forecast
# from windows of themselves, and where
#
#     f(lead) = mean of  error^2 / variance
#
# is clearly not one, forecasts of values have f times the variance. The climatology of the data
# fits them better than later times: its leverage widens the bands at all leads.


#: Fewest and most windows, rows of history in each, and values that more than the fewest may have.
FEWEST_WINDOWS, MOST_WINDOWS, HISTORY, WINDOW_VALUES = 24, 96, 24, 1_000_000
#: Longest lead in rows, and as a share of the record.
LONGEST, LONGEST_SHARE = 64, 1 / 12
#: Variance, relative to the largest, of values that are certain.
CERTAIN_SHARE = 1e-8
#: Logarithm of a factor that matters, above one and below it, where errors within the data that a
#: law was learned from are smaller than later ones; standard errors that make it clear.
LEAST_LOG_FACTOR, LEAST_LOG_SHARE, CLEAR_STANDARD_ERRORS = 0.2, 0.7, 4.0
#: Largest leverage of a value on its climatology, on average, that widens the bands further.
LARGEST_LEVERAGE = 0.5


def with_forecast_spread(law: Law, observed: Observed) -> Law:
    """The law with factors of the variance of its forecasts by lead, where these are needed."""
    climate, by_lead = _climatology_factor(observed), _factors_by_lead(law, observed)
    if by_lead is None and climate == 1.0:
        return law
    notes, ahead, factor = list(law.info.get("warnings", [])), np.array([observed.step]), np.ones(1)
    if by_lead is not None:
        ahead, factor = by_lead
        notes.append(
            f"forecast errors within the record are {np.sqrt(factor.min()):.2g} to "
            f"{np.sqrt(factor.max()):.2g} times as large as the law predicts, most at a lead of "
            f"{ahead[factor.argmax()]:.3g}: forecast bands are scaled accordingly"
        )
    spread = {"leads": ahead.tolist(), "factors": factor.tolist(), "climatology": climate}
    return law.with_info(forecast_spread=spread, warnings=notes)


def _climatology_factor(observed: Observed) -> float:
    """Mean square of the anomalies of a later time, relative to that of the data.

    A climatology of K numbers for n values of a point has leverages of ``h = K / n`` on average:
    of independent values with the variance s^2 the anomalies of the data have ``(1 - h) s^2``,
    those of a later time ``(1 + h) s^2``.
    """
    prepared = observed.prepared
    if prepared is None or not (prepared.how.anomalies or prepared.how.detrend):
        return 1.0
    n_paths, n_times = observed.values.shape[:2]
    share = 1.0 if observed.survey is None else 1.0 - observed.survey.missing / observed.survey.size
    h = min(len(prepared.coefficients) / max(n_paths * n_times * share, 1.0), LARGEST_LEVERAGE)
    return float((1.0 + h) / (1.0 - h))


def _factors_by_lead(law: Law, observed: Observed) -> tuple[Array, Array] | None:
    """Leads, and ``f(lead)`` where it is clearly not one; None where no lead has such a factor."""
    n_times = observed.times.shape[-1]
    leads = 2 ** np.arange(int(np.log2(max(min(LONGEST_SHARE * n_times, LONGEST), 1))) + 1)
    dynamics = law.dynamics
    if not isinstance(dynamics, Linear) or dynamics.season is not None or observed.is_lazy:
        return None
    n_starts = n_times - HISTORY - leads[-1] + 1
    if n_starts < FEWEST_WINDOWS:
        return None
    stationary = operators.stationary_covariance(dynamics.drift, dynamics.noise)
    if not (np.isfinite(stationary).all() and (operators.diagonal(stationary) > 0).all()):
        return None
    observed = observed.paths(slice(None, None, -(-observed.n_paths // MOST_WINDOWS)))
    n_all = observed.n_paths * n_starts
    window = (HISTORY + len(leads)) * len(observed.points)
    n_windows = int(np.clip(WINDOW_VALUES // window, FEWEST_WINDOWS, MOST_WINDOWS))
    which = np.linspace(0, n_all - 1, min(n_all, n_windows)).astype(int)
    path, start = np.divmod(which, n_starts)
    rows = start[:, None] + np.append(np.arange(HISTORY), HISTORY - 1 + leads)
    truth = observed.values[path[:, None], rows]
    std = None if observed.std is None else observed.std[path[:, None], rows]
    clocks = np.broadcast_to(observed.times, observed.values.shape[:2])[path[:, None], rows]
    if (driven := response(law, clocks, observed.points)) is not None:
        truth = truth - driven
    values = truth.copy()
    values[:, HISTORY:] = np.nan
    clocks = clocks - clocks[:, :1]  # the law without its mean and forcing has no date
    alike = np.ptp(clocks, axis=0).max() <= SAME_STEP * clocks[0, -1]
    windows = observed._replace(values=values, times=clocks[0] if alike else clocks, std=std)
    space, basis = noisy_state_space(law, windows), modes_at(law, observed.places)
    initial = space.initial._replace(
        kind="stationary", mean=0.0 * space.initial.mean, covariance=stationary
    )
    mean, variance, _ = smooth_modes_and_residual(
        law, windows, space._replace(initial=initial), observed.places, (basis, basis)
    )
    total = (variance + noise_at(law, observed.points))[:, HISTORY:]
    certain = ~(total > CERTAIN_SHARE * total.max())  # such as points where all modes vanish
    square = np.ma.masked_invalid((truth - mean)[:, HISTORY:]) ** 2
    by_window = (square / np.ma.masked_where(certain, total)).mean(-1)
    factor = np.maximum(by_window.mean(0).filled(1.0), 1e-3)
    independent = np.clip(observed.n_paths * n_times / leads, 1, len(which))
    error = by_window.std(0).filled(0.0) / factor / np.sqrt(independent)  # of the logarithm
    log, clear = np.log(factor), CLEAR_STANDARD_ERRORS * error
    is_wide = -log > np.maximum(clear, LEAST_LOG_SHARE)
    if not (is_wide | (log > np.maximum(clear, LEAST_LOG_FACTOR))).any():
        return None
    ahead = np.median(clocks[:, HISTORY:] - clocks[:, HISTORY - 1 : HISTORY], axis=0)
    return ahead, np.where(is_wide, factor, np.maximum(factor, 1.0))


def _tested(n_paths: int, n_times: int, n_points: int) -> tuple[int, int]:
    """How many paths and times the test looks at."""
    paths = min(n_paths, max(1, TESTED_VALUES // (n_times * n_points)))
    return paths, min(n_times, max(3, TESTED_VALUES // (paths * n_points)))


def _residuals(law: Law, observed: Observed) -> tuple[Array, float]:
    """What smoothed modes do not explain, and its share of the mean square of the values."""
    law_observed = observed_for_law(law, observed)
    space, basis = noisy_state_space(law, law_observed), law_observed.basis(law.dynamics.n_modes)
    values, times = law_observed.values, law_observed.times
    weights = weights_of(law, law_observed)
    given = values, times, basis, space, basis, weights
    residuals = values - smooth_fields(*given, has_variance=False).mean
    total = float(np.nansum(values**2))
    return residuals, float(np.nansum(residuals**2)) / total if total > 0 else 0.0


def memory_test(residuals: Array) -> dict[str, float | bool]:
    """Test of correlation in time: mean of ``s_t = sum_j r_j(t) r_j(t+1)`` over its error.

    Of a residual that is white in time the sums s_t are uncorrelated, also for correlated points.
    """
    is_observed = np.isfinite(residuals)
    r = np.where(is_observed, residuals, 0.0)
    square = np.einsum("ptm,ptm->m", r, r) / np.maximum(is_observed.sum((0, 1)), 1)
    r *= np.where(square > 0, 1.0 / np.sqrt(np.where(square > 0, square, 1.0)), 0.0)
    is_pair = is_observed[:, 1:] & is_observed[:, :-1] & (square > 0)
    sums = np.einsum("ptm,ptm->pt", r[:, 1:], r[:, :-1])[is_pair.any(-1)]
    n, pairs = len(sums), int(is_pair.sum())
    correlation = float(sums.sum() / pairs) if pairs else 0.0
    spread = float(sums.std(ddof=1)) if n > 1 else 0.0
    z = float(sums.mean() / spread * np.sqrt(n)) if spread > 0 else 0.0
    p = float(scipy.special.stdtr(max(n - 1, 1), -z))
    has_memory = bool(p < FALSE_ALARM and correlation > LEAST_CORRELATION)
    return {"correlation": correlation, "p_value": p, "found": has_memory}
