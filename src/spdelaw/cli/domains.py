"""The domain of a fit: from options, from the equation in the file, or from the coordinates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.checks import one_of
from spdelaw.cli.options import Numbers, Pair, PositiveFloat
from spdelaw.cli.values import refused
from spdelaw.data.fields import canonical
from spdelaw.data.io.safe_files import read_regular, reading
from spdelaw.data.recognise import Side, guess_side
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.disk import Disk
from spdelaw.domains.hermite import Line, Plane
from spdelaw.domains.interval import Interval
from spdelaw.domains.registry import DOMAINS, find_domain, from_dict
from spdelaw.domains.sphere import Sphere
from spdelaw.errors import DomainError, InputError, SpdeLawError
from spdelaw.infer.pipeline import PATTERNS
from spdelaw.processes.spde import SpectralSPDE


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
