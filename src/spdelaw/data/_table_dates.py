"""Times of a table: numbers, or dates in the ways that people write them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from spdelaw.errors import DataError

#: Ways to write a day besides that of ISO, and times of the day after it.
DAYS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y",
    "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
)  # fmt: skip
HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
#: Whole numbers between these are days such as 19900131.
FIRST_DAY, LAST_DAY = 1600_01_01, 2400_12_31
#: Six digits in a column whose name has one of these words: months such as 199001, or days such as
#: 870603 of a year with two digits.
FIRST_SHORT, LAST_SHORT = 1_01, 99_12_31
DATED, SHORT = ("date", "day", "month", "ymd", "yymm"), ("%Y%m", "%y%m%d")


def times_of(column: pd.Series) -> np.ndarray:
    """Numbers as they are; anything else as dates, in UTC where it has a zone."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(dtype=float)
        refuse_missing(column, ~np.isfinite(values))
        days = _days(values)
        days = _short(column, values) if days is None else days
        return values if days is None else days
    dates = _dates(column)
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


def _days(values: np.ndarray) -> np.ndarray | None:
    """Days from numbers such as 19900131; None for numbers that are none."""
    whole = (values == np.round(values)).all()
    if not whole or values.min() < FIRST_DAY or values.max() > LAST_DAY:
        return None
    dates = pd.to_datetime(
        pd.Series(values.astype(int).astype(str)), format="%Y%m%d", errors="coerce"
    )
    return None if dates.isna().any() else dates.to_numpy(dtype="datetime64[ns]")


def _short(column: pd.Series, values: np.ndarray) -> np.ndarray | None:
    """Months or days from six digits, where the column is named after a date; None for others."""
    is_named = any(word in str(column.name).lower() for word in DATED)
    if not is_named or (values != np.round(values)).any():
        return None
    if values.min() < FIRST_SHORT or values.max() > LAST_SHORT:
        return None
    text = pd.Series(values.astype(int).astype(str)).str.zfill(6)
    read = {form: pd.to_datetime(text, format=form, errors="coerce") for form in SHORT}
    ways = {form: dates for form, dates in read.items() if not dates.isna().any()}
    if len(ways) > 1:
        raise _two_ways(column, ways)
    return next((dates.to_numpy(dtype="datetime64[ns]") for dates in ways.values()), None)


def _two_ways(column: pd.Series, ways: Iterable[str]) -> DataError:
    return DataError(
        f"column '{column.name}'",
        expected="dates that can be read one way",
        got=f"{column.iloc[0]!r}, which can be {' or '.join(ways)}",
        fix=f"frame[{column.name!r}] = pandas.to_datetime(frame[{column.name!r}], "
        f"format={next(iter(ways))!r}), or write 1990-01-31",
    )


def _dates(column: pd.Series) -> pd.Series:
    """Dates as ISO has them, with or without zones, or in another way that can be read one way."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return column
    dates = pd.to_datetime(column, utc=True, format="ISO8601", errors="coerce")
    wrong = (dates.isna() & column.notna()).to_numpy()
    if not wrong.any():
        return dates
    ways = _other_ways(column.astype(str).where(column.notna()))
    if len(ways) > 1:
        raise _two_ways(column, ways)
    if not ways:
        at = int(np.argmax(wrong))
        expected = "dates such as 1990-01-31, or numbers"
        got = f"{column.iloc[at]!r} in row {at + 1}, and {int(wrong.sum()) - 1} more"
        fix = f"frame[{column.name!r}] = pandas.to_datetime(frame[{column.name!r}], format=...)"
        raise DataError(f"column '{column.name}'", expected=expected, got=got, fix=fix)
    return next(iter(ways.values()))


def _other_ways(column: pd.Series) -> dict[str, pd.Series]:
    """Formats that read all dates, with what they make of them; those that agree count once."""
    found: dict[str, pd.Series] = {}
    first = column[column.notna()].iloc[:1]
    for form in (day + hour for day in DAYS for hour in HOURS):
        if pd.to_datetime(first, format=form, errors="coerce").isna().any():
            continue
        dates = pd.to_datetime(column, format=form, errors="coerce")
        unread = (dates.isna() & column.notna()).any()
        if not unread and not any(dates.equals(other) for other in found.values()):
            found[form] = dates
    return found
