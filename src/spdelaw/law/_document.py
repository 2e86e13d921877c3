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
from spdelaw.law._provenance import check_entries
from spdelaw.law._rest import Rest
from spdelaw.model import PairSums, Statistics

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray


#: What is in a document as it is in a law; the last one in few of them.
PLAIN = ("n_modes", "observation_variance", "unresolved_variance", "times", "points", "offset")
#: Tables of coordinates with their dims.
COORDINATES = {
    "estimate": ("coordinate",),
    "covariance": ("coordinate", "coordinate_2"),
    "jacobian": ("number", "coordinate"),
    "stationary_variance": ("mode", "end"),
}


def to_document(law: Law) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything but the parameter table: JSON types, and arrays by dotted name."""
    tables = {k: v for k, v in law.domain.settings().items() if isinstance(v, np.ndarray)}
    described: dict[str, Any] = {
        "domain": law.domain.to_dict() | tables,
        "dynamics": {"name": law.dynamics.name, **_rows_as_arrays(law.dynamics.to_dict())},
        "initial": law.initial._asdict(),
        "info": dict(law.info),
        **{name: getattr(law, name) for name in PLAIN if getattr(law, name) is not None},
        "unresolved_variance": float(law.unresolved_variance),
    }
    if law.coordinates is not None:
        described["coordinates"] = {k: v.values for k, v in law.coordinates.data_vars.items()}
        described["coordinate_names"] = list(law.coordinates["coordinate"].values)
    if law.statistics is not None:
        own = described["statistics"] = _parts(law.statistics)
        pairs: PairSums | None = own.pop("pairs")
        own |= {} if pairs is None else {"pairs": pairs._asdict()}
    if law.rest is not None:
        described["rest"] = law.rest._asdict()
    if law.preparation is not None:
        described["preparation"] = _parts(law.preparation) | {"how": law.preparation.how.to_dict()}
    arrays: dict[str, Array] = {}
    return _without_arrays(described, "", arrays), arrays


def from_document(document: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Arguments of `Law` but for its parameter table."""
    check_entries(document["info"])
    d = _with_arrays(document, arrays)
    own = {name: d[name] for name in (*PLAIN, "info") if name in d}
    own["domain"] = domain_from_dict(d["domain"])
    dynamics = dict(d["dynamics"])
    own["dynamics"] = dynamics_from_dict(dynamics.pop("name"), dynamics)
    own["initial"] = InitialState(**d["initial"])
    if "coordinates" in d:
        parts = d["coordinates"]
        more = (parts.get(name) for name in ("jacobian", "stationary_variance"))
        given = (d["coordinate_names"], parts["estimate"], parts["covariance"])
        own["coordinates"] = coordinates_dataset(*given, *more)
    if "statistics" in d:
        pairs = d["statistics"].pop("pairs", None)
        pairs = None if pairs is None else PairSums(**pairs)
        own["statistics"] = Statistics(**d["statistics"], pairs=pairs)
    if "rest" in d:
        own["rest"] = Rest(**d["rest"])
    if "preparation" in d:
        parts = d["preparation"]
        first, last = map(float, parts["middle"])
        how = {"how": Preparation(**parts["how"]), "middle": (first, last)}
        own["preparation"] = Prepared(**parts | how)
    return own


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


def coordinates_dataset(names: Any, *tables: Array | None) -> xr.Dataset:
    """Unconstrained coordinates of a fit with their joint covariance.

    ``tables`` are those of `COORDINATES`, the last two of which may be None: the derivative of all
    numbers of drift and noise, flattened, by the coordinates; and both ends of the interval of the
    stationary variance of each mode, (N, 2).
    """
    found = zip(COORDINATES.items(), tables, strict=False)
    variables = {name: (dims, table) for (name, dims), table in found if table is not None}
    return xr.Dataset(variables, {dim: list(names) for dim in COORDINATES["covariance"]})
