"""Law of the first states of a semilinear field.

States that were seen have a sample mean and variance. Behind gaps and noise each path has at its
first time a likelihood of the Gaussian form with precision ``A_p`` and pull ``h_p``, which is the
smoothed state N(m_p, S_p) without its wide start N(0, V):

    A_p = S_p^-1 - V^-1,    h_p = S_p^-1 m_p,

and expectation-maximisation finds the mean and the variances (modes independent) that they share.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import InitialState
from spdelaw.infer._semilinear_sight import Behind, Sight
from spdelaw.infer._statistics_problem import SAME_START
from spdelaw.infer.semilinear import SemilinearFit
from spdelaw.model import Block, smooth_semilinear

Array = np.ndarray
#: Law of the first states, and standard errors of its mean (N,).
FirstStates = tuple[InitialState, Array]

#: Rounds of expectation-maximisation.
ROUNDS = 60
#: Times, in units of the burn-in, whose observations tell of the first state.
REACH = 3.0
#: Least variance of a first state, relative to the mean one: a filter cannot do with none.
LEAST = 1e-8


def first_states(fit: SemilinearFit, sight: Sight) -> FirstStates:
    """Law of the states at the first time."""
    if isinstance(sight, Behind):
        return _behind(fit, sight)
    first = sight.c[:, 0]
    return _of_states(first[np.isfinite(first).all(1)], sight.c)


def _of_states(first: Array, c: Array) -> FirstStates:
    """Gaussian of the first states (P, N), modes independent; one known state where all agree."""
    n = c.shape[2]
    if not len(first):  # nobody saw the first time: as the field usually is
        seen = c[np.isfinite(c).all(2)]
        return InitialState("gaussian", seen.mean(0), seen.var(0)), np.full(n, np.nan)
    mean, spread, error = first.mean(0), np.zeros(n), np.full(n, np.nan)
    if len(first) > 1:
        spread = first.var(0, ddof=1)
        error = np.sqrt(spread / len(first))
    if spread.sum() <= SAME_START * float((first**2).sum(1).mean()):
        return InitialState("deterministic", mean, np.zeros(n)), error
    return InitialState("gaussian", mean, spread), error


def _behind(fit: SemilinearFit, sight: Behind) -> FirstStates:
    closure, r = fit.layout.closure(fit.x), fit.layout.observation_variance(fit.x)
    prior, n_steps = fit.diagnostics["prior"], fit.diagnostics["n_steps"]
    means, spreads = [], []
    for block in sight.collapsed.blocks:
        early = _early(block, REACH * fit.diagnostics["burn"])
        found = smooth_semilinear(closure, early, r, prior, n_steps)
        means.append(found.mean[0])
        spreads.append(found.covariance[0])
    inverse = np.linalg.inv(np.concatenate(spreads))
    pull = np.einsum("pij,pj->pi", inverse, np.concatenate(means))
    precision = inverse - np.diag(1.0 / prior.covariance)
    return _shared(precision, pull, prior.covariance)


def _shared(precision: Array, pull: Array, variance: Array) -> FirstStates:
    """Mean and variances of states with these likelihoods, and errors of the mean."""
    n_paths, n = pull.shape
    mean = np.zeros(n)
    for _ in range(ROUNDS if n_paths > 1 else 1):
        spread = np.linalg.inv(precision + np.diag(1.0 / variance))
        states = np.einsum("pij,pj->pi", spread, pull + mean / variance)
        mean = states.mean(0)
        own = np.einsum("pii->pi", spread)
        variance = ((states - mean) ** 2 + own).mean(0)
        variance = np.maximum(variance, LEAST * variance.mean())
    error = np.sqrt(variance / n_paths) if n_paths > 1 else np.full(n, np.nan)
    return InitialState("gaussian", mean, variance), error


def _early(block: Block, reach: float) -> Block:
    """The first times of a block, at least five."""
    age = (block.times - block.times[:1]).min(1)
    n = max(int((age <= reach).sum()), min(5, len(age)))
    parts = {name: getattr(block, name)[:n] for name in ("times", "gram", "vector", "estimate")}
    return block._replace(**parts)
