"""The four tasks a law is judged by, told apart by what it has seen of a path.

- reconstruct: the whole path is seen, the same values are scored;
- predict: the first time is seen, all later times are scored;
- forecast: the first half of the times is seen, the second half is scored;
- gaps: all but a random fifth of the values are seen, that fifth is scored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.data import observe
from spdelaw.evaluation._trajectory import coverage, gaussian_crps
from spdelaw.law import Law, modes_at, noise_at, relative_l2, rmse, undriven

Array = np.ndarray
TIERS = ("reconstruct", "predict", "forecast", "gaps")

#: Share of the observed values that the tier "gaps" holds out.
HELD_OUT = 0.2


class TierScore(NamedTuple):
    """Scores of one tier."""

    relative_l2: float
    rmse: float
    crps: float
    coverage: float


def tier_masks(values: Array, tier: str, seed: int) -> tuple[Array, Array]:
    """What is seen and what is scored; boolean (path, time, x)."""
    there = ~np.isnan(values)
    later = np.zeros_like(there)
    later[:, 1:] = True
    if tier == "reconstruct":
        return there, there & later
    if tier == "predict":
        return there & ~later, there & later
    if tier == "forecast":
        half = np.arange(values.shape[1]) < values.shape[1] // 2
        return there & half[:, None], there & ~half[:, None]
    held = np.random.default_rng(seed).uniform(size=values.shape) < HELD_OUT
    return there & ~held, there & held & later


class Predicted(NamedTuple):
    """What a law says about the scored values of a tier, noise included; each (path, time, x)."""

    mean: Array
    std: Array
    truth: Array


def predict_tier(law: Law, data: Any, tier: str, seed: int, parameter_draws: int = 0) -> Predicted:
    """Predictive mean and standard deviation of the values that a tier scores, NaN elsewhere.

    ``parameter_draws`` as in `spdelaw.Law.reconstruct`.
    """
    own = undriven(law, data).flat
    values = own.fields.values
    seen, scored = tier_masks(values, tier, seed)
    shown = own if tier == "reconstruct" else own.masked(seen)
    result = law.reconstruct(shown, parameter_draws=parameter_draws, seed=seed)
    mean, std = result["mean"].values, result["std"].values
    noise = np.broadcast_to(noise_at(law, own.points), values.shape[-1:])
    mean, truth = (np.where(scored, part, np.nan) for part in (mean, values))
    return Predicted(mean, np.sqrt(std**2 + noise), truth)


def score_tier(law: Law, data: Any, tier: str, seed: int, level: float) -> TierScore:
    """Scores of the law's mean and intervals against the data, noise included."""
    mean, std, truth = predict_tier(law, data, tier, seed)
    return TierScore(
        relative_l2(mean, truth),
        rmse(mean, truth),
        float(np.nanmean(gaussian_crps(mean, std, truth))),
        coverage(mean, std, truth, level),
    )


def projection_floor(data: Any, law: Law) -> TierScore:
    """Least-squares projection of the paths on the law's modes: no reconstruction beats it."""
    own = undriven(law, data)
    values, basis = own.fields.values, modes_at(law, own.places)
    projected = np.full(values.shape, np.nan)
    rows, flat = values.reshape(-1, values.shape[-1]), projected.reshape(-1, values.shape[-1])
    seen = ~np.isnan(rows)
    complete = seen.all(1)
    flat[complete] = rows[complete] @ (basis @ np.linalg.pinv(basis)).T
    for i in np.flatnonzero(~complete & seen.any(1)):
        at = seen[i]
        flat[i, at] = basis[at] @ np.linalg.lstsq(basis[at], rows[i, at], rcond=None)[0]
    projected[:, 0] = np.nan
    truth = np.where(np.isnan(projected), np.nan, values)
    return TierScore(relative_l2(projected, truth), rmse(projected, truth), np.nan, np.nan)


def mean_predictor(data: Any, equation: Any) -> TierScore:
    """The exact mean of the true law: the best in mean square that sees only the first state."""
    own = observe(data, equation.domain)
    fields, basis = own.fields, own.basis(equation.n_modes)
    at_modes = equation.mean(fields["time"].values).values
    mean = np.broadcast_to(at_modes @ basis.T, fields.shape).copy()
    mean[:, 0] = np.nan
    truth = np.where(np.isnan(mean), np.nan, fields.values)
    mean = np.where(np.isnan(truth), np.nan, mean)
    return TierScore(relative_l2(mean, truth), rmse(mean, truth), np.nan, np.nan)
