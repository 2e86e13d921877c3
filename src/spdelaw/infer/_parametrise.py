"""From the words of a model to the coordinates of a fit, and where a search over them starts.

Where it starts, and how large its first steps are, follows from moment estimates.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation import InitialKind, operators, rotating_pairs
from spdelaw.errors import InputError
from spdelaw.infer._coordinates import (
    AbstractCoordinates,
    Contrasts,
    OperatorTied,
    PowerTied,
    Single,
    WithNuisance,
)
from spdelaw.infer._covariance_coordinates import Covariance, LowRankCovariance
from spdelaw.infer._drift_coordinates import Rotating, Stable
from spdelaw.infer._estimate import Decision
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import MomentEstimates
from spdelaw.infer._parametrisation import Parametrisation

Array = np.ndarray
#: Least variance of a starting initial covariance, relative to the energy of its mode.
LEAST = 1e-6
#: Least information that a coordinate is supposed to have.
LEAST_KNOWN = 1e-2


def drift_coordinates(
    model: Model, domain: AbstractDomain, n_modes: int, units: Array
) -> AbstractCoordinates:
    """Coordinates of the drift of the reported modes; ``units`` are those of matrices, (N,)."""
    if model.drift == "dense":
        return Stable(tuple(map(float, units[:n_modes])))
    if model.drift == "normal":
        return Rotating(n_modes, rotating_pairs(domain, n_modes))
    if model.drift == "parametric":
        return OperatorTied(tuple(domain.eigenvalues(n_modes)))
    return Single("eigenvalue", n_modes)


def noise_coordinates(model: Model, n_modes: int, units: Array) -> AbstractCoordinates:
    """Coordinates of the noise of the reported modes."""
    scale = tuple(map(float, units[:n_modes]))
    if model.noise == "dense":
        return Covariance("noise_root", scale)
    if model.noise == "low_rank":
        return LowRankCovariance(scale, _checked_rank(model.noise_rank, n_modes))
    if model.noise == "parametric":
        return PowerTied(n_modes)
    return Single("noise_variance", n_modes)


def _checked_rank(rank: int, n_modes: int) -> int:
    """A rank that leaves fewer numbers than a full covariance has (Ledermann's bound)."""
    if rank >= n_modes or (n_modes - rank) ** 2 < n_modes + rank:
        expected = f"a rank that spares numbers with {n_modes} modes"
        fix = "pass a smaller noise_rank, or noise='dense'"
        raise InputError("noise_rank", expected=expected, got=str(rank), fix=fix)
    return rank


def parametrise(
    model: Model,
    domain: AbstractDomain,
    n_modes: int,
    initial: Decision,
    moments: MomentEstimates,
    *,
    known_variance: float | None,
    known_mean: Array | None = None,
    origin: float = 0.0,
) -> Parametrisation:
    """Coordinates of everything that a fit estimates.

    Args:
        model: what is assumed.
        domain: of the modes.
        n_modes: reported ones.
        initial: kind of the initial state.
        moments: of all modes, nuisance included; the deviations of the noise are units.
        known_variance: of the observations, None where it is estimated.
        known_mean: of the initial state, None where it is estimated.
        origin: when a forcing begins to act.
    """
    units, kind = np.sqrt(operators.diagonal(moments.noise)), cast(InitialKind, initial.answer)
    n, extra = len(units), len(units) - n_modes
    drift = drift_coordinates(model, domain, n_modes, units)
    noise = noise_coordinates(model, n_modes, units)
    if extra:
        beyond = tuple(domain.eigenvalues(n)[n_modes:])
        drift = WithNuisance(drift, OperatorTied(beyond, "nuisance_"), n_modes)
        noise = WithNuisance(noise, PowerTied(extra, n_modes + 1, "nuisance_"), n_modes)
    parts: dict[str, AbstractCoordinates] = {"drift": drift, "noise": noise}
    if model.season is not None:
        parts["season"] = Contrasts(model.season.n_parts)
    if known_variance is None:
        parts["observation"] = Single("observation_std", None, power=2)
    if kind == "gaussian":
        parts["initial_variance"] = _initial_coordinates(model, n, moments.n_paths)
    if known_mean is None and kind != "stationary":
        parts["initial_mean"] = Single("initial_mean", n, power=0)
    mean = np.zeros(n) if known_mean is None else known_mean
    known = (known_variance or 0.0, model.season, model.forcing, origin)
    return Parametrisation(parts, kind, mean, *known)


def _initial_coordinates(model: Model, n: int, n_paths: int) -> AbstractCoordinates:
    """A variance per mode, or a full covariance of modes that drift or noise couple.

    With hardly more paths than modes that covariance would have no maximum.
    """
    if model.couples and n_paths >= 2 * n:
        return Covariance("initial_root", (1.0,) * n)
    return Single("initial_variance", n)


def starting_vector(parametrisation: Parametrisation, moments: MomentEstimates) -> Array:
    """Full vector near moment estimates."""
    spread, floor = moments.spread, LEAST * moments.energy + 1e-300
    diagonal, season = operators.is_diagonal(spread), parametrisation.season
    near = {
        "drift": moments.drift,
        "noise": moments.noise,
        "season": np.ones(0 if season is None else season.n_parts),
        "observation": np.asarray(moments.observation_variance),
        "initial_variance": np.maximum(spread, floor) if diagonal else spread + np.diag(floor),
        "initial_mean": moments.mean,
    }
    parts = parametrisation.parts
    return np.concatenate([part.start(near[name]) for name, part in parts.items()])


def starting_scale(
    parametrisation: Parametrisation, full: Array, moments: MomentEstimates
) -> Array:
    """Rough standard errors of the coordinates from the information of noise-free paths.

    The information on ``Lambda_ij`` is about ``E c_j^2 span / q_i`` per path, that on ``Q_ij``
    half the number of transitions over ``q_i q_j``, that on the observation noise twice the
    number of values.
    """
    values = parametrisation.values(full)
    q, steps = operators.diagonal(moments.noise), moments.n_paths * moments.n_steps
    transitions = 0.5 * max(steps, 2)
    information = {"drift": moments.n_paths * moments.span * moments.energy / q[:, None]}
    if operators.is_diagonal(values["drift"]):
        # On a logarithm, and never less than a unit: a slow mode in a short record tells nothing.
        lam = operators.diagonal(moments.drift)
        known = np.maximum(np.diagonal(information["drift"]) * lam**2, 1.0)
        information["drift"] = known / values["drift"] ** 2
    for part, seen in (("noise", transitions), ("initial_variance", 0.5 * max(moments.n_paths, 2))):
        if part in values:
            own = operators.diagonal(values[part])
            information[part] = operators.like(values[part], seen / np.outer(own, own))
    scale = np.ones(len(full))
    for part, on in information.items():
        total = np.tensordot(on, parametrisation.jacobian(part, full) ** 2, on.ndim)
        scale[parametrisation.slices[part]] = 1.0 / np.sqrt(np.maximum(total, LEAST_KNOWN))
    if "season" in values:
        # A part sees its share of all transitions, and so does the first, its comparison.
        seen = len(q) * transitions / len(values["season"])
        scale[parametrisation.slices["season"]] = np.sqrt(2.0 / seen)
    if "observation" in values:
        known = max(2.0 * moments.n_values, 1.0)
        scale[parametrisation.slices["observation"]] = 1.0 / np.sqrt(known)
    return scale
