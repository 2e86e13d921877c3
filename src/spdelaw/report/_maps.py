"""Fields in two dimensions as maps: cells of a grid, triangles of a mesh, or coloured points."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import infer_dims
from spdelaw.errors import DataError

#: Dims that run to the right in a map, whatever their order in the data.
HORIZONTAL = ("x", "lon", "longitude")
#: Colour of what is missing.
MISSING = "#BDBDBD"


def space_dims(fields: xr.DataArray) -> tuple[str, ...]:
    """Dims that are neither path nor time."""
    return tuple(str(d) for d in fields.dims if d not in ("path", "time"))


def space_names(fields: xr.DataArray) -> tuple[str, ...]:
    """Names of the spatial coordinates: the dims, or the coordinates along ``point``."""
    dims = space_dims(fields)
    if dims != ("point",):
        return dims
    return infer_dims(fields)


def is_map(fields: xr.DataArray) -> bool:
    """Whether fields are drawn as maps; False in one dimension, `DataError` in three."""
    names = space_names(fields)
    if len(names) > 2:
        expected = "one or two spatial dims to draw"
        fix = f"choose a slice first: fields.sel({names[-1]}=0, method='nearest')"
        raise DataError("fields", expected=expected, got=f"{len(names)}: {names}", fix=fix)
    return len(names) == 2


def axis_names(panel: xr.DataArray) -> tuple[str, str]:
    """Names of the horizontal and the vertical coordinate."""
    first, second = space_names(panel)
    return (second, first) if second in HORIZONTAL else (first, second)


def map_shape(panel: xr.DataArray) -> float:
    """Height over width of a map, within what a figure can bear."""
    right, up = axis_names(panel)
    width, height = (float(np.ptp(panel[name].values)) for name in (right, up))
    return float(np.clip(height / width, 0.3, 1.5)) if width > 0 and height > 0 else 1.0


def draw_map(
    ax: Any, panel: xr.DataArray, scale: dict[str, Any], triangles: np.ndarray | None = None
) -> Any:
    """Draw one field over two coordinates; NaN shows the grey ground of a grid."""
    right, up = axis_names(panel)
    ax.grid(False)
    ax.set_aspect("equal")
    if "point" not in panel.dims:
        ax.set_facecolor(MISSING)
        cells = np.ma.masked_invalid(panel.transpose(up, right).values)
        where = (edges(panel[right].values), edges(panel[up].values))
        return ax.pcolormesh(*where, cells, rasterized=True, **scale)
    x, y, values = panel[right].values, panel[up].values, panel.values
    if triangles is not None:
        return ax.tripcolor(x, y, triangles, values, shading="gouraud", rasterized=True, **scale)
    size = float(np.clip(4000.0 / len(x), 2.0, 60.0))
    return ax.scatter(x, y, c=values, s=size, linewidths=0, rasterized=True, **scale)


def time_text(time: Any) -> str:
    """A time as a date or as a number."""
    value = np.asarray(time)
    if value.dtype.kind == "M":
        return str(np.datetime_as_string(value, unit="D"))
    return f"t = {float(value):.3g}" if value.dtype.kind in "iuf" else str(time)[:10]


def edges(points: np.ndarray) -> np.ndarray:
    """Ends of cells around points."""
    if len(points) == 1:
        half = np.timedelta64(12, "h") if points.dtype.kind == "M" else 0.5
        return np.array([points[0] - half, points[0] + half])
    middle = points[:-1] + 0.5 * np.diff(points)
    return np.concatenate([points[:1], middle, points[-1:]])


def nearest(fields: xr.DataArray, point: Any = None) -> xr.DataArray:
    """Fields at the place nearest to ``point``; at the middle one where that is None."""
    names, dims = space_names(fields), space_dims(fields)
    if point is None and dims != ("point",):
        return fields.isel({d: fields.sizes[d] // 2 for d in dims})
    values = [fields[name].values for name in names]
    wanted = np.atleast_1d(point) if point is not None else np.mean(values, axis=1)
    if np.shape(wanted) != (len(names),):
        expected = f"one number for each of {', '.join(names)}"
        fix = "leave it out for the middle of the grid"
        raise DataError("point", expected=expected, got=repr(point), fix=fix)
    if dims == ("point",):
        gaps = sum((v - w) ** 2 for v, w in zip(values, wanted, strict=True))
        return fields.isel(point=int(np.argmin(gaps)))
    pairs = zip(names, values, wanted, strict=True)
    return fields.isel({name: int(np.abs(v - w).argmin()) for name, v, w in pairs})
