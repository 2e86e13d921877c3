"""A law as a plain document and a set of arrays, and back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import Preparation, Prepared
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.model import Parameters, Statistics

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: Arrays of a preparation.
PREPARED = ("coefficients", "scale", "points")


def to_document(law: Law) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything but the parameter table: JSON types, and arrays by dotted name."""
    description: dict[str, Any] = {
        "domain": law.domain.to_dict(),
        "n_modes": law.n_modes,
        "initial_kind": law.state.initial_kind,
        "unresolved_variance": float(law.unresolved_variance),
        "info": law.info,
    }
    arrays: dict[str, Array] = {"times": law.times, "points": law.points}
    for key in Parameters._fields[:-1]:
        arrays[f"state.{key}"] = getattr(law.state, key)
    if law.coordinates is not None:
        description["coordinate_names"] = list(law.coordinates["coordinate"].values)
        for key in ("estimate", "covariance"):
            arrays[f"coordinates.{key}"] = law.coordinates[key].values
    if law.statistics is not None:
        parts = dataclasses.asdict(law.statistics)
        description["statistics"] = {k: v for k, v in parts.items() if np.ndim(v) == 0}
        arrays |= {f"statistics.{k}": v for k, v in parts.items() if np.ndim(v)}
    if law.preparation is not None:
        p = law.preparation
        description["preparation"] = {
            "how": p.how.to_dict(), "clock": p.clock, "middle": list(p.middle),
        }  # fmt: skip
        arrays |= {f"preparation.{key}": getattr(p, key) for key in PREPARED}
    return description, arrays


def from_document(document: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Arguments of `Law` but for its parameter table."""
    state: dict[str, Any] = {key: arrays[f"state.{key}"] for key in Parameters._fields[:-1]}
    coordinates = statistics = None
    if "coordinate_names" in document:
        coordinates = coordinates_dataset(
            document["coordinate_names"],
            arrays["coordinates.estimate"],
            arrays["coordinates.covariance"],
        )
    if "statistics" in document:
        own: dict[str, Any] = dict(document["statistics"])
        own |= {k.split(".", 1)[1]: v for k, v in arrays.items() if k.startswith("statistics.")}
        statistics = Statistics(**own)
    preparation = None
    if "preparation" in document:
        own = document["preparation"]
        learned = {key: arrays[f"preparation.{key}"] for key in PREPARED}
        middle = (float(own["middle"][0]), float(own["middle"][1]))
        preparation = Prepared(
            Preparation(**own["how"]), **learned, clock=own["clock"], middle=middle
        )
    return {
        "preparation": preparation,
        "domain": domain_from_dict(document["domain"]),
        "n_modes": document["n_modes"],
        "state": Parameters(**state, initial_kind=document["initial_kind"]),
        "times": arrays["times"],
        "points": arrays["points"],
        "unresolved_variance": document["unresolved_variance"],
        "info": document["info"],
        "coordinates": coordinates,
        "statistics": statistics,
    }


def coordinates_dataset(names: Any, estimate: Array, covariance: Array) -> xr.Dataset:
    """Unconstrained coordinates of a fit with their joint covariance."""
    return xr.Dataset(
        {
            "estimate": ("coordinate", estimate),
            "covariance": (("coordinate", "coordinate_2"), covariance),
        },
        coords={"coordinate": list(names), "coordinate_2": list(names)},
    )
