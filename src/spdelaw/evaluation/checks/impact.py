"""Whether a departure matters: bands on held-out values, and skill against the best rival.

A test finds small departures in long data. What a user needs is by how much predictions are off:

- the shares of held-out values inside the 50, 80 and 95 % bands of the law;
- the loss of log score against the best rival, in nats per value.

Rivals are given what the law is given (`spdelaw.evaluation.rivals`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy

from spdelaw.evaluation.rivals import TASK_RIVALS
from spdelaw.evaluation.scores import LEVELS, ScoreTable

Array = np.ndarray

#: Tasks in which rivals are given enough to predict.
TASKS_WITH_RIVALS = ("forecast", "gaps")
#: Predictions hold with deviations that are off by a factor of 1.2 at most: 95 % bands
#: then hold 90-98 %, at a loss of 0.03 to 0.04 nats per value
#: (``(s^2 - 1) / 2 - log s``), and with as little behind the best rival. Both beyond what chance
#: does: half a 95 % interval over paths or stretches of time.
STD_TOLERANCE, NATS_TOLERANCE = 1.2, 0.05
#: Levels that are judged. Shares of narrower bands depend on the shape of a distribution: between
#: two wells few values are near their mean.
JUDGED = slice(2, None)
#: Error relative to that of the best rival that is rounding.
EXACT = 1e-6
#: Fewest units with an error; less of it in a share, and in nats, is indistinguishable from chance.
FEWEST_UNITS, UNKNOWN_ERROR = 4, 0.3


class Impact(NamedTuple):
    """What a departure does to predictions of held-out values.

    Attributes:
        task: the task in which the bands are off most.
        coverage: shares inside the bands of `LEVELS` there.
        coverage_error: half of their 95 % intervals, from paths or stretches of time.
        nats_lost: log score behind the best rival, nats per value; negative where the law is ahead,
            NaN where no rival could be scored.
        rival: the best one.
        nats_error: half of the 95 % interval of ``nats_lost``.
    """

    task: str
    coverage: tuple[float, ...]
    coverage_error: tuple[float, ...]
    nats_lost: float
    rival: str
    nats_error: float = 0.0

    @property
    def predictions_hold(self) -> bool:
        """Whether bands hold what they say, and no rival is clearly better."""
        bands = _excess(np.array([self.coverage, self.coverage_error])) <= 0.0
        return bool(bands) and not self.nats_lost - self.nats_error > NATS_TOLERANCE

    def to_dict(self) -> dict[str, Any]:
        """Plain description for JSON."""
        return {**self._asdict(), "levels": LEVELS, "predictions_hold": self.predictions_hold}

    def __str__(self) -> str:
        """As text."""
        levels, shares = ("/".join(f"{x:.0f}" for x in row) for row in (LEVELS, self._percent))
        text = f"{levels} % bands hold {shares} % of held-out values"
        if not np.isfinite(self.nats_lost):
            return text
        side = "behind" if self.nats_lost > 0 else "ahead of"
        return f"{text}, {abs(self.nats_lost):.2g} nats per value {side} {self.rival}"

    @property
    def _percent(self) -> list[float]:
        return [100 * c for c in self.coverage]


def impact_of(tables: dict[str, ScoreTable]) -> Impact | None:
    """From the scores of each task: the law, and after it rivals; None where nothing is scored."""
    tables = {
        task: table for task, table in tables.items() if table.counts.any() and not _is_exact(table)
    }
    if not tables:
        return None
    bands = slice(3, 3 + len(LEVELS))
    coverage = {task: _mean(t.sums[:, 0, bands], t.counts) for task, t in tables.items()}
    worst = max(coverage, key=lambda task: _excess(coverage[task]))
    lost, error, rival = float("nan"), 0.0, ""
    for table in tables.values():
        behind, errors = _mean(table.sums[:, :1, 2] - table.sums[:, 1:, 2], table.counts)
        if len(behind) and not (behind - errors).max() <= lost - error:
            best = int((behind - errors).argmax())
            lost, error, rival = float(behind[best]), float(errors[best]), TASK_RIVALS[best]
    shares, half = coverage[worst].tolist()
    return Impact(worst, tuple(shares), tuple(half), lost, rival, error)


def _is_exact(table: ScoreTable) -> bool:
    """Whether the law predicts to rounding, as in gaps without noise: bands then hold all."""
    errors = table.means()[:, 0]
    return len(errors) > 1 and bool(errors[0] < EXACT * np.nanmin(errors[1:]))


def _mean(sums: Array, counts: Array) -> Array:
    """Means per value of sums (unit, k), and half of their 95 % intervals; (2, k).

    Successive units may be correlated, with the correlation r: ``(1 + r) / (1 - r)``.
    """
    kept = counts > 0
    sums, counts = sums[kept], counts[kept, None]
    mean, n = sums.sum(0) / counts.sum(), len(counts)
    if n < FEWEST_UNITS:
        return np.stack([mean, np.full(len(mean), UNKNOWN_ERROR)])
    off = sums - mean * counts
    square = np.maximum((off**2).sum(0), 1e-300)
    r = np.clip((off[1:] * off[:-1]).sum(0) / square, 0.0, 0.8)
    error = np.sqrt(n / (n - 1) * square * (1.0 + r) / (1.0 - r)) / counts.sum()
    return np.stack([mean, scipy.special.stdtrit(n - 1, 0.975) * error])


def _excess(coverage: Array) -> float:
    """By how much the worst share is off beyond what is tolerated and what chance does.

    Tolerated are the shares of deviations that are too small, or too large, by `STD_TOLERANCE`.
    """
    share, half = coverage[:, JUDGED]
    edges = scipy.special.ndtri(0.5 + np.array(LEVELS[JUDGED]) / 200)
    lowest, highest = (
        2.0 * scipy.special.ndtr(edges * s) - 1.0 for s in (1 / STD_TOLERANCE, STD_TOLERANCE)
    )
    return float(np.max(np.maximum(lowest - share, share - highest) - half))
