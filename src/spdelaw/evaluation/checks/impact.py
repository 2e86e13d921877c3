"""Whether a departure matters: bands on held-out values, and skill against the best rival.

A test finds small departures in long data. What a user needs is by how much predictions are off:

- the shares of held-out values inside the 50, 80 and 95 % bands of the law;
- the loss of log score against the best rival, in nats per value.

Rivals are given what the law is given (`spdelaw.evaluation.rivals`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.evaluation.rivals import TASK_RIVALS
from spdelaw.evaluation.scores import LEVELS, ScoreTable

Array = np.ndarray

#: Tasks in which rivals are given enough to predict.
TASKS_WITH_RIVALS = ("forecast", "gaps")
#: By how much the shares inside the bands of `LEVELS` may be off, beside two standard errors or as
#: much again, and nats per value behind the best rival, where predictions hold.
BAND_TOLERANCE, NATS_TOLERANCE = (0.10, 0.07, 0.03), 0.05
#: Error relative to that of the best rival that is rounding.
EXACT = 1e-6
#: Standard error of a share from too few paths or stretches of time to estimate it.
UNKNOWN_ERROR, FEWEST_UNITS = 0.05, 4


class Impact(NamedTuple):
    """What a departure does to predictions of held-out values.

    Attributes:
        task: the task in which the bands are off most.
        coverage: shares inside the bands of `LEVELS` there.
        coverage_error: their standard errors, from paths or stretches of time.
        nats_lost: log score behind the best rival, nats per value; negative where the law is ahead,
            NaN where no rival could be scored.
        rival: the best one.
    """

    task: str
    coverage: tuple[float, ...]
    coverage_error: tuple[float, ...]
    nats_lost: float
    rival: str

    @property
    def predictions_hold(self) -> bool:
        """Whether bands hold what they say, and no rival is clearly better."""
        bands = _excess(np.array([self.coverage, self.coverage_error])) <= 0.0
        return bool(bands) and not self.nats_lost > NATS_TOLERANCE

    def to_dict(self) -> dict[str, Any]:
        """Plain description for JSON."""
        return {**self._asdict(), "levels": LEVELS, "predictions_hold": self.predictions_hold}

    def __str__(self) -> str:
        """In words."""
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
    coverage = {task: _coverage(table) for task, table in tables.items()}
    worst = max(coverage, key=lambda task: _excess(coverage[task]))
    lost, rival = float("nan"), ""
    for table in tables.values():
        scores = table.means()[:, 2]
        behind = scores[0] - scores[1:]
        if len(behind) and not behind.max() <= lost:
            lost, rival = float(behind.max()), TASK_RIVALS[int(behind.argmax())]
    shares, errors = coverage[worst].tolist()
    return Impact(worst, tuple(shares), tuple(errors), lost, rival)


def _is_exact(table: ScoreTable) -> bool:
    """Whether the law predicts to rounding, as in gaps without noise: bands then hold all."""
    errors = table.means()[:, 0]
    return len(errors) > 1 and bool(errors[0] < EXACT * np.nanmin(errors[1:]))


def _coverage(table: ScoreTable) -> Array:
    """Shares of the law's bands of `LEVELS`, and their standard errors; (2, level)."""
    kept = table.counts > 0
    inside, count = table.sums[kept, 0, 3 : 3 + len(LEVELS)], table.counts[kept, None]
    share, n = inside.sum(0) / count.sum(), len(count)
    if n < FEWEST_UNITS:
        return np.stack([share, np.full(len(LEVELS), UNKNOWN_ERROR)])
    off = inside - share * count
    return np.stack([share, np.sqrt(n / (n - 1) * (off**2).sum(0)) / count.sum()])


def _excess(coverage: Array) -> float:
    """By how much the worst share is off beyond its tolerance and two standard errors."""
    share, error = coverage
    off = np.abs(share - np.array(LEVELS) / 100)
    return float(np.max(off - np.minimum(2.0 * error, BAND_TOLERANCE) - BAND_TOLERANCE))
