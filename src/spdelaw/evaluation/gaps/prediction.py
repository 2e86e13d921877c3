"""Laws that gaps may be filled by, and what they predict for missing values."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.data.observed import Observed, observe
from spdelaw.data.prepare import Preparation, Prepared, learn_map
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.empirical import Empirical
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.evaluation.gaps.residuals import (
    WEIGHTS,
    Kernel,
    Values,
    choose_kernel,
    conditional,
    krige,
    shared_covariance,
)
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.pipeline import fit
from spdelaw.law.law import Law

# ---------- A climatology without holes: where a point never saw a month, its neighbours say what
# it is
#
# Coefficients ``B_g(x)`` that are unknown, or wild because waves carried a short record on, come
# from those of other points: a plane in space and, for what that leaves over, the mean of the
# nearest ones weighted by one over the squared distance.


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


# ---------- A climatology that points share: few values of each tell little about a year
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
    if not strength.waves or len(ever) <= SHARED_NEIGHBOURS:
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
    near = scipy.spatial.KDTree(points).query(points, k=SHARED_NEIGHBOURS + 1)[1][:, 1:]
    rows = np.repeat(np.arange(n), SHARED_NEIGHBOURS)
    links = scipy.sparse.coo_matrix((np.ones(rows.size), (rows, near.ravel())), (n, n)).tocsr()
    links = links.maximum(links.T)
    return scipy.sparse.diags(np.asarray(links.sum(1)).ravel()) - links


# ---------- What a law says about values it has not seen: mean, rest, and a deviation that holds
#
#     mean = law + rest,    variance = a s^2 + c k r(x),
#
# with the deviation s of the law, the mean square r(x) of what it leaves over at each point, and
# the share k of that which neighbours leave open (`gaps.residuals`). The factors a
# and c are those under which held-out values are likeliest.


#: Values of one point that its own mean square counts as much as that of all points from.
SHRINK = 10.0
#: Least share of the rest's variance that other points can leave open.
SMALLEST = 1e-6
#: Held-out values below which the factors stay 1.
FEW = 30


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


def in_space(points: Array, dims: tuple[str, ...]) -> Array:
    """Points (M, d) in lengths that are alike, those of a sphere in space."""
    table = np.reshape(points, (len(points), -1)).astype(float)
    if dims != ("lat", "lon"):
        return table
    lat, lon = np.radians(table).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


class Settings(NamedTuple):
    """What held-out values say beside the law: kernel or weight of the rest, climate, and a and c.

    ``covariance`` is that of a shared rest where it was learned from other paths already.
    """

    kernel: Kernel | None = None
    weight: float | None = None
    climate: Strength = Strength()
    covariance: Array | None = None
    of_state: float = 1.0
    of_rest: float = 1.0


class Moments(NamedTuple):
    """Mean and parts of the variance at all values, (P, T, M); ``rest`` is k r(x)."""

    mean: Array
    state: Array
    rest: Array

    def variance(self, settings: Settings) -> Array:
        """``a s^2 + c k r``."""
        return settings.of_state * self.state + settings.of_rest * self.rest


def law_moments(law: Law, own: Observed) -> Moments:
    """What the law alone says given the data."""
    found = law_fields(law, own)
    mean, std = found["mean"].values, found["std"].values
    rest = _residual_fields(own.fields.values - mean)
    return Moments(mean, std**2, np.broadcast_to(rest, mean.shape))


def law_fields(law: Law, own: Observed) -> xr.Dataset:
    """``mean`` and ``std`` of the law given the data, along their points; lazy where they are."""
    plain = law.with_info(labels={})
    if law.rest is None and not law.observation_variance.ndim:  # else it knows its points singly
        plain = dataclasses.replace(plain, points=own.points)  # unseen ones are asked for too
    return plain.reconstruct(own.flat)


def _residual_fields(rest: Array) -> Array:
    """Mean square of the rest at each point, drawn towards that of all points; (M,)."""
    count = np.isfinite(rest).sum((0, 1))
    square = np.nansum(rest**2, axis=(0, 1))
    overall = square.sum() / max(count.sum(), 1)
    return (square + SHRINK * overall) / (count + SHRINK)


def with_residual(
    moments: Moments, values: Array, grid: Grid, settings: Settings, wanted: Array | None = None
) -> Moments:
    """The same with what other values say about the rest, where values are missing.

    ``wanted`` says which of those are asked for, all by default; boolean (P, T, M).
    """
    gaps = np.isnan(values) & np.isfinite(moments.mean)
    gaps = gaps if wanted is None else gaps & wanted
    if settings.weight is not None:
        known = settings.covariance
        if known is None:
            known = shared_covariance(values - moments.mean, grid.points, settings.weight)
        return _with_shared_residual(moments, values, known, gaps)
    return _with_local_residual(moments, values, grid, settings.kernel, gaps)


def _with_shared_residual(
    moments: Moments, values: Array, covariance: Array, gaps: Array
) -> Moments:
    """The same with what other points say at the same time."""
    found = conditional(values - moments.mean, covariance, np.asarray(gaps.any(-1)))
    mean, left = moments.mean.copy(), moments.rest.copy()
    mean[gaps] += found.mean[gaps]
    left[gaps] = np.maximum(found.variance, SMALLEST * moments.rest)[gaps]
    return moments._replace(mean=mean, rest=left)


def choose_weight(moments: Moments, values: Array, grid: Grid, truth: Array) -> float:
    """The weight of the learned covariance that predicts held-out values best."""

    def error(weight: float) -> float:
        found = with_residual(
            moments, values, grid, Settings(weight=weight), np.isfinite(truth)
        ).mean
        return float(np.nanmean((found - truth) ** 2))

    return min(WEIGHTS, key=error)


def _with_local_residual(
    moments: Moments, values: Array, grid: Grid, kernel: Kernel | None, wanted: Array
) -> Moments:
    """The same with what close values say."""
    known = np.isfinite(values) & np.isfinite(moments.mean)
    if kernel is None or not wanted.any() or not known.any():
        return moments
    rest = (values - moments.mean)[known]
    at, asked = (Values.where(m, grid.times, grid.points) for m in (known, wanted))
    found, share = krige(rest, at, asked, kernel)
    mean, left = moments.mean.copy(), moments.rest.copy()
    mean[wanted] += found
    left[wanted] *= share
    return moments._replace(mean=mean, rest=left)


def kernel_for(
    moments: Moments, values: Array, grid: Grid, truth: Array, start: Kernel | None = None
) -> Kernel | None:
    """The kernel that predicts held-out values best; ``truth`` is NaN where none is held out."""
    known = np.isfinite(values) & np.isfinite(moments.mean)
    held = np.isfinite(truth) & np.isfinite(moments.mean)
    if not known.any() or held.sum() < FEW:
        return None
    at, asked = (Values.where(m, grid.times, grid.points) for m in (known, held))
    rest = values - moments.mean
    target = (truth - moments.mean)[held]
    return choose_kernel(rest[known], at, target, asked, grid.spacing, start)


def calibrated(moments: Moments, truth: Array, settings: Settings) -> Settings:
    """Factors a and c under which the held-out values are likeliest."""
    held = np.isfinite(truth) & np.isfinite(moments.mean)
    if held.sum() < FEW:
        return settings
    square = (truth - moments.mean)[held] ** 2
    state, rest = moments.state[held], moments.rest[held]

    def loss(logs: Array) -> float:
        variance = np.exp(logs[0]) * state + np.exp(logs[1]) * rest
        return float(np.mean(np.log(variance) + square / variance))

    start = np.log(max(square.mean() / max((state + rest).mean(), 1e-300), 1e-12))
    limits = [(start - 7.0, start + 7.0)] * 2
    found = scipy.optimize.minimize(loss, [start, start], bounds=limits, method="L-BFGS-B").x
    return settings._replace(of_state=float(np.exp(found[0])), of_rest=float(np.exp(found[1])))


# ---------- Laws that gaps may be filled by: where their modes come from, how many, and what
# couples them
#
# Modes are those of the domain, or patterns of the data: empirical orthogonal functions of the
# record whose gaps a law on the domain has filled. Each track is climbed while more modes predict
# held-out values better.


BASES = ("domain", "patterns")
#: Modes to try, by where they come from and what couples them.
LADDERS = {
    ("domain", "diagonal"): (2, 4, 8, 16, 32),
    ("domain", "parametric"): (16, 32, 64, 128),
    ("domain", "normal"): (8, 16, 32),
    ("domain", "dense"): (2, 4, 8, 16),
    ("patterns", "diagonal"): (3, 6, 12, 24),
    ("patterns", "dense"): (3, 6, 12),
}
#: Tracks that are climbed where nobody says which.
USUAL = (
    ("domain", "diagonal"),
    ("patterns", "diagonal"),
    ("patterns", "dense"),
    ("domain", "parametric"),
)
#: Noise that goes with a drift.
NOISES = {"parametric": "parametric", "dense": "dense"}
#: Rows times cubed modes that one fit may take, and the least and most rows.
WORK, LEAST_ROWS, MOST_ROWS = 4e8, 150, 1500


class Candidate(NamedTuple):
    """Where modes come from, how they are coupled, and how many."""

    basis: str
    drift: str
    n_modes: int

    def __str__(self) -> str:
        """In words."""
        return f"{self.n_modes} modes of the {self._of}, drift {self.drift}"

    @property
    def _of(self) -> str:
        return "data" if self.basis == "patterns" else "domain"


class Recipe(NamedTuple):
    """What all candidates share: domain, preparation and words of the model."""

    domain: AbstractDomain
    prepare: Preparation | None
    words: dict[str, Any]


def tracks(
    n_modes: int | str, basis: str | None, drift: str | None, most: int
) -> list[list[Candidate]]:
    """Candidates in the order in which they are tried, a list per track.

    Args:
        n_modes: a number, or "auto".
        basis: one of `BASES`, or None for both.
        drift: a word of the model, or None for the usual ones.
        most: modes that the data can tell apart.
    """
    if drift is not None:
        pairs = [(b, drift) for b in BASES if (b, drift) in LADDERS or n_modes != "auto"]
    else:
        pairs = list(USUAL)
    pairs = [pair for pair in pairs if basis in (None, pair[0])]
    out = []
    for pair in pairs:
        ladder = LADDERS.get(pair, ()) if n_modes == "auto" else (int(n_modes),)
        counts = [n for n in ladder if n <= most or n_modes != "auto"] or [most]
        out.append([Candidate(*pair, n) for n in counts])
    return out


def ready(own: Observed, recipe: Recipe, by: Strength | Array) -> tuple[Observed, Strength]:
    """Data prepared by what they tell themselves, once for all candidates.

    ``by`` is how strongly points share a climatology, or held-out values (P, T, M) to choose it by;
    it comes back beside the data.
    """
    if recipe.prepare is None:
        return own, Strength()
    dims, fields, strength = recipe.domain.dims, own.labelled, Strength()
    prepared = learn_map(recipe.prepare, fields, dims)
    if affordable(prepared):
        shape = (*fields.shape[:2], len(prepared.points))
        values = np.asarray(fields.values).reshape(shape)
        known = (fields["time"].values, values, in_space(prepared.points, dims))
        if isinstance(by, Strength):
            strength = by
        else:
            strength = choose_strength(prepared, *known, own.places.unflatten(by).reshape(shape))
        prepared = shared(prepared, *known, strength)
    return observe(own, recipe.domain, completed(prepared)), strength


def learn(values: Observed, recipe: Recipe, candidate: Candidate, rough: Law | None = None) -> Law:
    """The law of a candidate, learned from these prepared data alone, in the units they came in.

    ``rough`` is a law on the domain, from the same data, which fills them for their patterns.
    Long records lend a part to the search for parameters; climatology and patterns see all.
    """
    domain, dims = recipe.domain, recipe.domain.dims
    if candidate.basis == "patterns":
        domain = Empirical(_without_gaps(values, rough).labelled, candidate.n_modes, dims=dims)
    words = {"drift": candidate.drift, "noise": NOISES.get(candidate.drift, "diagonal")}
    if values.n_paths == 1 and "season" not in recipe.words:
        words["initial"] = "stationary"
    if recipe.prepare is not None and recipe.prepare.anomalies:
        words["mean"] = "zero"  # it was taken off
    part = _part(values, candidate.n_modes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of tries on the way: scores decide
        asked = {**words, "nuisance": 0, **recipe.words}
        law = fit(part, domain, candidate.n_modes, engine=Exact(profile=False), **asked)
    if law.initial.kind != "stationary" or values.has_own_clocks:
        return law
    return dataclasses.replace(law, times=values.times)  # that of the whole record


def _without_gaps(values: Observed, rough: Law | None) -> Observed:
    """Data with the law's mean in their gaps; points that were never seen stay missing."""
    if rough is None:
        return values
    mean = rough.without_preparation_and_mean.reconstruct(values.flat)["mean"].values
    given = values.fields.values
    seen = np.isfinite(given)
    filled = np.where(seen, given, np.nan_to_num(mean))
    filled = np.where(seen.any((0, 1)), filled, np.nan)
    return values.holding(values.fields.copy(data=filled))


def _part(values: Observed, n_modes: int) -> Observed:
    """Enough rows to learn from: some paths, or the stretch of a long one with most values."""
    rows = int(np.clip(WORK / n_modes**3, LEAST_ROWS, MOST_ROWS))
    n_paths, n_times = values.fields.shape[:2]
    if n_paths * n_times <= rows:
        return values
    if n_paths > 1:
        return values.paths(slice(max(2, rows // n_times)))
    counts = np.isfinite(values.values).reshape(n_times, -1).sum(1)
    sums = np.concatenate([[0], np.cumsum(counts)])
    start = int(np.argmax(sums[rows:] - sums[:-rows]))
    return values.at_times(slice(start, start + rows))
