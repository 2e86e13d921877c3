"""Models of the residual of the modes, which predict it at gaps from other values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

# ---------- Kriging of the residual from neighbours in space and time
#
# The residual ``e = y - mean`` of a law of few modes is not white: close values are correlated. At
# a gap it is predicted from the K nearest values of ``e`` by simple kriging,
#
#     e* = k' (C + eta I)^-1 e,    var = 1 - k' (C + eta I)^-1 k,
#     C_ij = f(d_ij) exp(-|t_i - t_j| / b),    d^2 = sum_k (x_k - x'_k)^2 / a_k^2,
#
# where ``f(d) = exp(-d)`` or, for a smooth residual, ``(1 + sqrt(3) d) exp(-sqrt(3) d)``. The
# lengths a, the time b, the share eta of noise and the shape are those that predict held-out
# values best.


Array = np.ndarray

#: Neighbours that a prediction is made from, and those that suffice to compare kernels.
NEIGHBOURS, KERNEL_NEIGHBOURS = 40, 24
#: Held-out values that a kernel is chosen by, at most.
MOST_KERNEL_VALUES = 800
#: Values whose small systems are solved together: few enough for the processor's cache.
BLOCK_SIZE = 256
#: Distance of two paths, at which nothing is correlated.
PATH_DISTANCE = 1e3
#: Shift that breaks ties of equally far neighbours, whatever other values there are.
TIE_SHIFT = 1e-9
#: What to try: lengths and times in units of typical distances, ratios of lengths, noise.
LENGTHS, TIME_LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0), (0.3, 1.0, 2.0, 4.0, 8.0)
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
    position: Array

    @classmethod
    def where(cls, chosen: Array, times: Array, points: Array) -> Values:
        """Of a boolean (P, T, M), with times (P, T) and points (M, d)."""
        p, t, m = np.nonzero(chosen)
        return cls(p.astype(float), times[p, t], points[m])

    def scaled(self, kernel: Kernel) -> Array:
        """Coordinates in lengths of the kernel: time and path first, then space."""
        lengths = np.full(self.position.shape[1], kernel.space)
        lengths[1:] *= kernel.ratio
        columns = [(self.time / kernel.time)[:, None], PATH_DISTANCE * self.path[:, None]]
        return np.hstack([*columns, self.position / lengths])


def nearest(observed: Values, targets: Values, kernel: Kernel, neighbours: int) -> Array:
    """Indices of the observed values closest to each target in kernel lengths; (n, K)."""
    k = min(neighbours, len(observed.time))
    observed_coords, target_coords = observed.scaled(kernel), targets.scaled(kernel)
    # A tiny shift breaks ties between before and after, or left and right.
    shift = (
        TIE_SHIFT
        * np.arange(1, observed_coords.shape[1] + 1)
        * [1.0, 0.0, *[1.0] * (observed_coords.shape[1] - 2)]
    )
    return np.asarray(
        scipy.spatial.KDTree(observed_coords).query(target_coords - shift, k=k)[1]
    ).reshape(-1, k)


def krige(
    residual: Array, observed: Values, targets: Values, kernel: Kernel, near: Array | None = None
) -> tuple[Array, Array]:
    """Mean of the residual at targets, and the share of its variance that is left; each (n,).

    ``near`` are the values to predict from, by default the `NEIGHBOURS` that are closest.
    """
    near = nearest(observed, targets, kernel, NEIGHBOURS) if near is None else near
    observed_coords, target_coords = observed.scaled(kernel), targets.scaled(kernel)
    mean, share = np.zeros(len(target_coords)), np.ones(len(target_coords))
    noise = kernel.noise * np.eye(near.shape[1])
    for start in range(0, len(target_coords), BLOCK_SIZE):
        block = slice(start, start + BLOCK_SIZE)
        offsets = observed_coords[near[block]] - target_coords[block][:, None]
        system = _correlation(offsets, offsets, kernel.smooth) + noise
        origin = np.zeros((len(offsets), 1, offsets.shape[-1]))
        cross = _correlation(offsets, origin, kernel.smooth)
        weights = np.linalg.solve(system, cross)[..., 0]
        mean[block] = (weights * residual[near[block]]).sum(1)
        share[block] = 1.0 - (weights * cross[..., 0]).sum(1)
    return mean, np.clip(share, 0.0, 1.0) + kernel.noise


def _correlation(one: Array, other: Array, smooth: bool) -> Array:
    """``f(d) exp(-|t|)`` between scaled positions (n, K, c) and (n, L, c); (n, K, L)."""
    time_lag, distance = (one[..., :1] - other[:, None, :, 0]), 0.0
    for c in range(1, one.shape[-1]):
        distance = distance + (one[..., c : c + 1] - other[:, None, :, c]) ** 2
    distance = np.sqrt(distance)
    if not smooth:
        return np.exp(-distance - np.abs(time_lag))
    distance *= np.sqrt(3.0)
    return (1.0 + distance) * np.exp(-distance - np.abs(time_lag))


def choose_kernel(
    residual: Array,
    observed: Values,
    held_out_residual: Array,
    held_out: Values,
    spacing: tuple[float, float],
    start: Kernel | None = None,
) -> Kernel | None:
    """The kernel with the least squared error at held-out values; None where none helps.

    Args:
        residual: at observed values, (n,).
        observed: where they are.
        held_out_residual: at values that were held out, (m,).
        held_out: where those are.
        spacing: typical distances of neighbours in space and in time.
        start: a kernel to search around, where similar values had one.
    """
    if len(held_out_residual) > MOST_KERNEL_VALUES:
        sample = np.linspace(0, len(held_out_residual) - 1, MOST_KERNEL_VALUES).astype(int)
        held_out_residual = held_out_residual[sample]
        held_out = Values(*(column[sample] for column in held_out))
    errors: dict[Kernel, float] = {}
    neighbours: dict[Kernel, Array] = {}

    def error(kernel: Kernel) -> float:
        if kernel not in errors:
            lengths = kernel._replace(noise=0.0, smooth=False)
            if lengths not in neighbours:
                neighbours[lengths] = nearest(observed, held_out, kernel, KERNEL_NEIGHBOURS)
            prediction = krige(residual, observed, held_out, kernel, neighbours[lengths])[0]
            errors[kernel] = float(np.mean((prediction - held_out_residual) ** 2))
        return errors[kernel]

    best = start or Kernel(4.0 * spacing[0], 2.0 * spacing[1], 0.02)
    for _ in range(1 if start else 2):  # one setting after the other
        for name, choices in _kernel_choices(spacing, observed.position.shape[1]).items():
            best = min((best, *(best._replace(**{name: c}) for c in choices)), key=error)
    return best if error(best) < float(np.mean(held_out_residual**2)) else None


def _kernel_choices(spacing: tuple[float, float], n_dims: int) -> dict[str, list[Any]]:
    return {
        "smooth": [False, True],
        "space": [spacing[0] * c for c in LENGTHS],
        "time": [spacing[1] * c for c in TIME_LENGTHS],
        # Points on a sphere are given in space, where no coordinate is special.
        "ratio": list(RATIOS) if n_dims == 2 else [],
        "noise": list(NOISES),
    }


# ---------- The residual given the other points of the same time
#
# Distance alone does not determine which points are correlated: mountains and coasts do. The
# residual of all points at one time is Gaussian with a covariance S, and at a gap it is
#
#     e_m = S_ms S_ss^-1 e_s,    variance  S_mm - S_ms S_ss^-1 S_sm,
#
# from the points s observed at that time. S is learned through the gaps by expectation and
# maximisation, drawn towards a covariance of distance alone, without which few times could not tell
# it:
#
#     S <- w / T  sum_t E(e_t e_t' | e_s(t))  +  (1 - w) D K D,    D = diag(S)^1/2.


#: Rounds of expectation and maximisation, and the share of noise that keeps systems solvable.
EM_ROUNDS, RIDGE = 4, 1e-3
#: Weights of the data against distance to choose from.
WEIGHTS, USUAL_WEIGHT = (0.5, 0.8, 0.95), 0.8
#: Most points, and most products of rows and cubed points, that a covariance is learned for.
MOST_POINTS, MOST_OPERATIONS = 1500, 3e10
#: What to try for the correlation of distance: lengths as quantiles of distances, noise, powers.
SHARED_LENGTHS, NUGGETS, POWERS = (
    (0.02, 0.05, 0.1, 0.2, 0.4, 0.7),
    (0.0, 0.03, 0.1, 0.2),
    (1.0, 1.5),
)


class Conditional(NamedTuple):
    """Residual given those of its time: mean and variance at all values, (P, T, M)."""

    mean: Array
    variance: Array


def can_learn_covariance(observed: Array) -> bool:
    """Whether a covariance of all points can be learned; ``observed`` is boolean (P, T, M)."""
    counts = observed.sum(-1).astype(float)
    return observed.shape[-1] <= MOST_POINTS and float((counts**3).sum()) <= MOST_OPERATIONS


def shared_covariance(residual: Array, points: Array, weight: float) -> Array:
    """Covariance (M, M) of the residual (P, T, M), NaN where missing, at points (M, d)."""
    rows = residual.reshape(-1, residual.shape[-1])
    rows = rows[np.isfinite(rows).any(1)]
    scale = _point_deviations(rows)
    y = rows / scale
    prior = _correlation_of_distance(y, points)
    covariance = prior + RIDGE * np.eye(len(prior))
    for _ in range(EM_ROUNDS):
        second_moment, filled = np.zeros_like(prior), np.empty_like(y)
        for i, row in enumerate(y):
            filled[i], uncertainty, gaps = _fill_row(row, covariance)
            second_moment[np.ix_(gaps, gaps)] += uncertainty
        second_moment = (second_moment + filled.T @ filled) / len(y)
        d = np.sqrt(np.diag(second_moment))
        covariance = weight * second_moment + (1.0 - weight) * prior * np.outer(d, d)
    return covariance * np.outer(scale, scale)


def condition_on_row(
    residual: Array, covariance: Array, row_mask: Array | None = None
) -> Conditional:
    """The residual at every value given the others of its time; observed values stay.

    ``row_mask`` selects the rows to predict, all by default; boolean (P, T).
    """
    rows = residual.reshape(-1, residual.shape[-1])
    mean, variance = np.zeros_like(rows), np.tile(np.diag(covariance), (len(rows), 1))
    for i in range(len(rows)) if row_mask is None else np.flatnonzero(row_mask):
        full, uncertainty, gaps = _fill_row(rows[i], covariance)
        mean[i], variance[i, gaps] = full, np.diag(uncertainty)
    return Conditional(mean.reshape(residual.shape), variance.reshape(residual.shape))


def _fill_row(row: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Values with their gaps filled, the covariance of these, and where they are."""
    observed = np.isfinite(row)
    gaps = np.flatnonzero(~observed)
    full = np.where(observed, row, 0.0)
    if not len(gaps) or not observed.any():
        return full, covariance[np.ix_(gaps, gaps)], gaps
    observed_covariance = covariance[np.ix_(observed, observed)]
    factor = scipy.linalg.cho_factor(
        observed_covariance + RIDGE * np.diag(np.diag(observed_covariance)), lower=True
    )
    cross = covariance[np.ix_(observed, gaps)]
    weights = scipy.linalg.cho_solve(factor, cross)
    full[gaps] = row[observed] @ weights
    return full, covariance[np.ix_(gaps, gaps)] - cross.T @ weights, gaps


def _point_deviations(rows: Array) -> Array:
    """Deviation of each point, that of all points where it has no value."""
    count = np.isfinite(rows).sum(0)
    square = np.nansum(rows**2, axis=0)
    overall = square.sum() / max(count.sum(), 1)
    scale = np.sqrt((square + overall) / (count + 1.0))
    return np.where(scale > 0, scale, 1.0)


def _correlation_of_distance(y: Array, points: Array) -> Array:
    """``(1 - g) exp(-(d / a)^p)`` that is closest to the correlations of pairs, 1 at distance 0."""
    observed = np.isfinite(y)
    z, kept = np.where(observed, y, 0.0), observed.astype(float)
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
    correlation = (1.0 - g) * np.exp(-((distance / max(a, 1e-300)) ** p))
    np.fill_diagonal(correlation, 1.0)
    return correlation


# ---------- Models of the residual, with one interface
#
# ``predict`` takes residuals (P, T, M), NaN where missing, the variance that the residual has at
# each value, where and when the values are, and the gaps, boolean (P, T, M). It returns mean and
# variance of the residual at the gaps.


#: Least share of the residual variance that other points leave unexplained.
LEAST_OPEN_SHARE = 1e-6


class Grid(NamedTuple):
    """Where and when the values of a record are.

    Attributes:
        times: of each path, (P, T).
        points: in lengths that are alike, (M, d).
    """

    times: Array
    points: Array

    @property
    def spacing(self) -> tuple[float, float]:
        """Typical distance to the next point, and to the next time."""
        near = scipy.spatial.KDTree(self.points).query(self.points, k=min(2, len(self.points)))[0]
        space = float(np.median(near.reshape(len(self.points), -1)[:, -1])) or 1.0
        steps = np.diff(self.times, axis=1)
        return space, float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0


class White(NamedTuple):
    """A residual that no other value predicts."""

    def predict(
        self, residual: Array, variance: Array, grid: Grid, gaps: Array
    ) -> tuple[Array, Array]:
        """Zero, and all of the variance."""
        return np.zeros(int(gaps.sum())), variance[gaps]


class Kriged(NamedTuple):
    """A residual that is predicted from close values."""

    kernel: Kernel

    def predict(
        self, residual: Array, variance: Array, grid: Grid, gaps: Array
    ) -> tuple[Array, Array]:
        """Simple kriging from the nearest values."""
        observed = np.isfinite(residual)
        if not observed.any():
            return White().predict(residual, variance, grid, gaps)
        sources, targets = (Values.where(m, grid.times, grid.points) for m in (observed, gaps))
        mean, share = krige(residual[observed], sources, targets, self.kernel)
        return mean, share * variance[gaps]


class Shared(NamedTuple):
    """A residual that is predicted from other points of its time.

    ``covariance`` (M, M) is learned from the residuals themselves where none is given.
    """

    weight: float
    covariance: Array | None = None

    def fitted(self, residual: Array, grid: Grid) -> Shared:
        """The same with the covariance of these residuals."""
        return self._replace(covariance=shared_covariance(residual, grid.points, self.weight))

    def predict(
        self, residual: Array, variance: Array, grid: Grid, gaps: Array
    ) -> tuple[Array, Array]:
        """The Gaussian conditional on the values of the same time."""
        covariance = self.covariance
        if covariance is None:
            covariance = shared_covariance(residual, grid.points, self.weight)
        given_row = condition_on_row(residual, covariance, np.asarray(gaps.any(-1)))
        least = LEAST_OPEN_SHARE * variance
        return given_row.mean[gaps], np.maximum(given_row.variance, least)[gaps]


Residual = White | Kriged | Shared
