"""A climatology without holes: where a point never saw a month, its neighbours say what it is.

Coefficients ``B_g(x)`` that are unknown, or wild because waves carried a short record on, come
from those of other points: a plane in space and, for what that leaves over, the mean of the nearest
ones weighted by one over the squared distance.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy

from spdelaw.data import Prepared

Array = np.ndarray

#: Deviations from the middle of all points, in robust ones, from which a coefficient is wild.
WILD = 20.0
#: Neighbours that an unknown coefficient is taken from.
NEIGHBOURS = 8


def completed(prepared: Prepared) -> Prepared:
    """The same preparation with numbers for every point, where any point has them."""
    table = np.vstack([_without_wild(prepared.coefficients), np.log(prepared.scale)[None]])
    if np.isfinite(table).all():
        return prepared
    points = np.reshape(prepared.points, (table.shape[1], -1)).astype(float)
    spread = np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)
    place = (points - points.mean(0)) / spread.max()
    full = np.stack([_interpolated(row, place) for row in table])
    return dataclasses.replace(prepared, coefficients=full[:-1], scale=np.exp(full[-1]))


def _without_wild(coefficients: Array) -> Array:
    """Coefficients (n_columns, n_points), NaN at points of which any is far off all others."""
    known = coefficients[:, np.isfinite(coefficients).all(0)]
    if known.shape[1] <= NEIGHBOURS:
        return coefficients
    middle = np.median(known, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(known - middle), axis=1, keepdims=True)
    off = np.abs(coefficients - middle) > WILD * np.where(spread > 0, spread, np.inf)
    return np.where(off.any(0), np.nan, coefficients)


def _interpolated(row: Array, place: Array) -> Array:
    """One coefficient at all points; as it is where it is known at none."""
    known = np.isfinite(row)
    if known.all() or not known.any():
        return row
    plane = np.column_stack([np.ones(len(place)), place])
    trend = np.zeros(len(row))
    if known.sum() > 3 * plane.shape[1]:
        trend = plane @ np.linalg.lstsq(plane[known], row[known], rcond=None)[0]
    k = min(NEIGHBOURS, int(known.sum()))
    distance, near = scipy.spatial.KDTree(place[known]).query(place[~known], k=k)
    weights = 1.0 / (distance.reshape(-1, k) ** 2 + 1e-12)
    rest = (row - trend)[known][near.reshape(-1, k)]
    out = row.copy()
    out[~known] = trend[~known] + (weights * rest).sum(1) / weights.sum(1)
    return out
