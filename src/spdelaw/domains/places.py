"""Points in space and how fields are labelled there: axes of a grid, or one dim ``point``.

Inside the package a field is (..., n_points) whatever its domain, and points are (n_points,)
in one dimension and (n_points, d) in d. This module converts in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import real_array
from spdelaw.errors import DomainError

Array = np.ndarray

#: Dim of scattered points in several dimensions, as in the data contract.
POINT = "point"
#: Dim of several fields on one domain; its labels may be names.
VARIABLE = "variable"
#: Points that fill more than this part of the grid of their coordinates are a grid with holes.
MIN_GRID_SHARE = 0.5
#: Points outside the domain that a message names.
MAX_NAMED_POINTS = 3


class Places(NamedTuple):
    """Points of fields and their labels.

    Attributes:
        points: (M,), or (M, d).
        dims: spatial dims of the labelled field, (x, y) on a grid or (point,).
        coords: coordinate by name, as (dims, values).
        shape: sizes of ``dims``.
        inside: cells of the grid that are points, flat (prod(shape),); None where all are.
    """

    points: Array
    dims: tuple[str, ...]
    coords: Mapping[str, tuple[tuple[str, ...], Array]]
    shape: tuple[int, ...]
    inside: Array | None = None

    def flatten(self, values: Any) -> Any:
        """Values (..., *shape) as (..., M)."""
        lead = values.shape[: values.ndim - len(self.shape)]
        flat = values.reshape(*lead, int(np.prod(self.shape)))
        return flat if self.inside is None else flat[..., self.inside]

    def unflatten(self, values: Array) -> Array:
        """Values (..., M) as (..., *shape); NaN in the holes of a grid."""
        lead = values.shape[:-1]
        if self.inside is not None:
            whole = np.full((*lead, len(self.inside)), np.nan)
            whole[..., self.inside] = values
            values = whole
        return values.reshape(*lead, *self.shape)

    def has_values(self, values: Any) -> Array:
        """Which points hold a value anywhere in values (..., *shape); (M,)."""
        flat = self.flatten(values)
        return np.asarray(~np.isnan(flat).all(axis=tuple(range(flat.ndim - 1))))

    def only(self, inside: Array) -> Places:
        """The same grid or list with fewer of the points; the others become holes."""
        whole = inside
        if self.inside is not None:
            whole = self.inside.copy()
            whole[whole] = inside
        return self._replace(points=self.points[inside], inside=whole)


def places_of_points(points: Array, dims: tuple[str, ...]) -> Places:
    """Labels of bare points: the axes they are the grid of, in its order, else ``point``."""
    if points.ndim == 1:
        return Places(points, dims, {dims[0]: (dims, points)}, points.shape)
    axes = [np.unique(column) for column in points.T]
    shape = tuple(len(axis) for axis in axes)
    columns = zip(axes, points.T, strict=True)
    at = np.ravel_multi_index([np.searchsorted(axis, c) for axis, c in columns], shape)
    if len(points) <= MIN_GRID_SHARE * np.prod(shape) or (np.diff(at) <= 0).any():
        coords = {d: ((POINT,), points[:, i]) for i, d in enumerate(dims)}
        return Places(points, (POINT,), coords, (len(points),))
    coords = {d: ((d,), axis) for d, axis in zip(dims, axes, strict=True)}
    inside = np.zeros(int(np.prod(shape)), bool)
    inside[at] = True
    return Places(points, dims, coords, shape, None if inside.all() else inside)


def places_of_fields(fields: xr.DataArray, dims: tuple[str, ...]) -> Places:
    """Labels of fields as they are, for fields whose spatial dims come last."""
    space = space_dims(fields, dims)
    scattered = space != dims
    unknown = [d for d in dims if d not in fields.coords]
    if unknown:
        fix = f"fields.assign_coords({unknown[0]}=...)"
        raise DomainError("fields", expected=f"a coordinate '{unknown[0]}'", got="none", fix=fix)
    values = [numbered(np.asarray(fields[d].values)) for d in dims]
    coords = {d: (((POINT,) if scattered else (d,)), v) for d, v in zip(dims, values, strict=True)}
    if len(dims) == 1:
        return Places(values[0], dims, coords, values[0].shape)
    points = np.stack(values, axis=1) if scattered else grid_points(values)
    return Places(points, space, coords, tuple(fields.sizes[d] for d in space))


def space_dims(fields: xr.DataArray, dims: tuple[str, ...]) -> tuple[str, ...]:
    """Spatial dims of fields on a domain with coordinates ``dims``: those, or ``point``."""
    if POINT in fields.dims and len(dims) > 1:
        return (POINT,)
    missing = [d for d in dims if d not in fields.dims]
    if missing:
        got = f"dims {tuple(fields.dims)}"
        fix = f"rename the spatial dim, for example fields.rename(longitude='{missing[0]}')"
        raise DomainError("fields", expected=f"spatial dims {dims}", got=got, fix=fix)
    return dims


def numbered(labels: Array) -> Array:
    """Names as 0, 1, ... in the order in which they appear; numbers as they are."""
    if labels.dtype.kind in "iuf":
        return labels
    first = {name: float(k) for k, name in enumerate(dict.fromkeys(labels.tolist()))}
    return np.array([first[name] for name in labels.tolist()])


def grid_points(axes: list[Array] | tuple[Array, ...]) -> Array:
    """All points of a grid, the last axis fastest; (prod(n), d)."""
    mesh = np.meshgrid(*(np.asarray(axis, float) for axis in axes), indexing="ij")
    return np.stack([coordinate.ravel() for coordinate in mesh], axis=1)


def as_points(points: Any, dims: tuple[str, ...]) -> Array:
    """Points (M,) or (M, d) of finite float64 from a table, or from one axis a dim of a grid."""
    try:
        table = _table(points, dims)
    except DomainError as error:
        raise _not_points(dims, error.got) from error
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise _not_points(dims, str(error) or type(error).__name__) from error
    n_axes = 1 if len(dims) == 1 else 2
    if table.ndim != n_axes or table.size == 0 or (n_axes == 2 and table.shape[1] != len(dims)):
        raise _not_points(dims, f"shape {table.shape}")
    if not np.isfinite(table).all():
        raise _not_points(dims, "values that are not finite")
    return table


def _table(points: Any, dims: tuple[str, ...]) -> Array:
    if isinstance(points, Mapping):
        points = tuple(points[d] for d in dims)
        points = points[0] if len(dims) == 1 else points
    if len(dims) == 1:
        return np.atleast_1d(real_array("points", points))
    if isinstance(points, list | tuple) and len(points) == len(dims):
        axes = [np.atleast_1d(np.asarray(axis, dtype=float)) for axis in points]
        if all(axis.ndim == 1 for axis in axes):
            return grid_points(axes)
    return real_array("points", points)


def list_points(points: Array, dims: tuple[str, ...], outside: Array) -> str:
    """Text that names the first points which lie outside a domain."""
    at = np.flatnonzero(outside)
    named = []
    for i in at[:MAX_NAMED_POINTS]:
        position = zip(dims, np.atleast_1d(points[i]), strict=True)
        named.append(f"number {i} at {', '.join(f'{d} {v:g}' for d, v in position)}")
    more = f", and {len(at) - len(named)} more" if len(at) > len(named) else ""
    return f"{len(at)} of {len(points)} outside, counted from 0: {'; '.join(named)}{more}"


def _not_points(dims: tuple[str, ...], got: str) -> DomainError:
    if len(dims) == 1:
        fix = "pass a one-dimensional array of finite coordinates"
        return DomainError("points", expected="a vector of finite points", got=got, fix=fix)
    expected = f"a grid ({', '.join(dims)}) or an array (n, {len(dims)})"
    fix = f"pass a tuple of {len(dims)} axes, or one row per point"
    return DomainError("points", expected=expected, got=got, fix=fix)
