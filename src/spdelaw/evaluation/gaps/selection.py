"""Which law fills gaps best: cross-validation on values held out in the patterns of gaps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.errors import SpdeLawError
from spdelaw.evaluation.gaps.prediction import (
    Candidate,
    Grid,
    Moments,
    Recipe,
    Settings,
    calibrated,
    choose_weight,
    in_space,
    kernel_for,
    law_moments,
    learn,
    ready,
    with_residual,
)
from spdelaw.evaluation.gaps.residuals import USUAL, Kernel, affordable
from spdelaw.evaluation.tasks import coverage, gaussian_crps
from spdelaw.law.law import Law

# ---------- Clouds to learn from: values held out where and when gaps could have been
#
# The gaps of a record, moved along in time (around its end), lie over other values, more than once
# where they are few: clouds keep their shape and outages their length. A record without gaps gets
# drifting discs instead. What is held out is never seen by what is judged with it.


Array = np.ndarray

#: Share of the observed values that is held out, and of those of a single row at most.
SHARE, OF_ROW = 0.15, 0.5
#: Share of the observed values below which gaps that were moved held out too few.
TOO_FEW = 0.03
#: Most copies of the gaps that are laid over a record which has few.
COPIES = 5
#: Share of the values that are missing from which on the gaps themselves are the pattern.
ENOUGH_GAPS = 0.01
#: Parts of a record that are held out or kept as a whole, so that outages stay long.
PARTS = 12
#: Share of the points that are held out at all times, where unseen points are to be filled.
POINTS = 0.1


def hold_out(seen: Array, points: Array, seed: int = 0, *, whole_points: bool = False) -> Array:
    """Observed values to hold out; boolean, as ``seen``.

    Args:
        seen: where there are values, (P, T, M).
        points: where the M points are, (M, d), in units of length that are alike.
        seed: of the choice.
        whole_points: hold out all values of some points as well.
    """
    rng = np.random.default_rng(seed)
    ever = np.asarray(seen.any((0, 1)))
    missing = ever & ~seen
    gaps = missing.sum() >= ENOUGH_GAPS * max(seen[..., ever].size, 1)
    held = np.zeros_like(seen)
    if gaps:
        held = _laid_over(_copies(missing, seen, rng), seen, points, rng)
    if held.sum() < TOO_FEW * seen.sum():
        held = _laid_over(_discs(seen.shape, points, ever, rng), seen, points, rng)
    if whole_points and ever.sum() > 4:
        known = np.flatnonzero(ever)
        chosen = rng.choice(known, max(1, round(POINTS * len(known))), replace=False)
        held[..., chosen] = seen[..., chosen]
    return held


def _laid_over(pattern: Array, seen: Array, points: Array, rng: np.random.Generator) -> Array:
    """Observed values under a pattern, not too many of any row or point."""
    held = _thinned(_at_most_half(seen & pattern, seen, points, rng), seen, rng)
    return held & ~_last_ones(seen, held)


def _copies(missing: Array, seen: Array, rng: np.random.Generator) -> Array:
    """Gaps of other times, more than once where gaps are few."""
    pattern = _moved(missing, rng)
    for _ in range(COPIES - 1):
        if (pattern & seen).sum() >= 2 * TOO_FEW * seen.sum():
            break
        pattern |= _moved(missing, rng)
    return pattern


def _moved(missing: Array, rng: np.random.Generator) -> Array:
    """Gaps of other times; with a single time, of another path."""
    n_paths, n_times = missing.shape[:2]
    if n_times > 1:
        least = max(1, n_times // 10)
        shift = int(rng.integers(least, max(n_times - least, least) + 1))
        missing = np.roll(missing, shift, axis=1)
    return np.roll(missing, int(rng.integers(n_paths)), axis=0)


def _discs(shape: tuple[int, ...], points: Array, ever: Array, rng: np.random.Generator) -> Array:
    """The points around a place that drifts from point to neighbour, a third of them in turn."""
    n_paths, n_times, _ = shape
    known = np.flatnonzero(ever)
    tree = scipy.spatial.KDTree(points[known])
    near = tree.query(points[known], k=min(6, len(known)))[1].reshape(len(known), -1)
    size = max(1, len(known) // 3)
    out = np.zeros(shape, dtype=bool)
    for path in range(n_paths):
        at = int(rng.integers(len(known)))
        for t in range(n_times):
            around = tree.query(points[known[at]], k=size)[1]
            out[path, t, known[np.atleast_1d(around)]] = True
            at = int(rng.choice(near[at]))
    return out


def _at_most_half(held: Array, seen: Array, points: Array, rng: np.random.Generator) -> Array:
    """No row loses most of its values: of a larger cloud the part around one point remains."""
    counts, most = held.sum(-1), np.floor(OF_ROW * seen.sum(-1)).astype(int)
    for p, t in np.argwhere(counts > most):
        at = np.flatnonzero(held[p, t])
        distance = ((points[at] - points[rng.choice(at)]) ** 2).sum(-1)
        held[p, t, at[np.argsort(distance, kind="stable")[most[p, t] :]]] = False
    return held


def _thinned(held: Array, seen: Array, rng: np.random.Generator) -> Array:
    """Whole parts of the record, until they hold about the share that is wanted."""
    n_paths, n_times = held.shape[:2]
    parts = np.minimum(np.arange(n_times) * PARTS // max(n_times, 1), PARTS - 1)
    wanted, kept = SHARE * seen.sum(), np.zeros_like(held)
    for which in rng.permutation(n_paths * PARTS):
        if kept.sum() >= wanted:
            break
        path, part = divmod(int(which), PARTS)
        kept[path, parts == part] = held[path, parts == part]
    return kept


def _last_ones(seen: Array, held: Array) -> Array:
    """Held-out values of points that would be left with fewer than two."""
    return held & ((seen & ~held).sum((0, 1)) < 2)


# ---------- Which law fills gaps best: candidates by what they say about held-out clouds


#: Levels of the intervals whose coverage is counted.
LEVELS = (0.5, 0.8, 0.95)
#: Held-out values that laws are judged by, at most.
JUDGED = 8000
#: Least relative gain for which a track is climbed on, and steps without it that end the track.
GAIN, PATIENCE = 0.003, 2
#: Modes from which on a law costs so much that it is tried only right after a gain.
MANY = 64
#: How much longer a fit takes, by a power of its modes, and at least how many seconds.
GROWTH = 2.0
#: The rest that all points share, and how many of the best laws are tried with it.
SHARED, BEST = "shared", 2
#: Spans of time whose scores say how sure a difference is, and standard errors that make it clear.
SPANS, CLEAR = 10, 1.0
#: How much larger the CRPS of a shared rest may be at first sight, to be looked at further.
HOPELESS = 1.05


class Trial(NamedTuple):
    """What a candidate made of the held-out values; NaN where it could not be tried."""

    candidate: Candidate
    rest: str
    rmse: float = np.nan
    crps: float = np.nan
    coverage: tuple[float, ...] = (np.nan,) * len(LEVELS)
    seconds: float = 0.0
    note: str = ""
    settings: Settings = Settings()
    by_time: Array = np.zeros(0)  # sums of the CRPS


class Record(NamedTuple):
    """A record with some values held out.

    Attributes:
        own: in the units of the data, without the held-out values.
        truth: held-out values to judge by, NaN elsewhere; (P, T, M).
        grid: where and when.
    """

    own: Observed
    truth: Array
    grid: Grid

    @property
    def values(self) -> Array:
        """What is seen, (P, T, M)."""
        return self.own.fields.values


def grid_of(own: Observed) -> Grid:
    """Times of each path and places of each point, on a sphere as points in space."""
    points = in_space(own.points, own.domain.dims)
    times = np.broadcast_to(own.fields[own.clock].values, own.fields.shape[:2]).astype(float)
    return Grid(np.nan_to_num(times), points)


def without(own: Observed, held: Array, grid: Grid, seed: int = 0) -> Record:
    """The record less its held-out values, some of which are judged by where they are many."""
    judged, at = np.zeros(held.size, dtype=bool), np.flatnonzero(held)
    judged[np.random.default_rng(seed).permutation(at)[:JUDGED]] = True
    truth = np.where(judged.reshape(held.shape), own.fields.values, np.nan)
    return Record(own.masked(~held), truth, grid)


def choose(
    record: Record,
    recipe: Recipe,
    tracks: list[list[Candidate]],
    rests: tuple[str, ...],
    seconds: float | None,
    progress: Callable[[str], Any] | None = None,
) -> list[Trial]:
    """All trials, the one to take first (`ranked`); what there was no time for comes last.

    A rest that all points share is learned for the best laws alone, and for the smallest one.
    """
    start, found, rough = time.perf_counter(), list[Trial](), None
    laws: dict[Candidate, Law] = {}
    later = len(rests) > 1 and SHARED in rests
    rests = tuple(rest for rest in rests if not (later and rest == SHARED))
    best_rough = np.inf
    data, strength = ready(record.own, recipe, record.truth)
    for track in tracks:
        last: Trial | None = None
        misses, least = 0, np.inf
        for candidate in track:
            if misses and candidate.n_modes >= MANY:
                break
            left = None if seconds is None else seconds - (time.perf_counter() - start)
            if left is not None and found and _expected(last, candidate) > left:
                found.append(Trial(candidate, rests[0], note="not tried: no time left"))
                break
            if progress is not None:
                progress(str(candidate))
            trials, law = _try(record, data, recipe, candidate, rests, rough, _kernel_of(found))
            found += trials
            if law is not None:
                laws[candidate] = law
            best = min(trials, key=_order)
            if law is not None and candidate.basis == "domain" and best.crps < best_rough:
                rough, best_rough = law, best.crps
            misses = 0 if best.crps < (1 - GAIN) * least else misses + 1
            if misses == PATIENCE:
                break
            last, least = best, min(least, _order(best))
    if later and affordable(np.isfinite(record.values)):
        found += _with_shared(record, laws, sorted(found, key=_order), start, seconds)
    found = [t._replace(settings=t.settings._replace(climate=strength)) for t in found]
    return ranked(found)


def ranked(found: list[Trial]) -> list[Trial]:
    """The fewest modes that are not clearly worse than the best first, then all by their CRPS."""
    ordered = sorted(found, key=_order)
    close = [trial for trial in ordered if not _clearly_worse(trial, ordered[0])]
    first = min(close, key=lambda trial: trial.candidate.n_modes)  # the best of as many
    return [first, *(trial for trial in ordered if trial is not first)]


def _clearly_worse(trial: Trial, best: Trial) -> bool:
    """Whether the scores differ by more than one standard error, counted by spans of time."""
    if trial is best or not np.isfinite(trial.crps):
        return trial is not best
    spans = np.array_split(trial.by_time - best.by_time, SPANS)
    gains = np.array([span.sum() for span in spans])
    return bool(gains.sum() > CLEAR * np.sqrt(len(gains)) * gains.std(ddof=1))


def _with_shared(
    record: Record, laws: dict[Candidate, Law], ranked: list[Trial], start: float,
    seconds: float | None,
) -> list[Trial]:  # fmt: skip
    """Trials of the smallest law and of the best ones with a rest that all points share.

    The smallest law is looked at first with the usual weight: where the rest does much worse than
    the best trial so far, no weight is chosen.
    """
    ordered = list(dict.fromkeys(t.candidate for t in ranked if t.candidate in laws))
    if not ordered:
        return []

    def tried(candidate: Candidate, weight: float | None) -> Trial:
        begun = time.perf_counter()
        told = law_moments(laws[candidate], record.own)
        trial = _scored(told, record, candidate, SHARED, None, weight)
        return trial._replace(seconds=time.perf_counter() - begun)

    smallest = min(ordered, key=lambda c: c.n_modes)
    look = tried(smallest, USUAL)
    if not look.crps <= HOPELESS * _order(ranked[0]):
        return [look]
    out: list[Trial] = []
    for candidate in dict.fromkeys([smallest, *ordered[:BEST]]):
        if out and seconds is not None and time.perf_counter() - start > seconds:
            break
        out.append(tried(candidate, out[0].settings.weight if out else None))
    return out


def _order(trial: Trial) -> float:
    return trial.crps if np.isfinite(trial.crps) else np.inf


def _expected(last: Trial | None, candidate: Candidate) -> float:
    """Seconds that a candidate will take, from the one before it."""
    if last is None:
        return 0.0
    return last.seconds * (candidate.n_modes / last.candidate.n_modes) ** GROWTH


def _try(
    record: Record,
    data: Observed,
    recipe: Recipe,
    candidate: Candidate,
    rests: tuple[str, ...],
    rough: Law | None,
    kernel: Kernel | None,
) -> tuple[list[Trial], Law | None]:
    """Scores of a candidate with each way to treat the rest, and its law."""
    start = time.perf_counter()
    try:
        law = learn(data, recipe, candidate, rough)
        told = law_moments(law, record.own)
        trials = [_scored(told, record, candidate, rest, kernel) for rest in rests]
    except (SpdeLawError, np.linalg.LinAlgError) as error:
        spent, why = time.perf_counter() - start, f"failed: {str(error).splitlines()[0]}"
        return [Trial(candidate, rests[0], seconds=spent, note=why)], None
    spent = time.perf_counter() - start
    return [trial._replace(seconds=spent) for trial in trials], law


def _kernel_of(trials: list[Trial]) -> Kernel | None:
    """The kernel that served best so far: other laws leave a rest much like it."""
    with_one = [trial for trial in trials if trial.settings.kernel is not None]
    return min(with_one, key=_order).settings.kernel if with_one else None


def _scored(
    moments: Moments,
    record: Record,
    candidate: Candidate,
    rest: str,
    start: Kernel | None,
    weight: float | None = None,
) -> Trial:
    settings = Settings()
    if rest == "local":
        kernel = kernel_for(moments, record.values, record.grid, record.truth, start)
        settings = settings._replace(kernel=kernel)
    elif rest == SHARED:
        weight = weight or choose_weight(moments, record.values, record.grid, record.truth)
        settings = settings._replace(weight=weight)
    held = np.isfinite(record.truth)
    moments = with_residual(moments, record.values, record.grid, settings, held)
    deviation = np.full(record.truth.shape, np.nan)
    for mine, others in _halves(record.truth):
        part = calibrated(moments, np.where(others, record.truth, np.nan), settings)
        deviation[mine] = np.sqrt(moments.variance(part))[mine]
    truth = record.truth
    error = np.where(np.isfinite(moments.mean), moments.mean - truth, np.nan)
    crps = gaussian_crps(moments.mean, deviation, truth)
    return Trial(
        candidate,
        rest,
        rmse=float(np.sqrt(np.nanmean(error**2))),
        crps=float(np.nanmean(crps)),
        coverage=tuple(coverage(moments.mean, deviation, truth, q) for q in LEVELS),
        settings=calibrated(moments, truth, settings),
        by_time=np.nansum(crps, axis=(0, 2)),
    )


def _halves(truth: Array) -> list[tuple[Array, Array]]:
    """Held-out values of the first half of the times, and of the second: one judges the other."""
    held = np.isfinite(truth)
    per_time = np.cumsum(held.sum((0, 2)))
    first = (per_time <= per_time[-1] / 2)[None, :, None]
    return [(held & first, held & ~first), (held & ~first, held & first)]
