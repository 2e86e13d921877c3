"""A known forcing as a fit takes it: fields, or `Forcing` itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.data import as_fields, on_clock
from spdelaw.domain import AbstractDomain
from spdelaw.equation import Forcing
from spdelaw.errors import DataError, InputError
from spdelaw.infer._observed import Observed


def check_forcing(forcing: Any, engine: str, is_coupled: bool, is_prepared: bool) -> None:
    """Refuse what a forcing cannot go with, before any work."""
    if forcing is None:
        return
    if engine != "exact":
        raise InputError(
            "forcing", expected="engine='exact', which alone knows a forcing",
            got=f"engine={engine!r}", fix="pass engine='exact'",
        )  # fmt: skip
    if is_coupled:
        raise InputError(
            "forcing", expected="drift and noise that do not couple modes",
            got="a drift or a noise that does",
            fix="pass drift='diagonal', noise='diagonal', or leave forcing out",
        )  # fmt: skip
    if is_prepared:
        raise InputError(
            "forcing", expected="data in the units of the forcing", got="prepare=",
            fix="prepare the fields and the forcing alike, then fit without prepare",
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
