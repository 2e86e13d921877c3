"""Options that several commands share, each defined once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from spdelaw.data import Columns
from spdelaw.errors import InputError

Seed = Annotated[
    int, typer.Option("--seed", help="Non-negative integer; the same seed gives the same numbers.")
]
Paths = Annotated[int, typer.Option("--paths", "-n", help="Number of paths.")]
OutFile = Annotated[
    Path, typer.Option("--out", "-o", help="File to write: .nc (NetCDF) or .zarr (Zarr).")
]
OutFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder to write to; made if it is not there.")
]
InFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="NetCDF (.nc), Zarr (.zarr), or a table (.csv, .csv.gz, .parquet)."
    ),
]
Variable = Annotated[
    str | None,
    typer.Option("--variable", "-v", help="Variable to take where the file holds several."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")]
LawArgument = Annotated[
    Path, typer.Argument(metavar="LAW", help="Law written by `spdelaw fit`, a directory.")
]
OutLaw = Annotated[Path, typer.Option("--out", "-o", help="Law to write, such as heat.law.")]
PANEL = "Columns of a table, one row per station and time"


class Table(NamedTuple):
    """Columns of a table, as options."""

    time: Annotated[
        str | None, typer.Option("--time", help="Dates, or numbers.", rich_help_panel=PANEL)
    ] = None
    value: Annotated[str | None, typer.Option("--value", help="Values.", rich_help_panel=PANEL)] = (
        None
    )
    station: Annotated[
        str | None, typer.Option("--station", help="Names of stations.", rich_help_panel=PANEL)
    ] = None
    lon: Annotated[
        str | None, typer.Option("--lon", help="Longitudes in degrees.", rich_help_panel=PANEL)
    ] = None
    lat: Annotated[
        str | None, typer.Option("--lat", help="Latitudes in degrees.", rich_help_panel=PANEL)
    ] = None
    x: Annotated[
        str | None, typer.Option("--x", help="Other positions.", rich_help_panel=PANEL)
    ] = None
    y: Annotated[
        str | None, typer.Option("--y", help="Other positions.", rich_help_panel=PANEL)
    ] = None

    @property
    def columns(self) -> Columns:
        """As the data room has them."""
        return Columns(*self)


ColumnList = Annotated[
    str | None,
    typer.Option(
        "--columns", help="Columns of a table, time=date,value=tmax; by default as for the fit."
    ),
]
Fixed = Annotated[
    str | None,
    typer.Option("--fixed", help="Numbers to hold, such as nu=0.05,u^3=-1; see fixed of sl.fit."),
]
Times = Annotated[str | None, typer.Option("--times", help="Times with commas, such as 0,0.1,0.5.")]


def positive(option: str, value: int) -> int:
    """A count of at least one, or `InputError` in the words of the shell."""
    if value < 1:
        expected = "a positive integer"
        raise InputError(option, expected=expected, got=str(value), fix=f"pass {option} 100")
    return value


def positive_number(option: str, value: float) -> float:
    """A finite number above zero, or `InputError` in the words of the shell."""
    if not (math.isfinite(value) and value > 0):
        expected = "a finite number above 0"
        raise InputError(option, expected=expected, got=f"{value:g}", fix=f"pass {option} 1.0")
    return value


def numbers(option: str, text: str) -> list[float]:
    """Numbers from a list with commas, or `InputError`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        expected, fix = "numbers with commas between them", f"pass {option} 0,0.1,0.5"
        raise InputError(option, expected=expected, got=repr(text), fix=fix) from error


def names_of(option: str, text: str) -> tuple[str, ...]:
    """Names from a list with commas, or `InputError`."""
    names = tuple(" ".join(part.split()) for part in text.split(","))
    if not all(names):
        expected = "names with commas between them"
        raise InputError(option, expected=expected, got=repr(text), fix=f"pass {option} u,u^3")
    return names


def held_of(option: str, text: str) -> dict[str, float]:
    """Values by name from a list such as ``nu=0.05,kappa=0``, or `InputError`."""
    out = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            out[" ".join(name.split())] = float(value)
        except ValueError:
            name = ""
        if not name.strip():
            expected, got = "names and numbers, name=value with commas between them", repr(text)
            raise InputError(option, expected=expected, got=got, fix=f"pass {option} nu=0.05")
    return out


def word_or_count(option: str, text: str, word: str, least: int) -> int | str:
    """The word itself or a whole number of at least ``least``, or `InputError`."""
    if text == word:
        return word
    if not text.isdecimal() or int(text) < least:
        expected = f"{word} or an integer of at least {least}"
        raise InputError(option, expected=expected, got=repr(text), fix=f"pass {option} {word}")
    return int(text)


def one_of(option: str, text: str, words: tuple[str, ...]) -> str:
    """One of the words, or `InputError`."""
    if text not in words:
        fix = f"pass {option} {words[0]}"
        raise InputError(option, expected=f"one of {', '.join(words)}", got=repr(text), fix=fix)
    return text
