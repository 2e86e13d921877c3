"""Mean and response to a known forcing, taken off the data, and their share of the score.

d log p / d Lambda = (score of the unforced state) + sum_t (d log p / d m(t)) (d m(t) / d Lambda)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spdelaw.equation import Linear
from spdelaw.model._blocks import apply_gram
from spdelaw.model._collapsed import Block

if TYPE_CHECKING:
    from spdelaw.model._likelihood import Evaluation

Array = np.ndarray


def without_response(block: Block, dynamics: Linear) -> Block:
    """Collapsed data of the deviation: less the mean and the response to a forcing."""
    if not dynamics.is_driven:
        return block
    m = np.moveaxis(dynamics.response(block.times), -1, 1) * block.unit  # (T, N, columns)
    return block._replace(
        estimate=block.estimate - m, vector=block.vector - apply_gram(block.gram, m)
    )


def add_response_score(
    found: Evaluation, block: Block, dynamics: Linear, mean: Array, r: float
) -> Evaluation:
    """The evaluation with what the response adds to the score by the drift.

    ``d log p / d m = G (c_hat - c) / r``: what the observations pull the state by.
    """
    if dynamics.forcing is None:
        return found
    pull = apply_gram(block.gram, block.estimate - mean) / r * block.unit
    by = np.moveaxis(pull, 1, -1)  # (T, columns, N)
    if block.times.shape[1] == 1:
        by = by.sum(1, keepdims=True)
    return found._replace(by_drift=found.by_drift + dynamics.response_pull_back(block.times, by))
