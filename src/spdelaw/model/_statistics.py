"""Sufficient statistics of complete, noise-free paths: one pass, additive over paths.

The coefficients of a complete field are the states themselves, so the likelihood needs only
their second moments at lags 0, 1 and, for the test of white noise, 2.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np

from spdelaw.equation import transition
from spdelaw.errors import DataError
from spdelaw.model._coupled_statistics import (
    PairSums,
    coupled_white_noise_z,
    evaluate_pair_sums,
    pair_sums,
)
from spdelaw.model._likelihood import AnyEvaluation, Evaluation
from spdelaw.model._moments import (
    Moments,
    Steps,
    merge_steps,
    step_functions,
    step_log_likelihood,
    step_score,
    steps_of,
)
from spdelaw.model._parameters import AnyParameters, CoupledParameters

Array = np.ndarray


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
            sums would lose it where all paths start alike.
        energy: ``sum y^2`` over everything observed.
        outside: ``sum (y - Phi c)^2``, what the modes leave over.
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

    @property
    def moments(self) -> Moments:
        """What the transition likelihood needs."""
        return Moments(self.square, self.cross, self.n_paths)

    @functools.cached_property
    def steps(self) -> Steps:
        """The same, with steps of equal length summed up."""
        return merge_steps(steps_of(self.moments, np.diff(self.times)[:, None]))

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of both sets of paths together."""
        if not (
            self.times.shape == other.times.shape
            and np.allclose(self.times, other.times, rtol=1e-9, atol=1e-12)
            and self.square.shape == other.square.shape
            and (self.pairs is None) == (other.pairs is None)
        ):
            raise DataError(
                "statistics", expected="the same times and modes in both",
                got=f"{self.square.shape} and {other.square.shape}",
                fix="interpolation changes a law; fit data sets on different times together",
            )  # fmt: skip
        return self._joined(other)

    def _joined(self, other: Statistics) -> Statistics:
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
        # Modes first: BLAS is the faster for it with few modes and many rows.
        c = (operator @ values.reshape(-1, values.shape[-1]).T).reshape(-1, *values.shape[:2])
        part = _of_coefficients(c, times, values, gram)
        if part is None:
            return None
        if pairs:
            part = dataclasses.replace(part, pairs=pair_sums(c, times))
        total = part if total is None else total._joined(part)
    return total


def _of_coefficients(c: Array, times: Array, values: Array, gram: Array) -> Statistics | None:
    """Statistics of coefficients (N, P, T) of the values (P, T, M)."""
    flat = values.reshape(-1)
    energy = float(np.vdot(flat, flat))
    # Any NaN or infinity among the values makes their energy non-finite: no pass of its own.
    if not np.isfinite(energy):
        return None
    rows = c.reshape(len(c), -1)
    inside = float(np.vdot(rows @ rows.T, gram))
    start = c[..., 0]
    return Statistics(
        times=times,
        n_paths=c.shape[1],
        first=c.sum(1).T,
        square=np.einsum("npt,npt->tn", c, c),
        cross=np.einsum("npt,npt->tn", c[..., :-1], c[..., 1:]),
        skip=np.einsum("npt,npt->tn", c[..., :-2], c[..., 2:]),
        start_spread=((start - start.mean(1, keepdims=True)) ** 2).sum(1),
        energy=energy,
        outside=max(energy - inside, 0.0),
        n_points=values.shape[-1],
    )


def evaluate_statistics(statistics: Statistics, parameters: AnyParameters) -> AnyEvaluation:
    """Log-likelihood of the coefficients and its score; the total stands in for the paths."""
    if isinstance(parameters, CoupledParameters):
        first = statistics.first[0] / statistics.n_paths
        return evaluate_pair_sums(_pairs_of(statistics), first, statistics.n_paths, parameters)
    lam, q, steps = parameters.eigenvalues, parameters.noise_variance, statistics.steps
    f = step_functions(lam, steps.dt)
    total = step_log_likelihood(steps, f, q).sum()
    by_lambda, by_q = step_score(steps, f, q)
    by_mean = by_variance = np.zeros(len(lam))
    if parameters.initial_kind != "deterministic":
        m, v, n = parameters.initial_mean, parameters.initial_variance, statistics.n_paths
        gap = statistics.first[0] / n - m
        spread = statistics.start_spread + n * gap**2
        total += -0.5 * (n * np.log(2 * np.pi * v) + spread / v).sum()
        by_mean, by_variance = n * gap / v, 0.5 * (spread / v**2 - n / v)
    information = np.diag(statistics.n_paths / np.maximum(parameters.initial_variance, 1e-300))
    return Evaluation(np.array([total]), by_lambda, by_q, by_mean, by_variance, 0.0, information)


def _pairs_of(statistics: Statistics) -> PairSums:
    if statistics.pairs is None:
        raise DataError(
            "statistics", expected="products of different modes, for a law that couples them",
            got="those of each mode alone", fix="fit the fields themselves",
        )  # fmt: skip
    return statistics.pairs


def white_noise_z(statistics: Statistics, parameters: AnyParameters, gram: Array) -> float:
    """Score test of observation noise against none; standard normal without noise.

    White noise in the coefficients makes successive innovations ``e_t = c_{t+1} - a c_t``
    negatively correlated; without it they are independent. With noise variance ``r / g_n`` in
    mode n the score at r = 0 is ``-sum a e_t e_{t+1} / (omega_t omega_{t+1})``, weighted
    by ``1 / g_n``; its null variance is the sum of ``a^2 / (omega_t omega_{t+1})``. Coupled
    modes take the whole matrix G.
    """
    s = statistics
    if len(s.times) < 3:
        return 0.0
    if isinstance(parameters, CoupledParameters):
        return coupled_white_noise_z(_pairs_of(s), parameters, gram)
    a, omega = transition(
        parameters.eigenvalues, parameters.noise_variance, np.diff(s.times)[:, None]
    )
    now, then = a[:-1], a[1:]
    product = s.cross[1:] - then * s.square[1:-1] - now * s.skip + now * then * s.cross[:-1]
    weight = then / (omega[:-1] * omega[1:]) / gram
    variance = s.n_paths * (weight**2 * omega[:-1] * omega[1:]).sum()
    return float(-(weight * product).sum() / np.sqrt(variance))
