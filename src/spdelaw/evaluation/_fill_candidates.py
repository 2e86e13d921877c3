"""Laws that gaps may be filled by: where their modes come from, how many, and what couples them.

Modes are those of the domain, or patterns of the data: empirical orthogonal functions of the record
whose gaps a law on the domain has filled. Each track is climbed while more modes predict held-out
values better.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from spdelaw.data import Observed, Preparation, learn_map, observe
from spdelaw.domain import AbstractDomain, Empirical
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.evaluation._complete_climate import completed
from spdelaw.evaluation._fill_predict import in_space
from spdelaw.evaluation._shared_climate import Strength, affordable, choose_strength, shared
from spdelaw.infer import Exact, fit
from spdelaw.law import Law

Array = np.ndarray

BASES = ("domain", "patterns")
#: Modes to try, by where they come from and what couples them.
LADDERS = {
    ("domain", "diagonal"): (2, 4, 8, 16, 32),
    ("domain", "parametric"): (16, 32, 64, 128),
    ("domain", "normal"): (8, 16, 32),
    ("domain", "dense"): (2, 4, 8, 16),
    ("patterns", "diagonal"): (3, 6, 12, 24),
    ("patterns", "dense"): (3, 6, 12),
}
#: Tracks that are climbed where nobody says which.
USUAL = (
    ("domain", "diagonal"),
    ("patterns", "diagonal"),
    ("patterns", "dense"),
    ("domain", "parametric"),
)
#: Noise that goes with a drift.
NOISES = {"parametric": "parametric", "dense": "dense"}
#: Rows times cubed modes that one fit may take, and the least and most rows.
WORK, LEAST_ROWS, MOST_ROWS = 4e8, 150, 1500


class Candidate(NamedTuple):
    """Where modes come from, how they are coupled, and how many."""

    basis: str
    drift: str
    n_modes: int

    def __str__(self) -> str:
        """In words."""
        return f"{self.n_modes} modes of the {self._of}, drift {self.drift}"

    @property
    def _of(self) -> str:
        return "data" if self.basis == "patterns" else "domain"


class Recipe(NamedTuple):
    """What all candidates share: domain, preparation and words of the model."""

    domain: AbstractDomain
    prepare: Preparation | None
    words: dict[str, Any]


def tracks(
    n_modes: int | str, basis: str | None, drift: str | None, most: int
) -> list[list[Candidate]]:
    """Candidates in the order in which they are tried, a list per track.

    Args:
        n_modes: a number, or "auto".
        basis: one of `BASES`, or None for both.
        drift: a word of the model, or None for the usual ones.
        most: modes that the data can tell apart.
    """
    if drift is not None:
        pairs = [(b, drift) for b in BASES if (b, drift) in LADDERS or n_modes != "auto"]
    else:
        pairs = list(USUAL)
    pairs = [pair for pair in pairs if basis in (None, pair[0])]
    out = []
    for pair in pairs:
        ladder = LADDERS.get(pair, ()) if n_modes == "auto" else (int(n_modes),)
        counts = [n for n in ladder if n <= most or n_modes != "auto"] or [most]
        out.append([Candidate(*pair, n) for n in counts])
    return out


def ready(own: Observed, recipe: Recipe, by: Strength | Array) -> tuple[Observed, Strength]:
    """Data prepared by what they tell themselves, once for all candidates.

    ``by`` is how strongly points share a climatology, or held-out values (P, T, M) to choose it by;
    it comes back beside the data.
    """
    if recipe.prepare is None:
        return own, Strength()
    dims, fields, strength = recipe.domain.dims, own.labelled, Strength()
    prepared = learn_map(recipe.prepare, fields, dims)
    if affordable(prepared):
        shape = (*fields.shape[:2], len(prepared.points))
        values = np.asarray(fields.values).reshape(shape)
        known = (fields["time"].values, values, in_space(prepared.points, dims))
        if isinstance(by, Strength):
            strength = by
        else:
            strength = choose_strength(prepared, *known, own.places.unflatten(by).reshape(shape))
        prepared = shared(prepared, *known, strength)
    return observe(own, recipe.domain, completed(prepared)), strength


def learn(values: Observed, recipe: Recipe, candidate: Candidate, rough: Law | None = None) -> Law:
    """The law of a candidate, learned from these prepared data alone, in the units they came in.

    ``rough`` is a law on the domain, from the same data, which fills them for their patterns.
    Long records lend a part to the search for parameters; climatology and patterns see all.
    """
    domain, dims = recipe.domain, recipe.domain.dims
    if candidate.basis == "patterns":
        domain = Empirical(_without_gaps(values, rough).labelled, candidate.n_modes, dims=dims)
    words = {"drift": candidate.drift, "noise": NOISES.get(candidate.drift, "diagonal")}
    if values.n_paths == 1 and "season" not in recipe.words:
        words["initial"] = "stationary"
    if recipe.prepare is not None and recipe.prepare.anomalies:
        words["mean"] = "zero"  # it was taken off
    part = _part(values, candidate.n_modes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of tries on the way: scores decide
        asked = {**words, "nuisance": 0, **recipe.words}
        law = fit(part, domain, candidate.n_modes, engine=Exact(profile=False), **asked)
    if law.initial.kind != "stationary" or values.has_own_clocks:
        return law
    return dataclasses.replace(law, times=values.times)  # that of the whole record


def _without_gaps(values: Observed, rough: Law | None) -> Observed:
    """Data with the law's mean in their gaps; points that were never seen stay missing."""
    if rough is None:
        return values
    mean = rough.bare.reconstruct(values.flat)["mean"].values
    given = values.fields.values
    seen = np.isfinite(given)
    filled = np.where(seen, given, np.nan_to_num(mean))
    filled = np.where(seen.any((0, 1)), filled, np.nan)
    return values.holding(values.fields.copy(data=filled))


def _part(values: Observed, n_modes: int) -> Observed:
    """Enough rows to learn from: some paths, or the stretch of a long one with most values."""
    rows = int(np.clip(WORK / n_modes**3, LEAST_ROWS, MOST_ROWS))
    n_paths, n_times = values.fields.shape[:2]
    if n_paths * n_times <= rows:
        return values
    if n_paths > 1:
        return values.paths(slice(max(2, rows // n_times)))
    counts = np.isfinite(values.values).reshape(n_times, -1).sum(1)
    sums = np.concatenate([[0], np.cumsum(counts)])
    start = int(np.argmax(sums[rows:] - sums[:-rows]))
    return values.at_times(slice(start, start + rows))
