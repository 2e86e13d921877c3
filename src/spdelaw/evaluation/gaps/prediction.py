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
    Grid,
    Kernel,
    Residual,
    Shared,
    Values,
    White,
    choose_kernel,
)
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.pipeline import fit
from spdelaw.law.law import Law

# ---------- A complete climatology: coefficients of points without values, from their neighbours
#
# Coefficients ``B_g(x)`` that are unknown, or wild because waves carried a short record on, come
# from those of other points: a plane in space and, for its residual, the mean of the
# nearest ones weighted by one over the squared distance.


Array = np.ndarray

#: Robust standard deviations from the median of all points beyond which a coefficient is wild.
WILD_DEVIATIONS = 20.0
#: Neighbours that an unknown coefficient is taken from.
NEIGHBOURS = 8


def completed(prepared: Prepared) -> Prepared:
    """The same preparation with numbers for every point, where any point has them."""
    table = np.vstack([_mask_outliers(prepared.coefficients), np.log(prepared.scale)[None]])
    if np.isfinite(table).all():
        return prepared
    points = np.reshape(prepared.points, (table.shape[1], -1)).astype(float)
    spread = np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)
    scaled_points = (points - points.mean(0)) / spread.max()
    full = np.stack([_interpolated(row, scaled_points) for row in table])
    return dataclasses.replace(prepared, coefficients=full[:-1], scale=np.exp(full[-1]))


def _mask_outliers(coefficients: Array) -> Array:
    """Coefficients (n_columns, n_points), NaN at points of which any is far off all others."""
    complete = coefficients[:, np.isfinite(coefficients).all(0)]
    if complete.shape[1] <= NEIGHBOURS:
        return coefficients
    middle = np.median(complete, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(complete - middle), axis=1, keepdims=True)
    off = np.abs(coefficients - middle) > WILD_DEVIATIONS * np.where(spread > 0, spread, np.inf)
    return np.where(off.any(0), np.nan, coefficients)


def _interpolated(row: Array, points: Array) -> Array:
    """One coefficient at all points; unchanged where no point has it."""
    available = np.isfinite(row)
    if available.all() or not available.any():
        return row
    plane = np.column_stack([np.ones(len(points)), points])
    trend = np.zeros(len(row))
    if available.sum() > 3 * plane.shape[1]:
        trend = plane @ np.linalg.lstsq(plane[available], row[available], rcond=None)[0]
    k = min(NEIGHBOURS, int(available.sum()))
    distance, near = scipy.spatial.KDTree(points[available]).query(points[~available], k=k)
    weights = 1.0 / (distance.reshape(-1, k) ** 2 + 1e-12)
    residual = (row - trend)[available][near.reshape(-1, k)]
    out = row.copy()
    out[~available] = trend[~available] + (weights * residual).sum(1) / weights.sum(1)
    return out


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
    system = scipy.sparse.block_diag(list(squares)) + scipy.sparse.kron(
        _laplacian(observed_points), scipy.sparse.diags(penalty)
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


def _laplacian(points: Array) -> scipy.sparse.spmatrix:
    """``L`` with ``b' L b = sum_{m ~ n} (b_m - b_n)^2`` over nearest neighbours."""
    n = len(points)
    near = scipy.spatial.KDTree(points).query(points, k=SHARED_NEIGHBOURS + 1)[1][:, 1:]
    rows = np.repeat(np.arange(n), SHARED_NEIGHBOURS)
    links = scipy.sparse.coo_matrix((np.ones(rows.size), (rows, near.ravel())), (n, n)).tocsr()
    links = links.maximum(links.T)
    return scipy.sparse.diags(np.asarray(links.sum(1)).ravel()) - links


# ---------- Predictions of missing values: mean, residual and a calibrated deviation
#
#     mean = law + residual,    variance = a s^2 + c k r(x),
#
# with the deviation s of the law, the mean square r(x) of its residual at each point, and
# the share k of r(x) that neighbours do not explain (`gaps.residuals`). The factors a
# and c are those under which held-out values are likeliest.


#: Number of values at which the mean square of a point counts as much as that of all points.
PRIOR_COUNT = 10.0
#: Fewest held-out values to estimate the factors from; with fewer they stay 1.
FEWEST_HELD_OUT = 30


def in_space(points: Array, dims: tuple[str, ...]) -> Array:
    """Points (M, d) in lengths that are alike, those of a sphere in space."""
    table = np.reshape(points, (len(points), -1)).astype(float)
    if dims != ("lat", "lon"):
        return table
    lat, lon = np.radians(table).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


class Settings(NamedTuple):
    """Settings chosen by held-out values: model of the residual, climate, a and c."""

    residual: Residual = White()
    climate: Strength = Strength()
    state_factor: float = 1.0
    residual_factor: float = 1.0


class Moments(NamedTuple):
    """Mean and parts of the variance at all values, (P, T, M); ``residual`` is k r(x)."""

    mean: Array
    state: Array
    residual: Array

    def variance(self, settings: Settings) -> Array:
        """``a s^2 + c k r``."""
        return settings.state_factor * self.state + settings.residual_factor * self.residual


def law_moments(law: Law, observed: Observed) -> Moments:
    """Moments of the law alone, given the data."""
    fields = law_fields(law, observed)
    mean, std = fields["mean"].values, fields["std_field"].values
    residual_variance = _residual_squares(observed.fields.values - mean)
    return Moments(mean, std**2, np.broadcast_to(residual_variance, mean.shape))


def law_fields(law: Law, observed: Observed) -> xr.Dataset:
    """Moments of the field of the law given the data, along their points; lazy where they are."""
    plain = law.with_info(labels={})
    if law.rest is None and not law.observation_variance.ndim:  # else points have their numbers
        plain = dataclasses.replace(plain, points=observed.points)  # predict unobserved ones too
    return plain.reconstruct(observed.flat)


def _residual_squares(residual: Array) -> Array:
    """Mean square of the residual at each point, drawn towards that of all points; (M,)."""
    count = np.isfinite(residual).sum((0, 1))
    square = np.nansum(residual**2, axis=(0, 1))
    overall = square.sum() / max(count.sum(), 1)
    return (square + PRIOR_COUNT * overall) / (count + PRIOR_COUNT)


def with_residual(
    moments: Moments, values: Array, grid: Grid, settings: Settings, requested: Array | None = None
) -> Moments:
    """The moments with the residual predicted from other values, where values are missing.

    ``requested`` selects the missing values to predict, all by default; boolean (P, T, M).
    """
    gaps = np.isnan(values) & np.isfinite(moments.mean)
    gaps = gaps if requested is None else gaps & requested
    if not gaps.any():
        return moments
    mean, residual_variance = moments.mean.copy(), moments.residual.copy()
    shift, residual_variance[gaps] = settings.residual.predict(
        values - moments.mean, moments.residual, grid, gaps
    )
    mean[gaps] += shift
    return moments._replace(mean=mean, residual=residual_variance)


def choose_weight(moments: Moments, values: Array, grid: Grid, truth: Array) -> float:
    """The weight of the learned covariance that predicts held-out values best."""

    def error(weight: float) -> float:
        prediction = with_residual(
            moments, values, grid, Settings(Shared(weight)), np.isfinite(truth)
        ).mean
        return float(np.nanmean((prediction - truth) ** 2))

    return min(WEIGHTS, key=error)


def kernel_for(
    moments: Moments, values: Array, grid: Grid, truth: Array, start: Kernel | None = None
) -> Kernel | None:
    """The kernel that predicts held-out values best; ``truth`` is NaN where none is held out."""
    observed = np.isfinite(values) & np.isfinite(moments.mean)
    held = np.isfinite(truth) & np.isfinite(moments.mean)
    if not observed.any() or held.sum() < FEWEST_HELD_OUT:
        return None
    sources, targets = (Values.where(m, grid.times, grid.points) for m in (observed, held))
    residual = values - moments.mean
    held_out_residual = (truth - moments.mean)[held]
    return choose_kernel(
        residual[observed], sources, held_out_residual, targets, grid.spacing, start
    )


def calibrated(moments: Moments, truth: Array, settings: Settings) -> Settings:
    """Factors a and c under which the held-out values are likeliest."""
    held = np.isfinite(truth) & np.isfinite(moments.mean)
    if held.sum() < FEWEST_HELD_OUT:
        return settings
    square = (truth - moments.mean)[held] ** 2
    state, residual_variance = moments.state[held], moments.residual[held]

    def loss(logs: Array) -> float:
        variance = np.exp(logs[0]) * state + np.exp(logs[1]) * residual_variance
        return float(np.mean(np.log(variance) + square / variance))

    start = np.log(max(square.mean() / max((state + residual_variance).mean(), 1e-300), 1e-12))
    limits = [(start - 7.0, start + 7.0)] * 2
    optimum = scipy.optimize.minimize(loss, [start, start], bounds=limits, method="L-BFGS-B").x
    return settings._replace(
        state_factor=float(np.exp(optimum[0])), residual_factor=float(np.exp(optimum[1]))
    )


# ---------- Candidate laws: source, number and coupling of their modes
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
#: Tracks that are climbed by default.
USUAL_TRACKS = (
    ("domain", "diagonal"),
    ("patterns", "diagonal"),
    ("patterns", "dense"),
    ("domain", "parametric"),
)
#: Noise that goes with a drift.
NOISES = {"parametric": "parametric", "dense": "dense"}
#: Rows times cubed modes that one fit may take, and the least and most rows.
MOST_OPERATIONS, LEAST_ROWS, MOST_ROWS = 4e8, 150, 1500


class Candidate(NamedTuple):
    """Where modes come from, how they are coupled, and how many."""

    basis: str
    drift: str
    n_modes: int

    def __str__(self) -> str:
        """In words."""
        return f"{self.n_modes} modes of the {self._mode_source}, drift {self.drift}"

    @property
    def _mode_source(self) -> str:
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
        pairs = list(USUAL_TRACKS)
    pairs = [pair for pair in pairs if basis in (None, pair[0])]
    out = []
    for pair in pairs:
        ladder = LADDERS.get(pair, ()) if n_modes == "auto" else (int(n_modes),)
        counts = [n for n in ladder if n <= most or n_modes != "auto"] or [most]
        out.append([Candidate(*pair, n) for n in counts])
    return out


def prepare_data(
    observed: Observed, recipe: Recipe, climate: Strength | Array
) -> tuple[Observed, Strength]:
    """Data with the preparation learned from them, once for all candidates.

    ``climate`` is how strongly points share a climatology, or held-out values (P, T, M) by which
    this strength is chosen; the second result is the strength.
    """
    if recipe.prepare is None:
        return observed, Strength()
    dims, fields, strength = recipe.domain.dims, observed.labelled, Strength()
    prepared = learn_map(recipe.prepare, fields, dims)
    if can_share_climatology(prepared):
        shape = (*fields.shape[:2], len(prepared.points))
        values = np.asarray(fields.values).reshape(shape)
        data = (fields["time"].values, values, in_space(prepared.points, dims))
        if isinstance(climate, Strength):
            strength = climate
        else:
            strength = choose_strength(
                prepared, *data, observed.places.unflatten(climate).reshape(shape)
            )
        prepared = share_climatology(prepared, *data, strength)
    return observe(observed, recipe.domain, completed(prepared)), strength


def learn(values: Observed, recipe: Recipe, candidate: Candidate, rough: Law | None = None) -> Law:
    """The law of a candidate, learned from these prepared data alone, in the units they came in.

    ``rough`` is a law on the domain, from the same data, which fills them for their patterns.
    Parameters are estimated from a part of a long record, climatology and patterns from all of it.
    """
    domain, dims = recipe.domain, recipe.domain.dims
    if candidate.basis == "patterns":
        domain = Empirical(_fill_by_law(values, rough).labelled, candidate.n_modes, dims=dims)
    words = {"drift": candidate.drift, "noise": NOISES.get(candidate.drift, "diagonal")}
    if values.n_paths == 1 and "season" not in recipe.words:
        words["initial"] = "stationary"
    if recipe.prepare is not None and recipe.prepare.anomalies:
        words["mean"] = "zero"  # it was taken off
    training = _training_part(values, candidate.n_modes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of tries on the way: scores decide
        model_words = {**words, "nuisance": 0, **recipe.words}
        law = fit(training, domain, candidate.n_modes, engine=Exact(profile=False), **model_words)
    if law.initial.kind != "stationary" or values.has_own_clocks:
        return law
    return dataclasses.replace(law, times=values.times)  # that of the whole record


def _fill_by_law(values: Observed, rough: Law | None) -> Observed:
    """Data with the law's mean in their gaps; points that were never observed stay missing."""
    if rough is None:
        return values
    mean = rough.without_preparation_and_mean.reconstruct(values.flat)["mean"].values
    given = values.fields.values
    observed = np.isfinite(given)
    filled = np.where(observed, given, np.nan_to_num(mean))
    filled = np.where(observed.any((0, 1)), filled, np.nan)
    return values.holding(values.fields.copy(data=filled))


def _training_part(values: Observed, n_modes: int) -> Observed:
    """Enough rows to learn from: some paths, or the stretch of a long one with most values."""
    rows = int(np.clip(MOST_OPERATIONS / n_modes**3, LEAST_ROWS, MOST_ROWS))
    n_paths, n_times = values.fields.shape[:2]
    if n_paths * n_times <= rows:
        return values
    if n_paths > 1:
        return values.paths(slice(max(2, rows // n_times)))
    counts = np.isfinite(values.values).reshape(n_times, -1).sum(1)
    sums = np.concatenate([[0], np.cumsum(counts)])
    start = int(np.argmax(sums[rows:] - sums[:-rows]))
    return values.at_times(slice(start, start + rows))
