"""write: one step or none, and a reason when it refuses."""

from __future__ import annotations

import sys
import threading

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.data.builders import fields, values

from spdelaw.data import read, write
from spdelaw.errors import DataError, FileError, MissingExtraError


@pytest.fixture(params=["f.nc", "f.zarr"])
def target(request, tmp_path):
    return tmp_path / request.param


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


def test_zarr_is_an_extra(tmp_path, monkeypatch):
    path = write(fields(), tmp_path / "f.zarr")
    monkeypatch.setitem(sys.modules, "zarr", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for call in (lambda: write(fields(), path), lambda: read(path)):
        with pytest.raises(MissingExtraError, match=r"pip install 'spdelaw\[zarr\]'"):
            call()


def test_existing_files_are_replaced_or_kept(target):
    write(fields(seed=1), target)
    with pytest.raises(FileError, match="existing"):
        write(fields(seed=2), target, overwrite=False)
    assert read(target).identical(fields(seed=1))
    write(fields(seed=2), target)
    assert read(target).identical(fields(seed=2))


def test_a_failed_write_leaves_the_old_file(target, monkeypatch):
    write(fields(seed=1), target)

    def full_disk(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(FileError, match="No space left"):
        write(fields(seed=2), target)
    monkeypatch.undo()
    assert read(target).identical(fields(seed=1))
    assert [entry.name for entry in target.parent.iterdir()] == [target.name]


def test_a_failed_computation_leaves_the_old_file(target):
    write(fields(seed=1), target)
    calls = []

    def fails_later(block):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("lost connection")
        return block

    lazy = fields().copy(
        data=da.from_array(values(), chunks=-1).map_blocks(fails_later, meta=np.empty(0))
    )
    with pytest.raises(FileError, match="lost connection"):
        write(lazy, target)
    assert read(target).identical(fields(seed=1))
    assert [entry.name for entry in target.parent.iterdir()] == [target.name]


def test_a_directory_of_something_else_is_not_replaced(tmp_path):
    (tmp_path / "thesis.zarr").mkdir()
    (tmp_path / "thesis.zarr" / "chapter.tex").write_text("years of work")
    with pytest.raises(FileError, match="nothing was deleted"):
        write(fields(), tmp_path / "thesis.zarr")
    assert (tmp_path / "thesis.zarr" / "chapter.tex").read_text() == "years of work"


def test_a_store_of_another_program_is_not_replaced(tmp_path):
    store = tmp_path / "theirs.zarr"
    fields(seed=1).to_dataset(name="theirs").to_zarr(store, zarr_format=3, consolidated=False)
    with pytest.raises(FileError, match="nothing was deleted"):
        write(fields(seed=2), store)
    np.testing.assert_array_equal(xr.open_zarr(store, consolidated=False)["theirs"], fields(seed=1))


@pytest.mark.parametrize("name", ["README.md", "field/notes.txt", "another/data.bin"])
def test_a_store_with_files_of_the_user_is_not_replaced(tmp_path, name):
    store = write(fields(seed=1), tmp_path / "f.zarr")
    (store / name).parent.mkdir(exist_ok=True)
    (store / name).write_text("mine")
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    calls = []
    lazy = fields(seed=2).copy(
        data=da.from_array(values(), chunks=-1).map_blocks(calls.append, meta=np.empty(0))
    )
    with pytest.raises(FileError, match="something else in it"):
        write(lazy, store)
    assert calls == []  # before any work
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


WRITE_REFUSED = {
    "suffix": (lambda path: write(fields(), path / "f.csv"), FileError, ".csv"),
    "no suffix": (lambda path: write(fields(), path / "f"), FileError, "suffix"),
    "missing folder": (lambda path: write(fields(), path / "no" / "f.nc"), FileError, "mkdir -p"),
    "folder is a file": (
        lambda path: write(fields(), path / "file" / "f.zarr"),
        FileError,
        "folder",
    ),
    "name of a directory": (
        lambda path: write(fields(), path / "folder.nc"),
        FileError,
        "directory",
    ),
    "name of a file": (lambda path: write(fields(), path / "file.zarr"), FileError, "file"),
    "bare array": (lambda path: write(values(), path / "f.nc"), DataError, "ndarray"),
    "empty dataset": (lambda path: write(xr.Dataset(), path / "f.nc"), DataError, "at least one"),
    "infinite": (lambda path: write(fields() / 0, path / "f.nc"), DataError, "infinite"),
    "object attribute": (
        lambda path: write(fields().assign_attrs(a=object()), path / "f.nc"),
        DataError,
        "'a'",
    ),
    "number as attribute name": (
        lambda path: write(fields().assign_attrs({"d": {1: 2}}), path / "f.nc"),
        DataError,
        "int",
    ),
    "objects beside the time": (
        lambda path: write(fields().assign_coords(day=("time", [{}] * 5)), path / "f.nc"),
        DataError,
        "'day'",
    ),
    "slash in a name": (
        lambda path: write(fields().rename("a/b"), path / "f.nc"),
        DataError,
        "a/b",
    ),
}


@pytest.mark.parametrize("case", WRITE_REFUSED)
def test_write_refuses(case, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "file.zarr").write_text("")
    (tmp_path / "folder.nc").mkdir()
    before = sorted(tmp_path.rglob("*"))
    call, error, text = WRITE_REFUSED[case]
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert text in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_dates_beside_the_time_are_stored_by_cf(tmp_path):
    days = pd.date_range("2000-01-03", periods=5)
    write(fields().assign_coords(day=("time", days)), tmp_path / "f.nc")
    with xr.open_dataset(tmp_path / "f.nc") as opened:
        np.testing.assert_array_equal(opened["day"].values, days.values)
