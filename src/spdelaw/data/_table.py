"""Tables of stations, one row per station and time, as fields over scattered points."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from spdelaw.data._layout import LABEL, POINT, TIME
from spdelaw.data._table_dates import refuse_missing, times_of
from spdelaw.data._table_file import MANY, WIDE, read_frame
from spdelaw.errors import DataError

#: A table of fewer than one value in so many cells of (times, stations), and of more cells than
#: the second number, has times that stations do not share.
SPARSE, MANY_CELLS = 200, 50_000_000
#: Coordinates of a station that differ by less than this are one place.
SAME_PLACE = 1e-6

#: Columns that are named in an error.
MANY_COLUMNS = 8


class Columns(NamedTuple):
    """Names of the columns of a table, None where there is none."""

    time: str | None = None
    value: str | None = None
    station: str | None = None
    lon: str | None = None
    lat: str | None = None
    x: str | None = None
    y: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """Those that were named."""
        return {k: v for k, v in self._asdict().items() if v is not None}

    @property
    def places(self) -> dict[str, str]:
        """Columns of the position."""
        return {k: v for k, v in self.given.items() if k in ("lon", "lat", "x", "y")}


def from_table(
    table: Any,
    *,
    time: str,
    value: str,
    station: str | None = None,
    lon: str | None = None,
    lat: str | None = None,
    x: str | None = None,
    y: str | None = None,
) -> xr.DataArray:
    """Fields from a table with one row per station and time.

    What has no row is missing (NaN). Stations may report at times of their own; the fields have all
    times that any of them reported at. Rows may come in any order; one that says again what another
    says counts once. Times with a zone become UTC.

    Args:
        table: pandas DataFrame, whose index may hold columns too, or a path to a file .csv,
            .csv.gz, .tsv or .parquet.
        time: column of times: dates, text that says dates, or numbers.
        value: column of the values; empty is missing.
        station: column of the names of stations; by default a place is a station.
        lon: column of longitudes in degrees, with ``lat``.
        lat: column of latitudes in degrees.
        x: column of positions that are no longitudes, alone or with ``y``.
        y: column of positions, with ``x``.

    Returns:
        DataArray (time, point) with coordinates ``lat`` and ``lon`` (or ``x`` and ``y``) and
        ``station`` along ``point``; (time, x) where there is only ``x``. `fit` takes it on a
        `Sphere` or a `Box`.

    Raises:
        DataError: a column is missing, a station has two places or two values at one time, ...

    Example:
        >>> import pandas as pd, spdelaw as sl
        >>> rows = pd.DataFrame(
        ...     {
        ...         "day": ["2020-01-02", "2020-01-01", "2020-01-02"],
        ...         "id": [7, 7, 8],
        ...         "lon": [10.0, 10.0, 11.0],
        ...         "lat": [50.0, 50.0, 52.0],
        ...         "t": [3.5, 3.0, 1.0],
        ...     }
        ... )
        >>> fields = sl.from_table(rows, time="day", value="t", station="id", lon="lon", lat="lat")
        >>> fields.values
        array([[3. , nan], [3.5, 1. ]])
        >>> fields.station.values
        array(['7', '8'], dtype='<U1')
    """
    columns = Columns(time, value, station, lon, lat, x, y)
    frame = read_frame(table, columns.station) if isinstance(table, str | Path) else table
    return arranged(_checked(frame, columns), columns)


def _checked(frame: Any, columns: Columns) -> pd.DataFrame:
    if not isinstance(frame, pd.DataFrame):
        expected, got = "a pandas DataFrame or the path of a table", type(frame).__name__
        raise DataError("table", expected=expected, got=got, fix="pandas.DataFrame(table)")
    levels = [name for name in frame.index.names if name is not None and name not in frame]
    frame = frame.reset_index(levels) if levels else frame  # a named index is a column, too
    names = [str(name) for name in frame.columns]
    for role, name in columns.given.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1, cutoff=0.4)
            fix = f"did you mean {near[0]}?" if near else f"name the column of the {role}"
            wide = not near and len(frame.select_dtypes("number").columns) > MANY
            expected = f"one of the columns {_listed(names)}"
            raise DataError(role, expected=expected, got=repr(name), fix=WIDE if wide else fix)
    for role in ("time", "value"):
        if role not in columns.given:
            raise _unnamed(role)
    if set(columns.places) not in ({"lon", "lat"}, {"x"}, {"x", "y"}):
        expected, got = "columns lon and lat, or x and y, or x", str(columns.places)
        raise DataError("position", expected=expected, got=got, fix='pass lon="lon", lat="lat"')
    if not len(frame):
        raise DataError("table", expected="at least one row", got="none", fix="check the file")
    return frame


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MANY_COLUMNS} more" if len(names) > MANY_COLUMNS else ""
    return ", ".join(names[:MANY_COLUMNS]) + more


def _unnamed(role: str) -> DataError:
    expected = f"the name of the column of the {role}"
    return DataError(role, expected=expected, got="none", fix=f'pass {role}="..."')


def arranged(frame: pd.DataFrame, columns: Columns) -> xr.DataArray:
    """The rows of a checked table on their times and stations."""
    times, when = np.unique(times_of(frame[columns.time]), return_inverse=True)
    names, which, places = _stations(frame, columns)
    values = _numbers(frame[columns.value], str(columns.value))
    _refuse_twice(frame, columns, when * len(names) + which, values)
    if len(times) * len(names) > max(MANY_CELLS, SPARSE * len(frame)):
        expected, got = "times that stations share", f"{len(times)} times for {len(frame)} rows"
        fix = f"round them: frame[{columns.time!r}] = frame[{columns.time!r}].dt.round('h')"
        raise DataError(f"column '{columns.time}'", expected=expected, got=got, fix=fix)
    table = np.full((len(times), len(names)), np.nan)
    known = np.isfinite(values)
    table[when[known], which[known]] = values[known]
    return _labelled(table, times, names, places, columns)


def _labelled(
    table: np.ndarray, times: np.ndarray, names: np.ndarray, places: Mapping[str, Any],
    columns: Columns,
) -> xr.DataArray:  # fmt: skip
    attrs = {
        "lon": {"units": "degrees_east", "standard_name": "longitude"},
        "lat": {"units": "degrees_north", "standard_name": "latitude"},
    }
    flat = list(places) == ["x"]
    dim = "x" if flat else POINT
    coords: dict[str, Any] = {n: (dim, v, attrs.get(n, {})) for n, v in places.items()}
    if columns.station is not None:
        coords["station"] = (dim, names, {"cf_role": "timeseries_id", LABEL: "station"})
    array = xr.DataArray(table, coords | {TIME: times}, (TIME, dim), str(columns.value))
    return array.sortby("x") if flat else array


def _numbers(column: pd.Series, name: str) -> np.ndarray:
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = (numbers.isna() & column.notna()).to_numpy()
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DataError(
            f"column '{name}'",
            expected="numbers, and nothing where they are missing",
            got=f"{column.iloc[first]!r} in row {first + 1}, and {int(wrong.sum()) - 1} more",
            fix=f"leave it empty where nothing was measured; in pandas frame[{name!r}] = "
            f"pandas.to_numeric(frame[{name!r}], errors='coerce')",
        )
    return numbers.to_numpy(dtype=float)


def _stations(
    frame: pd.DataFrame, columns: Columns
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Names, the station of each row, and the position of each station."""
    rows = {role: _numbers(frame[name], name) for role, name in columns.places.items()}
    for role, name in columns.places.items():
        refuse_missing(frame[name], ~np.isfinite(rows[role]))
    where = np.stack(list(rows.values()), axis=1)
    if columns.station is None:
        places, which = np.unique(where, axis=0, return_inverse=True)
        return np.arange(len(places)).astype(str), which.reshape(-1), _named(rows, places)
    refuse_missing(frame[columns.station], frame[columns.station].isna().to_numpy())
    text = frame[columns.station].astype(str).to_numpy(dtype=str)
    names, first, which = np.unique(text, return_index=True, return_inverse=True)
    places = where[first]
    moved = np.abs(where - places[which]).max(1) > SAME_PLACE
    if moved.any():
        at = int(np.argmax(moved))
        raise DataError(
            f"station {text[at]}",
            expected="one place",
            got=f"{tuple(where[first[which[at]]])} "
            f"and {tuple(where[at])}, and {len(np.unique(which[moved])) - 1} more stations moved",
            fix="give the station a new name where it moved",
        )
    _refuse_neighbours(names, places)
    return names, which, _named(rows, places)


def _named(rows: Mapping[str, Any], places: np.ndarray) -> dict[str, np.ndarray]:
    return {role: places[:, i] for i, role in enumerate(rows)}


def _refuse_neighbours(names: np.ndarray, places: np.ndarray) -> None:
    _, which, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    shared = counts[which.reshape(-1)] > 1
    if shared.any():
        same = names[which.reshape(-1) == which.reshape(-1)[np.argmax(shared)]]
        raise DataError(
            "stations",
            expected="stations at different places",
            got=f"{' and '.join(same[:3])} at one, of {int(shared.sum())} that share theirs",
            fix="leave station out, and average first what was seen at one place and time: "
            "frame.groupby([time, lon, lat], as_index=False).mean(numeric_only=True)",
        )


def _refuse_twice(
    frame: pd.DataFrame, columns: Columns, cell: np.ndarray, values: np.ndarray
) -> None:
    """Refuse two different values at one place and time."""
    order = np.lexsort([values, cell])
    one, other = order[:-1], order[1:]
    differ = np.abs(values[one] - values[other]) > 0  # not where either is missing
    again = other[(cell[one] == cell[other]) & differ]
    if not again.size:
        return
    by = [columns.station] if columns.station else list(columns.places.values())
    row = frame.iloc[int(again.min())]
    shown = ", ".join(f"{name} {row[name]}" for name in [*by, columns.time])
    names = ", ".join(repr(name) for name in [*columns.places.values(), *by, columns.time])
    got = f"{again.size} rows that contradict another, the first: {shown}"
    fix = f"average them: frame.groupby([{names}], as_index=False).mean(numeric_only=True)"
    raise DataError("table", expected="one value per station and time", got=got, fix=fix)
