"""Disjoint parts for training and test, and gaps made on purpose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from spdelaw.checks import checked, is_number, one_of
from spdelaw.data.fields import canonical
from spdelaw.data.layout import PATH, TIME
from spdelaw.errors import DataError, InputError

#: What `numpy.random.default_rng` takes.
Seed = int | np.random.Generator

# ---------- Fields in disjoint parts, for training, validation and test


@checked()
def split(
    fields: xr.DataArray,
    fractions: Sequence[float] = (0.7, 0.15, 0.15),
    seed: Seed = 0,
    *,
    along: str = PATH,
) -> tuple[xr.DataArray, ...]:
    """Split fields into disjoint parts, by default at random by path.

    Every path is in exactly one part. The sizes are rounded by largest remainders, but no part is
    empty. Each part keeps the labels of its paths, in their order. ``along="time"`` splits in time
    instead, without shuffling: the first part is the earliest.

    Args:
        fields: fields ``(path, time, *space)``; lazy ones stay lazy.
        fractions: positive fractions that sum to 1, one per part.
        seed: seed or Generator that assigns the paths.
        along: "path" or "time".

    Returns:
        One DataArray per fraction.

    Raises:
        DataError: there are fewer paths (times) than parts.

    Example:
        >>> import numpy as np
        >>> from spdelaw.data import as_fields, split
        >>> fields = as_fields(np.zeros((10, 2, 3)), times=[0, 1], points=[0, 1, 2])
        >>> train, validation, test = split(fields, seed=0)
        >>> train.sizes["path"], validation.sizes["path"], test.sizes["path"]
        (7, 2, 1)
        >>> bool(np.isin(test.path, train.path).any())
        False
    """
    weights = _check_fractions(fractions)
    one_of("along", along, (PATH, TIME))
    fields = canonical(fields)
    n, n_parts = fields.sizes[along], len(weights)
    if n < n_parts:
        in_time = 'split in time: split(fields, fractions, along="time")'
        expected = f"at least {n_parts} entries for {n_parts} parts"
        fix = in_time if along == PATH else "ask for fewer parts"
        raise DataError(f"dim '{along}'", expected=expected, got=f"{n}", fix=fix)
    order = np.random.default_rng(seed).permutation(n) if along == PATH else np.arange(n)
    cuts = np.cumsum(_sizes(n, weights))[:-1]
    # Sorted inside a part: the order has no meaning, and lazy fields are read in one sweep.
    return tuple(fields.isel({along: np.sort(entries)}) for entries in np.split(order, cuts))


def _sizes(n: int, weights: np.ndarray) -> np.ndarray:
    """Sizes that sum to n, nearest to n * weights, none zero."""
    ideal = n * weights
    sizes = np.floor(ideal).astype(int)
    first = np.argsort(sizes - ideal, kind="stable")[: n - sizes.sum()]
    sizes[first] += 1
    while sizes.min() == 0:
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    return sizes


def _check_fractions(fractions: Sequence[float]) -> np.ndarray:
    try:
        weights = np.asarray(fractions, dtype=float)
    except (TypeError, ValueError):
        weights = np.empty(0)
    fine = weights.ndim == 1 and weights.size > 0 and bool(np.all(weights > 0))
    if not fine or abs(weights.sum() - 1) > 1e-9:
        expected, fix = "positive numbers that sum to 1", "pass fractions=(0.7, 0.15, 0.15)"
        raise InputError("fractions", expected=expected, got=repr(fractions), fix=fix)
    return weights


# ---------- Artificial gaps, to test methods on incomplete data


PATTERNS = ("random", "rows", "sensors", "blocks")
#: A box of the pattern "blocks" spans at most this part of each dim.
BOX_DIVISOR = 4


@checked()
def mask(
    fields: xr.DataArray, pattern: str = "random", fraction: float = 0.3, seed: Seed = 0
) -> xr.DataArray:
    """Return a copy of fields with part of the values replaced by NaN.

    * ``random``: points of each path, anywhere;
    * ``rows``: whole times of each path;
    * ``sensors``: points of space, the same in all paths at all times;
    * ``blocks``: boxes in time and space of each path, up to a quarter of each dim wide,
      which may overlap; the last one is truncated.

    The number of points, rows or sensors hidden is ``fraction`` of all of them, rounded, but at
    least one remains. Values that were missing before stay missing and do not change this number.
    The mask of the first paths does not depend on how many follow.

    Args:
        fields: fields ``(path, time, *space)``; Dask arrays stay lazy.
        pattern: one of the four names.
        fraction: fraction to remove, in [0, 1).
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
    one_of("pattern", pattern, PATTERNS)
    if not is_number(fraction) or not 0 <= fraction < 1:
        expected, fix = "a number in [0, 1)", "pass fraction=0.3"
        raise InputError("fraction", expected=expected, got=repr(fraction), fix=fix)
    fields = canonical(fields)
    hidden = _hidden_mask(fields.shape, pattern, fraction, np.random.default_rng(seed))
    return fields.where(xr.DataArray(~hidden, dims=fields.dims))


def _hidden_mask(
    shape: tuple[int, ...], pattern: str, fraction: float, rng: np.random.Generator
) -> np.ndarray:
    n_paths, n_times, *space = shape
    if pattern == "sensors":
        return np.broadcast_to(_hide_at_random(tuple(space), fraction, rng), shape)
    if pattern == "rows":
        rows = np.stack([_hide_at_random((n_times,), fraction, rng) for _ in range(n_paths)])
        return np.broadcast_to(rows.reshape(n_paths, n_times, *[1] * len(space)), shape)
    draw = _hide_at_random if pattern == "random" else _hide_boxes
    return np.stack([draw(shape[1:], fraction, rng) for _ in range(n_paths)])


def _n_hidden(size: int, fraction: float) -> int:
    return min(round(fraction * size), size - 1)


def _hide_at_random(
    shape: tuple[int, ...], fraction: float, rng: np.random.Generator
) -> np.ndarray:
    size = int(np.prod(shape))
    hidden = np.zeros(size, dtype=bool)
    hidden[rng.permutation(size)[: _n_hidden(size, fraction)]] = True
    return hidden.reshape(shape)


def _hide_boxes(shape: tuple[int, ...], fraction: float, rng: np.random.Generator) -> np.ndarray:
    hidden = np.zeros(shape, dtype=bool)
    n_hidden = _n_hidden(hidden.size, fraction)
    while (left := n_hidden - int(hidden.sum())) > 0:
        box = np.zeros(shape, dtype=bool)
        box[_box(shape, rng)] = True
        new = np.flatnonzero(box & ~hidden)[:left]
        hidden.flat[new] = True
    return hidden


def _box(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[slice, ...]:
    sides = [int(rng.integers(1, max(1, size // BOX_DIVISOR) + 1)) for size in shape]
    starts = [int(rng.integers(0, n - side + 1)) for n, side in zip(shape, sides, strict=True)]
    return tuple(slice(a, a + side) for a, side in zip(starts, sides, strict=True))
