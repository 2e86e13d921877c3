"""Scores of predictions: of single values, summed by unit, with one bootstrap for differences.

A task says what is given and what is scored (`evaluation.tasks`). Predictors, a law or a rival,
predict what is scored from what is given. `ScoreTable.of` scores all of them on the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

Array = np.ndarray

#: Stretches of time that a record of few paths is cut into, and paths from which these are units.
STRETCHES, ENOUGH_PATHS = 20, 20
#: Levels of the intervals whose coverage is counted, in percent.
LEVELS = (50, 80, 95)
#: Name of the mean square error, whose root is shown, and of the log density: larger is better.
RMSE, LOG_DENSITY = "rmse", "log score"


#: Scores of a forecast as a whole, where a climatology is known (`ForecastSums`): correlation of
#: forecast and observed anomalies, and unevenness of the rank histogram, 0 where it is flat.
OF_FORECASTS = ("anomaly_correlation", "reliability_index")
#: Bins of the rank histogram.
RANK_BINS = 10


def score_names(levels: tuple[float, ...] = LEVELS) -> tuple[str, ...]:
    """Names of `value_scores`."""
    return (RMSE, "crps", "log_score", *(f"coverage_{level:g}" for level in levels))


def value_scores(
    mean: Array, std: Array, truth: Array, levels: tuple[float, ...] = LEVELS
) -> Array:
    """Scores of ``N(mean, std^2)`` at each value, (score, n), named by `score_names`.

    Squared error; continuous ranked probability score; ``-log`` density in nats; and for each
    level whether the central interval of so many percent holds the value.
    """
    error, least = mean - truth, np.maximum(std, 1e-300)
    with np.errstate(over="ignore"):
        z = error / least
        minus_log = 0.5 * z**2 + np.log(least) + 0.5 * np.log(2 * np.pi)
    inside = [np.abs(z) <= scipy.special.ndtri(0.5 + level / 200) for level in levels]
    return np.stack([error**2, gaussian_crps(mean, std, truth), minus_log, *inside])


def gaussian_crps(mean: Array, std: Array, truth: Array) -> Array:
    """Continuous ranked probability score of ``N(mean, std^2)``, in the unit of the field.

    ``s [ z (2 F(z) - 1) + 2 f(z) - 1/sqrt(pi) ]`` with ``z = (x - m)/s``; ``|x - m|`` for s = 0.
    """
    certain = std <= 0
    s = np.where(certain, 1.0, std)
    z = (truth - mean) / s
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    score = s * (z * (2 * scipy.special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return np.where(certain, np.abs(truth - mean), score)


class Prediction(NamedTuple):
    """Mean and standard deviation of values, noise included, by a law or a rival.

    ``std_field`` is that of the field without noise, which rivals do not separate from noise.
    """

    mean: Array
    std: Array
    std_field: Array | float = np.nan


class ScoreTable(NamedTuple):
    """Scores of several predictors on the same values, as sums by unit.

    A unit is what a bootstrap draws as a whole: a path, a stretch of time or a forecast origin.
    All predictors share the draws, so that intervals of differences are those of pairs.

    Attributes:
        scores: names; `RMSE` stands for squared errors.
        sums: (unit, predictor, score).
        counts: values behind the sums, (unit,).
        forecast_sums: what `OF_FORECASTS` are made of, (unit, predictor, 3 + RANK_BINS), where they
            are among the scores: products of anomalies, and values in each bin of the ranks.
    """

    scores: tuple[str, ...]
    sums: Array
    counts: Array
    forecast_sums: Array | None = None

    @classmethod
    def of(
        cls,
        predictions: Sequence[Prediction],
        truth: Array,
        units: Array,
        n_units: int,
        levels: tuple[float, ...] = LEVELS,
        climatology: Array | None = None,
    ) -> ScoreTable:
        """Scores of predictions at all values that are scored.

        Args:
            predictions: of each predictor, in the shape of ``truth``.
            truth: values to score, NaN elsewhere.
            units: unit of each value, of a shape that broadcasts to that of ``truth``.
            n_units: number of units.
            levels: of the intervals whose coverage is counted, in percent.
            climatology: mean of each value, for `OF_FORECASTS`.
        """
        scored = np.isfinite(truth)
        at, values = np.broadcast_to(units, truth.shape)[scored], truth[scored]
        moments = [(one.mean[scored], one.std[scored]) for one in predictions]

        def summed(rows: list[Array]) -> Array:
            """(predictor, score, value) as sums (unit, predictor, score)."""
            sums = [[np.bincount(at, score, n_units) for score in one] for one in rows]
            return np.moveaxis(np.array(sums), -1, 0)

        sums = summed([value_scores(*pair, values, levels) for pair in moments])
        counts = np.bincount(at, minlength=n_units).astype(float)
        if climatology is None:
            return cls(score_names(levels), sums, counts)
        normal = np.broadcast_to(climatology, truth.shape)[scored]
        more = summed([_forecast_parts(*pair, values, normal) for pair in moments])
        return cls((*score_names(levels), *OF_FORECASTS), sums, counts, more)

    @classmethod
    def added(cls, tables: Sequence[ScoreTable]) -> ScoreTable:
        """One table of the same units from several sets of values."""
        sums, counts = np.sum([t.sums for t in tables], 0), np.sum([t.counts for t in tables], 0)
        return cls(tables[0].scores, sums, counts)

    def means(self, weights: Array | None = None) -> Array:
        """Mean scores (..., predictor, score) of units with weights (..., unit), 1 by default."""
        weights = np.ones(len(self.counts)) if weights is None else weights
        total = np.asarray(weights @ self.counts, float)
        total = np.where(total > 0, total, np.nan)
        mean = np.tensordot(weights, self.sums, 1) / total[..., None, None]
        squares = [name == RMSE for name in self.scores[: mean.shape[-1]]]
        mean[..., squares] = np.sqrt(mean[..., squares])
        if self.forecast_sums is None:
            return mean
        sums = np.tensordot(weights, self.forecast_sums, 1)
        product, forecast, observed = np.moveaxis(sums[..., :3], -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = product / np.sqrt(forecast * observed)
        uneven = np.abs(sums[..., 3:] / total[..., None, None] - 1.0 / RANK_BINS).sum(-1)
        return np.concatenate([mean, correlation[..., None], uneven[..., None]], axis=-1)

    def draws(self, replicates: int, seed: int, length: int = 1) -> Array:
        """`means` of bootstrap replicates, which draw blocks of neighbouring units."""
        usable = np.flatnonzero(self.counts > 0)
        weights = np.zeros((replicates, len(self.counts)))
        if len(usable):
            rows = usable[block_bootstrap(len(usable), length, replicates, seed)]
            np.add.at(weights, (np.arange(replicates)[:, None], rows), 1.0)
        return self.means(weights)

    def differences(self, level: float, replicates: int, seed: int) -> Array:
        """Each predictor less the best by a score, with an interval; (predictor, score, 3)."""
        means = self.means()
        sign = np.array([-1.0 if name == LOG_DENSITY else 1.0 for name in self.scores])
        best = (np.argmin(sign * means, axis=0), np.arange(len(self.scores)))
        draws = self.draws(replicates, seed)
        ends = interval(draws - draws[:, *best][:, None], level)
        return np.stack([means - means[best], *ends], axis=-1)

    def is_clearly_worse(self, predictor: int, other: int, score: str, margin: float) -> bool:
        """Whether a predictor's sum exceeds another's by a margin in standard errors over units."""
        sums = self.sums[..., self.scores.index(score)]
        gaps = sums[:, predictor] - sums[:, other]
        return bool(gaps.sum() > margin * np.sqrt(len(gaps)) * gaps.std(ddof=1))


def _forecast_parts(mean: Array, std: Array, truth: Array, normal: Array) -> Array:
    """Products of anomalies, and the bin of each value's rank in its forecast; (3 + bins, n)."""
    forecast, observed = mean - normal, truth - normal
    rank = scipy.special.ndtr((truth - mean) / np.maximum(std, 1e-300))
    bins = np.minimum((RANK_BINS * rank).astype(int), RANK_BINS - 1)
    in_bin = bins == np.arange(RANK_BINS)[:, None]
    return np.vstack([forecast * observed, forecast**2, observed**2, in_bin])


def skill_of(means: Array) -> Array:
    """``1 - MSE(first) / MSE(predictor)`` from `ScoreTable.means`, RMSE first; (..., predictor)."""
    rmse = means[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1.0 - (rmse[..., :1] / rmse) ** 2


def interval(draws: Array, level: float) -> Array:
    """Lower and upper end of the central interval of replicates (replicate, ...); (2, ...)."""
    return np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)


def block_bootstrap(n: int, length: int, replicates: int, seed: int) -> Array:
    """Units of each replicate: blocks of neighbours with replacement; (replicates, n)."""
    length = max(1, min(length, n))
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n - length + 1, (replicates, -(-n // length)))
    return (starts[..., None] + np.arange(length)).reshape(replicates, -1)[:, :n]


def units_of(n_paths: int, n_times: int, shortest: int = 2) -> Array:
    """Unit of each path and time, (P, T); stretches of a path have ``shortest`` times at least."""
    if n_paths >= ENOUGH_PATHS:
        return np.broadcast_to(np.arange(n_paths)[:, None], (n_paths, n_times))
    cuts = max(1, min(STRETCHES, n_times // shortest))
    stretch = np.minimum(np.arange(n_times) * cuts // n_times, cuts - 1)
    return np.arange(n_paths)[:, None] * cuts + stretch


# ---------- Tables as text and as plain data


def aligned(rows: list[list[str]]) -> list[str]:
    """Lines of a table: the first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def to_plain(value: Any) -> Any:
    """Plain types for JSON; numbers that do not exist are None."""
    if isinstance(value, dict):
        return {str(key): to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value
