"""Places that a reader walks through with a slider."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.report.html._figure import Control, thinned
from spdelaw.report.html._material import Material

Array = np.ndarray


class Spots(NamedTuple):
    """Some of the points: their numbers, their names, and the slider over them."""

    at: Array
    control: Control


def spots(material: Material, values: Array, most: int) -> Spots:
    """At most ``most`` points that hold a value of (time, M), the first shown in the middle.

    Where there are maps, points on them.
    """
    canvas, points = material.canvas, material.points
    there = np.arange(len(points)) if canvas is None else np.unique(canvas.at[canvas.at >= 0])
    seen = there[~np.isnan(values[:, there]).all(0)]
    seen = seen if seen.size else there
    at = seen[thinned(len(seen), most)]
    names = material.names
    if points.ndim == 1:
        return Spots(at, Control(names[0], [f"{p:.4g}" for p in points[at]], len(at) // 2))
    some = points[at]
    labels = [", ".join(f"{d} {p:.4g}" for d, p in zip(names, row, strict=True)) for row in some]
    spread = np.ptp(some, axis=0)
    off = (some - some.mean(0)) / np.where(spread > 0, spread, 1.0)
    return Spots(at, Control("place", labels, int((off**2).sum(1).argmin())))
