"""Tables of stations: any order of rows, any zone, gaps; and one clear error for each mistake."""

import gzip

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.parameters import cross

import spdelaw as sl
from spdelaw.data.io.files import read, read_dataset
from spdelaw.data.io.tables import suggested, times_of
from spdelaw.errors import DataError, FileError

NAMES = {"time": "date", "value": "tmax", "station": "id", "lon": "lon", "lat": "lat"}


def table(n_times=6, n_stations=4, seed=0):
    """Long table in random order with a tenth of its rows gone, and the whole array."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("1990-01-01", periods=n_times, freq="D")
    values = rng.standard_normal((n_times, n_stations)).round(3)
    lon, lat = rng.uniform(-100, -80, n_stations), rng.uniform(32, 46, n_stations)
    when, which = np.nonzero(rng.random(values.shape) > 0.1)
    rows = pd.DataFrame({
        "id": [f"00{k}" for k in which], "lon": lon[which], "lat": lat[which],
        "date": days[when].strftime("%Y-%m-%d"), "tmax": values[when, which],
    })  # fmt: skip
    values[np.isin(np.arange(values.size), when * n_stations + which, invert=True).reshape(
        values.shape)] = np.nan  # fmt: skip
    whole = xr.DataArray(values, {"time": days, "lon": ("point", lon), "lat": ("point", lat)},
                         ("time", "point"))  # fmt: skip
    return rows.sample(frac=1, random_state=seed), whole


def test_rows_in_any_order_are_the_array_they_were_made_of():
    rows, whole = table(30, 7)
    got = sl.from_table(rows, **NAMES)
    assert got.name == "tmax"
    assert got.dims == ("time", "point")
    np.testing.assert_array_equal(got.values, whole.values)
    for name in ("time", "lon", "lat"):
        np.testing.assert_array_equal(got[name].values, whole[name].values)
    assert got["station"].values.tolist() == [f"00{k}" for k in range(7)]
    assert got["lat"].attrs["standard_name"] == "latitude"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "semicolons.csv"])
def test_files_are_read_as_the_frame(tmp_path, name):
    rows, _ = table()
    separator = {"a.tsv": "\t", "semicolons.csv": ";"}.get(name, ",")
    rows.to_csv(tmp_path / name, index=False, sep=separator)
    expected = sl.from_table(rows, **NAMES)
    assert_as_read(sl.from_table(tmp_path / name, **NAMES), expected)
    assert_as_read(read_dataset(tmp_path / name)["tmax"], expected)  # no doubt about names


def assert_as_read(got, expected):
    """Equal but for the last digit, which pandas 2 may read differently."""
    xr.testing.assert_allclose(got, expected, rtol=1e-15, atol=0.0)
    assert got.attrs == expected.attrs
    for name, coord in expected.coords.items():
        assert got[name].attrs == coord.attrs
        assert got[name].dtype == coord.dtype


def test_a_named_index_is_a_column_also_in_parquet(tmp_path):
    rows, _ = table()
    expected = sl.from_table(rows, **NAMES)
    for index in ("date", ["id", "date"]):
        xr.testing.assert_identical(sl.from_table(rows.set_index(index), **NAMES), expected)
    pytest.importorskip("pyarrow")
    for k, kind in enumerate((rows, rows.set_index("date"), rows.astype({"id": "category"}))):
        kind.to_parquet(tmp_path / f"{k}.parquet")
        xr.testing.assert_identical(sl.from_table(tmp_path / f"{k}.parquet", **NAMES), expected)


def test_numbers_as_times_and_plain_positions():
    rows = pd.DataFrame({"t": [1.0, 0.0, 1.0], "x": [2.0, 1.0, 1.0], "u": [3.0, 1.0, 2.0]})
    line = sl.from_table(rows, time="t", value="u", x="x")
    assert line.dims == ("time", "x")
    np.testing.assert_array_equal(line.values, [[1.0, np.nan], [2.0, 3.0]])
    plane = sl.from_table(rows.assign(y=0.5), time="t", value="u", x="x", y="y")
    fields = sl.as_fields(plane, dims=("x", "y"))
    assert fields.dims == ("path", "time", "point")
    np.testing.assert_array_equal(fields["y"].values, 0.5)


DATES = [
    (["2020-01-01T00:00+01:00", "2020-01-01T00:00+00:00"], ["2019-12-31T23", "2020-01-01T00"]),
    (["2020-01-01T00:00", "2020-01-01T06:00+00:00"], ["2020-01-01T00", "2020-01-01T06"]),
    (pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("Asia/Tokyo"),
     ["2019-12-31T15", "2020-01-01T15"]),
    (["31.01.2020", "01.02.2020"], ["2020-01-31", "2020-02-01"]),
    ([20200131, 20200201], ["2020-01-31", "2020-02-01"]),
]  # fmt: skip


@pytest.mark.parametrize(("dates", "expected"), DATES)
def test_dates_become_utc_where_they_can_be_read_one_way(dates, expected):
    rows = pd.DataFrame({"date": dates, "id": 1, "lon": 0.0, "lat": 0.0, "tmax": [1.0, 2.0]})
    got = sl.from_table(rows, **NAMES)["time"].values
    np.testing.assert_array_equal(got, np.array(expected, "datetime64[ns]"))


def test_stations_without_names_are_their_places():
    rows, whole = table()
    got = sl.from_table(rows, **{k: v for k, v in NAMES.items() if k != "station"})
    assert "station" not in got.coords
    order = np.lexsort((whole["lat"], whole["lon"]))
    np.testing.assert_array_equal(got.values, whole.values[:, order])


def again(rows):
    return pd.concat([rows, rows.iloc[[3, 5]].assign(tmax=9.0)])


MISTAKES = [
    (again, {}, ("one value per station and time", "2 rows", "groupby(['lon', 'lat', 'id'")),
    (lambda r: r, {"value": "tmx"}, ("columns id, lon, lat, date, tmax", "did you mean tmax")),
    (lambda r: r, {"lat": None}, ("lon and lat",)),
    (lambda r: r.assign(lon=r.lon.where(r.id != "001")), {}, ("'lon'", "fill it in")),
    (lambda r: r.assign(lon=r.lon + np.arange(len(r))), {}, ("one position", "a new name")),
    (lambda r: r.assign(lon=1.0, lat=2.0), {}, ("different places", "000 and 001")),
    (lambda r: r.assign(tmax="warm"), {}, ("'warm' in row 1", "to_numeric")),
    (lambda r: r.assign(date="soon"), {}, ("dates such as", "'soon' in row 1")),
    (lambda r: r.assign(date=r.date.where(r.id != "002")), {}, ("'date'", "fill it in")),
    (lambda r: r.assign(date="01/02/2020"), {}, ("can be %d/%m/%Y or %m/%d/%Y",)),
    (lambda r: r.iloc[:0], {}, ("at least one row",)),
    (lambda r: r.to_dict(), {}, ("DataFrame",)),
]


@pytest.mark.parametrize(("change", "names", "words"), MISTAKES)
def test_mistakes_are_named(change, names, words):
    with pytest.raises(DataError) as caught:
        sl.from_table(change(table()[0]), **(NAMES | names))
    for word in words:
        assert word in str(caught.value)
    assert "drop" not in str(caught.value)


def test_empty_values_are_missing_and_a_column_of_them_is_told():
    rows, _ = table()
    rows = rows.assign(tmax=np.nan)
    with pytest.raises(DataError, match="at least one known value"):
        sl.as_fields(sl.from_table(rows, **NAMES), dims=("lat", "lon"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "line of column names"),
        ("a.csv.gz", b"no gzip", "line of column names"),
        ("a.csv", b"\xff\xfe\x00\xd8" * 9, "line of column names"),
        ("a.parquet", b"PAR1", "Parquet|line of column names"),
        ("a.nc", b"x", "a table"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=message):
        sl.from_table(tmp_path / name, **NAMES)
    with pytest.raises(FileError, match="nothing of this name"):
        sl.from_table(tmp_path / "none.csv", **NAMES)


def test_a_table_without_named_columns_gets_the_line_that_names_them(tmp_path):
    with gzip.open(tmp_path / "s.csv.gz", "wt") as file:
        table()[0].assign(tmin=0.0)[["id", "lon", "lat", "date", "tmin", "tmax"]].to_csv(file)
    for call in (read, read_dataset):
        with pytest.raises(FileError) as caught:
            call(tmp_path / "s.csv.gz")
        assert "--time date --value tmax --station id --lon lon --lat lat" in caught.value.fix
    names = suggested(pd.DataFrame({"when": ["a"], "x": [0.0], "y": [1.0], "u": [2.0]}))
    assert names == {"x": "x", "y": "y", "value": "u"}


@cross(encoding=["utf-8-sig", "utf-16", "cp1252"],
       head=["", "# made by hand\n# station, place, value\n\n"])  # fmt: skip
def test_encodings_and_comments_before_the_names(tmp_path, encoding, head):
    """Each once ended in 'can't decode byte' or 'expected 1 fields in line 3, saw 5'."""
    rows = table()[0]
    rows["id"] = "Zürich " + rows["id"].astype(str)
    text = head + rows.to_csv(index=False)
    (tmp_path / "s.csv").write_bytes(text.encode(encoding))
    got = sl.from_table(tmp_path / "s.csv", **NAMES)
    assert_as_read(got, sl.from_table(rows, **NAMES))


def test_six_digits_in_a_column_of_dates_are_dates():
    """As numbers July would begin 71 after the 30th of June."""
    for name, numbers, dates in (
        ("date", [870630, 870701, 870702], ["1987-06-30", "1987-07-01", "1987-07-02"]),
        ("yyyymm", [199011, 199012, 199101], ["1990-11-01", "1990-12-01", "1991-01-01"]),
        ("day", [10131, 10201], ["2001-01-31", "2001-02-01"]),
    ):
        got = times_of(pd.Series(numbers, name=name))
        np.testing.assert_array_equal(got, np.array(dates, "datetime64[ns]"))
    for name, numbers in (("seconds", [870630, 870701]), ("day", [100.0, 100.5]), ("day", [1, 2])):
        np.testing.assert_array_equal(times_of(pd.Series(numbers, name=name)), numbers)
    with pytest.raises(DataError, match="which can be %Y%m or %y%m%d"):
        times_of(pd.Series([201001, 201002], name="date"))


def test_tables_of_other_shapes_get_the_line_that_turns_them(tmp_path):
    days = pd.date_range("2001-01-01", periods=5)
    pd.DataFrame({"date": days, "co2": 1.0}).to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(FileError, match="needs several stations"):
        read_dataset(tmp_path / "one.csv")
    parts = pd.DataFrame({"Year": days.year, "month": days.month, "id": "a", "lon": 1.0})
    parts = parts.assign(lat=2.0, rain=3.0)
    parts.to_csv(tmp_path / "parts.csv", index=False)
    with pytest.raises(FileError) as caught:
        read_dataset(tmp_path / "parts.csv")
    assert "to_datetime(frame[['Year', 'month']].assign(day=15))" in caught.value.fix
    assert "--time date --value rain --station id" in caught.value.fix
    rows = pd.DataFrame({f"s{n}": np.arange(5.0) for n in range(12)})
    rows.insert(0, "date", days)
    rows.to_csv(tmp_path / "wide.csv", index=False)
    with pytest.raises(FileError, match="s6 and 5 more") as caught:
        read_dataset(tmp_path / "wide.csv")
    assert "frame.melt(TIME" in caught.value.fix


def test_law_of_a_table_keeps_names_of_stations():
    equation = sl.catalogue.heat_on(sl.Box((0, 10), (0, 6), boundary="neumann"), 4, kappa=0.5)
    places = np.random.default_rng(1).uniform([0, 0], [10, 6], (12, 2))
    made = sl.simulate(equation, 1, np.arange(60.0), places, seed=0, observation_std=0.1)[0]
    rows = made.to_dataframe("u").reset_index().rename(columns={"time": "t", "point": "name"})
    fields = sl.from_table(rows, time="t", value="u", station="name", x="x", y="y")
    law = sl.fit(fields, equation.domain, 3, initial="stationary", nuisance=0)
    later = law.forecast(fields, steps=2)
    assert later["time"].values.tolist() == [60.0, 61.0]
    np.testing.assert_array_equal(later["station"].values, fields["station"].values)
    expected = sl.fit(made, equation.domain, 3, initial="stationary", nuisance=0)
    np.testing.assert_allclose(law.log_likelihood(fields), expected.log_likelihood(made))


def test_a_position_is_no_value():
    rows, _ = table()
    with pytest.raises(DataError, match="'lat' as lat and value"):
        sl.from_table(rows, **NAMES | {"value": "lat"})
