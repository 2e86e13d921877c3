"""Files that never were what their name says: one error that tells what is there instead."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pytest
import xarray as xr
from tests.data.builders import fields, values

from spdelaw.data import describe, has_fields, read, read_dataset, write
from spdelaw.errors import DataError, FileError, SpdeLawError

NOT_A_FILE = {
    "missing": (lambda path: None, "none of this name"),
    "empty": (lambda path: path.write_bytes(b""), "a NetCDF file"),
    "text": (lambda path: path.write_text("time,x\n0,1\n"), "starts with b'time,x"),
    "directory": (lambda path: path.mkdir(), "IsADirectory"),
    "only the signature": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n"), "OSError"),
    "only the classic signature": (lambda path: path.write_bytes(b"CDF\x01"), ""),
    "signature and zeros": (
        lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(4096)),
        "OSError",
    ),
}


@pytest.mark.parametrize("case", NOT_A_FILE)
def test_not_a_netcdf_file(case, tmp_path):
    make, text = NOT_A_FILE[case]
    make(tmp_path / "f.nc")
    with pytest.raises(FileError) as caught:
        read(tmp_path / "f.nc")
    assert text in str(caught.value)


def test_not_a_zarr_directory(tmp_path):
    for make, text in (
        (lambda path: None, "no such directory"),
        (lambda path: path.mkdir(), "without Zarr metadata"),
        (lambda path: (path / "zarr.json").write_text("{"), "JSONDecodeError"),
        (lambda path: (path / "zarr.json").write_text("{}"), ""),
    ):
        make(tmp_path / "f.zarr")
        with pytest.raises(SpdeLawError) as caught:
            read(tmp_path / "f.zarr")
        assert text in str(caught.value)
    (tmp_path / "g.zarr").write_text("a file")
    with pytest.raises(FileError):
        read(tmp_path / "g.zarr")


def test_newer_files_ask_for_an_update(tmp_path):
    data = fields().to_dataset().assign_attrs(spdelaw_format=99)
    data.to_netcdf(tmp_path / "f.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="newer version"):
        read(tmp_path / "f.nc")


def twice(data):
    return data.assign_coords(time=[0.0, 1, 1, 2, 3])


MALFORMED = {
    "wrong dims": (lambda: fields().rename(x="depth"), "dim 'x'"),
    "another dim": (lambda: fields().expand_dims(level=2), "dim 'level'"),
    "all missing": (lambda: fields() * np.nan, "values"),
    "infinite": (lambda: fields().where(fields() < 2, np.inf), "values"),
    "duplicate times": (lambda: twice(fields()), "coordinate 'time'"),
    "unsorted times": (lambda: fields().isel(time=[0, 2, 1, 3, 4]), "coordinate 'time'"),
    "missing times": (lambda: fields().drop_vars("time"), "coordinate 'time'"),
    "strings": (lambda: fields().astype(str), "values"),
    "strings as times": (lambda: fields().assign_coords(time=list("abcde")), "coordinate 'time'"),
    "duplicate points": (lambda: fields().assign_coords(x=[0.0, 1, 1, 2]), "coordinate 'x'"),
    "bool": (lambda: fields() > 1, "values"),
}


@pytest.mark.filterwarnings("ignore:The data type")  # zarr on strings, which we do not write
@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("case", MALFORMED)
def test_content_that_breaks_the_contract(case, suffix, tmp_path):
    make, what = MALFORMED[case]
    dataset, path = make().rename("u").to_dataset(), tmp_path / f"f{suffix}"
    if suffix == ".nc":
        dataset.to_netcdf(path, engine="h5netcdf")
    else:
        dataset.to_zarr(path, consolidated=False)
    with pytest.raises(DataError) as caught:
        read(path)
    assert caught.value.what == what


@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
def test_complex_values(suffix, tmp_path):
    path = tmp_path / f"f{suffix}"
    dataset = (fields() + 1j).to_dataset(name="u")
    if suffix == ".h5":
        dataset.to_netcdf(path, engine="h5netcdf", invalid_netcdf=True)
    else:
        dataset.to_zarr(path, consolidated=False)
    with pytest.raises(DataError, match="complex"):
        read(path)


def test_hdf5_without_named_dims(tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["u"] = values()
    with pytest.raises(DataError, match="phony_dim"):
        read(tmp_path / "f.h5")


def test_several_variables_without_a_choice(tmp_path):
    dataset = xr.Dataset({"u": fields(), "v": fields()})
    with pytest.raises(DataError, match="one of u, v"):
        read(write(dataset, tmp_path / "f.nc"))


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("make", [pipe, device])
@pytest.mark.parametrize("look", [read, read_dataset, has_fields])
def test_a_pipe_or_device_is_refused_and_not_waited_for(tmp_path, make, look):
    make(tmp_path / "f.nc")
    make(tmp_path / "f.zarr")
    for name in ("f.nc", "f.zarr"):
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
    data = fields()
    data.attrs["equation"] = "[" * 100_000
    found = describe(read(write(data, tmp_path / "f.nc")))
    assert found["equation"] == "[" * 100_000
