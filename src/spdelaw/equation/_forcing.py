"""A known forcing and the mean that it drives."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.checks import numbers
from spdelaw.domain import AbstractDomain
from spdelaw.equation._forced_response import Drive, pull_back, response
from spdelaw.equation._given import frozen
from spdelaw.errors import EquationError

Array = np.ndarray

#: Most modes that a forcing given as fields is kept on.
MODES = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Forcing:
    """Known ``F`` in ``dX = A X dt + F(t) dt + dW``, linear between its times.

    Args:
        times: strictly increasing, at least two.
        coefficients: ``F_n`` at those times, (times, modes). Modes beyond are not forced.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> steady = sl.Forcing([0.0, 1.0], [[2.0, 0.0], [2.0, 0.0]])
        >>> steady.response(np.array([4.0, 9.0]), np.array([0.0, 1.0])).round(4)  # 2 (1 - e^-4) / 4
        array([[0.    , 0.    ],
               [0.4908, 0.    ]])
    """

    times: Any
    coefficients: Any

    def __post_init__(self) -> None:
        """Check and freeze both."""
        t, f = numbers(self.times), numbers(self.coefficients)
        if t.ndim != 1 or len(t) < 2 or not (np.diff(t) > 0).all() or not np.isfinite(t).all():
            raise _bad("times that are not a strictly increasing vector of two or more")
        if f.ndim != 2 or len(f) != len(t) or f.shape[1] == 0 or not np.isfinite(f).all():
            raise _bad(f"coefficients of shape {f.shape}, or not finite")
        object.__setattr__(self, "times", frozen(t))
        object.__setattr__(self, "coefficients", frozen(f))

    @classmethod
    def from_fields(
        cls, values: Array, times: Array, points: Any, domain: AbstractDomain
    ) -> Forcing:
        """Forcing given as fields (time, point): its coefficients by least squares.

        As many modes as half the points can tell apart, at most `MODES`.
        """
        n = max(1, min(MODES, len(points) // 2))
        return cls(times, domain.analyse(values, n, points))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists."""
        return {"times": self.times.tolist(), "coefficients": self.coefficients.tolist()}

    def on_modes(self, n_modes: int) -> Array:
        """Coefficients of the first modes, zero where the forcing has none; (times, n_modes)."""
        f = self.coefficients[:, :n_modes]
        return np.pad(f, ((0, 0), (0, n_modes - f.shape[1])))

    def response(self, drift: Array, times: Array, start: float | None = None) -> Array:
        """``m(t) = int_start^t e^(-Lambda (t - s)) F(s) ds``; (*times.shape, N).

        Args:
            drift: ``Lambda``, (N,) or (N, N).
            times: any shape, from ``start`` on.
            start: when the forcing begins to act, by default its first time.
        """
        return response(self._drive(len(drift), times, start), drift, np.asarray(times, float))

    def pull_back(self, drift: Array, times: Array, by: Array, start: float | None = None) -> Array:
        """Gradient by ``Lambda``, in its shape, from that by the response, (*times.shape, N)."""
        drive = self._drive(len(drift), times, start)
        return pull_back(drive, drift, np.asarray(times, float), by)

    def _drive(self, n_modes: int, times: Array, start: float | None) -> Drive:
        begin = float(self.times[0] if start is None else start)
        self.check_reach(begin, float(np.max(times)))
        knots = np.concatenate([[begin], self.times[self.times > begin]])
        f = self.on_modes(n_modes)
        at = np.stack([np.interp(knots, self.times, column) for column in f.T], axis=1)
        return Drive(knots, at, np.diff(at, axis=0) / np.diff(knots)[:, None])

    def check_reach(self, first: float, last: float) -> None:
        """Raise `EquationError` unless the forcing is known from ``first`` to ``last``."""
        if first < self.times[0] or last > self.times[-1]:
            got = f"one known from {self.times[0]:g} to {self.times[-1]:g}"
            fix = "give the forcing for all times that are learned, sampled or forecast"
            expected = f"a forcing known from {first:g} to {last:g}"
            raise EquationError("forcing", expected=expected, got=got, fix=fix)


def _bad(got: str) -> EquationError:
    expected = "times (K,) and finite coefficients (K, modes)"
    fix = "sl.Forcing([0.0, 1.0], np.zeros((2, 8))), or a DataArray (time, x)"
    return EquationError("forcing", expected=expected, got=got, fix=fix)
