"""The numbers of each figure, computed once for both drawings: matplotlib and the HTML page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.spde import SpectralSPDE

Array = np.ndarray

#: Two-sided 95 % of a normal.
Z95 = 1.959963984540054


def error_bars(rows: Array) -> Array:
    """Distances (2, n) from the estimates to both ends of their intervals.

    ``rows`` are estimate, standard error, lower and upper end, (n, 4). A bar has length zero where
    an end is not finite: the data do not determine the number.
    """
    estimate, _, lower, upper = rows.T
    bounded = np.isfinite(lower) & np.isfinite(upper)
    return np.where(bounded, [estimate - lower, upper - estimate], 0.0)


# ---------- Spectra: decay rates and noise variances with intervals


@dataclasses.dataclass(frozen=True)
class Spectra:
    """Decay rates and noise variances of a linear law.

    Attributes:
        decay: decay rate of each mode, or of each eigenmode of a drift that couples modes;
            (n, 4), estimate, standard error and interval.
        noise: noise variance of each mode; (n_modes, 4).
        unit: "mode", or "eigenmode", that ``decay`` runs over.
        true_decay, true_noise: those of the true equation; empty where it is not known.
    """

    decay: Array
    noise: Array
    unit: str
    true_decay: Array
    true_noise: Array


def spectra(law: Law, truth: SpectralSPDE | None = None) -> Spectra | None:
    """Spectra of a linear law, with those of the true equation; None for other dynamics."""
    if not isinstance(law.dynamics, Linear):
        return None
    true = (np.zeros(0), np.zeros(0)) if truth is None else _true_spectra(law, truth)
    table = law.parameters
    if "eigenvalue" in table:
        return Spectra(table["eigenvalue"].values, table["noise_variance"].values, "mode", *true)
    diagonal = np.arange(law.n_modes)
    noise = table["noise_covariance"].values[diagonal, diagonal]
    return Spectra(law.eigenmodes()["decay_rate"].values, noise, "eigenmode", *true)


def _true_spectra(law: Law, truth: SpectralSPDE) -> tuple[Array, Array]:
    """Decay rates and noise variances of an equation, in the order of the law's."""
    n = min(law.n_modes, truth.n_modes)
    if "eigenvalue" in law.parameters:
        return np.diag(truth.drift_matrix)[:n], truth.noise_variance[:n]
    # A pair of complex eigenvalues is one eigenmode.
    eigenvalues = np.linalg.eigvals(truth.drift_matrix[:n, :n])
    return np.sort(eigenvalues[eigenvalues.imag >= 0].real), truth.noise_variance[:n]


# ---------- Forecast: mean and bands


#: Probability inside each band of a forecast, wide first.
BAND_PROBABILITIES = (0.95, 0.5)


@dataclasses.dataclass(frozen=True)
class ForecastFan:
    """Mean of a forecast, and lower and upper end of each band by its probability."""

    mean: Any
    bands: dict[float, tuple[Any, Any]]


def forecast_fan(mean: Any, std: Any) -> ForecastFan:
    """Bands ``mean ± z std`` of a Gaussian forecast."""
    reach = {p: float(scipy.special.ndtri(0.5 + 0.5 * p)) for p in BAND_PROBABILITIES}
    return ForecastFan(mean, {p: (mean - z * std, mean + z * std) for p, z in reach.items()})


# ---------- Innovations: distribution and autocorrelation


#: Bins of the histogram and lags of the correlations.
BINS, LAGS = 20, 10


@dataclasses.dataclass(frozen=True)
class InnovationStatistics:
    """Histogram of the probability integral transform and autocorrelation of innovations.

    Attributes:
        bins, density: middles of the bins, and density of ``Phi(z)`` in them.
        density_reach: 95 % of histograms of calibrated innovations lie within 1 ± this, bin by bin.
        lags, correlation: of each series with its past, (series, lag).
        correlation_reach: 95 % of correlations of independent series lie within ± this, by lag.
    """

    bins: Array
    density: Array
    density_reach: float
    lags: Array
    correlation: Array
    correlation_reach: Array


def innovation_statistics(z: Array) -> InnovationStatistics:
    """Statistics of innovations (path, step, series); NaN is missing."""
    observed = z[~np.isnan(z)]
    n = max(observed.size, 1)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    density = np.histogram(scipy.special.ndtr(observed), edges)[0] / n * BINS
    reach = float(Z95 * np.sqrt((BINS - 1) / n))
    return InnovationStatistics(
        0.5 * (edges[1:] + edges[:-1]), density, reach, *_autocorrelations(z)
    )


def _autocorrelations(z: Array) -> tuple[Array, Array, Array]:
    """Lags, correlation of each series with its past (series, lag), and 95 % reach by lag."""
    lags = np.arange(1, max(1, min(LAGS, z.shape[1] - 2)) + 1)
    correlation = np.full((z.shape[-1], len(lags)), np.nan)
    pairs = np.zeros((z.shape[-1], len(lags)))
    square = np.nansum(z**2, (0, 1)) / np.maximum((~np.isnan(z)).sum((0, 1)), 1)
    for i, lag in enumerate(lags):
        product = z[:, lag:] * z[:, :-lag]
        pairs[:, i] = (~np.isnan(product)).sum((0, 1))
        total = np.nansum(product, (0, 1))
        enough = (pairs[:, i] > 0) & (square > 0)
        correlation[enough, i] = total[enough] / pairs[enough, i] / square[enough]
    return lags, correlation, Z95 / np.sqrt(np.maximum(np.median(pairs, axis=0), 1.0))


# ---------- Calibration: share of held-out values inside intervals of each level


#: Levels of the coverage curve.
LEVELS = np.round(np.concatenate([np.arange(0.05, 1.0, 0.05), [0.99]]), 2)


def coverage_curve(mean: Array, std: Array, truth: Array) -> Array:
    """Share of values inside the central intervals of the `LEVELS`; NaN is missing."""
    there = ~np.isnan(truth) & (std > 0)
    if not there.any():
        return np.full(len(LEVELS), np.nan)
    distance = np.abs(truth - mean)[there] / std[there]
    return np.array([(distance <= scipy.special.ndtri(0.5 + 0.5 * p)).mean() for p in LEVELS])


# ---------- Skill: a score by lead, with its interval


@dataclasses.dataclass(frozen=True)
class SkillCurve:
    """One score of one method by lead.

    Attributes:
        leads: positions, a little apart for each method, so that no mark hides another.
        estimate: value of the score.
        bars: distances (2, n) from the estimates to both ends of their intervals.
    """

    leads: Array
    estimate: Array
    bars: Array


#: Distance of two methods relative to the smallest step of leads.
OFFSET_SHARE = 0.06


def skill_curves(document: Mapping[str, Any], score: str) -> dict[str, SkillCurve]:
    """Curve of each method, from the plain form of a `spdelaw.evaluation.Skill`."""
    leads, methods = np.asarray(document["leads"], float), document["scores"]
    offset = OFFSET_SHARE * (float(np.diff(leads).min()) if len(leads) > 1 else 1.0)
    curves = {}
    for k, (method, scores) in enumerate(methods.items()):
        value, low, high = _columns(scores[score], ("estimate", "lower", "upper"))
        bars = np.maximum([value - low, high - value], 0.0)
        curves[method] = SkillCurve(leads + offset * (k - (len(methods) - 1) / 2), value, bars)
    return curves


def _columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Array:
    """Entries of rows as numbers, (name, row); None is NaN."""
    return np.array([[row[name] for row in rows] for name in names], float)


# ---------- Reaction of a semilinear law: a curve with its band over the values of the data


#: Points of the curve, and bars of the histogram below it.
POINTS, BARS = 121, 40
#: Quantiles of the data between which the curve is drawn.
CURVE_QUANTILES = (0.002, 0.998)


@dataclasses.dataclass(frozen=True)
class ReactionFigure:
    """Reaction over values of the field, and how often the data have them.

    Attributes:
        values: of the field, (n,).
        reaction, low, high: rate of change by the reaction, and its band.
        level: probability of the band.
        bins, share: middles of a histogram of the data, and the share of values in each bin.
    """

    values: Array
    reaction: Array
    low: Array
    high: Array
    level: float
    bins: Array
    share: Array


def reaction_curve(law: Law, table: Array, u: Array) -> tuple[Array, Array]:
    """``f(u) = sum_t theta_t g_t(u) - kappa u`` and its standard deviation.

    ``table`` has the values ``g_t(u)`` of the terms, (n_terms, n). The standard deviation is
    ``(g' Cov(theta) g)^(1/2)``.
    """
    kappa = float(law.info.get("estimates", {}).get("kappa", 0.0))
    n = len(table)
    covariance = np.asarray(law.info.get("term_covariance", np.zeros((n, n))), float)
    variance = np.einsum("tu,ts,su->u", table, covariance.reshape(n, n), table)
    values = law.dynamics.parameters["coefficient"] @ table - kappa * u
    return values, np.sqrt(np.maximum(variance, 0.0))


def reaction_figure(law: Law, data: Array, terms: Any) -> ReactionFigure:
    """Curve over the values of the data; ``terms(u)`` gives the values of the terms."""
    observed = data[np.isfinite(data)]
    low, high = np.quantile(observed, CURVE_QUANTILES)
    u = np.linspace(low, high, POINTS)
    f, std = reaction_curve(law, terms(u), u)
    level = float(law.parameters.attrs["interval_level"])
    z = float(scipy.special.ndtri(0.5 + 0.5 * level))
    count, edges = np.histogram(observed, BARS, (low, high))
    middle = 0.5 * (edges[1:] + edges[:-1])
    return ReactionFigure(u, f, f - z * std, f + z * std, level, middle, count / count.sum())
