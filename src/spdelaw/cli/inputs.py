"""Read the file of a command: its fields, domain and preparation, with all guesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import one_of
from spdelaw.cli.options import (
    ConfigFile,
    DataFile,
    LawFile,
    LawFiles,
    Numbers,
    Pair,
    PositiveFloat,
    PreparationOptions,
)
from spdelaw.cli.values import existing_law, refused
from spdelaw.data.clock import has_dates, to_dates
from spdelaw.data.fields import OBSERVATION_STD, canonical
from spdelaw.data.io.files import has_fields, read, read_dataset, read_raw
from spdelaw.data.io.safe_files import read_regular, reading
from spdelaw.data.io.sources import columns_of
from spdelaw.data.io.tables import Columns, is_table, numeric_values, read_frame, suggested
from spdelaw.data.layout import is_time
from spdelaw.data.observed import observed_fields
from spdelaw.data.prepare import Preparation, Prepared
from spdelaw.data.recognise import (
    Side,
    guess_side,
    guess_variable,
    learned_with_climate,
    recognise,
)
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.disk import Disk
from spdelaw.domains.hermite import Line, Plane
from spdelaw.domains.interval import Interval
from spdelaw.domains.registry import DOMAINS, find_domain, from_dict
from spdelaw.domains.sphere import Sphere
from spdelaw.errors import DataError, DomainError, InputError, SpdeLawError
from spdelaw.infer.pipeline import PATTERNS
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.processes.spde import SpectralSPDE

# ---------- The domain of a fit: from options, the equation in the file, or the coordinates


class DomainOptions(NamedTuple):
    """Options about the domain; None means not given.

    Attributes:
        domain: Domain of the fields: one of interval, line, box, plane, disk, sphere, eof (EOFs of
            the data), or a .json file of domain.to_dict(). By default it is read from the equation
            in the file, or guessed from the coordinates.
        bounds: Both ends of the interval; by default those of the equation or the coordinate.
        sides: Both ends of each side of the box, separated by commas, such as 0,1,0,2; by default
            those of the equation or the coordinates.
        boundary: Boundary condition: dirichlet, neumann, periodic; for a box also one per side,
            separated by commas. Guessed by default.
        radius: Radius of the disk or the sphere.
        centre: Centre of the disk, such as 1,2; 0,0 by default.
    """

    domain: str | None = None
    bounds: Pair | None = None
    sides: Numbers | None = None
    boundary: str | None = None
    radius: PositiveFloat | None = None
    centre: Numbers | None = None


class ChosenDomain(NamedTuple):
    """A domain, or the word for patterns of the data, and where its numbers come from."""

    domain: Any
    reason: str
    guessed: bool = False

    @property
    def source(self) -> str:
        """The reason, or the word for a guess, which is printed elsewhere."""
        return "guessed" if self.guessed else self.reason


#: Domains by name, with the options each of them takes.
DOMAIN_OPTIONS: dict[str, tuple[str, ...]] = {
    "interval": ("bounds", "boundary"),
    "line": (),
    "box": ("sides", "boundary"),
    "plane": (),
    "disk": ("radius", "centre", "boundary"),
    "sphere": ("radius",),
}
BOUNDARIES = ("dirichlet", "neumann", "periodic")
#: Points beyond this share of a disk's radius are at its rim; the field is zero there where its
#: mean square is below this share of the mean square of the whole.
RIM_START, ZERO_SHARE = 0.95, 0.02
STORED = "from the equation in the file"


def dims_of(name: str | None) -> tuple[str, ...]:
    """Spatial dims of a domain by its name; the third one of a box may be absent."""
    if name is not None and name.endswith(".json"):
        return _domain_from_file(Path(name)).dims
    if name is not None and name not in DOMAINS and find_domain(name) is None:
        one_of("domain", name, (*DOMAIN_OPTIONS, PATTERNS))
    dims = {"box": ("x", "y", "z"), "plane": ("x", "y"), "disk": ("x", "y"),
            "sphere": ("lat", "lon")}  # fmt: skip
    return dims.get(name or "interval", ("x",))


def choose_domain(options: DomainOptions, fields: xr.DataArray) -> ChosenDomain:
    """The domain that the options request, or that the file describes."""
    stored = stored_domain(fields)
    name = options.domain
    if name == PATTERNS:
        _refuse_foreign_options(options, name, ())
        return ChosenDomain(PATTERNS, "EOFs of the data")
    if name is not None and name.endswith(".json"):
        _refuse_foreign_options(options, name, ())
        return ChosenDomain(_domain_from_file(Path(name)), f"from {name}")
    if name is None:
        name = stored.name if stored is not None else _name_of_one_dim(fields)
    if stored is not None and name != stored.name:
        stored = None
    if stored is not None and name not in DOMAIN_OPTIONS:
        _refuse_foreign_options(options, name, ())
        return ChosenDomain(stored, STORED)
    one_of("domain", name, tuple(DOMAIN_OPTIONS))
    _refuse_foreign_options(options, name, DOMAIN_OPTIONS[name])
    if name in ("line", "plane"):
        domain = stored or (Line() if name == "line" else Plane())
        return ChosenDomain(domain, f"the weighted {name} has no bounds")
    if name == "sphere" and options.radius is not None:
        return ChosenDomain(Sphere(options.radius), "from --radius")
    if name == "sphere":
        return ChosenDomain(stored or Sphere(), "the whole sphere")
    choose = _choose_disk if name == "disk" else _choose_interval_or_box
    return choose(options._replace(domain=name), stored, fields)


def _name_of_one_dim(fields: xr.DataArray) -> str:
    """The interval, for fields with one spatial dim."""
    if len(set(fields.dims) - {"path", "time"}) == 1 and "point" not in fields.dims:
        return "interval"
    expected = f"one of {', '.join(DOMAIN_OPTIONS)}, or a file of domain.to_dict()"
    raise refused("--domain", expected, "nothing, and no equation in the file", "box")


def _refuse_foreign_options(options: DomainOptions, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse options that belong to another domain."""
    for key, value in options._asdict().items():
        if key != "domain" and value is not None and key not in allowed:
            flags = ", ".join(f"--{option}" for option in allowed) or "no options"
            other = next(kind for kind, keys in DOMAIN_OPTIONS.items() if key in keys)
            fix = f"leave it out, or pass --domain {other}"
            expected = f"only {flags} with {name}"
            raise InputError(f"--{key}", expected=expected, got=str(value), fix=fix)


def _domain_from_file(path: Path) -> AbstractDomain:
    with reading(path, "a file of json.dumps(domain.to_dict())", "write it again"):
        return from_dict(json.loads(read_regular(path)))


def _boundary_words(options: DomainOptions, n_dims: int) -> tuple[str, ...] | None:
    """One word per dim; None where the option is not given."""
    if options.boundary is None:
        return None
    words = tuple(one_of("boundary", word, BOUNDARIES) for word in options.boundary.split(","))
    if len(words) not in (1, n_dims):
        expected = f"one word, or {n_dims} separated by commas"
        raise refused("--boundary", expected, options.boundary, "dirichlet")
    return words * n_dims if len(words) == 1 else words


def _choose_interval_or_box(
    options: DomainOptions, stored: Any, fields: xr.DataArray
) -> ChosenDomain:
    """Ends and boundary of each side: those of the options, else stored, else guessed."""
    is_box = options.domain == "box"
    dims = ("x",) if not is_box else ("x", "y", "z") if "z" in fields.coords else ("x", "y")
    what = "sides" if is_box else "bounds"
    words, given = _boundary_words(options, len(dims)), options.sides or options.bounds
    if given is not None and len(given) != 2 * len(dims):
        expected, got = f"{2 * len(dims)} numbers, two per dim", ",".join(f"{x:g}" for x in given)
        raise refused("--sides", expected, got, "0,1,0,2")
    ends = None if given is None else list(zip(given[::2], given[1::2], strict=True))
    if stored is not None:
        old = stored.boundary if is_box else (stored.boundary,)
        ends = ends or (list(stored.sides) if is_box else [(stored.a, stored.b)])
        source = STORED if given is None else f"from --{what}"
        return ChosenDomain(_interval_or_box(ends, words or old), f"{what} {source}")
    ordered = canonical(fields, dims)
    guesses = [guess_side(ordered, d) for d in dims]
    kinds = words or tuple(side.boundary for side in guesses)
    if ends is None:
        pairs = zip(dims, guesses, kinds, strict=True)
        ends = [_side_ends(ordered, dim, side, kind, what) for dim, side, kind in pairs]
    reason = f"from the ends of the {'coordinates' if is_box else 'coordinate x'}"
    reason = f"{what} {reason if given is None else f'from --{what}'}"
    reason += "" if words else f"; {_boundary_reason(dims, guesses)}"
    guessed = given is None or words is None
    return ChosenDomain(_interval_or_box(ends, kinds), reason, guessed)


def _interval_or_box(ends: list[tuple[float, float]], boundary: Any) -> AbstractDomain:
    return Interval(*ends[0], boundary[0]) if len(ends) == 1 else Box(*ends, boundary=boundary)


def _side_ends(
    fields: xr.DataArray, dim: str, side: Side, boundary: str, what: str
) -> tuple[float, float]:
    """Ends of the guess, or of the coordinate under another boundary."""
    if boundary == side.boundary:
        return side.ends
    if boundary == "periodic":
        # A periodic grid often leaves its last point out: its ends are not the period.
        example = "0,1,0,1" if what == "sides" else "0 6.283185307179586"
        got, fix = "a coordinate that may stop short", f"pass --{what} {example}, with your period"
        raise InputError(f"--{what}", expected="both ends of one period", got=got, fix=fix)
    return float(fields[dim].min()), float(fields[dim].max())


def _boundary_reason(dims: tuple[str, ...], guesses: list[Side]) -> str:
    if len({side.reason for side in guesses}) == 1:
        return guesses[0].reason
    return "; ".join(f"{dim} {side.reason}" for dim, side in zip(dims, guesses, strict=True))


def _choose_disk(options: DomainOptions, stored: Any, fields: xr.DataArray) -> ChosenDomain:
    words = _boundary_words(options, 1)
    kind: Any = words[0] if words else (stored.boundary if stored else None)
    if stored is not None and options.radius is None and options.centre is None:
        return ChosenDomain(Disk(stored.radius, stored.centre, kind), STORED)
    if options.radius is None:
        fix = "pass --radius 1 and, if it is not the origin, --centre 0,0"
        raise InputError("--radius", expected="the radius of the disk", got="nothing", fix=fix)
    centre: Any = tuple(options.centre or (0.0, 0.0))
    why, guessed = "from --radius", kind is None
    if guessed:
        kind, boundary_reason = _guess_disk_boundary(fields, options.radius, centre)
        why += f"; {boundary_reason}"
    return ChosenDomain(Disk(options.radius, centre, kind), why, guessed)


def _guess_disk_boundary(
    fields: xr.DataArray, radius: float, centre: tuple[float, ...]
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


# ---------- The equation that a simulated file stores


def stored_equation(fields: xr.DataArray, part: str = "") -> SpectralSPDE | None:
    """The linear equation in the attributes of a simulated file; None where there is none.

    Args:
        fields: of the file.
        part: entry that holds the linear equation of a semilinear one.
    """
    stored = fields.attrs.get("equation")
    try:
        description = dict(json.loads(stored) if isinstance(stored, str) else stored or {})
        return SpectralSPDE.from_dict(description.get(part, description))
    except (TypeError, ValueError, RecursionError, SpdeLawError):
        return None  # an attribute of the same name with another meaning


def stored_domain(fields: xr.DataArray) -> AbstractDomain | None:
    """Domain of the equation in the attributes of a simulated file, linear or not; else None."""
    equation = stored_equation(fields, "linear")
    return None if equation is None else equation.domain


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
        raw = raw if std is None else std_as_coordinate(raw, std)
        return raw[guess_variable(raw, variable or prepared_variable)]
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


def shown_time(moment: float, clock: dict[str, Any]) -> str:
    """A time as a date where the clock counts from one, else as a number."""
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    text = str(to_dates(np.array([moment]), clock)[0])
    return text[:10] if text[11:19] in ("00:00:00", "") else text[:16]
