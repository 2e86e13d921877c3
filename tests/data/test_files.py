"""read and write: the same bits back, files of other programs, lazy access, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

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
from tests.parameters import cross

from spdelaw.data.fields import as_fields
from spdelaw.data.io.files import has_fields, read, read_dataset, write
from spdelaw.data.io.safe_files import _host
from spdelaw.data.summary import describe, fingerprint
from spdelaw.errors import DataError, FileError, InputError, MissingExtraError, SpdeLawError

DAYS = pd.date_range("1999-12-31T23:59", periods=5, freq="7h")


@pytest.fixture(params=["f.nc", "f.zarr"])
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


def every_coordinate():
    data = with_path_times().assign_coords(
        path=["r1", "r2", "λ"],
        height=2.0,
        flag=("path", [True, False, True]),
        site=("x", list("abcd")),
    )
    data.path_time.attrs["units"] = "days since 2000-01-01"
    data.x.attrs = {"units": "m", "valid_range": [0.0, 1.0]}
    return data


def packed_elsewhere():
    data = fields()
    data.encoding = {"dtype": "int8", "scale_factor": 0.5, "_FillValue": -1}
    data.time.encoding = {"units": "days since 2000-01-01", "dtype": "int64"}
    return data


def named_points(*names):
    data = as_fields(np.ones((1, 2, 3)), times=[0, 1], points=[0, 1, 2])
    return data.assign_coords(station=("x", np.array(names), {"cf_role": "timeseries_id"}))


SPECTRUM = {"equation": {"lambda": list(range(50_000))}}
WRITTEN = {
    "every coordinate": every_coordinate(),
    "dates": as_fields(values(), times=DAYS, points=POINTS),
    "long attributes": fields().assign_attrs(SPECTRUM),
    "packing of another file": packed_elsewhere(),
    "names": named_points("S0", "Zürich", ""),
    "a zero in a name": named_points("a", "b\0c", "d"),  # text ends at a zero
    "the word pickle": fields().assign_attrs(name="pickle", history={"id": "pickle"}),
}


@cross(suffix=[".nc", ".zarr"], data=WRITTEN)
def test_fields_of_every_kind_come_back(tmp_path, suffix, data):
    back = read(write(data, tmp_path / f"f{suffix}"))
    assert back.identical(data)
    assert same_bits(back, data)
    assert back.time.values.tobytes() == data.time.values.tobytes()


def test_points_names_and_forms_that_are_made_canonical(tmp_path, target):
    places = np.random.default_rng(0).random((4, 2))
    data = as_fields(values(), times=TIMES, points=places, dims=("y", "x"))
    assert read(write(data, target), dims=("y", "x")).identical(data)
    turned = fields().transpose("x", "path", "time").isel(x=slice(None, None, -1))
    for name in (target.name, "f.nc4", "f.h5", "F.NC"):
        assert read(write(turned, tmp_path / name)).identical(fields())


def test_attributes_come_back_as_plain_python(target):
    numbers = {"n": np.int32(3), "x": np.float32(0.5), "a": np.array([1, 2])}
    attrs = numbers | {"t": (1, "b"), "text": ""}
    back = read(write(fields().assign_attrs(attrs), target)).attrs
    assert back == {"n": 3, "x": 0.5, "a": [1, 2], "t": [1, "b"], "text": ""}
    assert [type(back[name]) for name in ("n", "x")] == [int, float]


def test_datasets_keep_their_variables(target):
    mean = fields().mean("path")
    increments = xr.DataArray(np.ones((3, 5, 2)), {"mode": [1, 2]}, ("path", "time", "mode"))
    dataset = xr.Dataset({"field": fields(), "mean": mean, "noise": increments}, attrs={"k": [1]})
    write(dataset, target)
    assert read(target).identical(fields())
    assert read(target, "noise", dims="mode").shape == (3, 5, 2)
    np.testing.assert_array_equal(read(target, variable="mean").values[0], mean)
    with pytest.raises(DataError, match="one of field, mean, noise"):
        read(target, variable="std")
    write(xr.Dataset({"u": fields(), "v": fields()}), target)
    with pytest.raises(DataError, match="one of u, v"):
        read(target)


def opened(path):
    options = {"engine": "zarr", "consolidated": False} if path.suffix == ".zarr" else {}
    return xr.open_dataset(path, **options)


def test_other_programs_read_it_and_their_copies_can_be_read(target, tmp_path):
    data = as_fields(values(), times=pd.date_range("2000", periods=5), points=POINTS)
    data = data.assign_coords(day=("time", pd.date_range("2000-01-03", periods=5)))
    write(data.assign_attrs(units="K", note=["a"]), target)
    with opened(target) as dataset:
        np.testing.assert_array_equal(dataset.field, data)
        np.testing.assert_array_equal(dataset.time, pd.date_range("2000", periods=5))
        np.testing.assert_array_equal(dataset.day, data.day)
        assert dataset.field.attrs["units"] == "K"
        assert as_fields(dataset).drop_attrs().identical(data.drop_attrs())
        copy = foreign(tmp_path / f"copy{target.suffix}", dataset.isel(path=[0, 2]).load())
    back = read(copy)
    np.testing.assert_array_equal(back, data.isel(path=[0, 2]))
    np.testing.assert_array_equal(back.time, data.time)
    assert back.attrs == {"units": "K", "note": ["a"]}


def test_names_and_checksums_are_in_the_netcdf_file(tmp_path):
    path = write(named_points("S0", "Zürich", ""), tmp_path / "a.nc")
    with opened(path) as dataset:
        assert dataset["station"].values.tolist() == ["S0", "Zürich", ""]
    with h5py.File(path) as file:
        for name in ("field", "time", "x", "path"):
            assert file[name].fletcher32
            assert file[name].shuffle
            assert file[name].compression == "gzip"


# ---------------------------------------------------------------- lazy


def test_lazy_zarr_is_not_loaded_and_streamed_to_a_file(target, tmp_path):
    lazy = read(write(fields(6), tmp_path / "source.zarr"), lazy=True)
    assert not lazy.variable._in_memory
    assert lazy.identical(fields(6))
    lazy = read(tmp_path / "source.zarr", lazy=True)
    for data in (lazy, fields(6).chunk(path=4, time=2, x=3)):
        assert read(write(data, target)).identical(fields(6))


def test_lazy_zarr_of_other_programs(tmp_path):
    single, broken = fields().astype("f4"), fields()
    broken[1, 2, 3] = np.inf
    lazy = read(foreign(tmp_path / "f.zarr", single.to_dataset()), lazy=True)
    assert isinstance(lazy.data, da.Array)
    np.testing.assert_array_equal(lazy, single)
    with pytest.raises(DataError, match="1 infinite"):
        read(foreign(tmp_path / "g.zarr", broken.to_dataset()), lazy=True)
    with pytest.raises(InputError, match="Zarr"):
        read(write(fields(), tmp_path / "f.nc"), lazy=True)


# ---------------------------------------------------------------- files of other programs


def foreign(path, dataset, **options):
    if path.suffix == ".zarr":
        dataset.to_zarr(path, consolidated=False, **options)
    else:
        dataset.to_netcdf(path, **({"engine": "h5netcdf"} | options))
    return path


def test_dates_and_packed_values(target):
    """Forecasts carry the date they were made at: one more coordinate in dates, over the time."""
    times = pd.date_range("1982-01-16", periods=5, freq="MS")
    packed = fields().isel(path=0, drop=True).assign_coords(time=times).rename("sst", x="lon")
    packed[2, 1] = np.nan
    packed.encoding = {"dtype": "int16", "scale_factor": 0.001, "_FillValue": -32768}
    packed = packed.assign_coords(reference=pd.Timestamp("1981-12-31"), valid=("time", times))
    bounds = xr.DataArray(np.zeros((5, 2)), dims=("time", "bnds"))
    path = foreign(target, xr.Dataset({"sst": packed, "time_bnds": bounds}))
    made = read(path, dims="lon", time_unit="hours")
    np.testing.assert_allclose(made.values[0], packed, atol=0.0005)
    assert np.isnan(made.values[0, 2, 1])
    np.testing.assert_array_equal(made.time, (times - times[0]) / pd.Timedelta("1h"))
    assert made.time.attrs["units"] == "hours since 1982-02-01"
    raw = read_dataset(path)
    assert raw.reference.dtype.kind == raw.valid.dtype.kind == "M"


def test_old_versions_of_the_formats(tmp_path):
    classic = {"engine": "scipy", "format": "NETCDF3_64BIT"}
    for name, options in (("f.nc", classic), ("f.zarr", {"zarr_format": 2})):
        path = foreign(tmp_path / name, fields().to_dataset(), **options)
        assert read(path).identical(fields())


# ---------------------------------------------------------------- one step or none


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


def test_many_threads(tmp_path):
    failures = []

    def work(number):
        try:
            data = fields(seed=number)
            for _ in range(2):
                assert read(write(data, tmp_path / f"{number}.nc")).identical(data)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def lost_connection():
    calls = []

    def fails_later(block):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("lost connection")
        return block

    lazy = da.from_array(values(), chunks=-1).map_blocks(fails_later, meta=np.empty(0))
    return fields().copy(data=lazy)


def full_disk(*args, **options):
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_the_old_file(target, monkeypatch):
    write(fields(seed=1), target)
    with pytest.raises(FileError, match="existing"):
        write(fields(seed=2), target, overwrite=False)
    with pytest.raises(FileError, match="lost connection"):
        write(lost_connection(), target)
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(FileError, match="No space left"):
        write(fields(seed=2), target)
    monkeypatch.undo()
    assert read(target).identical(fields(seed=1))
    assert [entry.name for entry in target.parent.iterdir()] == [target.name]


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [None, "README.md", "field/notes.txt", "another/data.bin", "only"])
def test_a_directory_of_something_else_is_not_replaced(tmp_path, name):
    """A store of another program, one with files of the user, and no store at all."""
    store = tmp_path / "f.zarr"
    if name is None:
        foreign(store, fields(seed=1).to_dataset(name="theirs"), zarr_format=3)
    elif name == "only":
        store.mkdir()
    else:
        write(fields(seed=1), store)
    if name is not None:
        (store / name).parent.mkdir(exist_ok=True)
        (store / name).write_text("years of work")
    before, calls = content(store), []
    lazy = da.from_array(values(), chunks=-1).map_blocks(calls.append, meta=np.empty(0))
    with pytest.raises(FileError, match="nothing was deleted") as caught:
        write(fields(seed=2).copy(data=lazy), store)
    if name is not None:
        assert "other content" in str(caught.value)
    assert calls == []  # before any work
    assert content(store) == before


def test_zarr_is_an_extra(tmp_path, monkeypatch):
    path = write(fields(), tmp_path / "f.zarr")
    monkeypatch.setitem(sys.modules, "zarr", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for call in (lambda: write(fields(), path), lambda: read(path)):
        with pytest.raises(MissingExtraError, match=r"pip install 'spdelaw\[zarr\]'"):
            call()


NAMES = [
    ("f.xlsx", FileError, ".xlsx"),
    ("f", FileError, "suffix"),
    ("folder.nc", FileError, "directory"),
    ("file.zarr", FileError, "file"),
]
DATA = [
    (values(), DataError, "ndarray"),
    (xr.Dataset(), DataError, "at least one"),
    (fields() / 0, DataError, "infinite"),
    (fields().assign_attrs(a=object()), DataError, "'a'"),
    (fields().assign_attrs({"d": {1: 2}}), DataError, "int"),
    (fields().assign_coords(day=("time", [{}] * 5)), DataError, "'day'"),
    (fields().rename("a/b"), DataError, "a/b"),
]
UNWRITTEN = [*((fields(), *row) for row in NAMES), *((row[0], "f.nc", *row[1:]) for row in DATA)]


@pytest.mark.parametrize(("data", "name", "error", "text"), UNWRITTEN)
def test_write_refuses(tmp_path, data, name, error, text):
    (tmp_path / "file").write_text("")
    (tmp_path / "file.zarr").write_text("")
    (tmp_path / "folder.nc").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error) as caught:
        write(data, tmp_path / name)
    assert text in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


# ---------------------------------------------------------------- files that are something else


def bytes_of(content):
    return lambda path: path.write_bytes(content)


HDF5 = b"\x89HDF\r\n\x1a\n"
NOT_A_FILE = [
    ("f.nc", lambda path: None, ("none of this name",)),
    ("f.nc", bytes_of(b""), ("a NetCDF file", "an empty file")),
    ("f.nc", bytes_of(b"time,x\n0,1\n"), ("starts with b'time,x",)),
    ("f.nc", lambda path: path.mkdir(), ("IsADirectory",)),
    ("f.nc", bytes_of(HDF5), ("OSError",)),
    ("f.nc", bytes_of(HDF5 + bytes(4096)), ("OSError",)),
    ("f.nc", bytes_of(b"CDF\x01"), ()),
    ("f.zarr", lambda path: None, ("no such directory",)),
    ("f.zarr", lambda path: path.mkdir(), ("without Zarr metadata",)),
    ("f.zarr", lambda path: path.mkdir() or bytes_of(b"{")(path / "zarr.json"),
     ("JSONDecodeError",)),
    ("f.zarr", lambda path: path.mkdir() or bytes_of(b"{}")(path / "zarr.json"), ()),
    ("f.zarr", bytes_of(b"a file"), ()),
    ("era5.grib", bytes_of(b"GRIB\0\0"), ("the suffix '.grib'", "convert it to NetCDF")),
    ("era5.nc", bytes_of(b"GRIB\0\0"), ("starts with b'GRIB", "convert it to NetCDF")),
    ("sst.nc.gz", bytes_of(b"\x1f\x8b\x08"), ("the suffix '.gz'", "convert it to NetCDF")),
    ("a.unknown", bytes_of(b"x"), ("the suffix '.unknown'",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "words"), NOT_A_FILE)
def test_files_of_other_formats_are_refused_with_a_fix(tmp_path, name, make, words):
    make(tmp_path / name)
    for call in (read, read_dataset):
        if call is read_dataset and not words:
            continue
        with pytest.raises(SpdeLawError) as caught:
            call(tmp_path / name)
        for word in words:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)


def fortnights():
    data = fields()
    data.time.attrs["units"] = "fortnights since 1950-01-01"
    return data


MALFORMED = {
    "wrong dims": (fields().rename(x="depth"), "dim 'x'"),
    "strings": (fields().astype(str), "values"),
    "strings as times": (fields().assign_coords(time=list("abcde")), "coordinate 'time'"),
    "fortnights": (fortnights(), None),
    "complex": (fields() + 1j, None),
}


@pytest.mark.filterwarnings("ignore:The data type")  # zarr on strings, which we do not write
@pytest.mark.parametrize("suffix", [".h5", pytest.param(".zarr", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", MALFORMED)
def test_content_that_breaks_the_contract(case, suffix, tmp_path):
    data, what = MALFORMED[case]
    options = {"invalid_netcdf": True} if case == "complex" and suffix == ".h5" else {}
    path = foreign(tmp_path / f"f{suffix}", data.rename("u").to_dataset(), **options)
    with pytest.raises(DataError) as caught:
        read(path)
    if what is None:
        assert case in str(caught.value)
    else:
        assert caught.value.what == what


def test_newer_files_and_files_without_named_dims(tmp_path):
    path = foreign(tmp_path / "f.nc", fields().to_dataset().assign_attrs(spdelaw_format=99))
    with pytest.raises(FileError, match="newer version"):
        read(path)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["u"] = values()
    with pytest.raises(DataError, match="phony_dim"):
        read(tmp_path / "f.h5")


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@cross(make=[pipe, device], look=[read, read_dataset, has_fields], name=["f.nc", "f.zarr"])
def test_a_pipe_or_device_is_refused_and_not_waited_for(tmp_path, make, look, name):
    make(tmp_path / name)
    with pytest.raises(FileError, match=f"got a {make.__name__}"):
        look(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("verify", [True, False])
def test_a_pipe_inside_a_store_is_refused(tmp_path, verify):
    store = write(fields(), tmp_path / "f.zarr")
    chunk = next(p for p in sorted((store / "field" / "c").rglob("*")) if p.is_file())
    chunk.unlink()
    pipe(chunk)
    with pytest.raises(FileError, match="got a pipe"):
        read(store, verify=verify)


def test_attributes_nested_without_end(tmp_path):
    data = fields().assign_attrs(equation="[" * 100_000)
    assert describe(read(write(data, tmp_path / "f.nc")))["equation"] == "[" * 100_000
