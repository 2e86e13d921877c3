"""Climatology and scale of lazy fields: sums over blocks of paths and times, block by block.

One pass for the means of groups, one more for a line in time, one more for a scale. Offsets are
taken off where a block is read, so that neither fields nor their climatology are ever whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data._climate import Climate, scale_of, squares_of
from spdelaw.data._pieces import pieces_of
from spdelaw.domain import Places

Array = np.ndarray


def learn_in_blocks(
    climate: Climate, standardise: str | None, fields: xr.DataArray, places: Places, area: Array
) -> tuple[Array, Array]:
    """Coefficients (K, M) and scale (M,) of lazy fields."""
    times = np.asarray(fields["time"].values)
    pieces = pieces_of(places.flatten(fields.variable._data))

    def total(sums: Callable[[Array, Array], tuple[Array, ...]]) -> tuple[Array, ...]:
        found: tuple[Array, ...] = ()
        for block in pieces.blocks:
            for piece, part in zip(block, pieces.times, strict=True):
                new = sums(times[part], piece.compute())
                found = tuple(a + b for a, b in zip(found, new, strict=True)) if found else new
        return found

    coefficients = climate.learn_in_blocks(total)

    def squares(own: Array, values: Array) -> tuple[Array, ...]:
        return squares_of(values - climate.offset(own, coefficients))

    square, n_seen = total(squares)
    return coefficients, scale_of(standardise, square, n_seen, area)


def apply_in_blocks(
    fields: xr.DataArray, places: Places, affine: Callable[[Array, Array], tuple[Array, Array]]
) -> xr.DataArray:
    """Lazy fields less their offset and over their scale; ``affine`` gives both."""
    times = np.asarray(fields["time"].values)

    def prepared(block: Array, block_info: Any = None) -> Array:
        _, rows, *space = (slice(*where) for where in block_info[0]["array-location"])
        offset, scale = map(places.unflatten, affine(times[rows], places.points))
        return (block - offset[(slice(None), *space)]) / scale[tuple(space)]

    values: Any = fields.variable._data
    empty = np.zeros((0,) * fields.ndim)
    return fields.copy(data=values.map_blocks(prepared, dtype=float, meta=empty))
