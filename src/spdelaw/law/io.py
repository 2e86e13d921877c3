"""Laws on disk: a directory with ``law.json`` and ``arrays.safetensors``, written atomically."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import RENAMED, checked
from spdelaw.data.io.records import is_record, read_record, write_record
from spdelaw.data.io.safe_files import reading, refuse_foreign, replace_directory, resolved
from spdelaw.data.prepare import Preparation, Prepared
from spdelaw.domains.registry import from_dict as domain_from_dict
from spdelaw.errors import FileError
from spdelaw.law.law import Law
from spdelaw.law.parameters import STATISTICS, with_modes
from spdelaw.law.provenance import check_entries
from spdelaw.law.residuals import AR1
from spdelaw.processes.linear import Linear, dynamics_from_dict
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.statistics import PairSums, Statistics

# ---------- Conversion between a law and a plain document with arrays
#
# A description is nested. Its arrays are stored under dotted names, everything else as JSON.


Array = np.ndarray

#: Attributes that a document stores unchanged; ``offset`` is optional.
PLAIN_ENTRIES = (
    "n_modes",
    "observation_variance",
    "unresolved_variance",
    "times",
    "points",
    "offset",
)
#: Tables of coordinates with their dims.
COORDINATES = {
    "estimate": ("coordinate",),
    "covariance": ("coordinate", "coordinate_2"),
    "jacobian": ("number", "coordinate"),
    "stationary_variance": ("mode", "end"),
    "mean_given": ("state", "state_2"),
    "mean_slopes": ("state", "coordinate"),
}


def to_document(law: Law) -> tuple[dict[str, Any], dict[str, Array]]:
    """Everything but the parameter table: JSON types, and arrays by dotted name."""
    tables = {k: v for k, v in law.domain.settings().items() if isinstance(v, np.ndarray)}
    described: dict[str, Any] = {
        "domain": law.domain.to_dict() | tables,
        "dynamics": {"name": law.dynamics.name, **_rows_as_arrays(law.dynamics.to_dict())},
        "initial": law.initial._asdict(),
        "info": dict(law.info),
        **{name: getattr(law, name) for name in PLAIN_ENTRIES if getattr(law, name) is not None},
        "unresolved_variance": float(law.unresolved_variance),
    }
    if law.coordinates is not None:
        described["coordinates"] = {k: v.values for k, v in law.coordinates.data_vars.items()}
        described["coordinate_names"] = list(law.coordinates["coordinate"].values)
    if law.statistics is not None:
        sums = described["statistics"] = _field_values(law.statistics)
        pairs: PairSums | None = sums.pop("pairs")
        sums |= {} if pairs is None else {"pairs": pairs._asdict()}
    if law.residual_memory is not None:
        described["rest"] = law.residual_memory._asdict()
    if law.preparation is not None:
        described["preparation"] = _field_values(law.preparation) | {
            "how": law.preparation.how.to_dict()
        }
    arrays: dict[str, Array] = {}
    return _without_arrays(described, "", arrays), arrays


def from_document(document: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Arguments of `Law` but for its parameter table."""
    check_entries(document["info"])
    d = _with_arrays(document, arrays)
    arguments = {name: d[name] for name in PLAIN_ENTRIES if name in d}
    arguments["info"] = {RENAMED.get(k, k): v for k, v in d["info"].items()}
    arguments["domain"] = domain_from_dict(d["domain"])
    dynamics = dict(d["dynamics"])
    arguments["dynamics"] = dynamics_from_dict(dynamics.pop("name"), dynamics)
    arguments["initial"] = InitialState(**d["initial"])
    if "coordinates" in d:
        parts = d["coordinates"]
        tables = (parts.get(name) for name in COORDINATES)
        arguments["coordinates"] = coordinates_dataset(d["coordinate_names"], *tables)
    if "statistics" in d:
        pairs = d["statistics"].pop("pairs", None)
        pairs = None if pairs is None else PairSums(**pairs)
        arguments["statistics"] = Statistics(**d["statistics"], pairs=pairs)
    if "rest" in d:
        arguments["residual_memory"] = AR1(**d["rest"])
    if "preparation" in d:
        parts = d["preparation"]
        first, last = map(float, parts["middle"])
        how = {"how": Preparation(**parts["how"]), "middle": (first, last)}
        arguments["preparation"] = Prepared(**parts | how)
    return arguments


def _field_values(record: Any) -> dict[str, Any]:
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
    for key, entry in value.items():
        if isinstance(entry, np.ndarray):
            arrays[prefix + key] = entry
        else:
            is_nested = isinstance(entry, dict)
            plain[key] = _without_arrays(entry, f"{prefix}{key}.", arrays) if is_nested else entry
    return plain


def _with_arrays(plain: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Inverse of `_without_arrays`."""
    whole = dict(plain)
    for name, value in arrays.items():
        *parents, last = name.split(".")
        node = whole
        for key in parents:
            node[key] = dict(node.get(key, {}))
            node = node[key]
        node[last] = value
    return whole


def coordinates_dataset(names: Any, *tables: Array | None) -> xr.Dataset:
    """Unconstrained coordinates of a fit with their joint covariance.

    ``tables`` are those of `COORDINATES`, all but two of which may be None: the derivative of all
    numbers of drift and noise, flattened, by the coordinates; both ends of the interval of the
    stationary variance of each mode, (N, 2); the covariance of the mean given the coordinates, and
    its derivative by them.
    """
    pairs = zip(COORDINATES.items(), tables, strict=False)
    variables = {name: (dims, table) for (name, dims), table in pairs if table is not None}
    return xr.Dataset(variables, {dim: list(names) for dim in COORDINATES["covariance"]})


# ---------- Laws on disk: ``law.json`` and ``arrays.safetensors``
#
# Writing is atomic. Laws that version 0.1 saved are upgraded to the current schema when read.


#: Version of the layout on disk; a reader refuses what is newer than itself. Version 0.1 wrote the
#: first two, for linear laws only; the third stores the kind of dynamics.
SCHEMA, OLDEST_SCHEMA = 3, 1
DOCUMENT, ARRAYS = "law.json", "arrays.safetensors"
#: Old names of the arrays of the state: of independent modes, and of coupled ones.
OLD_ARRAY_NAMES = {
    "dynamics.drift": ("state.eigenvalues", "state.drift"),
    "dynamics.noise": ("state.noise_variance", "state.noise_covariance"),
    "initial.mean": ("state.initial_mean",),
    "initial.covariance": ("state.initial_variance", "state.initial_covariance"),
    "observation_variance": ("state.observation_variance",),
}
#: Old prefixes of arrays with their new ones.
MOVED_PREFIXES = {"forcing.": "dynamics.forcing.", "pairs.": "statistics.pairs."}


def write_law(path: Path, law: Law, overwrite: bool = False) -> None:
    """Write description, arrays and the parameter table; old or new, never half."""
    check_replaceable(path)
    if not overwrite and written_files(path):
        fix = "pass overwrite=True to replace it, or choose another name"
        raise FileError(str(path), expected="a free name", got="a law of this name", fix=fix)
    (description, arrays), table = to_document(law), law.parameters
    tensors = {key: _tensor(value) for key, value in arrays.items()}
    layout = {name: list(map(str, table[name].dims)) for name in table.data_vars}
    for name in layout:
        tensors[f"parameters.{name}"] = _tensor(table[name].values)
    document = {"schema": SCHEMA, "parameters": layout, "parameter_attributes": table.attrs}
    document |= description
    with replace_directory(path, written_files) as folder:
        write_record(folder, (DOCUMENT, ARRAYS), document, tensors)


def _tensor(values: np.ndarray) -> np.ndarray:
    """Array as the file stores it: 64-bit floats, and 64-bit integers for indices."""
    kind = np.int64 if np.asarray(values).dtype.kind in "iu" else np.float64
    return np.array(values, dtype=kind, order="C")


def check_replaceable(path: Path) -> None:
    """Raise `FileError` unless the name is free, or that of a law and nothing else."""
    if not resolved(path).parent.is_dir():
        expected, fix = "an existing folder", "create the folder first"
        raise FileError(str(path), expected=expected, got=str(path.parent), fix=fix)
    refuse_foreign(path, written_files)


def written_files(folder: Path) -> tuple[str, ...]:
    """Files of a folder that `write_law` put there: both, or none where it is no law.

    Another program may call one of its files like ours; a law has both, or a document of ours.
    """
    has_both = all((folder / name).is_file() for name in (DOCUMENT, ARRAYS))
    is_law = has_both or is_record(folder / DOCUMENT, ("schema", "parameters"))
    return (DOCUMENT, ARRAYS) if is_law else ()


def read_law(path: Path) -> dict[str, Any]:
    """Arguments of `Law` from where one was saved."""
    document, arrays = read_record(path, (DOCUMENT, ARRAYS))
    schema = document.get("schema")
    if type(schema) is not int or not OLDEST_SCHEMA <= schema <= SCHEMA:
        expected, fix = f"a law of schema 1 to {SCHEMA}", "update spdelaw, or fit again"
        raise FileError(str(path), expected=expected, got=f"schema {schema}", fix=fix)
    table = _parameter_table(document, arrays)
    if schema < SCHEMA:
        document, arrays = upgrade(document, arrays)
    return {**from_document(document, arrays), "parameters": table}


def _parameter_table(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> xr.Dataset:
    variables = {
        name: (tuple(dims), arrays.pop(f"parameters.{name}"))
        for name, dims in document["parameters"].items()
    }
    return with_modes(variables, document["parameter_attributes"])


def upgrade(
    document: dict[str, Any], arrays: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Document and arrays of schema 1 or 2 as those of schema 3."""
    old, new = dict(arrays), dict(document)
    renamed = {
        name: next(old.pop(k) for k in keys if k in old) for name, keys in OLD_ARRAY_NAMES.items()
    }
    for name, value in old.items():
        before = next((prefix for prefix in MOVED_PREFIXES if name.startswith(prefix)), "")
        renamed[MOVED_PREFIXES.get(before, "") + name.removeprefix(before)] = value
    if "statistics.pairs.two_lengths" in renamed:  # indices, which 0.1 wrote as floats
        renamed["statistics.pairs.two_lengths"] = renamed["statistics.pairs.two_lengths"].astype(
            int
        )
    if "preparation" in new and new["preparation"]["how"].get("anomalies") != "month":
        renamed.setdefault("preparation.levels", np.zeros(1))  # of a climatology without groups
    season = {"season": new.pop("season")} if "season" in new else {}
    new["dynamics"] = {"name": "linear", "origin": float(old["times"][0]), **season}
    new["initial"] = {"kind": new.pop("initial_kind")}
    return new, renamed


# ---------- Validation of laws from files, which are not trusted


#: Dims that a table may have before its statistics.
TABLE_DIMS = ((), ("mode",), ("point",), ("mode", "mode_2"), ("part",), ("term",))
#: Tables of a linear law: of independent modes, or of coupled ones.
LINEAR_TABLES = (("eigenvalue", "noise_variance"), ("drift", "noise_covariance"))
INITIAL_KINDS = ("deterministic", "gaussian", "stationary")


@checked()
def load(path: str | Path) -> Law:
    """Load a law that `Law.save` wrote.

    Example:
        >>> import numpy as np, spdelaw as sl, tempfile, pathlib
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
        >>> law = sl.fit(data, domain=sl.Interval(0, np.pi), n_modes=2)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> law.save(folder / "heat.law")
        >>> bool(load(folder / "heat.law").parameters.equals(law.parameters))
        True
    """
    expected, fix = "a directory written by law.save()", "check the name; a damaged law has to be "
    with reading(Path(path), expected, fix + "fitted again"):
        law = Law(**read_law(Path(path)))
        check_law(law)
    return law


# -- invariants that the methods of a law rely on -------------------------------------------------
def check_law(law: Law) -> None:
    """Raise ValueError at the first invariant that the law violates."""
    _check_modes(law)
    _check_numbers(law)
    _check_table(law)


def _check_modes(law: Law) -> None:
    n, total, start = law.n_modes, law.dynamics.n_modes, law.initial
    operator = ((total,), (total, total))
    _require(isinstance(n, int) and not isinstance(n, bool), "n_modes as an integer")
    _require(1 <= n <= total, "n_modes of the stored dynamics")
    for name, values in law.dynamics.parameters.items():
        _require(bool(np.isfinite(values).all()), f"finite numbers of {name}")
    if isinstance(law.dynamics, Linear):
        for values in (law.dynamics.drift, law.dynamics.noise):
            _require(_is_finite(values, *operator), "drift and noise of all modes")
        _require(len(law.equation.eigenvalues) == total, "an equation of its modes")
    _require(start.kind in INITIAL_KINDS, f"an initial state of a kind in {INITIAL_KINDS}")
    _require(_is_finite(start.mean, (total,)), "a finite initial mean per mode")
    _require(_is_finite(start.covariance, *operator), "a finite initial covariance of all modes")


def _check_numbers(law: Law) -> None:
    n_points = law.points.shape[:1]
    _require(law.times.ndim == 1 and law.times.size > 0, "times as a vector")
    _require(bool(np.isfinite(law.times).all() and (np.diff(law.times) > 0).all()), "rising times")
    shape = law.observation_variance.shape
    _require(shape in ((), n_points), "one observation noise, or one per point")
    _require(law.offset is None or _is_finite(law.offset, n_points), "an offset of each point")
    _require(_is_number(law.unresolved_variance), "the unresolved variance as a number")
    _require(0 <= law.unresolved_variance < np.inf, "an unresolved variance of zero or more")
    for values in law.residual_memory or ():
        right = _is_finite(values, n_points) and bool((values >= 0).all())
        _require(right, "a residual variance of zero or more at the points of the data")


def _check_table(law: Law) -> None:
    table = law.parameters
    for name, values in table.data_vars.items():
        *dims, last = values.dims
        _require(tuple(dims) in TABLE_DIMS and last == "statistic", f"dims of {name}")
    _require(table.sizes["statistic"] == len(STATISTICS), "four statistics")
    _require("observation_std" in table, "a table of observation_std")
    if isinstance(law.dynamics, Linear):
        complete_tables = [names for names in LINEAR_TABLES if all(name in table for name in names)]
        _require(
            bool(complete_tables) and "initial_mean" in table,
            "tables of drift, noise, initial mean",
        )
    _require(table.sizes.get("mode", law.n_modes) == law.n_modes, "tables of the reported modes")
    level = table.attrs.get("interval_level") if isinstance(table.attrs, dict) else None
    _require(_is_number(level) and 0 < float(level or 0) < 1, "a level of the intervals")


def _is_finite(values: Any, *shapes: tuple[int, ...]) -> bool:
    return np.shape(values) in shapes and bool(np.isfinite(values).all())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"expected {what}")
