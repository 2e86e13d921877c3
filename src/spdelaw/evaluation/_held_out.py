"""Clouds to learn from: values held out where and when gaps could have been.

The gaps of a record, moved along in time (around its end), lie over other values, more than once
where they are few: clouds keep their shape and outages their length. A record without gaps gets
drifting discs instead. What is held out is never seen by what is judged with it.
"""

from __future__ import annotations

import numpy as np
import scipy

Array = np.ndarray

#: Share of the observed values that is held out, and of those of a single row at most.
SHARE, OF_ROW = 0.15, 0.5
#: Share of the observed values below which gaps that were moved held out too few.
TOO_FEW = 0.03
#: Most copies of the gaps that are laid over a record which has few.
COPIES = 5
#: Share of the values that are missing from which on the gaps themselves are the pattern.
ENOUGH_GAPS = 0.01
#: Parts of a record that are held out or kept as a whole, so that outages stay long.
PARTS = 12
#: Share of the points that are held out at all times, where unseen points are to be filled.
POINTS = 0.1


def hold_out(seen: Array, points: Array, seed: int = 0, *, whole_points: bool = False) -> Array:
    """Observed values to hold out; boolean, as ``seen``.

    Args:
        seen: where there are values, (P, T, M).
        points: where the M points are, (M, d), in units of length that are alike.
        seed: of the choice.
        whole_points: hold out all values of some points as well.
    """
    rng = np.random.default_rng(seed)
    ever = np.asarray(seen.any((0, 1)))
    missing = ever & ~seen
    gaps = missing.sum() >= ENOUGH_GAPS * max(seen[..., ever].size, 1)
    held = np.zeros_like(seen)
    if gaps:
        held = _laid_over(_copies(missing, seen, rng), seen, points, rng)
    if held.sum() < TOO_FEW * seen.sum():
        held = _laid_over(_discs(seen.shape, points, ever, rng), seen, points, rng)
    if whole_points and ever.sum() > 4:
        known = np.flatnonzero(ever)
        chosen = rng.choice(known, max(1, round(POINTS * len(known))), replace=False)
        held[..., chosen] = seen[..., chosen]
    return held


def _laid_over(pattern: Array, seen: Array, points: Array, rng: np.random.Generator) -> Array:
    """Observed values under a pattern, not too many of any row or point."""
    held = _thinned(_at_most_half(seen & pattern, seen, points, rng), seen, rng)
    return held & ~_last_ones(seen, held)


def _copies(missing: Array, seen: Array, rng: np.random.Generator) -> Array:
    """Gaps of other times, more than once where gaps are few."""
    pattern = _moved(missing, rng)
    for _ in range(COPIES - 1):
        if (pattern & seen).sum() >= 2 * TOO_FEW * seen.sum():
            break
        pattern |= _moved(missing, rng)
    return pattern


def _moved(missing: Array, rng: np.random.Generator) -> Array:
    """Gaps of other times; with a single time, of another path."""
    n_paths, n_times = missing.shape[:2]
    if n_times > 1:
        least = max(1, n_times // 10)
        shift = int(rng.integers(least, max(n_times - least, least) + 1))
        missing = np.roll(missing, shift, axis=1)
    return np.roll(missing, int(rng.integers(n_paths)), axis=0)


def _discs(shape: tuple[int, ...], points: Array, ever: Array, rng: np.random.Generator) -> Array:
    """The points around a place that drifts from point to neighbour, a third of them in turn."""
    n_paths, n_times, _ = shape
    known = np.flatnonzero(ever)
    tree = scipy.spatial.KDTree(points[known])
    near = tree.query(points[known], k=min(6, len(known)))[1].reshape(len(known), -1)
    size = max(1, len(known) // 3)
    out = np.zeros(shape, dtype=bool)
    for path in range(n_paths):
        at = int(rng.integers(len(known)))
        for t in range(n_times):
            around = tree.query(points[known[at]], k=size)[1]
            out[path, t, known[np.atleast_1d(around)]] = True
            at = int(rng.choice(near[at]))
    return out


def _at_most_half(held: Array, seen: Array, points: Array, rng: np.random.Generator) -> Array:
    """No row loses most of its values: of a larger cloud the part around one point remains."""
    counts, most = held.sum(-1), np.floor(OF_ROW * seen.sum(-1)).astype(int)
    for p, t in np.argwhere(counts > most):
        at = np.flatnonzero(held[p, t])
        distance = ((points[at] - points[rng.choice(at)]) ** 2).sum(-1)
        held[p, t, at[np.argsort(distance, kind="stable")[most[p, t] :]]] = False
    return held


def _thinned(held: Array, seen: Array, rng: np.random.Generator) -> Array:
    """Whole parts of the record, until they hold about the share that is wanted."""
    n_paths, n_times = held.shape[:2]
    parts = np.minimum(np.arange(n_times) * PARTS // max(n_times, 1), PARTS - 1)
    wanted, kept = SHARE * seen.sum(), np.zeros_like(held)
    for which in rng.permutation(n_paths * PARTS):
        if kept.sum() >= wanted:
            break
        path, part = divmod(int(which), PARTS)
        kept[path, parts == part] = held[path, parts == part]
    return kept


def _last_ones(seen: Array, held: Array) -> Array:
    """Held-out values of points that would be left with fewer than two."""
    return held & ((seen & ~held).sum((0, 1)) < 2)
