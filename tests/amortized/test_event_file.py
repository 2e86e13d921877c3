"""The log for TensorBoard, decoded by hand and checked with another library's checksum."""

import io
import struct

import pytest
from tests.amortized.amortized_cases import DOMAIN, fields

import spdelaw as sl
from spdelaw.amortized.training import EventFile
from spdelaw.errors import FileError

crc32c = pytest.importorskip("google_crc32c", reason="comes with the extra zarr")


def masked(data):
    crc = crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(file):
    data, at = file.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8])
        event = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(event)
        yield event
        at += 16 + length


def messages(data):
    """Fields of a protocol-buffer message as (number, value)."""
    stream = io.BytesIO(data)

    def varint():
        byte = stream.read(1)[0]
        return byte if byte < 0x80 else (byte & 0x7F) | varint() << 7

    while stream.tell() < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
        elif kind == 2:
            yield number, stream.read(varint())
        else:
            size, code = {1: (8, "<d"), 5: (4, "<f")}[kind]
            yield number, struct.unpack(code, stream.read(size))[0]


def scalars(event):
    parts = dict(messages(event))
    values = [dict(messages(v)) for n, v in messages(parts[5]) if n == 1]
    return parts[2], {v[1].decode(): v[2] for v in values}


def test_events_are_what_was_added(tmp_path):
    events = EventFile(tmp_path / "log")
    events.add(3, {"loss": -1.5, "rate": 0.25})
    events.add(300, {"loss": 2.0})
    (file,) = (tmp_path / "log").iterdir()
    first, *rest = records(file)
    assert dict(messages(first))[3] == b"brain.Event:2"
    assert [scalars(event) for event in rest] == [
        (3, {"loss": -1.5, "rate": 0.25}), (300, {"loss": 2.0}),
    ]  # fmt: skip


def test_a_training_writes_one_event_an_epoch(tmp_path):
    """A folder that cannot be made is refused before the training."""
    how = {"engine": "amortized", "preset": "structured", "epochs": 4}
    sl.fit(fields(20), DOMAIN, 2, **how, tensorboard=tmp_path / "log")
    (file,) = (tmp_path / "log").iterdir()
    events = [scalars(event) for event in list(records(file))[1:]]
    assert [step for step, _ in events] == [1, 2, 3, 4]
    assert all(set(values) == {"loss", "relative_l2", "rate"} for _, values in events)
    with pytest.raises(FileError, match="tensorboard"):
        sl.fit(fields(20), DOMAIN, 2, **how, tensorboard=file / "log")
