"""The shell from anybody's file to a forecast: tables, dry runs, steps of the record, advice."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import spdelaw as sl

COLUMNS = ("--time", "date", "--value", "tmax", "--station", "id", "--lon", "lon", "--lat", "lat")
FEW = ("--modes", 2, "--nuisance", 0, "--initial", "stationary")


def table(n_times=120, n_stations=9, start="1990-01-01", freq="D"):
    """Long table of a red field with a warm mean, a fifth of its rows gone."""
    rng = np.random.default_rng(3)
    places = rng.uniform([-100, 32], [-80, 46], (n_stations, 2)).round(3)
    box = sl.Box((-100, -80), (32, 46), boundary="neumann")
    equation = sl.SpectralSPDE(box, 3, [0.1, 0.2, 0.3], noise=[90.0, 50.0, 50.0],
                               initial="stationary")  # fmt: skip
    made = sl.simulate(equation, 1, np.arange(n_times), places, seed=0, observation_std=0.3)
    when, which = np.nonzero(rng.random((n_times, n_stations)) > 0.2)
    days = pd.date_range(start, periods=n_times, freq=freq)
    return pd.DataFrame({
        "id": which + 7000, "lon": places[which, 0], "lat": places[which, 1],
        "date": days[when].strftime("%Y-%m-%d"), "tmax": made.values[0][when, which] + 20,
    }).sample(frac=1, random_state=0)  # fmt: skip


@pytest.fixture
def stations(folder):
    rows = table()
    rows.to_csv("stations.csv.gz", index=False)
    return rows


def test_table_to_forecast_report_and_scores(run, run_json, stations):
    fit = ("fit", "stations.csv.gz", *COLUMNS, *FEW, "--anomalies", "mean", "--out", "a.law")
    document = run_json(*fit)
    told = "; ".join(document["guesses"])
    for words in ("box in degrees", "scattered points", "y = lat, x = lon", "counted in days",
                  "neumann, because points are scattered"):  # fmt: skip
        assert words in told
    raw = sl.from_table(stations, time="date", value="tmax", station="id", lon="lon", lat="lat")
    law = sl.load("a.law")
    expected = sl.fit(raw, law.domain, 2, prepare=sl.Preparation(anomalies="mean"), nuisance=0,
                      initial="stationary")  # fmt: skip
    xr.testing.assert_allclose(law.parameters, expected.parameters)
    run("forecast", "a.law", "stations.csv.gz", "--steps", 3, "--out", "f.nc")
    with xr.open_dataset("f.nc") as opened:
        mean = opened["mean"].load()
    last = raw["time"].values[-1]
    np.testing.assert_array_equal(mean["time"], last + np.arange(1, 4) * np.timedelta64(1, "D"))
    np.testing.assert_allclose(mean.values, expected.forecast(raw, steps=3)["mean"].values)
    assert 10 < float(mean.mean()) < 30
    run("reconstruct", "a.law", "stations.csv.gz", "--out", "r.nc")
    run("evaluate", "a.law", "stations.csv.gz")


def test_names_of_stations_survive_in_a_file(run, stations):
    run("fit", "stations.csv.gz", *COLUMNS, *FEW, "--anomalies", "mean", "--out", "a.law")
    run("reconstruct", "a.law", "stations.csv.gz", "--out", "r.nc")
    names = sorted(stations["id"].astype(str).unique())
    assert sl.data.read_dataset("r.nc")["station"].values.tolist() == names


def test_info_and_fit_agree(run, fails, stations):
    stations.assign(tmin=0.0).to_csv("two.csv", index=False)
    told = fails("info", "two.csv")
    assert "--time date --value tmin --station id --lon lon --lat lat" in told
    assert told == fails("fit", "two.csv", "--out", "a.law")
    text = run("info", "stations.csv.gz", *COLUMNS).stdout
    assert "columns are time = date, station = id" in run("info", "stations.csv.gz").stdout
    for words in ("1 path × 120 time × 9 point", "1990-01-01 to 1990-04-30, steps of 1 day",
                  "a fit would take: box in degrees", "note: the field has a mean"):  # fmt: skip
        assert words in text
    assert "did you mean tmax" in fails("info", "stations.csv.gz", *COLUMNS[:3], "tmx",
                                        *COLUMNS[4:])  # fmt: skip


def test_columns_whose_names_leave_no_doubt_are_taken_and_said(run, run_json, stations):
    fit = ("fit", "stations.csv.gz", *FEW, "--anomalies", "mean", "--out")
    told = run_json(*fit, "a.law")["guesses"]
    assert "columns are time = date, station = id, lon = lon, lat = lat, value = tmax" in told
    run_json(*fit, "b.law", *COLUMNS)
    one, two = (sl.load(name) for name in ("a.law", "b.law"))
    xr.testing.assert_identical(one.parameters, two.parameters)
    run("forecast", "a.law", "stations.csv.gz", "--steps", 2, "--out", "f.nc")


def test_dry_run_says_everything_and_writes_nothing(run, run_json, fails, stations, folder):
    options = ("fit", "stations.csv.gz", *COLUMNS)
    document = run_json(*options, "--dry-run")
    assert document["dry_run"]
    assert document["shape"] == {"path": 1, "time": 120, "point": 9}
    assert document["domain"]["name"] == "box"
    assert any("--anomalies mean" in note for note in document["notes"])
    document = run_json(*options, "--anomalies", "mean", "--detrend", "--dry-run")
    assert document["prepared_by"] == ["anomalies against the mean", "linear trend removed"]
    assert document["notes"] == []
    text = run(*options, "--dry-run").stdout
    for words in ("guessed: stations along point", "shape", "missing", "note: the field has"):
        assert words in text
    assert sorted(p.name for p in folder.iterdir()) == ["stations.csv.gz"]
    assert "--out" in fails(*options)


def test_broken_tables_are_one_line(fails, folder):
    rows = table(20, 4)
    cases = {
        "empty.csv": ("", "line of column names"),
        "gone.csv": (rows.assign(tmax=np.nan).to_csv(index=False), "known value"),
        "twice.csv": (
            pd.concat([rows, rows[:2].assign(tmax=99.0)]).to_csv(index=False), "contradict"
        ),
        "one.csv": (rows[rows.id == 7000].to_csv(index=False), "points that differ"),
        "fill.csv": (rows.assign(tmax=rows.tmax.where(rows.id != 7001, -9999)).to_csv(index=False),
                     "--missing -9999"),
    }  # fmt: skip
    for name, (content, words) in cases.items():
        (folder / name).write_text(content)
        assert words in fails("fit", name, *COLUMNS, "--out", "a.law")


def test_decimal_commas_and_rows_that_say_the_same_again(run_json, folder):
    rows = table(20, 4)
    rows.to_csv("plain.csv", index=False)
    rows.to_csv("comma.csv", index=False, sep=";", decimal=",")
    pd.concat([rows, rows[:9], rows[:3].assign(tmax=np.nan)]).to_csv("again.csv", index=False)
    shapes = [
        run_json("info", f"{name}.csv", *COLUMNS)["fields"] for name in ("plain", "comma", "again")
    ]
    assert len({str(shape["values"]) for shape in shapes}) == 1
    assert len({shape["fingerprint"] for shape in shapes}) == 1


def test_ninety_per_cent_missing_and_declared_fills(run_json, folder):
    rows = table(200, 9)
    kept = rows.sample(frac=0.12, random_state=1)
    kept.to_csv("few.csv", index=False)
    document = run_json("fit", "few.csv", *COLUMNS, *FEW, "--anomalies", "mean", "--drift",
                        "parametric", "--out", "a.law")  # fmt: skip
    assert document["law"]["info"]["n_points"] == 9
    rows.assign(tmax=rows.tmax.where(rows.id != 7001, -9999)).to_csv("fill.csv", index=False)
    document = run_json("fit", "fill.csv", *COLUMNS, "--missing", "-9999", "--anomalies", "mean",
                        "--dry-run")  # fmt: skip
    assert document["missing"] > 0.25


# ------------------------------------------------------------------ grids


def monthly_map(name="sst.nc", calendar=None):
    lat = np.arange(-28.0, 30.0, 8.0)
    time = pd.date_range("2010-01-01", periods=60, freq="MS")
    if calendar:
        time = xr.date_range("2010-01-01", periods=60, freq="MS", calendar=calendar,
                             use_cftime=True)  # fmt: skip
    lon = np.arange(124.0, 290.0, 12.0)
    box = sl.Box((120, 290), (-30, 30), boundary="neumann")
    equation = sl.SpectralSPDE(box, 3, [0.01, 0.02, 0.03], noise=[9.0] * 3, initial="stationary")
    made = sl.simulate(equation, 1, np.arange(60) * 30.4, (lon, lat), seed=0, observation_std=0.2)
    values = np.swapaxes(made.values[0], 1, 2) + 27
    month = np.arange(60) % 12
    values += 2 * np.cos(2 * np.pi * month / 12)[:, None, None]
    values[:, 0, :3] = np.nan
    array = xr.DataArray(values, {"time": time, "lat": lat, "lon": lon}, ("time", "lat", "lon"),
                         "sst", {"units": "degC", "valid_range": [-2.0, 60.0]})  # fmt: skip
    array["lat"].attrs["units"], array["lon"].attrs["units"] = "degrees_north", "degrees_east"
    array.to_dataset().to_netcdf(name, engine="h5netcdf")
    return array


@pytest.mark.parametrize("calendar", [None, "noleap"])
def test_six_steps_of_monthly_data_are_six_months(run, run_json, folder, calendar):
    raw = monthly_map(calendar=calendar)
    document = run_json("fit", "sst.nc", "--anomalies", "month", *FEW, "--out", "a.law")
    assert document["law"]["domain"]["boundary"] == ["neumann", "neumann"]
    assert "free at its ends" in "; ".join(document["guesses"])
    run("forecast", "a.law", "sst.nc", "--steps", 6, "--out", "f.nc")
    with xr.open_dataset("f.nc", decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as got:
        result = got.load()
    assert [(d.month, d.day) for d in result["time"].values] == [(m, 1) for m in range(1, 7)]
    assert result["mean"].dims == ("path", "time", "lat", "lon")
    assert result["mean"].attrs["units"] == "degC"
    assert result["lat"].attrs["units"] == "degrees_north"
    land = raw.isnull().all("time").values
    np.testing.assert_array_equal(np.isnan(result["mean"].values[0, 0]), land)
    run("forecast", "a.law", "sst.nc", "--until", "2015-03-15", "--out", "g.nc")
    with xr.open_dataset("g.nc") as opened:
        assert opened.sizes["time"] == 3


def test_periods_are_selected_and_not_kept(run_json, fails, folder):
    monthly_map()
    document = run_json("fit", "sst.nc", "--select", "time=2010:2012-12", "--select",
                        "lon=-180:-90", "--anomalies", "month", *FEW, "--out", "a.law")  # fmt: skip
    assert document["law"]["info"]["n_times"] == 36
    sides = document["law"]["domain"]["sides"]
    assert sides[0] == [-176.0, -92.0]
    run_json("evaluate", "a.law", "sst.nc")
    assert "a period within" in fails("fit", "sst.nc", "--select", "time=1990:1991",
                                      "--dry-run")  # fmt: skip


def test_members_and_leads_from_a_file(run_json, run, folder):
    raw = monthly_map()
    both = xr.concat([raw, raw + 0.1], xr.DataArray([1, 2], dims="number", name="number"))
    both.to_dataset(name="sst").to_netcdf("ens.nc", engine="h5netcdf")
    document = run_json("fit", "ens.nc", "--anomalies", "month", "--dry-run")
    assert document["shape"]["path"] == 2
    assert "number is path" in document["guesses"]
    starts = xr.DataArray(pd.date_range("2000", periods=4, freq="YS"), dims="init", name="init")
    leads = raw.isel(time=slice(12)).rename(time="lead").assign_coords(lead=np.arange(12))
    hindcast = xr.concat([leads + 0.1 * k for k in range(4)], starts)
    hindcast.to_dataset(name="sst").to_netcdf("hind.nc", engine="h5netcdf")
    document = run_json("fit", "hind.nc", "--anomalies", "lead", "--dry-run")
    assert (document["shape"]["path"], document["shape"]["time"]) == (4, 12)
    run("info", "hind.nc")


def test_box_that_is_zero_at_its_edge_is_pinned_and_said(run_json, folder):
    equation = sl.catalogue.heat_on(sl.Box((0, 1), (0, 2)), 4)
    fields = sl.simulate(equation, 20, seed=0)
    fields.attrs = {}
    xr.Dataset({"u": fields}).to_netcdf("plate.nc", engine="h5netcdf")
    document = run_json("fit", "plate.nc", "--domain", "box", "--dry-run")
    assert document["domain"]["boundary"] == ["dirichlet", "dirichlet"]
    assert any("zero at both ends" in guess for guess in document["guesses"])
