"""The paper's truncated decoder (eq. 12): exact likelihood and score in place of an encoder.

With the covariance of what the decoder cuts off added to that of its coordinates the sum is the
Ornstein-Uhlenbeck covariance: the likelihood of ``tail="modelled"`` is `evaluate_likelihood`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from spdelaw.errors import InputError
from spdelaw.model._chaos_map import ChaosModel, LatentMap, dense_columns, latent_map
from spdelaw.model._chaos_rows import (
    RowDensity,
    Rows,
    gaussian_rows,
    precision_of,
    rows_of,
    single_patterns,
)
from spdelaw.model._collapsed import Block, Collapsed
from spdelaw.model._likelihood import Evaluation, of_all
from spdelaw.model._state_space import StateSpace
from spdelaw.model._threads import one_thread

Array = np.ndarray
Density = Literal["fields", "coefficients"]


@one_thread
def evaluate_chaos(
    collapsed: Collapsed, state_space: StateSpace, model: ChaosModel, *, density: Density = "fields"
) -> Evaluation:
    """Log-likelihood of each path and the score of the sum, as `evaluate_likelihood` gives them.

    Args:
        collapsed: data, from `collapse`.
        state_space: of modes that drift and noise leave apart.
        model: number of functions of time, its tail dropped.
        density: of all observed values ("fields"), or of the estimates ``c_hat`` at the times
            after a deterministic initial state ("coefficients"), which exists without noise.
    """
    if model.noise_factor is not None or model.tail != "dropped":
        expected = "a dropped tail, and noise of its own for each mode"
        got = f"tail {model.tail!r}" if model.noise_factor is None else "a dense noise factor"
        fix = "evaluate_likelihood is the likelihood with the tail, and takes any noise"
        raise InputError("model", expected=expected, got=got, fix=fix)
    each = [one for block in collapsed.blocks for one in single_patterns(block)]
    parts = [_evaluate(one, state_space, model, density) for one in each]
    return of_all([one.paths for one in each], parts, collapsed.n_paths)


# -- one pattern ---------------------------------------------------------------------------


def _evaluate(
    block: Block, state_space: StateSpace, model: ChaosModel, density: Density
) -> Evaluation:
    rows, r = rows_of(block), float(state_space.observation_variance)
    if density == "coefficients" and state_space.initial.kind == "deterministic":
        rows = rows.after_first()
    mapped, columns = latent_map(state_space, rows.ages, model), whitened(rows, state_space, model)
    found = given_rows(rows, columns, state_space)
    extra, by_r = _rest(block, rows, r, density)
    by_mean = mapped.decay * rows.adjoint(found.pull).sum(2)
    by_lambda, by_q, by_v0 = _by_spectra(rows, found, mapped, state_space)
    by_lambda = by_lambda - (rows.ages @ by_mean) * state_space.initial.mean
    return Evaluation(
        found.log_density + extra,
        by_lambda,
        by_q,
        by_mean.sum(0),
        by_v0,
        found.by_variance + by_r,
        _initial_information(rows, found, mapped, columns, r),
    )


def whitened(rows: Rows, state_space: StateSpace, model: ChaosModel) -> Array:
    """The map from coordinates to rows, (S, R, D): each mode its own, or all modes one problem."""
    if rows.is_coupled:
        return rows.whiten(dense_columns(state_space, rows.ages, model))
    return rows.whiten(latent_map(state_space, rows.ages, model).columns)


def given_rows(rows: Rows, columns: Array, state_space: StateSpace) -> RowDensity:
    """Density of the rows, and the coordinates given them."""
    r = float(state_space.observation_variance)
    return gaussian_rows(errors_of(rows, state_space), columns, r)


def errors_of(rows: Rows, state_space: StateSpace) -> Array:
    """Rows less their mean, (S, R, P)."""
    decay = np.exp(-rows.ages[:, None] * state_space.linear.drift)
    return rows.whiten(rows.estimate - (decay * state_space.initial.mean)[..., None])


def _rest(block: Block, rows: Rows, r: float, density: Density) -> tuple[Array, float]:
    """What the rows leave out of the log density of each path, and its gradient by r.

    Rows that observe nothing are zero with variance r: their density is taken out again.
    """
    n_rows = rows.root.shape[0] * rows.root.shape[1]
    if density == "fields":
        count, square = block.n_values - n_rows, block.misfit
        volume = 0.5 * block.log_weight
    else:
        count, square = rows.n_seen - n_rows, np.zeros(len(block.paths))
        # Density of c_hat instead of H c_hat: its Jacobian is that of the change.
        volume = np.full(len(block.paths), rows.log_root)
    out = volume - 0.5 * (count * np.log(2 * np.pi * r) + square / r)
    return out, 0.5 * float((square / r**2 - count / r).sum())


def _by_spectra(
    rows: Rows, found: RowDensity, mapped: LatentMap, state_space: StateSpace
) -> tuple[Array, Array, Array]:
    """Gradient by lambda (through the covariance alone), q and v0; each (N,)."""
    q, v0 = state_space.linear.noise, state_space.initial.covariance
    start = int(state_space.initial.kind != "deterministic")
    by = rows.adjoint(found.by_columns)
    if rows.is_coupled:  # each mode's own coordinates, (T, N, D)
        by = np.einsum("tndn->tnd", by.reshape(*by.shape[:2], -1, len(q)))
    scaled = by * mapped.columns
    by_q = 0.5 * scaled[..., start:].sum((0, 2)) / q
    by_v0 = 0.5 * scaled[..., 0].sum(0) / v0 if start else np.zeros(len(q))
    return (by * mapped.slope).sum((0, 2)), by_q, by_v0


def _initial_information(
    rows: Rows, found: RowDensity, mapped: LatentMap, columns: Array, r: float
) -> Array:
    """``E' H' Sigma^-1 H E`` with ``E = e^(-lambda t)``, times the number of paths; (N, N)."""
    n, n_paths = mapped.decay.shape[1], found.pull.shape[2]
    decay = mapped.decay[..., None] * (np.eye(n) if rows.is_coupled else 1.0)
    each = precision_of(rows.whiten(decay), columns, found.covariance, r)
    return n_paths * (each[0] if rows.is_coupled else np.diag(each[:, 0, 0]))
