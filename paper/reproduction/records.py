"""Records: one JSON file for each run, written atomically; tables are made of records only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paper.reproduction.plan import Run
from spdelaw.data.io.safe_files import replace_file
from spdelaw.errors import FileError

#: Version of the layout of a record.
SCHEMA = 1


def record_path(out: Path, run: Run) -> Path:
    """Path of the record of a run."""
    return out / "records" / run.profile.name / f"{run.name}.json"


def write_record(out: Path, run: Run, record: Mapping[str, Any]) -> Path:
    """Write a record; numbers that are not finite become null."""
    path = record_path(out, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain({"schema": SCHEMA, **record}), indent=1, allow_nan=False)
    with replace_file(path) as new:
        new.write_text(text + "\n", encoding="utf-8")
    return path


def read_record(path: Path) -> dict[str, Any]:
    """A record, or `FileError`."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}, this version reads {SCHEMA}")
        missing = {"name", "regime", "entry", "seed", "configuration", "scores"} - set(record)
        if missing:
            raise ValueError(f"no {', '.join(sorted(missing))}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected, got = (
            "a record of `python -m paper reproduce`",
            f"{type(error).__name__}: {error}",
        )
        fix = "remove the file and run it again"
        raise FileError(str(path), expected=expected, got=got, fix=fix) from error
    return record


def find_record(out: Path, run: Run) -> dict[str, Any] | None:
    """Record of exactly this run; None where there is none, or one with other settings."""
    path = record_path(out, run)
    if not path.exists():
        return None
    record = read_record(path)
    return record if record["configuration"] == _plain(run.configuration) else None


def read_records(out: Path, runs: list[Run]) -> list[dict[str, Any]]:
    """Existing records of these runs, in their order."""
    return [record for run in runs if (record := find_record(out, run)) is not None]


def _plain(value: Any) -> Any:
    """JSON types only."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
