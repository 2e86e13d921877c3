"""Standardised one-step errors of a law, and how they move with its parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.infer.assemble import ROUNDING_VARIANCE
from spdelaw.infer.engines.design import principal_components
from spdelaw.law.law import Law
from spdelaw.law.observations import (
    blocks_of,
    modes_at,
    variance_floor,
    weights_of,
    with_initial_state,
)
from spdelaw.law.parameters import coordinate_root
from spdelaw.law.prediction import in_parts
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, collapse
from spdelaw.statespace.filter import OneStep, component_innovations, forward_filter, innovations

# ---------- Standardised one-step errors, and their derivatives by the parameters of the law
#
# Errors ``z`` are independent standard normals under the true law. The law at hand is an estimate
# with covariance C: by a change of a mode's decay, of its noise or of the observation noise,
# ``theta_j``, its errors change by ``dz / dtheta_j``, here by differences.


Array = np.ndarray

#: Relative change of a parameter in differences.
RELATIVE_CHANGE = 1e-4
#: Steps of a mode without noise, relative to those of the largest one.
STEP_ROUNDING = 1e-7
#: Decay over the whole record that is none.
NO_DECAY = 1e-3


class Errors(NamedTuple):
    """One-step errors of data under a law.

    Attributes:
        z: standardised, (path, time, series); NaN where a row does not determine the modes.
        state: from which a step was predicted, (path, time, mode).
        slopes: ``dz / dtheta_j``, (j, path, time, series), less what a change of scale makes; none
            for laws that are not linear.
        growth: ``dlog sigma / dtheta_j`` of the deviation of a step, likewise.
        unit: what one series is, "mode" or "component".
        observed: the data.
    """

    z: Array
    state: Array
    slopes: Array
    growth: Array
    unit: str
    observed: Observed


def one_step_errors(law: Law, observed: Observed) -> Errors:
    """Errors of data that are prepared for a bare law, with their slopes."""
    observed = with_initial_state(law, observed, in_parts(law, observed))
    space = law.without_preparation_and_mean.state_space
    (base, *moved), unit = _one_step_errors(law, observed, [space, *_perturbed_spaces(law, space)])
    z, state, size = base
    growth = [np.log(one.deviation / size) / RELATIVE_CHANGE for one in moved]
    slopes = [
        (one.error - z) / RELATIVE_CHANGE + z * grow
        for one, grow in zip(moved, growth, strict=True)
    ]
    by, grow = (np.array(x).reshape(-1, *z.shape) for x in (slopes, growth))
    z = np.where(_is_rounding(z, size), np.nan, z)
    return Errors(z, state, by, grow, unit, observed)


def _is_rounding(z: Array, size: Array) -> Array:
    """Series whose steps, by law and data, are rounding next to the largest; (series,)."""
    steps = np.sqrt(np.nanmean(np.fmax(1.0, z**2) * size**2, (0, 1)))
    return np.asarray(steps < STEP_ROUNDING * np.nanmax(steps, initial=0.0))


def drift_units(law: Law) -> Array:
    """Sizes of a change of each decay: its own, or one over the record of a slower one; (N,)."""
    decay = np.abs(operators.diagonal(law.linear.drift))
    return decay + 1.0 / max(float(np.ptp(law.times)), 1e-300)


def _perturbed_spaces(law: Law, space: StateSpace) -> Iterator[StateSpace]:
    """The law with all decays, all noise, and the observation noise a little larger."""
    if not isinstance(space.dynamics, Linear):
        return
    linear, up = space.dynamics, 1.0 + RELATIVE_CHANGE
    more = RELATIVE_CHANGE * drift_units(law)
    for near in (
        dataclasses.replace(
            linear, drift=linear.drift + (more if linear.drift.ndim == 1 else np.diag(more))
        ),
        dataclasses.replace(linear, noise=linear.noise * up),
    ):
        yield space._replace(dynamics=near)
    if law.observation_variance.any():
        yield space.with_noise(space.observation_variance * up)


def _one_step_errors(
    law: Law, observed: Observed, spaces: list[StateSpace]
) -> tuple[list[OneStep], str]:
    """Errors, states and deviations under each space, (path, time, series), and what these are."""
    basis, n_modes = modes_at(law, observed.places), spaces[0].n_modes
    complete = not observed.has_gaps and observed.times.ndim == 1
    if complete and isinstance(law.dynamics, Linear) and not law.observation_variance.any():
        if n_modes == law.n_modes:
            return [_transition_errors(space, observed, basis) for space in spaces], "mode"
        reduction = principal_components(observed)
        if reduction is not None:
            errors = [_component_errors(space, observed, basis, *reduction) for space in spaces]
            return errors, "component"
    return _filtered_errors(law, observed, spaces), "mode"


def _filtered_errors(law: Law, observed: Observed, spaces: list[StateSpace]) -> list[OneStep]:
    """Errors of filtered states; the data are collapsed once for spaces with the same weights."""
    one_step = innovations if isinstance(law.dynamics, Linear) else _filter_errors
    shape = (len(spaces), 3, *observed.values.shape[:2], spaces[0].n_modes)
    parts = np.full(shape, np.nan)
    noisy = _with_noise_in_modes(law, observed, spaces)
    for weights, rows in noisy:
        for block in blocks_of(law, observed, weights):
            for i, space in rows:
                parts[i][:, block.paths] = np.stack(one_step(block, space)).transpose(0, 3, 1, 2)
    parts[:, 0, :, 0] = np.nan  # the start is no step
    return [OneStep(*part[..., : law.n_modes]) for part in parts]


def _with_noise_in_modes(
    law: Law, observed: Observed, spaces: list[StateSpace]
) -> list[tuple[Array | None, list[tuple[int, StateSpace]]]]:
    """Numbered spaces with the noise inside the modes, as the likelihood of a fit has it.

    By the precision per point or value that the data are collapsed with, which is less where the
    noise of a space is larger than the law's.
    """
    weights = weights_of(law, observed)
    if weights is None:
        floor = variance_floor(law, observed)
        noises = [max(float(space.observation_variance), floor) for space in spaces]
        pairs = zip(spaces, noises, strict=True)
        return [(None, [(i, space.with_noise(r)) for i, (space, r) in enumerate(pairs)])]
    same: list[tuple[int, StateSpace]] = []
    groups: list[tuple[Array | None, list[tuple[int, StateSpace]]]] = [(weights, same)]
    for i, space in enumerate(spaces):
        more = space.observation_variance - law.observation_variance
        if np.any(more):
            groups.append((1.0 / (1.0 / weights + more), [(i, space.with_noise(1.0))]))
        else:
            same.append((i, space.with_noise(1.0)))
    return groups


def _transition_errors(space: StateSpace, observed: Observed, basis: Array) -> OneStep:
    """``S^-1 (c_{t+1} - F c_t)`` with ``S S' = Omega``, and ``c_t``, of complete coefficients.

    For coupled modes S is a Cholesky factor: mode 2 is the residual given mode 1.
    """
    c = np.asarray(observed.values @ np.linalg.pinv(basis).T) - space.linear.response(
        observed.times
    )
    step, which = space.linear.transitions(observed.times)
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
    space: StateSpace, observed: Observed, basis: Array, keep: Array, variance: float
) -> OneStep:
    """Errors of principal components of the fields; the state is the components before a step."""
    values, basis = np.asarray(observed.values @ keep), keep.T @ basis
    block = collapse(values, observed.times, basis).blocks[0]
    z, size = component_innovations(block, space.with_noise(variance), values, basis)
    z[:, 0] = np.nan
    before = np.full(values.shape, np.nan)
    before[:, 1:] = values[:, :-1]
    return OneStep(z, before, size)


def _filter_errors(block: Block, space: StateSpace) -> OneStep:
    """One-step innovations for any dynamics, through the forward filter; (T, N, P)."""
    r = float(space.observation_variance)
    out, before, size = np.full((3, *block.estimate.shape), np.nan)
    if space.initial.kind == "deterministic":  # of the path that the law was learned from
        wide = np.full(space.n_modes, float(np.nanmean(block.estimate**2)))
        space = space._replace(initial=space.initial._replace(kind="gaussian", covariance=wide))
    filtered = forward_filter(block, space)
    for path in range(len(block.paths)):
        before[..., path] = filtered.predicted_mean[:, path]
        gram = block.gram[..., path % block.gram.shape[-1]]
        for t in np.flatnonzero(filtered.predicted_covariance[:, path].any((1, 2))):
            g = np.diag(gram[t]) if gram.ndim == 2 else gram[t]
            if np.linalg.matrix_rank(g) == len(g):
                total = filtered.predicted_covariance[t, path] + r * np.linalg.inv(g)
                error = block.estimate[t, :, path] - filtered.predicted_mean[t, path]
                root = np.linalg.cholesky(total)
                out[t, :, path], size[t, :, path] = np.linalg.solve(root, error), np.diag(root)
    return OneStep(out, before, size)


# ---------- Effect of the estimation error of a law on its one-step errors
#
# With slopes ``X_j = dz / dtheta_j`` of one series and estimates with ``theta ~ N(0, V)``, the
# errors of a right law have, given the states they start from, the covariance
#
#     Cov z = I + X V X' = I + U s^2 U',
#
# so ``e = z - U (1 - 1/sqrt(1 + s^2)) U' z`` is white again, however little the law was learned
# from: information is counted, not paths. A parameter without any information has ``s``
# infinite: its direction is taken out.


#: Singular values of unit columns below this are zero.
LEAST_SINGULAR_VALUE = 1e-7


@dataclasses.dataclass(frozen=True, eq=False)
class EstimationErrorSpace:
    """How one series of errors may be off although the law is right.

    Attributes:
        out: orthonormal directions of parameters without any information, (n, k).
        along: orthonormal directions of uncertain parameters, (n, j).
        size: their standard deviations ``s``, (j,).
    """

    out: Array
    along: Array
    size: Array

    def whiten(self, columns: Array) -> Array:
        """Errors, or regressors, (n,) or (n, m), with the uncertain directions shrunk."""
        left = columns - self.out @ (self.out.T @ columns)
        pull = self.along.T @ left
        shrink = 1.0 - 1.0 / np.sqrt(1.0 + self.size**2)
        return left - self.along @ (shrink.reshape(-1, *[1] * (columns.ndim - 1)) * pull)

    def shift(self, z: Array) -> tuple[float, int]:
        """``sum (u'z)^2 / (1 + s^2)`` over the uncertain directions, and their number."""
        left = z - self.out @ (self.out.T @ z)
        return float(((self.along.T @ left) ** 2 / (1.0 + self.size**2)).sum()), len(self.size)


def allowance(free: Array, slopes: Array, root: Array, floor: float) -> EstimationErrorSpace:
    """From regressors that are free and slopes of parameters with the covariance ``root root'``.

    Args:
        free: (n, k).
        slopes: (n, j).
        root: (j, m).
        floor: size below which a direction is rounding.
    """
    unit = np.linalg.norm(free, axis=0)
    out = _orthonormal_basis(free / np.where(unit > 0, unit, 1.0), LEAST_SINGULAR_VALUE)[0]
    x = slopes @ root
    return EstimationErrorSpace(out, *_orthonormal_basis(x - out @ (out.T @ x), floor))


def _orthonormal_basis(x: Array, floor: float) -> tuple[Array, Array]:
    """Orthonormal columns with the span of ``x``, and its singular values above a floor."""
    if not x.size:
        return np.zeros((len(x), 0)), np.zeros(0)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, s > floor], s[s > floor]


class Uncertainty(NamedTuple):
    """Uncertainty of the parameters behind the slopes.

    Attributes:
        roots: changes of each series' decay (in `drift_units`), log noise and log observation noise
            by directions of unit variance, (j, series, free); None where the law has none.
        n_train: one-step errors per series that the law was learned from.
        on_training_data: whether the law was learned from these data, which it then follows along
            the directions of its parameters.
        at_bound: series whose decay is at its bound of zero, which need not follow the data.
    """

    roots: Array | None
    n_train: int
    on_training_data: bool = False
    at_bound: tuple[int, ...] = ()


def uncertainty(law: Law, n_series: int, unit: str, on_training_data: bool) -> Uncertainty:
    """The covariance of the estimates, as relative changes of each mode's numbers."""
    info = law.info
    n_train = max(int(info["n_paths"] * (info.get("n_times", len(law.times)) - 1)), 1)
    table, space = law.coordinates, law.without_preparation_and_mean.state_space
    is_linear_by_mode = isinstance(law.dynamics, Linear) and unit == "mode"
    if table is None or "jacobian" not in table or not is_linear_by_mode:
        return Uncertainty(None, n_train, on_training_data)
    columns = coordinate_root(table["covariance"].values)
    rows, linear = table["jacobian"].values @ columns, space.linear
    drift, noise = linear.drift, linear.noise
    decay = _diagonal_rows(rows[: drift.size], drift) / drift_units(law)[:, None]
    strength = _diagonal_rows(rows[drift.size :], noise) / operators.diagonal(noise)[:, None]
    parts = [decay, strength]
    if law.observation_variance.any():
        parts.append(_observation_rows(table, columns, space.n_modes))
    roots = _limit_decay_precision(np.stack(parts), law)[:, :n_series]
    # A mode without energy has none, however little rounding errors determine its numbers.
    q = operators.diagonal(noise)[:n_series]
    roots[:, q < ROUNDING_VARIANCE * q.max()] = 0.0
    return Uncertainty(roots, n_train, on_training_data, modes_without_decay(law))


def modes_without_decay(law: Law) -> tuple[int, ...]:
    """Modes whose decay is at its bound of zero, from 0 on."""
    if not isinstance(law.dynamics, Linear):
        return ()
    decay = operators.diagonal(law.dynamics.drift)[: law.n_modes] * np.ptp(law.times)
    return tuple(np.flatnonzero(decay < NO_DECAY).tolist())


def _limit_decay_precision(roots: Array, law: Law) -> Array:
    """Decays with at least the uncertainty that the steps of the training data allow.

    Their information on a decay is ``sum_t dt E c_t^2 / q`` at most: one at its boundary, zero, has
    a curvature of its logarithm without information. Estimates are off by about two over the whole
    duration besides, which for slow modes is more than their standard error.
    """
    linear, times = law.without_preparation_and_mean.linear, law.times
    dt = np.diff(times)
    energy = law.without_preparation_and_mean.equation.energy_spectrum(times[:-1]).values
    information = law.info["n_paths"] * (dt @ energy) / operators.diagonal(linear.noise)
    least = 1.0 / np.sqrt(np.maximum(information, 1e-300)) / drift_units(law)
    bias = 2.0 / (law.info["n_paths"] * dt.sum()) / drift_units(law)
    lacking = np.sqrt(np.maximum(least**2 - (roots[0] ** 2).sum(-1), 0.0) + bias**2)
    extra = np.zeros((*roots.shape[:2], len(lacking)))
    extra[0] = np.diag(lacking)
    return np.concatenate([roots, extra], -1)


def _diagonal_rows(rows: Array, operator: Array) -> Array:
    """Rows of the diagonal of an operator; (N, free)."""
    n = len(operator)
    return rows if operator.ndim == 1 else rows.reshape(n, n, -1)[np.arange(n), np.arange(n)]


def _observation_rows(table: xr.Dataset, columns: Array, n_modes: int) -> Array:
    names = list(table["coordinate"].values)
    if "observation_std" not in names:
        return np.zeros((n_modes, columns.shape[1]))
    return np.tile(2.0 * columns[names.index("observation_std")], (n_modes, 1))
