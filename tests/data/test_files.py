"""read and write: the same bits back, foreign files, lazy access."""

from __future__ import annotations

import subprocess
import sys

import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from tests.data.builders import (
    POINTS,
    TIMES,
    any_fields,
    fields,
    same_bits,
    values,
    with_path_times,
)

from spdelaw.data import as_fields, fingerprint, read, read_dataset, write
from spdelaw.data.atomic import _host
from spdelaw.errors import DataError, FileError, InputError

FORMATS = ["f.nc", "f.zarr"]


@pytest.fixture(params=FORMATS)
def target(request, tmp_path):
    return tmp_path / request.param


# ---------------------------------------------------------------- round trip


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_fields())
def test_what_is_written_is_read(target, data):
    back = read(write(data, target))
    assert back.identical(data)
    assert same_bits(back, data)
    assert fingerprint(back) == fingerprint(data)


def test_times_per_path_and_every_kind_of_coordinate(target):
    data = with_path_times().assign_coords(
        path=["r1", "r2", "λ"],
        height=2.0,
        flag=("path", [True, False, True]),
        site=("x", list("abcd")),
    )
    data.path_time.attrs["units"] = "days since 2000-01-01"
    data.x.attrs = {"units": "m", "valid_range": [0.0, 1.0]}
    assert read(write(data, target)).identical(data)


def test_times_with_a_unit_are_not_touched(target):
    data = as_fields(
        values(), times=pd.date_range("1999-12-31T23:59", periods=5, freq="7h"), points=POINTS
    )
    back = read(write(data, target))
    assert back.identical(data)
    assert back.time.values.tobytes() == data.time.values.tobytes()


def test_other_suffixes_are_netcdf(tmp_path):
    for name in ("f.nc4", "f.h5", "F.NC"):
        assert read(write(fields(), tmp_path / name)).identical(fields())


def test_attributes_come_back_as_plain_python(target):
    attrs = {
        "n": np.int32(3),
        "x": np.float32(0.5),
        "a": np.array([1, 2]),
        "t": (1, "b"),
        "text": "",
    }
    back = read(write(fields().assign_attrs(attrs), target)).attrs
    assert back == {"n": 3, "x": 0.5, "a": [1, 2], "t": [1, "b"], "text": ""}
    assert [type(back[name]) for name in ("n", "x")] == [int, float]


def test_long_attributes(target):
    spectrum = {"equation": {"lambda": list(range(50_000))}}
    assert read(write(fields().assign_attrs(spectrum), target)).attrs == spectrum


def test_packing_of_another_file_is_not_applied(target):
    data = fields()
    data.encoding = {"dtype": "int8", "scale_factor": 0.5, "_FillValue": -1}
    data.time.encoding = {"units": "days since 2000-01-01", "dtype": "int64"}
    assert same_bits(read(write(data, target)), data)


def test_scattered_points(target):
    data = as_fields(
        values(), times=TIMES, points=np.random.default_rng(0).random((4, 2)), dims=("y", "x")
    )
    assert read(write(data, target), dims=("y", "x")).identical(data)


def test_writing_makes_canonical(target):
    turned = fields().transpose("x", "path", "time").isel(x=slice(None, None, -1))
    assert read(write(turned, target)).identical(fields())


def test_datasets_keep_their_variables(target):
    mean = fields().mean("path")
    increments = xr.DataArray(
        np.ones((3, 5, 2)), dims=("path", "time", "mode"), coords={"mode": [1, 2]}
    )
    dataset = xr.Dataset({"field": fields(), "mean": mean, "noise": increments}, attrs={"k": [1]})
    write(dataset, target)
    assert read(target).identical(fields())
    assert read(target, "noise", dims="mode").shape == (3, 5, 2)
    np.testing.assert_array_equal(read(target, variable="mean").values[0], mean)
    with pytest.raises(DataError, match="one of field, mean, noise"):
        read(target, variable="std")


def test_other_programs_read_it(target):
    data = as_fields(values(), times=pd.date_range("2000", periods=5), points=POINTS)
    write(data.assign_attrs(units="K"), target)
    engine = (
        {"engine": "h5netcdf"}
        if target.suffix == ".nc"
        else {"engine": "zarr", "consolidated": False}
    )
    with xr.open_dataset(target, **engine) as opened:
        np.testing.assert_array_equal(opened.field, data)
        np.testing.assert_array_equal(opened.time, pd.date_range("2000", periods=5))
        assert opened.field.attrs["units"] == "K"
        assert as_fields(opened).drop_attrs().identical(data.drop_attrs())


def test_other_programs_read_names(tmp_path):
    names = np.array(["S0", "Zürich", ""])
    fields = as_fields(np.ones((1, 2, 3)), times=[0, 1], points=[0, 1, 2])
    fields = fields.assign_coords(station=("x", names, {"cf_role": "timeseries_id"}))
    write(fields, tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc") as opened:
        assert opened["station"].values.tolist() == names.tolist()
    back = read(tmp_path / "a.nc")
    assert back.identical(fields)
    assert back["station"].dtype == names.dtype
    odd = fields.assign_coords(station=("x", np.array(["a", "b\0c", "d"])))  # text ends at a zero
    assert read(write(odd, tmp_path / "b.nc")).identical(odd)


def test_checksums_are_in_the_netcdf_file(tmp_path):
    with h5py.File(write(fields(), tmp_path / "f.nc")) as file:
        for name in ("field", "time", "x", "path"):
            assert file[name].fletcher32
            assert file[name].shuffle
            assert file[name].compression == "gzip"


# ---------------------------------------------------------------- lazy


def test_lazy_zarr_is_not_loaded(tmp_path):
    path = write(fields(6), tmp_path / "f.zarr")
    lazy = read(path, lazy=True)
    assert not lazy.variable._in_memory
    assert lazy.identical(fields(6))


def test_lazy_fields_are_streamed_to_a_file(target, tmp_path):
    lazy = read(write(fields(6), tmp_path / "source.zarr"), lazy=True)
    assert read(write(lazy, target)).identical(fields(6))
    chunked = fields(6).chunk(path=4, time=2, x=3)
    assert read(write(chunked, target)).identical(fields(6))


def test_lazy_zarr_of_single_precision(tmp_path):
    single = fields().astype("f4")
    single.to_dataset().to_zarr(tmp_path / "f.zarr", consolidated=False)
    lazy = read(tmp_path / "f.zarr", lazy=True)
    assert isinstance(lazy.data, da.Array)
    np.testing.assert_array_equal(lazy, single)


def test_lazy_values_are_checked(tmp_path):
    broken = fields()
    broken[1, 2, 3] = np.inf
    broken.to_dataset().to_zarr(tmp_path / "f.zarr", consolidated=False)
    with pytest.raises(DataError, match="1 infinite"):
        read(tmp_path / "f.zarr", lazy=True)


def test_lazy_is_for_zarr(tmp_path):
    with pytest.raises(InputError, match="Zarr"):
        read(write(fields(), tmp_path / "f.nc"), lazy=True)


# ---------------------------------------------------------------- files of other programs


def foreign(path, dataset, **options):
    if path.suffix == ".zarr":
        dataset.to_zarr(path, consolidated=False)
    else:
        dataset.to_netcdf(path, **({"engine": "h5netcdf"} | options))
    return path


def test_dates_and_packed_values(target):
    times = pd.date_range("1982-01-16", periods=5, freq="MS")
    packed = fields().isel(path=0, drop=True).assign_coords(time=times).rename("sst", x="lon")
    packed[2, 1] = np.nan
    packed.encoding = {"dtype": "int16", "scale_factor": 0.001, "_FillValue": -32768}
    bounds = xr.DataArray(np.zeros((5, 2)), dims=("time", "bnds"))
    path = foreign(target, xr.Dataset({"sst": packed, "time_bnds": bounds}))
    made = read(path, dims="lon", time_unit="hours")
    np.testing.assert_allclose(made.values[0], packed, atol=0.0005)
    assert np.isnan(made.values[0, 2, 1])
    np.testing.assert_array_equal(made.time, (times - times[0]) / pd.Timedelta("1h"))
    assert made.time.attrs["units"] == "hours since 1982-02-01"


def test_dates_beside_the_time(target):
    """Forecasts carry the date they were made at: one more coordinate in dates, over the time."""
    times = pd.date_range("2001-01-01", periods=5)
    made = fields().isel(path=0, drop=True).assign_coords(time=times).rename("t2m")
    made = made.assign_coords(reference=pd.Timestamp("2000-12-31"), valid=("time", times))
    raw = read_dataset(foreign(target, made.to_dataset()))
    assert raw.reference.dtype.kind == raw.valid.dtype.kind == "M"
    np.testing.assert_array_equal(read(target).time, np.arange(5.0))


def test_classic_netcdf(tmp_path):
    path = foreign(tmp_path / "f.nc", fields().to_dataset(), engine="scipy", format="NETCDF3_64BIT")
    assert read(path).identical(fields())


def test_zarr_version_two(tmp_path):
    fields().to_dataset().to_zarr(tmp_path / "f.zarr", zarr_format=2, consolidated=False)
    assert read(tmp_path / "f.zarr").identical(fields())


def test_dates_that_cannot_be_decoded_say_so(target):
    data = fields()
    data.time.attrs["units"] = "fortnights since 1950-01-01"
    with pytest.raises(DataError, match="fortnights since 1950"):
        read(foreign(target, data.to_dataset()))


def test_copies_made_with_xarray_can_be_read(target, tmp_path):
    data = as_fields(values(), times=pd.date_range("2000", periods=5), points=POINTS)
    write(data.assign_attrs(note=["a"]), target)
    engine = (
        {"engine": "h5netcdf"}
        if target.suffix == ".nc"
        else {"engine": "zarr", "consolidated": False}
    )
    with xr.open_dataset(target, **engine) as opened:
        copy = foreign(tmp_path / f"copy{target.suffix}", opened.isel(path=[0, 2]).load())
    back = read(copy)
    np.testing.assert_array_equal(back, data.isel(path=[0, 2]))
    np.testing.assert_array_equal(back.time, data.time)
    assert back.attrs == {"note": ["a"]}


def test_replaced_while_it_is_read_there_is_no_mixture(target, monkeypatch):
    write(fields(seed=1), target)
    load = xr.DataArray.load

    def replaced_meanwhile(array):
        monkeypatch.undo()
        write(fields(seed=2), target)
        return load(array)

    monkeypatch.setattr(xr.DataArray, "load", replaced_meanwhile)
    if target.suffix == ".nc":  # an open file stays the old one
        assert read(target).identical(fields(seed=1))
    else:
        with pytest.raises(FileError, match="read it again"):
            read(target)
    assert read(target).identical(fields(seed=2))


def test_a_directory_set_aside_by_a_killed_process_is_found(tmp_path):
    path = write(fields(), tmp_path / "f.zarr")
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead:
        dead.wait()
    path.rename(tmp_path / f".f.zarr~{_host()}~{dead.pid}~0123abcd.old")
    assert read(path).identical(fields())
