"""Tables of stations, one row per station and time, as fields over scattered points."""

from __future__ import annotations

import codecs
import difflib
import gzip
import importlib.util
import io
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import xarray as xr

from spdelaw.checks import checked, shown
from spdelaw.data.clock import to_dates
from spdelaw.data.io.safe_files import check_memory, replace_file, resolved
from spdelaw.data.layout import LABEL, PATH, POINT, TIME
from spdelaw.errors import DataError, FileError, InputError

# ---------- Times of a table: numbers, or dates in common formats


#: Ways to write a day besides that of ISO, and times of the day after it.
DAY_FORMATS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y",
    "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
)  # fmt: skip
HOUR_FORMATS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
DATE_FORMATS = tuple(day + hour for day in DAY_FORMATS for hour in HOUR_FORMATS)
#: Whole numbers between these are days such as 19900131.
FIRST_DAY, LAST_DAY = 1600_01_01, 2400_12_31
#: Six digits in a column whose name has one of these words: months such as 199001, or days such as
#: 870603 of a year with two digits.
FIRST_SIX_DIGITS, LAST_SIX_DIGITS = 1_01, 99_12_31
DATE_WORDS, SIX_DIGIT_FORMATS = ("date", "day", "month", "ymd", "yymm"), ("%Y%m", "%y%m%d")


def times_of(column: pd.Series) -> np.ndarray:
    """Numbers as they are, unless they are digits of dates; anything else as dates, in UTC."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(dtype=float)
        refuse_missing(column, ~np.isfinite(values))
        formats = _digit_formats(str(column.name), values)
        if not formats:
            return values
        text = pd.Series(values.astype(int).astype(str)).str.zfill(6)
        dates = _read_one_way(column, text, formats)
        return values if dates is None else dates.to_numpy(dtype="datetime64[ns]")
    dates = column
    if not pd.api.types.is_datetime64_any_dtype(column):
        dates = pd.to_datetime(column, utc=True, format="ISO8601", errors="coerce")
        wrong = (dates.isna() & column.notna()).to_numpy()
        if wrong.any():
            dates = _read_one_way(column, column.astype(str).where(column.notna()), DATE_FORMATS)
        if dates is None:
            expected = "dates such as 1990-01-31, or numbers"
            got = _first_wrong(column, wrong)
            fix = f"frame[{column.name!r}] = pandas.to_datetime(frame[{column.name!r}], format=...)"
            raise DataError(f"column '{column.name}'", expected=expected, got=got, fix=fix)
    if getattr(dates.dt, "tz", None) is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    refuse_missing(column, dates.isna().to_numpy())
    return dates.to_numpy(dtype="datetime64[ns]")


def refuse_missing(column: pd.Series, wrong: np.ndarray) -> None:
    """`DataError` where rows lack what they need."""
    if wrong.any():
        expected = "a value in each row"
        got = f"none in {int(wrong.sum())} rows, the first is row {int(np.argmax(wrong)) + 1}"
        raise DataError(f"column '{column.name}'", expected=expected, got=got, fix="fill it in")


def _digit_formats(name: str, values: np.ndarray) -> tuple[str, ...]:
    """Formats of whole numbers that may be dates: 19900131, or 199001 in a column named so."""
    low, high = values.min(), values.max()
    if (values != np.round(values)).any():
        return ()
    if low >= FIRST_DAY and high <= LAST_DAY:
        return ("%Y%m%d",)
    is_named = any(word in name.lower() for word in DATE_WORDS)
    return (
        SIX_DIGIT_FORMATS if is_named and FIRST_SIX_DIGITS <= low <= high <= LAST_SIX_DIGITS else ()
    )


def _read_one_way(column: pd.Series, text: pd.Series, formats: Iterable[str]) -> pd.Series | None:
    """Dates by the format that reads all of them; None without one, `DataError` with several."""
    readings: dict[str, pd.Series] = {}
    first = text[text.notna()].iloc[:1]
    for form in formats:
        if pd.to_datetime(first, format=form, errors="coerce").isna().any():
            continue
        dates = pd.to_datetime(text, format=form, errors="coerce")
        unread = (dates.isna() & text.notna()).any()
        if not unread and not any(dates.equals(other) for other in readings.values()):
            readings[form] = dates
    if len(readings) > 1:
        raise DataError(
            f"column '{column.name}'",
            expected="dates that can be read one way",
            got=f"{column.iloc[0]!r}, which can be {' or '.join(readings)}",
            fix=f"frame[{column.name!r}] = pandas.to_datetime(frame[{column.name!r}], "
            f"format={next(iter(readings))!r}), or write 1990-01-31",
        )
    return next(iter(readings.values()), None)


# ---------- Files of tables: CSV, also compressed, and Parquet, through pandas


#: Rows that show how numbers are written and which columns there are, and bytes of text that are
#: read at once.
SAMPLE_ROWS, READ_BYTES = 100, 2**20
#: A compressed table may be so many times its size, and always so many bytes.
MAX_EXPANSION, SMALL_TEXT = 200, 2**24
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet", ".pq")
#: Columns of numbers from which on a table looks like one with a column per station.
WIDE_TABLE_COLUMNS = 8
WIDE_TABLE_FIX = (
    "a column per station? One row per station and time is needed: frame.melt(TIME, "
    "var_name='station', value_name='value'), then add columns of positions"
)
ONE_SERIES_FIX = "a law describes fields: the table needs several stations and their positions"
#: Columns that are one date together.
DATE_PARTS = ("year", "month", "day", "hour")
#: Usual names of columns by role, for a suggestion.
USUAL_NAMES = {
    "time": ("time", "date", "datetime", "timestamp", "day", "month", "year", "hour", "utc"),
    "station": ("station", "station_id", "id", "site", "sensor", "name", "stid", "buoy"),
    "lon": ("lon", "longitude", "long", "lng"),
    "lat": ("lat", "latitude"),
    "x": ("x", "easting"),
    "y": ("y", "northing"),
}


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def read_frame(
    path: str | Path, station: str | None = None, rows: int | None = None
) -> pd.DataFrame:
    """The rows of a file; names of stations stay text."""
    source = Path(path)
    if not resolved(source).is_file():
        got = "a directory" if source.is_dir() else "nothing of this name"
        fix = f"check the name; the folder is {source.absolute().parent}"
        raise FileError(str(source), expected="a table", got=got, fix=fix)
    if not is_table(source):
        got, fix = repr(source.suffix), "give it the suffix of its format, such as stations.csv"
        raise FileError(str(source), expected=f"a table, {', '.join(SUFFIXES)}", got=got, fix=fix)
    try:
        frame = _parse_file(source, station, rows)
    except FileError:
        raise
    except (ValueError, OSError, EOFError, zlib.error, OverflowError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        expected = "a table with a line of column names"
        fix = "open it in an editor: is it complete, and does its suffix match its format?"
        raise FileError(str(source), expected=expected, got=line[:200], fix=fix) from error
    return frame.rename(columns=lambda name: str(name).strip())


def _parse_file(source: Path, station: str | None, rows: int | None) -> pd.DataFrame:
    if source.suffix.lower() in (".parquet", ".pq"):
        require_parquet(source)
        _check_parquet(source)
        frame = pd.read_parquet(source)
        return frame if rows is None else frame.head(rows)
    encoding = _encoding(source)
    comments, names = _header_line(source, encoding)
    separator = max((",", ";", "\t", "|"), key=names.count)
    text = {station: str} if station is not None else {}
    how: Any = {"sep": separator, "dtype": text, "skipinitialspace": True}
    how |= {"encoding": encoding, "skiprows": comments, "nrows": rows}
    frame = pd.read_csv(source, **how)
    return pd.read_csv(source, decimal=",", **how) if _has_decimal_comma(frame) else frame


def require_parquet(path: Path) -> None:
    """Raise where the package that reads and writes Parquet is not installed."""
    if path.suffix.lower() in (".parquet", ".pq") and importlib.util.find_spec("pyarrow") is None:
        expected = "a package that reads and writes Parquet"
        fix = "pip install pyarrow, or use CSV"
        raise FileError(str(path), expected=expected, got="none", fix=fix)


def _check_parquet(source: Path) -> None:
    """Compare the declared number of values with the memory."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(source)
    check_memory(source, 8 * metadata.num_rows * metadata.num_columns)


def _opened(source: Path) -> Any:
    return gzip.open(source) if source.suffix.lower() == ".gz" else source.open("rb")


def _encoding(source: Path) -> str:
    """UTF-8 or UTF-16 by its mark, or what spreadsheets of Western Europe write.

    All of the text is read once, piece by piece, which also shows how long it is.
    """
    decoder, encoding, length = codecs.getincrementaldecoder("utf-8")(), "utf-8-sig", 0
    with _opened(source) as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            encoding = "utf-16"
        file.seek(0)
        while piece := file.read(READ_BYTES):
            length += len(piece)
            check_memory(source, length)
            if length > max(SMALL_TEXT, MAX_EXPANSION * source.stat().st_size):
                expected, got = f"text of at most {MAX_EXPANSION} times its size", "more"
                fix = "unpack it first if you trust it"
                raise FileError(str(source), expected=expected, got=got, fix=fix)
            if encoding == "utf-8-sig":
                try:
                    decoder.decode(piece)
                except UnicodeDecodeError:
                    encoding = "cp1252"
    return encoding


def _header_line(source: Path, encoding: str) -> tuple[int, str]:
    """Lines of comments (#) before the names of the columns, and the line of names."""
    with _opened(source) as file:
        lines = io.TextIOWrapper(file, encoding, errors="replace")
        for n, line in enumerate(lines):
            if line.strip() and not line.startswith("#"):
                return n, line
    return 0, ""


def _has_decimal_comma(frame: pd.DataFrame) -> bool:
    """Whether all text of some column is numbers with a decimal comma, such as 3,5."""
    words = [
        c.dropna().head(SAMPLE_ROWS) for _, c in frame.items() if pd.api.types.is_string_dtype(c)
    ]
    return any(len(w) and w.astype(str).str.fullmatch(r"-?\d*,\d+").all() for w in words)


def suggested(frame: pd.DataFrame) -> dict[str, str]:
    """Columns by role as their names suggest, for an example; what is unclear is left out."""
    left = [str(name) for name in frame.columns]
    columns_by_role: dict[str, str] = {}
    for role, words in USUAL_NAMES.items():
        near = [name for name in left if name.lower() in words]
        near = near or [n for n in left if difflib.get_close_matches(n.lower(), words, 1, 0.8)]
        if near:
            columns_by_role[role] = near[0]
            left.remove(near[0])
    dated = [] if "time" in columns_by_role else [n for n in left if _has_dates(frame[n])]
    if dated:
        columns_by_role["time"] = dated[0]
        left.remove(dated[0])
    if "lon" in columns_by_role and "lat" in columns_by_role:
        columns_by_role = {
            role: name for role, name in columns_by_role.items() if role not in ("x", "y")
        }
    numbers = _numeric_columns(frame, left)
    return columns_by_role | ({"value": numbers[-1]} if numbers else {})


def _has_dates(column: pd.Series) -> bool:
    try:
        return times_of(column.head(SAMPLE_ROWS)).dtype.kind == "M"
    except DataError:
        return False


def _is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


def _numeric_columns(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if _is_number(frame[name])]


def evident(table: str | Path | pd.DataFrame) -> dict[str, str] | None:
    """Columns by role where their names leave no doubt, else None.

    There is a time, a position, and one further column of numbers.
    """
    frame: Any = table
    if not isinstance(table, pd.DataFrame):
        frame = read_frame(table, rows=SAMPLE_ROWS)
    columns_by_role = suggested(frame)
    usual = {role: words for role, words in USUAL_NAMES.items() if role in columns_by_role}
    all_usual = all(
        columns_by_role[role].lower() in words
        or (role == "time" and _has_dates(frame[columns_by_role[role]]))
        for role, words in usual.items()
    )
    places = usual.keys() & {"lon", "lat", "x", "y"}
    left = set(map(str, frame.columns)) - {columns_by_role[role] for role in usual}
    is_whole = places in ({"lon", "lat"}, {"x", "y"}, {"x"}) and {"time", "value"} <= {
        *columns_by_role
    }
    is_single = len(_numeric_columns(frame, left)) == 1
    return columns_by_role if all_usual and is_whole and is_single else None


def columns_missing(table: str | Path | pd.DataFrame) -> FileError:
    """Error for a table whose columns have no roles, with the options that give them."""
    is_frame = isinstance(table, pd.DataFrame)
    frame: Any = table if is_frame else read_frame(table, rows=SAMPLE_ROWS)
    roles = {"time": "TIME", "value": "VALUE", "station": "STATION", "lon": "LON", "lat": "LAT"}
    guess: dict[str, Any] = suggested(frame)
    if "x" in guess:
        roles = {"time": "TIME", "value": "VALUE", "x": "X"} | ({"y": "Y"} if "y" in guess else {})
        roles |= {"station": guess["station"]} if "station" in guess else {}
    apart = [str(name) for name in frame.columns if str(name).lower() in DATE_PARTS]
    guess |= {"time": "date"} if len(apart) > 1 else {}
    pairs = {role: guess.get(role, word) for role, word in roles.items()}
    line = "add " + " ".join(f"--{role} {name}" for role, name in pairs.items())
    if is_frame:
        arguments = ", ".join(f"{role}={name!r}" for role, name in pairs.items())
        line = f"pass sl.from_table(table, {arguments})"
    is_wide = (
        not {"x", "lat"} & set(guess)
        and len(_numeric_columns(frame, frame.columns)) > WIDE_TABLE_COLUMNS
    )
    names = list(map(str, frame.columns))
    is_series = set(guess) <= {"time", "value"} and len(names) <= len(guess)
    fix = WIDE_TABLE_FIX if is_wide else ONE_SERIES_FIX if is_series else line
    fix = f"{_joined_date_advice(apart)}; then {fix}" if len(apart) > 1 else fix
    got = f"the columns {_listed(names)}"
    what, expected = "table" if is_frame else str(table), "columns with usual names"
    return FileError(what, expected=expected, got=got, fix=fix)


def _joined_date_advice(apart: list[str]) -> str:
    """The line that makes one date of the columns of its parts."""
    whole = "" if "day" in (name.lower() for name in apart) else ".assign(day=15)"
    return f"a date in several columns? frame['date'] = pandas.to_datetime(frame[{apart}]{whole})"


# ---------- Tables of stations, one row per station and time, as fields over scattered points


#: A table of fewer than one value in so many cells of (times, stations), and of more cells than
#: the second number, has times that stations do not share.
SPARSE_CELLS_PER_ROW, MIN_SPARSE_CELLS = 200, 50_000_000
#: Coordinates of a station that differ by less than this are one place.
SAME_PLACE = 1e-6
#: Attribute of fields from a table, and of results about them: names of its columns, by role.
COLUMNS = "columns"
#: Columns with the units of each value, in lower case; results are written with the first.
UNITS_COLUMNS = ("units", "unit")
#: Largest number of columns that an error lists.
MAX_LISTED_COLUMNS = 8
ATTRS = {
    "lon": {"units": "degrees_east", "standard_name": "longitude"},
    "lat": {"units": "degrees_north", "standard_name": "latitude"},
}


class Columns(NamedTuple):
    """How to read a table: names of its columns by role, rows, units; None where not stated."""

    time: str | None = None
    value: str | None = None
    station: str | None = None
    lon: str | None = None
    lat: str | None = None
    x: str | None = None
    y: str | None = None
    quantity: str | None = None
    units: str | None = None

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Columns from ``time=date,value=tmax``."""
        pairs = [entry.strip().partition("=") for entry in text.split(",") if entry.strip()]
        wrong = [role for role, _, name in pairs if role not in cls._fields or not name]
        if wrong:
            expected = f"such as time=date, of {', '.join(cls._fields)}"
            fix = "write time=date,value=tmax,station=id,lon=lon,lat=lat"
            raise InputError("columns", expected=expected, got=repr(text), fix=fix)
        return cls(**{role: name for role, _, name in pairs})

    @property
    def text(self) -> str:
        """Inverse of `parse`."""
        return ",".join(f"{role}={name}" for role, name in self.given.items())

    @property
    def given(self) -> dict[str, str]:
        """Those that were stated."""
        return {k: v for k, v in self._asdict().items() if v is not None}

    @property
    def named(self) -> dict[str, str]:
        """Columns of times, stations, positions and values."""
        return {k: self.given[k] for k in (*USUAL_NAMES, "value") if k in self.given}

    def completed(self, table: str | Path | pd.DataFrame) -> Columns | None:
        """With the evident columns of a table if none is stated; None without such columns."""
        if self.named:
            return self
        by_role = evident(table)
        return None if by_role is None else Columns(**by_role | self.given)

    @property
    def places(self) -> dict[str, str]:
        """Columns of the position."""
        return {k: v for k, v in self.given.items() if k in ("lon", "lat", "x", "y")}


@checked()
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
    quantity: str | None = None,
    units: str | None = None,
) -> xr.DataArray:
    """Fields from a table with one row per station and time.

    A value without a row is missing (NaN). Stations may have different times; the fields have all
    times of all stations. Rows may come in any order; repeated rows count once. Times with a time
    zone become UTC.

    Args:
        table: pandas DataFrame, whose index may hold columns too, or a path to a file .csv,
            .csv.gz, .tsv or .parquet.
        time: column of times: dates, text of dates, or numbers.
        value: column of the values; empty is missing.
        station: column of the names of stations; by default each position is a station.
        lon: column of longitudes in degrees, with ``lat``.
        lat: column of latitudes in degrees.
        x: column of positions that are not longitudes, alone or with ``y``.
        y: column of positions, with ``x``.
        quantity: rows to use if a column names the quantity of each row, such as
            ``"element=TMAX"``.
        units: of the values, such as ``"degC"``; by default those in a column ``units`` or
            ``unit``. Parameters of a law have units made of them, such as ``K^2/days``.

    Returns:
        DataArray (time, point) with coordinates ``lat`` and ``lon`` (or ``x`` and ``y``) and
        ``station`` along ``point``; (time, x) where there is only ``x``. `fit` takes it on a
        `Sphere` or a `Box`. The attribute ``columns`` keeps the names for `to_table`.

    Raises:
        DataError: a column is missing, a station has two positions or two values at one time, ...

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
    columns = Columns(time, value, station, lon, lat, x, y, quantity, units)
    frame = read_frame(table, columns.station) if isinstance(table, str | Path) else table
    frame = _rows_of_quantity(_check_columns(frame, columns), quantity)
    fields = arranged(frame, columns).assign_attrs({COLUMNS: columns.text})
    units = _units_of(frame, units)
    return fields if units is None else fields.assign_attrs(units=units)


def _units_of(frame: pd.DataFrame, stated: str | None) -> str | None:
    """The units that are stated, else those in a column of units, which have to agree."""
    column = next((name for name in frame if str(name).lower() in UNITS_COLUMNS), None)
    listed = [] if column is None else frame[column].dropna().astype(str).unique().tolist()
    if len({*listed, stated} - {None}) > 1:
        expected = "the same units in all rows" + (f", {stated}" if stated else "")
        fix = "convert the values; quantity='element=TMAX' selects rows of one quantity"
        what = f"column '{column}'"
        raise DataError(what, expected=expected, got=_listed(listed), fix=fix)
    return stated or next(iter(listed), None)


def _rows_of_quantity(frame: pd.DataFrame, quantity: str | None) -> pd.DataFrame:
    """The rows of one quantity, such as ``element=TMAX``."""
    if quantity is None:
        return frame
    column, _, chosen = quantity.partition("=")
    rows = frame[frame[column].astype(str) == chosen]
    if rows.empty:
        kinds = _listed(sorted(map(str, frame[column].dropna().unique())))
        fix = f"quantity='{column}={kinds.split(',')[0]}'"
        raise DataError("quantity", expected=f"one of {kinds}", got=repr(chosen), fix=fix)
    return rows.reset_index(drop=True)


def with_named_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns, and named index, have names that are text and differ."""
    levels = [name for name in frame.index.names if name is not None and name not in frame]
    frame = frame.reset_index(levels) if levels else frame
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        expected, got = "a name of its own for each column", f"{twice!r} twice"
        raise DataError("table", expected=expected, got=got, fix="rename one of them")
    return frame


def _check_columns(frame: Any, columns: Columns) -> pd.DataFrame:
    if not isinstance(frame, pd.DataFrame):
        expected, got = "a pandas DataFrame or the path of a table", type(frame).__name__
        raise DataError("table", expected=expected, got=got, fix="pandas.DataFrame(table)")
    frame = with_named_columns(frame)
    names = list(frame.columns)
    for role, name in columns.given.items():
        if role == "units":
            continue
        name = name.partition("=")[0] if role == "quantity" else name
        if name not in names:
            near = difflib.get_close_matches(name, names, 1, cutoff=0.4)
            fix = f"did you mean {near[0]}?" if near else f"name the column of the {role}"
            wide = not near and len(frame.select_dtypes("number").columns) > WIDE_TABLE_COLUMNS
            expected = f"one of the columns {_listed(names)}"
            raise DataError(
                role, expected=expected, got=repr(name), fix=WIDE_TABLE_FIX if wide else fix
            )
    for role in ("time", "value"):
        if role not in columns.given:
            expected, fix = f"the name of the column of the {role}", f'pass {role}="..."'
            raise DataError(role, expected=expected, got="none", fix=fix)
    if set(columns.places) not in ({"lon", "lat"}, {"x"}, {"x", "y"}):
        expected, got = "columns lon and lat, or x and y, or x", str(columns.places)
        raise DataError("position", expected=expected, got=got, fix='pass lon="lon", lat="lat"')
    if not len(frame):
        raise DataError("table", expected="at least one row", got="none", fix="check the file")
    return frame


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED_COLUMNS} more" if len(names) > MAX_LISTED_COLUMNS else ""
    return ", ".join(names[:MAX_LISTED_COLUMNS]) + more


def arranged(frame: pd.DataFrame, columns: Columns) -> xr.DataArray:
    """The rows of a checked table on their times and stations."""
    times, when = np.unique(times_of(frame[columns.time]), return_inverse=True)
    names, which, places = _stations(frame, columns)
    values = numeric_values(frame[columns.value])
    if len(times) * len(names) > max(MIN_SPARSE_CELLS, SPARSE_CELLS_PER_ROW * len(frame)):
        expected, got = "times that stations share", f"{len(times)} times for {len(frame)} rows"
        fix = f"round them: frame[{columns.time!r}] = frame[{columns.time!r}].dt.round('h')"
        raise DataError(f"column '{columns.time}'", expected=expected, got=got, fix=fix)
    table = np.full((len(times), len(names)), np.nan)
    finite = np.isfinite(values)
    table[when[finite], which[finite]] = values[finite]
    again = finite & (table[when, which] != values)
    if again.any():
        raise _contradiction_error(frame, columns, again)
    dim = "x" if list(places.columns) == ["x"] else POINT
    coords: dict[str, Any] = {n: (dim, places[n].to_numpy(), ATTRS.get(n, {})) for n in places}
    if columns.station is not None:
        coords["station"] = (dim, names, {"cf_role": "timeseries_id", LABEL: "station"})
    array = xr.DataArray(table, coords | {TIME: times}, (TIME, dim), str(columns.value))
    return array.sortby("x") if dim == "x" else array


def _first_wrong(column: pd.Series, wrong: np.ndarray) -> str:
    at, more = int(np.argmax(wrong)), int(wrong.sum()) - 1
    return f"{shown(column.iloc[at])} in row {at + 1}" + (f", and {more} more" if more else "")


def numeric_values(column: pd.Series) -> np.ndarray:
    """A column as numbers, NaN where it is empty."""
    if column.dtype == object:  # pandas fails on integers beyond the largest float
        is_beyond = [isinstance(value, int) and abs(value) > sys.float_info.max for value in column]
        column = column.mask(is_beyond, np.inf)
    numbers, name = pd.to_numeric(column, errors="coerce"), column.name
    wrong = (numbers.isna() & column.notna() | numbers.isin([np.inf, -np.inf])).to_numpy()
    if wrong.any():
        raise DataError(
            f"column '{name}'",
            expected="finite numbers, or empty cells",
            got=_first_wrong(column, wrong),
            fix=(
                f"leave missing values empty; in pandas frame[{name!r}] = "
                f"pandas.to_numeric(frame[{name!r}], errors='coerce')"
            ),
        )
    return numbers.to_numpy(dtype=float)


def _stations(frame: pd.DataFrame, columns: Columns) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Names, the station of each row, and the position of each station."""
    rows = pd.DataFrame({k: numeric_values(frame[name]) for k, name in columns.places.items()})
    for role, name in columns.places.items():
        refuse_missing(frame[name], ~np.isfinite(rows[role].to_numpy()))
        limit = {"lat": 90.0, "lon": 360.0}.get(role, np.inf)
        if (beyond := rows[role].abs() > limit).any():
            expected, got = (
                f"degrees from {-limit:g} to {limit:g}",
                f"{rows[role][beyond].iloc[0]:g}",
            )
            fix = "check the column; positions that are not degrees are x and y"
            raise DataError(f"column '{name}'", expected=expected, got=got, fix=fix)
    if columns.station is None:
        groups = rows.groupby(list(rows.columns), sort=True)
        places = groups.size().reset_index()[list(rows.columns)]
        return np.arange(len(places)).astype(str), groups.ngroup().to_numpy(), places
    refuse_missing(frame[columns.station], frame[columns.station].isna().to_numpy())
    text = frame[columns.station].astype(str).to_numpy(dtype=str)
    names, first, which = np.unique(text, return_index=True, return_inverse=True)
    places = rows.iloc[first].reset_index(drop=True)
    there = places.to_numpy()[which]
    moved = np.abs(rows.to_numpy() - there).max(1) > SAME_PLACE
    if moved.any():
        at = int(np.argmax(moved))
        more = len(np.unique(which[moved])) - 1
        raise DataError(
            f"station {text[at]}",
            expected="one position",
            got=f"{tuple(there[at])} and {tuple(rows.iloc[at])}, and {more} more stations moved",
            fix="give the station a new name where it moved",
        )
    shared = places.duplicated(keep=False)
    if shared.any():
        same = names[(places == places[shared].iloc[0]).all(axis=1)]
        raise DataError(
            "stations",
            expected="stations at different places",
            got=(
                f"{' and '.join(same[:3])} at one position, of {int(shared.sum())} that share one"
            ),
            fix=(
                "leave station out, and average the values of each position and time first: "
                "frame.groupby([time, lon, lat], as_index=False).mean(numeric_only=True)"
            ),
        )
    return names, which, places


def _contradiction_error(frame: pd.DataFrame, columns: Columns, again: np.ndarray) -> DataError:
    """Two different values at one place and time."""
    by = [columns.station] if columns.station else list(columns.places.values())
    used = {*columns.given.values()}
    for name in [n for n in frame if n not in used and not _is_number(frame[n])]:
        kinds = sorted(map(str, frame[name].dropna().unique()))
        if len(kinds) > 1 and not frame.duplicated([*by, columns.time, name]).any():
            expected, got = "rows of one quantity", f"{_listed(kinds)} in the column {name!r}"
            fix = f"choose one: quantity='{name}={kinds[0]}'"
            return DataError("table", expected=expected, got=got, fix=fix)
    row = frame.iloc[int(np.argmax(again))]
    shown = ", ".join(f"{name} {row[name]}" for name in [*by, columns.time])
    names = ", ".join(repr(name) for name in [*columns.places.values(), *by, columns.time])
    got = f"{int(again.sum())} rows that contradict another row, the first: {shown}"
    fix = f"average them: frame.groupby([{names}], as_index=False).mean(numeric_only=True)"
    return DataError("table", expected="one value per station and time", got=got, fix=fix)


# ---------- Fields and results as a table, the inverse of `from_table`


@checked()
def to_table(fields: xr.DataArray | xr.Dataset, **columns: str) -> pd.DataFrame:
    """Table with one row per point and time, the inverse of `from_table`.

    A DataArray gives one column of values. A Dataset of results gives a column for each variable,
    such as ``mean``, ``std`` and ``std_field``; joint draws are columns ``sample_0``, ``sample_1``
    and so on. Rows without any value are left out. Fields of a table with units have a column
    ``units``.

    Args:
        fields: fields, or what `Law.forecast`, `Law.reconstruct` and `fill` return.
        columns: names of columns by role, as of `from_table`: ``time``, ``value``, ``station``,
            ``lon``, ``lat``, ``x``, ``y``. By default those of the table that the data came from,
            else the names of the coordinates.

    Example:
        >>> import spdelaw as sl
        >>> rows = sl.datasets.station_tmax()
        >>> names = dict(time="date", value="tmax", station="station", lon="lon", lat="lat")
        >>> table = sl.to_table(sl.from_table(rows, **names))
        >>> len(table) == len(rows), list(table.columns)
        (True, ['date', 'station', 'lon', 'lat', 'tmax'])
    """
    read_by = Columns.parse(str(fields.attrs.get(COLUMNS, "")))
    names = read_by.named | columns
    if isinstance(fields, xr.DataArray):
        fields = fields.to_dataset(name=str(names.get("value") or fields.name or "value"))
    if "draw" in fields.dims:
        sample = fields["sample"].transpose("draw", ...).drop_vars("draw", errors="ignore")
        draws = {f"sample_{i}": one for i, one in enumerate(sample)}
        fields = fields.drop_dims("draw").assign(draws)
    rows = max((one.dims for one in fields.values()), key=len, default=())
    if not rows or len(set(rows)) < len(rows):
        got, fix = f"dims {rows}", "pass fields, or what law.forecast(...) returns"
        raise DataError("fields", expected="values over time and points", got=got, fix=fix)
    kept = fields[[str(name) for name, one in fields.items() if set(one.dims) == set(rows)]]
    if " since " in str(getattr(kept.get(TIME), "attrs", {}).get("units", "")):
        kept = kept.assign_coords({TIME: to_dates(kept[TIME].values, kept[TIME].attrs)})
    kept = kept.squeeze([PATH] if kept.sizes.get(PATH) == 1 else [], drop=True)
    values = [str(name) for name in kept.data_vars]
    frame = kept.to_dataframe().dropna(subset=values, how="all")
    frame = frame.drop(columns=[n for n in frame.index.names if n in frame]).reset_index()
    heads = [name for name in frame if name not in values and name != POINT]
    heads.sort(key=lambda name: (name != TIME, name != "station"))  # others in their order
    table = frame[[*heads, *values]].rename(columns=names)
    units = [one.attrs.get("units") for one in kept.data_vars.values()]
    if read_by.named and isinstance(units[0], str) and units == units[:1] * len(units):
        table[UNITS_COLUMNS[0]] = units[0]
    return table.reset_index(drop=True)


def write_table(fields: xr.DataArray | xr.Dataset, path: Path) -> None:
    """Write `to_table` of fields: Parquet, or CSV with commas or, for ``.tsv``, tabs."""
    require_parquet(path)
    frame = to_table(fields)
    with replace_file(path) as new:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame.to_parquet(new, index=False)
        else:
            zipped = "gzip" if path.suffix.lower() == ".gz" else None
            separator = "	" if ".tsv" in path.suffixes else ","
            frame.to_csv(new, index=False, sep=separator, compression=zipped)
