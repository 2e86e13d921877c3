"""Scores of several laws on the same held-out values, and how sure their differences are.

Log scores are log densities of the observed values as they came,

    log p(X) = log p(y) - sum log s(x),    X = offset + s y,

so that laws with climatologies and scales of their own are comparable. Errors and CRPS are in the
units of the data. Units of the bootstrap are paths or, of few paths, stretches of time: what lies
in one of them is drawn together, for all laws alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.data import Observed
from spdelaw.errors import DataError
from spdelaw.evaluation._tiers import tier_masks
from spdelaw.evaluation._trajectory import gaussian_crps
from spdelaw.law import Law, noise_at, response, undriven

Array = np.ndarray

#: Stretches of time that a record of few paths is cut into, and paths from which these are units.
STRETCHES, ENOUGH_PATHS = 20, 20
#: Values that two laws prepare from one are equal to this, relative to their size.
SAME = 1e-6


class Held(NamedTuple):
    """Data under one law, and the map back to their units at its points, (P, T, M).

    Laws may see different points of one grid: scores are of all its cells, (P, T, G).
    """

    own: Observed
    offset: Array
    scale: Array

    @property
    def raw(self) -> Array:
        """Values in the units of the data, (P, T, G)."""
        return self.on_cells(self.offset + self.scale * self.own.fields.values)

    def on_cells(self, values: Array) -> Array:
        """Values at the points of the law at all cells, NaN where it has no point."""
        return self.own.places.unflatten(values).reshape(*values.shape[:2], -1)

    def seeing(self, cells: Array) -> Observed:
        """The data of which only some cells are seen, boolean (P, T, G)."""
        inside = self.own.places.inside
        return self.own.masked(cells if inside is None else cells[..., inside]).flat


class Scores(NamedTuple):
    """One score of all laws by unit: sums (law, unit), and how many values they are of (unit,)."""

    name: str
    sums: Array
    counts: Array

    @property
    def means(self) -> Array:
        """Score of each law, (law,); a root of squares where it is an RMSE."""
        return _mean(self.name, self.sums, self.counts)

    def draws(self, chosen: Array) -> Array:
        """The same for bootstrap draws of units, (draw, law)."""
        return np.stack([_mean(self.name, self.sums[:, d], self.counts[d]) for d in chosen])


def _mean(name: str, sums: Array, counts: Array) -> Array:
    mean = sums.sum(1) / counts.sum()
    return np.sqrt(mean) if name.startswith("RMSE") else mean


def held_out(law: Law, data: Any) -> Held:
    """Data as a law sees them, less its mean, with offset and scale to go back by."""
    own, how = undriven(law, data).in_memory(), law.preparation
    offset, scale = np.zeros(1), np.ones(1)
    if how is not None and how.how.is_affine:
        offset, scale = how.affine(own.fields["time"].values, own.points)
    if (driven := response(law, own.times, own.points)) is not None:
        offset = offset + scale * driven
    return Held(own, *(np.broadcast_to(part, own.fields.shape) for part in (offset, scale)))


def check_same_values(held: list[Held], names: list[str]) -> None:
    """Refuse laws that do not see the same values of the data."""
    first = held[0].raw
    for name, other in zip(names[1:], held[1:], strict=True):
        same = other.raw.shape == first.shape
        if same:
            known = np.isfinite(first) & np.isfinite(other.raw)
            gap = np.abs(other.raw - first)[known].max(initial=0.0)
            same = known.any() and gap <= SAME * np.abs(first[known]).max()
        if not same:
            expected = f"values that {names[0]} and {name} see alike"
            got = f"{first.shape} and {other.raw.shape} values, reduced differently"
            fix = "compare laws whose preparation selects, averages and coarsens alike"
            raise DataError("data", expected=expected, got=got, fix=fix)


def units_of(n_paths: int, n_times: int) -> Array:
    """Unit of each path and time, (P, T)."""
    if n_paths >= ENOUGH_PATHS:
        return np.broadcast_to(np.arange(n_paths)[:, None], (n_paths, n_times))
    cuts = max(1, min(STRETCHES, n_times // 2))
    stretch = np.minimum(np.arange(n_times) * cuts // n_times, cuts - 1)
    return np.arange(n_paths)[:, None] * cuts + stretch


def tier_scores(laws: list[Law], held: list[Held], tier: str, seed: int) -> list[Scores]:
    """RMSE and CRPS of a tier, by unit, on the values that all laws predict."""
    raw = held[0].raw
    known = np.isfinite(np.stack([h.raw for h in held])).all(0)
    seen, scored = tier_masks(np.where(known, raw, np.nan), tier, seed)
    found = [_predicted(law, h, seen) for law, h in zip(laws, held, strict=True)]
    scored = scored & np.isfinite(np.stack([mean for mean, _ in found])).all(0)
    if not scored.any():
        return []
    units = units_of(*raw.shape[:2])
    where = units[np.nonzero(scored)[:2]]
    n = int(units.max()) + 1
    counts = np.bincount(where, minlength=n).astype(float)
    squares = [((mean - raw)[scored]) ** 2 for mean, _ in found]
    crps = [gaussian_crps(mean[scored], std[scored], raw[scored]) for mean, std in found]
    return [
        Scores(f"{name} {tier}", np.stack([np.bincount(where, s, n) for s in parts]), counts)
        for name, parts in (("RMSE", squares), ("CRPS", crps))
    ]


def _predicted(law: Law, held: Held, seen: Array) -> tuple[Array, Array]:
    """Mean and deviation of every value in the units of the data, given those that are seen."""
    found, noise = law.bare.reconstruct(held.seeing(seen)), noise_at(law, held.own.points)
    std = np.sqrt(found["std"].values ** 2 + noise)
    mean = held.offset + held.scale * found["mean"].values
    return held.on_cells(mean), held.on_cells(held.scale * std)


def log_scores(laws: list[Law], held: list[Held]) -> Scores | None:
    """Log density of the data by unit; None where the laws give densities of different numbers."""
    parts = [_log_density(law, h) for law, h in zip(laws, held, strict=True)]
    if len({(kind, count) for _, kind, count in parts}) > 1 or parts[0][1] != "values":
        return None
    sums = np.stack([part for part, _, _ in parts])
    counts = np.full(sums.shape[1], parts[0][2] / sums.shape[1])
    return Scores("log score", sums, counts)


def _log_density(law: Law, held: Held) -> tuple[Array, str, int]:
    """By path, or by what each stretch of time adds; with kind and count of the numbers."""
    own, fields, bare = held.own, held.own.fields, law.bare
    with np.errstate(invalid="ignore", divide="ignore"):
        stretched = np.where(np.isfinite(fields.values), np.log(held.scale), 0.0).sum(-1)
    whole = bare.log_likelihood(own)
    kind, count = str(whole.attrs["of"]), int(whole.attrs["count"])
    if own.n_paths >= ENOUGH_PATHS or own.has_own_clocks:
        return whole.values - stretched.sum(1), kind, count
    units = units_of(*fields.shape[:2])[0]
    ends = [int(np.flatnonzero(units == u)[-1]) + 1 for u in np.unique(units)]
    ends = [e for e in ends if e >= 2]
    upto = [bare.log_likelihood(own.at_times(slice(e))).values for e in ends[:-1]]
    steps = np.diff(np.stack([np.zeros(len(whole)), *upto, whole.values]), axis=0)
    cut = np.add.reduceat(stretched, [0, *ends[:-1]], axis=1)
    return (steps.T - cut).ravel(), kind, count


def bootstrap_units(scores: Scores, replicates: int, seed: int) -> Array:
    """Units of each draw, with replacement; those without values are left out."""
    usable = np.flatnonzero(scores.counts > 0)
    return np.random.default_rng(seed).choice(usable, (replicates, len(usable)))
