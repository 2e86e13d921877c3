"""Curvature of a log-posterior from differences of its score."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Array = np.ndarray
Objective = Callable[[Array], tuple[float, Array]]

#: Step of the differences of the score, in standard errors.
DIFFERENCE_STEP = 0.02
#: Coordinates from which on the score is differenced to one side, and the step of that.
MANY, SMALL_STEP = 100, 1e-4
#: Asymmetry of what is found so, relative to its diagonal, beyond which both sides are needed, and
#: after how many coordinates it is looked at first; information, relative to that of the rough
#: standard errors, below which a coordinate has none.
ASYMMETRY, FIRST, UNSEEN = 1e-4, 10, 1e-3
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
    """``-d2 log p`` by differences of the analytic score; symmetric (p, p).

    Central ones; of many coordinates to one side, as long as that gives the same.

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
    information = None
    if owners is None and n_plain >= MANY:
        information = _to_one_side(objective, x, scale, n_plain)
    if information is None:
        information = _to_both_sides(objective, x, scale, n_plain, owners)
    if n_plain < len(x):
        information[n_plain:, n_plain:] = known_block(x)
    return information


def _to_both_sides(
    objective: Objective, x: Array, scale: Array, n_plain: int, owners: Array | None
) -> Array:
    size = len(x)
    owners = np.full(size, SHARED) if owners is None else owners
    found, count = np.zeros((size, size)), np.zeros((size, size))
    for group in _groups(owners[:n_plain]):
        step = np.zeros(size)
        step[group] = DIFFERENCE_STEP * scale[group]
        slope = 0.5 * (objective(x - step)[1] - objective(x + step)[1])
        rows, columns = _meeting(owners, group)
        found[rows, columns] += slope[rows] / step[columns]
        count[rows, columns] += 1.0
    # What was found twice, as row and as column, is averaged.
    both = count + count.T
    return np.asarray((found + found.T) / np.maximum(both, 1.0))


def _to_one_side(objective: Objective, x: Array, scale: Array, n_plain: int) -> Array | None:
    """By differences to one side; None where rounding or a change of curvature shows.

    Curvature is symmetric, and its columns are found one by one: two that should agree differ
    about as much as either is wrong.
    """
    here, found = objective(x)[1], np.zeros((len(x), n_plain))
    for j in range(n_plain):
        step = np.zeros(len(x))
        step[j] = SMALL_STEP * scale[j]
        found[:, j] = (here - objective(x + step)[1]) / step[j]
        if j + 1 in (FIRST, n_plain):
            square = found[: j + 1, : j + 1]
            size = np.sqrt(np.maximum(np.abs(np.diag(square)), UNSEEN / scale[: j + 1] ** 2))
            if not (np.abs(square - square.T) <= ASYMMETRY * np.outer(size, size)).all():
                return None
    information = np.zeros((len(x),) * 2)
    information[:, :n_plain] = found
    information[:n_plain, n_plain:] = found[n_plain:].T
    information[:n_plain, :n_plain] = 0.5 * (square + square.T)
    return information


def _groups(owners: Array) -> Iterator[Array]:
    """Coordinates to move at once: one of each mode, or one that all share."""
    yield from np.flatnonzero(owners == SHARED)[:, None]
    left = np.flatnonzero(owners != SHARED)
    while left.size:
        _, first = np.unique(owners[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def _meeting(owners: Array, group: Array) -> tuple[Array, Array]:
    """Rows and columns of the information that moving a group tells."""
    if owners[group[0]] == SHARED:
        return np.arange(len(owners)), np.repeat(group, len(owners))
    column_of = dict(zip(owners[group].tolist(), group.tolist(), strict=True))
    rows = [i for i, owner in enumerate(owners.tolist()) if owner in column_of]
    return np.array(rows), np.array([column_of[int(owners[i])] for i in rows])
