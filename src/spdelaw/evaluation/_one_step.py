"""What a law did not see coming: standardised one-step errors, and how they move with the law.

Errors ``z`` are independent standard normals under the true law. The law at hand is an estimate
with covariance C: by a change of a mode's decay, of its noise or of the observation noise,
``theta_j``, its errors change by ``dz / dtheta_j``, here by differences.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data import Observed
from spdelaw.equation import Linear, operators
from spdelaw.infer import principal_components
from spdelaw.law import (
    Law,
    blocks_of,
    in_parts,
    modes_at,
    seen_by,
    started,
    undriven,
    variance_floor,
    weights_of,
)
from spdelaw.model import (
    Block,
    OneStep,
    StateSpace,
    collapse,
    component_innovations,
    forward_filter,
    innovations,
)

Array = np.ndarray

#: Relative change of a parameter in differences.
CHANGE = 1e-4


class Errors(NamedTuple):
    """One-step errors of data under a law.

    Attributes:
        z: standardised, (path, time, series); NaN where a row says nothing.
        state: from which a step was predicted, (path, time, mode).
        slopes: ``dz / dtheta_j``, (j, path, time, series), less what a change of scale makes; none
            for laws that are not linear.
        growth: ``dlog sigma / dtheta_j`` of the deviation of a step, likewise.
        unit: what one series is, "mode" or "component".
        own: the data.
    """

    z: Array
    state: Array
    slopes: Array
    growth: Array
    unit: str
    own: Observed


def one_step_errors(law: Law, data: Any) -> Errors:
    """Errors of data under a law, with their slopes."""
    own = undriven(law, data)
    own = started(law, own, in_parts(law, own))
    space = law.bare.state_space
    (z, state, size), unit = _errors(law, own, space)
    slopes, growth = [], []
    for near in _neighbours(law, space):
        (moved, _, larger), _ = _errors(law, own, near)
        growth.append(np.log(larger / size) / CHANGE)
        slopes.append((moved - z) / CHANGE + z * growth[-1])
    by, grow = (np.array(x).reshape(-1, *z.shape) for x in (slopes, growth))
    return Errors(z, state, by, grow, unit, own)


def standard_innovations(law: Law, data: Any) -> tuple[Array, str]:
    """Standardised innovations (path, time, series) and what the series are."""
    found, unit = _errors(law, seen_by(law, data), law.bare.state_space)
    return found.error, unit


def drift_units(law: Law) -> Array:
    """Sizes of a change of each decay: its own, or one over the record of a slower one; (N,)."""
    own = np.abs(operators.diagonal(law.linear.drift))
    return own + 1.0 / max(float(np.ptp(law.times)), 1e-300)


def _neighbours(law: Law, space: StateSpace) -> Iterator[StateSpace]:
    """The law with all decays, all noise, and the observation noise a little larger."""
    if not isinstance(space.dynamics, Linear):
        return
    linear, up = space.dynamics, 1.0 + CHANGE
    more = CHANGE * drift_units(law)
    for near in (
        dataclasses.replace(
            linear, drift=linear.drift + (more if linear.drift.ndim == 1 else np.diag(more))
        ),
        dataclasses.replace(linear, noise=linear.noise * up),
    ):
        yield space._replace(dynamics=near)
    if law.observation_variance.any():
        yield space.with_noise(space.observation_variance * up)


def _errors(law: Law, own: Observed, space: StateSpace) -> tuple[OneStep, str]:
    """Errors, states and deviations, each (path, time, series), and what the series are."""
    basis, complete = modes_at(law, own.places), not own.has_gaps and own.times.ndim == 1
    if complete and isinstance(law.dynamics, Linear) and not law.observation_variance.any():
        if space.n_modes == law.n_modes:
            return _transition_errors(space, own, basis), "mode"
        reduction = principal_components(own)
        if reduction is not None:
            return _component_errors(space, own, basis, *reduction), "component"
    parts = np.full((3, *own.values.shape[:2], space.n_modes), np.nan)
    noisy, weights = _noisy(law, own, space)
    one_step = innovations if isinstance(law.dynamics, Linear) else _filter_errors
    for block in blocks_of(law, own, weights):
        parts[:, block.paths] = np.stack(one_step(block, noisy)).transpose(0, 3, 1, 2)
    parts[0, :, 0] = np.nan  # the start is no step
    return OneStep(*parts[..., : law.n_modes]), "mode"


def _noisy(law: Law, own: Observed, space: StateSpace) -> tuple[StateSpace, Array | None]:
    """The state space with the noise inside the modes, as the likelihood of a fit has it.

    With the precision per point or value, less where the noise of the space is larger than the
    law's.
    """
    weights = weights_of(law, own)
    if weights is None:
        noise = max(float(space.observation_variance), variance_floor(law, own))
        return space.with_noise(noise), None
    more = space.observation_variance - law.observation_variance
    return space.with_noise(1.0), 1.0 / (1.0 / weights + more)


def _transition_errors(space: StateSpace, own: Observed, basis: Array) -> OneStep:
    """``S^-1 (c_{t+1} - F c_t)`` with ``S S' = Omega``, and ``c_t``, of complete coefficients.

    For coupled modes S is a Cholesky factor: mode 2 is what mode 1 leaves of it.
    """
    c = np.asarray(own.values @ np.linalg.pinv(basis).T) - space.linear.response(own.times)
    step, which = space.linear.transitions(own.times)
    z, before, size = np.full((3, *c.shape), np.nan)
    before[:, 1:] = c[:, :-1]
    if step.factor.ndim == 2:
        error = c[:, 1:] - step.factor[which] * c[:, :-1]
        size[:, 1:] = np.sqrt(step.covariance[which])
        z[:, 1:] = error / size[:, 1:]
        return OneStep(z, before, size)
    root = np.linalg.cholesky(step.covariance)
    size[:, 1:] = np.einsum("uii->ui", root)[which]
    error = c[:, 1:] - np.einsum("tij,ptj->pti", step.factor[which], c[:, :-1])
    z[:, 1:] = np.einsum("tij,ptj->pti", np.linalg.inv(root)[which], error)
    return OneStep(z, before, size)


def _component_errors(
    space: StateSpace, own: Observed, basis: Array, keep: Array, variance: float
) -> OneStep:
    """Errors of principal components of the fields; the state is the components before a step."""
    values, basis = np.asarray(own.values @ keep), keep.T @ basis
    block = collapse(values, own.times, basis).blocks[0]
    z, size = component_innovations(block, space.with_noise(variance), values, basis)
    z[:, 0] = np.nan
    before = np.full(values.shape, np.nan)
    before[:, 1:] = values[:, :-1]
    return OneStep(z, before, size)


def _filter_errors(block: Block, space: StateSpace) -> OneStep:
    """`spdelaw.model.innovations` for any dynamics, through the forward filter; (T, N, P)."""
    r = float(space.observation_variance)
    out, before, size = np.full((3, *block.estimate.shape), np.nan)
    for path in range(len(block.paths)):
        found = forward_filter(block, space, path)
        before[..., path] = found.predicted_mean
        gram = block.gram[..., path % block.gram.shape[-1]]
        for t in np.flatnonzero(found.predicted_covariance.any((1, 2))):
            g = np.diag(gram[t]) if gram.ndim == 2 else gram[t]
            if np.linalg.matrix_rank(g) == len(g):
                total = found.predicted_covariance[t] + r * np.linalg.inv(g)
                error = block.estimate[t, :, path] - found.predicted_mean[t]
                root = np.linalg.cholesky(total)
                out[t, :, path], size[t, :, path] = np.linalg.solve(root, error), np.diag(root)
    return OneStep(out, before, size)
