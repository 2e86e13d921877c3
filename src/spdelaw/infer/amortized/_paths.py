"""Observed paths as tensors for the network: values, mask, and times as a share of the horizon."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from spdelaw.data import Observed
from spdelaw.errors import DataError

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Paths:
    """Paths in one batch or all of them.

    Attributes:
        values: (P, T, M) float32, zero where missing.
        observed: (P, T, M) float32, 1 or 0; None where nothing is missing.
        ages: distinct times as shares of the horizon, (U,) float64.
        index: place of each path's times among them, (P, T); None where all share one clock.
    """

    values: Tensor
    observed: Tensor | None
    ages: Array
    index: Tensor | None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def times(self) -> Tensor:
        """Times for the encoder, float32: (T,) or (P, T)."""
        shared = torch.from_numpy(self.ages).float()
        return shared if self.index is None else shared[self.index]

    def take(self, where: Array | slice) -> Paths:
        """Some of the paths."""
        at = where if isinstance(where, slice) else torch.from_numpy(where)
        observed = None if self.observed is None else self.observed[at]
        index = None if self.index is None else self.index[at]
        return Paths(self.values[at], observed, self.ages, index)

    def batches(self, size: int, order: Array | None = None) -> Iterator[Paths]:
        """Consecutive batches, in the given order of the paths."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield self.take(part if order is None else order[part])


def as_paths(observed: Observed, start: float, horizon: float) -> Paths:
    """Tensors of observed fields, with times as ``(t - start) / horizon``.

    Raises:
        DataError: something was observed before the start or past the horizon.
    """
    values = np.array(observed.values, dtype=np.float32)
    seen = ~np.isnan(values)
    ages = (observed.times - start) / horizon
    outside = (ages < -1e-9) | (ages > 1.0 + 1e-9)
    if (outside & (seen.any(2) if ages.ndim == 2 else seen.any((0, 2)))).any():
        expected = f"times within {start:g} and {start + horizon:g}, those of the fit"
        got = f"{observed.times.min():g} to {observed.times.max():g}"
        fix = "fit over the longer time, or use law.forecast"
        raise DataError("time", expected=expected, got=got, fix=fix)
    ages = np.clip(ages, 0.0, 1.0)
    index = None
    if ages.ndim == 2:
        ages, places = np.unique(ages, return_inverse=True)
        index = torch.from_numpy(places.reshape(observed.times.shape))
    mask = None if seen.all() else torch.from_numpy(seen.astype(np.float32))
    return Paths(torch.from_numpy(np.nan_to_num(values)), mask, ages, index)
