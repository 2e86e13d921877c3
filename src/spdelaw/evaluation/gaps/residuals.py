"""What the modes do not explain, from neighbours in space and time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

# ---------- What the modes leave over, from its neighbours in space and time
#
# The rest ``e = y - mean`` of a law of few modes is not white: close values have it in common. At a
# gap it is predicted from the K nearest values of ``e`` by simple kriging,
#
#     e* = k' (C + eta I)^-1 e,    var = 1 - k' (C + eta I)^-1 k,
#     C_ij = f(d_ij) exp(-|t_i - t_j| / b),    d^2 = sum_k (x_k - x'_k)^2 / a_k^2,
#
# where ``f(d) = exp(-d)`` or, for a smooth rest, ``(1 + sqrt(3) d) exp(-sqrt(3) d)``. The lengths
# a, the time b, the share eta of noise and the shape are those that predict held-out values best.


Array = np.ndarray

#: Neighbours that a prediction is made from, and those that suffice to compare kernels.
NEIGHBOURS, FEWER = 40, 24
#: Held-out values that a kernel is chosen by, at most.
SAMPLE = 800
#: Values whose small systems are solved together: few enough for the processor's cache.
AT_ONCE = 256
#: Distance of two paths, at which nothing is in common.
FAR = 1e3
#: Shift by which equally far neighbours are told apart, whatever other values there are.
TIE = 1e-9
#: What to try: lengths and times in units of typical distances, ratios of lengths, noise.
LENGTHS, TIMES = (1.0, 2.0, 4.0, 8.0, 16.0), (0.3, 1.0, 2.0, 4.0, 8.0)
RATIOS, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0), (0.003, 0.02, 0.1, 0.3)


class Kernel(NamedTuple):
    """Length in space, by how much it differs along further coordinates, time, noise, shape."""

    space: float
    time: float
    noise: float
    ratio: float = 1.0
    smooth: bool = False


class Values(NamedTuple):
    """Where and when values are, one row each: path, time, and position; (n,), (n,), (n, d)."""

    path: Array
    time: Array
    place: Array

    @classmethod
    def where(cls, chosen: Array, times: Array, points: Array) -> Values:
        """Of a boolean (P, T, M), with times (P, T) and points (M, d)."""
        p, t, m = np.nonzero(chosen)
        return cls(p.astype(float), times[p, t], points[m])

    def scaled(self, kernel: Kernel) -> Array:
        """Coordinates in lengths of the kernel: time and path first, then space."""
        lengths = np.full(self.place.shape[1], kernel.space)
        lengths[1:] *= kernel.ratio
        columns = [(self.time / kernel.time)[:, None], FAR * self.path[:, None]]
        return np.hstack([*columns, self.place / lengths])


def nearest(known: Values, wanted: Values, kernel: Kernel, neighbours: int) -> Array:
    """Which known values are closest to each wanted one in lengths of the kernel; (n, K)."""
    k = min(neighbours, len(known.time))
    at, asked = known.scaled(kernel), wanted.scaled(kernel)
    # Equally far ones, before and after or left and right, are told apart by a tiny shift.
    aside = TIE * np.arange(1, at.shape[1] + 1) * [1.0, 0.0, *[1.0] * (at.shape[1] - 2)]
    return np.asarray(scipy.spatial.KDTree(at).query(asked - aside, k=k)[1]).reshape(-1, k)


def krige(
    rest: Array, known: Values, wanted: Values, kernel: Kernel, near: Array | None = None
) -> tuple[Array, Array]:
    """Mean of the rest at wanted values, and the share of its variance that is left; each (n,).

    ``near`` are the values to predict from, by default the `NEIGHBOURS` that are closest.
    """
    near = nearest(known, wanted, kernel, NEIGHBOURS) if near is None else near
    at, asked = known.scaled(kernel), wanted.scaled(kernel)
    mean, share = np.zeros(len(asked)), np.ones(len(asked))
    noise = kernel.noise * np.eye(near.shape[1])
    for start in range(0, len(asked), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        place = at[near[part]] - asked[part][:, None]
        system = _correlation(place, place, kernel.smooth) + noise
        here = np.zeros((len(place), 1, place.shape[-1]))
        towards = _correlation(place, here, kernel.smooth)
        weights = np.linalg.solve(system, towards)[..., 0]
        mean[part] = (weights * rest[near[part]]).sum(1)
        share[part] = 1.0 - (weights * towards[..., 0]).sum(1)
    return mean, np.clip(share, 0.0, 1.0) + kernel.noise


def _correlation(one: Array, other: Array, smooth: bool) -> Array:
    """``f(d) exp(-|t|)`` between scaled places (n, K, c) and (n, L, c); (n, K, L)."""
    apart, d = (one[..., :1] - other[:, None, :, 0]), 0.0
    for c in range(1, one.shape[-1]):
        d = d + (one[..., c : c + 1] - other[:, None, :, c]) ** 2
    d = np.sqrt(d)
    if not smooth:
        return np.exp(-d - np.abs(apart))
    d *= np.sqrt(3.0)
    return (1.0 + d) * np.exp(-d - np.abs(apart))


def choose_kernel(
    rest: Array,
    known: Values,
    target: Array,
    wanted: Values,
    spacing: tuple[float, float],
    start: Kernel | None = None,
) -> Kernel | None:
    """The kernel with the least squared error at wanted values; None where none helps.

    Args:
        rest: at known values, (n,).
        known: where they are.
        target: the rest at values that were held out, (m,).
        wanted: where those are.
        spacing: typical distances of neighbours in space and in time.
        start: a kernel to look around, where one is known for values like these.
    """
    if len(target) > SAMPLE:
        few = np.linspace(0, len(target) - 1, SAMPLE).astype(int)
        target, wanted = target[few], Values(*(part[few] for part in wanted))
    tried: dict[Kernel, float] = {}
    close: dict[Kernel, Array] = {}

    def error(kernel: Kernel) -> float:
        if kernel not in tried:
            lengths = kernel._replace(noise=0.0, smooth=False)
            if lengths not in close:
                close[lengths] = nearest(known, wanted, kernel, FEWER)
            found = krige(rest, known, wanted, kernel, close[lengths])[0]
            tried[kernel] = float(np.mean((found - target) ** 2))
        return tried[kernel]

    best = start or Kernel(4.0 * spacing[0], 2.0 * spacing[1], 0.02)
    for _ in range(1 if start else 2):  # one setting after the other
        for name, choices in _choices(spacing, known.place.shape[1]).items():
            best = min((best, *(best._replace(**{name: c}) for c in choices)), key=error)
    return best if error(best) < float(np.mean(target**2)) else None


def _choices(spacing: tuple[float, float], n_dims: int) -> dict[str, list[Any]]:
    return {
        "smooth": [False, True],
        "space": [spacing[0] * c for c in LENGTHS],
        "time": [spacing[1] * c for c in TIMES],
        # Points on a sphere are given in space, where no coordinate is special.
        "ratio": list(RATIOS) if n_dims == 2 else [],
        "noise": list(NOISES),
    }


# ---------- What the modes leave over, from the other points of the same time
#
# Distance alone does not say which points go together: mountains and coasts do. The rest of all
# points at one time is Gaussian with a covariance S of its own, and at a gap it is
#
#     e_m = S_ms S_ss^-1 e_s,    variance  S_mm - S_ms S_ss^-1 S_sm,
#
# from the points s that are seen then. S is learned through the gaps by expectation and
# maximisation, drawn towards a covariance of distance alone, without which few times could not tell
# it:
#
#     S <- w / T  sum_t E(e_t e_t' | e_s(t))  +  (1 - w) D K D,    D = diag(S)^1/2.


#: Rounds of expectation and maximisation, and the share of noise that keeps systems solvable.
ROUNDS, NOISE = 4, 1e-3
#: Weights of the data against distance to choose from.
WEIGHTS, USUAL = (0.5, 0.8, 0.95), 0.8
#: Most points, and most products of rows and cubed points, that a covariance is learned for.
MOST_POINTS, MOST_WORK = 1500, 3e10
#: What to try for the correlation of distance: lengths as quantiles of distances, noise, powers.
SHARED_LENGTHS, NUGGETS, POWERS = (
    (0.02, 0.05, 0.1, 0.2, 0.4, 0.7),
    (0.0, 0.03, 0.1, 0.2),
    (1.0, 1.5),
)


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
    for a in np.quantile(d, SHARED_LENGTHS):
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
