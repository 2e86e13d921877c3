"""Fields as the systems need them: complete, on one clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import as_fields, split
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError
from spdelaw.paper.baselines._grid import Grid

#: Share of the paths that choose the best epoch where none are given.
HELD_OUT = 0.15


def fields_of(data: Any, domain: AbstractDomain) -> xr.DataArray:
    """Complete fields (path, time, x) of data, or `DataError`."""
    given = data["field"] if isinstance(data, xr.Dataset) and "field" in data else data
    fields = as_fields(given, dims=domain.dims)
    if len(domain.dims) != 1:
        expected = "one dimension of space, which these systems are for"
        fix = "use sl.fit, which knows other domains"
        raise DataError("domain", expected=expected, got=f"{len(domain.dims)}", fix=fix)
    if "path_time" in fields.coords or not np.isfinite(fields.values).all():
        expected = "complete fields on one clock, which these systems need"
        got = "times of each path's own" if "path_time" in fields.coords else "missing values"
        fix = "use sl.fit, which learns through gaps, or leave such paths out"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    if fields.sizes["time"] < 3 or not np.any(fields.values[:, 1:], axis=(1, 2)).all():
        expected = "at least three times, and no path that is zero throughout"
        fix = "leave out such paths: they have no norm"
        raise DataError("fields", expected=expected, got=f"{fields.sizes['time']} times", fix=fix)
    return fields


def grid_of(fields: xr.DataArray, domain: AbstractDomain) -> Grid:
    """Times and points of fields."""
    points = domain.check_points(fields[domain.dims[0]].values)
    return Grid(np.asarray(fields["time"].values, float), points, domain)


def matches(one: Grid, other: Grid) -> bool:
    """Whether two grids are the same one."""
    if one.shape != other.shape:
        return False
    return np.allclose(one.times, other.times) and np.allclose(one.points, other.points)


def split_off(data: Any, seed: int) -> tuple[Any, Any]:
    """Data in two parts by path, the second for validation; a Dataset keeps its noise."""
    fields = data["field"] if isinstance(data, xr.Dataset) and "field" in data else as_fields(data)
    parts = split(fields, (1.0 - HELD_OUT, HELD_OUT), seed=seed)
    if not isinstance(data, xr.Dataset):
        return parts[0], parts[1]
    return data.sel(path=parts[0]["path"]), data.sel(path=parts[1]["path"])


def labelled(values: np.ndarray, grid: Grid) -> xr.DataArray:
    """Values (path, time, x) on a grid as fields."""
    coords = {"path": np.arange(len(values)), "time": grid.times, grid.domain.dims[0]: grid.points}
    return xr.DataArray(values, dims=tuple(coords), coords=coords)
