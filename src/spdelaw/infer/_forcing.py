"""A known forcing as a fit takes it: on the modes of the domain and on the clock of the data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.data import Observed, as_fields, on_clock
from spdelaw.equation import Forcing
from spdelaw.errors import DataError
from spdelaw.infer._model import Model


def with_forcing_on_clock(model: Model, observed: Observed) -> Model:
    """The model with its forcing ready for these data."""
    forcing = model.forcing
    if forcing is None:
        return model
    if not isinstance(forcing, Forcing):
        forcing = _of_fields(forcing, observed)
    forcing.check_reach(float(observed.times.min()), float(observed.times.max()))
    return dataclasses.replace(model, forcing=forcing)


def _of_fields(given: Any, observed: Observed) -> Forcing:
    domain = observed.domain
    labelled = as_fields(given, dims=domain.dims)
    fields = domain.flatten(on_clock(labelled, observed.fields["time"].attrs))
    if fields.sizes["path"] != 1 or "path_time" in fields.coords:
        expected = "one field (time, x), the same for all paths"
        fix = "forcing.isel(path=0, drop=True)"
        raise DataError("forcing", expected=expected, got=f"{fields.sizes['path']} paths", fix=fix)
    values = fields.values[0]
    if not np.isfinite(values).all():
        got, fix = "missing or infinite values", "fill them: a known forcing is known everywhere"
        raise DataError("forcing", expected="a forcing without gaps", got=got, fix=fix)
    points = domain.places(fields).points
    return Forcing.from_fields(values, fields["time"].values, points, domain)
