"""The climatology of a record with gaps: complete at all points, and shared by neighbours."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.data.climate import in_space, interpolated, mask_outliers
from spdelaw.data.observed import Observed, observe
from spdelaw.data.prepare import Preparation, Prepared, learn_map
from spdelaw.domains.base import AbstractDomain

# ---------- A complete climatology: coefficients of points without values, from their neighbours
#
# Coefficients ``B_g(x)`` that are unknown, or wild because waves carried a short record on, come
# from those of other points (`spdelaw.data.climate.interpolated`).


Array = np.ndarray


def completed(prepared: Prepared) -> Prepared:
    """The same preparation with numbers for every point, where any point has them."""
    table = np.vstack([mask_outliers(prepared.coefficients), np.log(prepared.scale)[None]])
    if np.isfinite(table).all():
        return prepared
    full = interpolated(table, np.reshape(prepared.points, (table.shape[1], -1)).astype(float))
    return dataclasses.replace(prepared, coefficients=full[:-1], scale=np.exp(full[-1]))


# ---------- A climatology that neighbouring points share
#
# Coefficients ``B_m`` of mean and waves of the year at the points m minimise
#
#     sum_m |y_m - D B_m|^2  +  sum_{m ~ n} |S (B_m - B_n)|^2,
#
# over pairs of neighbours, with one strength S for the means, of which a smooth surface is taken
# off first, and one for the waves. Both are those under which the climatology alone predicts held-
# out values best; none where each point does better alone.


#: Neighbours of a point, and the strengths to try, in values that a neighbour counts for.
SHARED_NEIGHBOURS, STRENGTHS = 6, (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Most coefficients in all for which points share them.
MOST_COEFFICIENTS = 20_000


class Strength(NamedTuple):
    """How strongly neighbours are drawn together, in the mean and in the waves of the year."""

    mean: float = 0.0
    waves: float = 0.0


def can_share_climatology(prepared: Prepared) -> bool:
    """Whether the climatology is one of waves, in units of the data, of not too many points."""
    how = prepared.how
    plain = how.anomalies == "dayofyear" and how.standardise is None and not how.area_weights
    return plain and prepared.coefficients.size <= MOST_COEFFICIENTS


def choose_strength(
    prepared: Prepared, times: Array, values: Array, points: Array, truth: Array
) -> Strength:
    """The strength by which held-out values (P, T, M), NaN elsewhere, are predicted best."""
    held = np.isfinite(truth)

    def error(strength: Strength) -> float:
        offset, _ = share_climatology(prepared, times, values, points, strength).affine(
            times, prepared.points
        )
        residual = (truth - offset)[held]
        return float(np.mean(residual**2)) if np.isfinite(residual).all() else np.inf

    best = Strength()
    waves = [Strength(0.1, strength) for strength in STRENGTHS]
    best = min((best, *waves), key=error)
    if best.waves > 0:
        best = min((best, *(best._replace(mean=strength) for strength in STRENGTHS)), key=error)
    return best


def share_climatology(
    prepared: Prepared, times: Array, values: Array, points: Array, strength: Strength
) -> Prepared:
    """The same preparation with coefficients drawn together; ``values`` are (P, T, M)."""
    observed = np.isfinite(values)
    ever_observed = np.flatnonzero(observed.any((0, 1)))
    if not strength.waves or len(ever_observed) <= SHARED_NEIGHBOURS:
        return prepared
    design, observed_points = _design(prepared, times), points[ever_observed]
    count = observed.sum(0)[:, ever_observed].astype(float)
    total = np.where(observed, values, 0.0).sum(0)[:, ever_observed]
    surface = _surface(total.sum(0) / count.sum(0), count.sum(0), observed_points)
    squares = np.einsum("ti,tj,tm->mij", design, design, count, optimize=True)
    product = (total - count * surface).T @ design
    penalty = np.full(design.shape[1], strength.waves)
    penalty[0] = strength.mean
    blocks = [scipy.sparse.coo_array(square) for square in squares]
    system = scipy.sparse.block_diag(blocks) + scipy.sparse.kron(
        _laplacian(observed_points), scipy.sparse.diags_array(penalty)
    )
    solution = scipy.sparse.linalg.spsolve(system.tocsc(), product.ravel()).reshape(
        len(ever_observed), -1
    )
    solution[:, 0] += surface
    coefficients = prepared.coefficients.copy()
    coefficients[:, ever_observed] = solution.T
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
    coefficients = np.linalg.lstsq(design * root[:, None], mean * root, rcond=None)[0]
    return np.asarray(design @ coefficients)


def _laplacian(points: Array) -> scipy.sparse.sparray:
    """``L`` with ``b' L b = sum_{m ~ n} (b_m - b_n)^2`` over nearest neighbours."""
    n = len(points)
    near = scipy.spatial.KDTree(points).query(points, k=SHARED_NEIGHBOURS + 1)[1][:, 1:]
    rows = np.repeat(np.arange(n), SHARED_NEIGHBOURS)
    links = scipy.sparse.coo_array((np.ones(rows.size), (rows, near.ravel())), (n, n)).tocsr()
    links = links.maximum(links.T)
    return scipy.sparse.diags_array(links.sum(1)) - links


def prepare_data(
    observed: Observed,
    domain: AbstractDomain,
    prepare: Preparation | None,
    climate: Strength | Array,
) -> tuple[Observed, Strength]:
    """Data with the preparation learned from them, once for all candidates.

    ``climate`` is how strongly points share a climatology, or held-out values (P, T, M) by which
    this strength is chosen; the second result is the strength.
    """
    if prepare is None:
        return observed, Strength()
    fields, strength = observed.labelled, Strength()
    prepared = learn_map(prepare, fields, domain.dims)
    if can_share_climatology(prepared):
        shape = (*fields.shape[:2], len(prepared.points))
        values = np.asarray(fields.values).reshape(shape)
        data = (fields["time"].values, values, in_space(prepared.points, domain.dims))
        if isinstance(climate, Strength):
            strength = climate
        else:
            truth = observed.places.unflatten(climate).reshape(shape)
            strength = choose_strength(prepared, *data, truth)
        prepared = share_climatology(prepared, *data, strength)
    return observe(observed, domain, completed(prepared)), strength
