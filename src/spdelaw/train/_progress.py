"""What a run says about itself while it goes on.

Scalars for TensorBoard are written without it, one record per call, readable while the file grows.
A record is its length, that length's checksum, the data, the data's checksum; the data are an
``Event`` message of protocol buffers with a time, a step and named numbers.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spdelaw.errors import FileError, InputError
from spdelaw.train._processes import is_first


@dataclasses.dataclass(frozen=True)
class Progress:
    """State after an epoch.

    Attributes:
        epoch, epochs: done and in all.
        loss: mean training loss of the epoch, nats per path.
        relative_l2: of the reconstruction of the validation paths.
        rate: factor of the learning rates in this epoch.
        seconds: since this run started.
        eta: expected seconds to the end.
    """

    epoch: int
    epochs: int
    loss: float
    relative_l2: float
    rate: float
    seconds: float
    eta: float

    def __str__(self) -> str:
        """One line."""
        return (
            f"epoch {self.epoch}/{self.epochs}  loss {self.loss:.4g}  rel L2 "
            f"{self.relative_l2:.4f}  rate x{self.rate:.3f}  {_clock(self.eta)} to go"
        )


Report = Callable[[Progress], None]


def reporter(progress: Any) -> Report:
    """Function to call after each epoch.

    Args:
        progress: False or None for silence, True for lines on standard error (one that rewrites
            itself on a terminal, else one every twentieth of the way), or a function of
            `Progress`.
    """
    if progress is None or progress is False or (progress is True and not is_first()):
        return lambda state: None
    if progress is True:
        return _print
    if callable(progress):
        return progress
    expected = "True, False or a function"
    raise InputError("progress", expected=expected, got=repr(progress), fix="progress=True")


def with_tensorboard(report: Report, folder: Any) -> Report:
    """The same report, and the numbers of each epoch to a folder that TensorBoard shows."""
    if folder is None or not is_first():
        return report
    events = EventFile(folder)

    def both(state: Progress) -> None:
        scalars = {"loss": state.loss, "relative_l2": state.relative_l2, "rate": state.rate}
        events.add(state.epoch, scalars)
        report(state)

    return both


def _print(state: Progress) -> None:
    last = state.epoch == state.epochs
    if sys.stderr.isatty():
        print(f"\r{state}\x1b[K", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last or state.epoch % max(1, state.epochs // 20) == 0:
        print(state, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}"


# -- files for TensorBoard ------------------------------------------------------------------------


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
    groups = b""
    while number > 0x7F:
        groups += bytes([0x80 | (number & 0x7F)])
        number >>= 7
    return groups + bytes([number])


def _bytes(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return bytes([field << 3 | 5]) + struct.pack("<f", value)
