"""Gaps on purpose: what a method does without some of the data can then be seen."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.data._contract import canonical
from spdelaw.data._seed import Seed, generator
from spdelaw.errors import InputError

PATTERNS = ("random", "rows", "sensors", "blocks")
#: A box of the pattern "blocks" spans at most this part of each dim.
BOX = 4


def mask(
    fields: xr.DataArray, pattern: str = "random", fraction: float = 0.3, seed: Seed = 0
) -> xr.DataArray:
    """Hide part of the data: a copy of fields with NaN in a pattern.

    * ``random``: points of each path, anywhere;
    * ``rows``: whole times of each path;
    * ``sensors``: points of space, the same in all paths at all times;
    * ``blocks``: boxes in time and space of each path, up to a quarter of each dim wide,
      which may overlap; the last one is cut to size.

    The number of points, rows or sensors hidden is ``fraction`` of all of them, rounded, but
    one at least stays. It does not depend on what was missing before, which stays missing.
    The mask of the first paths does not depend on how many follow.

    Args:
        fields: fields ``(path, time, *space)``; Dask arrays stay lazy.
        pattern: one of the four names.
        fraction: part to hide, in [0, 1).
        seed: seed or Generator.

    Returns:
        Fields of the same shape.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, mask
        >>> fields = as_fields(np.ones((2, 4, 5)), times=np.arange(4), points=np.arange(5))
        >>> gappy = mask(fields, "sensors", fraction=0.4, seed=0)
        >>> np.isnan(gappy).all(("path", "time")).values.sum()
        np.int64(2)
    """
    _check(pattern, fraction)
    fields = canonical(fields)
    hidden = _hidden(fields.shape, pattern, fraction, generator(seed))
    return fields.where(xr.DataArray(~hidden, dims=fields.dims))


def _hidden(
    shape: tuple[int, ...], pattern: str, fraction: float, rng: np.random.Generator
) -> np.ndarray:
    n_paths, n_times, *space = shape
    if pattern == "sensors":
        return np.broadcast_to(_choose(tuple(space), fraction, rng), shape)
    if pattern == "rows":
        rows = np.stack([_choose((n_times,), fraction, rng) for _ in range(n_paths)])
        return np.broadcast_to(rows.reshape(n_paths, n_times, *[1] * len(space)), shape)
    draw = _choose if pattern == "random" else _boxes
    return np.stack([draw(shape[1:], fraction, rng) for _ in range(n_paths)])


def _count(size: int, fraction: float) -> int:
    return min(round(fraction * size), size - 1)


def _choose(shape: tuple[int, ...], fraction: float, rng: np.random.Generator) -> np.ndarray:
    size = int(np.prod(shape))
    hidden = np.zeros(size, dtype=bool)
    hidden[rng.permutation(size)[: _count(size, fraction)]] = True
    return hidden.reshape(shape)


def _boxes(shape: tuple[int, ...], fraction: float, rng: np.random.Generator) -> np.ndarray:
    hidden = np.zeros(shape, dtype=bool)
    wanted = _count(hidden.size, fraction)
    while (left := wanted - int(hidden.sum())) > 0:
        box = np.zeros(shape, dtype=bool)
        box[_box(shape, rng)] = True
        new = np.flatnonzero(box & ~hidden)[:left]
        hidden.flat[new] = True
    return hidden


def _box(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[slice, ...]:
    sides = [int(rng.integers(1, max(1, size // BOX) + 1)) for size in shape]
    starts = [int(rng.integers(0, n - side + 1)) for n, side in zip(shape, sides, strict=True)]
    return tuple(slice(a, a + side) for a, side in zip(starts, sides, strict=True))


def _check(pattern: str, fraction: float) -> None:
    if pattern not in PATTERNS:
        expected, fix = f"one of {', '.join(PATTERNS)}", 'pass pattern="random"'
        raise InputError("pattern", expected=expected, got=repr(pattern), fix=fix)
    number = isinstance(fraction, int | float | np.number) and not isinstance(fraction, bool)
    if not number or not 0 <= fraction < 1:
        expected = "a number in [0, 1)"
        raise InputError("fraction", expected=expected, got=repr(fraction), fix="pass fraction=0.3")
