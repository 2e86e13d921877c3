"""Files of tables: CSV, also compressed, and Parquet, through pandas."""

from __future__ import annotations

import codecs
import difflib
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from spdelaw.errors import FileError

#: Rows that tell how numbers are written and what columns are, and bytes of text that are looked at
#: together.
ROWS, PIECE = 100, 2**20
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet", ".pq")
#: Columns of numbers from which on a table looks like one with a column per station.
MANY = 8
WIDE = (
    "a column per station? One row per station and time is wanted: frame.melt(TIME, "
    "var_name='station', value_name='value'), then add columns of positions"
)
ONE_SERIES = "a law is about fields: bring values at several places, and their positions"
#: Columns that are one date together.
APART = ("year", "month", "day", "hour")
#: Words by which columns are known, for a suggestion.
USUAL = {
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
    if not source.is_file():
        got = "a directory" if source.is_dir() else "nothing of this name"
        fix = f"check the name; the folder is {source.absolute().parent}"
        raise FileError(str(source), expected="a table", got=got, fix=fix)
    if not is_table(source):
        got, fix = repr(source.suffix), "rename it after what it holds, such as stations.csv"
        raise FileError(str(source), expected=f"a table, {', '.join(SUFFIXES)}", got=got, fix=fix)
    try:
        frame = _parsed(source, station, rows)
    except ImportError as error:
        expected, fix = "a package that reads Parquet", "pip install pyarrow, or write it as CSV"
        raise FileError(str(source), expected=expected, got="none", fix=fix) from error
    except (ValueError, OSError, EOFError, pd.errors.ParserError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        expected = "a table with a line of column names"
        fix = "open it in an editor: is it complete, and what it is named after?"
        raise FileError(str(source), expected=expected, got=line[:200], fix=fix) from error
    return frame.rename(columns=lambda name: str(name).strip())


def _parsed(source: Path, station: str | None, rows: int | None) -> pd.DataFrame:
    if source.suffix.lower() in (".parquet", ".pq"):
        frame = pd.read_parquet(source)
        return frame if rows is None else frame.head(rows)
    encoding = _encoding(source)
    comments, names = _head(source, encoding)
    separator = max((",", ";", "\t", "|"), key=names.count)
    text = {station: str} if station is not None else {}
    how: Any = {"sep": separator, "dtype": text, "skipinitialspace": True}
    how |= {"encoding": encoding, "skiprows": comments, "nrows": rows}
    frame = pd.read_csv(source, **how)
    return pd.read_csv(source, decimal=",", **how) if _comma_is_point(frame) else frame


def _opened(source: Path) -> Any:
    return gzip.open(source) if source.suffix.lower() == ".gz" else source.open("rb")


def _encoding(source: Path) -> str:
    """UTF-8 or UTF-16 by its mark, or what spreadsheets of Western Europe write."""
    with _opened(source) as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while piece := file.read(PIECE):
                decoder.decode(piece)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8-sig"


def _head(source: Path, encoding: str) -> tuple[int, str]:
    """Lines of comments (#) before the names of the columns, and the line of names."""
    with _opened(source) as file:
        lines = io.TextIOWrapper(file, encoding, errors="replace")
        for n, line in enumerate(lines):
            if line.strip() and not line.startswith("#"):
                return n, line
    return 0, ""


def _comma_is_point(frame: pd.DataFrame) -> bool:
    """Whether all text of some column is numbers with a decimal comma, such as 3,5."""
    words = [c.dropna().head(ROWS) for _, c in frame.items() if pd.api.types.is_string_dtype(c)]
    return any(len(w) and w.astype(str).str.fullmatch(r"-?\d*,\d+").all() for w in words)


def suggested(frame: pd.DataFrame) -> dict[str, str]:
    """Columns by role as their names suggest, for an example; what is unclear is left out."""
    left = [str(name) for name in frame.columns]
    found: dict[str, str] = {}
    for role, words in USUAL.items():
        near = [name for name in left if name.lower() in words]
        near = near or [n for n in left if difflib.get_close_matches(n.lower(), words, 1, 0.8)]
        if near:
            found[role] = near[0]
            left.remove(near[0])
    if "lon" in found and "lat" in found:
        found = {role: name for role, name in found.items() if role not in ("x", "y")}
    numbers = _numbers(frame, left)
    return found | ({"value": numbers[-1]} if numbers else {})


def _numbers(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if pd.api.types.is_numeric_dtype(frame[name])]


def evident(path: str | Path) -> dict[str, str] | None:
    """Columns by role where their names leave no doubt, else None.

    There is a time and a place, and one column of numbers beside them.
    """
    frame = read_frame(path, rows=ROWS)
    found = suggested(frame)
    usual = {role: words for role, words in USUAL.items() if role in found}
    known = all(found[role].lower() in words for role, words in usual.items())
    places = {role for role in ("lon", "lat", "x", "y") if role in found}
    left = set(map(str, frame.columns)) - {found[role] for role in usual}
    is_whole = places in ({"lon", "lat"}, {"x", "y"}, {"x"}) and {"time", "value"} <= set(found)
    return found if known and is_whole and len(_numbers(frame, left)) == 1 else None


def columns_missing(path: str | Path, command: str) -> FileError:
    """That a table needs its columns named, with the line that names them."""
    frame = read_frame(path, rows=ROWS)
    roles = {"time": "TIME", "value": "VALUE", "station": "STATION", "lon": "LON", "lat": "LAT"}
    guess: dict[str, Any] = suggested(frame)
    if "x" in guess:
        roles = {"time": "TIME", "value": "VALUE", "x": "X"} | ({"y": "Y"} if "y" in guess else {})
        roles |= {"station": guess["station"]} if "station" in guess else {}
    apart = [str(name) for name in frame.columns if str(name).lower() in APART]
    guess |= {"time": "date"} if len(apart) > 1 else {}
    options = " ".join(f"--{role} {guess.get(role, word)}" for role, word in roles.items())
    is_wide = not {"x", "lat"} & set(guess) and len(_numbers(frame, frame.columns)) > MANY
    names, more = list(map(str, frame.columns)), f" and {len(frame.columns) - MANY} more"
    is_series = set(guess) <= {"time", "value"} and len(names) <= len(guess)
    fix = WIDE if is_wide else ONE_SERIES if is_series else f"{command} {options}"
    fix = f"{_joined(apart)}; then {fix}" if len(apart) > 1 else fix
    got = f"the columns {', '.join(names[:MANY])}{more if len(names) > MANY else ''}"
    return FileError(str(path), expected="to be told which column is what", got=got, fix=fix)


def _joined(apart: list[str]) -> str:
    """The line that makes one date of the columns of its parts."""
    whole = "" if "day" in (name.lower() for name in apart) else ".assign(day=15)"
    return f"a date in several columns? frame['date'] = pandas.to_datetime(frame[{apart}]{whole})"
