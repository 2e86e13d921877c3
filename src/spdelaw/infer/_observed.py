"""What a fit sees: bare arrays from checked fields, with the checks a fit adds."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data import as_fields
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.law._clock import own_clock

Array = np.ndarray

#: Keywords that `spdelaw.as_fields` takes from a fit.
ADAPTER = ("times", "points", "variable", "time_unit")
#: Keywords of a fit, for a suggestion where one is misspelled.
FIT_WORDS = (
    "n_modes", "engine", "observation_noise", "initial", "drift", "noise", "nuisance", "fixed",
    "priors", "level", "bootstrap", "seed", "threads", "n_time", "tail", "noise_rank", "prepare",
    "forcing", "season", "domain",
)  # fmt: skip
#: Bytes of one chunk of the single pass over complete data; it should stay in cache.
CHUNK_BYTES = 4e6


class Observed(NamedTuple):
    """Fields as arrays: values (P, T, M), times (T,) or (P, T), points (M,) or (M, d).

    ``fields`` are the labelled ones, in several dimensions flat along the dim ``point``.
    """

    values: Any
    times: Array
    points: Array
    fields: xr.DataArray

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return int(self.fields.sizes["path"])

    @property
    def span(self) -> float:
        """Longest time between the first and the last observation of a path."""
        return float(np.ptp(self.times, axis=-1).max())

    def chunks(self) -> Iterator[Array]:
        """Whole paths, a few at a time; lazy arrays are loaded chunk by chunk."""
        per_path = 8 * int(np.prod(self.fields.shape[1:]))
        step = max(1, int(CHUNK_BYTES / per_path))
        if not isinstance(self.values, np.ndarray):
            step = max(step, int(32e6 / per_path))
        for start in range(0, self.n_paths, step):
            yield np.asarray(self.values[start : start + step])

    def load(self) -> Array:
        """All values in memory."""
        return np.asarray(self.values)


def check_words(adapter: dict[str, Any]) -> None:
    """`InputError` for a keyword that is none, with the one that was meant."""
    unknown = sorted(set(adapter) - set(ADAPTER))
    if unknown:
        near = difflib.get_close_matches(unknown[0], [*ADAPTER, *FIT_WORDS], 1)
        raise InputError(
            "keyword", expected=f"a setting of the fit, or one of {ADAPTER} for the data",
            got=repr(unknown[0]),
            fix=f"did you mean {near[0]}?" if near else "see help(spdelaw.fit) for the settings",
        )  # fmt: skip


def observe(data: Any, domain: AbstractDomain, **adapter: Any) -> Observed:
    """Fields of the domain as arrays, or `DataError`."""
    check_words(adapter)
    fields = domain.flatten(as_fields(data, dims=domain.dims, **adapter))
    points = domain.places(fields).points
    if fields.sizes["time"] < 2:
        raise DataError(
            "time", expected="at least two times", got=str(fields.sizes["time"]),
            fix="a law is learned from change; observe the field more than once",
        )  # fmt: skip
    if "path_time" in fields.coords:
        return Observed(*own_clock(fields), points, fields)
    values = fields.variable._data if fields.chunks is not None else fields.values
    return Observed(values, fields["time"].values, points, fields)
