"""Curvature of a log-posterior from differences of its score."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Array = np.ndarray
Objective = Callable[[Array], tuple[float, Array]]

#: Step of the differences of the score, in standard errors.
DIFFERENCE_STEP = 0.02
#: Owner of a coordinate that all modes share.
SHARED = -1


def difference_information(
    objective: Objective,
    x: Array,
    scale: Array,
    n_plain: int,
    known_block: Callable[[Array], Array],
    owners: Array | None = None,
) -> Array:
    """``-d2 log p`` by central differences of the analytic score; symmetric (p, p).

    Args:
        objective: value and gradient.
        x: where, (p,).
        scale: rough standard errors, (p,).
        n_plain: coordinates to difference; the curvature among the others is ``known_block(x)``.
        known_block: of the others.
        owners: where modes do not meet in the likelihood, the mode that each coordinate belongs
            to, `SHARED` for none; (p,). Coordinates of different modes are then moved at once, so
            that the number of evaluations does not grow with the number of modes.
    """
    size = len(x)
    found, count = np.zeros((size, size)), np.zeros((size, size))
    for group in _groups(owners, size, n_plain):
        step = np.zeros(size)
        step[group] = DIFFERENCE_STEP * scale[group]
        slope = 0.5 * (objective(x - step)[1] - objective(x + step)[1])
        rows, columns = _meeting(owners, group, size)
        found[rows, columns] += slope[rows] / step[columns]
        count[rows, columns] += 1.0
    # What was found twice, as row and as column, is averaged.
    both = count + count.T
    information = (found + found.T) / np.maximum(both, 1.0)
    if n_plain < size:
        information[n_plain:, n_plain:] = known_block(x)
    return information


def _groups(owners: Array | None, size: int, n_plain: int) -> Iterator[Array]:
    """Coordinates to move at once: one of each mode, or one that all share."""
    if owners is None:
        yield from np.arange(n_plain)[:, None]
        return
    plain = np.arange(n_plain)
    yield from plain[owners[:n_plain] == SHARED][:, None]
    left = plain[owners[:n_plain] != SHARED]
    while left.size:
        _, first = np.unique(owners[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def _meeting(owners: Array | None, group: Array, size: int) -> tuple[Array, Array]:
    """Rows and columns of the information that moving a group tells."""
    if owners is None or owners[group[0]] == SHARED:
        return np.arange(size), np.repeat(group, size)
    column_of = dict(zip(owners[group].tolist(), group.tolist(), strict=True))
    rows = [i for i, owner in enumerate(owners.tolist()) if owner in column_of]
    return np.array(rows), np.array([column_of[int(owners[i])] for i in rows])
