"""Fields as the mathematics has them, without what people call their points."""

from __future__ import annotations

import xarray as xr


def without_labels(fields: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    """Fields with the coordinates of the contract alone, so that results stay as flat as they.

    Indices of a curvilinear grid, for example, would have results unfolded on that grid.
    """
    kept = {"path", "time", "path_time", *dims}
    return fields.drop_vars([name for name in fields.coords if name not in kept])
