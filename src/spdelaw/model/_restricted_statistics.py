"""The restricted likelihood of complete, noise-free paths, from their sums.

With ``e_t = (c_{t+1} - m) - F (c_t - m)`` the sum over steps is quadratic in m:

    I = sum (1 - F)' Omega^-1 (1 - F),    g = sum (1 - F)' Omega^-1 (c_{t+1} - F c_t)

A deterministic initial state is that of the data, given; it says nothing about the mean, and
neither does an anchored one, whose mean is that of the state. Any other adds its own precision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import Transition, operators
from spdelaw.model._likelihood import Evaluation
from spdelaw.model._mean_volume import bounded_volume, flat_volume, solve_mean
from spdelaw.model._restricted import Restricted, with_mean
from spdelaw.model._state_space import StateSpace
from spdelaw.model._statistics import Statistics, evaluate_statistics
from spdelaw.model._step_sums import StepSums, gradients

Array = np.ndarray


class About(NamedTuple):
    """What the sums say about the mean.

    Attributes:
        information, gradient: at zero, (N, N) and (N,).
        step: transitions of the lengths that occur.
        counts: steps of each, over all paths.
        weight: precision of a first state, None where it says nothing.
    """

    information: Array
    gradient: Array
    step: Transition
    counts: Array
    weight: Array | None


def evaluate_restricted_statistics(
    s: Statistics, state_space: StateSpace, *, anchored: bool = False
) -> Restricted:
    """Restricted likelihood and score, as `evaluate_restricted` from sufficient statistics."""
    own, about = state_space.linear, _about_mean(s, state_space, anchored)
    mean, covariance, logs = solve_mean(about.information, about.gradient)
    volume = flat_volume(own, covariance, logs)
    if anchored:
        volume = bounded_volume(own, about.information)
    found = evaluate_statistics(s, with_mean(state_space, mean, anchored))
    spread = operators.like(own.noise if own.is_diagonal else covariance, volume.spread)
    grown = about.counts.reshape(-1, *(1,) * spread.ndim) * spread
    sums = StepSums(np.zeros(len(about.counts)), grown, grown, grown)
    added = about.step.pull_back(*gradients(sums, about.step))
    found = found._replace(
        log_likelihood=found.log_likelihood + volume.log,
        by_drift=found.by_drift + operators.like(own.drift, added[0]) + volume.by_drift,
        by_noise=found.by_noise + operators.like(own.noise, added[1]) + volume.by_noise,
    )
    if about.weight is not None:
        both = s.n_paths * about.weight
        found = _with_first_states(found, both, volume.spread, covariance, s.n_paths)
    return Restricted(found, mean, covariance)


def mean_given_statistics(
    s: Statistics, state_space: StateSpace, *, anchored: bool = False
) -> tuple[Array, Array]:
    """``m_hat`` and its covariance alone."""
    about = _about_mean(s, state_space, anchored)
    return solve_mean(about.information, about.gradient)[:2]


def _about_mean(s: Statistics, state_space: StateSpace, anchored: bool) -> About:
    bare, initial = state_space.linear.with_mean(None), state_space.initial
    step, which = bare.over(s.lengths[0]), s.lengths[1]
    first = s.first - s.n_paths * bare.response(s.times)
    f, omega = (x if x.ndim == 3 else operators.embed(x) for x in (step.factor, step.covariance))
    left = np.eye(len(initial.mean)) - f
    pull = np.linalg.solve(omega, left)  # Omega^-1 (1 - F)
    counts = s.n_paths * np.bincount(which, minlength=len(f))
    information = np.einsum("u,uji,ujk->ik", counts, left, pull)
    error = first[1:] - np.einsum("tij,tj->ti", f[which], first[:-1])
    gradient, weight = np.einsum("tji,tj->i", pull[which], error), None
    if initial.kind != "deterministic" and not anchored:
        weight = np.linalg.inv(operators.as_matrix(initial.covariance))
        information = information + s.n_paths * weight
        gradient = gradient + weight @ (first[0] - s.n_paths * initial.mean)
    return About(0.5 * (information + information.T), gradient, step, counts, weight)


def _with_first_states(
    found: Evaluation, both: Array, spread: Array, covariance: Array, n_paths: int
) -> Evaluation:
    """What the first states add; ``both`` is the information that they share with the mean."""
    grown = 0.5 * both @ spread @ both / n_paths
    return found._replace(
        by_initial_covariance=found.by_initial_covariance
        + operators.like(found.by_initial_covariance, grown),
        initial_information=found.initial_information - both @ covariance @ both,
    )
