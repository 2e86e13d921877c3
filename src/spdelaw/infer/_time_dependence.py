"""A known forcing and seasons as a fit takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.data import as_fields, on_clock
from spdelaw.domain import AbstractDomain
from spdelaw.equation import Forcing, Season
from spdelaw.errors import DataError, InputError
from spdelaw.infer._observed import Observed
from spdelaw.infer._settings import Settings


def check_time_dependence(
    settings: Settings, engine: str, *, forcing: Any, is_prepared: bool
) -> None:
    """Refuse what a forcing or seasons cannot go with, before any work."""
    if settings.season is not None:
        _check_season(settings)
    elif forcing is None:
        return
    what = "season" if forcing is None else "forcing"
    if engine != "exact":
        raise InputError(
            what, expected=f"engine='exact', which alone knows a {what}",
            got=f"engine={engine!r}", fix="pass engine='exact'",
        )  # fmt: skip
    if settings.is_coupled:
        raise InputError(
            what, expected="drift and noise that do not couple modes",
            got=f"drift={settings.drift!r}, noise={settings.noise!r}",
            fix=f"pass drift='diagonal', noise='diagonal', or leave {what} out",
        )  # fmt: skip
    if forcing is not None and is_prepared:
        raise InputError(
            "forcing", expected="data in the units of the forcing", got="prepare=",
            fix="prepare the fields and the forcing alike, then fit without prepare",
        )  # fmt: skip


def _check_season(settings: Settings) -> None:
    if not isinstance(settings.season, Season):
        raise InputError(
            "season", expected="a Season", got=type(settings.season).__name__,
            fix="pass season=sl.Season(period, 4), the period in the unit of time of the data",
        )  # fmt: skip
    if settings.initial == "stationary":
        raise InputError(
            "initial", expected="a state to start from, where the noise has seasons",
            got="'stationary'", fix="pass initial='auto'",
        )  # fmt: skip


def as_forcing(forcing: Any, domain: AbstractDomain, observed: Observed) -> Forcing | None:
    """Forcing on the modes of the domain and on the clock of the data."""
    if forcing is None:
        return None
    if not isinstance(forcing, Forcing):
        forcing = _of_fields(forcing, domain, observed)
    forcing.check_reach(float(observed.times.min()), float(observed.times.max()))
    return forcing


def _of_fields(given: Any, domain: AbstractDomain, observed: Observed) -> Forcing:
    labelled = as_fields(given, dims=domain.dims)
    fields = domain.flatten(on_clock(labelled, observed.fields["time"].attrs))
    if fields.sizes["path"] != 1 or "path_time" in fields.coords:
        raise DataError(
            "forcing", expected="one field (time, x), the same for all paths",
            got=f"{fields.sizes['path']} paths", fix="forcing.isel(path=0, drop=True)",
        )  # fmt: skip
    values = fields.values[0]
    if not np.isfinite(values).all():
        raise DataError(
            "forcing", expected="a forcing without gaps", got="missing or infinite values",
            fix="fill them: a known forcing is known everywhere",
        )  # fmt: skip
    points = domain.places(fields).points
    return Forcing.from_fields(values, fields["time"].values, points, domain)
