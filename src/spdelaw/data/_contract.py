"""The data contract: what fields look like everywhere in the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._adapt import to_array
from spdelaw.data._axes import label_paths, order_space, order_time
from spdelaw.data._clock import check_unit
from spdelaw.data._layout import PATH_TIME, arrange, check_dims, infer_dims
from spdelaw.data._sweep import Index, Observer, Values, sweep
from spdelaw.errors import DataError


def as_fields(
    data: Any,
    *,
    times: Any = None,
    points: Any = None,
    variable: str | None = None,
    dims: str | Sequence[str] = ("x",),
    time_unit: str | None = None,
) -> xr.DataArray:
    """Bring data into the canonical form of fields, or say precisely why that is impossible.

    Canonical fields are a float64 DataArray with dims ``(path, time, *dims)``; NaN means
    missing. ``time`` and the space coordinates are float64 and strictly increasing, ``path``
    holds distinct labels. Descending data are turned round, space points in any order are
    sorted, a single path gets a path dim of size 1. Data that are canonical already are not
    copied, and Dask arrays stay lazy: their values are checked block by block, in one pass.

    Paths with times of their own carry a second coordinate ``path_time`` with dims
    ``(path, time)``, increasing in each path and padded with NaN at the end where the data
    are missing too; ``time`` then merely counts. Scattered points in more than one dimension
    lie along one dim ``point``, with a coordinate along it for each name in ``dims``.

    Dates (datetime64, cftime) become numbers since the first of them, durations become
    numbers; ``time.attrs["units"]`` records it.

    Args:
        data: DataArray with dims in any order; Dataset; or a bare array (NumPy, masked,
            torch, Dask, nested lists) of shape ``(T, *M)`` or ``(P, T, *M)``.
        times: times ``(T,)`` of a bare array, or ``(P, T)`` for times per path.
        points: space points of a bare array: ``(M,)`` in one dimension; for several, one
            sequence per dim (a grid) or an array ``(M, d)`` (scattered points).
        variable: variable of a Dataset; by default the only one that fits.
        dims: names of the spatial dims.
        time_unit: unit of dates and durations ("days" by default); recorded for numbers.

    Returns:
        Canonical fields.

    Raises:
        DataError: the data break the contract.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields
        >>> values = np.arange(6.0).reshape(2, 3)  # two times, three points
        >>> fields = as_fields(values, times=[0.0, 0.1], points=[3.0, 2.0, 1.0])
        >>> fields.dims, fields.shape
        (('path', 'time', 'x'), (1, 2, 3))
        >>> fields.sel(x=3.0).values  # the points were turned round, and the data with them
        array([[0., 3.]])
    """
    fields = unchecked_fields(
        data, times=times, points=points, variable=variable, dims=dims, time_unit=time_unit
    )
    check_values(fields)
    return fields


def unchecked_fields(
    data: Any,
    *,
    times: Any = None,
    points: Any = None,
    variable: str | None = None,
    dims: str | Sequence[str] = ("x",),
    time_unit: str | None = None,
) -> xr.DataArray:
    """`as_fields` whose values are not looked at: who asks has a pass over them of their own."""
    data = getattr(data, "labelled", data)  # of `Observed`
    array = to_array(data, times, points, variable, check_dims(dims))
    return canonical(array, dims, time_unit)


def canonical(
    array: xr.DataArray, dims: str | Sequence[str] | None = None, time_unit: str | None = None
) -> xr.DataArray:
    """Canonical layout, coordinates and dtype; values are not looked at."""
    array = getattr(array, "labelled", array)
    _check_kind(array)
    names = infer_dims(array) if dims is None else check_dims(dims)
    fields = label_paths(arrange(array, names))
    fields = order_space(order_time(fields, check_unit(time_unit)), names)
    return fields if fields.dtype == np.float64 else fields.astype(np.float64)


def check_values(fields: xr.DataArray, *observers: Observer) -> Values:
    """Check values in one pass, shared with any other observers of the same pass."""
    values = _QuickValues()
    padding = [_Padding(fields[PATH_TIME].values)] if PATH_TIME in fields.coords else []
    sweep(fields.variable, values, *padding, *observers)
    _check_finite(fields, values)
    for observer in padding:
        observer.check()
    return values


def _check_kind(array: Any) -> None:
    if not isinstance(array, xr.DataArray):
        got, fix = type(array).__name__, "make it one with as_fields(data, times=..., points=...)"
        raise DataError("fields", expected="an xarray DataArray", got=got, fix=fix)
    kind = array.dtype.kind
    if kind in "iuf":
        return
    fixes = {
        "b": "convert it if 0 and 1 are meant: data.astype(float)",
        "c": "choose data.real or data.imag, or take its modulus",
        "M": "dates belong into the time coordinate",
        "m": "divide by a unit: data / np.timedelta64(1, 's')",
    }
    fix = fixes.get(kind, "convert it: data.astype(float)")
    raise DataError("values", expected="real numbers", got=f"dtype {array.dtype}", fix=fix)


def _check_finite(fields: xr.DataArray, values: Values) -> None:
    if values.first_infinite is not None:
        pairs = zip(fields.dims, values.first_infinite, strict=True)
        place = ", ".join(f"{dim}={i}" for dim, i in pairs)
        got = f"{values.infinite} infinite, the first at index {place}"
        fix = "if they mean missing: data.where(np.isfinite(data))"
        raise DataError("values", expected="finite numbers, or NaN where missing", got=got, fix=fix)
    if values.missing == values.size:
        expected = "at least one known value"
        fix = "check the variable, the selection and the fill value of the file"
        raise DataError("values", expected=expected, got=f"{values.size} times NaN", fix=fix)


class _QuickValues(Values):
    """The same counts; blocks without NaN and infinity are recognised by one fast product."""

    def update(self, index: Index, block: np.ndarray) -> None:
        """Take one block into account."""
        # One NaN or infinity makes the sum of squares non-finite. Huge values may overflow it;
        # they only cost the slower look.
        flat = block.reshape(-1)
        if np.isfinite(np.vdot(flat, flat)):
            self.size += block.size
        else:
            super().update(index, block)


class _Padding:
    """Observer: where a path has no time, it has no data."""

    def __init__(self, times: np.ndarray) -> None:
        self._padded = np.isnan(times)
        self._wrong: tuple[int, int] | None = None

    def update(self, index: Index, block: np.ndarray) -> None:
        """Take one block into account."""
        padded = self._padded[index]
        known = ~np.isnan(block).all(axis=tuple(range(2, block.ndim)))
        places = np.argwhere(padded & known)
        if self._wrong is None and len(places):
            self._wrong = (
                int(places[0, 0] + index[0].start),
                int(places[0, 1] + index[1].start),
            )

    def check(self) -> None:
        """Raise if data were seen at a time that is NaN."""
        if self._wrong is not None:
            expected = "a time for every row of data"
            got = "data at a time that is NaN, at index path={}, time={}".format(*self._wrong)
            fix = "give the time, or set these data to NaN"
            raise DataError("coordinate 'path_time'", expected=expected, got=got, fix=fix)
