"""What follows from drift and noise: life times, growth, spectra, distances between laws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.errors import InputError
from spdelaw.law.parameters import Quantity, coordinate_root, interval_table, with_modes
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear, transition
from spdelaw.processes.specification import InitialState, check_times
from spdelaw.statespace.chain import StateSpace

if TYPE_CHECKING:
    from spdelaw.law.law import Law


# ---------- How far one law is from another, and one set of fields from another (paper, section
# 3.3)
#
# The Kullback-Leibler divergence between two linear laws of the coefficients has a closed form.
#
# Both laws are Markov, ``c_{t+1} = F c_t + N(0, W)`` beside the mean that a forcing drives, so the
# chain rule over transitions gives
#
#     KL = KL(initial) + sum_t [ KL(N(0, W1) || N(0, W2)) + 1/2 E1 g_t' W2^-1 g_t ],
#     g_t = (F1 - F2) c_t + e_t,   e_t = d_{t+1} - F2 d_t,
#
# with ``c_t`` the unforced state under the first law and ``d_t`` the difference of the forced
# means. Modes on their own are as many laws of one mode each: operators are stacks of matrices,
# (..., N, 1, 1) where both laws are diagonal and (..., 1, N, N) where one is not.


Array = np.ndarray


def kl_divergence(first: StateSpace, second: StateSpace, times: Array) -> float:
    """``KL(first || second)`` per path for states at ``times`` (the first is the initial one)."""
    if not (first.is_diagonal and second.is_diagonal):
        first, second = _with_matrices(first), _with_matrices(second)
    (f1, w1), (f2, w2) = _steps(first.linear, times), _steps(second.linear, times)
    column = (*f1.shape[1:-1], 1)
    mean, square = _moments(first.initial, f1, w1)
    gap = (first.linear.response(times) - second.linear.response(times)).reshape(-1, *column)
    e = gap[1:] - f2 @ gap[:-1]
    f = f1 - f2
    mixed = f @ mean @ _turned(e)
    outer = f @ square @ _turned(f) + mixed + _turned(mixed) + e @ _turned(e)
    apart = (first.initial.mean - second.initial.mean).reshape(column)
    v1, v2 = (_stack(law.initial.covariance, 1) for law in (first, second))
    if first.initial.kind == second.initial.kind == "deterministic":
        # Two points: equal or singular. Estimates of a point differ by rounding or noise, so
        # they are compared through the first transition, which sees the difference too.
        v1 = v2 = w2[0]
    return _gaussian(w1, w2, outer) + _gaussian(v1, v2, apart @ _turned(apart))


def _with_matrices(space: StateSpace) -> StateSpace:
    """The same law with matrices for all operators."""
    d, start = space.linear, space.initial
    drift, noise, spread = map(operators.as_matrix, (d.drift, d.noise, start.covariance))
    own = dataclasses.replace(d, drift=drift, noise=noise)
    return space._replace(dynamics=own, initial=start._replace(covariance=spread))


def _steps(dynamics: Linear, times: Array) -> tuple[Array, Array]:
    """``F`` and ``W`` of all steps; each (T - 1, blocks, n, n)."""
    found, which = dynamics.transitions(times)
    return _stack(found.factor, 2)[which], _stack(found.covariance, 2)[which]


def _stack(a: Array, ndim_diagonal: int) -> Array:
    """Diagonals (..., N) as (..., N, 1, 1), matrices (..., N, N) as (..., 1, N, N)."""
    return a[..., None, None] if a.ndim == ndim_diagonal else a[..., None, :, :]


def _moments(initial: InitialState, f: Array, w: Array) -> tuple[Array, Array]:
    """``E c_t`` and ``E c_t c_t'`` before each step."""
    mean = [initial.mean.reshape(*f.shape[1:-1], 1)]
    covariance = [_stack(initial.covariance, 1)]
    for factor, noise in zip(f[:-1], w[:-1], strict=True):
        mean.append(factor @ mean[-1])
        covariance.append(factor @ covariance[-1] @ _turned(factor) + noise)
    m = np.stack(mean)
    return m, m @ _turned(m) + np.stack(covariance)


def _gaussian(one: Array, two: Array, gap: Array) -> float:
    """``KL(N(m1, one) || N(m2, two))`` with the outer product of ``m1 - m2``, summed up."""
    (sign1, log1), (sign2, log2) = np.linalg.slogdet(one), np.linalg.slogdet(two)
    if (sign1 <= 0).any() or (sign2 <= 0).any():
        return float("inf")
    ratio = np.trace(np.linalg.solve(two, one + gap), axis1=-2, axis2=-1)
    return 0.5 * float((log2 - log1 - one.shape[-1] + ratio).sum())


def _turned(a: Array) -> Array:
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


# ---------- What follows from drift and noise: life times, growth, spectra, predictability
#
# All of ``dc = -Lambda c dt + dW`` on the reported modes of a linear law, with intervals by the
# delta method: a function f of drift and noise has the variance ``sum_k (df(R_k))^2``, where the
# columns R_k are a root of the joint covariance of all their numbers. Where modes do not couple and
# the interval of an eigenvalue is that of its profile, what rises or falls with it alone has the
# same interval, and so has the stationary variance its own.


Function = Callable[[Array, Array], Array]

#: Step of the differences, in standard errors.
STEP = 1e-2
#: Share of the climatological variance at which a forecast counts as lost.
LOST = 0.5


def eigenmodes(law: Law) -> xr.Dataset:
    """Decay and turn of the eigenmodes of the drift, a row per real one or complex pair."""
    drift, _, roots, _ = _numbers(law)
    values, right = np.linalg.eig(drift)
    left = np.linalg.inv(right)
    kept = np.flatnonzero(values.imag >= 0)
    kept = kept[np.argsort(values[kept].real, kind="stable")]
    # d mu = w' dLambda v with w' v = 1.
    change = np.einsum("ki,rij,jk->rk", left, roots, right)[:, kept]
    mu = values[kept]
    rate, turn = mu.real, mu.imag
    rate_error, turn_error = (_norm(part) for part in (change.real, change.imag))
    turn_error = np.where(turn > 0, turn_error, 0.0)
    ends, own = _profiled_rates(law), None
    if ends is not None:
        own = ends[np.abs(right[:, kept]).argmax(0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        period = np.where(turn > 0, 2 * np.pi / turn, np.inf)
        period_error = np.where(turn > 0, turn_error * period / turn, np.nan)
        times = None if own is None else 1.0 / own[:, ::-1]
        quantities = {
            "decay_rate": Quantity(rate, rate_error, True, own),
            "e_folding_time": Quantity(1 / rate, rate_error / rate**2, True, times),
            "frequency": Quantity(turn, turn_error, True),
            "period": Quantity(period, period_error, True),
        }
    tables = {k: (("eigenmode", "statistic"), _table(law, q)) for k, q in quantities.items()}
    tables["pattern"] = (("eigenmode", "mode"), right[:, kept].T)
    out = with_modes(tables, {"interval_level": law.parameters.attrs["interval_level"]})
    return out.assign_coords(eigenmode=np.arange(1, len(kept) + 1))


def stationary_covariance(law: Law) -> xr.DataArray:
    """``P`` with ``Lambda P + P Lambda' = Q``; dims (mode, mode_2, statistic)."""
    found = _with_intervals(law, operators.stationary_covariance, np.eye(law.n_modes, dtype=bool))
    if law.coordinates is not None and "stationary_variance" in law.coordinates:
        at = np.arange(law.n_modes)
        found[at, at, 2:] = law.coordinates["stationary_variance"].values
    return with_modes({"covariance": (("mode", "mode_2", "statistic"), found)}, {})["covariance"]


def optimal_growth(law: Law, times: Any) -> xr.Dataset:
    """Largest growth of energy over each lead time, and the patterns it starts and ends with."""
    leads = _leads(times)

    def propagator(drift: Array) -> Array:
        return transition(drift, np.zeros_like(drift), leads).factor

    def growth(drift: Array, noise: Array) -> Array:
        return np.linalg.norm(propagator(drift), 2, axis=(1, 2)) ** 2

    u, s, vt = np.linalg.svd(propagator(_numbers(law)[0]))
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
    f = np.atleast_1d(np.asarray(frequencies, dtype=float))
    if f.ndim != 1 or not np.isfinite(f).all():
        expected, fix = "a vector of finite cycles per unit of time", "np.linspace(0, 1, 101)"
        raise InputError("frequencies", expected=expected, got=f"shape {f.shape}", fix=fix)

    def density(drift: Array, noise: Array) -> Array:
        response = np.linalg.inv(2j * np.pi * f[:, None, None] * np.eye(len(drift)) + drift)
        return np.einsum("fij,jk,fik->fi", response, noise, response.conj()).real

    found = _with_intervals(law, density, True)
    out = with_modes({"power": (("frequency", "mode", "statistic"), found)}, {})["power"]
    return out.assign_coords(frequency=f)


def predictability(law: Law, times: Any) -> xr.Dataset:
    """Error of the best forecast from a perfectly known state, relative to climatology."""
    leads = _leads(times)
    drift, noise, _, _ = _numbers(law)
    limit = _limit(drift, noise)
    # The limit moves by the change of the error there over its slope in time.
    late = np.append(leads, limit * np.array([1.0 - STEP, 1.0, 1.0 + STEP]))

    def lost(drift: Array, noise: Array) -> Array:
        """Share of the variance of the field and of each mode, (leads, 1 + N)."""
        own = np.einsum("tii->ti", transition(drift, noise, late).covariance)
        spread = np.diag(operators.stationary_covariance(drift, noise))
        return np.concatenate([own.sum(1, keepdims=True) / spread.sum(), own / spread], axis=1)

    found = _with_intervals(law, lost, True)
    ends = _profiled_rates(law)
    if ends is not None:  # 1 - exp(-2 lambda t) of each mode
        share = -np.expm1(-2.0 * ends * late[:, None, None])
        found[:, 1:, 2:] = np.where(np.isnan(share), found[:, 1:, 2:], share)
    slope = (found[-1, 0, 0] - found[-3, 0, 0]) / (2.0 * STEP * limit)
    at = Quantity(np.asarray(limit), np.asarray(found[-2, 0, 1] / slope), True)
    tables = {
        "error": (("time", "statistic"), found[:-3, 0]),
        "mode_error": (("time", "mode", "statistic"), found[:-3, 1:]),
        "limit": (("statistic",), _table(law, at)),
    }
    return with_modes(tables, {"lost": LOST}).assign_coords(time=leads)


def _limit(drift: Array, noise: Array) -> float:
    """Lead time at which the error has the share `LOST` of the climatological variance."""
    from scipy import optimize

    whole = np.trace(operators.stationary_covariance(drift, noise))

    def gap(log_lead: float) -> float:
        step = transition(drift, noise, np.exp([log_lead]))
        return float(np.trace(step.covariance[0]) / whole - LOST)

    # The error grows at most like a straight line that reaches all of it here.
    low = high = float(np.log(whole / np.trace(noise)))
    while gap(low) > 0:
        low -= 1.0
    while gap(high) < 0:
        high += 1.0
    return float(np.exp(optimize.brentq(gap, low, high, xtol=1e-10)))


def _profiled_rates(law: Law) -> Array | None:
    """Ends of the eigenvalues' intervals, (N, 2), NaN where not of a profile; None without any."""
    names = set(law.info.get("profiled", []))
    is_own = np.array([f"eigenvalue[{n + 1}]" in names for n in range(law.n_modes)])
    if not is_own.any() or "eigenvalue" not in law.parameters:
        return None
    return np.where(is_own[:, None], law.parameters["eigenvalue"].values[:, 2:], np.nan)


def _leads(times: Any) -> Array:
    leads = check_times(times)
    if leads[0] < 0:
        expected, fix = "lead times of at least 0", "pass np.linspace(0, 10, 101)"
        raise InputError("times", expected=expected, got=f"{leads[0]:g}", fix=fix)
    return leads


def _numbers(law: Law) -> tuple[Array, Array, Array, Array]:
    """Drift and noise (n, n) of the reported modes, and roots of their covariance, (free, n, n).

    The roots are NaN where a law knows no covariance.
    """
    n, d = law.n_modes, law.linear
    drift, noise = (operators.as_matrix(operators.leading(a, n)) for a in (d.drift, d.noise))
    if law.coordinates is None or "jacobian" not in law.coordinates:
        nothing = np.full((1, n, n), np.nan)
        return drift, noise, nothing, nothing
    columns = coordinate_root(law.coordinates["covariance"].values)
    roots = (law.coordinates["jacobian"].values @ columns).T
    drifts, noises = (
        np.stack([operators.as_matrix(operators.leading(row.reshape(a.shape), n)) for row in part])
        for a, part in ((d.drift, roots[:, : d.drift.size]), (d.noise, roots[:, d.drift.size :]))
    )
    return drift, noise, drifts, noises


def _with_intervals(law: Law, function: Function, positive: bool | Array) -> Array:
    """Value, standard error and interval; (..., 4)."""
    drift, noise, drifts, noises = _numbers(law)
    value = function(drift, noise)
    if np.isnan(drifts).any():
        return _table(law, Quantity(value, np.full(np.shape(value), np.nan), positive))
    moved = (np.abs(drifts).max((1, 2)) > 0) | (np.abs(noises).max((1, 2)) > 0)
    slopes = []
    for a, b in zip(STEP * drifts[moved], STEP * noises[moved], strict=True):
        ahead, back = function(drift + a, noise + b), function(drift - a, noise - b)
        slopes.append((ahead - back) / (2 * STEP))
    return _table(law, Quantity(value, _norm(np.array(slopes)), positive))


def _norm(slopes: Array) -> Array:
    return np.sqrt((slopes**2).sum(0))


def _table(law: Law, quantity: Quantity) -> Array:
    return interval_table(quantity, float(law.parameters.attrs["interval_level"]))
