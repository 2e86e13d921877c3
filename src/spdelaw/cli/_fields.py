"""Fields for a command: read, and what a simulated file says about its equation."""

from __future__ import annotations

import json
from pathlib import Path

import xarray as xr

from spdelaw.data import OBSERVATION_STD, Columns, is_table, read, read_dataset
from spdelaw.domain import AbstractDomain, Line, Plane
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import DataError, DomainError, InputError, SpdeLawError
from spdelaw.law import Law


def read_fields(file: Path, variable: str | None = None, *, check: bool = True) -> xr.DataArray:
    """Fields of a file; a .zarr is left on disk until it is used, and looked at then."""
    lazy = file.suffix.lower() == ".zarr"
    return read(file, variable, None, lazy=lazy, check=check or not lazy)


def read_for(
    law: Law, file: Path, variable: str | None = None, columns: str | None = None
) -> xr.DataArray:
    """Data of a file for a law: raw where it prepares them, else fields on its domain.

    Fields of a .zarr stay on disk: what works on them reads them, in parts where it can. Columns
    of a table are those that the law was learned from, where none are given.
    """
    known = law.info.get("data", {})
    named = parse_columns(columns if columns is not None else known.get("columns", ""))
    std = known.get("observation_std")
    if law.preparation is not None or is_table(file):
        own = None if law.preparation is None else law.preparation.how.variable
        raw = read_dataset(file, columns=named)
        return select_variable(raw if std is None else std_beside(raw, std), variable or own)
    fields = read_fields(file, variable)
    fields = fields if std is None else with_std(fields, file, std)
    domain = stored_domain(fields)
    if domain is not None:
        check_same_domain(str(file), domain, law.domain)
    return fields


def with_std(fields: xr.DataArray, file: Path, std: str) -> xr.DataArray:
    """Fields with the variable of a file that holds the standard deviation of each value."""
    return fields.assign_coords({OBSERVATION_STD: read_fields(file, std)})


def std_beside(raw: xr.Dataset, std: str) -> xr.Dataset:
    """A raw data set in which the standard deviations are beside the other variables."""
    if std not in raw.data_vars:
        names = ", ".join(map(str, raw.data_vars))
        expected = f"a word, a number, or a variable of {names}"
        fix = "pass --observation-noise auto"
        raise InputError("--observation-noise", expected=expected, got=repr(std), fix=fix)
    return raw.drop_vars(std).assign_coords({OBSERVATION_STD: raw[std]})


def parse_columns(text: str) -> Columns:
    """Columns from ``time=date,value=tmax``."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    wrong = [role for role, _, name in pairs if role.strip() not in Columns._fields or not name]
    if wrong:
        expected = f"such as time=date, of {', '.join(Columns._fields)}"
        fix = "pass --columns time=date,value=tmax,station=id,lon=lon,lat=lat"
        raise InputError("--columns", expected=expected, got=repr(text), fix=fix)
    return Columns(**{role.strip(): name.strip() for role, _, name in pairs})


def columns_text(columns: Columns) -> str:
    """Inverse of `parse_columns`."""
    return ",".join(f"{role}={name}" for role, name in columns.given.items())


def select_variable(raw: xr.Dataset, variable: str | None) -> xr.DataArray:
    """The variable of a raw data set that a law prepares."""
    names = [str(name) for name in raw.data_vars]
    if variable is None and len(names) == 1:
        return raw[names[0]]
    if variable not in names:
        expected = f"one of {', '.join(names)}, as the law was learned from"
        fix = f"pass --variable {names[0]}" if names else "check the file"
        raise DataError("--variable", expected=expected, got=repr(variable), fix=fix)
    return raw[variable]


def stored_equation(fields: xr.DataArray) -> SpectralSPDE | None:
    """The linear equation in the attributes of a simulated file; None where there is none."""
    stored = fields.attrs.get("equation")
    try:
        description = json.loads(stored) if isinstance(stored, str) else stored
        return SpectralSPDE.from_dict(description) if isinstance(description, dict) else None
    except (ValueError, RecursionError, SpdeLawError):
        return None  # an attribute of the same name with another meaning


def stored_domain(fields: xr.DataArray) -> AbstractDomain | None:
    """Domain of the equation in the attributes of a simulated file, linear or not; else None."""
    stored = fields.attrs.get("equation")
    try:
        description = json.loads(stored) if isinstance(stored, str) else stored
        known = dict(description or {})
        return SpectralSPDE.from_dict(known.get("linear", known)).domain
    except (TypeError, ValueError, RecursionError, SpdeLawError):
        return None


def check_same_domain(what: str, got: AbstractDomain, expected: AbstractDomain) -> None:
    """Raise where two domains differ; the extent of a line or plane changes no mathematics."""
    weighted = type(got) is type(expected) and isinstance(got, Line | Plane)
    if got != expected and not weighted:
        raise DomainError(
            what,
            expected=f"fields on {expected}, as the law",
            got=f"an equation on {got}",
            fix="use a law fitted on this domain",
        )
