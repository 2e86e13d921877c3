"""Noise whose strength comes and goes with a period."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.checks import is_number, numbers
from spdelaw.equation._decay import decay_means
from spdelaw.equation._given import frozen
from spdelaw.errors import EquationError

Array = np.ndarray

#: Most parts of a period.
MOST_PARTS = 366


@dataclasses.dataclass(frozen=True, eq=False)
class Season:
    """``q_n(t) = q_n w(t)``: w repeats, is constant on equal parts of a period and has mean 1.

    Args:
        period: in the unit of time of the equation.
        weights: strength of each part, scaled to mean 1; or the number of parts, where the
            strengths are to be learned.
        origin: a time at which the first part begins.

    Example:
        >>> import spdelaw as sl
        >>> stormy_winters = sl.Season(1.0, [3.0, 1.0, 1.0, 1.0])
        >>> stormy_winters.weights
        array([2.        , 0.66666667, 0.66666667, 0.66666667])
        >>> stormy_winters.at([0.1, 0.3, 1.2])
        array([2.        , 0.66666667, 2.        ])
    """

    period: float
    weights: Any
    origin: float = 0.0

    def __post_init__(self) -> None:
        """Check, and scale the weights."""
        for what, least in (("period", 0.0), ("origin", -np.inf)):
            value = getattr(self, what)
            if not is_number(value) or value <= least:
                raise _bad(f"{what} {value!r}")
        object.__setattr__(self, "weights", frozen(self._scaled()))

    def _scaled(self) -> Array:
        given = self.weights
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            if not 2 <= given <= MOST_PARTS:
                raise _bad(f"{given} parts")
            return np.ones(int(given))
        w = numbers(given)
        if w.ndim != 1 or not 2 <= len(w) <= MOST_PARTS or not ((w > 0) & (w < np.inf)).all():
            raise _bad(f"weights {given!r}")
        mean = w.mean()
        return w if abs(mean - 1.0) < 1e-12 else w / mean  # scaled ones stay as they are

    @property
    def n_parts(self) -> int:
        """Number of parts K."""
        return len(self.weights)

    def part(self, times: Any) -> Array:
        """Part, counted from 0, that each time lies in."""
        cells = np.floor((np.asarray(times, dtype=float) - self.origin) / self._length)
        return cells.astype(int) % self.n_parts

    def at(self, times: Any) -> Array:
        """``w(t)``."""
        return self.weights[self.part(times)]

    def phase(self, times: Any) -> Array:
        """The time within the first period at which the noise is as strong."""
        return np.mod(np.asarray(times, dtype=float) - self.origin, self.period) + self.origin

    def cells(self, start: Array, end: Array) -> tuple[Array, Array]:
        """Lengths of the pieces of each step that lie in one part, in time, and those parts.

        Both (pieces, *shape of the steps); steps with fewer pieces end with pieces of length 0.
        """
        h = self._length
        first = np.floor((start - self.origin) / h)
        n_cells = int(np.max(np.ceil((end - self.origin) / h) - first))
        cell = first + np.arange(n_cells).reshape(-1, *(1,) * np.ndim(first))
        low = np.maximum(start, self.origin + cell * h)
        high = np.minimum(end, self.origin + (cell + 1) * h)
        return np.maximum(high - low, 0.0), cell.astype(int) % self.n_parts

    def exposures(self, rates: Array, start: Array, end: Array) -> Array:
        """``int_start^end 1[u in part k] e^(-rate (end - u)) du``; (..., K).

        ``rates``, ``start`` and ``end`` broadcast; rates may be complex.
        """
        lengths, parts = self.cells(start, end)
        shape = np.broadcast_shapes(np.shape(rates), np.shape(start), np.shape(end))
        out = np.zeros((*shape, self.n_parts), dtype=np.result_type(rates, float))
        left = end - start
        for length, part in zip(lengths, parts, strict=True):
            left = left - length
            share = np.exp(-rates * left) * length * decay_means(rates * length)[0]
            index = np.broadcast_to(part[..., None], (*shape, 1))
            known = np.take_along_axis(out, index, -1)
            np.put_along_axis(out, index, known + share[..., None], -1)
        return out

    def integral(self, rates: Array, start: Array, end: Array) -> Array:
        """``int_start^end w(u) e^(-rate (end - u)) du``."""
        return self.exposures(rates, start, end) @ self.weights

    def with_weights(self, weights: Array) -> Season:
        """The same parts with other strengths."""
        return dataclasses.replace(self, weights=weights)

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        own = {"period": float(self.period), "origin": float(self.origin)}
        return own | {"weights": self.weights.tolist()}

    @property
    def _length(self) -> float:
        return float(self.period) / self.n_parts


def _bad(got: str) -> EquationError:
    expected = f"a positive period and 2 to {MOST_PARTS} parts with positive weights"
    fix = "sl.Season(1.0, [2.0, 1.0, 0.5, 1.0]), or sl.Season(1.0, 4) to learn them"
    return EquationError("season", expected=expected, got=got, fix=fix)
