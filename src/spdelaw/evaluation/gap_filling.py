"""Gaps filled: each missing value with its mean and standard deviation."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.data.climate import in_space, interpolated, mask_outliers
from spdelaw.data.fields import OBSERVATION_STD
from spdelaw.data.io.sources import open_raw
from spdelaw.data.observed import Observed, check_times, observe
from spdelaw.data.prepare import Preparation, Prepared, learn_map
from spdelaw.data.quality import check_plausible
from spdelaw.data.recognise import guess_source
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.places import Places
from spdelaw.errors import ConvergenceError, DataError, InputError, SpdeLawError
from spdelaw.evaluation.gap_selection import (
    BASES,
    Candidate,
    Factors,
    Moments,
    Recipe,
    Record,
    Trial,
    choose,
    gap_task,
    grid_of,
    law_fields,
    learn,
    make_record,
    tracks,
)
from spdelaw.evaluation.hindcast import affine_part, for_raw_data
from spdelaw.evaluation.scores import LEVELS, Prediction
from spdelaw.infer.model import DRIFTS, WORDS
from spdelaw.law.law import Law
from spdelaw.law.observations import to_user
from spdelaw.law.prediction import Unread, by_paths, in_paths, is_record, joined, parts_of
from spdelaw.law.residuals import Grid, Kriged, Residual

Array = np.ndarray

# ---------- Gaps filled: each missing value with its mean and standard deviation


RESIDUALS = ("auto", "white", "memory", "local", "shared")
#: Fewest held-out values for a choice.
FEWEST_HELD_OUT = 10
#: Most modes per observed value of the median row.
MODES_PER_VALUE = 1.0


@checked()
def fill(
    data: Any,
    domain: AbstractDomain | None = None,
    n_modes: int | str = "auto",
    *,
    prepare: Preparation | None = None,
    basis: str | None = None,
    drift: str | None = None,
    residual: str = "auto",
    smooth: bool = False,
    everywhere: bool = False,
    seconds: float | None = 300.0,
    seed: int = 0,
    progress: Callable[[str], Any] | None = None,
    return_law: bool = False,
    **words: Any,
) -> xr.Dataset | tuple[xr.Dataset, Law]:
    """Fill the gaps of a record: mean and standard deviation of each missing value.

    The law is chosen by cross-validation: values are held out in the same patterns as the real
    gaps, and predicted from all others.

    Args:
        data: fields or raw data, in any form that `spdelaw.fit` takes; NaN is missing. Lazy data
            come back lazy, filled by the law that is chosen on their first part (256 MB of paths,
            or of the times of one record).
        domain: as in `spdelaw.fit`; guessed from the coordinates by default.
        n_modes: a number, or "auto" for the fewest modes whose CRPS of held-out values is within
            one standard error of the best.
        prepare: `spdelaw.Preparation`, such as anomalies; estimated without held-out values; a
            month without data at a point is interpolated from neighbours.
        basis: "domain" for its eigenfunctions, "patterns" for those of the data; None compares
            both.
        drift: as in `spdelaw.fit`; None compares several.
        residual: model of the residual outside the modes: "white" or with "memory", as in
            `spdelaw.Model`, "local" (predicted from close values in space and time), "shared"
            (predicted from other points at the same time by their estimated covariance); "auto"
            chooses white, local or shared by cross-validation.
        smooth: also replace observed values by the mean of the field without observation noise. By
            default observed values are unchanged, with ``std`` 0 and ``std_field`` that of the
            noise.
        everywhere: also fill points without any data, such as land; by default they are NaN.
        seconds: start no candidate that would exceed this total time; None for no limit.
        seed: of the held-out values.
        progress: called with the name of each candidate.
        return_law: whether to return also the chosen law, fitted to all data. It contains the modes
            only, not the local or shared residual of the filled record.
        words: further keywords of `spdelaw.Model`.

    Returns:
        Dataset in the units and under the names of the data: ``mean``, ``std`` of a value that
        would be observed, ``std_field`` of the field without noise; over
        ``candidate``: ``held_out_rmse``, ``held_out_crps``, ``held_out_coverage``, and
        ``candidate_n_modes``, ``_basis``, ``_drift``, ``_residual``, ``_seconds`` and ``_note``.
        The attribute ``chosen_by`` is a sentence.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.catalogue.heat(n_modes=3, initial="stationary")
        >>> fields = sl.simulate(heat, 10, np.linspace(0, 1, 21), np.linspace(0, np.pi, 17), seed=0)
        >>> gappy = sl.mask(fields, "blocks", fraction=0.3, seed=1)
        >>> filled = sl.fill(gappy, heat.domain, 3, drift="diagonal", basis="domain")
        >>> bool(abs(filled["mean"] - fields).max() < 0.2), int(filled["mean"].isnull().sum())
        (True, 0)
    """
    data, prepare = open_raw(data, domain, prepare, words)
    _check_options(n_modes, basis, drift, residual, words)
    if domain is None:
        domain, prepare = guess_source(data, prepare)
    observed = _observed(data, domain, prepare)
    how = None if prepare is None or not prepare.is_affine else affine_part(prepare)
    recipe = Recipe(domain, how, words | ({"residual": residual} if residual == "memory" else {}))
    head = _head(observed)
    check_plausible(head.fields)
    grid, observed_mask = grid_of(head), np.isfinite(head.fields.values)
    unseen = everywhere and not observed_mask.any((0, 1)).all()
    record = _held_out(head, grid, seed, unseen)
    most = max(1, int(MODES_PER_VALUE * np.median(observed_mask.sum(-1)[observed_mask.any(-1)])))
    candidate_tracks = tracks(
        n_modes, "domain" if unseen else basis, drift, min(most, observed_mask.any((0, 1)).sum())
    )
    kinds = ("white", "local", "shared") if residual == "auto" else (residual,)
    training, strength = prepare_data(record.observed, domain, how, record.truth)
    trials = choose(record, training, recipe, candidate_tracks, kinds, seconds, progress)
    law, moments, trials = _learn_best(trials, head, recipe, strength)
    refitted = trials[0].residual.refit(head.fields.values - moments.mean, grid)
    filler = Filler(law, refitted, trials[0].factors, smooth, everywhere)
    if in_paths(observed):
        result = _fill_paths(filler, observed, head.observed_points())
    elif is_record(observed):
        filler, result = _fill_record(filler, observed, how)
    else:
        result = filler.fill(observed, moments, head.observed_points())
    filled = described(result, trials, record)
    return (filled, for_raw_data(filler.law, prepare)) if return_law else filled


def _check_options(
    n_modes: Any, basis: Any, drift: Any, residual: Any, words: dict[str, Any]
) -> None:
    if isinstance(n_modes, str):
        one_of("n_modes", n_modes, ("auto",))
    if basis is not None:
        one_of("basis", basis, BASES)
    if drift is not None:
        one_of("drift", drift, DRIFTS)
    one_of("residual", residual, RESIDUALS)
    for name in words:
        if name not in WORDS or name in ("drift", "forcing"):
            allowed = ", ".join(word for word in WORDS if word not in ("drift", "forcing"))
            expected, got = f"a keyword of the model: {allowed}", repr(name)
            raise InputError(name, expected=expected, got=got, fix="see help(spdelaw.fill)")


def _observed(data: Any, domain: AbstractDomain, prepare: Preparation | None) -> Observed:
    """The data in their units, reduced and canonical."""
    if isinstance(data, Observed) or prepare is None:
        return check_times(observe(data, domain))
    return check_times(observe(prepare.reduce(data), domain, time_unit=prepare.time_unit))


def _held_out(observed: Observed, grid: Grid, seed: int, whole_points: bool) -> Record:
    observed_mask = np.isfinite(observed.fields.values)
    task = gap_task(observed_mask, grid.points, seed, whole_points=whole_points)
    if (observed_mask & ~task.given).sum() < FEWEST_HELD_OUT:
        expected = f"enough values to hold {FEWEST_HELD_OUT} of them out"
        fix = "use a longer record, or fit a law and use law.reconstruct(data)"
        raise DataError(
            "data", expected=expected, got=f"{int(observed_mask.sum())} values", fix=fix
        )
    return make_record(observed, task, grid)


def _learn_best(
    trials: list[Trial], observed: Observed, recipe: Recipe, strength: Strength
) -> tuple[Law, Moments, list[Trial]]:
    """The law of the best trial learned from all values, and its moments of them.

    Where that cannot be learned from all values, the next best one; the trials come back with the
    one that was taken first.
    """
    data, _ = prepare_data(observed, recipe.domain, recipe.prepare, strength)
    notes = [f"{trials[0].candidate}: {trials[0].note}"]
    for best in [trial for trial in trials if np.isfinite(trial.crps)]:
        try:
            law = learn(data, recipe, best.candidate, _law_on_domain(trials, best, data, recipe))
            moments = Moments.of(law, observed)
        except (SpdeLawError, np.linalg.LinAlgError) as error:
            notes.append(f"{best.candidate}: {error}")
            continue
        return law, moments, [best, *(trial for trial in trials if trial is not best)]
    got = f"{len(trials)} candidates, all of which failed; {notes[-1]}"
    fix = "pass n_modes=4, drift='diagonal' and basis='domain', or check the domain"
    raise ConvergenceError("fill", expected="a law that predicts held-out values", got=got, fix=fix)


def _law_on_domain(trials: list[Trial], best: Trial, data: Observed, recipe: Recipe) -> Law | None:
    """The best law on the domain, where patterns need the record without gaps."""
    plain = [t for t in trials if t.candidate.basis == "domain" and np.isfinite(t.crps)]
    if best.candidate.basis != "patterns" or not plain:
        return None
    return learn(data, recipe, plain[0].candidate)


# ---------- The predictor: a law with its residual, in memory and over blocks of lazy data


#: Bytes of the first of lazy data, by which the law that fills all of them is chosen, and rows.
HEAD_BYTES, FEWEST_ROWS = 256e6, 200
#: Reach of neighbours in time, in units of the memory of the residual: beyond, no correlation.
REACH_IN_MEMORIES = 8.0


class Filler(NamedTuple):
    """A law with the model of its residual and calibrated deviations, which fills values.

    Attributes:
        law: in the units of the data.
        residual: of the law, learned from all values in memory.
        factors: of the parts of the variance.
        smooth: whether observed values are smoothed.
        everywhere: whether points without any value are filled.
    """

    law: Law
    residual: Residual
    factors: Factors
    smooth: bool
    everywhere: bool

    def fill(self, observed: Observed, moments: Moments, observed_points: Array) -> xr.Dataset:
        """Data in memory, labelled; ``moments`` are those of the law."""
        bands = self.predict(observed.fields.values, moments, grid_of(observed), observed_points)
        places = observed.places
        table = {
            name: (("path", "time", *places.dims), places.unflatten(values))
            for name, values in bands._asdict().items()
        }
        return named(xr.Dataset(table), self.law, observed)

    def predict(
        self,
        values: Array,
        moments: Moments,
        grid: Grid,
        observed_points: Array,
        rows: slice = slice(None),
    ) -> Prediction:
        """Bands at some rows of values (P, T, M), others of which are neighbours."""
        at = np.zeros(values.shape, bool)
        at[:, rows] = self.smooth | np.isnan(values[:, rows])
        moments = moments.with_residual(self.residual, values, grid, at)
        bands = [moments.mean, moments.std(self.factors), moments.std_field(self.factors)]
        if not self.smooth:
            stay = values, np.zeros(1), np.sqrt(self.factors[1] * moments.noise)
            bands = [np.where(np.isnan(values), *pair) for pair in zip(bands, stay, strict=True)]
        filled = observed_points | self.everywhere
        return Prediction(*(np.where(filled, band[:, rows], np.nan) for band in bands))


def _head(observed: Observed) -> Observed:
    """All data in memory, or the first of lazy ones, which choose the law that fills all."""
    n_bytes = observed.fields.nbytes
    if in_paths(observed):
        observed = observed.paths(slice(max(2, int(HEAD_BYTES * observed.n_paths / n_bytes))))
    elif is_record(observed):
        rows = max(FEWEST_ROWS, int(HEAD_BYTES * len(observed.times) / n_bytes))
        observed = observed.at_times(slice(rows))
    return observed.in_memory()


def _fill_paths(filler: Filler, observed: Observed, observed_points: Array) -> xr.Dataset:
    """Lazy paths, block by block."""

    def fill_block(block: Observed, _: Any) -> xr.Dataset:
        points = observed_points | np.isfinite(block.fields.values).any((0, 1))
        return filler.fill(block, Moments.of(filler.law, block), points)

    return by_paths(fill_block, observed)


def _fill_record(
    filler: Filler, observed: Observed, prepare: Preparation | None
) -> tuple[Filler, xr.Dataset]:
    """One long lazy record, in parts of its times.

    Climatology and scale are learned from all times. Each part of times is filled from the law's
    moments given the whole record, and from neighbours that may lie in adjacent parts.
    """
    import dask

    if prepare is not None:
        prepared = completed(learn_map(prepare, observed.labelled, observed.domain.dims))
        filler = filler._replace(law=dataclasses.replace(filler.law, preparation=prepared))
    law_result, grid = law_fields(filler.law, observed), grid_of(observed.at_times(slice(2)))
    look, any_of, call = (
        dask.delayed(f, pure=False) for f in (_observed_points, np.any, _fill_rows)
    )
    parts, slices, values = [], parts_of(observed), observed.values
    observed_points = any_of([look(Unread(values[:, span])) for span in slices], 0)
    shared = dask.delayed(filler, traverse=False)
    for span in slices:
        wide = _with_neighbours(span, observed.times, filler.residual)
        law_bands = [law_result[k].isel(time=wide).data for k in ("mean", "std_field")]
        clock = grid._replace(times=observed.times[None, wide])
        at = slice(span.start - wide.start, span.stop - wide.start)
        given = (observed_points, clock, at, observed.places)
        parts.append(call(shared, Unread(values[:, wide]), *law_bands, *given))
    dims, shape = ("path", "time", *observed.places.dims), (1, 1, *observed.places.shape)
    template = xr.Dataset({name: (dims, np.zeros(shape)) for name in Prediction._fields})
    table = joined(parts, [span.stop - span.start for span in slices], template, "time", {})
    return filler, named(table, filler.law, observed)


def _fill_rows(
    filler: Filler, values: Unread, mean: Array, std: Array, observed_points: Array, grid: Grid,
    rows: slice, places: Places,
) -> dict[str, Array]:  # fmt: skip
    """Some rows of a record, filled; the others are their neighbours in time."""
    bands = filler.predict(values.read(), Moments(mean, std**2), grid, observed_points, rows)
    return {name: places.unflatten(band) for name, band in bands._asdict().items()}


def _observed_points(values: Unread) -> Array:
    """Points with values in a part, (M,)."""
    return np.isfinite(values.read()).any((0, 1))


def _with_neighbours(span: slice, times: Array, residual: Residual) -> slice:
    """Rows of a part, and those close enough in time to be correlated with its residual."""
    if not isinstance(residual, Kriged):
        return span
    reach = REACH_IN_MEMORIES * residual.kernel.time
    first = int(np.searchsorted(times, times[span.start] - reach))
    last = int(np.searchsorted(times, times[span.stop - 1] + reach, side="right"))
    return slice(first, last)


# ---------- The result: names of the data, and the choice of the law


def named(table: xr.Dataset, law: Law, observed: Observed) -> xr.Dataset:
    """Results on the points of the data under their names."""
    coords = {k: v for k, v in observed.labelled.coords.items() if k != OBSERVATION_STD}
    table = table.assign_coords(coords)
    bare = law.without_preparation_and_mean.with_info(labels=law.info.get("labels", {}))
    return to_user(bare, table, observed.dated, observed.fields)


def described(result: xr.Dataset, trials: list[Trial], record: Record) -> xr.Dataset:
    """The result with the trials, and a sentence about them."""
    columns = {
        **{f"candidate_{name}": [getattr(t.candidate, name) for t in trials]
           for name in Candidate._fields},
        "candidate_residual": [t.residual_kind for t in trials],
        "candidate_seconds": [t.seconds for t in trials],
        "candidate_note": [t.note for t in trials],
        "held_out_rmse": [t.rmse for t in trials],
        "held_out_crps": [t.crps for t in trials],
    }  # fmt: skip
    coverage = {"held_out_coverage": (("candidate", "level"), [list(t.coverage) for t in trials])}
    result = result.assign(
        coverage | {name: ("candidate", np.array(values)) for name, values in columns.items()}
    ).assign_coords(candidate=[t.name for t in trials], level=[level / 100 for level in LEVELS])
    return result.assign_attrs(_choice_attributes(trials, record))


def _choice_attributes(trials: list[Trial], record: Record) -> dict[str, Any]:
    best, held = trials[0], int(np.isfinite(record.truth).sum())
    crps = [t.crps for t in trials if np.isfinite(t.crps)]
    tried, least = len(crps), min(crps, default=np.inf)
    why = "least CRPS" if best.crps <= least else f"fewest modes near the least CRPS ({least:.4g})"
    sentence = (
        f"{best.name}: {why} of {tried} candidates on {held} values held "
        f"out in the pattern of the gaps (RMSE {best.rmse:.4g}, CRPS {best.crps:.4g})"
    )
    late = sum(1 for t in trials if t.note.startswith("not tried"))
    if late:
        sentence += f"; {late} larger ones were not tried, as they exceed the time limit"
    return {"title": "Gaps filled by an estimated law", "chosen_by": sentence, "held_out": held}


# ---------- A complete climatology: coefficients of points without values, from their neighbours
#
# Coefficients ``B_g(x)`` that are unknown, or wild because waves carried a short record on, come
# from those of other points (`spdelaw.data.climate.interpolated`).


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
