"""A run on disk: everything that decides how it goes on, written whole or not at all.

``state.safetensors`` holds the parameters, the best ones so far and the optimiser's moments;
``run.json`` says what they belong to. The order of the data and every random draw of an epoch come
from streams that (seed, epoch) name, so the number of epochs done is the state of all of them; the
learning rates are a function of the epoch, too.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from spdelaw.data.atomic import recover_directory, replace_directory
from spdelaw.errors import FileError, InputError

Array = np.ndarray

SCHEMA = 1


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
    with replace_directory(folder, lambda _: ("run.json", "state.safetensors")) as new:
        save_file(
            {k: np.ascontiguousarray(v).reshape(v.shape) for k, v in snapshot.arrays.items()},
            new / "state.safetensors",
        )
        (new / "run.json").write_text(json.dumps(document, indent=1, sort_keys=True))


def read_checkpoint(folder: Path) -> tuple[Snapshot, dict[str, Any]]:
    """Snapshot and identity of the run in ``folder``, or `FileError`."""
    recover_directory(folder)
    try:
        document = json.loads((folder / "run.json").read_text())
        arrays = load_file(folder / "state.safetensors")
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}, this version reads {SCHEMA}")
        own = {key: document[key] for key in ("epoch", "best_epoch", "best_score", "seconds")}
        history = tuple(tuple(row) for row in document["history"])
        return Snapshot(arrays=arrays, history=history, **own), document["identity"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        expected, got = "a checkpoint of a training", f"{type(error).__name__}: {error}"
        fix = "check the name, or remove it and start anew"
        raise FileError(str(folder), expected=expected, got=got, fix=fix) from error


def find_checkpoint(folder: Path, identity: dict[str, Any]) -> Snapshot | None:
    """Snapshot to go on from, or None; an error where the folder is of another run.

    Raises:
        InputError: another config, seed or data.
        FileError: the folder holds something else.
    """
    recover_directory(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return None
    snapshot, found = read_checkpoint(folder)
    ours = json.loads(json.dumps(identity))
    differing = [k for k in ours if ours[k] != found.get(k)]
    if "config" in differing:
        theirs = found.get("config") or {}
        differing += [k for k in ours["config"] if ours["config"][k] != theirs.get(k)]
        differing.remove("config")
    if differing:
        expected, got = "the run that was started in this folder", f"another {', '.join(differing)}"
        fix = "repeat the call that started it, or choose another folder"
        raise InputError("checkpoint", expected=expected, got=got, fix=fix)
    return snapshot
