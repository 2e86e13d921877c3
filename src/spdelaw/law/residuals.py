"""Models of the residual: what the modes of a law do not explain.

    y_j(t) = (Phi c)_j(t) + z_j(t) + e_j(t),

with z the residual of the field at point j and e white noise of single values. Each model has the
same verbs:

- ``fit`` learns it from residuals ``y - Phi c``, (P, T, M), NaN where missing;
- ``predict(residuals, grid, at)`` gives mean and variance of z at every value, given all residuals;
  ``at`` selects the values that are needed;
- ``white`` is the variance of e, one number or one per point;
- `AR1` also draws joint paths of z, and holds at other points (``at_points``).

| model | z at different points and times |
| --- | --- |
| `White` | independent, one variance or one per point |
| `AR1` | one Ornstein-Uhlenbeck process per point |
| `Kriged` | correlated with close values in space and time |
| `Covariance` | correlated with the other points of the same time |
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy

Array = np.ndarray

#: Points that differ by less than this part of the largest coordinate are one.
SAME_POINT = 1e-5


class Grid(NamedTuple):
    """Times and points of values (P, T, M).

    Attributes:
        times: of all paths, (T,), or of each path, (P, T).
        points: in equal units of length, (M, d).
    """

    times: Array
    points: Array

    @property
    def spacing(self) -> tuple[float, float]:
        """Typical distance to the next point, and to the next time."""
        near = scipy.spatial.KDTree(self.points).query(self.points, k=min(2, len(self.points)))[0]
        space = float(np.median(near.reshape(len(self.points), -1)[:, -1])) or 1.0
        steps = np.diff(self.times, axis=-1)
        return space, float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0


class Predicted(NamedTuple):
    """Mean and variance of z, and the weight of a value in its own prediction; (P, T, M) each."""

    mean: Array
    variance: Array
    weight: Array | float = 0.0


class Residual(Protocol):
    """What all models have in common."""

    @property
    def white(self) -> float | Array:
        """Variance of the noise of single values."""

    def predict(self, residuals: Array, grid: Grid, at: Array | None = None) -> Predicted:
        """The residual at every value, or at those that ``at`` selects, given the others."""

    def refit(self, residuals: Array, grid: Grid) -> Residual:
        """The same model with the variances of other residuals."""


def same_points(reference: Array, points: Array) -> Array:
    """Row of each point among the reference points; their number where it is none of them."""
    old, new = (np.reshape(np.asarray(p, float), (len(p), -1)) for p in (reference, points))
    if old.shape[1] != new.shape[1]:
        return np.full(len(new), len(old))
    largest = np.abs(old).max(0)
    old, new = (p / np.where(largest > 0, largest, 1.0) for p in (old, new))
    return np.asarray(scipy.spatial.KDTree(old).query(new, distance_upper_bound=SAME_POINT)[1])


def on_points(values: Array, other: float | Array, data_points: Array, points: Array) -> Array:
    """Values (P, T, M) of the data points at others; ``other`` where it is none of them."""
    if data_points is points:
        return values
    rows = same_points(data_points, points)
    there = rows < len(data_points)
    return np.where(there, values[..., np.where(there, rows, 0)], other)


# ---------- White: no other value predicts the residual


#: Number of values at which the mean square of a point counts as much as that of all points.
PRIOR_COUNT = 10.0


def point_variances(residuals: Array) -> Array:
    """Mean square of each point, drawn towards that of all points; (M,)."""
    count = np.isfinite(residuals).sum((0, 1))
    square = np.nansum(residuals**2, axis=(0, 1))
    overall = square.sum() / max(count.sum(), 1)
    return np.asarray((square + PRIOR_COUNT * overall) / (count + PRIOR_COUNT))


class White(NamedTuple):
    """A residual that no other value predicts.

    Attributes:
        variance: of z, one number or one per point.
        white: variance of the noise of single values, likewise.
    """

    variance: float | Array = 0.0
    white: float | Array = 0.0

    @classmethod
    def fit(cls, residuals: Array) -> White:
        """All of it is noise."""
        return cls(white=point_variances(residuals))

    def refit(self, residuals: Array, grid: Grid) -> White:
        """The variances of other residuals."""
        return White.fit(residuals)

    def predict(self, residuals: Array, grid: Grid, at: Array | None = None) -> Predicted:
        """Zero, and the variance of z."""
        return Predicted(np.zeros(residuals.shape), np.broadcast_to(self.variance, residuals.shape))

    def at_points(self, law_points: Array, points: Array) -> White:
        """The same at other points; the mean noise where that of a point was not learned."""
        white = np.asarray(self.white)
        if not white.ndim:
            return self
        return self._replace(white=np.append(white, white.mean())[same_points(law_points, points)])


# ---------- AR1: one Ornstein-Uhlenbeck process per point
#
#     dz_j = -a_j z_j dt + sqrt(2 a_j v_j) dB_j,    e_j white of variance w_j.
#
# Given residuals, z is estimated by a scalar Kalman filter and a backward smoother at each point,
# over times of any distance: from one time to the next ``phi = exp(-a dt)`` and the variance goes
# to ``v + phi^2 (p - v)``. The parameters come from the moments
#
#     E r(t)^2 = v + w,      E r(t) r(t + dt) = v exp(-a dt).
#
# Products of rows one and two apart are averaged with their actual ``exp(-a dt)``, so that gaps and
# irregular times enter with their actual lengths. Both lags of all points together give the share
# of w, the first lag of each point its decay. The correlation of a point with few pairs is shrunk
# towards that of all points, by the share of their spread that sampling explains.


#: Values of all paths that are smoothed together.
BATCH_VALUES = 4_000_000
#: Largest lag, in rows, that the decay is estimated from.
LAGS = 2
#: Tried decays, as correlations over a median step.
TRIED_CORRELATIONS = np.concatenate([[1e-3], np.linspace(0.02, 0.98, 97), [0.99, 0.995, 0.999]])


class AR1(NamedTuple):
    """A residual with memory at each point.

    Attributes:
        decay: a, one per point, in one over the unit of time.
        variance: v, of the part with memory.
        white: w, of the part without, which is noise of single values.
    """

    decay: Array
    variance: Array
    white: Array

    @classmethod
    def fit(cls, residuals: Array, times: Array, fixed_noise: float | Array | None = None) -> AR1:
        """Decay and variances per point; the white one is fixed where the noise is known."""
        step = float(np.median(np.diff(times, axis=-1)))
        decays = -np.log(TRIED_CORRELATIONS) / step
        products, pairs, decayed = _lag_products(residuals, times, decays)
        pooled = _pooled_correlations(products, pairs)
        total, neighbours = _shrunk_moments(products, pairs, pooled)
        share: float | Array
        if fixed_noise is None:
            share = _memory_share(pairs, decayed, pooled)
        else:
            share = 1.0 - np.clip(fixed_noise / np.where(total > 0, total, 1.0), 0.0, 1.0)
        best = _nearest_decay(neighbours, decayed[0], share)
        return cls(decays[best], share * total, (1.0 - share) * total)

    def refit(self, residuals: Array, grid: Grid) -> AR1:
        """The parameters of other residuals."""
        return AR1.fit(residuals, grid.times)

    def predict(self, residuals: Array, grid: Grid, at: Array | None = None) -> Predicted:
        """Smoothed residuals, some paths at a time."""
        step = max(1, BATCH_VALUES // int(np.prod(residuals.shape[1:])))
        some = [slice(i, i + step) for i in range(0, len(residuals), step)]
        times = grid.times
        parts = [_smooth(residuals[s], times if times.ndim == 1 else times[s], self) for s in some]
        return Predicted(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def draw(self, residuals: Array, grid: Grid, generator: np.random.Generator) -> Array:
        """One joint draw of z per path given its residuals; (P, T, M).

        Conditioning by kriging: ``E(z | r) + z* - E(z | r*)`` with z* from the process and r* its
        residuals, observed where r is.
        """
        phi = _propagators(grid.times, self.decay)
        free = np.empty(residuals.shape)
        z = np.sqrt(self.variance) * generator.standard_normal(residuals[:, 0].shape)
        for t in range(residuals.shape[1]):
            if t:
                fresh = np.sqrt(self.variance * (1.0 - phi[t - 1] ** 2))
                z = phi[t - 1] * z + fresh * generator.standard_normal(z.shape)
            free[:, t] = z
        noisy = free + np.sqrt(self.white) * generator.standard_normal(free.shape)
        return free + self.predict(residuals - noisy, grid).mean

    def at_points(self, law_points: Array, points: Array) -> AR1:
        """The same at other points; without memory where the data had no point."""
        rows = same_points(law_points, points)
        there = rows < len(law_points)
        decay, variance, white = (np.append(values, np.mean(values))[rows] for values in self)
        # Without a memory that was learned there, the past carries no information.
        return AR1(np.where(there, decay, np.inf), variance, white)

    def in_words(self, unit: str = "") -> str:
        """Median e-folding time, and the share of the residual variance that has memory."""
        total = float(np.sum(self.variance + self.white))
        share = float(np.sum(self.variance)) / total if total > 0 else 0.0
        decay = float(np.median(self.decay))
        time = f"{1.0 / decay:.3g} {unit}".strip() if decay > 0 else "without end"
        return (
            f"memory per point: e-folding time {time} (median), {100 * share:.3g} % of its variance"
        )


def _smooth(residuals: Array, times: Array, model: AR1) -> tuple[Array, Array, Array]:
    phi = _propagators(times, model.decay)
    v, w = model.variance, model.white
    mean, variance = np.empty_like(residuals), np.empty_like(residuals)
    m, p = np.zeros_like(residuals[:, 0]), np.zeros_like(residuals[:, 0]) + v
    for t in range(residuals.shape[1]):
        if t:
            m, p = phi[t - 1] * m, v + phi[t - 1] ** 2 * (p - v)
        mean[:, t], variance[:, t] = m, p = _scalar_update(m, p, residuals[:, t], w)
    for t in range(residuals.shape[1] - 2, -1, -1):
        ahead = v + phi[t] ** 2 * (variance[:, t] - v)
        gain = np.divide(variance[:, t] * phi[t], ahead, out=np.zeros_like(ahead), where=ahead > 0)
        mean[:, t] += gain * (mean[:, t + 1] - phi[t] * mean[:, t])
        variance[:, t] += gain**2 * (variance[:, t + 1] - ahead)
    observed_mask = ~np.isnan(residuals)
    # The posterior mean is ``P R^-1 y``: its slope in a value's own is p / w.
    slope = np.divide(
        variance, w, out=np.ones_like(variance), where=np.broadcast_to(w > 0, variance.shape)
    )
    return mean, np.maximum(variance, 0.0), np.where(observed_mask, slope, 0.0)


def _propagators(times: Array, decay: Array) -> Array:
    """``exp(-a dt)`` of each step; (T - 1, 1 or P, M)."""
    steps = np.diff(np.atleast_2d(times), axis=1).T[..., None]
    return np.exp(-np.where(np.isinf(decay), 0.0, decay) * steps) * ~np.isinf(decay)


def _scalar_update(m: Array, p: Array, value: Array, w: Array) -> tuple[Array, Array]:
    """Mean and variance after a value, as before where there is none."""
    total = p + w
    gain = np.divide(p, total, out=np.zeros_like(p), where=(total > 0) & ~np.isnan(value))
    return m + gain * np.where(np.isnan(value), 0.0, value - m), (1.0 - gain) * p


def _lag_products(residuals: Array, times: Array, decays: Array) -> tuple[Array, Array, Array]:
    """Products of residuals by rows apart: their sums and numbers, (1 + LAGS, M) each.

    Last, (LAGS, M, A), the mean of ``exp(-a dt)`` over the pairs for each tried decay.
    """
    clock = np.broadcast_to(times, residuals.shape[:2])
    products, pairs, decayed = [], [], []
    for k in range(min(LAGS + 1, residuals.shape[1])):
        product = residuals[:, k:] * residuals[:, : residuals.shape[1] - k]
        is_pair = np.isfinite(product)
        products.append(np.where(is_pair, product, 0.0).sum((0, 1)))
        pairs.append(is_pair.sum((0, 1)))
        if k:
            apart = (clock[:, k:] - clock[:, :-k]).ravel()
            kept = is_pair.reshape(len(apart), -1).astype(float)
            decay_factors, count = np.exp(-apart[:, None] * decays), pairs[-1][:, None]
            mean = kept.T @ decay_factors / np.maximum(count, 1)
            decayed.append(np.where(count > 0, mean, decay_factors.mean(0)))
    return np.array(products), np.array(pairs, float), np.array(decayed)


def _pooled_correlations(products: Array, pairs: Array) -> Array:
    """Correlation at each lag over all points, each with its own variance; (1 + LAGS,)."""
    variance = products[0] / np.maximum(pairs[0], 1)
    is_positive = variance > 0
    ratio = products[:, is_positive] / variance[is_positive]
    return ratio.sum(1) / np.maximum(pairs[:, is_positive].sum(1), 1)


def _shrunk_moments(products: Array, pairs: Array, pooled: Array) -> tuple[Array, Array]:
    """Variance and correlation of neighbours per point, both shrunk to those of all points."""
    n = np.maximum(pairs, 1e-9)
    mean = products / n
    rho = np.clip(pooled[1], -0.99, 0.99) if len(pooled) > 1 else 0.0
    independent = n[0] * (1.0 - rho**2) / (1.0 + rho**2)
    log_total = np.log(np.maximum(mean[0], 1e-300))
    counted = pairs[0] > 1
    middle = float(np.average(log_total[counted], weights=n[0][counted])) if counted.any() else 0.0
    keep = _kept_share(log_total - middle, 2.0 / independent, counted)
    total = np.exp(middle + keep * np.where(counted, log_total - middle, 0.0))
    deviation = mean[1] / np.where(mean[0] > 0, mean[0], 1.0) - pooled[1]
    counted = pairs[1] > 1
    keep = _kept_share(deviation, (1.0 - rho**2) / n[1], counted)
    return total, pooled[1] + keep * np.where(counted, deviation, 0.0)


def _kept_share(deviation: Array, sampling: Array, counted: Array) -> Array:
    """Share of each deviation from the mean that is no sampling error (empirical Bayes)."""
    if counted.sum() < 2:
        return np.zeros(len(deviation))
    weight = 1.0 / sampling[counted]
    spread = float(np.average(deviation[counted] ** 2, weights=weight))
    real = max(spread - float(np.average(sampling[counted], weights=weight)), 0.0)
    return np.where(counted, real / (real + sampling), 0.0)


def _memory_share(pairs: Array, decayed: Array, pooled: Array) -> float:
    """Part of the variance that has memory, by least squares of ``share exp(-a dt)`` on all points.

    One number for all: two lags of a single point carry too little. Climatology and modes remove
    slow parts of the residuals, which makes later lags too small: such residuals have share 1.
    """
    weight = pairs[1:].sum(1, keepdims=True)
    curve = (pairs[1:, :, None] * decayed).sum(1) / np.maximum(weight, 1.0)
    correlation = pooled[1:, None]
    share = np.clip((weight * correlation * curve).sum(0) / (weight * curve**2).sum(0), 0.0, 1.0)
    loss = (weight * (correlation - share * curve) ** 2).sum(0)
    return float(share[loss.argmin()])


def _nearest_decay(neighbours: Array, decayed: Array, share: float | Array) -> Array:
    """Index of the decay that gives neighbours in time the correlation they have; (M,)."""
    share_column = np.broadcast_to(share, neighbours.shape)[:, None]
    return np.abs(neighbours[:, None] - share_column * decayed).argmin(-1)


# ---------- Kriged: close values in space and time predict the residual
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
#: What to try: lengths and times in units of typical distances, ratios of lengths, noise; and the
#: ratio of two mean square errors below which they are the same.
LENGTHS, TIME_LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0), (0.3, 1.0, 2.0, 4.0, 8.0)
SAME_ERROR = 1.005
RATIOS, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0), (0.003, 0.02, 0.1, 0.3, 1.0, 4.0)


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
    def where(cls, chosen: Array, grid: Grid) -> Values:
        """Of a boolean (P, T, M) on a grid."""
        p, t, m = np.nonzero(chosen)
        return cls(
            p.astype(float), np.broadcast_to(grid.times, chosen.shape[:2])[p, t], grid.points[m]
        )

    def scaled(self, kernel: Kernel) -> Array:
        """Coordinates in lengths of the kernel: time and path first, then space."""
        lengths = np.full(self.position.shape[1], kernel.space)
        lengths[1:] *= kernel.ratio
        columns = [(self.time / kernel.time)[:, None], PATH_DISTANCE * self.path[:, None]]
        return np.hstack([*columns, self.position / lengths])


#: Fewest held-out values that a kernel is chosen by.
FEWEST_HELD_OUT = 30


class Kriged(NamedTuple):
    """A residual that close values predict; ``total`` is the variance of z + e at each point."""

    kernel: Kernel
    total: Array

    @property
    def variance(self) -> Array:
        """Variance of z: the noise of the kernel is relative to it."""
        return self.total / (1.0 + self.kernel.noise)

    @property
    def white(self) -> Array:
        """Variance of the noise."""
        return self.total - self.variance

    @classmethod
    def fit(
        cls, residuals: Array, grid: Grid, held_out: Array, start: Kernel | None = None
    ) -> Kriged | White:
        """The kernel that predicts held-out residuals best; `White` where none helps.

        ``held_out`` is NaN where none is held out. ``start`` is a kernel to search around.
        """
        observed, held = np.isfinite(residuals), np.isfinite(held_out)
        if not observed.any() or held.sum() < FEWEST_HELD_OUT:
            return White.fit(residuals)
        sources, targets = (Values.where(mask, grid) for mask in (observed, held))
        given = (residuals[observed], sources, held_out[held], targets)
        kernel = choose_kernel(*given, grid.spacing, start)
        return White.fit(residuals) if kernel is None else cls(kernel, point_variances(residuals))

    def refit(self, residuals: Array, grid: Grid) -> Kriged:
        """The same kernel with the variances of other residuals."""
        return self._replace(total=point_variances(residuals))

    def predict(self, residuals: Array, grid: Grid, at: Array | None = None) -> Predicted:
        """Simple kriging from the nearest values."""
        mean, variance = (
            np.zeros(residuals.shape),
            np.tile(self.variance, (*residuals.shape[:2], 1)),
        )
        observed = np.isfinite(residuals)
        at = np.ones(residuals.shape, bool) if at is None else at
        if observed.any() and at.any():
            sources, targets = (Values.where(mask, grid) for mask in (observed, at))
            mean[at], share = krige(residuals[observed], sources, targets, self.kernel)
            variance[at] *= share - self.kernel.noise
        return Predicted(mean, variance)


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

    What predicts as well with more noise is taken for noise.

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
    if not error(best) < float(np.mean(held_out_residual**2)):
        return None
    noisier = (best._replace(noise=noise) for noise in reversed(NOISES))
    return next(kernel for kernel in (*noisier, best) if error(kernel) < SAME_ERROR * error(best))


def _kernel_choices(spacing: tuple[float, float], n_dims: int) -> dict[str, list[Any]]:
    return {
        "smooth": [False, True],
        "space": [spacing[0] * c for c in LENGTHS],
        "time": [spacing[1] * c for c in TIME_LENGTHS],
        # Points on a sphere are given in space, where no coordinate is special.
        "ratio": list(RATIOS) if n_dims == 2 else [],
        "noise": list(NOISES),
    }


# ---------- Covariance: the other points of the same time predict the residual
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
    (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 0.9),
    (1.0, 1.5),
)


def can_learn_covariance(observed: Array) -> bool:
    """Whether a covariance of all points can be learned; ``observed`` is boolean (P, T, M)."""
    counts = observed.sum(-1).astype(float)
    return observed.shape[-1] <= MOST_POINTS and float((counts**3).sum()) <= MOST_OPERATIONS


#: Least share of the residual variance that other points leave unexplained.
LEAST_OPEN_SHARE = 1e-6


class Covariance(NamedTuple):
    """A residual that the other points of its time predict.

    Attributes:
        weight: of the data against distance in the covariance.
        covariance: of values at all points, (M, M).
        variance: of each point.
        nugget: share of noise in it, by which close points differ.
    """

    weight: float
    covariance: Array
    variance: Array
    nugget: float = 0.0

    @property
    def white(self) -> Array:
        """The share of noise in each variance."""
        return self.nugget * np.diag(self.covariance)

    @classmethod
    def fit(cls, residuals: Array, grid: Grid, weight: float) -> Covariance:
        """The covariance of residuals, through their gaps."""
        covariance, nugget = shared_covariance(residuals, grid.points, weight)
        return cls(weight, covariance, point_variances(residuals), nugget)

    @classmethod
    def choose(cls, residuals: Array, grid: Grid, held_out: Array) -> Covariance:
        """The weight that predicts held-out residuals best, NaN where none is held out."""
        held = np.isfinite(held_out)

        def error(model: Covariance) -> float:
            gap = model.predict(residuals, grid, held).mean - held_out
            return float(np.mean(gap[held] ** 2))

        return min((cls.fit(residuals, grid, weight) for weight in WEIGHTS), key=error)

    def refit(self, residuals: Array, grid: Grid) -> Covariance:
        """The covariance of other residuals."""
        return Covariance.fit(residuals, grid, self.weight)

    def predict(self, residuals: Array, grid: Grid, at: Array | None = None) -> Predicted:
        """The Gaussian conditional on the values of the same time.

        With S the covariance of values and W that of their noise, z has at observed values s the
        mean ``e_s - W S_ss^-1 e_s`` and the variance ``W - W S_ss^-1 W``.
        """
        rows = residuals.reshape(-1, residuals.shape[-1])
        needed = range(len(rows)) if at is None else np.flatnonzero(at.any(-1))
        observed_too = at is None or bool((at & np.isfinite(residuals)).any())
        noise, total = self.white, np.diag(self.covariance)
        mean, variance = np.zeros(rows.shape), np.tile(total - noise, (len(rows), 1))
        for i in needed:
            mean[i], uncertainty, gaps = _fill_row(rows[i], self.covariance)
            variance[i, gaps] = np.diag(uncertainty) - noise[gaps]
            s = np.isfinite(rows[i])
            if observed_too and s.any():
                inverse = np.linalg.inv(self.covariance[np.ix_(s, s)] + RIDGE * np.diag(total[s]))
                mean[i, s] -= noise[s] * (inverse @ rows[i, s])
                variance[i, s] = noise[s] - noise[s] ** 2 * np.diag(inverse)
        variance = np.maximum(variance, LEAST_OPEN_SHARE * self.variance)
        return Predicted(mean.reshape(residuals.shape), variance.reshape(residuals.shape))


def shared_covariance(residual: Array, points: Array, weight: float) -> tuple[Array, float]:
    """Covariance (M, M) of the residual (P, T, M), NaN where missing, at points (M, d).

    Second, the share of noise in it.
    """
    rows = residual.reshape(-1, residual.shape[-1])
    rows = rows[np.isfinite(rows).any(1)]
    scale = _point_deviations(rows)
    y = rows / scale
    prior, nugget = _correlation_of_distance(y, points)
    covariance = prior + RIDGE * np.eye(len(prior))
    for _ in range(EM_ROUNDS):
        second_moment, filled = np.zeros_like(prior), np.empty_like(y)
        for i, row in enumerate(y):
            filled[i], uncertainty, gaps = _fill_row(row, covariance)
            second_moment[np.ix_(gaps, gaps)] += uncertainty
        second_moment = (second_moment + filled.T @ filled) / len(y)
        d = np.sqrt(np.diag(second_moment))
        covariance = weight * second_moment + (1.0 - weight) * prior * np.outer(d, d)
    return covariance * np.outer(scale, scale), nugget


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


def _correlation_of_distance(y: Array, points: Array) -> tuple[Array, float]:
    """``(1 - g) exp(-(d / a)^p)`` closest to the correlations of pairs, 1 at distance 0; and g."""
    observed = np.isfinite(y)
    z, kept = np.where(observed, y, 0.0), observed.astype(float)
    pairs = kept.T @ kept
    product = z.T @ z
    distance = scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(points))
    other = ~np.eye(len(points), dtype=bool) & (pairs > 0)
    if not other.any():
        return np.eye(len(points)), 0.0
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
    return correlation, g
