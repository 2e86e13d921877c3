"""What the law figures show, from records: groups of runs, their mean and spread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Record = dict[str, Any]
Array = np.ndarray

#: How far beyond the truth a figure reaches, as a factor.
BEYOND = 30.0


def laws(records: list[Record]) -> Iterator[tuple[str, list[Record], str]]:
    """Entry, records and label of each system with curves of its law, in their order."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "law" and "curves" in record:
            groups.setdefault(record["entry"], []).append(record)
    for entry, group in groups.items():
        short = f" ({group[0]['shortened'][0]})" if group[0]["shortened"] else ""
        yield entry, group, group[0]["label"].removeprefix("spdelaw, ") + short


def truths(records: list[Record]) -> list[Record]:
    """Records of the law that made the data, one for each data set."""
    return [r for r in records if r["kind"] == "reference"]


def moments(group: list[Record], curve: str) -> tuple[Array, Array]:
    """Mean and standard deviation over runs; zero spread for a single one."""
    values = np.array([r["curves"][curve] for r in group], dtype=float)
    std = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    return values.mean(0), std


def bars(records: list[Record], group: list[Record], curve: str) -> tuple[Array, Array]:
    """Means, and bars (2, N) below and above them, for a logarithmic axis.

    A mean more than a factor of `BEYOND` from the truth, such as a rate of zero, is put there, and
    no bar reaches zero.
    """
    mean, std = moments(group, curve)
    if made := truths(records):
        truth = moments(made, curve)[0]
        mean = np.clip(mean, truth.min() / BEYOND, truth.max() * BEYOND)
    return mean, np.stack([np.minimum(std, 0.999 * mean), std])


def modes(values: Array) -> Array:
    """Numbers of the modes, from 1."""
    return np.arange(1.0, len(values) + 1)
