"""as_fields: what it accepts, and the canonical form it makes of it."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import POINTS, TIMES, any_fields, fields, values, with_path_times

from spdelaw.data import as_fields


def build(data=None, **changes):
    """as_fields of a bare array, with some arguments replaced."""
    arguments = {"times": TIMES, "points": POINTS} | changes
    return as_fields(values() if data is None else data, **arguments)


def test_canonical_form_of_a_bare_array():
    made = build()
    assert made.dims == ("path", "time", "x")
    assert made.name == "field"
    assert {made.dtype, made.time.dtype, made.x.dtype} == {np.dtype("float64")}
    np.testing.assert_array_equal(made.path, [0, 1, 2])
    np.testing.assert_array_equal(made.values, values())


def test_canonical_data_are_not_copied():
    data = values()
    made = build(data)
    assert np.shares_memory(made.values, data)
    assert np.shares_memory(as_fields(made).values, data)
    assert np.shares_memory(build(data[0]).values, data)


@settings(max_examples=30, deadline=None)
@given(any_fields())
def test_a_second_time_changes_nothing(made):
    assert as_fields(made).identical(made)


def test_single_path_gets_a_path_dim():
    single = build(values()[1])
    assert single.shape == (1, 5, 4)
    np.testing.assert_array_equal(single.values[0], values()[1])


def test_path_label_survives_a_selection():
    assert as_fields(fields().isel(path=2)).path.values.tolist() == [2]


@pytest.mark.parametrize("dtype", ["f4", "f2", ">f8", "i2", "u1", "i8"])
def test_numbers_of_any_width_become_float64(dtype):
    data = (values() * 10).astype(dtype)
    made = build(data)
    assert made.dtype == np.dtype("float64")
    np.testing.assert_array_equal(made.values, data.astype(float))


def test_torch_tensors():
    tensor = torch.tensor(values(), requires_grad=True)
    assert build(tensor, times=torch.tensor(TIMES), points=torch.tensor(POINTS)).identical(build())
    half = torch.ones(5, 4, dtype=torch.bfloat16)
    np.testing.assert_array_equal(build(half).values, np.ones((1, 5, 4)))


def test_masked_arrays_become_nan():
    masked = np.ma.masked_less(values(), 1.0)
    made = build(masked)
    np.testing.assert_array_equal(np.isnan(made.values), masked.mask)
    np.testing.assert_array_equal(made.values[~masked.mask], masked.compressed())


def test_nested_lists():
    assert as_fields([[1, 2], [3, 4]], times=[0, 1], points=[0, 1]).values[0, 1, 0] == 3.0


def test_dask_stays_lazy_and_is_read_once():
    reads = []

    def load(block):
        reads.append(block.shape)
        return block

    lazy = da.from_array(values(6), chunks=(2, 3, 4)).map_blocks(
        load, dtype=float, meta=np.empty(0)
    )
    made = build(lazy)
    assert isinstance(made.data, da.Array)
    assert len(reads) == 6
    np.testing.assert_array_equal(made.values, values(6))


@settings(max_examples=30, deadline=None)
@given(st.permutations(["path", "time", "x"]), st.booleans(), st.booleans())
def test_order_of_dims_and_direction_of_coordinates_do_not_matter(order, back_in_time, back_in_x):
    turned = fields().transpose(*order)
    turned = turned.isel(time=slice(None, None, -1 if back_in_time else 1))
    turned = turned.isel(x=slice(None, None, -1 if back_in_x else 1))
    assert as_fields(turned).identical(fields())


def test_space_points_in_any_order_are_sorted_with_their_data():
    assert as_fields(fields().isel(x=[2, 0, 3, 1])).identical(fields())


def test_dataset_variable_named_or_alone_or_fitting():
    one = fields().rename("u")
    assert as_fields(one.to_dataset()).identical(one)
    bounds = xr.DataArray(np.zeros((5, 2)), dims=("time", "edge"))
    both = xr.Dataset({"u": one, "time_bounds": bounds})
    assert as_fields(both).identical(one)
    two = xr.Dataset({"u": one, "v": one + 1})
    assert as_fields(two, variable="v").identical((one + 1).rename("v"))
    assert as_fields(xr.Dataset({"field": one, "noise": one})).identical(one.rename("field"))


def test_attributes_and_other_coordinates_are_kept():
    given_fields = (
        fields().assign_attrs(units="K").assign_coords(height=2.0, month=("time", range(5)))
    )
    given_fields.x.attrs["units"] = "m"
    made = as_fields(given_fields.isel(x=slice(None, None, -1)))
    assert made.attrs == {"units": "K"}
    assert made.x.attrs == {"units": "m"}
    assert made.height == 2.0
    assert made.month.values.tolist() == [0, 1, 2, 3, 4]


def test_string_labels_of_paths():
    labelled = fields().assign_coords(path=["r1", "r2", "r10"])
    assert as_fields(labelled).path.values.tolist() == ["r1", "r2", "r10"]
    assert as_fields(fields().assign_coords(path=[4.0, 7.0, 9.0])).path.dtype == np.int64


def test_other_names_of_dims_and_coordinates_given_apart():
    lon = fields().rename(x="lon")
    assert as_fields(lon, dims="lon").dims == ("path", "time", "lon")
    bare = fields().drop_vars(["time", "x"])
    assert as_fields(bare, times=TIMES, points=POINTS).identical(fields())


def test_grid_in_two_dimensions():
    data = np.arange(24.0).reshape(2, 3, 4)
    y, x = [1.0, 0.0, -1.0], [0.0, 1.0, 2.0, 3.0]
    for points in ((y, x), {"x": x, "y": y}):
        made = as_fields(data, times=[0, 1], points=points, dims=("y", "x"))
        assert made.dims == ("path", "time", "y", "x")
        assert made.sel(y=1.0, x=2.0).values.tolist() == [[2.0, 14.0]]


def test_scattered_points_in_two_dimensions():
    places = np.array([[0.0, 1.0], [0.0, 0.5], [2.0, 1.0], [-1.0, 1.0]])
    made = build(points=places, dims=("y", "x"))
    assert made.dims == ("path", "time", "point")
    np.testing.assert_array_equal(made.y, places[:, 0])
    np.testing.assert_array_equal(made.values, values())
    assert as_fields(made, dims=("y", "x")).identical(made)


def test_scattered_points_on_a_line_are_a_grid():
    scattered = xr.DataArray(
        values(),
        dims=("path", "time", "point"),
        coords={"time": TIMES, "x": ("point", POINTS[::-1])},
    )
    made = as_fields(scattered)
    assert made.dims == ("path", "time", "x")
    np.testing.assert_array_equal(made.values, values()[..., ::-1])


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


@settings(max_examples=20)
@given(any_fields(), st.randoms(use_true_random=False))
def test_permuting_paths_permutes_the_fields(made, random):
    order = random.sample(range(made.sizes["path"]), made.sizes["path"])
    assert as_fields(made.isel(path=order)).identical(made.isel(path=order))


def test_dates_of_pandas_with_a_time_zone_are_utc():
    local = pd.date_range("2000-01-01", periods=5, tz="Asia/Tokyo")
    assert build(times=local).time.attrs["units"] == "days since 1999-12-31T15:00"
