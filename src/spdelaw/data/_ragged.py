"""CF discrete sampling geometries that store rows one after the other, as (time, station).

A contiguous ragged file has a variable with attribute ``sample_dimension`` that counts the rows
of each station; an indexed one has a variable with attribute ``instance_dimension`` that names the
station of each row.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.data._recognise import is_time
from spdelaw.errors import DataError


def unraveled(dataset: xr.Dataset) -> xr.Dataset:
    """Variables over rows as variables over (time, station); other data sets as they are."""
    found = _instances(dataset)
    if found is None:
        return dataset
    rows, stations, which = found
    time = _time_of(dataset, rows)
    times, when = np.unique(dataset[time].values, return_inverse=True)
    variables = {}
    for name, variable in dataset.data_vars.items():
        if variable.dims != (rows,) or variable.dtype.kind not in "iuf":
            continue
        _refuse_twice(when, which, len(times))
        table = np.full((len(times), dataset.sizes[stations]), np.nan)
        table[when, which] = variable.values
        variables[name] = (("time", stations), table, variable.attrs)
    coords = {n: c for n, c in dataset.coords.items() if c.dims == (stations,)}
    own = ("time", times, dataset[time].attrs)
    return xr.Dataset(variables, {**coords, "time": own}, dataset.attrs)


def _instances(dataset: xr.Dataset) -> tuple[str, str, np.ndarray] | None:
    """Dim of the rows, dim of the stations, and the station of each row."""
    for variable in dataset.variables.values():
        if "sample_dimension" in variable.attrs and variable.ndim == 1:
            counts = np.asarray(variable.values, dtype=int)
            which = np.repeat(np.arange(len(counts)), counts)
            return str(variable.attrs["sample_dimension"]), str(variable.dims[0]), which
        if "instance_dimension" in variable.attrs and variable.ndim == 1:
            which = np.asarray(variable.values, dtype=int)
            return str(variable.dims[0]), str(variable.attrs["instance_dimension"]), which
    return None


def _time_of(dataset: xr.Dataset, rows: str) -> str:
    names = [str(n) for n, v in dataset.variables.items() if v.dims == (rows,)]
    found = [name for name in names if is_time(dataset, name)]
    if not found:
        expected = f"a variable of times along {rows}"
        fix = 'give it the attribute standard_name="time"'
        raise DataError("time", expected=expected, got=f"{', '.join(names)}", fix=fix)
    return found[0]


def _refuse_twice(when: np.ndarray, which: np.ndarray, n_times: int) -> None:
    cells, counts = np.unique(which * n_times + when, return_counts=True)
    if counts.max(initial=1) > 1:
        again = int(cells[np.argmax(counts > 1)])
        expected = "one value per station and time"
        got = f"{int((counts > 1).sum())} that repeat, the first at station {again // n_times}"
        raise DataError("data", expected=expected, got=got, fix="average them before")
