"""The restricted likelihood of complete, noise-free paths, from their sums.

With ``e_t = (c_{t+1} - m) - F (c_t - m)`` the sum over steps is quadratic in m:

    I = sum (1 - F)' Omega^-1 (1 - F),    g = sum (1 - F)' Omega^-1 (c_{t+1} - F c_t)

A deterministic initial state is that of the data, given; it says nothing about the mean, and
neither does an anchored one, whose mean is that of the state. Any other adds its own precision.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import Transition, operators
from spdelaw.model._likelihood import Evaluation
from spdelaw.model._restricted import solve_mean, volume, with_mean
from spdelaw.model._state_space import StateSpace
from spdelaw.model._statistics import Statistics, evaluate_statistics
from spdelaw.model._step_sums import gradients, grouped

Array = np.ndarray


def evaluate_restricted_statistics(
    s: Statistics, state_space: StateSpace, *, anchored: bool = False
) -> Evaluation:
    """Restricted likelihood and score, as `evaluate_restricted` from sufficient statistics."""
    own = state_space.linear
    information, gradient, step, counts, weight = _about_mean(s, state_space, anchored)
    mean, covariance, flat = solve_mean(information, gradient)
    log, spread, *through = volume(own, information, (covariance, flat), anchored)
    found = evaluate_statistics(s, with_mean(state_space, mean, anchored))
    each = operators.like(own.noise if own.is_diagonal else np.empty((1, 1)), spread)
    grown = counts.reshape(-1, *(1,) * each.ndim) * each
    added = step.pull_back(*gradients(0.0, np.stack([grown] * 3), step))
    found = found._replace(
        log_likelihood=found.log_likelihood + log,
        by_drift=found.by_drift + operators.like(own.drift, added[0]) + through[0],
        by_noise=found.by_noise + operators.like(own.noise, added[1]) + through[1],
    )
    if weight is None:
        return found
    both = s.n_paths * weight  # what the first states share with the mean
    by_initial = found.by_initial_covariance
    return found._replace(
        by_initial_covariance=by_initial
        + operators.like(by_initial, 0.5 * both @ spread @ both / s.n_paths),
        initial_information=found.initial_information - both @ covariance @ both,
    )


def mean_given_statistics(
    s: Statistics, state_space: StateSpace, *, anchored: bool = False
) -> tuple[Array, Array]:
    """``m_hat`` and its covariance alone; (N,) and (N, N)."""
    return solve_mean(*_about_mean(s, state_space, anchored)[:2])[:2]


def _about_mean(
    s: Statistics, state_space: StateSpace, anchored: bool
) -> tuple[Array, Array, Transition, Array, Array | None]:
    """Information and gradient of the mean at zero, and what they rest on.

    Transitions of the lengths that occur, steps of each over all paths, and the precision of a
    first state, None where it says nothing.
    """
    bare, initial = state_space.linear.with_mean(None), state_space.initial
    step, which = bare.over(s.lengths[0]), s.lengths[1]
    start, first = s.first[0], s.first_steps
    if bare.forcing is not None:
        driven = s.first - s.n_paths * bare.response(s.times)
        start, n = driven[0], len(s.lengths[0])
        first = grouped(driven[:-1], which, n), grouped(driven[1:], which, n)
    counts = s.n_paths * np.bincount(which, minlength=len(step.factor))
    information, gradient = _of_steps(step, counts, first)
    if initial.kind == "deterministic" or anchored:
        return information, gradient, step, counts, None
    weight = np.linalg.inv(operators.as_matrix(initial.covariance))
    information = information + s.n_paths * weight
    gradient = gradient + weight @ (start - s.n_paths * initial.mean)
    return 0.5 * (information + information.T), gradient, step, counts, weight


def _of_steps(step: Transition, counts: Array, first: tuple[Array, Array]) -> tuple[Array, Array]:
    """``sum (1 - F)' Omega^-1 (1 - F)`` and ``sum (1 - F)' Omega^-1 (c_{t+1} - F c_t)``.

    ``first`` are the sums of ``c_t`` and of ``c_{t+1}`` over the steps of each transition.
    """
    f, omega = step.factor, step.covariance
    if f.ndim == omega.ndim == 2:
        pull = (1.0 - f) / omega
        information = np.diag(counts @ (pull * (1.0 - f)))
        return information, (pull * (first[1] - f * first[0])).sum(0)
    f, omega = (x if x.ndim == 3 else operators.embed(x) for x in (f, omega))
    left = np.eye(f.shape[-1]) - f
    pull = np.linalg.solve(omega, left)  # Omega^-1 (1 - F)
    information = np.einsum("u,uji,ujk->ik", counts, left, pull)
    error = first[1] - np.einsum("uij,uj->ui", f, first[0])
    return 0.5 * (information + information.T), np.einsum("uji,uj->i", pull, error)
