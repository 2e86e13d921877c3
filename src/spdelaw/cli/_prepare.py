"""Options of `spdelaw fit` that turn a raw file into fields."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from spdelaw.errors import InputError

PANEL = "Preparation, kept in the law and undone on output"


class Wanted(NamedTuple):
    """The options as they were given."""

    along: Annotated[
        str | None, typer.Option(help="Dim that becomes space; guessed.", rich_help_panel=PANEL)
    ] = None
    average: Annotated[
        list[str] | None,
        typer.Option(help="Dim to average over, latitudes by area.", rich_help_panel=PANEL),
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="Range to keep, such as longitude=150:270 or time=1990:2010-06, or the entry "
            "nearest to a number, depth=10.",
            rich_help_panel=PANEL,
        ),
    ] = None
    coarsen: Annotated[
        list[str] | None,
        typer.Option(help="Neighbours to average, such as x=2.", rich_help_panel=PANEL),
    ] = None
    anomalies: Annotated[
        str | None,
        typer.Option(
            help="Climatology to subtract: mean, month, dayofyear (harmonics), hour, month+hour, "
            "lead.",
            rich_help_panel=PANEL,
        ),
    ] = None
    detrend: Annotated[
        bool, typer.Option("--detrend", help="Subtract a line in time.", rich_help_panel=PANEL)
    ] = False
    standardise: Annotated[
        str | None,
        typer.Option(
            help="Divide by the deviation of each point, or whole.", rich_help_panel=PANEL
        ),
    ] = None
    time_unit: Annotated[
        str | None,
        typer.Option(help="Unit that dates are counted in; guessed.", rich_help_panel=PANEL),
    ] = None
    area_weights: Annotated[
        bool,
        typer.Option(
            "--area-weights", help="Multiply by the root of a cell's area.", rich_help_panel=PANEL
        ),
    ] = False
    missing: Annotated[
        list[float] | None,
        typer.Option(help="Value that means nothing, such as -9999.", rich_help_panel=PANEL),
    ] = None

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `Preparation`, but for names and means over dims."""
        ranges = [part for part in map(_range, self.select or ()) if part is not None]
        return {
            "select": dict(ranges),
            "coarsen": dict(_count(text) for text in self.coarsen or ()),
            "anomalies": self.anomalies,
            "detrend": self.detrend,
            "standardise": self.standardise,
            "time_unit": self.time_unit,
            "area_weights": self.area_weights,
            "missing": tuple(self.missing or ()),
        }

    @property
    def period(self) -> tuple[str, str] | None:
        """First and last time to learn from, as text, where --select time gives them."""
        found = [text.partition("=")[2] for text in self.select or () if _is_period(text)]
        if not found:
            return None
        first, _, last = found[-1].partition(":")
        return first.strip(), last.strip()


def _is_period(text: str) -> bool:
    return text.partition("=")[0].strip() == "time"


def _range(text: str) -> tuple[str, tuple[float, float]] | None:
    if _is_period(text):
        return None
    dim, _, ends = text.partition("=")
    low, colon, high = ends.partition(":")
    try:
        return dim.strip(), (float(low), float(high) if colon else float(low))
    except ValueError as error:
        expected, fix = "a dim and a range", "pass --select longitude=150:270"
        raise InputError("--select", expected=expected, got=repr(text), fix=fix) from error


def _count(text: str) -> tuple[str, int]:
    dim, _, size = text.partition("=")
    if not dim or not size.isdecimal():
        expected = "a dim and a number"
        raise InputError("--coarsen", expected=expected, got=repr(text), fix="pass --coarsen x=2")
    return dim, int(size)
