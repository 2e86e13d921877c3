"""From an estimate to a `Law`: quantities, intervals, warnings, provenance."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.data.quality import ends
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer.model import Model
from spdelaw.infer.optimise import Estimate, Fit
from spdelaw.infer.parameters import Single, Squared
from spdelaw.infer.uncertainty import STATIONARY, likelihood_ends, normal_quantile
from spdelaw.law.io import coordinates_dataset
from spdelaw.law.law import Law, state_space_law
from spdelaw.law.likelihood import Numbers, density_entries, statistics_density
from spdelaw.law.parameters import Quantity, parameters_dataset
from spdelaw.law.provenance import Provenance, software
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace

# ---------- Identifiability: parameters without information, and pairs that trade off


Array = np.ndarray

#: Standard error of a logarithm above which its number is undetermined (a factor of 20).
UNDETERMINED_ERROR = 1.5
#: Coordinates of matrices: their correlations say nothing about the matrices themselves.
MATRIX_COORDINATES = ("drift_", "noise_root", "noise_factor", "initial_root")
#: Noise variance, relative to the largest, that is rounding of the other modes.
ROUNDING_VARIANCE = 1e-22
#: Decay per step above which all modes are too fast; the second where a number is undetermined.
FAST_DECAY, FAST_DECAY_UNDETERMINED = 5.0, 2.0
#: Correlation above which two estimates are inseparable.
INSEPARABLE_CORRELATION = 0.98
#: Standard errors from zero from which on a number of either sign is determined.
CLEAR_OF_ZERO = 2.0


def identifiability_messages(report: dict[str, list]) -> list[str]:
    """Messages for the report of `identifiability`."""
    out = []
    if report["undetermined"]:
        labels = _join_with_and(_group_labels(report["undetermined"]))
        out.append(
            f"the data do not determine {labels}: their intervals span a factor of 20 or more"
        )
    out += [f"the data cannot separate {a} from {b}" for a, b in report["inseparable"][:5]]
    if report["silent"]:
        modes = _join_with_and([str(n) for n in report["silent"]])
        out.append(
            f"no energy beyond rounding errors in modes {modes}: ignore their parameters, and fit "
            "fewer modes"
        )
    return out


def identifiability(estimate: Estimate, n_modes: int) -> dict[str, list]:
    """Parameters the data do not determine, pairs they cannot separate, modes without energy.

    Read from the covariance of the coordinates; nuisance parameters are not reported.
    """
    columns = estimate.columns
    stderr = np.sqrt((columns**2).sum(-1))
    names, is_log = estimate.parametrisation.names, estimate.parametrisation.is_log
    hidden = ("nuisance", "initial_mean", "initial_variance", *MATRIX_COORDINATES)
    shown = [i for i in np.flatnonzero(stderr > 0) if not names[i].startswith(hidden)]
    undetermined = [names[i] for i in shown if is_log[i] and stderr[i] > UNDETERMINED_ERROR]
    determined = [i for i in shown if names[i] not in undetermined]
    determined_columns, size = columns[determined], stderr[determined]
    close = np.abs(determined_columns @ determined_columns.T) > INSEPARABLE_CORRELATION * np.outer(
        size, size
    )
    if not isinstance(estimate.state_space.dynamics, Linear):
        # Coefficients of u and u^3 are correlated by nature: what counts is whether both are poor.
        at = estimate.full[determined]
        poor = is_log[determined] | (np.abs(at) < CLEAR_OF_ZERO * size)
        close &= np.outer(poor, poor)
    pairs = [
        [names[determined[i]], names[determined[j]]] for i, j in np.argwhere(np.triu(close, 1))
    ]
    report: dict[str, list] = {
        "undetermined": undetermined,
        "inseparable": pairs,
        "silent": [],
    }
    if not isinstance(estimate.state_space.dynamics, Linear):
        return report
    q = operators.diagonal(estimate.state_space.linear.noise)
    silent = [int(n) + 1 for n in np.flatnonzero(q <= ROUNDING_VARIANCE * q.max())]
    more = undetermined_eigenmodes(estimate, n_modes)
    return report | {"undetermined": undetermined + more, "silent": silent}


def undetermined_eigenmodes(estimate: Estimate, n_modes: int) -> list[str]:
    """Eigenmodes of a drift matrix whose decay rate the data leave open by a factor of 20."""
    drift = operators.leading(estimate.state_space.linear.drift, n_modes)
    if operators.is_diagonal(drift):
        return []
    rates, error = _rates_with_errors(estimate, drift)
    open_ones = (error > UNDETERMINED_ERROR * np.abs(rates.real)) & (rates.imag >= 0)
    return [f"the eigenmode of decay rate {r:.3g}" for r in np.sort(rates.real[open_ones])]


def _rates_with_errors(estimate: Estimate, drift: Array) -> tuple[Array, Array]:
    """Eigenvalues of the leading drift and the errors of their real parts; (n,) each.

    ``d rate = left' dLambda right``, its slope by the coordinates times their columns.
    """
    rates, right = np.linalg.eig(drift)
    left, parametrisation, n = np.linalg.inv(right), estimate.parametrisation, len(rates)
    where, by = parametrisation.slices["drift"], np.zeros(estimate.state_space.linear.drift.shape)
    slopes = np.empty((n, where.stop - where.start))
    for k in range(n):
        by[:n, :n] = np.outer(left[k], right[:, k]).real
        slopes[k] = parametrisation.parts["drift"].pull_back(estimate.full[where], by)
    change = np.nan_to_num(slopes) @ estimate.columns[where]
    return rates, np.sqrt((change**2).sum(-1))


def _group_labels(labels: list[str]) -> list[str]:
    """Labels such as ``eigenvalue[3]``, those of one name together: ``eigenvalue[1-3, 7]``."""
    modes: dict[str, list[int]] = {}
    out: list[str] = []
    for label in labels:
        name, _, number = label.removesuffix("]").partition("[")
        if number.isdigit():
            modes.setdefault(name, []).append(int(number))
        else:
            out.append(label)
    return [f"{name}[{', '.join(_ranges(numbers))}]" for name, numbers in modes.items()] + out


def _ranges(numbers: list[int]) -> list[str]:
    """Increasing numbers, neighbours as a range: 1, 2-4, 9."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True)]


def _join_with_and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def time_unit_hint(rates: Array, dt: float, span: float, some_unknown: bool) -> str | None:
    """A hint where every mode is much faster than a step or much slower than the record."""
    # White noise has a lag-one correlation of 1 / sqrt(n) by chance, which looks like a decay
    # of log(n) / 2 per step: where intervals are wide open, less is enough.
    if (rates * dt > (FAST_DECAY_UNDETERMINED if some_unknown else FAST_DECAY)).all():
        return (
            f"all modes decay within one time step ({dt:g}): the eigenvalues are lower bounds; "
            "check the unit of time, or observe more often"
        )
    if (rates * span < NO_DECAY).all():
        return (
            f"no mode decays noticeably within the record ({span:g}): check the unit of time, or "
            "observe longer"
        )
    return None


# ---------- Reported parameters with delta-method standard errors
#
# A number ``f(phi)`` of coordinates with covariance ``C C'`` has the variance ``|J C|^2``.


#: Factor of a positive number from which on one standard error is infinite.
LARGEST_FACTOR = 1000.0
#: Names of the operators: of spectra, and of matrices.
OPERATOR_NAMES = {
    "drift": ("eigenvalue", "drift"),
    "noise": ("noise_variance", "noise_covariance"),
    "initial_variance": ("initial_variance", "initial_covariance"),
}


def quantities(
    fit: Fit, observation_variance: Array, ends: Mapping[str, Array]
) -> dict[str, Quantity]:
    """Every reported parameter by name.

    Variances and eigenvalues have intervals on the log scale, everything else symmetric ones,
    unless ``ends`` gives others by name. Where drift or noise couple the modes, all operators
    are matrices.
    """
    estimate, n, dynamics = fit.estimate, fit.n_modes, fit.estimate.state_space.dynamics
    is_linear = isinstance(dynamics, Linear)
    coupled = isinstance(dynamics, Linear) and not dynamics.is_diagonal
    values = estimate.parametrisation.values(estimate.full)
    out = {} if is_linear else _dynamics_quantities(estimate, values)
    out |= {
        names[coupled]: _operator_quantity(estimate, part, n, coupled)
        for part, names in OPERATOR_NAMES.items()
        if part in values and part not in out
    }
    if is_linear and "season" in values:
        out["season"] = Quantity(values["season"], _row_norms(estimate.roots("season")), True)
    error = fit.initial_error
    error = _initial_mean_errors(estimate, n) if error is None else error
    out["initial_mean"] = Quantity(estimate.state_space.initial.mean[:n], error, False)
    if estimate.mean is not None:
        out["mean"] = Quantity(estimate.mean.value[:n], estimate.mean.errors[:n], False)
    std = np.sqrt(observation_variance)
    error = fit.point_error
    if error is None:
        error = std * _coordinate_errors(estimate, "observation", 1)[0]
    out["observation_std"] = Quantity(std, error, True)
    out |= _tied_quantities(estimate) if is_linear else {}
    return {name: _finite(quantity._replace(ends=ends.get(name))) for name, quantity in out.items()}


def _finite(quantity: Quantity) -> Quantity:
    """The quantity with errors that its intervals bear out.

    Curvature in a direction without information has errors of any size: they are at most the width
    of an interval by likelihood, or infinite where that has no end and a factor of `LARGEST_FACTOR`
    is open.
    """
    if quantity.ends is None:
        return quantity
    width = quantity.ends[..., 1] - quantity.ends[..., 0]
    error = np.where(quantity.stderr > width, 0.5 * width, quantity.stderr)
    is_open = np.isinf(width) & (error > np.log(LARGEST_FACTOR) * np.abs(quantity.estimate))
    return quantity._replace(stderr=np.where(is_open & quantity.positive, np.inf, error))


def _dynamics_quantities(estimate: Estimate, values: Mapping[str, Array]) -> dict[str, Quantity]:
    """Parameters of dynamics of any kind, by their own names."""
    out, dynamics = {}, estimate.state_space.dynamics
    for name in dynamics.parameters:
        error = np.reshape(_row_norms(estimate.roots(name)), np.shape(values[name]))
        out[name] = Quantity(values[name], error, name in dynamics.positive)
    return out


def _operator_quantity(estimate: Estimate, part: str, n: int, coupled: bool) -> Quantity:
    """Operator of n modes; of matrices only variances are positive, no entries of a drift."""
    both = estimate.parametrisation.values(estimate.full)[part], _row_norms(estimate.roots(part))
    value, error = (operators.leading(x, n) for x in both)
    if not coupled:
        return Quantity(value, error, True)
    is_positive = np.eye(n, dtype=bool) & (part != "drift")
    return Quantity(operators.as_matrix(value), operators.as_matrix(error), is_positive)


def initial_variance_ends(estimate: Estimate, n_modes: int, level: float) -> dict[str, Array]:
    """Ends of the intervals of initial variances, by name; from zero where that is compatible.

    ``unit^2 (|phi| -+ z error)^2``, where the coordinates are roots.
    """
    part = estimate.parametrisation.parts.get("initial_variance")
    if not isinstance(part, Squared):
        return {}
    phi = np.abs(estimate.full[estimate.parametrisation.slices["initial_variance"]])
    reach = normal_quantile(level) * estimate.errors("initial_variance")
    roots = np.stack([np.maximum(phi - reach, 0.0), phi + reach], axis=-1)
    return {"initial_variance": (np.asarray(part.unit)[:, None] * roots)[:n_modes] ** 2}


def _row_norms(roots: Array) -> Array:
    return np.sqrt((roots**2).sum(-1))


def _coordinate_errors(estimate: Estimate, part: str, n: int) -> Array:
    """Standard errors of a part's coordinates; zero where it has none."""
    if part not in estimate.parametrisation.parts:
        return np.zeros(n)
    return estimate.errors(part)[:n]


def _initial_mean_errors(estimate: Estimate, n: int) -> Array:
    """Standard errors of the initial mean, which is that of the deviation from the mean."""
    if estimate.mean is None or not estimate.mean.anchored:
        return _coordinate_errors(estimate, "initial_mean", n)
    where, slopes = estimate.parametrisation.slices.get("initial_mean"), estimate.mean.slopes
    roots = -slopes if where is None else estimate.columns[where] - slopes
    return np.sqrt((roots**2).sum(-1) + np.diag(estimate.mean.given))[:n]


def _tied_quantities(estimate: Estimate) -> dict[str, Quantity]:
    """The few numbers of a parametric law, nuisance modes included."""
    names, is_log = estimate.parametrisation.names, estimate.parametrisation.is_log
    errors, out = _row_norms(estimate.columns), {}
    for i, name in enumerate(names):
        if "[" in name or name == "observation_std":
            continue
        value = np.exp(estimate.full[i]) if is_log[i] else estimate.full[i]
        error = errors[i] * (value if is_log[i] else 1.0)
        out[name] = Quantity(np.asarray(value), np.asarray(error), bool(is_log[i]))
    return out


def operators_jacobian(estimate: Estimate) -> Array:
    """Derivative of drift and noise, each flattened, by the coordinates; (K, p)."""
    jacobians = [
        estimate.parametrisation.jacobian(name, estimate.full) for name in ("drift", "noise")
    ]
    sizes = [int(np.prod(jacobian.shape[:-1])) for jacobian in jacobians]
    out, first = np.zeros((sum(sizes), len(estimate.full))), 0
    for name, jacobian, size in zip(("drift", "noise"), jacobians, sizes, strict=True):
        block = out[first : first + size, estimate.parametrisation.slices[name]]
        block[:] = jacobian.reshape(size, -1)
        first += size
    return np.nan_to_num(out, copy=False)


# ---------- Assembly of the `Law`: intervals, notes, provenance


#: Decay per step that is the same as any larger one, to rounding: ``exp(-40)``.
FASTEST_DECAY = 40.0
#: Decay within the record that is none.
NO_DECAY = 1e-3
#: Least decay rate of coupled modes, relative to the largest eigenvalue: far above rounding.
LEAST_DECAY = 1e-9
#: Size of the mean, relative to the largest value, from which on it stands for a trend.
FARTHEST_MEAN = 2.0


def assemble(fit: Fit, observed: Observed, model: Model, level: float, profile: bool = True) -> Law:
    """Law with its parameters, standard errors, warnings and provenance."""
    estimate, state_space = fit.estimate, fit.estimate.state_space
    report = identifiability(estimate, fit.n_modes)
    variance = _observation_variance(fit, model)
    is_linear, hint = isinstance(state_space.dynamics, Linear), None
    if is_linear:
        rates = operators.decay_rates(operators.leading(state_space.linear.drift, fit.n_modes))
        dt = float(np.median(np.diff(np.unique(observed.times))))
        hint = time_unit_hint(rates, dt, observed.span, bool(report["undetermined"]))
        hint = hint or _bound_message(rates, observed.span) or _far_mean_message(estimate, observed)
    messages = list(filter(None, [*identifiability_messages(report), hint]))
    if messages:
        warnings.warn("; ".join(messages), IdentifiabilityWarning, stacklevel=4)
    notes = list(filter(None, [*fit.notes, *messages, estimate.optimum.note]))
    kind: dict[str, Any] = {"initial_state": state_space.initial.kind}
    clock = time.perf_counter()
    if hasattr(state_space.dynamics, "terms"):
        kind |= {"terms": list(state_space.dynamics.terms)}
    ends, profiled, n_for_ends = (
        likelihood_ends(estimate, fit.n_modes, level, all_means=model.mean == "constant")
        if profile and is_linear
        else ({}, [], 0)
    )
    ends |= initial_variance_ends(estimate, fit.n_modes, level)
    if is_linear:
        estimate = with_finite_rates(estimate, observed.step)
        fit, state_space = dataclasses.replace(fit, estimate=estimate), estimate.state_space
    seconds = {**fit.seconds, "intervals": time.perf_counter() - clock}
    entries = {"warnings": notes, "identifiability": report, "profiled": profiled}
    entries |= {"seconds": {k: round(v, 4) for k, v in seconds.items()}}
    entries |= _density_info(fit, observed)
    jacobian = operators_jacobian(estimate) if is_linear else None
    tables = [estimate.full, estimate.covariance, jacobian, ends.get(STATIONARY)]
    if estimate.mean is not None:
        slopes = estimate.mean.slopes @ np.linalg.pinv(estimate.columns)
        tables += [estimate.mean.given, slopes]
    return state_space_law(
        observed,
        fit.n_modes,
        (_decaying(state_space) if is_linear else state_space).with_noise(variance),
        parameters_dataset(quantities(fit, variance, ends), level, kind),
        unresolved_variance=float(fit.outside_variance),
        info=Provenance.of(_info(fit, observed, model, n_for_ends) | entries),
        coordinates=coordinates_dataset(estimate.parametrisation.names, *tables),
        statistics=fit.statistics,
    )


def with_finite_rates(estimate: Estimate, step: float) -> Estimate:
    """The estimate with rates up to `FASTEST_DECAY` a step, and the same stationary variances.

    The likelihood of a mode that is white in time rises towards an infinite rate.
    """
    parts, slices = estimate.parametrisation.parts, estimate.parametrisation.slices
    linear = estimate.state_space.linear
    single = all(isinstance(parts.get(name), Single) for name in ("drift", "noise"))
    if not single or linear.forcing is not None or not (linear.drift * step > FASTEST_DECAY).any():
        return estimate
    is_free = (estimate.columns[slices["drift"]] != 0).any(1)
    is_free &= (estimate.columns[slices["noise"]] != 0).any(1)
    drift = np.where(is_free, np.minimum(linear.drift, FASTEST_DECAY / step), linear.drift)
    full = estimate.full.copy()
    full[slices["drift"]] = parts["drift"].start(drift)
    full[slices["noise"]] = parts["noise"].start(linear.noise * drift / linear.drift)
    return estimate._replace(full=full, state_space=estimate.parametrisation.state_space(full))


def _bound_message(rates: Array, span: float) -> str | None:
    """A message about modes whose decay is estimated as none."""
    modes = [str(n) for n in np.flatnonzero(rates * span < NO_DECAY) + 1]
    if not modes:
        return None
    return (
        f"the decay of mode {_join_with_and(modes)} is at its bound of zero: it does not decay "
        f"within the record ({span:g}), or it grows, which a stable law cannot describe; use a "
        "longer record, or remove a trend first (--detrend, in Python "
        "sl.Preparation(detrend=True))"
    )


def _far_mean_message(estimate: Estimate, observed: Observed) -> str | None:
    """A message about a mean that the values never come near."""
    if estimate.mean is None or observed.is_lazy:
        return None
    mean = observed.basis(len(estimate.mean.value)) @ estimate.mean.value
    low, high = ends(observed.values) if observed.reading is None else observed.reading[:2]
    ratio = float(np.abs(mean).max()) / max(abs(low), abs(high))
    if ratio < FARTHEST_MEAN:
        return None
    return (
        f"the mean is {ratio:.2g} times the largest value: the data relax towards it and do not "
        "reach it, or they have a trend; subtract it (--detrend, in Python "
        "sl.Preparation(detrend=True))"
    )


def _decaying(space: StateSpace) -> StateSpace:
    """The state space with a drift whose modes all decay in spite of rounding.

    A cycle that nothing disturbs has no decay in a fit of coupled modes; an eigenvalue of zero,
    less its rounding, would be no stable law.
    """
    drift, initial = space.linear.drift, space.initial
    stable = drift if operators.is_diagonal(drift) else operators.decaying(drift, LEAST_DECAY)
    if stable is drift:
        return space
    dynamics = dataclasses.replace(space.linear, drift=stable)
    if initial.kind == "stationary":
        covariance = operators.stationary_covariance(dynamics.drift, dynamics.noise)
        initial = initial._replace(covariance=operators.like(initial.covariance, covariance))
    return space._replace(dynamics=dynamics, initial=initial)


def _density_info(fit: Fit, observed: Observed) -> dict[str, Any]:
    """Entries on the log density of the data, and on the numbers it is a density of."""
    estimate, density = fit.estimate, fit.density
    if density is None and fit.statistics is not None:
        start, phi = estimate.state_space.initial, observed.basis(fit.n_modes)
        if estimate.mean is not None:
            start = start._replace(mean=start.mean + estimate.mean.value)
        density = statistics_density(
            fit.statistics, estimate.log_likelihood, start, phi.T @ phi, fit.outside_variance
        )
    value, of = density or (estimate.log_likelihood, Numbers("values", int(fit.n_observed)))
    restricted = (
        {} if estimate.mean is None else {"restricted_log_likelihood": estimate.mean.restricted}
    )
    return density_entries(value, of, observed) | restricted


def _observation_variance(fit: Fit, model: Model) -> Array:
    """Reported noise variance; a working variance that only conditions the filter is none."""
    if fit.point_variance is not None:
        return fit.point_variance
    if "observation" in fit.estimate.parametrisation.parts:
        return fit.estimate.state_space.observation_variance
    fixed_variance = model.known_variance
    if fixed_variance is not None and np.ndim(fixed_variance) > 1:
        # The mean of the variances of single values stands for that of a new value.
        return np.asarray(np.nanmean(fixed_variance))
    return np.asarray(0.0 if fixed_variance is None else fixed_variance)


def _info(fit: Fit, observed: Observed, model: Model, n_for_ends: int) -> dict[str, Any]:
    estimate = fit.estimate
    return {
        "engine": fit.engine,
        "route": fit.route,
        **observed.sizes,
        "n_observed": float(fit.n_observed),
        "n_parameters": estimate.n_free,
        "n_nuisance": estimate.state_space.n_modes - fit.n_modes,
        "initial_state": estimate.state_space.initial.kind,
        "drift": model.drift,
        "noise": model.noise,
        "mean": "zero" if estimate.mean is None else "constant",
        **({"noise_rank": model.noise_rank} if model.noise == "low_rank" else {}),
        "decisions": _decisions(fit),
        "converged": estimate.optimum.converged,
        "standard_errors": estimate.optimum.curvature,
        "convergence": {
            "evaluations": estimate.optimum.n_evaluations,
            "evaluations_for_intervals": n_for_ends,
            "remaining_gain": float(estimate.optimum.decrement),
            "slope_without_end": float(estimate.optimum.uphill),
        },
        **software(scipy),
    }


def _decisions(fit: Fit) -> dict[str, Any]:
    """What was decided about the data, with the finite numbers that were compared."""
    return {
        about: {
            "answer": decision.answer,
            **{k: float(v) for k, v in decision.compared.items() if np.isfinite(v)},
        }
        for about, decision in fit.decisions.items()
    }
