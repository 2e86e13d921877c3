"""What the modes leave over, from the other points of the same time.

Distance alone does not say which points go together: mountains and coasts do. The rest of all
points at one time is Gaussian with a covariance S of its own, and at a gap it is

    e_m = S_ms S_ss^-1 e_s,    variance  S_mm - S_ms S_ss^-1 S_sm,

from the points s that are seen then. S is learned through the gaps by expectation and maximisation,
drawn towards a covariance of distance alone, without which few times could not tell it:

    S <- w / T  sum_t E(e_t e_t' | e_s(t))  +  (1 - w) D K D,    D = diag(S)^1/2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

Array = np.ndarray

#: Rounds of expectation and maximisation, and the share of noise that keeps systems solvable.
ROUNDS, NOISE = 4, 1e-3
#: Weights of the data against distance to choose from.
WEIGHTS, USUAL = (0.5, 0.8, 0.95), 0.8
#: Most points, and most products of rows and cubed points, that a covariance is learned for.
MOST_POINTS, MOST_WORK = 1500, 3e10
#: What to try for the correlation of distance: lengths as quantiles of distances, noise, powers.
LENGTHS, NUGGETS, POWERS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7), (0.0, 0.03, 0.1, 0.2), (1.0, 1.5)


class Conditional(NamedTuple):
    """Rest given that of its time: mean and variance at all values, (P, T, M)."""

    mean: Array
    variance: Array


def affordable(seen: Array) -> bool:
    """Whether a covariance of all points can be learned; ``seen`` is boolean (P, T, M)."""
    counts = seen.sum(-1).astype(float)
    return seen.shape[-1] <= MOST_POINTS and float((counts**3).sum()) <= MOST_WORK


def shared_covariance(rest: Array, points: Array, weight: float) -> Array:
    """Covariance (M, M) of the rest (P, T, M), NaN where unseen, at points (M, d)."""
    rows = rest.reshape(-1, rest.shape[-1])
    rows = rows[np.isfinite(rows).any(1)]
    scale = _scale(rows)
    y = rows / scale
    near = _correlation_of_distance(y, points)
    found = near + NOISE * np.eye(len(near))
    for _ in range(ROUNDS):
        square, filled = np.zeros_like(near), np.empty_like(y)
        for i, row in enumerate(y):
            filled[i], left, gaps = _expected(row, found)
            square[np.ix_(gaps, gaps)] += left
        square = (square + filled.T @ filled) / len(y)
        d = np.sqrt(np.diag(square))
        found = weight * square + (1.0 - weight) * near * np.outer(d, d)
    return found * np.outer(scale, scale)


def conditional(rest: Array, covariance: Array, wanted: Array | None = None) -> Conditional:
    """The rest at every value given the others of its time; what is seen keeps its own value.

    ``wanted`` are the rows that are asked for, all by default; boolean (P, T).
    """
    rows = rest.reshape(-1, rest.shape[-1])
    mean, variance = np.zeros_like(rows), np.tile(np.diag(covariance), (len(rows), 1))
    for i in range(len(rows)) if wanted is None else np.flatnonzero(wanted):
        full, left, gaps = _expected(rows[i], covariance)
        mean[i], variance[i, gaps] = full, np.diag(left)
    return Conditional(mean.reshape(rest.shape), variance.reshape(rest.shape))


def _expected(row: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Values with their gaps filled, the covariance of these, and where they are."""
    seen = np.isfinite(row)
    gaps = np.flatnonzero(~seen)
    full = np.where(seen, row, 0.0)
    if not len(gaps) or not seen.any():
        return full, covariance[np.ix_(gaps, gaps)], gaps
    own = covariance[np.ix_(seen, seen)]
    factor = scipy.linalg.cho_factor(own + NOISE * np.diag(np.diag(own)), lower=True)
    cross = covariance[np.ix_(seen, gaps)]
    weights = scipy.linalg.cho_solve(factor, cross)
    full[gaps] = row[seen] @ weights
    return full, covariance[np.ix_(gaps, gaps)] - cross.T @ weights, gaps


def _scale(rows: Array) -> Array:
    """Deviation of each point, that of all points where none was seen."""
    count = np.isfinite(rows).sum(0)
    square = np.nansum(rows**2, axis=0)
    overall = square.sum() / max(count.sum(), 1)
    scale = np.sqrt((square + overall) / (count + 1.0))
    return np.where(scale > 0, scale, 1.0)


def _correlation_of_distance(y: Array, points: Array) -> Array:
    """``(1 - g) exp(-(d / a)^p)`` that is closest to the correlations of pairs, 1 at distance 0."""
    seen = np.isfinite(y)
    z, kept = np.where(seen, y, 0.0), seen.astype(float)
    pairs = kept.T @ kept
    product = z.T @ z
    distance = scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(points))
    other = ~np.eye(len(points), dtype=bool) & (pairs > 0)
    if not other.any():
        return np.eye(len(points))
    d, r, n = distance[other], (product[other] / pairs[other]).clip(-1, 1), pairs[other]
    best, least = (1.0, 0.0, 1.0), np.inf
    for a in np.quantile(d, LENGTHS):
        for p in POWERS:
            shape = np.exp(-((d / max(a, 1e-300)) ** p))
            for g in NUGGETS:
                loss = float(np.sum(n * (r - (1.0 - g) * shape) ** 2))
                if loss < least:
                    best, least = (float(a), g, p), loss
    a, g, p = best
    found = (1.0 - g) * np.exp(-((distance / max(a, 1e-300)) ** p))
    np.fill_diagonal(found, 1.0)
    return found
