"""Read the file of a command: its fields, domain and preparation, with all guesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.cli.options import (
    BOUNDARIES,
    DOMAIN_NAMES,
    DOMAIN_OPTIONS,
    DomainOptions,
    Given,
    numbers,
    one_of,
    positive_number,
)
from spdelaw.data.clock import has_dates, to_dates
from spdelaw.data.fields import OBSERVATION_STD, canonical
from spdelaw.data.io.files import has_fields, read, read_dataset, read_raw
from spdelaw.data.io.safe_files import read_regular
from spdelaw.data.io.tables import Columns, is_table
from spdelaw.data.layout import is_time
from spdelaw.data.observed import observed_fields
from spdelaw.data.prepare import Preparation, Prepared
from spdelaw.data.recognise import guess_side, recognise
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.disk import Disk
from spdelaw.domains.hermite import Line, Plane
from spdelaw.domains.interval import Interval
from spdelaw.domains.registry import from_dict
from spdelaw.domains.sphere import Sphere
from spdelaw.errors import DataError, DomainError, FileError, InputError, SpdeLawError
from spdelaw.law.law import Law
from spdelaw.processes.spde import SpectralSPDE

# ---------- Fields of a file, and the equation that a simulated file stores


def read_fields(file: Path, variable: str | None = None, *, check: bool = True) -> xr.DataArray:
    """Fields of a file; those of a .zarr stay on disk and are checked when they are read."""
    lazy = file.suffix.lower() == ".zarr"
    return read(file, variable, None, lazy=lazy, check=check or not lazy)


def read_for(
    law: Law, file: Path, variable: str | None = None, columns: str | None = None
) -> xr.DataArray:
    """Data of a file for a law: raw where it prepares them, else fields on its domain.

    Fields of a .zarr stay on disk: the code that uses them reads them, in blocks where it can. The
    columns of a table default to those that the law was learned from.
    """
    learned_from = law.info.get("data", {})
    named = parse_columns(columns if columns is not None else learned_from.get("columns", ""))
    std = learned_from.get("observation_std")
    if law.preparation is not None or is_table(file):
        prepared_variable = None if law.preparation is None else law.preparation.how.variable
        raw = read_dataset(file, columns=named)
        return select_variable(
            raw if std is None else std_as_coordinate(raw, std), variable or prepared_variable
        )
    fields = read_fields(file, variable)
    fields = fields if std is None else with_std(fields, file, std)
    domain = stored_domain(fields)
    if domain is not None:
        check_same_domain(str(file), domain, law.domain)
    return fields


def with_std(fields: xr.DataArray, file: Path, std: str) -> xr.DataArray:
    """Fields with the variable of a file that holds the standard deviation of each value."""
    return fields.assign_coords({OBSERVATION_STD: read_fields(file, std)})


def std_as_coordinate(raw: xr.Dataset, std: str) -> xr.Dataset:
    """A raw data set with the standard deviations as a coordinate of the other variables."""
    if std not in raw.data_vars:
        names = ", ".join(map(str, raw.data_vars))
        expected = f"a word, a number, or a variable of {names}"
        fix = "pass --observation-noise auto"
        raise InputError("--observation-noise", expected=expected, got=repr(std), fix=fix)
    return raw.drop_vars(std).assign_coords({OBSERVATION_STD: raw[std]})


def parse_columns(text: str) -> Columns:
    """Columns from ``time=date,value=tmax``."""
    pairs = [entry.partition("=") for entry in text.split(",") if entry.strip()]
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
        equation = dict(description or {})
        return SpectralSPDE.from_dict(equation.get("linear", equation)).domain
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


# ---------- The domain of a fit, from options, the stored equation, or the coordinates


#: Points beyond this share of a disk's radius are at its rim; the field is zero there where its
#: mean square is below this share of the mean square of the whole.
RIM_START, ZERO_SHARE = 0.95, 0.02


class ChosenDomain(NamedTuple):
    """A domain and where its numbers come from."""

    domain: AbstractDomain
    reason: str
    guessed: bool = False


def dims_of(name: str | None) -> tuple[str, ...]:
    """Spatial dims of a domain by its name; the third one of a box may be absent."""
    if name is not None and name.endswith(".json"):
        return _domain_from_file(Path(name)).dims
    dims = {"box": ("x", "y", "z"), "plane": ("x", "y"), "disk": ("x", "y"),
            "sphere": ("lat", "lon")}  # fmt: skip
    return dims.get(name or "interval", ("x",))


def choose_domain(options: DomainOptions, fields: xr.DataArray) -> ChosenDomain:
    """The domain that the options request, or that the file describes."""
    stored = stored_domain(fields)
    name = options.domain
    if name is not None and name.endswith(".json"):
        _refuse_foreign_options(options, name, ())
        return ChosenDomain(_domain_from_file(Path(name)), f"from {name}")
    if name is None and stored is not None:
        name = stored.name
    if name is None:
        if not _has_one_spatial_dim(fields):
            expected = f"one of {', '.join(DOMAIN_NAMES)}, or a file of domain.to_dict()"
            got = "nothing, and no equation in the file"
            raise InputError("--domain", expected=expected, got=got, fix="pass --domain box")
        name = "interval"
    if stored is not None and name == stored.name and name not in DOMAIN_OPTIONS:
        _refuse_foreign_options(options, name, ())
        return ChosenDomain(stored, "from the equation in the file")
    _refuse_foreign_options(options, one_of("--domain", name, DOMAIN_NAMES), DOMAIN_OPTIONS[name])
    matching = stored if stored is not None and stored.name == name else None
    make = {
        "interval": _choose_interval,
        "line": _choose_weighted_space,
        "box": _choose_box,
        "plane": _choose_weighted_space,
        "disk": _choose_disk,
        "sphere": _choose_sphere,
    }
    return make[name](name, options, matching, fields)


def _refuse_foreign_options(options: DomainOptions, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse options that belong to another domain."""
    for key, value in options._asdict().items():
        if key != "domain" and value is not None and f"--{key}" not in allowed:
            expected = f"only {', '.join(allowed) or 'no options'} with {name}"
            fix = f"leave it out, or pass --domain {_domain_with_option(key)}"
            raise InputError(f"--{key}", expected=expected, got=str(value), fix=fix)


def _domain_with_option(key: str) -> str:
    return next(name for name, options in DOMAIN_OPTIONS.items() if f"--{key}" in options)


def _domain_from_file(path: Path) -> AbstractDomain:
    try:
        return from_dict(read_regular(path))
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, SpdeLawError):
            raise
        expected, got = "a file of json.dumps(domain.to_dict())", f"{type(error).__name__}: {error}"
        raise FileError(str(path), expected=expected, got=got, fix="write it again") from error


def _boundary_words(options: DomainOptions, n_dims: int) -> tuple[str, ...] | None:
    if options.boundary is None:
        return None
    words = tuple(one_of("--boundary", word, BOUNDARIES) for word in options.boundary.split(","))
    if len(words) not in (1, n_dims):
        expected, got = f"one word, or {n_dims} with commas", options.boundary
        raise InputError("--boundary", expected=expected, got=got, fix="pass --boundary dirichlet")
    return words * n_dims if len(words) == 1 else words


def _choose_interval(
    name: str, options: DomainOptions, stored: Any, fields: xr.DataArray
) -> ChosenDomain:
    words, bounds = _boundary_words(options, 1), options.bounds
    if stored is not None:
        kind: Any = words[0] if words else stored.boundary
        reason = "bounds from --bounds" if bounds else "bounds from the equation in the file"
        a, b = bounds or (stored.a, stored.b)
        return ChosenDomain(Interval(a, b, kind), reason)
    ordered = canonical(fields, ("x",))
    guess, ends, why = guess_side(ordered)
    kind = words[0] if words else guess
    ends = ends if kind == guess else _coordinate_ends(ordered, "x")
    if kind == "periodic" and guess != "periodic" and bounds is None:
        raise _missing_period_error("--bounds 0 6.283185307179586")
    reason = "bounds from --bounds" if bounds else "bounds from the ends of the coordinate x"
    if words is None:
        reason += f"; {why}"
    return ChosenDomain(Interval(*(bounds or ends), kind), reason, guessed=True)


def _choose_weighted_space(
    name: str, options: DomainOptions, stored: Any, fields: xr.DataArray
) -> ChosenDomain:
    kind = Line if name == "line" else Plane
    return ChosenDomain(stored or kind(), f"the weighted {name} has no bounds")


def _choose_box(
    name: str, options: DomainOptions, stored: Any, fields: xr.DataArray
) -> ChosenDomain:
    dims = ("x", "y", "z") if "z" in fields.coords else ("x", "y")
    words = _boundary_words(options, len(dims))
    if stored is not None and options.sides is None:
        kind: Any = words or stored.boundary
        return ChosenDomain(
            Box(*stored.sides, boundary=kind), "sides from the equation in the file"
        )
    ordered = canonical(fields, dims)
    sides = [guess_side(ordered, d) for d in dims]
    kind = words or (stored.boundary if stored else tuple(side.boundary for side in sides))
    reasons = [f"{d} {side.reason}" for d, side in zip(dims, sides, strict=True)]
    alike = len({side.reason for side in sides}) == 1
    why = "" if words or stored else f"; {sides[0].reason if alike else '; '.join(reasons)}"
    if options.sides is not None:
        given = numbers("--sides", options.sides)
        if len(given) != 2 * len(dims):
            expected, got = f"{2 * len(dims)} numbers, two per dim", options.sides
            raise InputError("--sides", expected=expected, got=got, fix="pass --sides 0,1,0,2")
        box = Box(*zip(given[::2], given[1::2], strict=True), boundary=kind)
        return ChosenDomain(box, f"from --sides{why}", guessed=not words)
    for side, word in zip(sides, kind, strict=True):
        if word == "periodic" and side.boundary != "periodic":
            raise _missing_period_error("--sides 0,1,0,1")
    ends = [
        side.ends if word == side.boundary else _coordinate_ends(ordered, d)
        for d, side, word in zip(dims, sides, kind, strict=True)
    ]
    box = Box(*ends, boundary=kind)
    return ChosenDomain(box, f"sides from the ends of the coordinates{why}", guessed=True)


def _coordinate_ends(fields: xr.DataArray, dim: str) -> tuple[float, float]:
    return float(fields[dim].min()), float(fields[dim].max())


def _missing_period_error(example: str) -> InputError:
    # A periodic grid often leaves its last point out: its ends are not the period.
    got, fix = "a coordinate that may stop short", f"pass {example}, with your period"
    return InputError(example.split()[0], expected="both ends of one period", got=got, fix=fix)


def _has_one_spatial_dim(fields: xr.DataArray) -> bool:
    """Whether fields have one spatial dim."""
    return len(set(fields.dims) - {"path", "time"}) == 1 and "point" not in fields.dims


def _choose_disk(
    name: str, options: DomainOptions, stored: Any, fields: xr.DataArray
) -> ChosenDomain:
    words = _boundary_words(options, 1)
    kind: Any = words[0] if words else (stored.boundary if stored else None)
    if stored is not None and options.radius is None and options.centre is None:
        return ChosenDomain(
            Disk(stored.radius, stored.centre, kind), "from the equation in the file"
        )
    if options.radius is None:
        fix = "pass --radius 1 and, if it is not the origin, --centre 0,0"
        raise InputError("--radius", expected="the radius of the disk", got="nothing", fix=fix)
    centre: Any = (
        (0.0, 0.0) if options.centre is None else tuple(numbers("--centre", options.centre))
    )
    radius = positive_number("--radius", options.radius)
    why, guessed = "from --radius", kind is None
    if guessed:
        kind, boundary_reason = _guess_disk_boundary(fields, radius, np.array(centre))
        why += f"; {boundary_reason}"
    return ChosenDomain(Disk(radius, centre, kind), why, guessed)


def _guess_disk_boundary(
    fields: xr.DataArray, radius: float, centre: np.ndarray
) -> tuple[str, str]:
    """Boundary of a disk by the values close to its rim."""
    ordered = canonical(fields, ("x", "y"))
    where = xr.ones_like(ordered.isel(path=0, time=0, drop=True))
    distance = np.hypot(ordered["x"] - centre[0], ordered["y"] - centre[1]) / radius
    near = ordered.where((distance > RIM_START) & (distance <= 1.0) & (where > 0))
    edge = float((near**2).mean()) if bool(near.notnull().any()) else np.inf
    if edge <= ZERO_SHARE * float((ordered**2).mean()):
        return "dirichlet", "dirichlet, because the field is zero at the rim"
    return "neumann", "neumann, because the field is free at the rim"


def _choose_sphere(
    name: str, options: DomainOptions, stored: Any, fields: xr.DataArray
) -> ChosenDomain:
    if options.radius is not None:
        return ChosenDomain(Sphere(positive_number("--radius", options.radius)), "from --radius")
    return ChosenDomain(stored or Sphere(), "the whole sphere")


# ---------- A file for `fit`: its data, their preparation, and all guesses


class Source(NamedTuple):
    """Data to fit, their preparation, the prepared fields, and all guesses.

    Attributes:
        data: raw, or fields.
        prepared: what the preparation learned; None for fields.
        preparation: None for fields.
        fields: prepared and canonical.
        domain: name of the domain, requested or guessed.
        guesses: a sentence each.
    """

    data: Any
    preparation: Preparation | None
    fields: xr.DataArray
    domain: str | None
    guesses: list[str]
    prepared: Prepared | None = None

    def ready(self, domain: AbstractDomain) -> dict[str, Any]:
        """Arguments of a fit: the prepared fields where their dims are those of the domain."""
        if set(domain.dims) <= set(map(str, self.fields.coords)):
            fields, dated = self.fields, has_dates(self.data)
            return {"data": observed_fields(fields, domain, self.prepared, dated=dated)}
        return {"data": self.data, "prepare": self.preparation}


def read_source(
    file: Path,
    variable: str | None,
    given: Given,
    along: str | None,
    domain: str | None,
    columns: Columns,
    std: str | None = None,
) -> Source:
    """Fields as they are in the file, or raw data with a preparation.

    Args:
        file: with the data.
        variable: to read; None where the file has one.
        given: arguments of `Preparation` from options.
        along: dim that becomes space, None to guess it.
        domain: its name, None to guess it.
        columns: of a table.
        std: variable with the standard deviation of each value, where there is one.
    """
    dims = dims_of(domain)
    if along is not None and len(dims) > 1:
        expected = "a domain with one spatial dim"
        fix = "leave --along out; --average DIM removes a dim that is too many"
        raise InputError("--along", expected=expected, got=f"--domain {domain}", fix=fix)
    if (
        not given
        and along is None
        and any(has_fields(file, variable, d) for d in (dims, dims[:2], ("point",)))
    ):
        fields = read_fields(file, variable, check=False)  # a fit looks at them itself
        fields = fields if std is None else with_std(fields, file, std)
        return Source(fields, None, fields, domain, [])
    select = dict(given.get("select", {}))
    period = select.pop("time", None)
    raw, guesses = read_raw(file, columns=columns)
    raw = _select_period(raw if std is None else std_as_coordinate(raw, std), period)
    how = Preparation(**given | {"select": select, "variable": variable})
    is_open = domain is None and along is None
    layout = recognise(raw, how, dims=None if is_open else dims, along=along)
    guesses += [layout.domain_reason] if layout.domain not in (None, "interval") else []
    prepared, fields = layout.preparation.learned(raw, layout.dims)
    guesses += layout.reasons
    unit = layout.preparation.time_unit
    guesses += [f"times are dates, counted in {unit}"] if unit != how.time_unit else []
    guesses += prepared.notes
    return Source(raw, layout.preparation, fields, layout.domain or domain, guesses, prepared)


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
