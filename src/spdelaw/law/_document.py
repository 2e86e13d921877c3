"""A law as a plain document and a set of arrays, and back.

A description is nested. An array in it goes under its dotted name to the arrays, and the rest is
JSON.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.data import Preparation, Prepared
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.equation import InitialState, dynamics_from_dict
from spdelaw.law._rest import Rest
from spdelaw.model import PairSums, Statistics

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray


def to_document(law: Law) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything but the parameter table: JSON types, and arrays by dotted name."""
    tables = {k: v for k, v in law.domain.settings().items() if isinstance(v, np.ndarray)}
    described: dict[str, Any] = {
        "domain": law.domain.to_dict() | tables,
        "n_modes": law.n_modes,
        "dynamics": {"name": law.dynamics.name, **_rows_as_arrays(law.dynamics.to_dict())},
        "initial": law.initial._asdict(),
        "observation_variance": law.observation_variance,
        "unresolved_variance": float(law.unresolved_variance),
        "times": law.times,
        "points": law.points,
        "info": dict(law.info),
    }
    if law.offset is not None:
        described["offset"] = law.offset
    if law.coordinates is not None:
        described["coordinates"] = {k: v.values for k, v in law.coordinates.data_vars.items()}
        described["coordinate_names"] = list(law.coordinates["coordinate"].values)
    if law.statistics is not None:
        own = _parts(law.statistics)
        pairs: PairSums | None = own.pop("pairs")
        described["statistics"] = own | ({} if pairs is None else {"pairs": pairs._asdict()})
    if law.rest is not None:
        described["rest"] = law.rest._asdict()
    if law.preparation is not None:
        described["preparation"] = _parts(law.preparation) | {"how": law.preparation.how.to_dict()}
    arrays: dict[str, Array] = {}
    return _without_arrays(described, "", arrays), arrays


def from_document(document: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Arguments of `Law` but for its parameter table."""
    d = _with_arrays(document, arrays)
    dynamics = dict(d["dynamics"])
    name = dynamics.pop("name")
    return {
        "domain": domain_from_dict(d["domain"]),
        "dynamics": dynamics_from_dict(name, dynamics),
        "initial": InitialState(**d["initial"]),
        "coordinates": _coordinates(d),
        "statistics": _statistics(d.get("statistics")),
        "preparation": _preparation(d.get("preparation")),
        "rest": Rest(**d["rest"]) if "rest" in d else None,
        "offset": d.get("offset"),
        **{key: d[key] for key in PLAIN},
    }


#: What is in a document as it is in a law.
PLAIN = ("n_modes", "observation_variance", "unresolved_variance", "times", "points", "info")


def _parts(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


def _rows_as_arrays(value: Any) -> Any:
    """Rows of numbers, lists in a list, as arrays: a forcing may have many."""
    if isinstance(value, dict):
        return {k: _rows_as_arrays(v) for k, v in value.items()}
    is_rows = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    return np.asarray(value, dtype=float) if is_rows else value


def _without_arrays(value: dict[str, Any], prefix: str, arrays: dict[str, Array]) -> dict[str, Any]:
    """The description without its arrays, which go to ``arrays``."""
    plain = {}
    for key, part in value.items():
        if isinstance(part, np.ndarray):
            arrays[prefix + key] = part
        else:
            is_nested = isinstance(part, dict)
            plain[key] = _without_arrays(part, f"{prefix}{key}.", arrays) if is_nested else part
    return plain


def _with_arrays(plain: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Inverse of `_without_arrays`."""
    whole = dict(plain)
    for name, value in arrays.items():
        *parents, last = name.split(".")
        place = whole
        for key in parents:
            place[key] = dict(place.get(key, {}))
            place = place[key]
        place[last] = value
    return whole


def _statistics(own: dict[str, Any] | None) -> Statistics | None:
    if own is None:
        return None
    pairs = PairSums(**own["pairs"]) if "pairs" in own else None
    return Statistics(**{**own, "pairs": pairs})


def _preparation(own: dict[str, Any] | None) -> Prepared | None:
    if own is None:
        return None
    first, last = map(float, own["middle"])
    return Prepared(**{**own, "how": Preparation(**own["how"]), "middle": (first, last)})


def _coordinates(d: dict[str, Any]) -> xr.Dataset | None:
    if "coordinates" not in d:
        return None
    c = d["coordinates"]
    names = d["coordinate_names"]
    more = c.get("jacobian"), c.get("stationary_variance")
    return coordinates_dataset(names, c["estimate"], c["covariance"], *more)


def coordinates_dataset(
    names: Any,
    estimate: Array,
    covariance: Array,
    jacobian: Array | None = None,
    stationary_variance: Array | None = None,
) -> xr.Dataset:
    """Unconstrained coordinates of a fit with their joint covariance.

    ``jacobian`` is the derivative of all numbers of drift and noise, flattened, by the coordinates;
    ``stationary_variance`` holds both ends of its interval for each mode, (N, 2).
    """
    variables: dict[str, Any] = {
        "estimate": ("coordinate", estimate),
        "covariance": (("coordinate", "coordinate_2"), covariance),
    }
    if jacobian is not None:
        variables["jacobian"] = (("number", "coordinate"), jacobian)
    if stationary_variance is not None:
        variables["stationary_variance"] = (("mode", "end"), stationary_variance)
    return xr.Dataset(
        variables,
        coords={"coordinate": list(names), "coordinate_2": list(names)},
    )
