"""Laws that gaps may be filled by: source, number and coupling of their modes."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.observed import Observed
from spdelaw.data.prepare import Preparation
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.empirical import Empirical
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.evaluation.hindcast import NOISES
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.pipeline import fit
from spdelaw.law.law import Law

# Modes are those of the domain, or patterns of the data: empirical orthogonal functions of the
# record whose gaps a law on the domain has filled. Each track is climbed while more modes predict
# held-out values better.

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
#: Tracks that are climbed by default.
USUAL_TRACKS = (
    ("domain", "diagonal"),
    ("patterns", "diagonal"),
    ("patterns", "dense"),
    ("domain", "parametric"),
)
#: Rows times cubed modes that one fit may take, and the least and most rows.
MOST_OPERATIONS, LEAST_ROWS, MOST_ROWS = 4e8, 150, 1500


class Candidate(NamedTuple):
    """Where modes come from, how they are coupled, and how many."""

    basis: str
    drift: str
    n_modes: int

    def __str__(self) -> str:
        """As text."""
        source = "data" if self.basis == "patterns" else "domain"
        return f"{self.n_modes} modes of the {source}, drift {self.drift}"


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
        most: modes that the data distinguish.
    """
    if drift is not None:
        pairs = [(b, drift) for b in BASES if (b, drift) in LADDERS or n_modes != "auto"]
    else:
        pairs = list(USUAL_TRACKS)
    pairs = [pair for pair in pairs if basis in (None, pair[0])]
    out = []
    for pair in pairs:
        ladder = LADDERS.get(pair, ()) if n_modes == "auto" else (int(n_modes),)
        counts = [n for n in ladder if n <= most or n_modes != "auto"] or [most]
        out.append([Candidate(*pair, n) for n in counts])
    return out


def learn(values: Observed, recipe: Recipe, candidate: Candidate, rough: Law | None = None) -> Law:
    """The law of a candidate, learned from these prepared data alone, in the units they came in.

    ``rough`` is a law on the domain, from the same data, which fills them for their patterns.
    Parameters are estimated from a part of a long record, climatology and patterns from all of it.
    """
    domain, dims = recipe.domain, recipe.domain.dims
    if candidate.basis == "patterns":
        domain = Empirical(_fill_by_law(values, rough).labelled, candidate.n_modes, dims=dims)
    words = {"drift": candidate.drift, "noise": NOISES.get(candidate.drift, "diagonal")}
    if values.n_paths == 1 and "season" not in recipe.words:
        words["initial"] = "stationary"
    if recipe.prepare is not None and recipe.prepare.anomalies:
        words["mean"] = "zero"  # it was taken off
    training = _training_part(values, candidate.n_modes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of tries on the way: scores decide
        # The residual is that of `fill`, chosen with the law.
        model_words = {**words, "nuisance": 0, "residual": "white", **recipe.words}
        law = fit(training, domain, candidate.n_modes, engine=Exact(profile=False), **model_words)
    if law.initial.kind != "stationary" or values.has_own_clocks:
        return law
    return dataclasses.replace(law, times=values.times)  # that of the whole record


def _fill_by_law(values: Observed, rough: Law | None) -> Observed:
    """Data with the law's mean in their gaps; points that were never observed stay missing."""
    if rough is None:
        return values
    mean = rough.without_preparation_and_mean.reconstruct(values.flat)["mean"].values
    given = values.fields.values
    observed = np.isfinite(given)
    filled = np.where(observed, given, np.nan_to_num(mean))
    filled = np.where(observed.any((0, 1)), filled, np.nan)
    return values.holding(values.fields.copy(data=filled))


def _training_part(values: Observed, n_modes: int) -> Observed:
    """Enough rows to learn from: some paths, or the stretch of a long one with most values."""
    rows = int(np.clip(MOST_OPERATIONS / n_modes**3, LEAST_ROWS, MOST_ROWS))
    n_paths, n_times = values.fields.shape[:2]
    if n_paths * n_times <= rows:
        return values
    if n_paths > 1:
        return values.paths(slice(max(2, rows // n_times)))
    counts = np.isfinite(values.values).reshape(n_times, -1).sum(1)
    sums = np.concatenate([[0], np.cumsum(counts)])
    start = int(np.argmax(sums[rows:] - sums[:-rows]))
    return values.at_times(slice(start, start + rows))


def law_fields(law: Law, observed: Observed) -> xr.Dataset:
    """``mean`` and ``std`` of the law given the data, along their points; lazy where they are."""
    plain = law.with_info(labels={})
    if (
        law.residual_memory is None and not law.observation_variance.ndim
    ):  # else points have their numbers
        plain = dataclasses.replace(plain, points=observed.points)  # predict unobserved ones too
    return plain.reconstruct(observed.flat)
