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

from spdelaw.data import Observed, observe
from spdelaw.evaluation._trajectory import Sums, error_sums, score_sums, total
from spdelaw.law import Law, Unread, modes_at, noise_at, parts_of, undriven

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


def score_tier(law: Law, data: Any, tier: str, seed: int, level: float, scale: float) -> TierScore:
    """Scores of the law's mean and intervals against the data, noise included.

    Args:
        law: bare.
        data: one record may be lazy, in chunks of times.
        tier: one of `TIERS`.
        seed: of values held out.
        level: of the intervals.
        scale: of the data: deviations that are rounding beside it belong to what is known.
    """
    own = undriven(law, data).flat
    if not own.is_lazy:
        predicted = predict_tier(law, own, tier, seed)
        return TierScore(*total([score_sums(*predicted, level, scale)]))
    found = law.reconstruct(own if tier == "reconstruct" else _seen(own, tier, seed))
    given = (tier, seed, len(own.times), noise_at(law, own.points), level, scale)
    return TierScore(*total(over_parts(_part_sums, own, [found["mean"], found["std"]], *given)))


def over_parts(function: Callable, own: Observed, beside: list, *parameters: Any) -> list:
    """``function(values, ..., first row, *parameters)`` of each part of times, of all together.

    Args:
        function: of values (P, t, M), of the same times of what is beside, and of the first row.
        own: lazy as one record, or in memory, which is one part.
        beside: further arrays over (path, time, point).
        parameters: the same for all parts.
    """
    if not own.is_lazy:
        return [function(own.fields.values, *(part.values for part in beside), 0, *parameters)]
    import dask

    call = dask.delayed(_of_unread, pure=False)
    return list(dask.compute(*(
        call(function, Unread(own.fields.isel(time=rows).data),
             [part.isel(time=rows).data for part in beside], rows.start, parameters)
        for rows in parts_of(own)
    )))  # fmt: skip


def _of_unread(
    function: Callable, values: Unread, beside: list, first: int, parameters: tuple
) -> Any:
    return function(values.read(), *beside, first, *parameters)


def _seen(own: Observed, tier: str, seed: int) -> Observed:
    """A lazy record without what a tier does not see."""
    n_times, values = len(own.times), own.values.rechunk({2: -1})

    def seen(block: Array, block_info: Any = None) -> Array:
        first = block_info[0]["array-location"][1][0]
        return np.where(tier_masks(block, tier, seed, first, n_times)[0], block, np.nan)

    lazy = values.map_blocks(seen, dtype=float, meta=np.zeros((0, 0, 0)))
    return own._replace(survey=None).holding(own.fields.copy(data=lazy))


def _part_sums(
    values: Array, mean: Array, std: Array, first: int, tier: str, seed: int, n_times: int,
    noise: Array, level: float, scale: float,
) -> Sums:  # fmt: skip
    scored = tier_masks(values, tier, seed, first, n_times)[1]
    prediction, truth = (np.where(scored, part, np.nan) for part in (mean, values))
    return score_sums(prediction, np.sqrt(std**2 + noise), truth, level, scale)


def projection_floor(data: Any, law: Law) -> TierScore:
    """Least-squares projection of the paths on the law's modes: no reconstruction beats it."""
    own = undriven(law, data)
    return TierScore(*total(over_parts(_projection_sums, own, [], modes_at(law, own.places))))


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


def mean_predictor(data: Any, equation: Any) -> TierScore:
    """The exact mean of the true law: the best in mean square that sees only the first state."""
    own = observe(data, equation.domain)
    at_modes = equation.mean(own.fields["time"].values).values
    found = over_parts(_mean_sums, own, [], at_modes, own.basis(equation.n_modes))
    return TierScore(*total(found))


def _mean_sums(values: Array, first: int, at_modes: Array, basis: Array) -> Sums:
    rows = at_modes[first : first + values.shape[1]] @ basis.T
    mean = np.where(np.isnan(values), np.nan, rows)
    mean[:, : first == 0] = np.nan
    return error_sums(mean, values)
