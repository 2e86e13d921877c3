"""Data under a law as arrays, and results as labelled fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.domain import Places, Products
from spdelaw.errors import DataError
from spdelaw.law._clock import own_clock, shared_clock
from spdelaw.law._states import FieldMoments
from spdelaw.model import AnyParameters

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: Observation variance, relative to the field's, below which the filter does not go.
VARIANCE_FLOOR = 1e-10


class Seen(NamedTuple):
    """Data under a law as arrays.

    Attributes:
        fields: labelled, (path, time, x), flat along ``point`` in several dimensions.
        values: (P, T, M).
        times: (T,) or (P, T).
        basis: all modes at the points, (M, N).
        places: points and labels of the data as they came.
        products: of the modes at the points.
    """

    fields: xr.DataArray
    values: Array
    times: Array
    basis: Array
    places: Places
    products: Products


def seen(law: Law, data: Any) -> Seen:
    """Data prepared, on the law's clock and from its first time on."""
    labelled = law.prepared(data)
    places, fields = law.domain.places(labelled), law.domain.flatten(labelled)
    products = law.domain.products(places.points, law.state.n_modes)
    if "path_time" in fields.coords:
        values, times = own_clock(fields, float(law.times[0]))
        return Seen(fields, values, times, _basis(law, places), places, products)
    # The initial state belongs to the first time of the law, not to that of the data.
    values, times = shared_clock(fields, float(law.times[0]))
    if len(times) < 2:
        raise DataError(
            "time", expected="at least two times", got=str(len(times)),
            fix="pass the history from its first time on",
        )  # fmt: skip
    return Seen(fields, values, times, _basis(law, places), places, products)


def target(law: Law, data: Seen, grid: Any) -> tuple[Places, Array]:
    """Where results are wanted, and the modes there; by default where the data are."""
    if grid is None:
        return data.places, data.basis
    places = law.domain.places(grid)
    return places, _basis(law, places)


def _basis(law: Law, places: Places) -> Array:
    return law.domain.eigenfunctions(places.points, law.state.n_modes)


def working(law: Law, values: Array) -> AnyParameters:
    """Parameters for the filter: what the modes leave over acts as observation noise."""
    floor = VARIANCE_FLOOR * float(np.nanmean(values**2))
    r = law.state.observation_variance
    if np.ndim(r):
        return law.state._replace(observation_variance=np.asarray(1.0))
    return law.state._replace(
        observation_variance=np.asarray(max(float(r) + law.unresolved_variance, floor))
    )


def weights(law: Law, n_points: int) -> Array | None:
    """Precision of each point, where the noise was learned point by point."""
    r = law.state.observation_variance
    if np.ndim(r) == 0:
        return None
    if len(r) != n_points:
        raise DataError(
            "points", expected=f"the {len(r)} points the noise was learned at",
            got=f"{n_points} points", fix="use the same grid, or fit one noise for all points",
        )  # fmt: skip
    return 1.0 / (np.asarray(r) + law.unresolved_variance)


def clock_coords(fields: xr.DataArray) -> dict[str, Any]:
    """Paths and times of the data, as coordinates of a result."""
    coords: dict[str, Any] = {"path": fields["path"].values, "time": fields["time"].values}
    if "path_time" in fields.coords:
        coords["path_time"] = fields["path_time"]
    return coords


def moments_dataset(
    law: Law, moments: FieldMoments, places: Places, coords: dict[str, Any]
) -> xr.Dataset:
    """``mean`` and ``std``; what the modes leave over adds to the deviation."""
    dims = ("path", "time", *places.dims)
    std = moments.variance + law.unresolved_variance
    np.sqrt(std, out=std)
    return xr.Dataset(
        {"mean": (dims, places.unflatten(moments.mean)), "std": (dims, places.unflatten(std))},
        coords={**coords, **places.coords},
        attrs={"observation_std": float(np.sqrt(np.mean(law.state.observation_variance)))},
    )
