"""Log-likelihood and score of collapsed observations of coupled modes.

The formula is that of `_likelihood`, with matrices for the spectra.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.model._collapse import Block
from spdelaw.model._coupled_chain import (
    CoupledPrior,
    CoupledSweep,
    coupled_prior,
    covariances_coupled,
    mean_coupled,
    shared_steps,
    sweep_coupled,
)
from spdelaw.model._coupled_moments import MatrixSteps, matrix_score
from spdelaw.model._coupled_single import covariances_single
from spdelaw.model._parameters import CoupledParameters
from spdelaw.model._path_sums import as_matrix, over_paths, quadratic

Array = np.ndarray


class CoupledEvaluation(NamedTuple):
    """Log-likelihood per path and the gradient of its sum.

    Attributes:
        log_likelihood: (P,).
        by_drift, by_noise_covariance: (N, N), with the initial covariance held.
        by_initial_mean: (N,).
        by_initial_covariance: (N, N).
        by_observation_variance: one number.
        initial_information: ``-d2 log p / d m0 d m0'``, (N, N); constant in ``m0``.
    """

    log_likelihood: Array
    by_drift: Array
    by_noise_covariance: Array
    by_initial_mean: Array
    by_initial_covariance: Array
    by_observation_variance: float
    initial_information: Array


class Backward(NamedTuple):
    """What the backward pass gathers: sums over steps, ``sum tr(G Cov)``, ``Cov(c_1 | y)``."""

    steps: MatrixSteps
    gram_trace: Array
    first: Array


def evaluate_coupled_block(
    block: Block, parameters: CoupledParameters, misfit: Array, count: Array, volume: Array
) -> CoupledEvaluation:
    """Likelihood and score of one block.

    Args:
        block: collapsed observations.
        parameters: of the modes.
        misfit: what the modes leave over of each path, (P,); 0 for the density of ``c_hat``.
        count: numbers whose density this is, (P,).
        volume: twice the logarithm of the change of variables, (P,) or (1,).
    """
    r = float(parameters.observation_variance)
    prior = coupled_prior(parameters, block.times)
    start = prior.start
    # In units of r: the few matrices of the prior are scaled, not all of G and b.
    sweep = sweep_coupled(block.gram[start:], block.vector[start:], prior.scaled(r))
    free = mean_coupled(sweep)
    fixed = np.broadcast_to(parameters.initial_mean[:, None], free.shape[1:])
    mean = np.concatenate([fixed[None], free]) if start else free
    energy = misfit + quadratic(block.gram, block.estimate - mean)
    pulled = np.einsum("ijb,jb->ib", prior.precision, free[0] - prior.mean)
    past = np.einsum("ib,ib->b", free[0] - prior.mean, pulled) + _step_energy(free, prior)
    value = -0.5 * (
        count * np.log(2 * np.pi * r) + sweep.log_determinant + past + energy / r - volume
    )
    found = _backward(block, sweep, mean, r)
    n_paths = len(block.paths)
    by_r = 0.5 * ((energy / r**2 - count / r).sum() + over_paths(found.gram_trace, n_paths) / r)
    by_drift, by_noise = matrix_score(found.steps, prior.transition)
    by_mean, by_initial, information = _by_initial(
        block, parameters, prior, free[0] - prior.mean, pulled, found.first
    )
    return CoupledEvaluation(
        value, by_drift, by_noise, by_mean, by_initial, float(by_r), information
    )


def _step_energy(mean: Array, prior: CoupledPrior) -> Array:
    """``sum_t e' Omega^-1 e`` with ``e = c_{t+1} - F c_t``; (P,)."""
    weight = np.moveaxis(prior.noise_precision, -1, 0)
    if prior.which.shape[1] == 1:
        at = prior.which[prior.start :, 0]
        error = mean[1:] - prior.transition.factor[at] @ mean[:-1]
        return np.einsum("tip,tip->p", error, weight[at] @ error)
    total = np.zeros(mean.shape[-1])
    for t in range(len(mean) - 1):
        at = prior.which[t + prior.start]
        error = mean[t + 1] - np.einsum("pij,jp->ip", prior.transition.factor[at], mean[t])
        total += np.einsum("ip,pij,jp->p", error, weight[at], error)
    return total


def _backward(block: Block, sweep: CoupledSweep, mean: Array, r: float) -> Backward:
    """Covariances from the last time on, added to the sums over steps as they come."""
    if sweep.inverse.shape[-1] == 1:
        return _backward_shared(block, sweep, mean, r)
    prior = sweep.prior
    start, which, n_paths = prior.start, prior.which, len(block.paths)
    n_modes = mean.shape[1]
    steps = MatrixSteps.zeros(len(prior.transition.factor), n_modes)
    trace = np.zeros(sweep.inverse.shape[-1])
    after = sweep.inverse[-1]
    for t, covariance, cross in covariances_coupled(sweep):
        gram = block.gram[t + start]
        diagonal = np.einsum("iib->ib", covariance) if gram.ndim == 2 else covariance
        trace += (gram * diagonal).reshape(-1, len(trace)).sum(0)
        if len(cross):
            at = t + start
            _add(steps, which[at], mean[at], mean[at + 1],
                 (r * covariance, r * cross, r * after), n_paths)  # fmt: skip
        after = covariance
    if start:
        zero = np.zeros_like(after)
        _add(steps, which[0], mean[0], mean[1], (zero, zero, r * after), n_paths)
    return Backward(steps, trace, r * after)


def _backward_shared(block: Block, sweep: CoupledSweep, mean: Array, r: float) -> Backward:
    """The same for one pattern, all times at once."""
    prior, n_paths = sweep.prior, len(block.paths)
    covariance, cross = covariances_single(sweep.inverse[..., 0], *shared_steps(prior))
    gram = block.gram[prior.start :, ..., 0]
    diagonal = np.einsum("tii->ti", covariance) if gram.ndim == 2 else covariance
    trace = np.array([(gram * diagonal).sum()])
    if prior.start:
        zero = np.zeros_like(covariance[:1])
        covariance, cross = np.concatenate([zero, covariance]), np.concatenate([zero, cross])
    turned = np.swapaxes(mean, 1, 2)
    square = mean @ turned + n_paths * r * covariance
    product = mean[:-1] @ turned[1:] + n_paths * r * cross
    which = prior.which[:, 0]
    steps = MatrixSteps.zeros(len(prior.transition.factor), mean.shape[1])
    np.add.at(steps.n_steps, which, float(n_paths))
    for total, values in zip(steps[1:], (square[:-1], product, square[1:]), strict=True):
        np.add.at(total, which, values)
    return Backward(steps, trace, r * covariance[prior.start, ..., None])


def _add(
    steps: MatrixSteps, which: Array, now: Array, then: Array, spreads: tuple, n_paths: int
) -> None:
    """Add one step of all paths: products of means, and covariances (N, N, B)."""
    pairs = ((now, now), (now, then), (then, then))
    if len(which) == 1:
        steps.n_steps[which[0]] += n_paths
        for total, (a, b), spread in zip(steps[1:], pairs, spreads, strict=True):
            total[which[0]] += a @ b.T + over_paths(spread, n_paths)
        return
    np.add.at(steps.n_steps, which, 1.0)
    for total, (a, b), spread in zip(steps[1:], pairs, spreads, strict=True):
        np.add.at(total, which, np.einsum("ip,jp->pij", a, b) + np.moveaxis(spread, -1, 0))


def _by_initial(
    block: Block, parameters: CoupledParameters, prior: CoupledPrior, error: Array, pulled: Array,
    first: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradient by ``m0`` and ``V0``, and the information on ``m0``."""
    n_paths, n_modes = len(block.paths), len(error)
    if prior.start:
        f = np.moveaxis(prior.transition.factor[prior.which[0]], 0, -1)
        gram = as_matrix(block.gram[0]) / float(parameters.observation_variance)
        at_start = block.estimate[0] - parameters.initial_mean[:, None]
        observed = np.einsum("ijb,jp->ip" if gram.shape[-1] == 1 else "ijp,jp->ip", gram, at_start)
        carried = np.einsum("jib,jp->ip" if f.shape[-1] == 1 else "jip,jp->ip", f, pulled)
        d = np.einsum("ijb,jkb->ikb", prior.precision, f)
        own = over_paths(np.einsum("jib,jkb->ikb", f, d), n_paths) + over_paths(gram, n_paths)
        known = np.einsum("jib,jkb,klb->ilb", *np.broadcast_arrays(d, first, d))
        return (
            (carried + observed).sum(-1),
            np.zeros((n_modes, n_modes)),
            own - over_paths(known, n_paths),
        )
    w = prior.precision[..., 0]
    spread = error @ error.T + over_paths(first, n_paths)
    known = w @ over_paths(first, n_paths) @ w
    return (
        pulled.sum(-1),
        0.5 * (w @ spread @ w - n_paths * w),
        n_paths * w - known,
    )
