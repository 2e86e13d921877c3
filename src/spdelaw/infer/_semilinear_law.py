"""From a semilinear fit to a `Law`: intervals, start, density, and what it says about itself."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from spdelaw.equation import InitialState, Reacting, substeps
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer._semilinear_sight import Sight, States
from spdelaw.infer._semilinear_start import first_states
from spdelaw.infer._several_fields import field_notes
from spdelaw.infer.semilinear import ALLOWED_SHIFT, FAST, SemilinearFit, coarse
from spdelaw.law import (
    Law,
    Numbers,
    Quantity,
    batches,
    density_entries,
    log_density,
    parameters_dataset,
    software,
    state_space_law,
    statistics_density,
)
from spdelaw.model import StateSpace, Statistics, closure_log_likelihood, transitions

Array = np.ndarray

ENGINE = "semilinear"
#: Correlation of two estimates from which on, if both are poor, the data do not tell them apart.
ALIKE = 0.95


def law_of(fit: SemilinearFit, sight: Sight, level: float) -> Law:
    """Law with its parameters, standard errors and everything it should say about itself."""
    closure, names, observed = fit.layout.closure(fit.x), fit.layout.reaction.names, sight.observed
    initial, error = first_states(fit, sight)
    said = [*sight.notes, *notes(fit)]
    if said:
        warnings.warn("; ".join(said), IdentifiabilityWarning, stacklevel=4)
    variance = _observation_variance(fit, sight)
    kind = {"initial_state": initial.kind, "terms": list(names)}
    numbers = (closure.coefficients, closure.rates, closure.noise)
    law = state_space_law(
        observed,
        len(closure.rates),
        StateSpace(Reacting(observed.domain, names, *numbers), initial, variance),
        parameters_dataset(_quantities(fit, initial, error, variance), level, kind),
        unresolved_variance=max(float(sight.outside - np.mean(variance)), 0.0),
        info=_info(fit, sight, initial, said),
    )
    return _with_density(law, fit, sight)


def _observation_variance(fit: SemilinearFit, sight: Sight) -> Array:
    """Variance people mean: what only conditions the filter is no noise."""
    if sight.point_variance is not None:
        return sight.point_variance
    return np.asarray(0.0 if sight.is_quiet else fit.layout.observation_variance(fit.x))


def _slopes(fit: SemilinearFit) -> dict[str, Array]:
    """Derivatives of the numbers of the equation by the free vector; (size, n_free) each."""
    closure = fit.layout.closure(fit.x)
    sizes = (len(closure.rates), len(closure.noise), len(closure.coefficients))
    cuts = np.cumsum(sizes)[:-1]
    slopes = fit.layout.pull(fit.x, *np.split(np.eye(sum(sizes)), cuts, axis=1))
    names = ("eigenvalue", "noise_variance", "coefficient")
    return dict(zip(names, np.split(slopes, cuts), strict=True))


def _quantities(
    fit: SemilinearFit, initial: InitialState, start_error: Array, variance: Array
) -> dict[str, Quantity]:
    """Numbers of the law with standard errors by the delta method."""
    closure, out = fit.layout.closure(fit.x), {}
    values = (closure.rates, closure.noise, closure.coefficients)
    for (name, slope), value in zip(_slopes(fit).items(), values, strict=True):
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slope, fit.covariance, slope), 0.0))
        out[name] = Quantity(value, error, name == "noise_variance")
    std = np.sqrt(variance)
    error_of_r = fit.standard_errors.get("observation_variance", 0.0)
    safe = np.where(std > 0, std, 1.0)
    return {
        **out,
        "initial_mean": Quantity(initial.mean, start_error, False),
        "observation_std": Quantity(std, np.where(std > 0, error_of_r / (2.0 * safe), 0.0), True),
    }


def notes(fit: SemilinearFit) -> list[str]:
    """What a reader of the estimates should know."""
    out = []
    if fit.diagnostics["rate_dt"] > FAST:
        out.append(
            f"the reaction changes the field by {fit.diagnostics['rate_dt']:.1f} times itself "
            "between observations: intervals may be too short; observe more often"
        )
    if fit.diagnostics["step_shift"] > ALLOWED_SHIFT:
        out.append(coarse(fit.diagnostics["step_shift"]))
    closure, errors = fit.layout.closure(fit.x), fit.standard_errors
    out += field_notes(fit)
    if fit.values.get("nu", 0.0) < -2.0 * errors.get("nu", 0.0):
        out.append(
            "nu is negative beyond its error: fine waves grow; use more modes or fewer terms"
        )
    power, weight = _highest_power(fit)
    if power % 2 and weight > (closure.rates.min() if power == 1 else 0.0):
        out.append(
            f"the drift is unstable: nothing pulls back against {weight:.3g} u^{power}, and paths "
            "of this law run away; add a higher power, or forecast over short times only"
        )
    names = [name for name in fit.layout.reaction.names if name in errors]
    at = [fit.layout.free_names.index(name) for name in names]
    part = fit.covariance[np.ix_(at, at)]
    spread = np.sqrt(np.diag(part))
    poor = np.abs(fit.x[at]) < 2.0 * spread
    alike = np.abs(part) > ALIKE * np.outer(spread, spread)
    for i, j in zip(*np.nonzero(np.triu(alike, 1) & np.outer(poor, poor)), strict=True):
        out.append(
            f"these data hardly tell {names[i]} and {names[j]} apart (the field stays where they "
            "are alike): neither is determined, and finer space would not help; longer records do"
        )
    return out


def _highest_power(fit: SemilinearFit) -> tuple[int, float]:
    """Degree and coefficient of the highest power of u alone; (0, 0) where there is none."""
    if len(fit.layout.fields) > 1:
        return 0, 0.0  # what pulls one field back may be another one
    total = fit.layout.closure(fit.x).total
    powers = {
        key[0]: value for key, value in total.items() if value and not any(key[1:]) and key[0]
    }
    return max(powers.items(), default=(0, 0.0))


def _info(
    fit: SemilinearFit, sight: Sight, initial: InitialState, said: list[str]
) -> dict[str, Any]:
    observed, d, slope = sight.observed, fit.diagnostics, _slopes(fit)["coefficient"]
    elsewhere = ("n_evaluations", "remaining_gain", "prior", "n_values")
    return {
        "engine": ENGINE,
        "route": sight.route,
        **observed.sizes,
        "n_observed": float(np.isfinite(np.asarray(observed.values)).sum()),
        "n_parameters": len(fit.x),
        "initial_state": initial.kind,
        "drift": "parametric",
        "noise": fit.layout.noise,
        "log_likelihood": fit.log_likelihood,
        "convergence": {
            "evaluations": math.ceil(d["n_evaluations"]),
            "remaining_gain": float(d["remaining_gain"]),
        },
        "closure": {key: value for key, value in d.items() if key not in elsewhere},
        "estimates": fit.values,
        "standard_errors": fit.standard_errors,
        "robust_errors": fit.robust_errors,
        "term_covariance": (slope @ fit.covariance @ slope.T).tolist(),
        "warnings": said,
        **software(),
    }


def _with_density(law: Law, fit: SemilinearFit, sight: Sight) -> Law:
    """The log density of the data, and of which numbers."""
    if isinstance(sight, States) and sight.one_pass:
        return law
    if isinstance(sight, States) and sight.statistics is not None:
        found = _sum_density(law, fit, sight, sight.statistics)
    else:
        found = _density(law, sight)
    return law.with_info(**density_entries(*found, sight.observed))


def _density(law: Law, sight: Sight) -> tuple[Any, Numbers]:
    """By the filter, as `Law.log_likelihood` has it."""
    observed = sight.observed
    values, basis = np.asarray(observed.values), observed.basis(law.n_modes)
    space, unresolved, weights = law.state_space, law.unresolved_variance, None
    if sight.point_variance is not None:
        weights, space = 1.0 / sight.point_variance, space.with_noise(1.0)
    floor = 0.0 if weights is not None else 1e-10 * float(np.nanmean(values**2))
    blocks = batches(values, observed.times, basis, weights)
    return log_density(blocks, len(values), space, unresolved, floor)


def _sum_density(law: Law, fit: SemilinearFit, sight: States, s: Statistics) -> tuple[Any, Numbers]:
    """From the transitions, with the steps of the law's own dynamics, or of a scheme."""
    data, closure = transitions(sight.c, sight.observed.times), law.dynamics.closure  # type: ignore[attr-defined]
    data = data._replace(steps=substeps(closure, data.before, data.dt))
    of_coefficients = fit.log_likelihood
    if fit.diagnostics["scheme"] == "exact":
        of_coefficients = float(closure_log_likelihood(closure, data).sum())
    phi = law.domain.eigenfunctions(law.points, law.n_modes)
    if law.initial.kind == "gaussian":
        of_coefficients += _start_density(s, law.initial)
    return statistics_density(s, of_coefficients, law.initial, phi.T @ phi, law.unresolved_variance)


def _start_density(s: Statistics, initial: InitialState) -> float:
    """``sum_p log N(c_p(0); m, V)`` from sums over paths."""
    mean, variance = initial.mean, initial.covariance
    squares = s.square[0] - 2.0 * mean * s.first[0] + s.n_paths * mean**2
    return float(-0.5 * (squares / variance + s.n_paths * np.log(2.0 * np.pi * variance)).sum())
