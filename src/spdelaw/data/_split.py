"""Fields in disjoint parts, for training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from spdelaw.data._contract import canonical
from spdelaw.data._layout import PATH, TIME
from spdelaw.data._seed import Seed, generator
from spdelaw.errors import DataError, InputError


def split(
    fields: xr.DataArray,
    fractions: Sequence[float] = (0.7, 0.15, 0.15),
    seed: Seed = 0,
    *,
    along: str = PATH,
) -> tuple[xr.DataArray, ...]:
    """Split fields into disjoint parts, by default at random by path.

    No path is in two parts, and every path is in one. The sizes are the closest to the
    fractions that add up (largest remainders), but no part is empty. Each part keeps the
    labels of its paths, in their order. ``along="time"`` cuts in time instead, without
    shuffling: the first part is the past, the last the future.

    Args:
        fields: fields ``(path, time, *space)``; lazy ones stay lazy.
        fractions: positive fractions that sum to 1, one per part.
        seed: seed or Generator that deals out the paths.
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
    if along not in (PATH, TIME):
        fix = 'pass along="path"'
        raise InputError("along", expected='"path" or "time"', got=repr(along), fix=fix)
    fields = canonical(fields)
    _check_enough(fields, along, len(weights))
    n = fields.sizes[along]
    order = generator(seed).permutation(n) if along == PATH else np.arange(n)
    cuts = np.cumsum(_sizes(n, weights))[:-1]
    # Sorted inside a part: the order means nothing, and lazy fields are read in one sweep.
    return tuple(fields.isel({along: np.sort(part)}) for part in np.split(order, cuts))


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


def _check_enough(fields: xr.DataArray, along: str, parts: int) -> None:
    n = fields.sizes[along]
    if n >= parts:
        return
    in_time = 'split in time: split(fields, fractions, along="time")'
    expected = f"at least {parts} entries for {parts} parts"
    fix = in_time if along == PATH else "ask for fewer parts"
    raise DataError(f"dim '{along}'", expected=expected, got=f"{n}", fix=fix)
