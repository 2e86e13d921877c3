"""The truncated chaos model of the coefficients: exact likelihood and score.

``tail="dropped"`` is the paper's decoder (eq. 12) with its exact Gaussian inference in place of
an encoder. ``tail="modelled"`` adds the covariance of what the decoder cuts off; the sum is the
Ornstein-Uhlenbeck covariance, so its likelihood is that of `evaluate_likelihood`, computed
another way.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from spdelaw.errors import DataError, InputError
from spdelaw.model._chaos_gaussian import Gaussian, with_tail, without_tail
from spdelaw.model._chaos_map import (
    ChaosModel,
    LatentMap,
    dense_columns,
    full_covariance,
    latent_map,
    mode_covariance,
)
from spdelaw.model._chaos_rows import Rows, rows_of, single_patterns
from spdelaw.model._collapse import Block, Collapsed
from spdelaw.model._likelihood import Evaluation
from spdelaw.model._state_space import StateSpace
from spdelaw.model._threads import one_thread

Array = np.ndarray
Density = Literal["fields", "coefficients"]

#: Most rows of one covariance matrix: 3000 take 70 MB and seconds.
MOST_ROWS = 3000


@one_thread
def evaluate_chaos(
    collapsed: Collapsed, state_space: StateSpace, model: ChaosModel, *, density: Density = "fields"
) -> Evaluation:
    """Log-likelihood of each path and the score of the sum, as `evaluate_likelihood` gives them.

    Args:
        collapsed: data, from `collapse`.
        state_space: of modes that drift and noise leave apart.
        model: number of functions of time, and what becomes of the tail.
        density: of all observed values ("fields"), or of the estimates ``c_hat`` at the times
            after a deterministic initial state ("coefficients"), which exists without noise.
    """
    if model.noise_factor is not None:
        expected = "noise of its own for each mode"
        fix = "chaos_log_likelihood takes dense factors; the score does not"
        raise InputError("noise_factor", expected=expected, got="a dense factor", fix=fix)
    log_likelihood = np.empty(collapsed.n_paths)
    sums: list = [0.0] * (len(Evaluation._fields) - 1)
    for block in collapsed.blocks:
        for one in single_patterns(block):
            part = _evaluate(one, state_space, model, density)
            log_likelihood[one.paths] = part.log_likelihood
            sums = [a + b for a, b in zip(sums, part[1:], strict=True)]
    return Evaluation(log_likelihood, *sums)


def chaos_log_likelihood(collapsed: Collapsed, state_space: StateSpace, model: ChaosModel) -> Array:
    """Log-likelihood of each path, (P,); also for noise that couples the modes."""
    if model.noise_factor is None:
        return evaluate_chaos(collapsed, state_space, model).log_likelihood
    out = np.empty(collapsed.n_paths)
    r = float(state_space.observation_variance)
    for block in collapsed.blocks:
        for one in single_patterns(block):
            rows = rows_of(one, couple=True)
            found = coupled(rows, state_space, model)
            out[one.paths] = found.log_density + _rest(one, rows, r, "fields")[0]
    return out


# -- one pattern ---------------------------------------------------------------------------


def _evaluate(
    block: Block, state_space: StateSpace, model: ChaosModel, density: Density
) -> Evaluation:
    rows = rows_of(block)
    if density == "coefficients" and state_space.initial.kind == "deterministic":
        rows = rows.after_first()
    r = float(state_space.observation_variance)
    if rows.is_coupled:
        found, mapped = coupled(rows, state_space, model), latent_map(state_space, rows.ages, model)
    else:
        found, mapped = decoupled(rows, state_space, model)
    extra, by_r = _rest(block, rows, r, density)
    pull = rows.adjoint(found.pull).sum(2)
    by_mean = mapped.decay * pull
    by_lambda, by_q, by_v0 = _by_spectra(rows, found, mapped, state_space, model)
    by_lambda = by_lambda - (mapped.ages[:, None] * by_mean).sum(0) * state_space.initial.mean
    return Evaluation(
        found.log_density + extra,
        by_lambda,
        by_q,
        by_mean.sum(0),
        by_v0,
        found.by_variance + by_r,
        _initial_information(rows, found, mapped),
    )


def decoupled(rows: Rows, state_space: StateSpace, model: ChaosModel) -> tuple[Gaussian, LatentMap]:
    """Each mode a problem of its own."""
    mapped = latent_map(state_space, rows.ages, model)
    w, columns = _errors(rows, mapped.decay, state_space), rows.whiten(mapped.columns)
    r = float(state_space.observation_variance)
    if model.tail == "dropped":
        return without_tail(w, columns, r), mapped
    h = rows.root.T
    signal = h[:, :, None] * mode_covariance(state_space, mapped, model)[0] * h[:, None, :]
    return with_tail(w, columns, signal, r), mapped


def coupled(rows: Rows, state_space: StateSpace, model: ChaosModel) -> Gaussian:
    """All modes in one problem."""
    decay = np.exp(-rows.ages[:, None] * state_space.linear.drift)
    w = _errors(rows, decay, state_space)
    columns = rows.whiten(dense_columns(state_space, rows.ages, model))
    r = float(state_space.observation_variance)
    if model.tail == "dropped":
        return without_tail(w, columns, r)
    size = w.shape[1]
    if size > MOST_ROWS:
        expected = f"at most {MOST_ROWS} times x modes where the grid mixes modes"
        fix = "use tail='dropped', or engine='exact'"
        raise DataError("data", expected=expected, got=str(size), fix=fix)
    covariance = full_covariance(state_space, rows.ages, model)
    half = rows.whiten(covariance.reshape(*rows.root.shape[:2], size))[0]
    signal = rows.whiten(half.T.reshape(*rows.root.shape[:2], size))
    return with_tail(w, columns, signal, r)


def _errors(rows: Rows, decay: Array, state_space: StateSpace) -> Array:
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
    if r == 0.0:
        return volume, 0.0
    out = volume - 0.5 * (count * np.log(2 * np.pi * r) + square / r)
    return out, 0.5 * float((square / r**2 - count / r).sum())


def _by_spectra(
    rows: Rows, found: Gaussian, mapped: LatentMap, state_space: StateSpace, model: ChaosModel
) -> tuple[Array, Array, Array]:
    """Gradient by lambda (through the covariance alone), q and v0; each (N,)."""
    q, v0 = state_space.linear.noise, state_space.initial.covariance
    start = int(mapped.has_start)
    if found.by_columns is not None:
        by = _own_columns(rows.adjoint(found.by_columns), rows, mapped)
        by_lambda = (by * mapped.slope).sum((0, 2))
        scaled = by * mapped.columns
        by_q = 0.5 * scaled[..., start:].sum((0, 2)) / q
        by_v0 = 0.5 * scaled[..., 0].sum(0) / v0 if start else np.zeros(len(q))
        return by_lambda, by_q, by_v0
    by = _own_covariance(rows, found)
    _, driven, slope = mode_covariance(state_space, mapped, model)
    decay = mapped.decay.T
    by_v0 = np.einsum("nts,nt,ns->n", by, decay, decay) if start else np.zeros(len(q))
    return (by * slope).sum((1, 2)), (by * driven).sum((1, 2)) / q, by_v0


def _own_columns(by: Array, rows: Rows, mapped: LatentMap) -> Array:
    """Gradient by the columns of each mode's own coordinates, (T, N, D)."""
    if not rows.is_coupled:
        return by
    n, start = mapped.columns.shape[1], int(mapped.has_start)
    at = np.arange(n)
    noise = by[..., n * start :].reshape(*by.shape[:2], -1, n)
    own = noise[:, at, :, at].transpose(1, 0, 2)
    if not start:
        return own
    return np.concatenate([by[:, at, at][..., None], own], axis=2)


def _own_covariance(rows: Rows, found: Gaussian) -> Array:
    """Gradient by the covariance in time of each mode, (N, T, T)."""
    by = found.by_covariance
    if by is None:
        raise TypeError("a density without a tail has no gradient by its covariance")
    if not rows.is_coupled:
        h = rows.root.T
        return h[:, :, None] * by * h[:, None, :]
    t, n = rows.root.shape[:2]
    half = rows.adjoint(by).reshape(t * n, t * n)
    whole = rows.adjoint(half.T[None]).reshape(t, n, t, n)
    at = np.arange(n)
    return whole[:, at, :, at]


def _initial_information(rows: Rows, found: Gaussian, mapped: LatentMap) -> Array:
    """``E' H' Sigma^-1 H E`` with ``E = e^(-lambda t)``, times the number of paths; (N, N)."""
    n, n_paths = mapped.decay.shape[1], found.pull.shape[2]
    if rows.is_coupled:
        return n_paths * found.precision(rows.whiten(mapped.decay[..., None] * np.eye(n)))[0]
    return n_paths * np.diag(found.precision(rows.whiten(mapped.decay[..., None]))[:, 0, 0])
