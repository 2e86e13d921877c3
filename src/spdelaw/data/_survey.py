"""What there is in a data set, from one pass over its pieces.

A piece is an array (paths, times, points) of a data set that is cut in paths and times. Surveys of
pieces that follow one another in time join to that of their paths, those of paths to that of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Survey(NamedTuple):
    """Counts and sums over all values.

    Attributes:
        size: values, missing ones included.
        missing: values that are NaN.
        infinite: values that are not finite, NaN apart.
        times_seen: how often each point is seen, (M,).
        total: sum of what is seen there, (M,).
        least: fewest values of a row that has any.
        change: largest range over time of a path at a point.
        largest: largest absolute value.
        rows: whether any path sees anything at a time, (T,).
    """

    size: int
    missing: int
    infinite: int
    times_seen: Array
    total: Array
    least: int
    change: float
    largest: float
    rows: Array

    @property
    def seen(self) -> Array:
        """Points that are seen at least once, (M,)."""
        return self.times_seen > 0

    @property
    def where_seen(self) -> Survey:
        """Survey of the same data without points that are never seen."""
        unseen = int((~self.seen).sum())
        rows = self.size // len(self.seen)
        return self._replace(
            size=self.size - rows * unseen,
            missing=self.missing - rows * unseen,
            times_seen=self.times_seen[self.seen],
            total=self.total[self.seen],
        )

    def at_times(self, keep: Array, n_paths: int) -> Survey:
        """Survey of the same data without times at which nothing is seen."""
        values = int((~keep).sum()) * n_paths * len(self.seen)
        return self._replace(
            size=self.size - values, missing=self.missing - values, rows=self.rows[keep]
        )

    @property
    def has_partial_rows(self) -> bool:
        """Whether some row has values at some of these points and not at others."""
        return self.least < int(self.seen.sum())


class Looked(NamedTuple):
    """A survey of some times, and the extremes of each path and point, (P, M), to go on with."""

    survey: Survey
    most: Array
    least: Array


def look(piece: Array) -> Looked:
    """Survey of one piece (P, T, M)."""
    known = ~np.isnan(piece)
    per_row = known.sum(-1)
    some = per_row[per_row > 0]
    filled = np.where(known, piece, 0.0)
    survey = Survey(
        piece.size,
        piece.size - int(per_row.sum()),
        int(np.isinf(piece).sum()),
        known.sum((0, 1)),
        filled.sum((0, 1)),
        int(some.min()) if some.size else piece.shape[-1],
        0.0,
        float(np.abs(filled).max()),
        per_row.any(0),
    )
    return Looked(survey, np.fmax.reduce(piece, axis=1), np.fmin.reduce(piece, axis=1))


def in_time(parts: Sequence[Looked]) -> Survey:
    """Survey of paths from those of their times."""
    most = np.fmax.reduce([part.most for part in parts])
    least = np.fmin.reduce([part.least for part in parts])
    span = most - least
    change = float(np.nanmax(span)) if not np.isnan(span).all() else 0.0
    rows = np.concatenate([part.survey.rows for part in parts])
    total = parts[0].survey._replace(rows=rows)
    for part in parts[1:]:
        total = of_both(total, part.survey._replace(rows=rows))
    return total._replace(change=change)


def of_both(a: Survey, b: Survey) -> Survey:
    """Survey of two sets of paths together."""
    return Survey(
        a.size + b.size,
        a.missing + b.missing,
        a.infinite + b.infinite,
        a.times_seen + b.times_seen,
        a.total + b.total,
        min(a.least, b.least),
        max(a.change, b.change),
        max(a.largest, b.largest),
        a.rows | b.rows,
    )
