"""What follows from drift and noise: life times, growth, spectra, distances between laws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import numbers
from spdelaw.errors import InputError
from spdelaw.law.parameters import Quantity, coordinate_root, interval_table, with_modes
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear, transition
from spdelaw.processes.specification import InitialState, check_times
from spdelaw.statespace.chain import StateSpace

if TYPE_CHECKING:
    from spdelaw.law.law import Law


# ---------- Distances between laws and between fields (paper, section 3.3)
#
# The Kullback-Leibler divergence between two linear laws of the coefficients has a closed form.
#
# Both laws are Markov, ``c_{t+1} = F c_t + N(0, W)`` plus the mean that a forcing drives, so the
# chain rule over transitions gives
#
#     KL = KL(initial) + sum_t [ KL(N(0, W1) || N(0, W2)) + 1/2 E1 g_t' W2^-1 g_t ],
#     g_t = (F1 - F2) c_t + e_t,   e_t = d_{t+1} - F2 d_t,
#
# with ``c_t`` the unforced state under the first law and ``d_t`` the difference of the forced
# means. Independent modes are as many laws of one mode each: operators are stacks of matrices,
# (..., N, 1, 1) where both laws are diagonal and (..., 1, N, N) where one is not.


Array = np.ndarray


def kl_divergence(first: StateSpace, second: StateSpace, times: Array) -> float:
    """``KL(first || second)`` per path for states at ``times`` (the first is the initial one)."""
    if not (first.is_diagonal and second.is_diagonal):
        first, second = _with_matrices(first), _with_matrices(second)
    (f1, w1), (f2, w2) = _step_operators(first.linear, times), _step_operators(second.linear, times)
    column = (*f1.shape[1:-1], 1)
    mean, square = _state_moments(first.initial, f1, w1)
    gap = (first.linear.response(times) - second.linear.response(times)).reshape(-1, *column)
    e = gap[1:] - f2 @ gap[:-1]
    f = f1 - f2
    mixed = f @ mean @ _transpose(e)
    outer = f @ square @ _transpose(f) + mixed + _transpose(mixed) + e @ _transpose(e)
    apart = (first.initial.mean - second.initial.mean).reshape(column)
    v1, v2 = (_as_blocks(law.initial.covariance, 1) for law in (first, second))
    if first.initial.kind == "deterministic":
        # A point and an estimate of it, with or without a variance, are singular. They are
        # compared through the first transition, which sees the difference too.
        v1, v2 = v1 + w2[0], v2 + w2[0]
    return _gaussian_divergence(w1, w2, outer) + _gaussian_divergence(
        v1, v2, apart @ _transpose(apart)
    )


def _with_matrices(space: StateSpace) -> StateSpace:
    """The same law with matrices for all operators."""
    d, start = space.linear, space.initial
    drift, noise, spread = map(operators.as_matrix, (d.drift, d.noise, start.covariance))
    dynamics = dataclasses.replace(d, drift=drift, noise=noise)
    return space._replace(dynamics=dynamics, initial=start._replace(covariance=spread))


def _step_operators(dynamics: Linear, times: Array) -> tuple[Array, Array]:
    """``F`` and ``W`` of all steps; each (T - 1, blocks, n, n)."""
    transitions, which = dynamics.transitions(times)
    return _as_blocks(transitions.factor, 2)[which], _as_blocks(transitions.covariance, 2)[which]


def _as_blocks(a: Array, ndim_diagonal: int) -> Array:
    """Diagonals (..., N) as (..., N, 1, 1), matrices (..., N, N) as (..., 1, N, N)."""
    return a[..., None, None] if a.ndim == ndim_diagonal else a[..., None, :, :]


def _state_moments(initial: InitialState, f: Array, w: Array) -> tuple[Array, Array]:
    """``E c_t`` and ``E c_t c_t'`` before each step."""
    mean = [initial.mean.reshape(*f.shape[1:-1], 1)]
    covariance = [_as_blocks(initial.covariance, 1)]
    for factor, noise in zip(f[:-1], w[:-1], strict=True):
        mean.append(factor @ mean[-1])
        covariance.append(factor @ covariance[-1] @ _transpose(factor) + noise)
    m = np.stack(mean)
    return m, m @ _transpose(m) + np.stack(covariance)


def _gaussian_divergence(one: Array, two: Array, gap: Array) -> float:
    """``KL(N(m1, one) || N(m2, two))`` with the outer product of ``m1 - m2``, summed up."""
    (sign1, log1), (sign2, log2) = np.linalg.slogdet(one), np.linalg.slogdet(two)
    if (sign1 <= 0).any() or (sign2 <= 0).any():
        return float("inf")
    ratio = np.trace(np.linalg.solve(two, one + gap), axis1=-2, axis2=-1)
    return 0.5 * float((log2 - log1 - one.shape[-1] + ratio).sum())


def _transpose(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


def relative_l2(prediction: Array, truth: Array) -> float:
    """``mean over paths of |X_hat - X| / |X|``, norms over times and points."""
    error = np.nansum((prediction - truth) ** 2, axis=(1, 2))
    scored = np.where(np.isnan(prediction), np.nan, truth)
    norm = np.nansum(scored**2, axis=(1, 2))
    kept = norm > 0
    return float(np.sqrt(error[kept] / norm[kept]).mean()) if kept.any() else float("nan")


def rmse(prediction: Array, truth: Array) -> float:
    """Root mean square error pooled over paths, times and points."""
    return float(np.sqrt(np.nanmean((prediction - truth) ** 2)))


# ---------- Derived quantities: eigenmodes, growth, spectra, predictability
#
# All are functions of ``dc = -Lambda c dt + dW`` on the reported modes of a linear law, with
# intervals by the delta method: a function f of drift and noise has the variance ``sum_k
# (df(R_k))^2``, where the columns R_k are a root of the joint covariance of all their numbers.
# Where modes do not couple and the interval of an eigenvalue is that of its profile, a monotone
# function of it alone has the transformed interval; the stationary variance has its profile
# interval too.


Function = Callable[[Array, Array], Array]

#: Step of the differences, in standard errors.
DIFFERENCE_STEP = 1e-2
#: Share of the climatological variance at which a forecast counts as lost.
LOST_SHARE = 0.5


def eigenmodes(law: Law) -> xr.Dataset:
    """Decay rate and frequency of the eigenmodes of the drift, a row per real one or pair."""
    drift, _, roots, _ = _operators_with_roots(law)
    values, right = np.linalg.eig(drift)
    left = np.linalg.inv(right)
    kept = np.flatnonzero(values.imag >= 0)
    kept = kept[np.argsort(values[kept].real, kind="stable")]
    # d mu = w' dLambda v with w' v = 1.
    change = np.einsum("ki,rij,jk->rk", left, roots, right)[:, kept]
    mu = values[kept]
    rate, turn = mu.real, mu.imag
    rate_error, turn_error = (_root_sum_of_squares(slopes) for slopes in (change.real, change.imag))
    turn_error = np.where(turn > 0, turn_error, 0.0)
    ends, rate_ends = _profiled_rates(law), None
    if ends is not None:
        rate_ends = ends[np.abs(right[:, kept]).argmax(0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        period = np.where(turn > 0, 2 * np.pi / turn, np.inf)
        period_error = np.where(turn > 0, turn_error * period / turn, np.nan)
        times = None if rate_ends is None else 1.0 / rate_ends[:, ::-1]
        quantities = {
            "decay_rate": Quantity(rate, rate_error, True, rate_ends),
            "e_folding_time": Quantity(1 / rate, rate_error / rate**2, True, times),
            "frequency": Quantity(turn, turn_error, True),
            "period": Quantity(period, period_error, True),
        }
    tables = {k: (("eigenmode", "statistic"), _intervals(law, q)) for k, q in quantities.items()}
    tables["pattern"] = (("eigenmode", "mode"), right[:, kept].T)
    out = with_modes(tables, {"interval_level": law.parameters.attrs["interval_level"]})
    return out.assign_coords(eigenmode=np.arange(1, len(kept) + 1))


def stationary_covariance(law: Law) -> xr.DataArray:
    """``P`` with ``Lambda P + P Lambda' = Q``; dims (mode, mode_2, statistic)."""
    table = _with_intervals(law, operators.stationary_covariance, np.eye(law.n_modes, dtype=bool))
    if law.coordinates is not None and "stationary_variance" in law.coordinates:
        at = np.arange(law.n_modes)
        table[at, at, 2:] = law.coordinates["stationary_variance"].values
    return with_modes({"covariance": (("mode", "mode_2", "statistic"), table)}, {})["covariance"]


def optimal_growth(law: Law, times: Any) -> xr.Dataset:
    """Largest growth of energy over each lead time, and the patterns it starts and ends with."""
    leads = _check_lead_times(times)

    def propagator(drift: Array) -> Array:
        return transition(drift, np.zeros_like(drift), leads).factor

    def growth(drift: Array, noise: Array) -> Array:
        return np.linalg.norm(propagator(drift), 2, axis=(1, 2)) ** 2

    u, s, vt = np.linalg.svd(propagator(_operators_with_roots(law)[0]))
    tables = {
        "growth": (("time", "statistic"), _with_intervals(law, growth, True)),
        "initial_pattern": (("time", "mode"), vt[:, 0]),
        "final_pattern": (("time", "mode"), s[:, :1] * u[:, :, 0]),
    }
    return with_modes(tables, {}).assign_coords(time=leads)


def power_spectrum(law: Law, frequencies: Any) -> xr.DataArray:
    """Diagonal of ``(2 pi i f + Lambda)^-1 Q (2 pi i f + Lambda)^-H``.

    Dims (frequency, mode, statistic).
    """
    f = np.atleast_1d(numbers(frequencies))
    if f.ndim != 1 or not np.isfinite(f).all():
        expected, fix = "a vector of finite cycles per unit of time", "np.linspace(0, 1, 101)"
        raise InputError("frequencies", expected=expected, got=f"shape {f.shape}", fix=fix)

    def density(drift: Array, noise: Array) -> Array:
        response = np.linalg.inv(2j * np.pi * f[:, None, None] * np.eye(len(drift)) + drift)
        return np.einsum("fij,jk,fik->fi", response, noise, response.conj()).real

    table = _with_intervals(law, density, True)
    out = with_modes({"power": (("frequency", "mode", "statistic"), table)}, {})["power"]
    return out.assign_coords(frequency=f)


def predictability(law: Law, times: Any) -> xr.Dataset:
    """Error of the best forecast from a perfectly known state, relative to climatology."""
    leads = _check_lead_times(times)
    drift, noise, _, _ = _operators_with_roots(law)
    limit = _predictability_limit(drift, noise)
    # Delta method: the limit changes by the change of the error there over its slope in time.
    late = np.append(leads, limit * np.array([1.0 - DIFFERENCE_STEP, 1.0, 1.0 + DIFFERENCE_STEP]))

    def lost(drift: Array, noise: Array) -> Array:
        """Share of the variance of the field and of each mode, (leads, 1 + N)."""
        error_variance = np.einsum("tii->ti", transition(drift, noise, late).covariance)
        spread = np.diag(operators.stationary_covariance(drift, noise))
        return np.concatenate(
            [error_variance.sum(1, keepdims=True) / spread.sum(), error_variance / spread], axis=1
        )

    table = _with_intervals(law, lost, True)
    ends = _profiled_rates(law)
    if ends is not None:  # 1 - exp(-2 lambda t) of each mode
        share = -np.expm1(-2.0 * ends * late[:, None, None])
        table[:, 1:, 2:] = np.where(np.isnan(share), table[:, 1:, 2:], share)
    slope = (table[-1, 0, 0] - table[-3, 0, 0]) / (2.0 * DIFFERENCE_STEP * limit)
    at = Quantity(np.asarray(limit), np.asarray(table[-2, 0, 1] / slope), True)
    tables = {
        "error": (("time", "statistic"), table[:-3, 0]),
        "mode_error": (("time", "mode", "statistic"), table[:-3, 1:]),
        "limit": (("statistic",), _intervals(law, at)),
    }
    return with_modes(tables, {"lost": LOST_SHARE}).assign_coords(time=leads)


def _predictability_limit(drift: Array, noise: Array) -> float:
    """Lead time at which the error has the share `LOST_SHARE` of the climatological variance."""
    from scipy import optimize

    whole = np.trace(operators.stationary_covariance(drift, noise))

    def gap(log_lead: float) -> float:
        step = transition(drift, noise, np.exp([log_lead]))
        return float(np.trace(step.covariance[0]) / whole - LOST_SHARE)

    # The error grows at most linearly, and the line reaches the whole variance here.
    low = high = float(np.log(whole / np.trace(noise)))
    while gap(low) > 0:
        low -= 1.0
    while gap(high) < 0:
        high += 1.0
    return float(np.exp(optimize.brentq(gap, low, high, xtol=1e-10)))


def _profiled_rates(law: Law) -> Array | None:
    """Profile intervals of the eigenvalues, (N, 2), NaN where there is none; None without any."""
    names = set(law.info.get("profiled", []))
    is_profiled = np.array([f"eigenvalue[{n + 1}]" in names for n in range(law.n_modes)])
    if not is_profiled.any() or "eigenvalue" not in law.parameters:
        return None
    return np.where(is_profiled[:, None], law.parameters["eigenvalue"].values[:, 2:], np.nan)


def _check_lead_times(times: Any) -> Array:
    leads = check_times(times)
    if leads[0] < 0:
        expected, fix = "lead times of at least 0", "pass np.linspace(0, 10, 101)"
        raise InputError("times", expected=expected, got=f"{leads[0]:g}", fix=fix)
    return leads


def _operators_with_roots(law: Law) -> tuple[Array, Array, Array, Array]:
    """Drift and noise (n, n) of the reported modes, and roots of their covariance, (free, n, n).

    The roots are NaN where a law has no covariance.
    """
    n, d = law.n_modes, law.linear
    drift, noise = (operators.as_matrix(operators.leading(a, n)) for a in (d.drift, d.noise))
    if law.coordinates is None or "jacobian" not in law.coordinates:
        nothing = np.full((1, n, n), np.nan)
        return drift, noise, nothing, nothing
    columns = coordinate_root(law.coordinates["covariance"].values)
    roots = (law.coordinates["jacobian"].values @ columns).T
    drifts, noises = (
        np.stack(
            [operators.as_matrix(operators.leading(row.reshape(a.shape), n)) for row in root_rows]
        )
        for a, root_rows in (
            (d.drift, roots[:, : d.drift.size]),
            (d.noise, roots[:, d.drift.size :]),
        )
    )
    return drift, noise, drifts, noises


def _with_intervals(law: Law, function: Function, positive: bool | Array) -> Array:
    """Value, standard error and interval; (..., 4)."""
    drift, noise, drifts, noises = _operators_with_roots(law)
    value = function(drift, noise)
    if np.isnan(drifts).any():
        return _intervals(law, Quantity(value, np.full(np.shape(value), np.nan), positive))
    moved = (np.abs(drifts).max((1, 2)) > 0) | (np.abs(noises).max((1, 2)) > 0)
    slopes = []
    for a, b in zip(DIFFERENCE_STEP * drifts[moved], DIFFERENCE_STEP * noises[moved], strict=True):
        ahead, back = function(drift + a, noise + b), function(drift - a, noise - b)
        slopes.append((ahead - back) / (2 * DIFFERENCE_STEP))
    return _intervals(law, Quantity(value, _root_sum_of_squares(np.array(slopes)), positive))


def _root_sum_of_squares(slopes: Array) -> Array:
    return np.sqrt((slopes**2).sum(0))


def _intervals(law: Law, quantity: Quantity) -> Array:
    return interval_table(quantity, float(law.parameters.attrs["interval_level"]))
