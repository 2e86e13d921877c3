"""Fields at a glance: description, fingerprint, names and units."""

from __future__ import annotations

import collections
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked
from spdelaw.data.executors import pieces_of, slices_of
from spdelaw.data.fields import canonical, check_values
from spdelaw.data.io.encoding import plain_attrs
from spdelaw.data.layout import (
    FIELD,
    LABEL,
    ORIGINAL,
    PATH,
    PATH_TIME,
    POINT,
    TIME,
    infer_dims,
    is_latitude,
    is_longitude,
)
from spdelaw.data.quality import ValueSummary, read_values
from spdelaw.errors import DataError

# ---------- SHA-256 of arrays, whatever their chunks, and of fields


class Digest:
    """Hash of an array, path by path, so that chunks leave no trace.

    Every NaN counts as the same NaN; apart from that the hash is of the very bits.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._head = f"{shape} {dtype.kind}{dtype.itemsize}".encode()
        self._paths: dict[int, Any] = collections.defaultdict(hashlib.sha256)

    def update(self, first: int, block: np.ndarray) -> None:
        """Take one block into account, from a path on; blocks of a path come in order of time."""
        for path, rows in enumerate(_canonical_bytes(block), first):
            self._paths[path].update(rows)

    def hexdigest(self) -> str:
        """Hash of shape, dtype and values, after the last block."""
        whole = hashlib.sha256(self._head)
        for path in sorted(self._paths):
            whole.update(self._paths[path].digest())
        return whole.hexdigest()


def _canonical_bytes(block: np.ndarray) -> np.ndarray:
    if block.dtype.kind == "f" and np.isnan(block).any():
        block = np.where(np.isnan(block), block.dtype.type(np.nan), block)
    return np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))


def fingerprint(fields: xr.DataArray) -> str:
    """SHA-256 of the content of fields: values, dims and coordinates, not attributes.

    It tells whether two fields are the same data. Names, attributes, chunks and the file
    they come from do not matter. Lazy fields are read once, block by block.

    Args:
        fields: fields ``(path, time, *space)``.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields
        >>> from spdelaw.data.summary import fingerprint
        >>> fields = as_fields(np.zeros((1, 2, 3)), times=[0, 1], points=[0, 1, 2])
        >>> fingerprint(fields)[:12]
        '63dc4fcc8da9'
        >>> fingerprint(fields) == fingerprint(fields.rename("u"))
        True
    """
    fields = canonical(fields)
    digest = Digest(fields.shape, fields.dtype)
    for (paths, _), block in pieces_of(fields.variable.data).read():
        digest.update(paths.start, block)
    return combine(fields, digest)


def checksum(fields: xr.DataArray, reading: ValueSummary | None = None) -> str:
    """Whether two canonical fields are the same data, at the price of one reading.

    SHA-256 of dims, coordinates and the sums of a `ValueSummary`, of each run of values and of each
    place in a run. No accident leaves all of these as they are; to leave them so on purpose is
    easy, and `fingerprint` is for that.

    Args:
        fields: canonical.
        reading: of their values, where they were read before.
    """
    sums = (read_values(_value_blocks(fields)) if reading is None else reading).sums[None, None]
    digest = Digest(fields.shape, fields.dtype)
    digest.update(0, sums)
    return combine(fields, digest)


def _value_blocks(fields: xr.DataArray) -> Iterator[np.ndarray]:
    """Values in their order: all at once, or by the chunks of times of one lazy path."""
    if fields.chunks is None or fields.sizes[PATH] > 1:
        yield fields.values
        return
    for rows in slices_of(fields.chunksizes[TIME]):
        yield fields.isel(time=rows).values


def combine(fields: xr.DataArray, values: Digest) -> str:
    """Fingerprint of fields from the digest of their values."""
    names = [PATH, TIME, PATH_TIME, *infer_dims(fields)]
    parts = {"dims": " ".join(map(str, fields.dims)), "values": values.hexdigest()}
    for name in names:
        if name in fields.coords:
            parts[name] = _coordinate_digest(fields[name].variable)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _coordinate_digest(coordinate: xr.Variable) -> str:
    values = coordinate.values
    if values.dtype.kind == "U":
        return hashlib.sha256(json.dumps(values.tolist()).encode()).hexdigest()
    table = values if values.ndim > 1 else values.reshape(1, -1)
    digest = Digest(table.shape, table.dtype)
    digest.update(0, table)
    return digest.hexdigest()


# ---------- Summary of fields


#: Points off a uniform grid by less than this part of its spacing count as on it.
UNIFORM_TOLERANCE = 1e-6


@checked()
def describe(fields: xr.DataArray) -> dict[str, Any]:
    """Summary of fields as a dict of plain text and numbers, ready for JSON.

    Lazy fields may be larger than memory: values are read block by block, in two passes.

    Args:
        fields: fields ``(path, time, *space)``.

    Returns:
        Dict with ``name``, ``dims``, ``sizes``, ``units``, ``coordinates`` (range, units, and
        spacing where uniform), ``per_path_times``, ``missing`` (count and fraction),
        ``values`` (range, mean, standard deviation of the observed values), ``equation`` (the
        attribute of that name, decoded, or None), the other ``attributes``, and
        ``fingerprint``, the SHA-256 of values and coordinates.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, describe
        >>> fields = as_fields([[0.0, np.nan], [2.0, 4.0]], times=[0, 1], points=[0, 1])
        >>> summary = describe(fields)
        >>> summary["sizes"], summary["missing"]
        ({'path': 1, 'time': 2, 'x': 2}, {'count': 1, 'fraction': 0.25})
        >>> summary["values"]["mean"], summary["coordinates"]["time"]["spacing"]
        (2.0, 1.0)
    """
    fields = canonical(fields)
    moments, missing = _moments(fields)
    if moments["min"] is None or moments["max"] is None or PATH_TIME in fields.coords:
        check_values(fields)
    attributes = _json_safe(plain_attrs(str(fields.name), fields.attrs))
    equation = _decode_equation(attributes.pop("equation", None))
    return {
        "name": str(fields.name),
        "dims": [str(dim) for dim in fields.dims],
        "sizes": {str(dim): int(size) for dim, size in fields.sizes.items()},
        "units": attributes.pop("units", None),
        "coordinates": _coordinates(fields),
        "per_path_times": PATH_TIME in fields.coords,
        "missing": {"count": missing, "fraction": missing / fields.size},
        "values": moments,
        "equation": equation,
        "attributes": attributes,
        "fingerprint": fingerprint(fields),
    }


def _moments(fields: xr.DataArray) -> tuple[dict[str, float | None], int]:
    """Range, mean and standard deviation of the values that are not missing; how many are."""
    with np.errstate(over="ignore", invalid="ignore"):  # sums of values near 1e300 overflow
        words = ("min", "max", "mean", "std", "count")
        numbers = xr.Dataset({word: getattr(fields, word)() for word in words}).compute()
    missing = fields.size - int(numbers["count"])
    values = {word: float(numbers[word]) for word in words[:-1]}
    # JSON has no infinity.
    return {word: v if np.isfinite(v) else None for word, v in values.items()}, missing


def _coordinates(fields: xr.DataArray) -> dict[str, dict[str, Any]]:
    names = [TIME, PATH_TIME, *infer_dims(fields)]
    summaries = {name: _coordinate(fields[name]) for name in names if name in fields.coords}
    labels = fields[PATH].values
    return {
        PATH: {"n": len(labels), "first": labels[0].item(), "last": labels[-1].item()},
        **summaries,
    }


def _coordinate(coordinate: xr.DataArray) -> dict[str, Any]:
    values = coordinate.values
    if values.dtype.kind not in "iuf":  # names of several fields
        return {"n": values.size, "names": sorted(set(values.tolist()), key=values.tolist().index)}
    spacing = _spacing(values) if coordinate.name in coordinate.dims else None
    return {
        "n": int(np.isfinite(values).sum()),
        "min": float(np.nanmin(values)),
        "max": float(np.nanmax(values)),
        "uniform": spacing is not None,
        "spacing": spacing,
        "units": coordinate.attrs.get("units"),
    }


def _spacing(values: np.ndarray) -> float | None:
    """Mean spacing of a uniform coordinate; None where it is not uniform or has one entry."""
    if values.size < 2:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        spacing = (values[-1] - values[0]) / (values.size - 1)
        off = np.abs(values[0] + spacing * np.arange(values.size) - values).max()
    return float(spacing) if np.isfinite(spacing) and off <= UNIFORM_TOLERANCE * spacing else None


def _decode_equation(equation: Any) -> Any:
    """JSON text as what it says; other text stays text."""
    try:
        return json.loads(equation) if isinstance(equation, str) else equation
    except (ValueError, RecursionError):
        return equation


def _json_safe(value: Any) -> Any:
    """Numbers that JSON lacks as text."""
    if isinstance(value, dict):
        return {name: _json_safe(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_json_safe(entry) for entry in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


# ---------- Names, units and attributes of data, kept by a law and put back on its results


#: Attributes about the values that were stored, which new values need not obey.
VALUE_ATTRIBUTES = (
    "actual_range", "valid_range", "valid_min", "valid_max", "missing_value", "_FillValue",
    "equation", "scale_factor", "add_offset", "cell_methods", "ancillary_variables",
)  # fmt: skip
#: Variables of results: their description, and their cell method of CF.
RESULT_KINDS = {
    "mean": ("mean of {}", "realization: mean"),
    "std": ("standard deviation of {}", "realization: standard_deviation"),
    "std_field": ("standard deviation of {} without noise", "realization: standard_deviation"),
    "sample": ("draws of {}", "realization: point"),
}


def labels_of(fields: xr.DataArray) -> dict[str, Any]:
    """Name and attributes of canonical fields and of their coordinates, as plain data."""
    attrs_by_name = {
        str(name): _json_attrs(c.attrs) for name, c in fields.coords.items() if name != TIME
    }
    coords = {name: attrs for name, attrs in attrs_by_name.items() if attrs}
    if ORIGINAL in fields[TIME].attrs:
        coords[TIME] = {ORIGINAL: str(fields[TIME].attrs[ORIGINAL])}
    return {"name": str(fields.name), "attrs": _json_attrs(fields.attrs), "coords": coords}


def _json_attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes that describe, as JSON; what JSON cannot hold is left out."""
    kept: dict[str, Any] = {}
    for name, value in attrs.items():
        try:
            plain = plain_attrs("field", {name: value})
        except DataError:
            continue
        finite = not isinstance(value, float) or np.isfinite(value)
        kept |= plain if name not in VALUE_ATTRIBUTES and finite else {}
    return kept


def restore_names(
    result: xr.Dataset, labels: Mapping[str, Any], fields: xr.DataArray | None = None
) -> xr.Dataset:
    """Results under the names of the data, with their attributes and those of CF.

    Args:
        result: over canonical dims.
        labels: of `labels_of`.
        fields: canonical fields at the same paths and points, whose further coordinates (names
            of stations, starts of forecasts) belong to the result too.
    """
    result = result if fields is None else result.assign_coords(_extra_coordinates(result, fields))
    if "columns" in labels.get("attrs", {}):  # of the table that the data came from
        result = result.assign_attrs(columns=labels["attrs"]["columns"])
    coord_attrs = labels.get("coords", {})
    for name in [str(n) for n in result.coords if n in coord_attrs]:
        attrs = {k: v for k, v in coord_attrs[name].items() if k != ORIGINAL}
        if name != PATH or fields is not None:
            result = result.assign_coords({name: result[name].assign_attrs(attrs)})
    for each in result.data_vars:
        result[each].attrs = _result_attrs(str(each), labels) | result[each].attrs
    return _restore_original_names(_unstack_grid(result), coord_attrs, fields is not None)


def _extra_coordinates(result: xr.Dataset, fields: xr.DataArray) -> dict[str, xr.Variable]:
    """Coordinates along paths or points that are no part of the contract."""
    return {
        str(name): coordinate.variable
        for name, coordinate in fields.coords.items()
        if name not in result.coords
        and coordinate.ndim == 1
        and coordinate.dims[0] != TIME
        and all(result.sizes.get(d) == n for d, n in coordinate.sizes.items())
    }


def _result_attrs(variable: str, labels: Mapping[str, Any]) -> dict[str, Any]:
    attrs = dict(labels.get("attrs", {}))
    what = str(attrs.get("long_name") or attrs.get("standard_name") or labels.get("name", FIELD))
    if variable not in RESULT_KINDS:
        return attrs
    words, method = RESULT_KINDS[variable]
    kept = {k: attrs[k] for k in ("standard_name", "units") if k in attrs}
    return kept | {"long_name": words.format(what), "cell_methods": method}


def _unstack_grid(result: xr.Dataset) -> xr.Dataset:
    """Points of a curvilinear grid back on its two indices."""
    along = [str(n) for n, c in result.coords.items() if c.attrs.get(LABEL) == "index"]
    along = [name for name in along if result[name].dims == (POINT,)]
    if len(along) < 2:
        return result
    attrs = {n: {k: v for k, v in result[n].attrs.items() if k != LABEL} for n in along}
    grid = result.set_index({POINT: tuple(along)}).unstack(POINT)
    return grid.assign_coords({n: grid[n].assign_attrs(attrs[n]) for n in along})


def _restore_original_names(
    result: xr.Dataset, coord_attrs: Mapping[str, Any], paths: bool
) -> xr.Dataset:
    for name, attrs in [
        *coord_attrs.items(),
        *coord_attrs.items(),
    ]:  # a name may have to get free first
        old = attrs.get(ORIGINAL)
        if (name not in result.variables and name not in result.dims) or not isinstance(old, str):
            continue
        if name == old or (name == PATH and not paths):
            continue
        if old in result.coords and result[old].dims == (name,):  # labels of text stood for it
            result = result.swap_dims({name: old}).drop_vars(name)
        elif old not in result.variables and old not in result.dims:
            result = result.rename({name: old})
    result = _latitudes_first(result)
    for each in result.coords:
        result[each].attrs.pop(LABEL, None)
        result[each].attrs.pop(ORIGINAL, None)
    return result


def _latitudes_first(result: xr.Dataset) -> xr.Dataset:
    """Maps in the order (..., latitude, longitude), as files have them."""
    dims = [str(d) for d in result.dims]
    lat = [d for d in dims if is_latitude(result, d)]
    lon = [d for d in dims if is_longitude(result, d)]
    if len(lat) != 1 or len(lon) != 1:
        return result
    return result.transpose(..., lat[0], lon[0])
