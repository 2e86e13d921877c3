"""Laws that version 0.1 saved, in the words of today's documents."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

#: Names of the arrays of the state: of modes on their own, and of coupled ones.
NAMES = {
    "dynamics.drift": ("state.eigenvalues", "state.drift"),
    "dynamics.noise": ("state.noise_variance", "state.noise_covariance"),
    "initial.mean": ("state.initial_mean",),
    "initial.covariance": ("state.initial_variance", "state.initial_covariance"),
    "observation_variance": ("state.observation_variance",),
}
#: Prefixes of arrays that are now part of something else.
MOVED = {"forcing.": "dynamics.forcing.", "pairs.": "statistics.pairs."}


def upgrade(
    document: dict[str, Any], arrays: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Document and arrays of schema 1 or 2 as those of schema 3."""
    old, new = dict(arrays), dict(document)
    found = {}
    for name, candidates in NAMES.items():
        found[name] = next(old.pop(key) for key in candidates if key in old)
    for name, value in old.items():
        before = next((prefix for prefix in MOVED if name.startswith(prefix)), "")
        found[MOVED.get(before, "") + name.removeprefix(before)] = value
    if "statistics.pairs.two_lengths" in found:  # indices, which 0.1 wrote as floats
        found["statistics.pairs.two_lengths"] = found["statistics.pairs.two_lengths"].astype(int)
    if "preparation" in new and new["preparation"]["how"].get("anomalies") != "month":
        found.setdefault("preparation.levels", np.zeros(1))  # of a climatology without groups
    season = {"season": new.pop("season")} if "season" in new else {}
    new["dynamics"] = {"name": "linear", "origin": float(old["times"][0]), **season}
    new["initial"] = {"kind": new.pop("initial_kind")}
    return new, found
