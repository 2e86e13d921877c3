"""Mutations of bytes, of JSON documents, of YAML text and of command lines."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

#: Values that programs trip over.
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**70), 1e308, -0.0, "", " ", "\0", "nan", "inf",
    "é" * 50, "../../etc", [], {}, [[]], {"a": {"b": []}}, [1, "2", None], "1e999", 0.1,
    "x" * 10_000,
)  # fmt: skip
WORDS = (
    "--modes", "0", "-1", "1e9", "nan", "auto", "", " ", "--out", "--json", "--quiet", "--force",
    "-f", "--seed", "--level", "2", "--config", "none.yaml", "--times", "0,1", "1,0", ",,",
    "2001-13-45", "--until", "--steps", "--paths", "--select", "x=1:2", "x", "--average", "time",
    "--coarsen", "x=0", "--anomalies", "month", "--bounds", "3", "1", "--boundary", "periodic",
    "--engine", "chaos", "--domain", "line", "--variable", "no", "--threads", "\ud800", "é", "--",
    "-", "--no-such", "a.nc",
)  # fmt: skip


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to eight local changes: flips, overwrites, cuts, repeats, insertions."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        if not changed:
            return bytes(changed)
        at = rng.randrange(len(changed))
        size = min(rng.choice((1, 1, 2, 4, 16, 256)), len(changed) - at)
        kind = rng.randrange(7)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at : at + size] = rng.randbytes(size)
        elif kind == 2:
            del changed[at : at + size]
        elif kind == 3:
            changed[at:at] = rng.randbytes(size)
        elif kind == 4:
            changed[at:at] = changed[at : at + size]
        elif kind == 5:
            changed[at : at + size] = bytes([rng.choice((0, 0xFF, 0x7F))]) * size
        else:
            del changed[at:]
    return bytes(changed)


def mutate_document(document: Any, rng: random.Random) -> Any:
    """A JSON document with one to three entries changed, removed, added or swapped."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        holders = [node for node in _nodes(changed) if node]
        if not holders:
            return rng.choice(STRANGE)
        holder = rng.choice(holders)
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        kind = rng.randrange(4)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(("extra", "name", "n_modes", "", "sha256"))] = rng.choice(STRANGE)
        elif kind == 2 and isinstance(holder[key], int | float):
            holder[key] = rng.choice((0, -1, 1e300, holder[key] * 2, str(holder[key])))
        else:
            holder[key] = copy.deepcopy(rng.choice(STRANGE))
    return changed


def _nodes(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(n for entry in value.values() for n in _nodes(entry))]
    if isinstance(value, list):
        return [value, *(n for entry in value for n in _nodes(entry))]
    return []


def mutate_yaml(text: str, rng: random.Random) -> bytes:
    """YAML text with lines changed, repeated, nested or replaced, or its bytes mutated."""
    if rng.random() < 0.4:
        return mutate_bytes(text.encode(), rng)
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(lines))
        key = lines[at].split(":")[0]
        value = json.dumps(rng.choice(STRANGE))
        lines[at] = rng.choice(
            (f"{key}: {value}", f"{key[:-1]}: 1", f"  {lines[at]}", f"{key}:\n  - a\n  - {value}",
             f"{lines[at]}\n{lines[at]}", f"{key}: !!python/object/apply:os.system ['true']",
             f"&a {key}: *a", f"? {key}\n: {value}", "[" * 50, f"{key}: |\n  text", "---", "...")
        )  # fmt: skip
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def mutate_command(line: list[str], rng: random.Random) -> list[str]:
    """A command line with words changed, removed, repeated, added or shuffled."""
    changed = list(line)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(4)
        if kind == 0 and len(changed) > 1:
            del changed[min(at, len(changed) - 1)]
        elif kind == 1:
            changed.insert(at, rng.choice(WORDS))
        elif kind == 2 and changed:
            changed[min(at, len(changed) - 1)] = rng.choice(WORDS)
        elif changed:
            changed.insert(at, rng.choice(changed))
    return changed
