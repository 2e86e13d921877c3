"""Which law fills gaps best: candidates, and values held out in the patterns of the gaps."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.data.climate import in_space
from spdelaw.data.observed import Observed
from spdelaw.data.prepare import Preparation
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.empirical import Empirical
from spdelaw.errors import IdentifiabilityWarning, SpdeLawError
from spdelaw.evaluation.hindcast import NOISES
from spdelaw.evaluation.scores import LEVELS, Prediction, ScoreTable
from spdelaw.evaluation.tasks import Task
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.pipeline import fit
from spdelaw.law.law import Law
from spdelaw.law.residuals import (
    USUAL_WEIGHT,
    Covariance,
    Grid,
    Kernel,
    Kriged,
    Residual,
    White,
    can_learn_covariance,
)

Array = np.ndarray

# ---------- Laws that gaps may be filled by: source, number and coupling of their modes


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
#: Rows times cubed modes that one fit may take, and the least and most rows.
MOST_OPERATIONS, LEAST_ROWS, MOST_ROWS = 4e8, 150, 1500


class Candidate(NamedTuple):
    """Where modes come from, how they are coupled, and how many."""

    basis: str
    drift: str
    n_modes: int

    def __str__(self) -> str:
        """As text."""
        source = "data" if self.basis == "patterns" else "domain"
        return f"{self.n_modes} modes of the {source}, drift {self.drift}"


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
        most: modes that the data distinguish.
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
        # The residual is that of `fill`, chosen with the law.
        model_words = {**words, "nuisance": 0, "residual": "white", **recipe.words}
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


def law_fields(law: Law, observed: Observed) -> xr.Dataset:
    """``mean`` and ``std`` of the law given the data, along their points; lazy where they are."""
    plain = law.with_info(labels={})
    if (
        law.residual_memory is None and not law.observation_variance.ndim
    ):  # else points have their numbers
        plain = dataclasses.replace(plain, points=observed.points)  # predict unobserved ones too
    return plain.reconstruct(observed.flat)


# ---------- Held-out values in the patterns of gaps
#
# The gaps of a record, moved along in time (around its end), lie over other values, more than once
# where they are few: clouds keep their shape and outages their length. A record without gaps gets
# drifting discs instead. No candidate uses the values that it is judged by.


#: Share of the observed values that is held out, and of those of a single row at most.
HELD_OUT_SHARE, MOST_OF_ROW = 0.15, 0.5
#: Share of the observed values below which gaps are moved again, and number that is enough.
LEAST_SHARE, ENOUGH_HELD_OUT = 0.03, 300
#: Most copies of the gaps that are laid over a record which has few, and share of the values of a
#: point from which on there are no more.
COPIES, MOST_OF_POINT = 50, 0.3
#: Segments of a record that are held out or kept as a whole, so that outages stay long.
SEGMENTS = 12
#: Most held-out values that are scored.
MOST_SCORED = 8000
#: Share of the points held out at all times, where points without values are to be filled.
POINT_SHARE = 0.1


def gap_task(observed: Array, points: Array, seed: int = 0, *, whole_points: bool = False) -> Task:
    """Values to hold out, some of which are scored where they are many.

    Args:
        observed: where there are values, (P, T, M).
        points: where the M points are, (M, d), in equal units of length.
        seed: of the choice.
        whole_points: hold out all values of some points as well.
    """
    rng = np.random.default_rng(seed)
    ever_observed = np.asarray(observed.any((0, 1)))
    missing = ever_observed & ~observed
    held = _hold_under(_shifted_gaps(missing, observed, rng), observed, points, rng)
    if held.sum() < min(LEAST_SHARE * observed.sum(), ENOUGH_HELD_OUT):
        held = _hold_under(
            _drifting_discs(observed.shape, points, ever_observed, rng), observed, points, rng
        )
    if whole_points and ever_observed.sum() > 4:
        observed_points = np.flatnonzero(ever_observed)
        chosen = rng.choice(
            observed_points, max(1, round(POINT_SHARE * len(observed_points))), replace=False
        )
        held[..., chosen] = observed[..., chosen]
    scored = np.zeros(held.size, dtype=bool)
    scored[np.random.default_rng(seed).permutation(np.flatnonzero(held))[:MOST_SCORED]] = True
    return Task(observed & ~held, scored.reshape(held.shape))


def _hold_under(pattern: Array, observed: Array, points: Array, rng: np.random.Generator) -> Array:
    """Observed values under a pattern, not too many of any row or point."""
    held = _thin_segments(_limit_rows(observed & pattern, observed, points, rng), observed, rng)
    return held & ~_nearly_emptied_points(observed, held)


def _shifted_gaps(missing: Array, observed: Array, rng: np.random.Generator) -> Array:
    """Gaps of other times, more than once where gaps are few."""
    pattern = _shift_gaps(missing, rng)
    for _ in range(COPIES - 1):
        is_enough = (pattern & observed).sum() >= 2 * LEAST_SHARE * observed.sum()
        if is_enough or pattern.mean((0, 1)).max() > MOST_OF_POINT:
            break
        pattern |= _shift_gaps(missing, rng)
    return pattern


def _shift_gaps(missing: Array, rng: np.random.Generator) -> Array:
    """Gaps of other times; with a single time, of another path."""
    n_paths, n_times = missing.shape[:2]
    if n_times > 1:
        least = max(1, n_times // 10)
        shift = int(rng.integers(least, max(n_times - least, least) + 1))
        missing = np.roll(missing, shift, axis=1)
    return np.roll(missing, int(rng.integers(n_paths)), axis=0)


def _drifting_discs(
    shape: tuple[int, ...], points: Array, ever_observed: Array, rng: np.random.Generator
) -> Array:
    """The points around a centre that drifts from point to neighbour, a third of them in turn."""
    n_paths, n_times, _ = shape
    observed_points = np.flatnonzero(ever_observed)
    tree = scipy.spatial.KDTree(points[observed_points])
    near = tree.query(points[observed_points], k=min(6, len(observed_points)))[1].reshape(
        len(observed_points), -1
    )
    size = max(1, len(observed_points) // 3)
    out = np.zeros(shape, dtype=bool)
    for path in range(n_paths):
        centre = int(rng.integers(len(observed_points)))
        for t in range(n_times):
            around = tree.query(points[observed_points[centre]], k=size)[1]
            out[path, t, observed_points[np.atleast_1d(around)]] = True
            centre = int(rng.choice(near[centre]))
    return out


def _limit_rows(held: Array, observed: Array, points: Array, rng: np.random.Generator) -> Array:
    """No row loses most of its values: of a larger cloud the part around one point remains."""
    counts, most = held.sum(-1), np.floor(MOST_OF_ROW * observed.sum(-1)).astype(int)
    for p, t in np.argwhere(counts > most):
        held_points = np.flatnonzero(held[p, t])
        distance = ((points[held_points] - points[rng.choice(held_points)]) ** 2).sum(-1)
        held[p, t, held_points[np.argsort(distance, kind="stable")[most[p, t] :]]] = False
    return held


def _thin_segments(held: Array, observed: Array, rng: np.random.Generator) -> Array:
    """Whole segments of the record, until they hold about `HELD_OUT_SHARE` of its values."""
    n_paths, n_times = held.shape[:2]
    segments = np.minimum(np.arange(n_times) * SEGMENTS // max(n_times, 1), SEGMENTS - 1)
    target_count, kept = HELD_OUT_SHARE * observed.sum(), np.zeros_like(held)
    for which in rng.permutation(n_paths * SEGMENTS):
        if kept.sum() >= target_count:
            break
        path, segment = divmod(int(which), SEGMENTS)
        kept[path, segments == segment] = held[path, segments == segment]
    return kept


def _nearly_emptied_points(observed: Array, held: Array) -> Array:
    """Held-out values of points that would keep fewer than two."""
    return held & ((observed & ~held).sum((0, 1)) < 2)


# ---------- Predictions of missing values: mean, residual and a calibrated deviation
#
#     mean = law + z,    variance of a value = a s^2 + c (p + w),    of the field = a s^2 + c p,
#
# with the deviation s of the law, the residual z with the variance p that other values leave, and
# the noise w of single values (`spdelaw.law.residuals`). The factors a and c are those under which
# held-out values are likeliest.


#: Fewest held-out values to estimate the factors from; with fewer they stay 1.
FEWEST_HELD_OUT = 30
#: Factors a and c.
Factors = tuple[float, float]


class Moments(NamedTuple):
    """Mean and parts of the variance at all values, (P, T, M): of modes, residual and noise."""

    mean: Array
    state: Array
    residual: Array | float = 0.0
    noise: Array | float = 0.0

    @classmethod
    def of(cls, law: Law, observed: Observed) -> Moments:
        """Moments of the law alone, given the data."""
        fields = law_fields(law, observed)
        return cls(fields["mean"].values, fields["std_field"].values ** 2)

    def with_residual(self, residual: Residual, values: Array, grid: Grid, at: Array) -> Moments:
        """The same with the residual and its noise, at selected values.

        Where a value is observed, an error of the law is one of the residual with the other sign,
        up to the weight p/w of the value: their sum has ``(1 - p/w)^2`` of the law's variance.
        """
        at = at & np.isfinite(self.mean)
        z, p, _ = residual.predict(values - self.mean, grid, at)
        noise = np.broadcast_to(residual.white, values.shape)
        weight = np.minimum(np.divide(p, noise, out=np.ones(values.shape), where=noise > 0), 1.0)
        state = np.where(at & np.isfinite(values), (1.0 - weight) ** 2 * self.state, self.state)
        return Moments(self.mean + np.where(at, z, 0.0), state, p, noise)

    def std(self, factors: Factors) -> Array:
        """Of a value: ``(a s^2 + c (p + w))^1/2``."""
        return np.sqrt(factors[0] * self.state + factors[1] * (self.residual + self.noise))

    def std_field(self, factors: Factors) -> Array:
        """Of the field without noise."""
        return np.sqrt(factors[0] * self.state + factors[1] * self.residual)

    def calibrated(self, truth: Array) -> Factors:
        """Factors a and c under which the held-out values are likeliest."""
        held = np.isfinite(truth) & np.isfinite(self.mean)
        if held.sum() < FEWEST_HELD_OUT:
            return 1.0, 1.0
        square = (truth - self.mean)[held] ** 2
        state, residual = self.state[held], np.asarray(self.residual + self.noise)[held]

        def loss(logs: Array) -> float:
            variance = np.exp(logs[0]) * state + np.exp(logs[1]) * residual
            return float(np.mean(np.log(variance) + square / variance))

        start = np.log(max(square.mean() / max((state + residual).mean(), 1e-300), 1e-12))
        limits = [(start - 7.0, start + 7.0)] * 2
        optimum = scipy.optimize.minimize(loss, [start, start], bounds=limits, method="L-BFGS-B").x
        return float(np.exp(optimum[0])), float(np.exp(optimum[1]))


# ---------- Choice of the law by its predictions of held-out values


#: Least relative gain for which a track is climbed on, and steps without it that end the track.
GAIN, PATIENCE = 0.003, 2
#: Modes from which on a law costs so much that it is tried only right after a gain.
COSTLY_MODES = 64
#: How much longer a fit takes, by a power of its modes, and at least how many seconds.
COST_POWER = 2.0
#: The residual that all points share, and how many of the best laws are tried with it.
SHARED, SHARED_TRIALS = "shared", 2
#: Spans of time that give the standard error of a difference, and how many of these are clear.
SPANS, CLEAR_STANDARD_ERRORS = 10, 1.0
#: Largest CRPS of a first trial with a shared residual, relative to the best, to go on with it.
SHARED_MARGIN = 1.05


class Trial(NamedTuple):
    """Scores of a candidate on the held-out values, by time; None where it could not be tried."""

    candidate: Candidate
    residual_kind: str
    table: ScoreTable | None = None
    seconds: float = 0.0
    note: str = ""
    residual: Residual = White()
    factors: Factors = (1.0, 1.0)

    @property
    def name(self) -> str:
        """Modes, drift and residual as text."""
        return f"{self.candidate}, residual {self.residual_kind}"

    @property
    def scores(self) -> list[float]:
        """RMSE, CRPS, log score and coverages."""
        n_scores = 3 + len(LEVELS)
        return [np.nan] * n_scores if self.table is None else self.table.means()[0].tolist()

    @property
    def rmse(self) -> float:
        """Root mean square error."""
        return self.scores[0]

    @property
    def crps(self) -> float:
        """Mean continuous ranked probability score."""
        return self.scores[1]

    @property
    def coverage(self) -> tuple[float, ...]:
        """Share of values inside their intervals, by level."""
        return tuple(self.scores[3:])


class Record(NamedTuple):
    """A record with some values held out.

    Attributes:
        observed: in the units of the data, without the held-out values.
        truth: held-out values to judge by, NaN elsewhere; (P, T, M).
        grid: where and when.
    """

    observed: Observed
    truth: Array
    grid: Grid

    @property
    def values(self) -> Array:
        """Observed values that are not held out, (P, T, M)."""
        return self.observed.fields.values


def grid_of(observed: Observed) -> Grid:
    """Times of each path and positions of each point, on a sphere as points in space."""
    points = in_space(observed.points, observed.domain.dims)
    times = np.broadcast_to(
        observed.fields[observed.clock].values, observed.fields.shape[:2]
    ).astype(float)
    return Grid(np.nan_to_num(times), points)


def make_record(observed: Observed, task: Task, grid: Grid) -> Record:
    """The record that a task gives, and the values that it scores."""
    truth = np.where(task.scored, observed.fields.values, np.nan)
    return Record(observed.masked(task.given), truth, grid)


def choose(
    record: Record,
    data: Observed,
    recipe: Recipe,
    tracks: list[list[Candidate]],
    kinds: tuple[str, ...],
    seconds: float | None,
    progress: Callable[[str], Any] | None = None,
) -> list[Trial]:
    """All trials, the one to take first (`ranked`); what there was no time for comes last.

    ``data`` are those of the record, prepared.
    A residual that all points share is learned for the best laws alone, and for the smallest one.
    """
    start, all_trials, rough = time.perf_counter(), list[Trial](), None
    laws: dict[Candidate, Law] = {}
    try_shared = len(kinds) > 1 and SHARED in kinds
    kinds = tuple(kind for kind in kinds if not (try_shared and kind == SHARED))
    best_rough = np.inf
    for track in tracks:
        last: Trial | None = None
        misses, least = 0, np.inf
        for candidate in track:
            if misses and candidate.n_modes >= COSTLY_MODES:
                break
            seconds_left = None if seconds is None else seconds - (time.perf_counter() - start)
            if (
                seconds_left is not None
                and all_trials
                and _expected_seconds(last, candidate) > seconds_left
            ):
                all_trials.append(
                    Trial(candidate, kinds[0], note=("not tried: exceeds the time limit"))
                )
                break
            if progress is not None:
                progress(str(candidate))
            trials, law = _try_candidate(
                record, data, recipe, candidate, kinds, rough, _best_kernel(all_trials)
            )
            all_trials += trials
            if law is not None:
                laws[candidate] = law
            best = min(trials, key=_crps_or_infinity)
            if law is not None and candidate.basis == "domain" and best.crps < best_rough:
                rough, best_rough = law, best.crps
            misses = 0 if best.crps < (1 - GAIN) * least else misses + 1
            if misses == PATIENCE:
                break
            last, least = best, min(least, _crps_or_infinity(best))
    if try_shared and can_learn_covariance(np.isfinite(record.values)):
        all_trials += _try_shared(
            record, laws, sorted(all_trials, key=_crps_or_infinity), start, seconds
        )
    return ranked(all_trials)


def ranked(trials: list[Trial]) -> list[Trial]:
    """The fewest modes that are not clearly worse than the best first, then all by their CRPS."""
    ordered = sorted(trials, key=_crps_or_infinity)
    close = [trial for trial in ordered if not _clearly_worse(trial, ordered[0])]
    first = min(close, key=lambda trial: trial.candidate.n_modes)  # the best of as many
    return [first, *(trial for trial in ordered if trial is not first)]


def _clearly_worse(trial: Trial, best: Trial) -> bool:
    """Whether the CRPS differ by more than one standard error, counted by spans of time."""
    if trial is best or trial.table is None or best.table is None or np.isnan(trial.crps):
        return trial is not best
    spans = [
        [span.sum() for span in np.array_split(table.sums[:, 0, 1], SPANS)]
        for table in (trial.table, best.table)
    ]
    table = ScoreTable(("crps",), np.transpose(spans)[..., None], np.ones(SPANS))
    return table.is_clearly_worse(0, 1, "crps", CLEAR_STANDARD_ERRORS)


def _try_shared(
    record: Record, laws: dict[Candidate, Law], ranked: list[Trial], start: float,
    seconds: float | None,
) -> list[Trial]:  # fmt: skip
    """Trials of the smallest law and of the best ones with a residual that all points share.

    The smallest law is tried first with the usual weight: where its score is much worse than that
    of the best trial so far, no weight is chosen.
    """
    ordered = list(dict.fromkeys(t.candidate for t in ranked if t.candidate in laws))
    if not ordered:
        return []

    def tried(candidate: Candidate, weight: float | None) -> Trial:
        begun = time.perf_counter()
        moments = Moments.of(laws[candidate], record.observed)
        trial = _score_trial(moments, record, candidate, SHARED, None, weight)
        return trial._replace(seconds=time.perf_counter() - begun)

    smallest = min(ordered, key=lambda c: c.n_modes)
    first = tried(smallest, USUAL_WEIGHT)
    if not first.crps <= SHARED_MARGIN * _crps_or_infinity(ranked[0]):
        return [first]
    out, weight = list[Trial](), None
    for candidate in dict.fromkeys([smallest, *ordered[:SHARED_TRIALS]]):
        if out and seconds is not None and time.perf_counter() - start > seconds:
            break
        out.append(tried(candidate, weight))
        residual = out[0].residual
        weight = residual.weight if isinstance(residual, Covariance) else None
    return out


def _crps_or_infinity(trial: Trial) -> float:
    return trial.crps if np.isfinite(trial.crps) else np.inf


def _expected_seconds(last: Trial | None, candidate: Candidate) -> float:
    """Seconds that a candidate will take, from the one before it."""
    if last is None:
        return 0.0
    return last.seconds * (candidate.n_modes / last.candidate.n_modes) ** COST_POWER


def _try_candidate(
    record: Record,
    data: Observed,
    recipe: Recipe,
    candidate: Candidate,
    kinds: tuple[str, ...],
    rough: Law | None,
    kernel: Kernel | None,
) -> tuple[list[Trial], Law | None]:
    """Scores of a candidate with each model of the residual, and its law."""
    start = time.perf_counter()
    try:
        law = learn(data, recipe, candidate, rough)
        moments = Moments.of(law, record.observed)
        trials = [_score_trial(moments, record, candidate, kind, kernel) for kind in kinds]
    except (SpdeLawError, np.linalg.LinAlgError) as error:
        spent, why = time.perf_counter() - start, f"failed: {str(error).splitlines()[0]}"
        return [Trial(candidate, kinds[0], seconds=spent, note=why)], None
    spent = time.perf_counter() - start
    return [trial._replace(seconds=spent) for trial in trials], law


def _best_kernel(trials: list[Trial]) -> Kernel | None:
    """The kernel with the best score so far: residuals of other laws are similar."""
    kernels = [
        (_crps_or_infinity(trial), trial.residual.kernel)
        for trial in trials
        if isinstance(trial.residual, Kriged)
    ]
    return min(kernels, key=lambda pair: pair[0])[1] if kernels else None


def _score_trial(
    moments: Moments,
    record: Record,
    candidate: Candidate,
    kind: str,
    start: Kernel | None,
    weight: float | None = None,
) -> Trial:
    residuals, held_out = record.values - moments.mean, record.truth - moments.mean
    residual: Residual = White.fit(residuals)
    if kind == "local":
        residual = Kriged.fit(residuals, record.grid, held_out, start)
    elif kind == SHARED:
        residual = (
            Covariance.choose(residuals, record.grid, held_out)
            if weight is None
            else Covariance.fit(residuals, record.grid, weight)
        )
    held = np.isfinite(record.truth)
    moments = moments.with_residual(residual, record.values, record.grid, held)
    std = np.full(held.shape, np.nan)
    for mine, others in _split_by_time(record.truth):
        factors = moments.calibrated(np.where(others, record.truth, np.nan))
        std[mine] = moments.std(factors)[mine]
    truth = np.where(np.isfinite(moments.mean), record.truth, np.nan)
    times = np.arange(held.shape[1])[:, None]
    table = ScoreTable.of([Prediction(moments.mean, std)], truth, times, len(times))
    factors = moments.calibrated(record.truth)
    return Trial(candidate, kind, table, residual=residual, factors=factors)


def _split_by_time(truth: Array) -> list[tuple[Array, Array]]:
    """Held-out values of the first half of the times, and of the second: one judges the other."""
    held = np.isfinite(truth)
    per_time = np.cumsum(held.sum((0, 2)))
    first = (per_time <= per_time[-1] / 2)[None, :, None]
    return [(held & first, held & ~first), (held & ~first, held & first)]
