"""The four tasks a law is judged by, told apart by what it has seen of a path.

- reconstruct: the whole path is seen, the same values are scored;
- predict: the first time is seen, all later times are scored;
- forecast: the first half of the times is seen, the second half is scored;
- gaps: all but a random fifth of the values are seen, that fifth is scored.

Scores are made of sums over values, so that one long lazy record is scored part by part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.evaluation._trajectory import Sums, error_sums, score_sums, total
from spdelaw.law import Law, noise_at, parts_of, read_again

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


def tier_masks(
    values: Array, tier: str, seed: int, first: int = 0, n_times: int | None = None
) -> tuple[Array, Array]:
    """What is seen and what is scored; boolean (path, time, x).

    Values of one path may be a part of it, from row ``first`` of ``n_times`` on.
    """
    there = ~np.isnan(values)
    rows = first + np.arange(values.shape[1])[:, None]
    later = rows > 0
    if tier == "reconstruct":
        return there, there & later
    if tier == "predict":
        return there & ~later, there & later
    if tier == "forecast":
        half = rows < (n_times or values.shape[1]) // 2
        return there & half, there & ~half
    generator = np.random.PCG64(seed)
    generator.advance(first * values.shape[-1])  # as if the rows before had been drawn
    held = np.random.Generator(generator).uniform(size=values.shape) < HELD_OUT
    return there & ~held, there & held & later


class Predicted(NamedTuple):
    """What a law says about the scored values of a tier, noise included; each (path, time, x)."""

    mean: Array
    std: Array
    truth: Array


def predict_tier(law: Law, fields: xr.DataArray, tier: str, seed: int) -> Predicted:
    """Predictive mean and standard deviation of the values that a tier scores, NaN elsewhere."""
    values = fields.values
    seen, scored = tier_masks(values, tier, seed)
    result = law.reconstruct(fields.where(seen) if tier != "reconstruct" else fields)
    mean = np.where(scored, result["mean"].values, np.nan)
    noise = np.broadcast_to(noise_at(law, law.domain.places(fields).points), values.shape[-1:])
    std = np.sqrt(result["std"].values ** 2 + noise)
    return Predicted(mean, std, np.where(scored, values, np.nan))


def score_tier(
    law: Law, fields: xr.DataArray, tier: str, seed: int, level: float, scale: float
) -> TierScore:
    """Scores of the law's mean and intervals against the data, noise included.

    Args:
        law: bare.
        fields: flat; one record may be lazy, in chunks of times.
        tier: one of `TIERS`.
        seed: of values held out.
        level: of the intervals.
        scale: of the data: deviations that are rounding beside it belong to what is known.
    """
    if fields.chunks is None:
        predicted = predict_tier(law, fields, tier, seed)
        return TierScore(*total([score_sums(*predicted, level, scale)]))
    n_times, noise = fields.sizes["time"], noise_at(law, law.domain.places(fields).points)
    seen = fields if tier == "reconstruct" else _seen(fields, tier, seed)
    found = law.reconstruct(seen)
    given = (tier, seed, n_times, noise, level, scale)
    return TierScore(*total(over_parts(_part_sums, [fields, found["mean"], found["std"]], *given)))


def over_parts(function: Callable, fields: list[xr.DataArray], *parameters: Any) -> list:
    """``function(values, ..., first row, *parameters)`` of each part of times, of all together.

    Fields that are in memory are one part.
    """
    if fields[0].chunks is None:
        return [function(*(part.values for part in fields), 0, *parameters)]
    import dask

    call, fresh = dask.delayed(function, pure=False), [read_again(fields[0]), *fields[1:]]
    return list(dask.compute(*(
        call(*(part.isel(time=rows).data for part in fresh), rows.start, *parameters)
        for rows in parts_of(fields[0])
    )))  # fmt: skip


def _seen(fields: xr.DataArray, tier: str, seed: int) -> xr.DataArray:
    """Lazy fields without what a tier does not see."""
    n_times, values = fields.sizes["time"], fields.chunk({fields.dims[-1]: -1}).data

    def seen(block: Array, block_info: Any = None) -> Array:
        first = block_info[0]["array-location"][1][0]
        return np.where(tier_masks(block, tier, seed, first, n_times)[0], block, np.nan)

    return fields.copy(data=values.map_blocks(seen, dtype=float, meta=np.zeros((0, 0, 0))))


def _part_sums(
    values: Array, mean: Array, std: Array, first: int, tier: str, seed: int, n_times: int,
    noise: Array, level: float, scale: float,
) -> Sums:  # fmt: skip
    scored = tier_masks(values, tier, seed, first, n_times)[1]
    held = (np.where(scored, part, np.nan) for part in (mean, values))
    prediction, truth = held
    return score_sums(prediction, np.sqrt(std**2 + noise), truth, level, scale)


def projection_floor(fields: xr.DataArray, law: Law) -> TierScore:
    """Least-squares projection of the paths on the law's modes: no reconstruction beats it."""
    basis = law.domain.eigenfunctions(law.domain.places(fields).points, law.dynamics.n_modes)
    return TierScore(*total(over_parts(_projection_sums, [fields], basis)))


def _projection_sums(values: Array, first: int, basis: Array) -> Sums:
    projected = np.full(values.shape, np.nan)
    rows, flat = values.reshape(-1, values.shape[-1]), projected.reshape(-1, values.shape[-1])
    seen = ~np.isnan(rows)
    complete = seen.all(1)
    flat[complete] = rows[complete] @ (basis @ np.linalg.pinv(basis)).T
    for i in np.flatnonzero(~complete & seen.any(1)):
        at = seen[i]
        flat[i, at] = basis[at] @ np.linalg.lstsq(basis[at], rows[i, at], rcond=None)[0]
    projected[:, : first == 0] = np.nan
    return error_sums(projected, values)


def mean_predictor(fields: xr.DataArray, equation: Any) -> TierScore:
    """The exact mean of the true law: the best in mean square that sees only the first state."""
    basis = equation.domain.eigenfunctions(equation.domain.places(fields).points, equation.n_modes)
    at_modes = equation.mean(fields["time"].values).values
    return TierScore(*total(over_parts(_mean_sums, [fields], at_modes, basis)))


def _mean_sums(values: Array, first: int, at_modes: Array, basis: Array) -> Sums:
    rows = at_modes[first : first + values.shape[1]] @ basis.T
    mean = np.where(np.isnan(values), np.nan, rows)
    mean[:, : first == 0] = np.nan
    return error_sums(mean, values)
