"""A file for `fit` and `info`: what it holds, what to do to it, and what was guessed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.cli._domain import dims_of
from spdelaw.cli._fields import read_fields, std_beside, with_std
from spdelaw.cli._prepare import Wanted
from spdelaw.data import (
    Columns,
    Preparation,
    Prepared,
    guess_domain,
    guess_layout,
    guess_unit,
    guess_variable,
    has_dates,
    has_fields,
    observed_fields,
    read_raw,
    to_dates,
)
from spdelaw.domain import AbstractDomain
from spdelaw.errors import InputError


class Source(NamedTuple):
    """Data to fit, what to do to them, what the fit will see, and what was guessed.

    Attributes:
        data: raw, or fields.
        prepared: what the preparation learned; None for fields.
        preparation: None for fields.
        fields: prepared and canonical.
        domain: name of the domain that was asked for or guessed.
        guesses: a sentence each.
    """

    data: Any
    preparation: Preparation | None
    fields: xr.DataArray
    domain: str | None
    guesses: list[str]
    prepared: Prepared | None = None

    def ready(self, domain: AbstractDomain) -> dict[str, Any]:
        """Arguments of a fit: what was prepared already, where its dims are those of the domain."""
        if set(domain.dims) <= set(map(str, self.fields.coords)):
            fields, dated = self.fields, has_dates(self.data)
            return {"data": observed_fields(fields, domain, self.prepared, dated=dated)}
        return {"data": self.data, "prepare": self.preparation}


def read_source(
    file: Path,
    variable: str | None,
    wanted: Wanted,
    domain: str | None,
    columns: Columns,
    std: str | None = None,
) -> Source:
    """Fields as they are in the file, or raw data with a preparation.

    ``std`` is the variable with the standard deviation of each value, where there is one.
    """
    dims = dims_of(domain)
    if wanted.along is not None and len(dims) > 1:
        expected = "a domain with one spatial dim"
        fix = "leave --along out; --average DIM removes a dim that is too many"
        raise InputError("--along", expected=expected, got=f"--domain {domain}", fix=fix)
    if not any(wanted) and any(has_fields(file, variable, d) for d in (dims, dims[:2], ("point",))):
        fields = read_fields(file, variable, check=False)  # a fit looks at them itself
        fields = fields if std is None else with_std(fields, file, std)
        return Source(fields, None, fields, domain, [])
    how = wanted.settings
    raw, guesses = read_raw(file, columns=columns)
    raw = _within(raw if std is None else std_beside(raw, std), wanted.period)
    cut = Preparation(select=how["select"], missing=how["missing"])
    average = tuple(wanted.average or ())
    selected = _selected(cut, raw, variable)
    if domain is None and wanted.along is None:
        domain, why = guess_domain(selected, variable, average)
        dims = dims_of(domain)
        guesses += [] if domain == "interval" else [why]
    guess = guess_layout(selected, variable, wanted.along, average, dims)
    ranges = {"select": {**guess.preparation.select, **how["select"]}}
    preparation = dataclasses.replace(guess.preparation, **{**how, **ranges})
    guesses += guess.reasons
    unit = _unit(raw[guess.time].values) if guess.time in raw.coords else None
    if preparation.time_unit is None and unit is not None:
        preparation = dataclasses.replace(preparation, time_unit=unit)
        guesses.append(f"times are dates, counted in {unit}")
    prepared, fields = preparation.learned(raw, guess.dims)
    return Source(raw, preparation, fields, domain, guesses + prepared.notes, prepared)


def _selected(cut: Preparation, raw: xr.Dataset, variable: str | None) -> xr.Dataset:
    """The data set as the ranges of --select leave it, for guesses about its extent."""
    if not cut.select:
        return raw
    name = guess_variable(raw, variable)
    reduced = dataclasses.replace(cut, variable=name).reduce(raw)
    return reduced.to_dataset(name=name)


def _unit(times: np.ndarray) -> str | None:
    dated = times.dtype.kind in "Mm" or (times.size > 0 and hasattr(times.flat[0], "calendar"))
    if not dated or times.ndim != 1 or len(times) < 2:
        return None
    return guess_unit(times)


def _within(raw: xr.Dataset, period: tuple[str, str] | None) -> xr.Dataset:
    """The times from the first to the last; the law is not told to forget the others."""
    if period is None:
        return raw
    time = next((str(n) for n in raw.dims if str(n) in ("time", "t", "valid_time", "date")), None)
    if time is None or time not in raw.coords:
        got, fix = ", ".join(map(str, raw.coords)), "leave the selection in time out"
        raise InputError("--select", expected="a file with a coordinate time", got=got, fix=fix)
    dated = raw[time].dtype.kind in "MO"
    try:
        ends = [None if not text else (text if dated else float(text)) for text in period]
        kept = raw.sortby(time).sel({time: slice(*ends)})
    except (ValueError, KeyError, TypeError) as error:
        expected = "dates such as time=1990:2010-06"
        fix = "pass --select time=1990-01-01:2009-12-31"
        raise InputError("--select", expected=expected, got=":".join(period), fix=fix) from error
    if kept.sizes[time] < 2:
        first, last = raw[time].values[[0, -1]]
        expected, got = f"a period within {first} to {last}", ":".join(period)
        raise InputError("--select", expected=expected, got=got, fix="check the dates")
    return kept


def shown_time(moment: float, clock: dict[str, Any]) -> str:
    """A time as a date where the clock counts from one, else as a number."""
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    text = str(to_dates(np.array([moment]), clock)[0])
    return text[:10] if text[11:19] in ("00:00:00", "") else text[:16]
