"""All tests of a law on data, each with the regressors that its richer model has."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from spdelaw.data.observed import Observed
from spdelaw.data.summary import checksum
from spdelaw.domains.box import Box
from spdelaw.domains.fields import Fields
from spdelaw.domains.interval import Interval
from spdelaw.evaluation.checks import departures
from spdelaw.evaluation.checks.departures import (
    POWERS,
    Series,
    TestResult,
    make_series,
    nonlinear_terms,
    projections,
    regression,
)
from spdelaw.evaluation.checks.errors import Errors, Uncertainty, one_step_errors, uncertainty
from spdelaw.evaluation.checks.outside import outliers, outside, spoilt_by
from spdelaw.evaluation.checks.over_time import changes, periods_of, season
from spdelaw.law.law import Law
from spdelaw.law.prediction import in_parts
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting

Array = np.ndarray

#: Errors that are tested at most; of more, the first paths, or the first times of a single one.
MOST = 4_000_000
#: Size of a nonlinear term in a mode, relative to its largest one, that is rounding, as where the
#: symmetry of a ring lets it vanish.
VANISHES = 1e-10
#: Mean of the values, in standard deviations, from which on terms of a law may lack an origin, and
#: do lack it.
OFFSET, FAR_FROM_ZERO = 10.0, 100.0
#: Bytes of Gram matrices, one for each of these times, at most.
MOST_GRAM_BYTES = 400e6


@dataclasses.dataclass(frozen=True, eq=False)
class Suite:
    """A law on data, ready to be tested.

    Attributes:
        law: without preparation or forcing.
        errors: of the data under it.
        uncertainty: of its parameters.
        climatology: whether a mean, or a mean of each season, was estimated and taken out.
        detrended: whether a line in time was.
        clock: attributes of the times, for seasons.
        mean: that was taken off the coefficients, (N,).
    """

    law: Law
    errors: Errors
    uncertainty: Uncertainty
    climatology: bool
    detrended: bool
    clock: dict
    mean: Array | None = None

    @functools.cached_property
    def series(self) -> list[Series | None]:
        """Every series, made white."""
        z, slopes, growth = self.errors.z, self.errors.slopes, self.errors.growth
        return [
            make_series(
                z[..., n],
                slopes[..., n],
                growth[..., n],
                self._free_columns(n),
                self._estimated_columns(n),
                self.uncertainty,
                n,
            )
            for n in range(z.shape[-1])
        ]

    def without_outliers(self) -> tuple[TestResult, Suite]:
        """The test for outliers, and the suite without those it finds, for all other tests."""
        test, rows, values = outliers(self.law, self.errors, self.series)
        if not rows.any():
            return test, self
        observed = self.errors.observed
        z = np.where(spoilt_by(rows)[..., None], np.nan, self.errors.z)
        observed = observed._replace(values=np.where(values, np.nan, observed.values))
        return test, dataclasses.replace(self, errors=self.errors._replace(z=z, observed=observed))

    def run(self) -> list[TestResult]:
        """All departures."""
        series, z = self.series, self.errors.z
        return [
            departures.variance(series),
            departures.decay(series),
            departures.memory(series, z),
            departures.normality(series),
            *self._means(),
            *self._couplings(),
            *self._nonlinearity(),
            *self._observation_noise(),
            *outside(self.law, self.errors.observed, z.shape[-1]),
        ]

    # ---------- Regressors

    @property
    def _linear(self) -> Linear | None:
        dynamics = self.law.dynamics
        return dynamics if isinstance(dynamics, Linear) else None

    @functools.cached_property
    def _coupled_pairs(self) -> Array:
        """Pairs of modes that the drift couples, (N, N); all of those of other dynamics."""
        n = self.errors.state.shape[-1]
        if self._linear is None or self.errors.unit != "mode":
            return np.full((n, n), self._linear is None)
        drift = operators.as_matrix(self._linear.drift)[:n, :n]
        return (drift != 0) & ~np.eye(n, dtype=bool)

    def _free_columns(self, n: int) -> Array:
        """Columns that the law leaves free: coupled states, an estimated mean; (P, T, k)."""
        state, columns = self.errors.state, []
        if self._linear is not None and self.uncertainty.roots is None:
            columns.append(state)
        elif self._linear is not None and self._coupled_pairs[n].any():
            columns.append(state[..., self._coupled_pairs[n]])
        if self._has_mean:
            columns.append(np.ones((*state.shape[:2], 1)))
        if self.detrended:
            columns.append(self._time[..., None])
        return np.concatenate(columns, -1) if columns else np.zeros((*state.shape[:2], 0))

    def _estimated_columns(self, n: int) -> Array:
        """What the estimated terms of a law that is not linear may be wrong along; (P, T, k)."""
        state = self.errors.state
        if self._linear is not None:
            return np.zeros((*state.shape[:2], 0))
        alone = isinstance(self.law.dynamics, Reacting) and not isinstance(self.law.domain, Fields)
        linear = state[..., n, None] if alone else state
        return np.concatenate([linear, np.moveaxis(self._own_columns[..., n], 0, -1)], -1)

    @property
    def _has_mean(self) -> bool:
        law_has_mean = self._linear is None or self._linear.mean is not None
        return law_has_mean or self.climatology

    @functools.cached_property
    def _time(self) -> Array:
        """Time from -1 to 1; (P, T)."""
        t = np.broadcast_to(self.errors.observed.times, self.errors.z.shape[:2])
        return 2.0 * (t - t.min()) / np.ptp(t) - 1.0

    def _waves(self, period: float) -> Array:
        t = np.broadcast_to(self.errors.observed.times, self.errors.z.shape[:2])
        angles = [2.0 * np.pi * k * t / period for k in (1, 2)]
        return np.stack([f(a) for a in angles for f in (np.cos, np.sin)], -1)

    @functools.cached_property
    def _own_terms(self) -> tuple[str, ...]:
        """Terms that the law leaves free, in addition to its linear part."""
        dynamics, all_terms = self.law.dynamics, nonlinear_terms(self.law.domain, self.law.n_modes)
        if isinstance(dynamics, Reacting) and isinstance(self.law.domain, Interval | Box):
            return dynamics.terms
        return () if self._linear is not None else all_terms

    @functools.cached_property
    def missing_terms(self) -> tuple[str, ...]:
        """Nonlinear terms that the law does not have."""
        names = nonlinear_terms(self.law.domain, self.law.n_modes)
        return tuple(name for name in names if name not in self._own_terms)

    @functools.cached_property
    def _own_columns(self) -> Array:
        return self._columns_of(self._own_terms)

    def _columns_of(self, terms: tuple[str, ...], mean: Array | None = None) -> Array:
        """Projections of terms of the field, its mean included; (terms, P, T, N).

        Per deviation of a step, less their mean where that is free.
        """
        mean = self.mean if mean is None else mean
        field = self.errors.state + (0.0 if mean is None else mean)
        out = projections(field, self.errors.observed, self.law.domain, terms)
        largest = np.sqrt(np.nanmax(np.nansum(out**2, (1, 2), keepdims=True), -1, keepdims=True))
        if self._has_mean:
            out -= np.nanmean(out, (1, 2), keepdims=True)
        out *= np.sqrt(np.nansum(out**2, (1, 2), keepdims=True)) > VANISHES * largest
        return np.asarray(out / self._step_deviations)

    @functools.cached_property
    def _step_deviations(self) -> Array:
        """Standard deviation of a typical step of each mode, relative to the largest; (N,)."""
        n = self.law.n_modes
        if self._linear is None:
            return np.ones(n)
        step = self.errors.observed.step
        covariance = self._linear.over(np.array([step]), np.zeros(1)).covariance[0]
        deviations = np.sqrt(operators.diagonal(covariance)[:n])
        return deviations / deviations.max()

    @functools.cached_property
    def _decay_factors(self) -> Array:
        n = self.errors.z.shape[-1]
        if self._linear is None or self.errors.unit != "mode":
            return np.ones(n)
        step = self.errors.observed.step
        return np.exp(-step * np.maximum(operators.diagonal(self._linear.drift)[:n], 0.0))

    # ---------- Groups of tests

    def _means(self) -> list[TestResult]:
        one = np.ones((*self.errors.z.shape[:2], 1))
        results = []

        def level(series: Series) -> Array:
            return series.column(one)

        def regress(test: str, columns: Array, free: bool = True) -> TestResult:
            given = level if free and not self._has_mean else None
            parts = departures.regress_each(self.series, lambda _, s: s.column(columns), given)
            return regression(test, parts)

        if not self._has_mean:
            results.append(regress("mean", one, free=False))
        if not self.detrended:
            results.append(regress("trend", self._time[..., None]))
        times = self.errors.observed.times
        periods = periods_of(times, self.clock)
        if not periods:
            results.append(season("season", self.series, times, squares=False))
            results.append(season("noise season", self.series, times, squares=True))
        clock = np.broadcast_to(times, one.shape[:2])
        results += changes(self.series, self.errors.state, clock)
        for period in periods:
            waves = self._waves(period.length)
            if not self.climatology:
                results.append(regress(f"season {period.name}", waves))
            results.append(self._noise_season(period.name, waves))
        return results

    def _noise_season(self, name: str, waves: Array) -> TestResult:
        def columns(_: int, series: Series) -> Array:
            return series.column(waves)

        return departures.regress_squares(f"noise season {name}", self.series, columns)

    def _couplings(self) -> list[TestResult]:
        coupled_noise = self._linear is not None and self._linear.noise.ndim == 2
        share = self.errors.z[..., 0].size / self.uncertainty.n_train
        shrink = 1.0 + share if coupled_noise else 1.0
        results = [departures.coupling(self.series, self.errors.state, self._coupled_pairs, shrink)]
        if not coupled_noise:
            results.append(departures.correlation(self.series))
        return results

    def _nonlinearity(self) -> list[TestResult]:
        """Nonlinear drift, and noise that grows with the state."""
        state = self.errors.state
        energy = (state**2).sum(-1)
        size = np.nanmean(state**2, (0, 1))
        squares = state**2 / np.where(size > 0, size, 1.0)  # a mode that forgets at once has none

        def energy_columns(n: int, one: Series) -> Array:
            return one.column(np.stack([squares[..., n], energy / np.nanmean(energy)], -1))

        columns = [None if s is None else energy_columns(n, s) for n, s in enumerate(self.series)]
        results = [departures.regress_shared("growth", self.series, columns, squares=True)]
        if self.missing_terms and self.errors.unit == "mode":
            results.append(self._nonlinear_drift())
        return results + self._offset()

    def _nonlinear_drift(self) -> TestResult:
        """Nonlinear drift; ``place``: which of the terms explains most alone."""
        result = self._regress_terms("bend", self._columns_of(self.missing_terms))
        several = len(self.missing_terms) > 1 and np.isfinite(result.detail)
        best = self.missing_terms[int(result.detail) if several else 0]
        return dataclasses.replace(result, place=best)

    def _regress_terms(self, test: str, values: Array) -> TestResult:
        table = np.moveaxis(values, 0, -1)
        columns = [
            None if s is None else s.column(table[..., n, :]) for n, s in enumerate(self.series)
        ]
        return departures.regress_shared(test, self.series, columns)

    def _offset(self) -> list[TestResult]:
        """Powers of fluctuations, where a law with terms has those of values far from zero.

        Very far from it no data distinguish such powers, whatever the errors are. ``detail``: the
        mean of the values.
        """
        values = self.errors.observed.values
        centre, spread = float(np.nanmean(values)), float(np.nanstd(values))
        if self._linear is not None or abs(centre) < OFFSET * spread:
            return []
        mean = -np.nanmean(self.errors.state, (0, 1))
        result = self._regress_terms("offset", self._columns_of(POWERS, mean))
        p = 0.0 if abs(centre) > FAR_FROM_ZERO * spread else result.p
        return [dataclasses.replace(result, detail=centre, p=p)]

    def _observation_noise(self) -> list[TestResult]:
        """Noise of observation under a law that has none.

        Noise of variance r in the values has ``r g_n`` in mode n, ``g = diag (Phi' Phi)^-1``, and
        makes errors turn back: ``E z_t z_{t-1} = -r g_n F_n / Omega_n``, with one r for all modes.
        """
        errors, linear = self.errors, self._linear
        is_noise_free = linear is not None and not self.law.observation_variance.any()
        if linear is None or not is_noise_free or errors.unit != "mode":
            return []
        basis, n_modes = errors.observed.basis(self.law.n_modes), self.law.n_modes
        step = errors.observed.step
        omega = linear.over(np.array([step]), np.zeros(1)).covariance[0]
        share = np.diag(np.linalg.pinv(basis.T @ basis)) / operators.diagonal(omega)[:n_modes]
        before = np.zeros(errors.z.shape)
        before[:, 1:] = -errors.z[:, :-1] * (share * self._decay_factors)
        columns = [
            None if s is None else s.column(before[..., n, None]) for n, s in enumerate(self.series)
        ]
        return [departures.regress_shared("observation noise", self.series, columns)]


def _first_times(law: Law, observed: Observed) -> Observed:
    """The first times of a single path, as many as are tested."""
    if observed.n_paths > 1 or observed.has_own_clocks:
        return observed
    n = law.dynamics.n_modes
    most = max(2, int(min(MOST / n, MOST_GRAM_BYTES / (8.0 * n**2))))
    return observed.at_times(slice(most)) if most < len(observed.times) else observed


def is_training(law: Law, observed: Observed) -> bool:
    """Whether the law was learned from these very data, its mean still in them."""
    named = (law.info.log_likelihood_of or {}).get("fingerprint")
    if not named:
        return False
    observed = (observed if in_parts(law, observed) else observed.in_memory()).where_observed()
    return bool(named == checksum(observed.fields, observed.reading))


def suite_of(law: Law, observed: Observed, whole: Law, on_training_data: bool) -> Suite:
    """The suite of a bare law on its data.

    Args:
        law: without preparation, mean or forcing.
        observed: prepared for it, at points and times that have observations.
        whole: the law with its preparation.
        on_training_data: whether it was learned from them.
    """
    errors = one_step_errors(law, _first_times(law, observed))
    n_paths = max(1, MOST // max(int(np.prod(errors.z.shape[1:])), 1))
    if n_paths < len(errors.z):
        errors = errors._replace(
            z=errors.z[:n_paths],
            state=errors.state[:n_paths],
            slopes=errors.slopes[:, :n_paths],
            growth=errors.growth[:, :n_paths],
            observed=errors.observed.paths(slice(n_paths)),
        )
    parameter_uncertainty = uncertainty(law, errors.z.shape[-1], errors.unit, on_training_data)
    how = None if whole.preparation is None else whole.preparation.how
    clock = dict(whole.info.get("time", {}))
    mean = whole.dynamics.mean if isinstance(whole.dynamics, Linear) else None
    climatology = mean is not None or (how is not None and how.anomalies is not None)
    detrended = how is not None and how.detrend
    mean = None if mean is None else mean[: law.n_modes]
    return Suite(law, errors, parameter_uncertainty, climatology, detrended, clock, mean)
