"""as_fields: one clear error for everything that breaks the contract."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from tests.data.builders import POINTS, TIMES, fields, values, with_path_times

from spdelaw.data import as_fields
from spdelaw.errors import DataError


def build(data=None, **changes):
    """as_fields of a bare array, with some arguments replaced."""
    arguments = {"times": TIMES, "points": POINTS} | changes
    return as_fields(values() if data is None else data, **arguments)


def with_value(value):
    data = values()
    data[2, 1, 3] = value
    return data


REFUSED = {
    "complex": (lambda: build(values() + 1j), "values", "complex128"),
    "bool": (lambda: build(values() > 1), "values", "bool"),
    "strings": (lambda: build(values().astype(str)), "values", "<U"),
    "objects": (lambda: build(values().astype(object)), "values", "object"),
    "dates": (lambda: build(values().astype("M8[s]")), "values", "datetime64"),
    "infinite": (
        lambda: build(with_value(-np.inf)),
        "values",
        "1 infinite, the first at index path=2, time=1, x=3",
    ),
    "all missing": (lambda: build(values() * np.nan), "values", "60 times NaN"),
    "no path": (lambda: build(values()[:0]), "dim 'path'", "none"),
    "no time": (lambda: build(values()[:, :0], times=[]), "dim 'time'", "none"),
    "no point": (lambda: build(values()[..., :0], points=[]), "dim 'x'", "none"),
    "no times": (lambda: build(times=None), "times", "none"),
    "no points": (lambda: build(points=None), "points", "none"),
    "too few times": (lambda: build(times=TIMES[:-1]), "coordinate 'time'", "{'time': 4}"),
    "too many points": (lambda: build(points=[*POINTS, 9]), "coordinate 'x'", "{'x': 5}"),
    "duplicate time": (
        lambda: build(times=[0, 1, 1, 2, 3]),
        "coordinate 'time'",
        "1.0 more than once",
    ),
    "unsorted time": (
        lambda: build(times=[0, 2, 1, 3, 4]),
        "coordinate 'time'",
        "1.0 after 2.0 at index 2",
    ),
    "missing time": (
        lambda: build(times=[0, 1, np.nan, 3, 4]),
        "coordinate 'time'",
        "nan at index 2",
    ),
    "infinite time": (
        lambda: build(times=[0, 1, 2, 3, np.inf]),
        "coordinate 'time'",
        "inf at index 4",
    ),
    "text as time": (lambda: build(times=list("abcde")), "coordinate 'time'", "<U1"),
    "a number as times": (lambda: build(times=3.0), "times", "ndim=0"),
    "duplicate point": (lambda: build(points=[0, 1, 2, 1]), "coordinate 'x'", "1.0 more than once"),
    "missing point": (lambda: build(points=[0, 1, 2, np.nan]), "coordinate 'x'", "nan at index 3"),
    "same place twice": (
        lambda: build(points=np.ones((4, 2)), dims=("y", "x")),
        "dim 'point'",
        "(1.0, 1.0)",
    ),
    "table of wrong width": (
        lambda: build(points=np.ones((4, 3)), dims=("y", "x")),
        "points",
        "(4, 3)",
    ),
    "missing dim": (lambda: as_fields(fields().rename(x="depth")), "dim 'x'", "'depth'"),
    "no time dim": (lambda: as_fields(fields().isel(time=0)), "dim 'time'", "('path', 'x')"),
    "another dim": (lambda: as_fields(fields().expand_dims(level=2)), "dim 'level'", "level"),
    "missing coordinate": (
        lambda: as_fields(fields().drop_vars("time")),
        "coordinate 'time'",
        "none",
    ),
    "coordinate twice": (lambda: as_fields(fields(), times=TIMES), "coordinate 'time'", "argument"),
    "wrong shape": (lambda: build(values()[0, 0]), "data", "(4,)"),
    "ragged lists": (lambda: build([[1, 2], [3]]), "data", "inhomogeneous"),
    "a file name": (lambda: as_fields("heat.nc"), "data", "heat.nc"),
    "nothing": (lambda: as_fields(None), "data", "NoneType"),
    "ragged times": (lambda: build(times=[[1, 2], [3]]), "times", "inhomogeneous"),
    "points of another dim": (lambda: build(points={"y": POINTS}), "points", "0 of them"),
    "a list as unit": (lambda: build(time_unit=["days"]), "time_unit", "['days']"),
    "dims are nothing": (lambda: build(dims=None), "dims", "None"),
    "labels of two levels": (
        lambda: as_fields(
            fields().rename(path="member").expand_dims(run=2).stack(path=("run", "member"))
        ),
        "coordinate 'path'",
        "object",
    ),
    "dims of the contract": (lambda: build(dims=("time",)), "dims", "time"),
    "dims twice": (lambda: build(dims=("x", "x")), "dims", "'x'"),
    "no dims": (lambda: build(dims=()), "dims", "()"),
    "duplicate label": (
        lambda: as_fields(fields().assign_coords(path=[1, 1, 2])),
        "coordinate 'path'",
        "1 more",
    ),
    "label of another kind": (
        lambda: as_fields(fields().assign_coords(path=[0.5, 1, 2])),
        "coordinate 'path'",
        "float64",
    ),
    "several variables": (
        lambda: as_fields(xr.Dataset({"u": fields(), "v": fields()})),
        "variable",
        "several",
    ),
    "unknown variable": (lambda: as_fields(fields().to_dataset(), variable="T"), "variable", "'T'"),
    "variable of an array": (lambda: as_fields(fields(), variable="T"), "variable", "DataArray"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_what_expected_got_and_fix(case):
    call, what, got = REFUSED[case]
    with pytest.raises(DataError) as caught:
        call()
    assert caught.value.what == what
    assert got in caught.value.got
    assert caught.value.expected
    assert caught.value.fix


def test_several_variables_are_listed():
    with pytest.raises(DataError, match="one of u, v"):
        as_fields(xr.Dataset({"u": fields(), "v": fields()}))


def test_infinite_values_of_a_lazy_array_are_counted_over_all_chunks():
    data = values(6)
    data[5, 0, 0] = data[1, 4, 2] = np.inf
    with pytest.raises(DataError, match=r"2 infinite, the first at index path=1, time=4, x=2"):
        build(da.from_array(data, chunks=(2, 2, 4)))


def ragged(change):
    broken = with_path_times()
    times, data = broken.path_time.values.copy(), broken.values.copy()
    change(times, data)
    return broken.copy(data=data).assign_coords(path_time=(("path", "time"), times))


def not_increasing(times, data):
    times[1, 1] = times[1, 0]


def hole(times, data):
    times[2, 1] = data[2, 1] = np.nan


def padding_first(times, data):
    times[1] = times[1, ::-1]


def data_without_time(times, data):
    data[1, -1, 2] = 1.0


@pytest.mark.parametrize("change", [not_increasing, hole, padding_first, data_without_time])
def test_wrong_times_per_path(change):
    with pytest.raises(DataError) as caught:
        as_fields(ragged(change))
    assert caught.value.what == "coordinate 'path_time'"


def test_times_per_path_need_both_dims():
    flat = fields().assign_coords(path_time=("time", TIMES))
    with pytest.raises(DataError, match="path_time"):
        as_fields(flat)
