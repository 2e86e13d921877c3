"""Laws on disk: a directory with ``law.json`` and ``arrays.safetensors``, written atomically.

Laws that version 0.1 saved are read in the words of today's documents.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from spdelaw.data import read_regular, refuse_special
from spdelaw.data.atomic import recover_directory, refuse_foreign, replace_directory
from spdelaw.errors import FileError, SpdeLawError
from spdelaw.law._document import from_document, to_document
from spdelaw.law._parameters_table import with_modes

if TYPE_CHECKING:
    from spdelaw.law._law import Law

#: Version of the layout on disk; a reader refuses what is newer than itself. Version 0.1 wrote the
#: first two, with a linear law alone; the third names its dynamics.
SCHEMA, OLD_SCHEMAS = 3, (1, 2)
DOCUMENT, ARRAYS = "law.json", "arrays.safetensors"
Array = np.ndarray
#: Names of the arrays of the state: of modes on their own, and of coupled ones.
NAMES = {
    "dynamics.drift": ("state.eigenvalues", "state.drift"),
    "dynamics.noise": ("state.noise_variance", "state.noise_covariance"),
    "initial.mean": ("state.initial_mean",),
    "initial.covariance": ("state.initial_variance", "state.initial_covariance"),
    "observation_variance": ("state.observation_variance",),
}
#: Prefixes of arrays that are now part of something else.
MOVED = {"forcing.": "dynamics.forcing.", "pairs.": "statistics.pairs."}


def write_law(path: Path, law: Law) -> None:
    """Write description, arrays and the parameter table; old or new, never half."""
    check_replaceable(path)
    (description, arrays), table = to_document(law), law.parameters
    tensors = {key: _tensor(value) for key, value in arrays.items()}
    layout = {name: list(map(str, table[name].dims)) for name in table.data_vars}
    for name in layout:
        tensors[f"parameters.{name}"] = _tensor(table[name].values)
    document = {"schema": SCHEMA, "parameters": layout, "parameter_attributes": table.attrs}
    document |= description
    with replace_directory(path, written_files) as folder:
        save_file(tensors, folder / ARRAYS)
        document["sha256"] = _digest(document, folder / ARRAYS)
        (folder / DOCUMENT).write_text(json.dumps(document, indent=2, sort_keys=True))


def _tensor(values: np.ndarray) -> np.ndarray:
    """Numbers in the bits of the file: 64-bit floats, and integers where they are indices."""
    kind = np.int64 if np.asarray(values).dtype.kind in "iu" else np.float64
    return np.array(values, dtype=kind, order="C")


def check_replaceable(path: Path) -> None:
    """Raise `FileError` unless the name is free, or that of a law and nothing else."""
    if not path.absolute().parent.is_dir():
        expected, fix = "an existing folder", "create the folder first"
        raise FileError(str(path), expected=expected, got=str(path.parent), fix=fix)
    refuse_foreign(path, written_files)


def written_files(folder: Path) -> tuple[str, ...]:
    """Files of a folder that `write_law` put there: both, or none where it is no law.

    Another program may call a file ``law.json`` too; ours has a schema and a digest.
    """
    try:
        document = read_regular(folder / DOCUMENT)
    except (OSError, ValueError):
        return ()
    is_law = isinstance(document, dict) and {"schema", "sha256", "parameters"} <= document.keys()
    return (DOCUMENT, ARRAYS) if is_law else ()


def read_law(path: Path) -> dict[str, Any]:
    """Arguments of `Law` from where one was saved; `FileError` where there is none."""
    recover_directory(path)
    try:
        document = read_regular(path / DOCUMENT)
        refuse_special(path / ARRAYS)
        digest = _digest(document, path / ARRAYS)
        arrays = load_file(path / ARRAYS)
    except FileNotFoundError as error:
        raise _unreadable(path, "no law there") from error
    except SpdeLawError:
        raise
    except (OSError, ValueError, SafetensorError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in (SCHEMA, *OLD_SCHEMAS):
        expected, fix = f"a law of schema 1 to {SCHEMA}", "update spdelaw, or fit again"
        raise FileError(str(path), expected=expected, got=f"schema {schema}", fix=fix)
    if document.get("sha256") != digest:
        raise _unreadable(path, "other contents than were written")
    table = _table(document, arrays)
    if schema in OLD_SCHEMAS:
        document, arrays = upgrade(document, arrays)
    return {**from_document(document, arrays), "parameters": table}


def _table(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> xr.Dataset:
    variables = {
        name: (tuple(dims), arrays.pop(f"parameters.{name}"))
        for name, dims in document["parameters"].items()
    }
    return with_modes(variables, document["parameter_attributes"])


def _digest(document: Any, arrays: Path) -> str:
    """SHA-256 of both files, the digest itself left out: damage must not pass as a law."""
    parts = document.items() if isinstance(document, dict) else ()
    text = json.dumps({key: value for key, value in parts if key != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode() + arrays.read_bytes()).hexdigest()


def _unreadable(path: Path, got: str) -> FileError:
    fix = "check the name; a damaged law has to be fitted again"
    return FileError(str(path), expected="a directory written by law.save()", got=got, fix=fix)


def upgrade(
    document: dict[str, Any], arrays: dict[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Document and arrays of schema 1 or 2 as those of schema 3."""
    old, new = dict(arrays), dict(document)
    found = {name: next(old.pop(k) for k in keys if k in old) for name, keys in NAMES.items()}
    for name, value in old.items():
        before = next((prefix for prefix in MOVED if name.startswith(prefix)), "")
        found[MOVED.get(before, "") + name.removeprefix(before)] = value
    if "statistics.pairs.two_lengths" in found:  # indices, which 0.1 wrote as floats
        found["statistics.pairs.two_lengths"] = found["statistics.pairs.two_lengths"].astype(int)
    if "preparation" in new and new["preparation"]["how"].get("anomalies") != "month":
        found.setdefault("preparation.levels", np.zeros(1))  # of a climatology without groups
    season = {"season": new.pop("season")} if "season" in new else {}
    new["dynamics"] = {"name": "linear", "origin": float(old["times"][0]), **season}
    new["initial"] = {"kind": new.pop("initial_kind")}
    return new, found
