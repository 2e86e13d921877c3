"""A few long records as many short ones, to be filtered side by side.

A filter forgets: after a run-in of a few time scales its state hardly depends on where it began. A
record is cut into segments that each begin one run-in early; terms of the run-in do not count
(``burn`` of `filter_scores`), so every term counts once, given the observations of its segment
before it.
"""

from __future__ import annotations

import numpy as np

from spdelaw.model._blocks import in_full
from spdelaw.model._collapsed import Block

Array = np.ndarray

#: Segments and paths that are filtered together.
SIDE_BY_SIDE = 16
#: A segment is at least this many times as long as its run-in, and this many times long.
LEAST_RUN_INS, LEAST_TIMES = 4, 40
#: Steps count as equal when they differ by less than this part.
SAME = 1e-9


def in_segments(block: Block, burn: float) -> Block:
    """The same block in segments, or as it is where that would not help.

    Misfit and values that do not depend on the state stay with the first segment of each path; the
    others have the values that their run-in leaves out.
    """
    n_times, _, n_paths = block.vector.shape
    dt = np.diff(block.times[:, 0])
    if block.times.shape[1] > 1 or n_times < 2 or np.ptp(dt) > SAME * dt.max():
        return block
    run_in = int((block.times[:, 0] - block.times[0, 0] < burn).sum())
    least = max(LEAST_TIMES, LEAST_RUN_INS * run_in)
    n_segments = min(SIDE_BY_SIDE // n_paths, (n_times - run_in) // least)
    if n_segments < 2:
        return block
    length = -(-(n_times - run_in) // n_segments)
    missing = run_in + n_segments * length - n_times

    def cut(values: Array) -> Array:
        """(T, ..., P) as (run_in + length, ..., P * n_segments), empty past the end."""
        values = np.broadcast_to(values, (*values.shape[:-1], n_paths))
        padded = np.concatenate([values, np.zeros((missing, *values.shape[1:]))])
        parts = [padded[k * length :][: run_in + length] for k in range(n_segments)]
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1)

    def first(values: Array, others: Array | float = 0.0) -> Array:
        """What belongs to a whole path, with its first segment; (P * n_segments,)."""
        out = np.zeros(n_paths * n_segments) + others
        out[::n_segments] = values
        return out

    gram = cut(block.gram)
    ranks = np.linalg.matrix_rank(np.moveaxis(in_full(gram[:run_in]), -1, 1), hermitian=True)
    times = block.times[0, 0] + dt.mean() * np.arange(run_in + length)[:, None]
    return Block(
        np.repeat(block.paths, n_segments), times, gram, cut(block.vector), cut(block.estimate),
        first(block.misfit), first(block.n_values, ranks.sum(0)), first(block.log_weight),
        np.zeros(gram.shape[-1]),
    )  # fmt: skip
