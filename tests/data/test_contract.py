"""as_fields and stack: what they accept, the canonical form, and one clear error for the rest."""

from __future__ import annotations

from datetime import datetime

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import POINTS, TIMES, any_fields, fields, values, with_path_times

from spdelaw.data.fields import as_fields, stack
from spdelaw.errors import DataError, InputError


def build(data=None, **changes):
    """as_fields of a bare array, with some arguments replaced."""
    arguments = {"times": TIMES, "points": POINTS} | changes
    return as_fields(values() if data is None else data, **arguments)


def test_canonical_form_of_a_bare_array_that_is_not_copied():
    data = values()
    made = build(data)
    assert made.dims == ("path", "time", "x")
    assert made.name == "field"
    assert {made.dtype, made.time.dtype, made.x.dtype} == {np.dtype("float64")}
    np.testing.assert_array_equal(made.path, [0, 1, 2])
    np.testing.assert_array_equal(made.values, values())
    for same in (made, as_fields(made), build(data[0])):
        assert np.shares_memory(same.values, data)
    np.testing.assert_array_equal(build(data[1]).values, data[1:2])


@settings(max_examples=30, deadline=None)
@given(any_fields(), st.randoms(use_true_random=False))
def test_a_second_time_changes_nothing_and_paths_may_be_permuted(made, random):
    assert as_fields(made).identical(made)
    order = random.sample(range(made.sizes["path"]), made.sizes["path"])
    assert as_fields(made.isel(path=order)).identical(made.isel(path=order))


@settings(max_examples=30, deadline=None)
@given(st.permutations(["path", "time", "x"]), st.booleans(), st.booleans())
def test_order_of_dims_and_direction_of_coordinates_do_not_matter(order, back_in_time, back_in_x):
    turned = fields().transpose(*order)
    turned = turned.isel(time=slice(None, None, -1 if back_in_time else 1))
    turned = turned.isel(x=slice(None, None, -1 if back_in_x else 1))
    assert as_fields(turned).identical(fields())


BOUNDS = xr.DataArray(np.zeros((5, 2)), dims=("time", "edge"))
SAME = {
    "tensors": lambda: build(
        torch.tensor(values(), requires_grad=True),
        times=torch.tensor(TIMES),
        points=torch.tensor(POINTS),
    ),
    "unsorted points": lambda: as_fields(fields().isel(x=[2, 0, 3, 1])),
    "coordinates apart": lambda: as_fields(
        fields().drop_vars(["time", "x"]), times=TIMES, points=POINTS
    ),
    "one variable": lambda: as_fields(fields().to_dataset()),
    "fitting variable": lambda: as_fields(xr.Dataset({"field": fields(), "bounds": BOUNDS})),
    "named variable": lambda: as_fields(
        xr.Dataset({"field": fields(), "v": fields() + 1}), variable="field"
    ),
    "simulated": lambda: as_fields(xr.Dataset({"field": fields(), "noise": fields()})),
    "lists": lambda: build(values().tolist(), times=TIMES.tolist(), points=POINTS.tolist()),
    "big-endian": lambda: build(values().astype(">f8")),
    "paths": lambda: stack([fields().isel(path=i) for i in range(3)]),
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_other_forms_of_the_same_fields(make):
    assert make().identical(fields())


@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "u1", "i8"])
def test_numbers_of_any_width_become_float64(dtype):
    data = (values() * 10).astype(dtype)
    made = build(data)
    assert made.dtype == np.dtype("float64")
    np.testing.assert_array_equal(made.values, data.astype(float))


def test_half_precision_and_masked_arrays():
    half = torch.ones(5, 4, dtype=torch.bfloat16)
    np.testing.assert_array_equal(build(half).values, np.ones((1, 5, 4)))
    masked = np.ma.masked_less(values(), 1.0)
    np.testing.assert_array_equal(build(masked).values, masked.filled(np.nan))


def test_dask_stays_lazy_and_is_read_once():
    reads = []

    def load(block):
        reads.append(block.shape)
        return block

    lazy = da.from_array(values(6), chunks=(2, 3, 4))
    made = build(lazy.map_blocks(load, dtype=float, meta=np.empty(0)))
    assert isinstance(made.data, da.Array)
    assert len(reads) == 6
    np.testing.assert_array_equal(made.values, values(6))


def test_attributes_labels_names_and_other_coordinates_are_kept():
    data = fields().assign_attrs(units="K").assign_coords(height=2.0, month=("time", range(5)))
    data.x.attrs["units"] = "m"
    made = as_fields(data.isel(x=slice(None, None, -1)))
    assert made.attrs == {"units": "K"}
    assert made.x.attrs == {"units": "m"}
    assert made.height == 2.0
    assert made.month.values.tolist() == [0, 1, 2, 3, 4]
    for labels in (["r1", "r2", "r10"], [4.0, 7.0, 9.0]):
        assert as_fields(fields().assign_coords(path=labels)).path.values.tolist() == labels
    assert as_fields(fields().assign_coords(path=[4.0, 7.0, 9.0])).path.dtype == np.int64
    assert as_fields(fields().isel(path=2)).path.values.tolist() == [2]
    assert as_fields(fields().rename(x="lon"), dims="lon").dims == ("path", "time", "lon")


def test_grids_and_scattered_points():
    data = np.arange(24.0).reshape(2, 3, 4)
    y, x = [1.0, 0.0, -1.0], [0.0, 1.0, 2.0, 3.0]
    for points in ((y, x), {"x": x, "y": y}):
        made = as_fields(data, times=[0, 1], points=points, dims=("y", "x"))
        assert made.dims == ("path", "time", "y", "x")
        assert made.sel(y=1.0, x=2.0).values.tolist() == [[2.0, 14.0]]
    places = np.array([[0.0, 1.0], [0.0, 0.5], [2.0, 1.0], [-1.0, 1.0]])
    made = build(points=places, dims=("y", "x"))
    assert made.dims == ("path", "time", "point")
    np.testing.assert_array_equal(made.y, places[:, 0])
    np.testing.assert_array_equal(made.values, values())
    assert as_fields(made, dims=("y", "x")).identical(made)
    coords = {"time": TIMES, "x": ("point", POINTS[::-1])}
    on_a_line = as_fields(xr.DataArray(values(), coords, ("path", "time", "point")))
    assert on_a_line.dims == ("path", "time", "x")
    np.testing.assert_array_equal(on_a_line.values, values()[..., ::-1])


def test_times_per_path():
    times = np.cumsum(np.ones((3, 5)) * [[1], [2], [3]], axis=1)
    made = build(times=times)
    assert made.path_time.dims == ("path", "time")
    np.testing.assert_array_equal(made.path_time, times)
    np.testing.assert_array_equal(made.time, range(5))
    ragged = with_path_times()
    assert as_fields(ragged).identical(ragged)
    alone = as_fields(ragged.isel(path=1))
    np.testing.assert_array_equal(alone.path_time, ragged.path_time[1:2])


# ---------------------------------------------------------------- dates and durations


MONTHS = pd.date_range("2000-01-01", periods=5, freq="MS")
DAYS = pd.date_range("2000-01-01", periods=5)
TOKYO = pd.date_range("2000-01-01", periods=5, tz="Asia/Tokyo")
LENGTHS = np.array([12, 24, 36, 48, 60], dtype="m8[h]")
SCALED = {"hours": 24, "seconds": 86400, "weeks": 1 / 7, "milliseconds": 864e5}
CLOCKS = [
    (MONTHS, None, [0, 31, 60, 91, 121], "days since 2000-01-01", "proleptic_gregorian"),
    (TOKYO, None, range(5), "days since 1999-12-31T15:00", "proleptic_gregorian"),
    (LENGTHS, None, [0.5, 1, 1.5, 2, 2.5], "days", None),
    (TIMES, "seconds", TIMES, "seconds", None),
    *((DAYS, unit, step * np.arange(5), f"{unit} since 2000-01-01", "proleptic_gregorian")
      for unit, step in SCALED.items()),
]  # fmt: skip


@pytest.mark.parametrize(("times", "unit", "numbers", "units", "calendar"), CLOCKS)
def test_dates_and_durations_are_numbers_with_their_origin(times, unit, numbers, units, calendar):
    made = build(times=times, **({"time_unit": unit} if unit else {}))
    np.testing.assert_allclose(made.time, numbers, rtol=1e-15)
    expected = {"units": units} | ({"calendar": calendar} if calendar else {})
    assert made.time.attrs == expected


def test_dates_come_back_and_descending_or_separate_ones_share_an_origin():
    times = pd.date_range("1982-01-16T12:30", periods=5, freq="36h")
    back = xr.decode_cf(build(times=times).to_dataset())
    np.testing.assert_array_equal(back.time, times)
    made = build(times=[datetime(2000, 1, day) for day in (9, 7, 5, 2, 1)])
    np.testing.assert_array_equal(made.time, [0, 1, 4, 6, 8])
    np.testing.assert_array_equal(made.values, values()[:, ::-1])
    days = np.array([[3, 4, 5, 6, 7], [1, 2, 3, 4, 5], [2, 4, 6, 8, 9]])
    made = build(times=np.datetime64("2000-01-01") + days.astype("m8[D]"))
    np.testing.assert_array_equal(made.path_time, days - 1)
    assert made.path_time.attrs["units"] == "days since 2000-01-02"
    seconds = build(time_unit="seconds")
    assert as_fields(seconds, time_unit="seconds").identical(seconds)


# ---------------------------------------------------------------- paths put together


def single(times, seed=0, points=POINTS):
    data = np.random.default_rng(seed).normal(size=(len(times), len(points)))
    return xr.DataArray(data, {"time": times, "x": points})


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True), min_size=1, max_size=4
    )
)
def test_every_path_of_a_stack_comes_back(all_times):
    paths = [single(sorted(times), seed) for seed, times in enumerate(all_times)]
    made = stack(paths)
    for i, path in enumerate(paths):
        n = path.sizes["time"]
        shared = "path_time" not in made.coords
        times = made.time.values if shared else made.path_time.values[i, :n]
        np.testing.assert_array_equal(times, path.time)
        np.testing.assert_array_equal(made.values[i, :n], path)
        assert np.isnan(made.values[i, n:]).all()


def test_dates_of_a_stack_count_from_the_earliest():
    late = single(pd.date_range("2000-01-11", periods=3))
    early = single(pd.date_range("2000-01-01", periods=2), seed=1)
    made = stack([late, early], time_unit="hours")
    np.testing.assert_array_equal(made.path_time, [[240, 264, 288], [0, 24, np.nan]])
    assert made.path_time.attrs["units"] == "hours since 2000-01-01"
    assert stack([early, early], time_unit="hours").time.attrs["units"] == "hours since 2000-01-01"
    turned = late.isel(time=slice(None, None, -1), x=slice(None, None, -1))
    assert stack([turned, early]).identical(stack([late, early]))


def test_labels_scalars_and_laziness_of_a_stack():
    parts = [fields().isel(path=i) for i in (2, 0)]
    assert stack(parts).path.values.tolist() == [2, 0]
    assert stack([parts[0], parts[0]]).path.values.tolist() == [0, 1]
    paths = [single([0.0, 1.0]).assign_coords(station=s) for s in (10, 11)]
    assert stack(paths).station.values.tolist() == [10, 11]
    paths = [single([0.0, 1.0]), single([0.0, 2.0, 3.0], seed=1)]
    made = stack([path.chunk() for path in paths])
    assert made.chunks is not None
    assert made.compute().identical(stack(paths))


# ---------------------------------------------------------------- refusals


def with_value(value):
    data = values()
    data[2, 1, 3] = value
    return data


def lazy_infinite():
    data = values(6)
    data[5, 0, 0] = data[1, 4, 2] = np.inf
    return da.from_array(data, chunks=(2, 2, 4))


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


def labels(*path):
    return fields().assign_coords(path=list(path))


def two_levels():
    return fields().rename(path="member").expand_dims(run=2).stack(path=("run", "member"))


def two_units():
    return [as_fields(single(TIMES), time_unit=unit) for unit in ("days", "hours")]


ONE_GONE = DAYS.where(DAYS.day != 2)
NO_DATES = np.full(5, "NaT", dtype="M8[s]")
TIME, X, PATH, OWN = (f"coordinate '{name}'" for name in ("time", "x", "path", "path_time"))
FIRST = "1 infinite, the first at index path=2, time=1, x=3"
LAZY = "2 infinite, the first at index path=1, time=4, x=2"
MOVED = single(TIMES, points=POINTS + 1)
REFUSED = [
    ("values", "complex128", lambda: build(values() + 1j)),
    ("values", "bool", lambda: build(values() > 1)),
    ("values", "<U", lambda: build(values().astype(str))),
    ("values", FIRST, lambda: build(with_value(-np.inf))),
    ("values", LAZY, lambda: build(lazy_infinite())),
    ("values", "60 times NaN", lambda: build(values() * np.nan)),
    ("dim 'path'", "none", lambda: build(values()[:0])),
    ("dim 'time'", "none", lambda: build(values()[:, :0], times=[])),
    ("dim 'x'", "none", lambda: build(values()[..., :0], points=[])),
    ("times", "none", lambda: build(times=None)),
    ("points", "none", lambda: build(points=None)),
    (TIME, "{'time': 4}", lambda: build(times=TIMES[:-1])),
    (X, "{'x': 5}", lambda: build(points=[*POINTS, 9])),
    (TIME, "1.0 more than once", lambda: build(times=[0, 1, 1, 2, 3])),
    (TIME, "1.0 after 2.0 at index 2", lambda: build(times=[0, 2, 1, 3, 4])),
    (TIME, "nan at index 2", lambda: build(times=[0, 1, np.nan, 3, 4])),
    (TIME, "<U1", lambda: build(times=list("abcde"))),
    (TIME, "nan at index 1", lambda: as_fields(fields().assign_coords(time=ONE_GONE))),
    ("time", "only NaT", lambda: build(times=NO_DATES)),
    ("time_unit", "'days'", lambda: as_fields(build(time_unit="seconds"), time_unit="days")),
    ("time_unit", "months", lambda: build(time_unit="months")),
    ("times", "ndim=0", lambda: build(times=3.0)),
    (X, "1.0 more than once", lambda: build(points=[0, 1, 2, 1])),
    (X, "nan at index 3", lambda: build(points=[0, 1, 2, np.nan])),
    ("dim 'point'", "(1.0, 1.0)", lambda: build(points=np.ones((4, 2)), dims=("y", "x"))),
    ("points", "(4, 3)", lambda: build(points=np.ones((4, 3)), dims=("y", "x"))),
    ("dim 'x'", "'depth'", lambda: as_fields(fields().rename(x="depth"))),
    ("dim 'time'", "('path', 'x')", lambda: as_fields(fields().isel(time=0))),
    ("dim 'level'", "level", lambda: as_fields(fields().expand_dims(level=2))),
    (TIME, "none", lambda: as_fields(fields().drop_vars("time"))),
    (TIME, "argument", lambda: as_fields(fields(), times=TIMES)),
    ("data", "(4,)", lambda: build(values()[0, 0])),
    ("data", "inhomogeneous", lambda: build([[1, 2], [3]])),
    ("data", "heat.nc", lambda: as_fields("heat.nc")),
    ("times", "inhomogeneous", lambda: build(times=[[1, 2], [3]])),
    ("points", "0 of them", lambda: build(points={"y": POINTS})),
    ("time_unit", "['days']", lambda: build(time_unit=["days"])),
    ("dims", "None", lambda: build(dims=None)),
    ("dims", "time", lambda: build(dims=("time",))),
    ("dims", "'x'", lambda: build(dims=("x", "x"))),
    (PATH, "object", lambda: as_fields(two_levels())),
    (PATH, "1 more", lambda: as_fields(labels(1, 1, 2))),
    (PATH, "float64", lambda: as_fields(labels(0.5, 1, 2))),
    ("variable", "several", lambda: as_fields(xr.Dataset({"u": fields(), "v": fields()}))),
    ("variable", "'T'", lambda: as_fields(fields().to_dataset(), variable="T")),
    ("variable", "DataArray", lambda: as_fields(fields(), variable="T")),
    (OWN, "", lambda: as_fields(ragged(not_increasing))),
    (OWN, "", lambda: as_fields(ragged(hole))),
    (OWN, "", lambda: as_fields(ragged(padding_first))),
    (OWN, "", lambda: as_fields(ragged(data_without_time))),
    (OWN, "", lambda: as_fields(fields().assign_coords(path_time=("time", TIMES)))),
    ("paths", "DataArray", lambda: stack(fields())),
    ("paths", "list", lambda: stack([values()[0]])),
    ("paths[0]", "3 paths", lambda: stack([fields()])),
    (f"paths[1], {X}", "not the same", lambda: stack([single(TIMES), MOVED])),
    (f"paths[1], {TIME}", "0.0 more than once", lambda: stack([single(TIMES), single([0.0, 0.0])])),
    (TIME, "dates and numbers", lambda: stack([single(TIMES), single(DAYS)])),
    (TIME, "units days, hours", lambda: stack(two_units())),
]  # fmt: skip


@pytest.mark.parametrize(("what", "got", "call"), REFUSED)
def test_refused_with_what_expected_got_and_fix(what, got, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.what == what
    assert got in caught.value.got
    assert caught.value.expected
    assert caught.value.fix


def test_refusals_list_the_choices():
    with pytest.raises(DataError, match="one of u, v"):
        as_fields(xr.Dataset({"u": fields(), "v": fields()}))
    with pytest.raises(DataError, match="the unit on record, 'seconds'"):
        as_fields(build(time_unit="seconds"), time_unit="days")
    with pytest.raises(DataError, match="no fixed length"):
        build(time_unit="months")
