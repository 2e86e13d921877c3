"""The domain of a fit, from options, the file's own equation, or the coordinate."""

from __future__ import annotations

from typing import NamedTuple

import xarray as xr

from spdelaw.cli._fields import stored_equation
from spdelaw.cli._options import one_of
from spdelaw.data import guess_boundary
from spdelaw.domain import AbstractDomain, Interval, Line
from spdelaw.errors import InputError

NAMES = ("interval", "line")
BOUNDARIES = ("dirichlet", "neumann", "periodic")


class Chosen(NamedTuple):
    """A domain and where its numbers come from."""

    domain: AbstractDomain
    reason: str
    guessed: bool = False


def choose_domain(
    name: str | None,
    bounds: tuple[float, float] | None,
    boundary: str | None,
    fields: xr.DataArray,
) -> Chosen:
    """The domain that was asked for, or that the file itself describes."""
    equation = stored_equation(fields)
    own = None if equation is None else equation.domain
    if name is None and own is not None:
        name = own.name
    if name is None:
        name = "interval"
    if one_of("--domain", name, NAMES) == "interval":
        return _interval(bounds, boundary, own, fields)
    if bounds is not None or boundary is not None:
        raise InputError(
            "--domain", expected="an interval with --bounds or --boundary", got="line",
            fix="pass --domain interval, or leave them out",
        )  # fmt: skip
    return Chosen(own if isinstance(own, Line) else Line(), "the weighted line has no bounds")


def _interval(
    bounds: tuple[float, float] | None,
    boundary: str | None,
    own: AbstractDomain | None,
    fields: xr.DataArray,
) -> Chosen:
    if boundary is not None:
        one_of("--boundary", boundary, BOUNDARIES)
    known = own if isinstance(own, Interval) else None
    if known is not None:
        kind = boundary or known.boundary
        ends = bounds or (known.a, known.b)
        reason = "bounds from --bounds" if bounds else "bounds from the equation in the file"
        return Chosen(Interval(*ends, kind), reason)  # type: ignore[arg-type]
    guess, ends, why = guess_boundary(fields)
    kind = boundary or guess
    if kind == "periodic" and guess != "periodic" and bounds is None:
        # A periodic grid often leaves its last point out: its ends are not the period.
        raise InputError(
            "--bounds", expected="both ends of one period", got="a coordinate that may stop short",
            fix="pass --bounds 0 6.283185307179586, with your period",
        )  # fmt: skip
    told = "bounds from --bounds" if bounds else "bounds from the ends of the coordinate x"
    if boundary is None:
        told += f"; {why}"
    return Chosen(Interval(*(bounds or ends), kind), told, guessed=True)  # type: ignore[arg-type]
