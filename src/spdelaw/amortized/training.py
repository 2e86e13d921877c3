"""The training loop: epochs, rates, checkpoints, progress, interruptions, processes."""

from __future__ import annotations

import abc
import contextlib
import ctypes
import dataclasses
import json
import math
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spdelaw.checks import non_negative, whole
from spdelaw.data.io.records import is_record, read_record, write_record
from spdelaw.data.io.safe_files import reading, recover_directory, replace_directory
from spdelaw.errors import ExecutorError, FileError, InputError

if TYPE_CHECKING:
    from torch import Tensor


# ---------- Processes that train one model together, started by ``torchrun``
#
# Each holds all data and takes its share of every batch. Gradients are summed over processes, so
# that a step is the step of one process on the whole batch, whatever their number. The first
# process scores epochs and writes checkpoints.


#: Environment variables that ``torchrun`` sets in each process.
TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Processes(NamedTuple):
    """This process among all that train together.

    Attributes:
        rank: its number, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    def share(self, n: int) -> slice:
        """Which of ``n`` paths are for this process; shares differ by one path at most."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def total(self, numbers: Tensor) -> Tensor:
        """Sum over all processes."""
        return self._communicate("all_reduce", numbers)

    def first(self, numbers: Tensor) -> Tensor:
        """The numbers of the first process."""
        return self._communicate("broadcast", numbers, 0)

    def _communicate(self, verb: str, numbers: Tensor, *more: int) -> Tensor:
        """Numbers after a call of ``torch.distributed``; unchanged for one process."""
        if self.size > 1:
            import torch.distributed as distributed

            with _transport_errors():
                getattr(distributed, verb)(numbers, *more)
        return numbers


#: One process, without torchrun.
ALONE = Processes()


def is_first() -> bool:
    """Whether this process is the one that writes: the only one, or the first of ``torchrun``."""
    return not _runs_under_torchrun() or int(os.environ["RANK"]) == 0


def join_processes() -> Processes:
    """The processes that ``torchrun`` started, connected; this one alone without it."""
    if not _runs_under_torchrun():
        return ALONE
    import torch.distributed as distributed

    with _transport_errors():
        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
    return Processes(distributed.get_rank(), distributed.get_world_size())


def _runs_under_torchrun() -> bool:
    return (
        all(name in os.environ for name in TORCHRUN_VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1
    )


@contextlib.contextmanager
def _transport_errors() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # of torch.distributed, whatever the transport
        expected = "all processes to run until the training ends"
        got = f"a process that stopped ({str(error).splitlines()[0][:80]})"
        fix = "repeat the call with the same checkpoint, with any number of processes"
        raise ExecutorError("torchrun", expected=expected, got=got, fix=fix) from error


# ---------- Progress reports and TensorBoard files
#
# Scalars for TensorBoard are written without it, one record per call, readable while the file
# grows. A record is its length, that length's checksum, the data, the data's checksum; the data are
# an ``Event`` message of protocol buffers with a time, a step and named numbers.


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
            f"{self.relative_l2:.4f}  rate x{self.rate:.3f}  {_format_duration(self.eta)} to go"
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
        return _print_progress
    return progress


def with_tensorboard(report: Report, folder: Any) -> Report:
    """The report, which also writes the numbers of each epoch to a folder for TensorBoard."""
    if folder is None or not is_first():
        return report
    events = EventFile(folder)

    def both(state: Progress) -> None:
        scalars = {"loss": state.loss, "relative_l2": state.relative_l2, "rate": state.rate}
        events.add(state.epoch, scalars)
        report(state)

    return both


def _print_progress(state: Progress) -> None:
    last = state.epoch == state.epochs
    if sys.stderr.isatty():
        print(f"\r{state}\x1b[K", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last or state.epoch % max(1, state.epochs // 20) == 0:
        print(state, file=sys.stderr, flush=True)


def _format_duration(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}"


# -- files for TensorBoard ------------------------------------------------------------------------
def _crc_table() -> tuple[int, ...]:
    """Castagnoli's cyclic redundancy check, byte by byte."""
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


CRC_TABLE = _crc_table()


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


# ---------- Checkpoints: the complete state of a run on disk, written whole or not at all
#
# ``state.safetensors`` holds the parameters, the best ones so far and the optimiser's moments;
# ``run.json`` identifies the run. The order of the data and every random draw of an epoch
# come from streams indexed by (seed, epoch), so the number of epochs done is the state of all of
# them; the learning rates are a function of the epoch, too.


Array = np.ndarray

#: Version 2 has a checksum.
SCHEMA = 2
FILES = ("run.json", "state.safetensors")


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """State of a run after an epoch; by default before the first.

    Attributes:
        epoch: epochs done.
        arrays: ``model.*``, ``best.*`` and ``optimiser.*``.
        best_epoch, best_score: where the ``best.*`` are from; 0 and infinity before the first.
        history: one row per epoch: training loss, validation loss, validation rel L2.
        seconds: spent so far.
    """

    epoch: int = 0
    arrays: dict[str, Array] = dataclasses.field(default_factory=dict)
    best_epoch: int = 0
    best_score: float = math.inf
    history: tuple[tuple[float, float, float], ...] = ()
    seconds: float = 0.0

    def part(self, name: str) -> dict[str, Array]:
        """Arrays of one kind, by their own names."""
        start = name + "."
        return {k[len(start) :]: v for k, v in self.arrays.items() if k.startswith(start)}


def write_checkpoint(folder: Path, snapshot: Snapshot, identity: dict[str, Any]) -> None:
    """Replace the checkpoint in ``folder``."""
    described = {key: value for key, value in vars(snapshot).items() if key != "arrays"}
    document = {"schema": SCHEMA, "identity": identity, **described}
    with replace_directory(folder, _written_files) as new:
        write_record(new, FILES, document, snapshot.arrays)


def _written_files(folder: Path) -> tuple[str, ...]:
    return FILES if is_record(folder / FILES[0], ("identity", "epoch")) else ()


def read_checkpoint(folder: Path) -> tuple[Snapshot, dict[str, Any]]:
    """Snapshot and identity of the run in ``folder``, or `FileError`."""
    with parsing_checkpoint(folder):
        document, arrays = read_record(folder, FILES)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}, this version reads {SCHEMA}")
        counters = {key: document[key] for key in ("epoch", "best_epoch", "best_score", "seconds")}
        history = tuple((float(a), float(b), float(c)) for a, b, c in document["history"])
        whole("epoch", counters["epoch"], 0)
        whole("best_epoch", counters["best_epoch"], 0)
        non_negative("seconds", counters["seconds"])
        counters["best_score"] = float(counters["best_score"])
        if not counters["best_epoch"] <= counters["epoch"] == len(history):
            raise ValueError(f"epoch {counters['epoch']} with {len(history)} rows of history")
        snapshot = Snapshot(arrays=arrays, history=history, **counters)
        identity = dict(document["identity"])
        return snapshot, {**identity, "config": dict(identity.get("config") or {})}


def parsing_checkpoint(folder: Path) -> AbstractContextManager[None]:
    """Errors about a checkpoint as `FileError`."""
    expected = "a checkpoint of a training of this version"
    return reading(folder, expected, "check the name, or remove the file to start a new training")


def find_checkpoint(
    folder: Path, identity: dict[str, Any], defaults: Mapping[str, Any]
) -> Snapshot | None:
    """Snapshot to go on from, or None; an error where the folder is of another run.

    ``defaults`` are of settings that the version which wrote the folder did not have.

    Raises:
        InputError: another config, seed or data.
        FileError: the folder holds something else.
    """
    recover_directory(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return None
    snapshot, saved_identity = read_checkpoint(folder)
    ours, theirs = json.loads(json.dumps(identity)), {**defaults, **saved_identity["config"]}
    differing = [k for k in ours if k != "config" and ours[k] != saved_identity.get(k)]
    differing += [k for k, v in ours.get("config", {}).items() if v != theirs.get(k)]
    if differing:
        expected, got = "the run that was started in this folder", f"another {', '.join(differing)}"
        fix = "repeat the call that started it, or choose another folder"
        raise InputError("checkpoint", expected=expected, got=got, fix=fix)
    return snapshot


# ---------- The training loop: epochs, warm-up and cosine, checkpoints and interruptions


#: Names of the random streams of a run, by their numbers.
STREAMS = ("weights", "order", "noise", "hold out")
#: Options of glibc's ``mallopt``, and the largest size it takes.
TRIM_THRESHOLD, MMAP_THRESHOLD, LARGEST_SIZE = -1, -3, 2**31 - 1
#: The thresholds glibc's own adaptation goes up to in a process that frees large pieces.
USUAL_MMAP, USUAL_TRIM = 2**25, 2**26


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training; the message names the checkpoint and how to resume."""


class Run(abc.ABC):
    """A training, epoch by epoch, that can be restored to the end of any epoch.

    Its config has ``epochs``, ``checkpoint_every`` and, unless it has rates of its own, what
    `rate_factor` takes.
    """

    config: Any
    snapshot: Snapshot

    @abc.abstractmethod
    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""

    @abc.abstractmethod
    def epoch(self, epoch: int) -> float:
        """One pass over the data; mean loss."""

    @abc.abstractmethod
    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch and replace the snapshot."""

    def rate(self, epoch: int) -> float:
        """Factor of the learning rates in an epoch."""
        return rate_factor(epoch, self.config)

    def is_over(self) -> bool:
        """Whether the last epoch is done."""
        return self.snapshot.epoch >= self.config.epochs


def rate_factor(epoch: int, config: Any) -> float:
    """Linear warm-up to 1, then half a cosine to 0, in each cycle.

    A cycle that began at the full rate would undo what the last one learned: Adam's scale of a
    gradient is small at its end.

    Args:
        epoch: counted from 0.
        config: ``epochs`` in all, ``warmup_epochs``, and a ``schedule`` of cycles if it has one.

    Example:
        >>> from spdelaw.amortized.structured import AmortizedConfig
        >>> config = AmortizedConfig(epochs=170, warmup_epochs=10, schedule=(110, 60))
        >>> [round(rate_factor(e, config), 3) for e in (0, 9, 10, 60, 109, 110, 120, 145)]
        [0.1, 1.0, 1.0, 0.5, 0.0, 0.1, 1.0, 0.5]
    """
    start, end = cycle_of(epoch, config.epochs, getattr(config, "schedule", ()))
    done, warm = epoch - start, min(config.warmup_epochs, (end - start) // 3)
    if done < warm:
        return (done + 1) / warm
    return 0.5 * (1.0 + math.cos(math.pi * (done - warm) / (end - start - warm)))


def cycle_of(epoch: int, epochs: int, lengths: Sequence[int]) -> tuple[int, int]:
    """First epoch of the cycle an epoch lies in, and the first after it.

    The last length repeats; a cycle that would pass the last epoch is cut there.

    Example:
        >>> cycle_of(95, 130, (60, 30)), cycle_of(125, 130, (60, 30)), cycle_of(7, 130, ())
        ((90, 120), (120, 130), (0, 130))
    """
    start = 0
    for length in chain(lengths, repeat(lengths[-1] if lengths else epochs)):
        if epoch < start + length:
            return start, min(start + length, epochs)
        start += length
    raise AssertionError("lengths are positive")


def stream(seed: int, name: str | int, *more: int) -> int:
    """Seed of a random stream, 64 bits: one of `STREAMS`, or of a number of its own."""
    key = (STREAMS.index(name) if isinstance(name, str) else name, *more)
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0])


def train(
    run: Run, *, identity: dict[str, Any], checkpoint: Path | None, report: Report
) -> Snapshot:
    """Train from the start, or resume from a checkpoint.

    Args:
        run: the training.
        identity: entries that a checkpoint must match to be resumed.
        checkpoint: folder, or None.
        report: called after every epoch.

    Raises:
        ConvergenceError: something is not finite.
        TrainingInterrupted: Ctrl-C; the last whole epoch is saved.
    """
    fields = getattr(type(run.config), "model_fields", {})
    defaults = {name: field.default for name, field in fields.items()}
    if checkpoint is not None and (resumed := find_checkpoint(checkpoint, identity, defaults)):
        with parsing_checkpoint(checkpoint):
            run.restore(resumed)
    folder = checkpoint if is_first() else None
    start, done, epochs = time.perf_counter(), run.snapshot.epoch, run.config.epochs
    before, saved = run.snapshot.seconds, run.snapshot.epoch
    try:
        with reused_memory():
            while not run.is_over():
                epoch = run.snapshot.epoch
                rate, loss = run.rate(epoch), run.epoch(epoch)
                seconds = time.perf_counter() - start
                run.finish(epoch, loss, before + seconds)
                if folder is not None and (epoch + 1) % run.config.checkpoint_every == 0:
                    write_checkpoint(folder, run.snapshot, identity)
                    saved = run.snapshot.epoch
                loss, _, relative_l2 = run.snapshot.history[-1]
                left = (epochs - epoch - 1) * seconds / (epoch + 1 - done)
                report(Progress(epoch + 1, epochs, loss, relative_l2, rate, seconds, left))
    except KeyboardInterrupt as error:
        raise _save_and_explain(run.snapshot, epochs, checkpoint, identity) from error
    if folder is not None and saved < run.snapshot.epoch:
        write_checkpoint(folder, run.snapshot, identity)
    return run.snapshot


def _save_and_explain(
    snapshot: Snapshot, epochs: int, checkpoint: Path | None, identity: dict[str, Any]
) -> TrainingInterrupted:
    where = f"stopped after epoch {snapshot.epoch} of {epochs}"
    if checkpoint is None:
        return TrainingInterrupted(f"{where}; nothing was saved: pass checkpoint='run' to keep it")
    if snapshot.epoch == 0:
        return TrainingInterrupted(f"{where}; there was nothing to save yet")
    if is_first():
        write_checkpoint(checkpoint, snapshot, identity)
    return TrainingInterrupted(
        f"{where}; saved in {checkpoint}. To go on, repeat the call with the same checkpoint"
    )


# -- memory ---------------------------------------------------------------------------------------
@contextmanager
def reused_memory() -> Iterator[None]:
    """Within the block, freed memory stays with the process.

    A step allocates and frees tens of megabytes. glibc hands large pieces back to the system at
    once, and touching them again costs a page fault for each 4 kB: a fifth of a step. On other
    systems this does nothing.
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(MMAP_THRESHOLD, LARGEST_SIZE)
    libc.mallopt(TRIM_THRESHOLD, LARGEST_SIZE)
    try:
        yield
    finally:
        libc.mallopt(MMAP_THRESHOLD, USUAL_MMAP)
        libc.mallopt(TRIM_THRESHOLD, USUAL_TRIM)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
