"""Dependence on time: a known forcing, and noise whose strength has a season."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from spdelaw.checks import is_number, numbers, shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import EquationError
from spdelaw.processes.operators import decay_means
from spdelaw.processes.specification import frozen

# ---------- A known forcing, the mean that it drives, and the gradient of that mean by the drift
#
# Between two knots ``m' = -Lambda m + f + s g`` with constant f and slope g, so after a time h
#
#     m(h) = E m + h P1 f + h^2 P2 g,    E = e^(-Lambda h),  P1 = p1(Lambda h),  P2 = p2(Lambda h),
#
# with ``p1(x) = (1 - e^-x) / x`` and ``p2(x) = (x - 1 + e^-x) / x^2``: closed forms for a diagonal
# drift, and for a matrix the upper blocks of ``exp(h [[-Lambda, 1, 0], [0, 0, 1], [0, 0, 0]])``.


Array = np.ndarray

#: Most modes that a forcing given as fields is kept on.
MAX_MODES = 64


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
            raise _bad_forcing("times that are not a strictly increasing vector of two or more")
        if f.ndim != 2 or len(f) != len(t) or f.shape[1] == 0 or not np.isfinite(f).all():
            raise _bad_forcing(f"coefficients of shape {f.shape}, or not finite")
        object.__setattr__(self, "times", frozen(t))
        object.__setattr__(self, "coefficients", frozen(f))

    @classmethod
    def from_fields(
        cls, values: Array, times: Array, points: Any, domain: AbstractDomain
    ) -> Forcing:
        """Forcing given as fields (time, point): its coefficients by least squares.

        As many modes as half the points can tell apart, at most `MAX_MODES`.
        """
        n = max(1, min(MAX_MODES, len(points) // 2))
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
        times = np.asarray(times, float)
        acting = self._restricted(start, float(np.max(times)), len(drift))
        if drift.ndim == 1:
            return _diagonal_response(acting, drift, times)
        index, h = acting._locate(times)
        lengths, which = np.unique(h, return_inverse=True)
        blocks = _exponential_blocks(drift, lengths)[which.reshape(h.shape)]
        return np.einsum("...ij,...j->...i", blocks, _augmented_knots(acting, drift)[index])

    def pull_back(self, drift: Array, times: Array, by: Array, start: float | None = None) -> Array:
        """Gradient by ``Lambda``, in its shape, from that by the response, (*times.shape, N)."""
        times = np.asarray(times, float)
        acting = self._restricted(start, float(np.max(times)), len(drift))
        if drift.ndim == 1:
            tiny = 1e-200  # a complex step: the derivative is exact to rounding
            slope = _diagonal_response(acting, drift + 1j * tiny, times).imag / tiny
            return (by * slope).reshape(-1, len(drift)).sum(0)
        return _matrix_pull_back(acting, drift, times.ravel(), by.reshape(-1, len(drift)))

    def _restricted(self, start: float | None, last: float, n_modes: int) -> Forcing:
        """The same from ``start`` on, on the first ``n_modes`` modes."""
        begin = float(self.times[0] if start is None else start)
        self.check_reach(begin, last)
        knots = np.concatenate([[begin], self.times[self.times > begin]])
        columns = [np.interp(knots, self.times, column) for column in self.on_modes(n_modes).T]
        return Forcing(knots, np.stack(columns, axis=1))

    @functools.cached_property
    def _slopes(self) -> Array:
        """Slopes after all times but the last; (times - 1, modes)."""
        return np.diff(self.coefficients, axis=0) / np.diff(self.times)[:, None]

    def _locate(self, times: Array) -> tuple[Array, Array]:
        """Which of its times, the last apart, is before each of these, and the time since it."""
        last = len(self.times) - 2
        index = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, last)
        return index, times - self.times[index]

    def check_reach(self, first: float, last: float) -> None:
        """Raise `EquationError` unless the forcing is known from ``first`` to ``last``."""
        if first < self.times[0] or last > self.times[-1]:
            got = f"one known from {self.times[0]:g} to {self.times[-1]:g}"
            fix = "give the forcing for all times that are learned, sampled or forecast"
            expected = f"a forcing known from {first:g} to {last:g}"
            raise EquationError("forcing", expected=expected, got=got, fix=fix)


def _bad_forcing(got: str) -> EquationError:
    expected = "times (K,) and finite coefficients (K, modes)"
    fix = "sl.Forcing([0.0, 1.0], np.zeros((2, 8))), or a DataArray (time, x)"
    return EquationError("forcing", expected=expected, got=got, fix=fix)


def _diagonal_response(forcing: Forcing, drift: Array, times: Array) -> Array:
    f, slope = forcing.coefficients, forcing._slopes
    m = np.zeros(f.shape, dtype=np.result_type(f, drift))
    for k, h in enumerate(np.diff(forcing.times)):
        m[k + 1] = _advance_mean(m[k], f[k], slope[k], drift, h)
    index, h = forcing._locate(times)
    return _advance_mean(m[index], f[index], slope[index], drift, h[..., None])


def _advance_mean(m: Array, f: Array, slope: Array, drift: Array, h: Array) -> Array:
    x = drift * h
    first, second = decay_means(x)
    return np.exp(-x) * m + h * f * first + h**2 * slope * second


# -- a drift that couples modes -----------------------------------------------------------
def _augmented_generator(drift: Array) -> Array:
    n = len(drift)
    out = np.zeros((3 * n, 3 * n))
    out[:n, :n] = -drift
    out[:n, n : 2 * n] = out[n : 2 * n, 2 * n :] = np.eye(n)
    return out


def _exponential_blocks(drift: Array, lengths: Array) -> Array:
    """``[E, h P1, h^2 P2]`` of each length; (U, N, 3 N)."""
    from scipy import linalg

    generator = _augmented_generator(drift)
    return np.stack([linalg.expm(h * generator)[: len(drift)] for h in lengths])


def _augmented_knots(forcing: Forcing, drift: Array) -> Array:
    """``(m, f, g)`` at the times that have a slope after them; (K - 1, 3 N)."""
    lengths, which = np.unique(np.diff(forcing.times), return_inverse=True)
    blocks, n = _exponential_blocks(drift, lengths)[which], len(drift)
    f, slope = forcing.coefficients, forcing._slopes
    m = np.zeros(f.shape)
    for k, block in enumerate(blocks):
        driven = block[:, n : 2 * n] @ f[k] + block[:, 2 * n :] @ slope[k]
        m[k + 1] = block[:, :n] @ m[k] + driven
    return np.concatenate([m[:-1], f[:-1], slope], axis=1)


def _matrix_pull_back(forcing: Forcing, drift: Array, times: Array, by: Array) -> Array:
    """Adjoint of the recursion, then of the exponentials of all lengths that occur."""
    from scipy import linalg

    n, (index, h) = len(drift), forcing._locate(times)
    steps = np.diff(forcing.times)
    lengths, which = np.unique(np.concatenate([steps, h]), return_inverse=True)
    blocks, z = _exponential_blocks(drift, lengths), _augmented_knots(forcing, drift)
    by_block = np.zeros((len(lengths), 3 * n, 3 * n))
    pull = np.zeros((len(forcing.times), n))  # by m at the knots
    which_of_times = which[len(steps) :]
    np.add.at(by_block[:, :n], which_of_times, by[:, :, None] * z[index][:, None, :])
    np.add.at(pull, index, np.einsum("tij,ti->tj", blocks[which_of_times][..., :n], by))
    for k in range(len(steps) - 1, -1, -1):
        by_block[which[k], :n] += np.outer(pull[k + 1], z[k])
        pull[k] += blocks[which[k]][:, :n].T @ pull[k + 1]
    generator, total = _augmented_generator(drift).T, np.zeros((3 * n, 3 * n))
    for length, gradient in zip(lengths, by_block, strict=True):
        if length > 0:
            frechet = linalg.expm_frechet(length * generator, gradient, compute_expm=False)
            total += length * frechet
    return -total[:n, :n]


# ---------- Noise of periodic strength


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
                raise _bad_season(f"{what} {shown(value)}")
        object.__setattr__(self, "weights", frozen(self._scaled_weights()))

    def _scaled_weights(self) -> Array:
        given = self.weights
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            if not 2 <= given <= MOST_PARTS:
                raise _bad_season(f"{shown(given)} parts")
            return np.ones(int(given))
        w = numbers(given)
        if w.ndim != 1 or not 2 <= len(w) <= MOST_PARTS or not ((w > 0) & (w < np.inf)).all():
            raise _bad_season(f"weights {shown(given)}")
        mean = w.mean()
        return w if abs(mean - 1.0) < 1e-12 else w / mean  # scaled ones stay as they are

    @property
    def n_parts(self) -> int:
        """Number of parts K."""
        return len(self.weights)

    def part(self, times: Any) -> Array:
        """Part, counted from 0, that each time lies in."""
        cells = np.floor((np.asarray(times, dtype=float) - self.origin) / self._part_length)
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
        h = self._part_length
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
        remaining = end - start
        for length, cell_part in zip(lengths, parts, strict=True):
            remaining = remaining - length
            share = np.exp(-rates * remaining) * length * decay_means(rates * length)[0]
            index = np.broadcast_to(cell_part[..., None], (*shape, 1))
            before = np.take_along_axis(out, index, -1)
            np.put_along_axis(out, index, before + share[..., None], -1)
        return out

    def integral(self, rates: Array, start: Array, end: Array) -> Array:
        """``int_start^end w(u) e^(-rate (end - u)) du``."""
        return self.exposures(rates, start, end) @ self.weights

    def with_weights(self, weights: Array) -> Season:
        """The same parts with other strengths."""
        return dataclasses.replace(self, weights=weights)

    def to_dict(self) -> dict[str, Any]:
        """Plain types."""
        clock = {"period": float(self.period), "origin": float(self.origin)}
        return clock | {"weights": self.weights.tolist()}

    @property
    def _part_length(self) -> float:
        return float(self.period) / self.n_parts


def _bad_season(got: str) -> EquationError:
    expected = f"a positive period and 2 to {MOST_PARTS} parts with positive weights"
    fix = "sl.Season(1.0, [2.0, 1.0, 0.5, 1.0]), or sl.Season(1.0, 4) to learn them"
    return EquationError("season", expected=expected, got=got, fix=fix)
