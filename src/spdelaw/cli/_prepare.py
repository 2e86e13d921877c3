"""Options of `spdelaw fit` that turn a raw file into fields, and what was guessed about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import xarray as xr

from spdelaw.cli._domain import dims_of
from spdelaw.cli._fields import read_fields
from spdelaw.data import Preparation, guess_layout, guess_unit, has_fields, read_dataset
from spdelaw.errors import InputError

PANEL = "Preparation, kept in the law and undone on output"

Along = Annotated[
    str | None, typer.Option(help="Dim that becomes space; guessed.", rich_help_panel=PANEL)
]
Average = Annotated[
    list[str] | None,
    typer.Option(help="Dim to average over, latitudes by area.", rich_help_panel=PANEL),
]
Select = Annotated[
    list[str] | None,
    typer.Option(help="Range to keep, such as longitude=150:270.", rich_help_panel=PANEL),
]
Coarsen = Annotated[
    list[str] | None,
    typer.Option(help="Neighbours to average, such as x=2.", rich_help_panel=PANEL),
]
Anomalies = Annotated[
    str | None,
    typer.Option(help="Subtract a climatology: month or dayofyear.", rich_help_panel=PANEL),
]
Detrend = Annotated[
    bool, typer.Option("--detrend", help="Subtract a line in time.", rich_help_panel=PANEL)
]
Standardise = Annotated[
    str | None,
    typer.Option(help="Divide by the deviation of each point, or whole.", rich_help_panel=PANEL),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(help="Unit that dates are counted in; guessed.", rich_help_panel=PANEL),
]


class Wanted(NamedTuple):
    """The options as they were given."""

    along: str | None
    average: list[str] | None
    select: list[str] | None
    coarsen: list[str] | None
    anomalies: str | None
    detrend: bool
    standardise: str | None
    time_unit: str | None


class Source(NamedTuple):
    """Data to fit, what to do to them, what the fit will see, and what was guessed."""

    data: Any
    preparation: Preparation | None
    fields: xr.DataArray
    guesses: list[str]


def read_source(
    file: Path, variable: str | None, wanted: Wanted, domain: str | None = None
) -> Source:
    """Fields as they are in the file, or raw data with a preparation."""
    dims = dims_of(domain)
    if wanted.along is not None and len(dims) > 1:
        raise InputError(
            "--along", expected="a domain with one spatial dim", got=f"--domain {domain}",
            fix="leave --along out; --average DIM removes a dim that is too many",
        )  # fmt: skip
    if not any(wanted) and any(has_fields(file, variable, d) for d in (dims, dims[:2], ("point",))):
        fields = read_fields(file, variable)
        return Source(fields, None, fields, [])
    how = _settings(wanted)
    raw = read_dataset(file)
    selected = Preparation(select=how["select"]).reduce_dataset(raw)
    guess = guess_layout(selected, variable, wanted.along, tuple(wanted.average or ()), dims)
    preparation = dataclasses.replace(guess.preparation, **how)
    guesses, times = list(guess.reasons), raw[_time_of(preparation)].values
    if preparation.time_unit is None and times.dtype.kind == "M" and len(times) > 1:
        preparation = dataclasses.replace(preparation, time_unit=guess_unit(times))
        guesses.append(f"times are dates, counted in {preparation.time_unit}")
    kept = set(raw[preparation.variable].dims) - set(preparation.average)
    dims = tuple(d for d in dims if d in {preparation.rename.get(str(k), k) for k in kept})
    return Source(raw, preparation, preparation.learn(raw, dims).apply(raw, dims), guesses)


def _time_of(preparation: Preparation) -> str:
    return next((old for old, new in preparation.rename.items() if new == "time"), "time")


def _settings(wanted: Wanted) -> dict[str, Any]:
    return {
        "select": dict(_range(text) for text in wanted.select or ()),
        "coarsen": dict(_count(text) for text in wanted.coarsen or ()),
        "anomalies": wanted.anomalies, "detrend": wanted.detrend,
        "standardise": wanted.standardise, "time_unit": wanted.time_unit,
    }  # fmt: skip


def _range(text: str) -> tuple[str, tuple[float, float]]:
    dim, _, ends = text.partition("=")
    low, _, high = ends.partition(":")
    try:
        return dim, (float(low), float(high))
    except ValueError as error:
        raise InputError(
            "--select", expected="a dim and a range", got=repr(text),
            fix="pass --select longitude=150:270",
        ) from error  # fmt: skip


def _count(text: str) -> tuple[str, int]:
    dim, _, size = text.partition("=")
    if not dim or not size.isdecimal():
        raise InputError(
            "--coarsen", expected="a dim and a number", got=repr(text), fix="pass --coarsen x=2"
        )
    return dim, int(size)
