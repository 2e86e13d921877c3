"""Whatever users pass as data, as labelled arrays: the way into every public function.

Fields may come as xarray objects, as a bare array (NumPy, torch, lists) with ``times=`` and
``points=``, as a pandas table with one row per station and time, or as the path of a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from spdelaw.data.fields import to_array
from spdelaw.data.io.files import read_dataset
from spdelaw.data.io.tables import COLUMNS, Columns, columns_missing, from_table, with_named_columns
from spdelaw.data.observed import ADAPTER
from spdelaw.data.prepare import Preparation
from spdelaw.errors import DataError

#: Spatial dims of bare arrays, as those of a box.
BARE_DIMS = ("x", "y", "z")


def labelled(
    data: Any,
    dims: tuple[str, ...] | None = None,
    columns: str = "",
    *,
    times: Any = None,
    points: Any = None,
    **adapter: Any,
) -> tuple[Any, dict[str, Any]]:
    """Data with names and coordinates, and the arguments about them that remain.

    Args:
        data: what the user passed; labelled data come back as they are.
        dims: spatial dims of the domain, None where it is still to be guessed.
        columns: of a table, as `Columns.text`; by default those with usual names.
        times: of a bare array.
        points: of a bare array; a mapping of sequences names the dims of a grid.
        adapter: ``variable`` and ``time_unit`` for `spdelaw.as_fields`.
    """
    if isinstance(data, str | Path):
        data = read_dataset(data, columns=Columns.parse(columns))
    elif isinstance(data, pd.DataFrame):
        data = _from_frame(data, Columns.parse(columns))
    names = [name for name in getattr(data, "dims", ()) if not isinstance(name, str)]
    if names:
        fix = f"rename it: data.rename({{{names[0]!r}: 'x'}})"
        raise DataError("dims", expected="names that are text", got=repr(names[0]), fix=fix)
    if times is None and points is None:
        return data, adapter
    variable = adapter.pop("variable", None)
    return to_array(data, times, points, variable, dims or _dims(points)), adapter


def open_raw(
    data: Any, domain: Any, prepare: Preparation | None, words: dict[str, Any]
) -> tuple[Any, Preparation | None]:
    """Labelled data, and their preparation with the variable and the unit of time that are given.

    Arguments about data are taken out of ``words``.
    """
    about_data = {name: words.pop(name) for name in ADAPTER if name in words}
    data, stated = labelled(data, getattr(domain, "dims", None), **about_data)
    return data, dataclasses.replace(prepare or Preparation(), **stated) if stated else prepare


def is_labelled(data: Any) -> bool:
    """Whether data have times of their own, as all but bare arrays do."""
    has_labels = hasattr(data, "dims") or hasattr(data, "labelled")  # of xarray, of `Observed`
    return has_labels or isinstance(data, str | Path | pd.DataFrame)


def columns_of(labels: Mapping[str, Any]) -> str:
    """Columns of the table that a law was learned from, by its labels; empty without one."""
    return str(labels.get("attrs", {}).get(COLUMNS, ""))


def _from_frame(frame: pd.DataFrame, columns: Columns) -> Any:
    frame = with_named_columns(frame)
    chosen = columns.completed(frame)
    if chosen is None:
        raise columns_missing(frame)
    return from_table(frame, **chosen.given)


def _dims(points: Any) -> tuple[str, ...]:
    """Names for the dims of points: those of a mapping, else x, y and z."""
    if isinstance(points, Mapping):
        return tuple(points)
    n_dims = np.ndim(points[0]) and len(points) if isinstance(points, list | tuple) else 0
    return BARE_DIMS[: n_dims or (np.shape(points)[1] if np.ndim(points) == 2 else 1)]
