"""Scalars for TensorBoard, written without it: a record a call, readable while it grows.

A record is its length, that length's checksum, the data, the data's checksum; the data are an
``Event`` message of protocol buffers with a time, a step and named numbers.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from spdelaw.errors import FileError


def _table() -> tuple[int, ...]:
    """Castagnoli's cyclic redundancy check, byte by byte."""
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


CRC_TABLE = _table()


class EventFile:
    """Appends scalars to a file of its own in a folder that TensorBoard watches.

    Args:
        folder: made where it does not exist; a resumed run adds a file to it.
    """

    def __init__(self, folder: str | Path) -> None:
        name = f"events.out.tfevents.{time.time_ns() // 10**9:010d}.spdelaw.{os.getpid()}"
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.path = Path(folder) / name
            self.path.touch()
        except OSError as error:
            expected, fix = "a folder that can be written to", "pass another folder"
            raise FileError("tensorboard", expected=expected, got=str(error), fix=fix) from error
        self._write(_double(1, time.time()) + _bytes(3, b"brain.Event:2"))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """One event with all numbers of a step."""
        values = b"".join(
            _bytes(1, _bytes(1, name.encode()) + _float(2, value))
            for name, value in scalars.items()
        )
        self._write(_double(1, time.time()) + b"\x10" + _varint(step) + _bytes(5, values))

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        with self.path.open("ab") as file:
            file.write(length + _checksum(length) + event + _checksum(event))


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    return bytes(_groups(number))


def _groups(number: int) -> Iterator[int]:
    while number > 0x7F:
        yield 0x80 | (number & 0x7F)
        number >>= 7
    yield number


def _bytes(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return bytes([field << 3 | 5]) + struct.pack("<f", value)
