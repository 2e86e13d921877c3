"""Tables out: the inverse of `from_table`, results with their columns, and quantities in rows."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.journeys.records import monthly_map, stations

import spdelaw as sl
from spdelaw.data.io.tables import Columns
from spdelaw.errors import DataError, FileError, InputError

NAMES = {"time": "date", "value": "tmax", "station": "id", "lon": "lon", "lat": "lat"}


@pytest.mark.parametrize(
    "names",
    [NAMES, {k: v for k, v in NAMES.items() if k != "station"}, {"time": "date", "value": "tmax",
     "x": "lon"}],
)  # fmt: skip
def test_round_trip(names):
    rows = stations(6, 20)
    fields = sl.from_table(rows, **names)
    table = sl.to_table(fields)
    assert next(iter(table.columns)) == "date"
    assert len(table) == len(rows)
    assert sl.from_table(table, **names).identical(fields)


def test_names_of_columns_are_those_of_the_table_or_given():
    fields = sl.from_table(stations(3, 5), **NAMES)
    assert list(sl.to_table(fields).columns) == ["date", "id", "lon", "lat", "tmax"]
    table = sl.to_table(fields, time="day", value="t")
    assert list(table.columns) == ["day", "id", "lon", "lat", "t"]
    bare = sl.to_table(fields.drop_attrs())
    assert list(bare.columns) == ["time", "station", "lon", "lat", "tmax"]


def test_grids_paths_and_draws():
    tos = monthly_map(n_years=1)["tos"]
    table = sl.to_table(tos)
    assert list(table.columns) == ["time", "lat", "lon", "tos"]
    assert len(table) == tos.size
    heat = sl.catalogue.heat(n_modes=2)
    fields = sl.simulate(heat, 3, [0.0, 0.5, 1.0], [1.0, 2.0], seed=0)
    table = sl.to_table(fields.where(fields.x > 1.5))
    assert list(table.columns) == ["time", "path", "x", "field"]
    assert len(table) == 9  # rows without a value are left out
    result = xr.Dataset({"mean": fields, "sample": fields.expand_dims(draw=2)})
    assert list(sl.to_table(result).columns)[-3:] == ["mean", "sample_0", "sample_1"]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
def test_files(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    fields = sl.from_table(stations(3, 5), **NAMES)
    sl.write(fields, tmp_path / name)
    assert sl.from_table(tmp_path / name, **NAMES).identical(fields)
    with pytest.raises(FileError, match="free name"):
        sl.write(fields, tmp_path / name, overwrite=False)


def test_dates_that_are_numbers_become_dates():
    fields = sl.as_fields(sl.from_table(stations(3, 5), **NAMES), dims=("lat", "lon"))
    assert fields["time"].dtype == float
    assert sl.to_table(fields)["date"].iloc[0] == pd.Timestamp("1990-01-01")


def test_several_quantities_in_rows():
    rows = stations(4, 10)
    both = pd.concat([rows.assign(kind="TMAX"), rows.assign(kind="TMIN", tmax=rows.tmax - 8)])
    with pytest.raises(DataError, match=r"TMAX, TMIN in the column 'kind'.*quantity='kind=TMAX'"):
        sl.from_table(both, **NAMES)
    low = sl.from_table(both, **NAMES, quantity="kind=TMIN")
    np.testing.assert_allclose(low, sl.from_table(rows, **NAMES) - 8)
    with pytest.raises(DataError, match="one of TMAX, TMIN"):
        sl.from_table(both, **NAMES, quantity="kind=RAIN")
    with pytest.raises(DataError, match="one of the columns"):
        sl.from_table(both, **NAMES, quantity="element=TMIN")


def test_columns_as_text():
    columns = Columns(**NAMES, quantity="kind=TMAX")
    assert Columns.parse(columns.text) == columns
    assert Columns.parse("") == Columns()
    with pytest.raises(InputError, match="such as time=date"):
        Columns.parse("when=date")


def test_tables_and_files_go_into_every_verb(tmp_path):
    rows = stations(6, 60)
    words = {"residual": "white", "nuisance": 0, "mean": "zero", "initial": "stationary"}
    law = sl.fit(rows, None, 2, prepare=sl.Preparation(anomalies="mean"), **words)
    fields = sl.from_table(rows, **NAMES)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for data in (rows, rows.set_index("date"), tmp_path / "rows.csv", str(tmp_path / "rows.csv")):
        ahead = law.forecast(data, steps=2)
        np.testing.assert_array_equal(ahead["mean"], law.forecast(fields, steps=2)["mean"])
    assert ahead.attrs["columns"] == fields.attrs["columns"]
    other = rows.rename(columns={"tmax": "maximum"})
    with pytest.raises(DataError, match="one of the columns date, id, lon, lat, maximum"):
        law.forecast(other, steps=2)
    with pytest.raises(FileError, match=r"pass sl.from_table\(table, time='date'"):
        sl.fit(rows.rename(columns={"lat": "north", "lon": "east"}), None, 2)


def test_times_and_points_of_bare_arrays():
    tos = monthly_map(n_years=2)["tos"]
    points = {"lat": tos.lat.values, "lon": tos.lon.values}
    law = sl.fit(
        tos.values, None, 2, times=tos.time.values, points=points, residual="white", nuisance=0,
        prepare=sl.Preparation(anomalies="mean"),
    )  # fmt: skip
    named = sl.fit(
        tos, None, 2, residual="white", nuisance=0, prepare=sl.Preparation(anomalies="mean")
    )
    np.testing.assert_allclose(law.dynamics.drift, named.dynamics.drift)
    with pytest.raises(DataError, match="times="):
        law.reconstruct(tos.values)
    with pytest.raises(DataError, match="it once"):
        law.reconstruct(tos, times=tos.time.values)


def test_units_are_stated_or_in_a_column_and_stay_with_results(tmp_path):
    rows = stations(6, 40)
    stated = sl.from_table(rows, **NAMES, units="degC")
    assert stated.attrs["units"] == "degC"
    table = sl.to_table(stated)
    assert list(table.columns)[-2:] == ["tmax", "units"]
    assert sl.from_table(table, **NAMES).attrs["units"] == "degC"
    law = sl.fit(
        stated, sl.Box((-97, -87), (37, 45), boundary="neumann"), 2, mean="zero", nuisance=0
    )
    assert law.parameters["noise_variance"].attrs["units"] == "degC^2/days"
    assert set(sl.to_table(law.forecast(rows, steps=2))["units"]) == {"degC"}
    with pytest.raises(DataError, match=r"column 'units': expected .*, K, got degC"):
        sl.from_table(table, **NAMES, units="K")
    table.loc[3, "units"] = "K"
    with pytest.raises(DataError, match="the same units in all rows, got degC, K"):
        sl.from_table(table, **NAMES)
