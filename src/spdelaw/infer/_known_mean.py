"""A known mean: taken off the fields before a fit, and put back into the law.

What lies in the modes becomes the mean ``m`` of the dynamics, by least squares over the points; the
rest, a field that does not change, is the law's ``offset`` at its points.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import Observed, as_fields, checksum
from spdelaw.equation import Linear
from spdelaw.errors import DataError
from spdelaw.infer._model import Model
from spdelaw.law import Law, Quantity, interval_table

Array = np.ndarray

#: Points of the mean may differ from those of the data by this part of the largest coordinate.
SAME_POINT = 1e-5


def known_mean(model: Model, observed: Observed, honoured: bool) -> tuple[Model, Array | None]:
    """The model of what a known mean leaves, and that mean at the points that are seen, (M,).

    Args:
        model: what is assumed.
        observed: the data, at all points that the mean may be given at.
        honoured: whether the engine asks for a mean of its own.
    """
    if model.known_mean is None:
        return model, None
    given, seen = model.known_mean, observed.seen_points()
    mean = (_labelled if isinstance(given, xr.DataArray) else _bare)(given, observed)
    left = dataclasses.replace(model, mean="zero" if honoured else "auto")
    if (np.isnan(mean) & seen).any():
        raise _wrong("a mean at every point that is seen", "missing values", "fill them")
    if np.isinf(mean).any():
        raise _wrong("finite numbers", "infinite ones", "check the field")
    return left, mean[seen]


def with_known_mean(law: Law, mean: Array, observed: Observed) -> Law:
    """The law of the fields themselves; ``observed`` are those."""
    info: dict[str, Any] = {"mean": "known"}
    if isinstance(observed.values, np.ndarray) and law.info.get("log_likelihood_of"):
        own = checksum(observed.fields, observed.reading)
        info["log_likelihood_of"] = {**law.info["log_likelihood_of"], "fingerprint": own}
    law = law.with_info(**info)
    if not isinstance(law.dynamics, Linear):
        return dataclasses.replace(law, offset=mean)
    phi = law.domain.eigenfunctions(law.points, law.dynamics.n_modes)
    m = np.asarray(np.linalg.lstsq(phi, mean, rcond=None)[0])
    rows = interval_table(Quantity(m[: law.n_modes], np.zeros(law.n_modes), False), 0.95)
    table = law.parameters.assign(mean=(("mode", "statistic"), rows))
    dynamics = law.dynamics.with_mean(m)
    return dataclasses.replace(law, parameters=table, dynamics=dynamics, offset=mean - phi @ m)


def _labelled(given: xr.DataArray, observed: Observed) -> Array:
    """A labelled mean at the points of the data."""
    domain = observed.domain
    for dim in ("time", "path"):
        if dim in given.dims:
            fix = f"mean.mean({dim!r}); for a mean that changes see sl.Preparation"
            raise _wrong("one field, the same at all times", f"the dim {dim!r}", fix)
    fields = domain.flatten(as_fields(given.expand_dims(time=[0.0]), dims=domain.dims))
    points = domain.places(fields).points
    if points.shape != observed.points.shape or not np.allclose(
        points, observed.points, rtol=0.0, atol=SAME_POINT * np.abs(observed.points).max()
    ):
        n, got = len(observed.points), f"{len(points)} other points"
        raise _wrong(f"the {n} points of the data", got, "mean.interp_like(data)")
    return np.asarray(fields.values[0, 0], dtype=float)


def _bare(given: Any, observed: Observed) -> Array:
    """The same of a mean without labels."""
    n, shape = len(observed.points), "no array of numbers"
    try:
        mean = np.asarray(given, dtype=float)
        shape = f"shape {mean.shape}"
    except (TypeError, ValueError):
        mean = np.zeros(0)
    if mean.size != n or mean.ndim not in (1, len(observed.domain.dims)):
        fix = "pass mean='constant' to estimate it, or one number per point"
        raise _wrong(f"'auto', 'zero', 'constant', or one number per point ({n})", shape, fix)
    return mean.reshape(-1)


def _wrong(expected: str, got: str, fix: str) -> DataError:
    return DataError("mean", expected=expected, got=got, fix=fix)
