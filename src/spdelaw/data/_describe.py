"""What there is to know about fields at a glance."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._contract import canonical, check_values
from spdelaw.data._encode import plain_attrs
from spdelaw.data._fingerprint import Digest, combine
from spdelaw.data._layout import PATH, PATH_TIME, TIME, infer_dims
from spdelaw.data._sweep import Moments

#: Points off a uniform grid by less than this part of its spacing count as on it.
UNIFORM = 1e-6


def describe(fields: xr.DataArray) -> dict[str, Any]:
    """Summary of fields as a dict of plain text and numbers, ready for JSON.

    One pass over the values, block by block, so that lazy fields may be larger than memory.

    Args:
        fields: fields ``(path, time, *space)``.

    Returns:
        Dict with ``name``, ``dims``, ``sizes``, ``units``, ``coordinates`` (range, units, and
        spacing where uniform), ``per_path_times``, ``missing`` (count and fraction),
        ``values`` (range, mean, standard deviation of what is known), ``equation`` (the
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
    digest, moments = Digest(fields.shape, fields.dtype), Moments()
    seen = check_values(fields, digest, moments)
    attributes = _strict(plain_attrs(str(fields.name), fields.attrs))
    equation = _decoded(attributes.pop("equation", None))
    return {
        "name": str(fields.name),
        "dims": [str(dim) for dim in fields.dims],
        "sizes": {str(dim): int(size) for dim, size in fields.sizes.items()},
        "units": attributes.pop("units", None),
        "coordinates": _coordinates(fields),
        "per_path_times": PATH_TIME in fields.coords,
        "missing": {"count": seen.missing, "fraction": seen.missing / seen.size},
        "values": _summary(moments),
        "equation": equation,
        "attributes": attributes,
        "fingerprint": combine(fields, digest),
    }


def _summary(moments: Moments) -> dict[str, float | None]:
    numbers = {
        "min": moments.minimum,
        "max": moments.maximum,
        "mean": moments.mean,
        "std": moments.std,
    }
    # Sums of values near 1e300 overflow, and JSON has no infinity.
    return {name: value if np.isfinite(value) else None for name, value in numbers.items()}


def _coordinates(fields: xr.DataArray) -> dict[str, dict[str, Any]]:
    names = [TIME, PATH_TIME, *infer_dims(fields)]
    found = {name: _coordinate(fields[name]) for name in names if name in fields.coords}
    labels = fields[PATH].values
    return {PATH: {"n": len(labels), "first": labels[0].item(), "last": labels[-1].item()}, **found}


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
    return float(spacing) if np.isfinite(spacing) and off <= UNIFORM * spacing else None


def _decoded(equation: Any) -> Any:
    """JSON text as what it says; other text stays text."""
    try:
        return json.loads(equation) if isinstance(equation, str) else equation
    except (ValueError, RecursionError):
        return equation


def _strict(value: Any) -> Any:
    """Numbers that JSON lacks as text."""
    if isinstance(value, dict):
        return {name: _strict(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_strict(entry) for entry in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value
