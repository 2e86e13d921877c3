"""Damaged and malformed files: one clear error, or the very same values; never other values."""

from __future__ import annotations

import json
import shutil

import h5py
import numpy as np
import pytest
from tests.data.builders import fields, with_path_times

from spdelaw.data.io.files import read, read_dataset, write
from spdelaw.data.io.safe_files import SEAL_LIST
from spdelaw.errors import FileError, SpdeLawError

SEAL_BYTES = 81


@pytest.fixture(scope="module")
def original():
    return with_path_times(4).assign_attrs(equation={"lambda": [1.0, 4.0]})


@pytest.fixture(scope="module")
def sealed(original, tmp_path_factory):
    return write(original, tmp_path_factory.mktemp("nc") / "f.nc").read_bytes()


@pytest.fixture(scope="module")
def store(original, tmp_path_factory):
    return write(original, tmp_path_factory.mktemp("zarr") / "f.zarr")


def flipped(content, byte, bit):
    changed = bytearray(content)
    changed[byte] ^= 1 << bit
    return bytes(changed)


def outcome(path, original):
    """'error' or 'same'; anything else is a silent change."""
    try:
        back = read(path)
    except SpdeLawError:
        return "error"
    return "same" if back.identical(original) else "changed"


# ---------------------------------------------------------------- NetCDF


@pytest.mark.parametrize("n", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_flipped_bit_changes_anything_in_silence(tmp_path, original, sealed, n):
    path, start = tmp_path / "f.nc", len(sealed) - SEAL_BYTES
    rng = np.random.default_rng(0)
    outcomes = {"error": 0, "same": 0}
    for byte in [*rng.choice(start, n, replace=False), *range(start, len(sealed), 4)]:
        path.write_bytes(flipped(sealed, byte, rng.integers(8)))
        outcomes[outcome(path, original)] += 1
    # Only in the words of the seal, 17 of its bytes, does a flip do no harm.
    assert outcomes["same"] <= 17
    assert outcomes["error"] >= n


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flip_that_sends_hdf5_into_an_endless_loop_is_found_before(tmp_path, sealed, step):
    # The size of an entry of the global heap: HDF5 walks the heap by it, for ever if it is wrong.
    heaps = [i for i in range(len(sealed)) if sealed[i : i + 4] == b"GCOL"]
    assert heaps
    for heap in heaps:
        for byte in range(heap, heap + 40, step):
            (tmp_path / "f.nc").write_bytes(flipped(sealed, byte, 0))
            with pytest.raises(FileError, match="other bytes"):
                read(tmp_path / "f.nc")


@pytest.mark.parametrize("step", [101, pytest.param(29, marks=pytest.mark.slow)])
def test_chunks_are_protected_without_a_seal(tmp_path, original, sealed, step):
    path = tmp_path / "f.nc"
    path.write_bytes(sealed[:-SEAL_BYTES])
    assert outcome(path, original) == "same"
    with h5py.File(path) as file:
        chunks = [file[name].id.get_chunk_info(0) for name in ("field", "time", "x", "path_time")]
    for chunk in chunks:
        for byte in range(chunk.byte_offset, chunk.byte_offset + chunk.size, step):
            path.write_bytes(flipped(sealed[:-SEAL_BYTES], byte, byte % 8))
            assert outcome(path, original) == "error"


def test_truncated_appended_or_exchanged(tmp_path, original, sealed):
    path, half = tmp_path / "f.nc", len(sealed) // 2
    for size in [*range(0, len(sealed), 997), *range(len(sealed) - 100, len(sealed), 9)]:
        path.write_bytes(sealed[:size])
        allowed = {"error"} if size < len(sealed) - SEAL_BYTES else {"error", "same"}
        assert outcome(path, original) in allowed
    exchanged = sealed[half:] + sealed[:half]
    replaced = sealed[:half] + b"\xa5" * 64 + sealed[half + 64 :]
    for damaged in (exchanged, replaced):
        path.write_bytes(damaged)
        assert outcome(path, original) == "error"
    path.write_bytes(sealed + b"more")
    assert outcome(path, original) == "same"


def test_changed_by_another_program_on_purpose(tmp_path, sealed):
    path = tmp_path / "f.nc"
    path.write_bytes(sealed)
    with h5py.File(path, "r+") as file:
        file["x"][0] = -9.0
    assert read(path).x[0] == -9.0


# ---------------------------------------------------------------- Zarr


def copied(store, tmp_path):
    target = tmp_path / "f.zarr"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store, target)
    return target


def all_files(store):
    return sorted(p.relative_to(store) for p in store.rglob("*") if p.is_file())


def halved(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


DAMAGE = {"delete": lambda file: file.unlink(), "empty": lambda file: file.write_bytes(b""),
          "halve": halved}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_no_damage_to_a_zarr_file_changes_anything(tmp_path, store, original, damage):
    for name in all_files(store):
        target = copied(store, tmp_path)
        DAMAGE[damage](target / name)
        allowed = {"same"} if damage == "delete" and name.name == SEAL_LIST else {"error"}
        assert outcome(target, original) in allowed, name


@pytest.mark.parametrize("n", [4, pytest.param(25, marks=pytest.mark.slow)])
def test_no_flipped_bit_in_zarr_changes_anything(tmp_path, store, original, n):
    rng = np.random.default_rng(0)
    target = copied(store, tmp_path)
    for name in all_files(store):
        content = (target / name).read_bytes()
        for byte in rng.choice(len(content), min(len(content), n), replace=False):
            (target / name).write_bytes(flipped(content, byte, rng.integers(8)))
            assert outcome(target, original) == "error", (name, byte)
        (target / name).write_bytes(content)
    assert outcome(target, original) == "same"


@pytest.mark.parametrize("step", [45, pytest.param(11, marks=pytest.mark.slow)])
def test_zarr_chunks_are_protected_without_a_seal(tmp_path, store, original, step):
    target = copied(store, tmp_path)
    (target / "field" / SEAL_LIST).unlink()
    chunk = target / "field" / "c" / "0" / "0" / "0"
    content = chunk.read_bytes()
    for byte in range(0, len(content), step):
        chunk.write_bytes(flipped(content, byte, byte % 8))
        assert outcome(target, original) == "error"


def test_damage_shows_in_lazy_reading_too(tmp_path, store):
    target = copied(store, tmp_path)
    chunk = target / "field" / "c" / "0" / "0" / "0"
    chunk.write_bytes(flipped(chunk.read_bytes(), 20, 3))
    with pytest.raises(FileError, match=r"other bytes in field/c/0/0/0"):
        read(target, lazy=True)
    with pytest.raises(FileError):
        read(target, lazy=True, verify=False)


def test_files_added_to_a_zarr_directory(tmp_path, store, original):
    target = copied(store, tmp_path)
    (target / "field" / ".DS_Store").write_text("")
    assert outcome(target, original) == "same"
    (target / "field" / "c" / "0" / "0" / "9").write_bytes(b"stray")
    with pytest.raises(FileError, match="field/c/0/0/9 added"):
        read(target)


def test_changed_on_purpose_can_be_read_without_verification(tmp_path, store, original):
    target = copied(store, tmp_path)
    metadata = json.loads((target / "zarr.json").read_text())
    metadata["attributes"]["title"] = "edited"
    (target / "zarr.json").write_text(json.dumps(metadata))
    with pytest.raises(FileError, match="verify=False"):
        read(target)
    assert read(target, verify=False).identical(original)


def test_pickled_objects_are_never_loaded(tmp_path):
    (tmp_path / "f.zarr" / "u").mkdir(parents=True)
    (tmp_path / "f.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "f.zarr" / "u" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["time"]}')
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C",
             "fill_value": None, "compressor": None,
             "filters": [{"id": "pickle", "protocol": 5}]}  # fmt: skip
    (tmp_path / "f.zarr" / "u" / ".zarray").write_text(json.dumps(array))
    with pytest.raises(FileError, match="pickled"):
        read(tmp_path / "f.zarr")


def test_a_start_that_sends_hdf5_round_in_circles_is_refused(tmp_path):
    """Sixteen bytes lost in the superblock: the library itself would never return."""
    file = tmp_path / "a.nc"
    write(fields(), file)
    whole = file.read_bytes()
    assert whole[8] == 0, "the layout of the superblock that this test damages"
    for damaged in (whole[:40] + whole[56:], whole[:48] + bytes(8) + whole[56:], whole[:-100]):
        file.write_bytes(damaged)
        with pytest.raises(FileError):
            read_dataset(file, verify=False)
