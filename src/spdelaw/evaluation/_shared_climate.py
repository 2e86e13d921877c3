"""A climatology that points share: few values of each tell little about a year.

Coefficients ``B_m`` of mean and waves of the year at the points m minimise

    sum_m |y_m - D B_m|^2  +  sum_{m ~ n} |S (B_m - B_n)|^2,

over pairs of neighbours, with one strength S for the means, of which a smooth surface is taken off
first, and one for the waves. Both are those under which the climatology alone predicts held-out
values best; none where each point does better alone.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.data import Prepared

Array = np.ndarray

#: Neighbours of a point, and the strengths to try, in values that a neighbour counts for.
NEIGHBOURS, STRENGTHS = 6, (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Most coefficients in all for which points share them.
MOST = 20_000


class Strength(NamedTuple):
    """How strongly neighbours are drawn together, in the mean and in the waves of the year."""

    mean: float = 0.0
    waves: float = 0.0


def affordable(prepared: Prepared) -> bool:
    """Whether the climatology is one of waves, in units of the data, of not too many points."""
    how = prepared.how
    plain = how.anomalies == "dayofyear" and how.standardise is None and not how.area_weights
    return plain and prepared.coefficients.size <= MOST


def choose_strength(
    prepared: Prepared, times: Array, values: Array, points: Array, truth: Array
) -> Strength:
    """The strength by which held-out values (P, T, M), NaN elsewhere, are predicted best."""
    held = np.isfinite(truth)

    def error(strength: Strength) -> float:
        offset, _ = shared(prepared, times, values, points, strength).affine(times, prepared.points)
        left = (truth - offset)[held]
        return float(np.mean(left**2)) if np.isfinite(left).all() else np.inf

    best = Strength()
    waves = [Strength(0.1, strength) for strength in STRENGTHS]
    best = min((best, *waves), key=error)
    if best.waves > 0:
        best = min((best, *(best._replace(mean=strength) for strength in STRENGTHS)), key=error)
    return best


def shared(
    prepared: Prepared, times: Array, values: Array, points: Array, strength: Strength
) -> Prepared:
    """The same preparation with coefficients drawn together; ``values`` are (P, T, M)."""
    seen = np.isfinite(values)
    ever = np.flatnonzero(seen.any((0, 1)))
    if not strength.waves or len(ever) <= NEIGHBOURS:
        return prepared
    design, at = _design(prepared, times), points[ever]
    count = seen.sum(0)[:, ever].astype(float)
    total = np.where(seen, values, 0.0).sum(0)[:, ever]
    surface = _surface(total.sum(0) / count.sum(0), count.sum(0), at)
    squares = np.einsum("ti,tj,tm->mij", design, design, count, optimize=True)
    product = (total - count * surface).T @ design
    draw = np.full(design.shape[1], strength.waves)
    draw[0] = strength.mean
    system = scipy.sparse.block_diag(list(squares)) + scipy.sparse.kron(
        _laplacian(at), scipy.sparse.diags(draw)
    )
    found = scipy.sparse.linalg.spsolve(system.tocsc(), product.ravel()).reshape(len(ever), -1)
    found[:, 0] += surface
    coefficients = prepared.coefficients.copy()
    coefficients[:, ever] = found.T
    return dataclasses.replace(prepared, coefficients=coefficients)


def _design(prepared: Prepared, times: Array) -> Array:
    """The columns of D at times, (T, K): what each coefficient alone adds."""
    n = len(prepared.coefficients)
    alone = dataclasses.replace(
        prepared, coefficients=np.eye(n), scale=np.ones(n), points=np.arange(float(n))
    )
    return alone.affine(times, np.arange(float(n)))[0]


def _surface(mean: Array, weight: Array, points: Array) -> Array:
    """A quadratic surface through the means of the points; (M,)."""
    x = (points - points.mean(0)) / np.maximum(np.ptp(points, axis=0), 1e-300)
    pairs = itertools.combinations_with_replacement(range(x.shape[1]), 2)
    columns = [np.ones(len(x)), *x.T, *(x[:, i] * x[:, j] for i, j in pairs)]
    design, root = np.column_stack(columns), np.sqrt(weight)
    found = np.linalg.lstsq(design * root[:, None], mean * root, rcond=None)[0]
    return np.asarray(design @ found)


def _laplacian(points: Array) -> scipy.sparse.spmatrix:
    """``L`` with ``b' L b = sum_{m ~ n} (b_m - b_n)^2`` over nearest neighbours."""
    n = len(points)
    near = scipy.spatial.KDTree(points).query(points, k=NEIGHBOURS + 1)[1][:, 1:]
    rows = np.repeat(np.arange(n), NEIGHBOURS)
    links = scipy.sparse.coo_matrix((np.ones(rows.size), (rows, near.ravel())), (n, n)).tocsr()
    links = links.maximum(links.T)
    return scipy.sparse.diags(np.asarray(links.sum(1)).ravel()) - links
