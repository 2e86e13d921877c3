"""Where a search starts, and how large its first steps are: from moment estimates."""

from __future__ import annotations

import numpy as np

from spdelaw.equation import operators
from spdelaw.infer._moment_estimates import MomentEstimates
from spdelaw.infer._parametrisation import Parametrisation

Array = np.ndarray

#: Least variance of a starting initial covariance, relative to the energy of its mode.
LEAST = 1e-6
#: Least information that a coordinate is supposed to have.
LEAST_KNOWN = 1e-2


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
    q, transitions = (
        operators.diagonal(moments.noise),
        0.5 * max(moments.n_paths * moments.n_steps, 2),
    )
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
        scale[parametrisation.slices["observation"]] = 1.0 / np.sqrt(
            max(2.0 * moments.n_values, 1.0)
        )
    return scale
