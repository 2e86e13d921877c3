"""A law as a plain document and a set of arrays, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import Preparation, Prepared
from spdelaw.domain import AbstractDomain
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.equation import Forcing, Season
from spdelaw.model import CoupledParameters, PairSums, Parameters, Statistics

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: Arrays of a preparation.
PREPARED = ("coefficients", "scale", "points", "levels")
#: Arrays of the state.
ARRAYS = {kind: kind._fields[:5] for kind in (Parameters, CoupledParameters)}
#: Arrays of a forcing.
FORCING = ("times", "coefficients")


def to_document(law: Law) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything but the parameter table: JSON types, and arrays by dotted name."""
    plain, of_domain = split_domain(law.domain)
    description: dict[str, Any] = {
        "domain": plain,
        "n_modes": law.n_modes,
        "initial_kind": law.state.initial_kind,
        "unresolved_variance": float(law.unresolved_variance),
        "info": law.info,
    }
    arrays: dict[str, Array] = {"times": law.times, "points": law.points, **of_domain}
    for key in ARRAYS[type(law.state)]:
        arrays[f"state.{key}"] = getattr(law.state, key)
    season = getattr(law.state, "season", None)
    if season is not None:
        description["season"] = season.to_dict()
    if law.coordinates is not None:
        description["coordinate_names"] = list(law.coordinates["coordinate"].values)
        for name, values in law.coordinates.data_vars.items():
            arrays[f"coordinates.{name}"] = values.values
    if law.statistics is not None:
        parts = {f.name: getattr(law.statistics, f.name) for f in fields(law.statistics)}
        pairs: PairSums | None = parts.pop("pairs")
        if pairs is not None:
            arrays |= {f"pairs.{key}": value for key, value in pairs._asdict().items()}
        description["statistics"] = {k: v for k, v in parts.items() if np.ndim(v) == 0}
        arrays |= {f"statistics.{k}": v for k, v in parts.items() if np.ndim(v)}
    if law.forcing is not None:
        arrays |= {f"forcing.{key}": getattr(law.forcing, key) for key in FORCING}
    if law.preparation is not None:
        p = law.preparation
        description["preparation"] = {
            "how": p.how.to_dict(), "clock": p.clock, "middle": list(p.middle),
        }  # fmt: skip
        arrays |= {f"preparation.{key}": getattr(p, key) for key in PREPARED}
    return description, arrays


def from_document(document: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Arguments of `Law` but for its parameter table."""
    kind: Any = CoupledParameters if "state.drift" in arrays else Parameters
    state: dict[str, Any] = {key: arrays[f"state.{key}"] for key in ARRAYS[kind]}
    if "season" in document:
        state["season"] = Season(**document["season"])
    coordinates = statistics = None
    if "coordinate_names" in document:
        coordinates = coordinates_dataset(
            document["coordinate_names"],
            arrays["coordinates.estimate"],
            arrays["coordinates.covariance"],
            arrays.get("coordinates.jacobian"),
        )
    if "statistics" in document:
        own: dict[str, Any] = dict(document["statistics"])
        own |= {k.split(".", 1)[1]: v for k, v in arrays.items() if k.startswith("statistics.")}
        if "pairs.n_steps" in arrays:
            own["pairs"] = PairSums(**{k: arrays[f"pairs.{k}"] for k in PairSums._fields})
        statistics = Statistics(**own)
    preparation = None
    if "preparation" in document:
        own = document["preparation"]
        # Laws of version 0.1 have no levels: their climatology is by month or by harmonics.
        stored = {key: f"preparation.{key}" for key in PREPARED}
        learned = {k: arrays[v] for k, v in stored.items() if k != "levels" or v in arrays}
        if "levels" not in learned and own["how"].get("anomalies") != "month":
            learned["levels"] = np.zeros(1)
        middle = (float(own["middle"][0]), float(own["middle"][1]))
        preparation = Prepared(
            Preparation(**own["how"]), **learned, clock=own["clock"], middle=middle
        )
    forcing = None
    if "forcing.times" in arrays:
        forcing = Forcing(*(arrays[f"forcing.{key}"] for key in FORCING))
    return {
        "preparation": preparation,
        "forcing": forcing,
        "domain": joined_domain(document["domain"], arrays),
        "n_modes": document["n_modes"],
        "state": kind(**state, initial_kind=document["initial_kind"]),
        "times": arrays["times"],
        "points": arrays["points"],
        "unresolved_variance": document["unresolved_variance"],
        "info": document["info"],
        "coordinates": coordinates,
        "statistics": statistics,
    }


def split_domain(domain: AbstractDomain) -> tuple[dict[str, Any], dict[str, Array]]:
    """Plain description of a domain, and apart from it the arrays that it is built from."""
    tables = {k: v for k, v in domain.settings().items() if isinstance(v, np.ndarray)}
    plain = {k: v for k, v in domain.to_dict().items() if k not in tables}
    return plain, {f"domain.{k}": v for k, v in tables.items()}


def joined_domain(plain: dict[str, Any], arrays: dict[str, Array]) -> AbstractDomain:
    """Inverse of `split_domain`."""
    own = {k.split(".", 1)[1]: v for k, v in arrays.items() if k.startswith("domain.")}
    return domain_from_dict({**plain, **own})


def coordinates_dataset(
    names: Any, estimate: Array, covariance: Array, jacobian: Array | None = None
) -> xr.Dataset:
    """Unconstrained coordinates of a fit with their joint covariance.

    ``jacobian`` is the derivative of all numbers of drift and noise, flattened, by the coordinates.
    """
    variables: dict[str, Any] = {
        "estimate": ("coordinate", estimate),
        "covariance": (("coordinate", "coordinate_2"), covariance),
    }
    if jacobian is not None:
        variables["jacobian"] = (("number", "coordinate"), jacobian)
    return xr.Dataset(
        variables,
        coords={"coordinate": list(names), "coordinate_2": list(names)},
    )
