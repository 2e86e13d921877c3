"""Products of all pairs of modes, summed over paths and over steps of equal length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import distinct_steps
from spdelaw.model._step_sums import grouped

Array = np.ndarray

#: Lengths of step up to which each has a product of its own.
FEW_LENGTHS = 16
#: Lags of the two factors of each sum over steps, and over two steps in a row.
ONES = {"before": (0, 0), "cross": (0, 1), "after": (1, 1)}
TWOS = {"early": (0, 1), "late": (1, 2), "middle": (1, 1), "skip": (0, 2)}


class PairSums(NamedTuple):
    """Sums over paths and over steps of equal length.

    Attributes:
        lengths: of the steps that occur, (U,).
        n_steps: how many of each, (U,).
        before, cross, after: sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and ``c_{t+1} c_{t+1}'`` over
            them, (U, N, N).
        two_lengths: indices into ``lengths`` of two steps in a row, (W, 2).
        two_count: how often they occur, (W,).
        early, late, middle, skip: sums of ``c_t c_{t+1}'``, ``c_{t+1} c_{t+2}'``,
            ``c_{t+1} c_{t+1}'`` and ``c_t c_{t+2}'`` over them, (W, N, N).
        first: ``sum_p (c_0 - mean)(c_0 - mean)'``, (N, N).
    """

    lengths: Array
    n_steps: Array
    before: Array
    cross: Array
    after: Array
    two_lengths: Array
    two_count: Array
    early: Array
    late: Array
    middle: Array
    skip: Array
    first: Array

    def joined(self, other: PairSums, between: Array) -> PairSums:
        """Sums of both sets of paths; ``between`` is what their different first means add."""
        constant = ("lengths", "two_lengths")
        total = {k: getattr(self, k) + getattr(other, k) for k in self._fields if k not in constant}
        total["first"] = total["first"] + between
        return self._replace(**total)

    def shifted(self, first: Array, n_paths: int, m: Array, times: Array) -> PairSums:
        """Sums of ``c - m`` for a known ``m`` (T, N); ``first`` (T, N) are those of ``c``."""
        _, which, two, which_two = _steps_in_a_row(times)

        def change(now: int, then: int, of: Array, n: int) -> Array:
            """``n m m' - c m' - m c'`` at these lags, summed over equal steps."""
            a, b = slice(now, now + len(of)), slice(then, then + len(of))
            less = _products(n_paths * m[a] - first[a], m[b], of, n)
            return less - _products(m[a], first[b], of, n)

        moved = {k: change(*lags, which, len(self.lengths)) for k, lags in ONES.items()}
        moved |= {k: change(*lags, which_two, len(two)) for k, lags in TWOS.items()}
        return self._replace(**{k: getattr(self, k) + v for k, v in moved.items()})


def _products(a: Array, b: Array, which: Array, n: int) -> Array:
    """Sums of ``a_t b_t'`` over entries with equal ``which``; (n, N, N)."""
    if n > FEW_LENGTHS:
        return grouped(a[:, :, None] * b[:, None], which, n)
    out = np.empty((n, a.shape[1], b.shape[1]))
    for u in range(n):
        own = slice(None) if n == 1 else which == u
        out[u] = a[own].T @ b[own]
    return out


def pair_sums(c: Array, times: Array) -> PairSums:
    """Sums of coefficients (P, T, N)."""
    at = np.ascontiguousarray(c.transpose(1, 2, 0))
    products = [at[: len(at) - lag] @ np.swapaxes(at[lag:], 1, 2) for lag in range(3)]
    start, n_paths = at[0] - at[0].mean(1, keepdims=True), len(c)
    lengths, which, two, which_two = _steps_in_a_row(times)

    def total(now: int, then: int, of: Array, n: int) -> Array:
        return grouped(products[then - now][now : now + len(of)], of, n)

    sums = {name: total(*lags, which, len(lengths)) for name, lags in ONES.items()}
    sums |= {name: total(*lags, which_two, len(two)) for name, lags in TWOS.items()}
    return PairSums(
        lengths=lengths,
        n_steps=n_paths * np.bincount(which, minlength=len(lengths)).astype(float),
        two_lengths=two,
        two_count=n_paths * np.bincount(which_two, minlength=len(two)).astype(float),
        first=start @ start.T,
        **sums,
    )


def _steps_in_a_row(times: Array) -> tuple[Array, Array, Array, Array]:
    """Lengths and which each step has; pairs of lengths in a row and which each pair is."""
    lengths, which = distinct_steps(np.diff(times))
    two, which_two = np.unique(np.stack([which[:-1], which[1:]], 1), axis=0, return_inverse=True)
    return lengths, which, two, which_two.reshape(-1)
