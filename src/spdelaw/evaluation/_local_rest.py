"""What the modes leave over, from its neighbours in space and time.

The rest ``e = y - mean`` of a law of few modes is not white: close values have it in common. At a
gap it is predicted from the K nearest values of ``e`` by simple kriging,

    e* = k' (C + eta I)^-1 e,    var = 1 - k' (C + eta I)^-1 k,
    C_ij = f(d_ij) exp(-|t_i - t_j| / b),    d^2 = sum_k (x_k - x'_k)^2 / a_k^2,

where ``f(d) = exp(-d)`` or, for a smooth rest, ``(1 + sqrt(3) d) exp(-sqrt(3) d)``. The lengths a,
the time b, the share eta of noise and the shape are those that predict held-out values best.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

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
