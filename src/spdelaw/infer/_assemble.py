"""From an estimate to a `Law`: intervals, notes, provenance."""

from __future__ import annotations

import dataclasses
import time
import warnings
from typing import Any

import numpy as np
import scipy

from spdelaw.data import Observed
from spdelaw.equation import operators
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer._estimate import Fit
from spdelaw.infer._identifiability import identifiability, in_words, time_unit_hint
from spdelaw.infer._intervals import STATIONARY, likelihood_ends
from spdelaw.infer._model import Model
from spdelaw.infer._quantities import operators_jacobian, quantities
from spdelaw.law import (
    Law,
    Numbers,
    Provenance,
    coordinates_dataset,
    density_entries,
    parameters_dataset,
    software,
    state_space_law,
    statistics_density,
)
from spdelaw.model import StateSpace

Array = np.ndarray

#: Least decay rate of coupled modes, relative to the largest eigenvalue: far above rounding.
LEAST_DECAY = 1e-9


def assemble(fit: Fit, observed: Observed, model: Model, level: float, profile: bool = True) -> Law:
    """Law with its parameters, standard errors and everything it should say about itself."""
    found, state_space = fit.estimate, fit.estimate.state_space
    report = identifiability(found, fit.n_modes)
    variance = _observation_variance(fit, model)
    rates = operators.decay_rates(operators.leading(state_space.linear.drift, fit.n_modes))
    dt = float(np.median(np.diff(np.unique(observed.times))))
    hint = time_unit_hint(rates, dt, observed.span, bool(report["undetermined"]))
    said = list(filter(None, [*in_words(report), hint]))
    if said:
        warnings.warn("; ".join(said), IdentifiabilityWarning, stacklevel=4)
    notes = list(filter(None, [*fit.notes, *said, found.optimum.note]))
    kind, clock = {"initial_state": state_space.initial.kind}, time.perf_counter()
    known = likelihood_ends(found, fit.n_modes, level) if profile else ({}, [], 0)
    ends, profiled, n_for_ends = known
    seconds = {**fit.seconds, "intervals": time.perf_counter() - clock}
    said_of = {"warnings": notes, "identifiability": report, "profiled": profiled}
    said_of |= {"seconds": {k: round(v, 4) for k, v in seconds.items()}}
    said_of |= _likelihood(fit, observed)
    tables = found.full, found.covariance, operators_jacobian(found), ends.get(STATIONARY)
    return state_space_law(
        observed,
        fit.n_modes,
        _decaying(state_space).with_noise(variance),
        parameters_dataset(quantities(fit, variance, ends), level, kind),
        unresolved_variance=float(fit.outside_variance),
        info=Provenance.of(_info(fit, observed, model, n_for_ends) | said_of),
        coordinates=coordinates_dataset(found.parametrisation.names, *tables),
        statistics=fit.statistics,
    )


def _decaying(space: StateSpace) -> StateSpace:
    """The law, every mode of which decays in spite of rounding.

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


def _likelihood(fit: Fit, observed: Observed) -> dict[str, Any]:
    """Log density of the data, and of which numbers."""
    found, density = fit.estimate, fit.density
    if density is None and fit.statistics is not None:
        start, phi = found.state_space.initial, observed.basis(fit.n_modes)
        if found.mean is not None:
            start = start._replace(mean=start.mean + found.mean.value)
        density = statistics_density(
            fit.statistics, found.log_likelihood, start, phi.T @ phi, fit.outside_variance
        )
    value, of = density or (found.log_likelihood, Numbers("values", int(fit.n_observed)))
    restricted = {} if found.mean is None else {"restricted_log_likelihood": found.mean.restricted}
    return density_entries(value, of, observed) | restricted


def _observation_variance(fit: Fit, model: Model) -> Array:
    """Variance people mean: a working variance that only conditions the filter is no noise."""
    if fit.point_variance is not None:
        return fit.point_variance
    if "observation" in fit.estimate.parametrisation.parts:
        return fit.estimate.state_space.observation_variance
    known = model.known_variance
    if known is not None and np.ndim(known) > 1:  # their mean stands for that of a new value
        return np.asarray(np.nanmean(known))
    return np.asarray(0.0 if known is None else known)


def _info(fit: Fit, observed: Observed, model: Model, n_for_ends: int) -> dict[str, Any]:
    found = fit.estimate
    return {
        "engine": "exact",
        "route": fit.route,
        **observed.sizes,
        "n_observed": float(fit.n_observed),
        "n_parameters": found.n_free,
        "n_nuisance": found.state_space.n_modes - fit.n_modes,
        "initial_state": found.state_space.initial.kind,
        "drift": model.drift,
        "noise": model.noise,
        "mean": "zero" if found.mean is None else "constant",
        **({"noise_rank": model.noise_rank} if model.noise == "low_rank" else {}),
        "decisions": _decisions(fit),
        "converged": found.optimum.converged,
        "standard_errors": found.optimum.curvature,
        "convergence": {
            "evaluations": found.optimum.n_evaluations,
            "evaluations_for_intervals": n_for_ends,
            "remaining_gain": float(found.optimum.decrement),
            "slope_without_end": float(found.optimum.uphill),
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
