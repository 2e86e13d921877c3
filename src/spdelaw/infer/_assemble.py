"""From an estimate to a `Law`: intervals by the delta method, notes, provenance."""

from __future__ import annotations

import platform
import warnings
from typing import Any

import numpy as np
import scipy

from spdelaw._version import __version__
from spdelaw.domain import AbstractDomain
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer._coordinates import Free
from spdelaw.infer._coupled_quantities import (
    coupled_quantities,
    spectra_jacobian,
    undetermined_eigenmodes,
)
from spdelaw.infer._fitted import Fitted
from spdelaw.infer._identifiability import identifiability, time_unit_hint
from spdelaw.infer._layout import season_jacobian
from spdelaw.infer._observed import Observed
from spdelaw.infer._settings import Settings
from spdelaw.law import Law, Quantity, coordinates_dataset, parameters_dataset
from spdelaw.model import AnyParameters, CoupledParameters

Array = np.ndarray


def assemble(fitted: Fitted, observed: Observed, domain: AbstractDomain, settings: Settings) -> Law:
    """Law with its parameters, standard errors and everything it should say about itself."""
    report = identifiability(fitted.layout, fitted.solution)
    if isinstance(fitted.solution.parameters, CoupledParameters):
        more = undetermined_eigenmodes(fitted, fitted.solution.parameters)
        report = report._replace(undetermined=[*report.undetermined, *more])
    times = observed.times if observed.times.ndim == 1 else np.unique(observed.times)
    state = fitted.solution.parameters
    state = state._replace(observation_variance=_observation_variance(fitted, settings))
    hint = time_unit_hint(
        _decay_rates(state, fitted.n_modes),
        float(np.median(np.diff(times))),
        observed.span,
        bool(report.undetermined),
    )
    short = fitted.solution.optimum.note
    found = [*report.sentences, *([hint] if hint else [])]
    notes = [*fitted.notes, *found, *([short] if short else [])]
    if found:
        warnings.warn("; ".join(found), IdentifiabilityWarning, stacklevel=4)
    table = parameters_dataset(
        quantities(fitted, state), settings.level, {"initial_state": state.initial_kind}
    )
    return Law(
        domain=domain,
        n_modes=fitted.n_modes,
        parameters=table,
        state=state,
        times=times,
        points=observed.points,
        unresolved_variance=float(fitted.outside_variance),
        info=_info(fitted, observed, settings, notes, report.to_dict()),
        coordinates=coordinates_dataset(
            fitted.layout.names,
            fitted.solution.full,
            fitted.solution.covariance,
            spectra_jacobian(fitted.layout, fitted.solution.full),
        ),
        statistics=fitted.statistics,
        forcing=settings.forcing,
    )


def _decay_rates(state: AnyParameters, n_modes: int) -> Array:
    """Real parts of the eigenvalues of the reported modes' drift."""
    if isinstance(state, CoupledParameters):
        return np.linalg.eigvals(state.drift[:n_modes, :n_modes]).real
    return state.eigenvalues[:n_modes]


def _observation_variance(fitted: Fitted, settings: Settings) -> Array:
    """Variance people mean: a working variance that only conditions the filter is no noise."""
    if fitted.point_variance is not None:
        return fitted.point_variance
    if fitted.layout.n_noise == 0:
        known = settings.known_variance
        return np.asarray(0.0 if known is None else known)
    return fitted.solution.parameters.observation_variance


def quantities(fitted: Fitted, state: AnyParameters) -> dict[str, Quantity]:
    """Parameters people know, with delta-method standard errors."""
    layout, full, covariance = fitted.layout, fitted.solution.full, fitted.solution.covariance
    s, n = layout.slices, fitted.n_modes
    if isinstance(state, CoupledParameters):
        return coupled_quantities(fitted, state) | _others(fitted, state) | _tied(fitted)

    def of_spectrum(part: str, values: Array) -> Quantity:
        coordinates = getattr(layout, part)
        jacobian = np.nan_to_num(coordinates.jacobian(full[s[part]]))
        spread = np.einsum("ni,ij,nj->n", jacobian, covariance[s[part], s[part]], jacobian)
        return Quantity(values[:n], np.sqrt(np.maximum(spread, 0.0))[:n], True)

    out: dict[str, Quantity] = {
        "eigenvalue": of_spectrum("drift", state.eigenvalues),
        "noise_variance": of_spectrum("noise", state.noise_variance),
        **_others(fitted, state),
    }
    if state.season is not None:
        jacobian = season_jacobian(full[s["season"]])
        spread = np.einsum("ki,ij,kj->k", jacobian, covariance[s["season"], s["season"]], jacobian)
        out["season"] = Quantity(state.season.weights, np.sqrt(np.maximum(spread, 0.0)), True)
    if layout.sizes["initial_variance"]:
        error = state.initial_variance[:n] * _stderr(fitted, "initial_variance", n)
        out["initial_variance"] = Quantity(state.initial_variance[:n], error, True)
    return out | _tied(fitted)


def _others(fitted: Fitted, state: AnyParameters) -> dict[str, Quantity]:
    """Initial mean and observation noise."""
    n = fitted.n_modes
    mean = Quantity(state.initial_mean[:n], _stderr(fitted, "initial_mean", n), False)
    std = np.sqrt(state.observation_variance)
    error = std * _stderr(fitted, "observation", np.size(std))
    if fitted.point_error is not None:
        error = fitted.point_error
    noise = Quantity(std, error if std.ndim else error[0], True)
    return {"initial_mean": mean, "observation_std": noise}


def _stderr(fitted: Fitted, part: str, n: int) -> Array:
    """Standard errors of a part's coordinates; zero where it has none."""
    where = fitted.layout.slices[part]
    found = np.sqrt(np.maximum(np.diag(fitted.solution.covariance)[where], 0.0))
    return found[:n] if found.size else np.zeros(n)


def _tied(fitted: Fitted) -> dict[str, Quantity]:
    """The few numbers of a parametric law, nuisance modes included."""
    layout = fitted.layout
    out = {}
    for i, (name, is_log) in enumerate(zip(layout.names, layout.is_log, strict=True)):
        if "[" in name or name == "observation_std":
            continue
        error = float(np.sqrt(max(fitted.solution.covariance[i, i], 0.0)))
        value = float(np.exp(fitted.solution.full[i]) if is_log else fitted.solution.full[i])
        out[name] = Quantity(np.asarray(value), np.asarray(error * (value if is_log else 1.0)),
                             bool(is_log))  # fmt: skip
    return out


def _info(
    fitted: Fitted, observed: Observed, settings: Settings, notes: list[str], identified: dict
) -> dict[str, Any]:
    optimum = fitted.solution.optimum
    return {
        "engine": "exact",
        "route": fitted.route,
        "n_paths": observed.n_paths,
        "n_times": int(observed.times.shape[-1]),
        "n_points": len(observed.points),
        "n_observed": float(fitted.n_observed),
        "n_parameters": fitted.solution.n_free,
        "n_nuisance": fitted.solution.parameters.n_modes - fitted.n_modes,
        "log_likelihood": float(fitted.solution.log_likelihood),
        "initial_state": fitted.layout.initial_kind,
        "drift": "diagonal" if isinstance(fitted.layout.drift, Free) else settings.drift,
        "noise": "diagonal" if isinstance(fitted.layout.noise, Free) else settings.noise,
        **({"noise_rank": settings.noise_rank} if settings.noise == "low_rank" else {}),
        "convergence": {
            "evaluations": optimum.n_evaluations,
            "remaining_gain": float(optimum.decrement),
        },
        "seconds": {k: round(v, 4) for k, v in fitted.seconds.items()},
        "identifiability": identified,
        "warnings": notes,
        "version": __version__,
        "versions": {
            "python": platform.python_version(), "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }  # fmt: skip
