"""Likelihoods under a known forcing.

The forced state is ``c = u + m(lambda)`` with u the state without forcing and m the response. The
likelihood of the data is that of the data less ``Phi m``, and by the chain rule

    d log p / d lambda_n = (score of u) + sum_t (d log p / d m_n(t)) (d m_n(t) / d lambda_n).
"""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from spdelaw.equation import Forcing, transition
from spdelaw.model._collapse import Block, Collapsed
from spdelaw.model._likelihood import (
    Evaluation,
    add_up,
    apply_gram,
    evaluate_block,
    in_threads,
)
from spdelaw.model._parameters import Parameters
from spdelaw.model._statistics import Statistics, evaluate_statistics

Array = np.ndarray


def evaluate_forced(
    collapsed: Collapsed,
    parameters: Parameters,
    forcing: Forcing,
    start: float,
    *,
    use_misfit: bool = True,
    threads: int = 1,
) -> Evaluation:
    """`evaluate_likelihood` of data under a forcing that acts from ``start`` on."""

    def one(block: Block) -> Evaluation:
        return _evaluate_block(block, parameters, forcing, start, use_misfit)

    parts = in_threads(one, collapsed.blocks, threads)
    return cast("Evaluation", add_up(collapsed, parts))


def _evaluate_block(
    block: Block, parameters: Parameters, forcing: Forcing, start: float, use_misfit: bool
) -> Evaluation:
    lam = parameters.eigenvalues
    block = _unforced(block, lam, forcing, start)
    found, mean = evaluate_block(block, parameters, use_misfit)
    # d log p / d m = G (c_hat - c) / r: what the observations pull the state by.
    pull = apply_gram(block.gram, block.estimate - mean) / parameters.observation_variance
    slope = _on_block(block, forcing.sensitivity(lam, block.times, start))
    return found._replace(by_eigenvalue=found.by_eigenvalue + (pull * slope).sum((0, 2)))


def unforced(collapsed: Collapsed, eigenvalues: Array, forcing: Forcing, start: float) -> Collapsed:
    """Collapsed data less the response at these eigenvalues."""
    blocks = (_unforced(block, eigenvalues, forcing, start) for block in collapsed.blocks)
    return collapsed._replace(blocks=tuple(blocks))


def _unforced(block: Block, eigenvalues: Array, forcing: Forcing, start: float) -> Block:
    m = _on_block(block, forcing.response(eigenvalues, block.times, start))
    return block._replace(
        estimate=block.estimate - m, vector=block.vector - apply_gram(block.gram, m)
    )


def _on_block(block: Block, m: Array) -> Array:
    """Response (T, 1 or P, N) in the columns of a block, (T, N, columns)."""
    return np.moveaxis(m, -1, 1) * block.unit


def unforced_statistics(statistics: Statistics, m: Array) -> Statistics:
    """Sums over paths of ``c - m``, for a response ``m`` (T, N) that is zero at the first time."""
    s = statistics

    def product(lag: int, of: Array) -> Array:
        now, then = slice(len(m) - lag), slice(lag, None)
        mixed = m[now] * s.first[then] + s.first[now] * m[then]
        return of - mixed + s.n_paths * m[now] * m[then]

    return dataclasses.replace(
        s, first=s.first - s.n_paths * m, square=product(0, s.square),
        cross=product(1, s.cross), skip=product(2, s.skip),
    )  # fmt: skip


def evaluate_forced_statistics(
    statistics: Statistics, parameters: Parameters, forcing: Forcing
) -> Evaluation:
    """`evaluate_statistics` of complete paths; the forcing acts from their first time on."""
    lam, times = parameters.eigenvalues, statistics.times
    s = unforced_statistics(statistics, forcing.response(lam, times, times[0]))
    found = cast("Evaluation", evaluate_statistics(s, parameters))
    slope = forcing.sensitivity(lam, times, times[0])
    a, omega = transition(lam, parameters.noise_variance, np.diff(times)[:, None])
    innovation = (s.first[1:] - a * s.first[:-1]) / omega
    by_lambda = (innovation * (slope[1:] - a * slope[:-1])).sum(0)
    return found._replace(by_eigenvalue=found.by_eigenvalue + by_lambda)
