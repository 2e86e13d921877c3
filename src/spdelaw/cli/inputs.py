"""Read the file of a command: its fields, domain and preparation, with all guesses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.cli.domains import (
    ChosenDomain,
    DomainOptions,
    check_same_domain,
    choose_domain,
    dims_of,
    stored_domain,
)
from spdelaw.cli.options import ConfigFile, DataFile, LawFile, LawFiles, PreparationOptions
from spdelaw.cli.values import existing_law, refused
from spdelaw.data.clock import has_dates, to_dates
from spdelaw.data.fields import OBSERVATION_STD
from spdelaw.data.io.files import has_fields, read, read_dataset, read_raw
from spdelaw.data.io.sources import columns_of
from spdelaw.data.io.tables import Columns, is_table, numeric_values, read_frame, suggested
from spdelaw.data.layout import is_time
from spdelaw.data.observed import observed_fields
from spdelaw.data.prepare import Preparation, Prepared
from spdelaw.data.recognise import learned_with_climate, recognise
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.infer.pipeline import PATTERNS
from spdelaw.law.io import load
from spdelaw.law.law import Law

#: Value of ``--anomalies`` that keeps the values as they are.
NO_ANOMALIES = "none"

# ---------- Data to learn from: fields, or raw data with a preparation


class DataOptions(NamedTuple):
    """A file of data, and how to read it; None means not given."""

    file: DataFile
    columns: Columns
    domain: DomainOptions
    preparation: PreparationOptions
    variable: str | None = None
    config: ConfigFile | None = None
    along: str | None = None

    def read(self, std: str | None = None, *, climate: bool = True) -> Source:
        """Fields as they are in the file, or raw data with a preparation.

        Args:
            std: variable with the standard deviation of each value, where there is one.
            climate: whether to choose a climatology where no option states one.
        """
        file, variable, given = self.file, self.variable, dict(self.preparation)
        climate &= "anomalies" not in given
        if given.get("anomalies") == NO_ANOMALIES:
            del given["anomalies"]
        domain = None if self.domain.domain == PATTERNS else self.domain.domain
        dims = dims_of(domain)
        if self.along is not None and len(dims) > 1:
            expected = "a domain with one spatial dim"
            fix = "remove --along; --average DIM averages over a surplus dim"
            raise InputError("--along", expected=expected, got=f"--domain {domain}", fix=fix)
        may_be_fields = not given and self.along is None
        if may_be_fields and any(
            has_fields(file, variable, d) for d in (dims, dims[:2], ("point",))
        ):
            fields = read_fields(file, variable, check=False)  # a fit looks at them itself
            fields = fields if std is None else with_std(fields, file, std)
            return Source(fields, None, fields, self.domain, [])
        select = dict(given.get("select", {}))
        period = select.pop("time", None)
        raw, guesses = read_raw(file, columns=self.columns)
        raw = _select_period(raw if std is None else std_as_coordinate(raw, std), period)
        how = Preparation(**given | {"select": select, "variable": variable})
        is_open = domain is None and self.along is None
        layout = recognise(raw, how, dims=None if is_open else dims, along=self.along)
        guesses += [layout.domain_reason] if layout.domain not in (None, "interval") else []
        prepared, fields, climate_reason = learned_with_climate(layout, raw, climate)
        guesses += [*layout.reasons, *climate_reason]
        unit = layout.preparation.time_unit
        guesses += [f"times are dates, counted in {unit}"] if unit != how.time_unit else []
        guesses += prepared.notes
        options = self.domain._replace(domain=self.domain.domain or layout.domain)
        return Source(raw, prepared.how, fields, options, guesses, prepared)


class Source(NamedTuple):
    """Data to fit, their preparation, the prepared fields, and all guesses.

    Attributes:
        data: raw, or fields.
        preparation: None for fields.
        fields: prepared and canonical.
        domain_options: with the domain's name, requested or guessed.
        guesses: a sentence each.
        prepared: what the preparation learned; None for fields.
    """

    data: Any
    preparation: Preparation | None
    fields: xr.DataArray
    domain_options: DomainOptions
    guesses: list[str]
    prepared: Prepared | None = None

    def choose_domain(self, patterns: bool = False) -> ChosenDomain:
        """The domain; its guess joins the guesses. ``patterns``: whether it may be EOFs."""
        if self.domain_options.domain == PATTERNS and not patterns:
            fix = "leave it out; fill takes EOFs by --basis patterns"
            expected = "a domain with eigenfunctions"
            raise InputError("--domain", expected=expected, got=repr(PATTERNS), fix=fix)
        chosen = choose_domain(self.domain_options, self.fields)
        self.guesses.extend([chosen.reason] if chosen.guessed else [])
        return chosen

    def ready(self, domain: AbstractDomain | str) -> dict[str, Any]:
        """Arguments of a fit: the prepared fields where their dims are those of the domain."""
        if not isinstance(domain, str) and set(domain.dims) <= set(map(str, self.fields.coords)):
            fields, dated = self.fields, has_dates(self.data)
            return {"data": observed_fields(fields, domain, self.prepared, dated=dated)}
        return {"data": self.data, "prepare": self.preparation}


def _select_period(raw: xr.Dataset, period: tuple[str, str] | None) -> xr.Dataset:
    """The times from the first to the last; the law does not store this selection."""
    if period is None:
        return raw
    time = next((str(n) for n in raw.dims if is_time(raw, str(n))), None)
    if time is None or time not in raw.coords:
        got, fix = ", ".join(map(str, raw.coords)), "leave the selection in time out"
        raise InputError("--select", expected="a file with a coordinate time", got=got, fix=fix)
    dated = raw[time].dtype.kind in "MO"
    try:
        ends = [None if not text else (text if dated else float(text)) for text in period]
        kept = raw.sortby(time).sel({time: slice(*ends)})
    except (ValueError, KeyError, TypeError) as error:
        expected, example = "dates such as time=1990:2010-06", "time=1990-01-01:2009-12-31"
        raise refused("--select", expected, ":".join(period), example) from error
    if kept.sizes[time] < 2:
        first, last = raw[time].values[[0, -1]]
        expected, got = f"a period within {first} to {last}", ":".join(period)
        raise InputError("--select", expected=expected, got=got, fix="check the dates")
    return kept


def read_fields(file: Path, variable: str | None = None, *, check: bool = True) -> xr.DataArray:
    """Fields of a file; those of a .zarr stay on disk and are checked when they are read."""
    lazy = file.suffix.lower() == ".zarr"
    return read(file, variable, None, lazy=lazy, check=check or not lazy)


def with_std(fields: xr.DataArray, file: Path, std: str) -> xr.DataArray:
    """Fields with the variable of a file that holds the standard deviation of each value."""
    return fields.assign_coords({OBSERVATION_STD: read_fields(file, std)})


def std_as_coordinate(raw: xr.Dataset, std: str) -> xr.Dataset:
    """A raw data set with the standard deviations as a coordinate of the other variables."""
    if std not in raw.data_vars:
        expected = f"a word, a number, or a variable of {', '.join(map(str, raw.data_vars))}"
        raise refused("--observation-noise", expected, repr(std), "auto")
    return raw.drop_vars(std).assign_coords({OBSERVATION_STD: raw[std]})


# ---------- A law, and data for it


class LawAndData(NamedTuple):
    """A law and the data that it is applied to."""

    law: LawFile
    file: DataFile
    variable: str | None = None
    columns: str | None = None

    def read(self) -> tuple[Law, xr.DataArray]:
        """The law and its data."""
        learned = load(self.law)
        return learned, read_for(learned, self.file, self.variable, self.columns)


class LawsAndData(NamedTuple):
    """Several laws, and data to judge them on: the last of ``laws`` where it is no law."""

    laws: LawFiles
    data: DataFile | None = None
    variable: str | None = None
    columns: str | None = None

    def read(self) -> tuple[dict[str, Law], Path | None, xr.DataArray | None]:
        """Laws by name, the file of the data, and the data; None where there are none."""
        paths, file = self.laws, self.data
        if file is None and (paths[-1].is_file() or paths[-1].suffix == ".zarr"):
            *paths, file = paths
        laws = [load(existing_law(path)) for path in paths]
        if not laws:
            fix = f"name a law before the data, or fit one: spdelaw fit {file} --out a.law"
            raise InputError("LAW", expected="a law", got="none", fix=fix)
        named = dict(zip(_law_names(paths), laws, strict=True))
        if file is None:
            return named, None, None
        return named, file, read_for(laws[0], file, self.variable, self.columns)


def _law_names(paths: list[Path]) -> list[str]:
    """Names of the laws: their folders, else their paths, else numbers, whichever are distinct."""
    folders = [path.name.removesuffix(".law") or str(path) for path in paths]
    numbers = [str(i + 1) for i in range(len(paths))]
    return next(n for n in (folders, list(map(str, paths)), numbers) if len(set(n)) == len(n))


def read_for(
    law: Law, file: Path, variable: str | None = None, columns: str | None = None
) -> xr.DataArray:
    """Data of a file for a law: raw where it prepares them, else fields on its domain.

    Fields of a .zarr stay on disk: the code that uses them reads them, in blocks where it can. The
    columns of a table default to those that the law was learned from.
    """
    learned_from = law.info.get("data", {})
    stored = columns_of(law.info.get("labels", {})) or learned_from.get("columns", "")
    named = Columns.parse(stored if columns is None else columns)
    std = learned_from.get("observation_std")
    if law.preparation is not None or is_table(file):
        prepared_variable = None if law.preparation is None else law.preparation.how.variable
        raw = read_dataset(file, columns=named)
        return _select_variable(
            raw if std is None else std_as_coordinate(raw, std), variable or prepared_variable
        )
    fields = read_fields(file, variable)
    fields = fields if std is None else with_std(fields, file, std)
    domain = stored_domain(fields)
    if domain is not None:
        check_same_domain(str(file), domain, law.domain)
    return fields


def read_places(file: Path, law: Law) -> np.ndarray:
    """Places of a table as points (n, d) of the domain of a law."""
    frame = read_frame(file)
    columns = suggested(frame)
    names = {"x": ("x", "lon"), "y": ("y", "lat"), "lon": ("lon", "x"), "lat": ("lat", "y")}
    chosen = [[columns[n] for n in names.get(d, ()) if n in columns] for d in law.domain.dims]
    if not all(chosen):
        expected, fix = f"columns of {' and '.join(law.domain.dims)}", "name them lon and lat"
        got = ", ".join(map(str, frame.columns))
        raise DataError("--places", expected=expected, got=got, fix=fix)
    return np.stack([numeric_values(frame[name[0]]) for name in chosen], axis=1)


def _select_variable(raw: xr.Dataset, variable: str | None) -> xr.DataArray:
    """The variable of a raw data set that a law prepares."""
    names = [str(name) for name in raw.data_vars]
    if variable is None and len(names) == 1:
        return raw[names[0]]
    if variable not in names:
        expected = f"one of {', '.join(names)}, as the law was learned from"
        fix = f"pass --variable {names[0]}" if names else "check the file"
        raise DataError("--variable", expected=expected, got=repr(variable), fix=fix)
    return raw[variable]


def shown_time(moment: float, clock: dict[str, Any]) -> str:
    """A time as a date where the clock counts from one, else as a number."""
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    text = str(to_dates(np.array([moment]), clock)[0])
    return text[:10] if text[11:19] in ("00:00:00", "") else text[:16]
