"""The domain of a fit, from options, the file's own equation, or the coordinates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
import xarray as xr

from spdelaw.cli._fields import stored_domain
from spdelaw.cli._options import numbers, one_of, positive_number
from spdelaw.data import canonical, guess_boundary, guess_side, read_regular
from spdelaw.domain import AbstractDomain, Box, Disk, Interval, Line, Plane, Sphere, from_dict
from spdelaw.errors import FileError, InputError, SpdeLawError

#: Domains by name, with the options each of them takes.
OPTIONS = {
    "interval": ("--bounds", "--boundary"),
    "line": (),
    "box": ("--sides", "--boundary"),
    "plane": (),
    "disk": ("--radius", "--centre", "--boundary"),
    "sphere": ("--radius",),
}
NAMES = tuple(OPTIONS)
BOUNDARIES = ("dirichlet", "neumann", "periodic")
#: Part of the radius of a disk from which points are at its rim, and the mean square there,
#: relative to that of the whole, below which the field is zero.
RIM, PINNED = 0.95, 0.02


class Asked(NamedTuple):
    """Options about the domain, None where not given."""

    domain: Annotated[
        str | None,
        typer.Option(
            "--domain",
            help=f"One of {', '.join(NAMES)}, or a .json of domain.to_dict(); for skill also eof, "
            "patterns of the data. By default the equation in the file, or guessed.",
        ),
    ] = None
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Ends of the interval; by default the file's equation or coordinate."),
    ] = None
    sides: Annotated[
        str | None,
        typer.Option(help="Ends of a box, two per dim with commas; by default as for --bounds."),
    ] = None
    boundary: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(BOUNDARIES)}; for a box also one a side, with commas."),
    ] = None
    radius: Annotated[float | None, typer.Option(help="Of the disk or the sphere.")] = None
    centre: Annotated[str | None, typer.Option(help="Of the disk; 0,0 by default.")] = None


class Chosen(NamedTuple):
    """A domain and where its numbers come from."""

    domain: AbstractDomain
    reason: str
    guessed: bool = False


def dims_of(name: str | None) -> tuple[str, ...]:
    """Spatial dims of a domain by its name; the third one of a box may be absent."""
    if name is not None and name.endswith(".json"):
        return _from_file(Path(name)).dims
    dims = {"box": ("x", "y", "z"), "plane": ("x", "y"), "disk": ("x", "y"),
            "sphere": ("lat", "lon")}  # fmt: skip
    return dims.get(name or "interval", ("x",))


def choose_domain(asked: Asked, fields: xr.DataArray) -> Chosen:
    """The domain that was asked for, or that the file itself describes."""
    own = stored_domain(fields)
    name = asked.domain
    if name is not None and name.endswith(".json"):
        _refuse(asked, name, ())
        return Chosen(_from_file(Path(name)), f"from {name}")
    if name is None and own is not None:
        name = own.name
    if name is None:
        if not _is_flat(fields):
            expected = f"one of {', '.join(NAMES)}, or a file of domain.to_dict()"
            got = "nothing, and no equation in the file"
            raise InputError("--domain", expected=expected, got=got, fix="pass --domain box")
        name = "interval"
    if own is not None and name == own.name and name not in OPTIONS:
        _refuse(asked, name, ())
        return Chosen(own, "from the equation in the file")
    _refuse(asked, one_of("--domain", name, NAMES), OPTIONS[name])
    known = own if own is not None and own.name == name else None
    make = {"interval": _interval, "line": _weighted, "box": _box, "plane": _weighted,
            "disk": _disk, "sphere": _sphere}  # fmt: skip
    return make[name](name, asked, known, fields)


def _refuse(asked: Asked, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse options that belong to another domain."""
    for key, value in asked._asdict().items():
        if key != "domain" and value is not None and f"--{key}" not in allowed:
            expected = f"only {', '.join(allowed) or 'no options'} with {name}"
            fix = f"leave it out, or pass --domain {_taker(key)}"
            raise InputError(f"--{key}", expected=expected, got=str(value), fix=fix)


def _taker(key: str) -> str:
    return next(name for name, options in OPTIONS.items() if f"--{key}" in options)


def _from_file(path: Path) -> AbstractDomain:
    try:
        return from_dict(read_regular(path))
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, SpdeLawError):
            raise
        expected, got = "a file of json.dumps(domain.to_dict())", f"{type(error).__name__}: {error}"
        raise FileError(str(path), expected=expected, got=got, fix="write it again") from error


def _words(asked: Asked, n_dims: int) -> tuple[str, ...] | None:
    if asked.boundary is None:
        return None
    words = tuple(one_of("--boundary", word, BOUNDARIES) for word in asked.boundary.split(","))
    if len(words) not in (1, n_dims):
        expected, got = f"one word, or {n_dims} with commas", asked.boundary
        raise InputError("--boundary", expected=expected, got=got, fix="pass --boundary dirichlet")
    return words * n_dims if len(words) == 1 else words


def _interval(name: str, asked: Asked, own: Any, fields: xr.DataArray) -> Chosen:
    words, bounds = _words(asked, 1), asked.bounds
    if own is not None:
        kind: Any = words[0] if words else own.boundary
        reason = "bounds from --bounds" if bounds else "bounds from the equation in the file"
        a, b = bounds or (own.a, own.b)
        return Chosen(Interval(a, b, kind), reason)
    ordered = canonical(fields, ("x",))
    guess, ends, why = guess_boundary(ordered)
    kind = words[0] if words else guess
    ends = ends if kind == guess else _ends(ordered, "x")
    if kind == "periodic" and guess != "periodic" and bounds is None:
        raise _no_period("--bounds 0 6.283185307179586")
    told = "bounds from --bounds" if bounds else "bounds from the ends of the coordinate x"
    if words is None:
        told += f"; {why}"
    return Chosen(Interval(*(bounds or ends), kind), told, guessed=True)


def _weighted(name: str, asked: Asked, own: Any, fields: xr.DataArray) -> Chosen:
    kind = Line if name == "line" else Plane
    return Chosen(own or kind(), f"the weighted {name} has no bounds")


def _box(name: str, asked: Asked, own: Any, fields: xr.DataArray) -> Chosen:
    dims = ("x", "y", "z") if "z" in fields.coords else ("x", "y")
    words = _words(asked, len(dims))
    if own is not None and asked.sides is None:
        kind: Any = words or own.boundary
        return Chosen(Box(*own.sides, boundary=kind), "sides from the equation in the file")
    ordered = canonical(fields, dims)
    sides = [guess_side(ordered, d) for d in dims]
    kind = words or (own.boundary if own else tuple(side.boundary for side in sides))
    told = [f"{d} {side.reason}" for d, side in zip(dims, sides, strict=True)]
    alike = len({side.reason for side in sides}) == 1
    why = "" if words or own else f"; {sides[0].reason if alike else '; '.join(told)}"
    if asked.sides is not None:
        given = numbers("--sides", asked.sides)
        if len(given) != 2 * len(dims):
            expected, got = f"{2 * len(dims)} numbers, two per dim", asked.sides
            raise InputError("--sides", expected=expected, got=got, fix="pass --sides 0,1,0,2")
        box = Box(*zip(given[::2], given[1::2], strict=True), boundary=kind)
        return Chosen(box, f"from --sides{why}", guessed=not words)
    for side, word in zip(sides, kind, strict=True):
        if word == "periodic" and side.boundary != "periodic":
            raise _no_period("--sides 0,1,0,1")
    ends = [
        side.ends if word == side.boundary else _ends(ordered, d)
        for d, side, word in zip(dims, sides, kind, strict=True)
    ]
    box = Box(*ends, boundary=kind)
    return Chosen(box, f"sides from the ends of the coordinates{why}", guessed=True)


def _ends(fields: xr.DataArray, dim: str) -> tuple[float, float]:
    return float(fields[dim].min()), float(fields[dim].max())


def _no_period(example: str) -> InputError:
    # A periodic grid often leaves its last point out: its ends are not the period.
    got, fix = "a coordinate that may stop short", f"pass {example}, with your period"
    return InputError(example.split()[0], expected="both ends of one period", got=got, fix=fix)


def _is_flat(fields: xr.DataArray) -> bool:
    """Whether fields have one spatial dim."""
    return len(set(fields.dims) - {"path", "time"}) == 1 and "point" not in fields.dims


def _disk(name: str, asked: Asked, own: Any, fields: xr.DataArray) -> Chosen:
    words = _words(asked, 1)
    kind: Any = words[0] if words else (own.boundary if own else None)
    if own is not None and asked.radius is None and asked.centre is None:
        return Chosen(Disk(own.radius, own.centre, kind), "from the equation in the file")
    if asked.radius is None:
        fix = "pass --radius 1 and, if it is not the origin, --centre 0,0"
        raise InputError("--radius", expected="the radius of the disk", got="nothing", fix=fix)
    centre: Any = (0.0, 0.0) if asked.centre is None else tuple(numbers("--centre", asked.centre))
    radius = positive_number("--radius", asked.radius)
    why, guessed = "from --radius", kind is None
    if guessed:
        kind, told = _rim(fields, radius, np.array(centre))
        why += f"; {told}"
    return Chosen(Disk(radius, centre, kind), why, guessed)


def _rim(fields: xr.DataArray, radius: float, centre: np.ndarray) -> tuple[str, str]:
    """Boundary of a disk by the values close to its rim."""
    ordered = canonical(fields, ("x", "y"))
    where = xr.ones_like(ordered.isel(path=0, time=0, drop=True))
    distance = np.hypot(ordered["x"] - centre[0], ordered["y"] - centre[1]) / radius
    near = ordered.where((distance > RIM) & (distance <= 1.0) & (where > 0))
    edge = float((near**2).mean()) if bool(near.notnull().any()) else np.inf
    if edge <= PINNED * float((ordered**2).mean()):
        return "dirichlet", "dirichlet, because the field is zero at the rim"
    return "neumann", "neumann, because the field is free at the rim"


def _sphere(name: str, asked: Asked, own: Any, fields: xr.DataArray) -> Chosen:
    if asked.radius is not None:
        return Chosen(Sphere(positive_number("--radius", asked.radius)), "from --radius")
    return Chosen(own or Sphere(), "the whole sphere")
