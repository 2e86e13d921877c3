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

    Misfit and values that do not depend on the state stay with the first segment of each path.
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
    cut = _Cutter(length, run_in, n_segments, n_paths)
    gram = cut(block.gram)
    values = _own_values(block.n_values, gram[:run_in])
    own = [cut.first(part) for part in (block.misfit, block.log_weight)]
    times = block.times[0, 0] + dt.mean() * np.arange(run_in + length)[:, None]
    return Block(
        np.repeat(block.paths, n_segments), times, gram, cut(block.vector), cut(block.estimate),
        own[0], values, own[1], np.zeros(gram.shape[-1]),
    )  # fmt: skip


class _Cutter:
    """Cuts (T, ..., P) into (run_in + length, ..., P * n_segments), empty past the end."""

    def __init__(self, length: int, run_in: int, n_segments: int, n_paths: int) -> None:
        self.length, self.run_in = length, run_in
        self.n_segments, self.n_paths = n_segments, n_paths

    def __call__(self, values: Array) -> Array:
        values = np.broadcast_to(values, (*values.shape[:-1], self.n_paths))
        missing = self.run_in + self.n_segments * self.length - len(values)
        padded = np.concatenate([values, np.zeros((missing, *values.shape[1:]))])
        starts = self.length * np.arange(self.n_segments)
        parts = [padded[s : s + self.run_in + self.length] for s in starts]
        return np.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1)

    def first(self, values: Array) -> Array:
        """What belongs to a whole path, with its first segment; (P * n_segments,)."""
        out = np.zeros((self.n_paths, self.n_segments))
        out[:, 0] = values
        return out.ravel()


def _own_values(n_values: Array, gram: Array) -> Array:
    """Values of each segment: all of a path's in its first, and in the others what is left out."""
    ranks = np.linalg.matrix_rank(np.moveaxis(in_full(gram), -1, 1), hermitian=True)
    left_out = ranks.sum(0).astype(float)
    n_segments = len(left_out) // len(n_values)
    left_out[::n_segments] = n_values
    return left_out
