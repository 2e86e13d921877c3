"""Coastlines for maps over longitude and latitude: Natural Earth, in the public domain."""

from __future__ import annotations

import functools
from importlib import resources

import numpy as np

Array = np.ndarray

#: Degrees of a step in the file.
STEP = 0.01
#: Names and units that say longitude and latitude, as CF has them.
LONGITUDE = ("longitude", "degrees_east", "degree_east", "lon")
LATITUDE = ("latitude", "degrees_north", "degree_north", "lat")


def is_geographic(right: dict[str, str], up: dict[str, str]) -> bool:
    """Whether attributes and names of two coordinates say longitude and latitude in degrees."""
    return any(v in LONGITUDE for v in right.values()) and any(v in LATITUDE for v in up.values())


def coastline(west: float, east: float, south: float, north: float) -> Array:
    """Coastlines inside a window, (n, 2) longitudes and latitudes; a row of NaN after each line.

    Longitudes are counted as those of the window: 0 to 360, -180 to 180, or beyond.

    Example:
        >>> found = coastline(150.0, 290.0, -10.0, 10.0)  # the tropical Pacific
        >>> bool((found[~np.isnan(found[:, 0])] >= [150.0, -10.0]).all())
        True
    """
    ends = _segments()
    around = [np.array([turn, 0.0]) for turn in (-360.0, 0.0, 360.0, 720.0)]
    pieces = [_clipped(ends + turn, west, east, south, north) for turn in around]
    return _joined(np.concatenate(pieces))


@functools.cache
def _segments() -> Array:
    """Straight pieces of all lines, (n, 2 ends, 2 coordinates)."""
    with resources.files("spdelaw.report").joinpath("coastline.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        points, starts = STEP * stored["points"].astype(float), stored["starts"]
    pieces = np.stack([points[:-1], points[1:]], axis=1)
    return np.delete(pieces, starts[1:] - 1, axis=0)


def _clipped(ends: Array, west: float, east: float, south: float, north: float) -> Array:
    """The parts of segments inside a window, by their ranges ``a + s (b - a)``, s in [s0, s1]."""
    a, d = ends[:, 0], ends[:, 1] - ends[:, 0]
    low, high = np.array([west, south]) - a, np.array([east, north]) - a
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.sort(np.stack([low / d, high / d]), axis=0)
    still = d == 0.0  # inside for all s, or for none
    inside = still & (low <= 0.0) & (high >= 0.0)
    s0 = np.where(still, np.where(inside, 0.0, 2.0), s[0]).max(1).clip(min=0.0)
    s1 = np.where(still, np.where(inside, 1.0, -1.0), s[1]).min(1).clip(max=1.0)
    kept = s0 < s1
    a, d, s0, s1 = a[kept], d[kept], s0[kept, None], s1[kept, None]
    return np.stack([a + s0 * d, a + s1 * d], axis=1)


def _joined(pieces: Array) -> Array:
    """Segments one after the other as lines, with NaN where the next does not go on."""
    if not len(pieces):
        return np.zeros((0, 2))
    breaks = np.ones(len(pieces), bool)
    breaks[:-1] = (np.abs(pieces[1:, 0] - pieces[:-1, 1]) > STEP / 10).any(1)
    rows: list[Array] = []
    for piece, ends in zip(pieces, breaks, strict=True):
        rows.append(piece[0])
        if ends:
            rows += [piece[1], np.full(2, np.nan)]
    return np.array(rows)
