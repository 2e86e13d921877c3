"""Memory of the residual, the part of the fields that the modes do not explain.

At each point the residuals r have the covariance of an Ornstein-Uhlenbeck process and white noise,

    E r(t)^2 = v + w,      E r(t) r(t + dt) = v exp(-a dt).

Products of rows one and two apart are averaged with their actual ``exp(-a dt)``, so that gaps and
irregular times enter with their actual lengths. Both lags of all points together give the share of
w, the first lag of each point its decay. The correlation of a point with few pairs is shrunk
towards that of all points, by the share of their spread that sampling explains.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.infer.model import Model
from spdelaw.law.law import Law
from spdelaw.law.observations import noisy_state_space, observed_for_law, smooth_fields, weights_of
from spdelaw.law.residuals import Residual

Array = np.ndarray

#: Largest lag, in rows, that the memory is estimated from.
LAGS = 2
#: Tried memories, as correlations over a median step.
TRIED_CORRELATIONS = np.concatenate([[1e-3], np.linspace(0.02, 0.98, 97), [0.99, 0.995, 0.999]])
#: Level of the test of "auto", and the least correlation of neighbours that is worth a memory:
#: below, errors of one step fall by less than half a percent.
FALSE_ALARM, LEAST_CORRELATION = 1e-4, 0.1


def with_residual(law: Law, observed: Observed, model: Model) -> Law:
    """The law with the memory of its residual: for "memory", or for "auto" where significant."""
    if model.rest == "white":
        return law
    law_observed = observed_for_law(law, observed)
    space, basis = noisy_state_space(law, law_observed), law_observed.basis(law.dynamics.n_modes)
    mean = smooth_fields(
        law_observed.values, law_observed.times, basis, space, basis, weights_of(law, law_observed)
    ).mean
    residuals = law_observed.values - mean
    tested = memory_test(residuals)
    decision = {"word": model.rest, **tested}
    if model.rest == "auto" and not tested["found"]:
        return law.with_info(rest=decision | {"answer": "white"})
    residual = learn_residual(residuals, law_observed.times, model.known_variance)
    law = law.with_info(rest=decision | {"answer": "memory"})
    return dataclasses.replace(law, rest=residual)


def memory_test(residuals: Array) -> dict[str, float | bool]:
    """Whether neighbours in time are alike: mean of ``s_t = sum_j r_j(t) r_j(t+1)`` over its error.

    Of a residual that is white in time the sums s_t are uncorrelated, however alike the points are.
    """
    count = np.maximum(np.isfinite(residuals).sum((0, 1)), 1)
    scale = np.nansum(residuals**2, axis=(0, 1)) / count
    r = residuals / np.sqrt(np.where(scale > 0, scale, np.nan))
    products = r[:, 1:] * r[:, :-1]
    is_pair = np.isfinite(products)
    sums = np.where(is_pair, products, 0.0).sum(-1)[is_pair.any(-1)]
    n, pairs = len(sums), int(is_pair.sum())
    correlation = float(sums.sum() / pairs) if pairs else 0.0
    spread = float(sums.std(ddof=1)) if n > 1 else 0.0
    z = float(sums.mean() / spread * np.sqrt(n)) if spread > 0 else 0.0
    p = float(scipy.special.stdtr(max(n - 1, 1), -z))
    has_memory = bool(p < FALSE_ALARM and correlation > LEAST_CORRELATION)
    return {"correlation": correlation, "p_value": p, "found": has_memory}


def learn_residual(residuals: Array, times: Array, fixed_noise: float | Array | None) -> Residual:
    """Decay, variance and white variance per point; the latter fixed where the noise is known."""
    step = float(np.median(np.diff(times, axis=-1)))
    decays = -np.log(TRIED_CORRELATIONS) / step
    products, pairs, decayed = _lag_products(residuals, times, decays)
    pooled = _pooled_correlations(products, pairs)
    total, neighbours = _shrunk_moments(products, pairs, pooled)
    share: float | Array
    if fixed_noise is None:
        share = _memory_share(pairs, decayed, pooled)
    else:
        share = 1.0 - np.clip(fixed_noise / np.where(total > 0, total, 1.0), 0.0, 1.0)
    best = _nearest_decay(neighbours, decayed[0], share)
    return Residual(decays[best], share * total, (1.0 - share) * total)


def _lag_products(residuals: Array, times: Array, decays: Array) -> tuple[Array, Array, Array]:
    """Products of residuals by rows apart: their sums and numbers, (1 + LAGS, M) each.

    Last, (LAGS, M, A), the mean of ``exp(-a dt)`` over the pairs for each tried decay.
    """
    clock = np.broadcast_to(times, residuals.shape[:2])
    products, pairs, decayed = [], [], []
    for k in range(min(LAGS + 1, residuals.shape[1])):
        product = residuals[:, k:] * residuals[:, : residuals.shape[1] - k]
        is_pair = np.isfinite(product)
        products.append(np.where(is_pair, product, 0.0).sum((0, 1)))
        pairs.append(is_pair.sum((0, 1)))
        if k:
            apart = (clock[:, k:] - clock[:, :-k]).ravel()
            kept = is_pair.reshape(len(apart), -1).astype(float)
            decay_factors, count = np.exp(-apart[:, None] * decays), pairs[-1][:, None]
            mean = kept.T @ decay_factors / np.maximum(count, 1)
            decayed.append(np.where(count > 0, mean, decay_factors.mean(0)))
    return np.array(products), np.array(pairs, float), np.array(decayed)


def _pooled_correlations(products: Array, pairs: Array) -> Array:
    """Correlation at each lag over all points, each with its own variance; (1 + LAGS,)."""
    variance = products[0] / np.maximum(pairs[0], 1)
    is_positive = variance > 0
    ratio = products[:, is_positive] / variance[is_positive]
    return ratio.sum(1) / np.maximum(pairs[:, is_positive].sum(1), 1)


def _shrunk_moments(products: Array, pairs: Array, pooled: Array) -> tuple[Array, Array]:
    """Variance and correlation of neighbours per point, both shrunk to those of all points."""
    n = np.maximum(pairs, 1e-9)
    mean = products / n
    rho = np.clip(pooled[1], -0.99, 0.99) if len(pooled) > 1 else 0.0
    independent = n[0] * (1.0 - rho**2) / (1.0 + rho**2)
    log_total = np.log(np.maximum(mean[0], 1e-300))
    counted = pairs[0] > 1
    middle = float(np.average(log_total[counted], weights=n[0][counted])) if counted.any() else 0.0
    keep = _kept_share(log_total - middle, 2.0 / independent, counted)
    total = np.exp(middle + keep * np.where(counted, log_total - middle, 0.0))
    deviation = mean[1] / np.where(mean[0] > 0, mean[0], 1.0) - pooled[1]
    counted = pairs[1] > 1
    keep = _kept_share(deviation, (1.0 - rho**2) / n[1], counted)
    return total, pooled[1] + keep * np.where(counted, deviation, 0.0)


def _kept_share(deviation: Array, sampling: Array, counted: Array) -> Array:
    """Share of each deviation from the mean that is no sampling error (empirical Bayes)."""
    if counted.sum() < 2:
        return np.zeros(len(deviation))
    weight = 1.0 / sampling[counted]
    spread = float(np.average(deviation[counted] ** 2, weights=weight))
    real = max(spread - float(np.average(sampling[counted], weights=weight)), 0.0)
    return np.where(counted, real / (real + sampling), 0.0)


def _memory_share(pairs: Array, decayed: Array, pooled: Array) -> float:
    """Part of the variance that has memory, by least squares of ``share exp(-a dt)`` on all points.

    One number for all: two lags of a single point carry too little. Climatology and modes remove
    slow parts of the residuals, which makes later lags too small: such residuals have share 1.
    """
    weight = pairs[1:].sum(1, keepdims=True)
    curve = (pairs[1:, :, None] * decayed).sum(1) / np.maximum(weight, 1.0)
    correlation = pooled[1:, None]
    share = np.clip((weight * correlation * curve).sum(0) / (weight * curve**2).sum(0), 0.0, 1.0)
    loss = (weight * (correlation - share * curve) ** 2).sum(0)
    return float(share[loss.argmin()])


def _nearest_decay(neighbours: Array, decayed: Array, share: float | Array) -> Array:
    """Index of the decay that gives neighbours in time the correlation they have; (M,)."""
    share_column = np.broadcast_to(share, neighbours.shape)[:, None]
    return np.abs(neighbours[:, None] - share_column * decayed).argmin(-1)
