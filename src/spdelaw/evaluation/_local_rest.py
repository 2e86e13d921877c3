"""What the modes leave over, from its neighbours in space and time.

The rest ``e = y - mean`` of a law of few modes is not white: close values have it in common. At a
gap it is predicted from the K nearest values of ``e`` by simple kriging,

    e* = k' (C + eta I)^-1 e,    var = 1 - k' (C + eta I)^-1 k,    C_ij = exp(-d_ij),

with the distance ``d^2 = |x - x'|^2 / a^2 + (t - t')^2 / b^2``. The lengths a and b and the share
eta of noise are those that predict held-out values best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

Array = np.ndarray

#: Neighbours that a prediction is made from.
NEIGHBOURS = 20
#: Held-out values that the lengths are chosen by, at most.
SAMPLE = 1500
#: Distance of two paths, at which nothing is in common.
FAR = 1e3
#: Values whose small systems are solved together.
AT_ONCE = 20_000
#: Lengths in units of the typical distance of points and times, and shares of noise, to try.
LENGTHS, TIMES, NOISES = (1.0, 2.0, 4.0, 8.0, 16.0), (0.3, 1.0, 2.0, 4.0, 8.0), (0.02, 0.1, 0.3)


class Kernel(NamedTuple):
    """Lengths in space and time, and the share of noise."""

    space: float
    time: float
    noise: float


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
        """Coordinates in which the distance is d; other paths are out of reach."""
        columns = [self.place / kernel.space, (self.time / kernel.time)[:, None]]
        return np.hstack([*columns, FAR * self.path[:, None]])


def krige(rest: Array, known: Values, wanted: Values, kernel: Kernel) -> tuple[Array, Array]:
    """Mean of the rest at wanted values, and the share of its variance that is left; each (n,)."""
    at, asked = known.scaled(kernel), wanted.scaled(kernel)
    k = min(NEIGHBOURS, len(at))
    tree = scipy.spatial.KDTree(at)
    mean, share = np.zeros(len(asked)), np.ones(len(asked))
    for start in range(0, len(asked), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        distance, near = tree.query(asked[part], k=k)
        distance, near = distance.reshape(-1, k), near.reshape(-1, k)
        system = np.exp(-_between(at[near] - asked[part][:, None])) + kernel.noise * np.eye(k)
        towards = np.exp(-distance)
        weights = np.linalg.solve(system, towards[..., None])[..., 0]
        mean[part] = (weights * rest[near]).sum(1)
        share[part] = 1.0 - (weights * towards).sum(1)
    return mean, np.clip(share, 0.0, 1.0) + kernel.noise


def _between(place: Array) -> Array:
    """Distances of the K neighbours of each value from each other, (n, K, K)."""
    square = (place**2).sum(-1)
    product = place @ place.transpose(0, 2, 1)
    return np.sqrt(np.maximum(square[:, :, None] + square[:, None] - 2.0 * product, 0.0))


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

    def error(kernel: Kernel) -> float:
        return float(np.mean((krige(rest, known, wanted, kernel)[0] - target) ** 2))

    best = start or Kernel(4.0 * spacing[0], 1.0 * spacing[1], 0.1)
    least = error(best)
    for _ in range(1 if start else 2):  # one coordinate after the other
        for name, choices in (
            ("space", [spacing[0] * c for c in LENGTHS]),
            ("time", [spacing[1] * c for c in TIMES]),
            ("noise", list(NOISES)),
        ):
            for value in choices:
                tried = best._replace(**{name: value})
                if tried != best and (found := error(tried)) < least:
                    best, least = tried, found
    return best if least < float(np.mean(target**2)) else None
