"""Sufficient statistics of complete, noise-free paths: one pass, additive over paths."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from spdelaw.errors import DataError
from spdelaw.processes import operators
from spdelaw.processes.linear import Transition, distinct_steps
from spdelaw.statespace.blocks import invert, multiply, sandwich, transpose
from spdelaw.statespace.chain import StateSpace, center_sums, gradients, grouped, log_likelihood
from spdelaw.statespace.likelihood import Evaluation

# ---------- Products of pairs of modes, summed over paths and steps


Array = np.ndarray

#: Lengths of step up to which each has a product of its own.
FEW_LENGTHS = 16
#: Lags of the two factors of each sum over steps, and over two steps in a row.
STEP_LAGS = {"before": (0, 0), "cross": (0, 1), "after": (1, 1)}
TWO_STEP_LAGS = {"early": (0, 1), "late": (1, 2), "middle": (1, 1), "skip": (0, 2)}


class PairSums(NamedTuple):
    """Sums over paths and over steps of equal length.

    Attributes:
        lengths: of the steps that occur, (U,).
        n_steps: how many of each, (U,).
        before, cross, after: sums of ``c_t c_t'``, ``c_t c_{t+1}'`` and ``c_{t+1} c_{t+1}'`` over
            them, (U, N, N).
        two_lengths: indices into ``lengths`` of two steps in a row, (W, 2).
        two_count: how often they occur, (W,).
        early, late, middle, skip: sums of ``c_t c_{t+1}'``, ``c_{t+1} c_{t+2}'``,
            ``c_{t+1} c_{t+1}'`` and ``c_t c_{t+2}'`` over them, (W, N, N).
        first: ``sum_p (c_0 - mean)(c_0 - mean)'``, (N, N).
    """

    lengths: Array
    n_steps: Array
    before: Array
    cross: Array
    after: Array
    two_lengths: Array
    two_count: Array
    early: Array
    late: Array
    middle: Array
    skip: Array
    first: Array

    def joined(self, other: PairSums, between: Array) -> PairSums:
        """Sums of both sets of paths; ``between`` is the share of their different first means."""
        constant = ("lengths", "two_lengths")
        total = {k: getattr(self, k) + getattr(other, k) for k in self._fields if k not in constant}
        total["first"] = total["first"] + between
        return self._replace(**total)

    def shifted(self, first: Array, n_paths: int, m: Array, times: Array) -> PairSums:
        """Sums of ``c - m`` for a known ``m`` (T, N); ``first`` (T, N) are those of ``c``."""
        _, which, two, which_two = _successive_steps(times)

        def change(now: int, then: int, of: Array, n: int) -> Array:
            """``n m m' - c m' - m c'`` at these lags, summed over equal steps."""
            a, b = slice(now, now + len(of)), slice(then, then + len(of))
            less = _product_sums(n_paths * m[a] - first[a], m[b], of, n)
            return less - _product_sums(m[a], first[b], of, n)

        moved = {k: change(*lags, which, len(self.lengths)) for k, lags in STEP_LAGS.items()}
        moved |= {k: change(*lags, which_two, len(two)) for k, lags in TWO_STEP_LAGS.items()}
        return self._replace(**{k: getattr(self, k) + v for k, v in moved.items()})


def _product_sums(a: Array, b: Array, which: Array, n: int) -> Array:
    """Sums of ``a_t b_t'`` over entries with equal ``which``; (n, N, N)."""
    if n > FEW_LENGTHS:
        return grouped(a[:, :, None] * b[:, None], which, n)
    out = np.empty((n, a.shape[1], b.shape[1]))
    for u in range(n):
        rows = slice(None) if n == 1 else which == u
        out[u] = a[rows].T @ b[rows]
    return out


def pair_sums(c: Array, times: Array) -> PairSums:
    """Sums of coefficients (P, T, N)."""
    at = np.ascontiguousarray(c.transpose(1, 2, 0))
    products = [at[: len(at) - lag] @ np.swapaxes(at[lag:], 1, 2) for lag in range(3)]
    start, n_paths = at[0] - at[0].mean(1, keepdims=True), len(c)
    lengths, which, two, which_two = _successive_steps(times)

    def total(now: int, then: int, of: Array, n: int) -> Array:
        return grouped(products[then - now][now : now + len(of)], of, n)

    sums = {name: total(*lags, which, len(lengths)) for name, lags in STEP_LAGS.items()}
    sums |= {name: total(*lags, which_two, len(two)) for name, lags in TWO_STEP_LAGS.items()}
    return PairSums(
        lengths=lengths,
        n_steps=n_paths * np.bincount(which, minlength=len(lengths)).astype(float),
        two_lengths=two,
        two_count=n_paths * np.bincount(which_two, minlength=len(two)).astype(float),
        first=start @ start.T,
        **sums,
    )


def _successive_steps(times: Array) -> tuple[Array, Array, Array, Array]:
    """Lengths and which each step has; pairs of lengths in a row and which each pair is."""
    lengths, which = distinct_steps(np.diff(times))
    n = max(len(lengths), 1)
    two, which_two = np.unique(n * which[:-1] + which[1:], return_inverse=True)
    return lengths, which, np.stack(np.divmod(two, n), 1), which_two


# ---------- Sufficient statistics of complete, noise-free paths
#
# The coefficients of a complete field are the states themselves, so the likelihood needs only
# their second moments at lags 0, 1 and, for the test of white noise, 2.


#: Bytes of the rows that one product takes, so that they stay in the cache, and modes up to which
#: this is the faster way.
ROW_BYTES, FEW_MODES = 8e5, 16


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Sums over paths; ``+`` joins two disjoint sets of paths.

    Attributes:
        times: (T,).
        n_paths: number of paths.
        first: ``sum_p c_t``, (T, N).
        square: ``sum_p c_t^2``, (T, N).
        cross: ``sum_p c_t c_{t+1}``, (T - 1, N).
        skip: ``sum_p c_t c_{t+2}``, (T - 2, N).
        start_spread: ``sum_p (c_0 - mean)^2``, (N,); kept apart because the difference of
            sums would lose it where all paths start from the same state.
        energy: ``sum y^2`` over everything observed.
        outside: ``sum (y - Phi c)^2``, the residual sum of squares.
        n_points: points per row.
        pairs: products of different modes, where drift or noise may couple them.
    """

    times: Array
    n_paths: int
    first: Array
    square: Array
    cross: Array
    skip: Array
    start_spread: Array
    energy: float
    outside: float
    n_points: int
    pairs: PairSums | None = None

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return self.square.shape[1]

    @property
    def n_values(self) -> float:
        """Observed values in all."""
        return float(self.n_paths * len(self.times) * self.n_points)

    @functools.cached_property
    def lengths(self) -> tuple[Array, Array]:
        """Lengths of step that occur, (U,), and which of them each step has, (T - 1,)."""
        return distinct_steps(np.diff(self.times))

    @functools.cached_property
    def steps(self) -> tuple[Array, Array]:
        """Steps of equal length and sums over them, one number per mode; (U,) and (3, U, N)."""
        lengths, which = self.lengths
        count = self.n_paths * np.bincount(which, minlength=len(lengths)).astype(float)
        parts = (self.square[:-1], self.cross, self.square[1:])
        return count, np.stack([grouped(values, which, len(lengths)) for values in parts])

    @functools.cached_property
    def pair_steps(self) -> tuple[Array, Array]:
        """The same of all pairs of modes; (U,) and (3, U, N, N)."""
        pairs = self.of_pairs
        return pairs.n_steps, np.stack([pairs.before, pairs.cross, pairs.after])

    @functools.cached_property
    def first_steps(self) -> tuple[Array, Array]:
        """Sums of ``c_t`` and of ``c_{t+1}`` over steps of equal length, (U, N) each."""
        which, n = self.lengths[1], len(self.lengths[0])
        return grouped(self.first[:-1], which, n), grouped(self.first[1:], which, n)

    @property
    def of_pairs(self) -> PairSums:
        """Products of different modes, or an error where they were not kept."""
        if self.pairs is None:
            expected = "products of different modes, for a law that couples them"
            got, fix = "those of each mode alone", "fit the fields themselves"
            raise DataError("statistics", expected=expected, got=got, fix=fix)
        return self.pairs

    def shifted(self, m: Array) -> Statistics:
        """Sums of ``c - m`` for a known ``m`` (T, N)."""

        def product(lag: int, of: Array) -> Array:
            now, then = slice(len(m) - lag), slice(lag, None)
            mixed = m[now] * self.first[then] + self.first[now] * m[then]
            return of - mixed + self.n_paths * m[now] * m[then]

        pairs = self.pairs
        if pairs is not None:
            pairs = pairs.shifted(self.first, self.n_paths, m, self.times)
        return dataclasses.replace(
            self,
            first=self.first - self.n_paths * m,
            square=product(0, self.square),
            cross=product(1, self.cross),
            skip=product(2, self.skip),
            pairs=pairs,
        )

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of both sets of paths together."""
        if not (
            self.times.shape == other.times.shape
            and np.allclose(self.times, other.times, rtol=1e-9, atol=1e-12)
            and self.square.shape == other.square.shape
            and (self.pairs is None) == (other.pairs is None)
        ):
            expected = "the same times and modes in both"
            got = f"{self.square.shape} and {other.square.shape}"
            fix = "interpolation changes a law; fit data sets on different times together"
            raise DataError("statistics", expected=expected, got=got, fix=fix)
        return self.joined(other)

    def joined(self, other: Statistics) -> Statistics:
        """The sum of both, known to have the same times and modes."""
        total = {
            key: getattr(self, key) + getattr(other, key)
            for key in ("n_paths", "first", "square", "cross", "skip", "energy", "outside")
        }
        gap = self.first[0] / self.n_paths - other.first[0] / other.n_paths
        share = self.n_paths * other.n_paths / total["n_paths"]
        spread = self.start_spread + other.start_spread + share * gap**2
        pairs = None
        if self.pairs is not None and other.pairs is not None:
            pairs = self.pairs.joined(other.pairs, share * np.outer(gap, gap))
        return dataclasses.replace(self, start_spread=spread, pairs=pairs, **total)


def collect(
    chunks: Iterable[Array],
    times: Array,
    operator: Array,
    eigenfunctions: Array,
    *,
    pairs: bool = False,
) -> Statistics | None:
    """Statistics of fields that come in chunks (P, T, M); None as soon as a value is missing.

    Args:
        chunks: arrays of whole paths.
        times: (T,).
        operator: from values to coefficients, (N, M).
        eigenfunctions: ``Phi``, (M, N).
        pairs: keep products of different modes too.
    """
    gram = eigenfunctions.T @ eigenfunctions
    total: Statistics | None = None
    for values in chunks:
        c, energy = _coefficients(values, operator)
        statistics = coefficient_statistics(c, times, energy, values.shape[-1], gram, pairs)
        if statistics is None:
            return None
        total = statistics if total is None else total.joined(statistics)
    return total


def _coefficients(values: Array, operator: Array) -> tuple[Array, float]:
    """Coefficients (P, T, N) of fields (P, T, M), and the fields' sum of squares.

    Of few modes a few rows at a time, which are in the processor's cache when they are squared.
    """
    rows, across = values.reshape(-1, values.shape[-1]), np.ascontiguousarray(operator.T)
    step = max(int(ROW_BYTES / (8 * rows.shape[1])), 1) if len(operator) <= FEW_MODES else len(rows)
    out, energy = np.empty((len(rows), len(operator))), 0.0
    for start in range(0, len(rows), step):
        batch = rows[start : start + step]
        np.matmul(batch, across, out=out[start : start + step])
        flat = batch.reshape(-1)
        energy += float(np.vdot(flat, flat))
    return out.reshape(*values.shape[:2], -1), energy


def coefficient_statistics(
    c: Array, times: Array, energy: float, n_points: int, gram: Array, pairs: bool
) -> Statistics | None:
    """Statistics of coefficients (P, T, N); ``energy`` is that of their values."""
    # Any NaN or infinity among the values makes their energy non-finite: no pass of its own.
    if not np.isfinite(energy):
        return None
    (n_paths, n_times, n), start = c.shape, c[:, 0]
    rows, flat = c.reshape(-1, n), c.reshape(n_paths, -1)
    inside = float(np.vdot(rows @ gram, rows))

    def product(lag: int) -> Array:
        """``sum_p c_t c_{t+lag}``; all times and modes of a path lie in one row."""
        k = lag * n
        return np.einsum("pk,pk->k", flat[:, : max(flat.shape[1] - k, 0)], flat[:, k:]).reshape(
            -1, n
        )

    return Statistics(
        times=times,
        n_paths=n_paths,
        first=flat.sum(0).reshape(n_times, n),
        square=product(0),
        cross=product(1),
        skip=product(2),
        start_spread=((start - start.mean(0)) ** 2).sum(0),
        energy=energy,
        outside=max(energy - inside, 0.0),
        n_points=n_points,
        pairs=pair_sums(c, times) if pairs else None,
    )


def evaluate_statistics(
    statistics: Statistics,
    state_space: StateSpace,
    spread: Array | float = 0.0,
    step: Transition | None = None,
) -> Evaluation:
    """Log-likelihood of the coefficients and its score; the total stands in for the paths.

    A forcing acts from the origin of the dynamics, which is the first time. A ``spread`` of the
    states is added to the second moments of the score: an operator, as for all steps. ``step`` are
    the transitions, where they are at hand.
    """
    dynamics, initial = state_space.linear, state_space.initial
    s, start = statistics, statistics.first[0] / statistics.n_paths
    if dynamics.forcing is not None:
        s = _unforced(statistics, state_space)
        start = s.first[0] / s.n_paths
    n_steps, sums = s.steps if dynamics.is_diagonal else s.pair_steps
    step = step or dynamics.over(s.lengths[0])
    if dynamics.forcing is None and dynamics.mean is not None:
        sums, start = (
            center_sums(n_steps, sums, dynamics.mean, s.first_steps),
            start - dynamics.mean,
        )
    grown = n_steps.reshape(-1, *(1,) * (sums.ndim - 2)) * spread
    pull = step.pull_back(*gradients(n_steps, sums + grown, step))
    by_drift = operators.like(dynamics.drift, pull[0]) + _response_score(s, state_space, step)
    total = log_likelihood(n_steps, sums, step)
    by_mean, by_initial = np.zeros(len(initial.mean)), np.zeros_like(initial.covariance)
    information = np.zeros((len(initial.mean),) * 2)
    if initial.kind != "deterministic":
        value, by_mean, by_initial, information = _initial_density(s, start, state_space)
        total += value
    return Evaluation(
        np.array([total]),
        by_drift,
        operators.like(dynamics.noise, pull[1]),
        by_mean,
        by_initial,
        0.0,
        information,
    )


def _unforced(s: Statistics, state_space: StateSpace) -> Statistics:
    dynamics = state_space.linear
    return s.shifted(dynamics.response(s.times)) if dynamics.is_driven else s


def _response_score(s: Statistics, state_space: StateSpace, step: Any) -> Array:
    """Share of the response to a forcing in the score by the drift.

    With ``e_t`` the sum over paths of ``c_{t+1} - F c_t``, a shift of the mean at t + 1 changes the
    log-likelihood by ``Omega^-1 e_t``, one at t by ``-F' Omega^-1 e_t``.
    """
    dynamics = state_space.linear
    if dynamics.forcing is None:
        return np.zeros_like(dynamics.drift)
    which = s.lengths[1]
    f, omega = step.factor[which], step.covariance[which]
    error = s.first[1:] - operators.apply_each(f, s.first[None, :-1])[0]
    pull = error / omega if f.ndim == 2 else np.linalg.solve(omega, error[..., None])[..., 0]
    back = f if f.ndim == 2 else np.swapaxes(f, 1, 2)
    by = np.zeros_like(s.first)
    by[1:] += pull
    by[:-1] -= operators.apply_each(back, pull[None])[0]
    return dynamics.response_pull_back(s.times, by)


def _initial_density(
    s: Statistics, start: Array, state_space: StateSpace
) -> tuple[float, Array, Array, Array]:
    """Log density of the first states, its gradient by mean and covariance, the information.

    ``start`` is the mean of the first states over paths, less the mean of the law.
    """
    mean, v = state_space.initial.mean, state_space.initial.covariance
    n, gap = s.n_paths, start - mean
    weight, log = (x[..., 0] for x in invert(v[..., None]))
    if operators.is_diagonal(v):
        square = s.start_spread + n * gap**2
    else:
        square = s.of_pairs.first + n * np.outer(gap, gap)
    total = -0.5 * float(n * (log + len(v) * np.log(2 * np.pi)) + (weight * square).sum())
    pulled = sandwich(weight[..., None], square[..., None])[..., 0]
    information = n * operators.as_matrix(weight)
    return total, information @ gap, 0.5 * (pulled - n * weight), information


def white_noise_z(statistics: Statistics, state_space: StateSpace, gram: Array) -> float:
    """Score test of observation noise against none; standard normal without noise.

    Noise of covariance ``r G^-1`` in the coefficients gives successive innovations
    ``e_t = c_{t+1} - F_t c_t`` the covariance ``-r G^-1 F_{t+1}'``; without noise they are
    independent. The score at r = 0 is that covariance, weighted by the precisions of both.
    """
    s = _unforced(statistics, state_space)
    if len(s.times) < 3:
        return 0.0
    step, which = state_space.linear.over(s.lengths[0]), s.lengths[1]
    if state_space.linear.is_diagonal:
        one, two, count = which[:-1], which[1:], np.full(len(which) - 1, s.n_paths)
        sums, error = (s.cross[:-1], s.cross[1:], s.square[1:-1], s.skip), 1.0 / np.diag(gram)
    else:
        p = s.of_pairs
        (one, two), count = p.two_lengths.T, p.two_count
        sums, error = (p.early, p.late, p.middle, p.skip), np.linalg.inv(gram)
    # As blocks, the steps in a row last.
    early, late, middle, skip = (np.moveaxis(x, 0, -1) for x in sums)
    now, then = (np.moveaxis(step.factor[u], 0, -1) for u in (one, two))
    before, after = (np.moveaxis(step.covariance[u], 0, -1) for u in (one, two))
    back = transpose(then)
    product = late - multiply(middle, back) - multiply(now, skip)
    product = product + multiply(multiply(now, early), back)
    pull = multiply(error[..., None], back)
    weight = multiply(multiply(invert(before)[0], pull), invert(after)[0])
    variance = (count * weight * multiply(multiply(before, weight), after)).sum()
    return float(-(weight * product).sum() / np.sqrt(variance))
