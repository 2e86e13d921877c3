"""Raw files of other programs: what is guessed, overruled, configured, and undone on output."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.data import builders
from tests.data.builders import MONTHS

import spdelaw as sl
from spdelaw.data import guess_boundary, guess_layout, guess_unit
from spdelaw.errors import DataError

FEW = ("--modes", 2, "--nuisance", 0, "--initial", "stationary")


def raw_file(name="sst.nc", lat=(-1.0, 0.0, 1.0), extra=None):
    """A red field over (time, lat, lon) with a season, in kelvin."""
    lon = np.linspace(150.0, 210.0, 13)
    lam, q = np.array([0.005, 0.01, 0.02]), np.full(3, 2.0)
    equation = sl.SpectralSPDE(sl.Interval(150, 210, "neumann"), 3, lam, noise=q,
                               initial="stationary")  # fmt: skip
    days = (MONTHS - MONTHS[0]) / np.timedelta64(1, "D")
    values = sl.simulate(equation, 1, days, lon, seed=0, observation_std=0.1).values[0]
    month = MONTHS.astype("datetime64[M]").astype(int) % 12
    values = 300 + values + np.cos(2 * np.pi * month / 12)[:, None]
    field = xr.DataArray(
        np.repeat(values[:, None], len(lat), 1), dims=("time", "lat", "lon"),
        coords={"time": MONTHS, "lat": np.array(lat), "lon": lon}, attrs={"units": "K"},
    )  # fmt: skip
    dataset = xr.Dataset({"sst": field, **(extra or {})})
    dataset.to_netcdf(name, engine="h5netcdf")
    return dataset


def test_dataset_is_copied_with_its_licence(run_json, fails, folder):
    document = run_json("dataset", "equatorial-pacific", "--out", "sst.nc")
    assert "Open Government Licence" in document["licence"]
    assert document["shape"] == {"time": 54, "latitude": 7, "longitude": 145}
    with xr.open_dataset("sst.nc") as opened:
        np.testing.assert_array_equal(
            opened["surface_temperature"], sl.datasets.equatorial_pacific()
        )
    assert "exists" in fails("dataset", "equatorial-pacific", "--out", "sst.nc")
    assert "one of equatorial-pacific" in fails("dataset", "moon", "--out", "a.nc")
    assert ".nc" in fails("dataset", "equatorial-pacific", "--out", "a.zarr")
    assert run_json("dataset", "pacific-sst", "--out", "p.nc")["shape"]["lat"] == 15
    table = run_json("dataset", "station-tmax", "--out", "t.csv")
    run_json("dataset", "station-tmax", "--out", "t.csv.gz")
    for file in ("t.csv", "t.csv.gz"):
        assert len(pd.read_csv(file)) == table["shape"]["rows"] == len(sl.datasets.station_tmax())
    assert ".csv" in fails("dataset", "station-tmax", "--out", "t.nc")


def test_fit_guesses_and_says_so(run, run_json, folder):
    raw = raw_file()
    document = run_json("fit", "sst.nc", *FEW, "--anomalies", "month", "--out", "a.law")
    told = "; ".join(document["guesses"])
    for part in ("space is lon", "mean over lat by area", "dates, counted in days", "neumann"):
        assert part in told
    how = sl.Preparation(average="lat", rename={"lon": "x"}, anomalies="month")
    expected = sl.fit(raw["sst"], sl.Interval(150, 210, "neumann"), 2, prepare=how, nuisance=0,
                      initial="stationary")  # fmt: skip
    xr.testing.assert_allclose(sl.load("a.law").parameters, expected.parameters)
    text = run("fit", "sst.nc", *FEW, "--anomalies", "month", "--boundary", "dirichlet",
               "--bounds", 140, 220, "--time-unit", "hours", "--out", "b.law").stdout  # fmt: skip
    assert "Guessed: space is lon" in text
    law = sl.load("b.law")
    assert law.domain == sl.Interval(140, 220)
    assert law.info["time"]["units"].startswith("hours since")


def test_forecast_in_dates_and_kelvin(run_json, fails, folder):
    raw_file()
    run_json("fit", "sst.nc", *FEW, "--anomalies", "month", "--out", "a.law")
    common = ("forecast", "a.law", "sst.nc", "--out", "f.nc")
    run_json(*common, "--times", "2006-01-01,2006-07-01")
    with xr.open_dataset("f.nc") as opened:
        assert opened["time"].values.astype("datetime64[D]").astype(str).tolist() == [
            "2006-01-01", "2006-07-01",
        ]  # fmt: skip
        assert 295 < float(opened["mean"].mean()) < 305
    document = run_json(*common, "--until", "2006-03-01", "--steps", 3, "--force")
    assert len(document["times"]) == 3
    assert "after the history" in fails(*common, "--until", "2001-03-01", "--force")
    assert "dates such as" in fails(*common, "--until", "soon", "--force")
    for command in (("reconstruct", "a.law", "sst.nc", "--out", "r.nc"),
                    ("evaluate", "a.law", "sst.nc")):  # fmt: skip
        run_json(*command)


def test_several_variables_have_to_be_told_apart(fails, run_json, folder):
    other = xr.DataArray(np.ones((60, 3, 13)), dims=("time", "lat", "lon"))
    raw_file(extra={"ice": other})
    assert "--variable" in fails("fit", "sst.nc", "--out", "a.law")
    run_json("fit", "sst.nc", *FEW, "--variable", "sst", "--anomalies", "month", "--out", "a.law")
    run_json("reconstruct", "a.law", "sst.nc", "--out", "r.nc")


def test_wide_bands_are_not_averaged_without_asking(fails, run_json, folder):
    raw_file(lat=(-60.0, -1.0, 1.0, 60.0))
    document = run_json("fit", "sst.nc", "--dry-run")
    assert document["domain"]["name"] == "box"
    assert "box in degrees, because it covers 60 degrees" in "; ".join(document["guesses"])
    assert "--select lat=-2:2" in fails("fit", "sst.nc", "--domain", "interval", "--out", "a.law")
    narrow = ("--select", "lat=-2:2", "--select", "lon=160:200", "--coarsen", "x=2")
    document = run_json("fit", "sst.nc", *FEW, *narrow, "--detrend", "--out", "a.law")
    assert document["law"]["info"]["n_points"] == 4
    assert "lat from -2 to 2" in document["law"]["info"]["preparation"]
    assert "--select" in fails("fit", "sst.nc", "--select", "lat", "--out", "b.law")
    assert "--coarsen" in fails("fit", "sst.nc", "--coarsen", "x=two", "--out", "b.law")
    assert "anomalies" in fails("fit", "sst.nc", "--along", "lon", "--anomalies", "no",
                                "--out", "b.law")  # fmt: skip
    assert "along" in fails("fit", "sst.nc", "--along", "depth", "--out", "b.law")


# ------------------------------------------------------------------ config


def test_config_sets_options_and_the_command_line_overrules(run_json, folder):
    raw_file()
    (folder / "fit.yaml").write_text(
        "modes: 2\nnuisance: 0\ninitial: stationary\nanomalies: month\nout: a.law\n"
        "select: ['lon=150:190']\nbounds: [150, 190]\ndetrend: true\n"
    )
    document = run_json("fit", "sst.nc", "--config", "fit.yaml", "--modes", 1)
    assert document["law"]["n_modes"] == 1
    assert document["law"]["domain"]["b"] == 190
    assert "linear trend removed" in document["law"]["info"]["preparation"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modes: 2\nmodez: 3\n", "fit.yaml, line 2: expected an option of the command"),
        ("engin: exact\n", "Fix: did you mean engine?"),
        ("modes: 2\nmodes: 3\n", "line 2: expected modes once"),
        ("level: high\n", "line 1: expected a value for level"),
        ("bounds: 3\n", "line 1: expected a list"),
        ("modes: [1, 2]\n", "line 1: expected one value for modes"),
        ("detrend: 7\n", "line 1: expected true or false"),
        ("modes: true\n", "line 1: expected no true or false"),
        ("modes:\n", "line 1: expected a value for modes, got nothing"),
        ("modes: {a: 1}\n", "line 1: expected a value for modes, got nested"),
        ("# comment\n\nengine: magic\n", "line 3, engine: expected one of exact"),
        ("modes: 2\n  x: [\n", "line 2"),
        ("- 1\n- 2\n", "line 1: expected options as 'name: value'"),
        ("just text\n", "line 1: expected options"),
        ("config: other.yaml\n", "line 1: expected an option"),
    ],
)  # fmt: skip
def test_config_errors_name_the_line(fails, folder, text, message):
    raw_file()
    (folder / "fit.yaml").write_text(text)
    assert message in fails("fit", "sst.nc", "--config", "fit.yaml", "--out", "a.law")


def test_config_that_is_no_text(fails, folder):
    raw_file()
    (folder / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    assert "--config" in fails("fit", "sst.nc", "-c", "bad.yaml", "--out", "a.law")
    assert "--config" in fails("fit", "sst.nc", "-c", "none.yaml", "--out", "a.law")
    (folder / "empty.yaml").write_text("")
    assert "--modes" in fails("fit", "sst.nc", "-c", "empty.yaml", "--modes", "x", "-o", "a.law")


# ------------------------------------------------------------------ guesses by themselves


def layout(dims, sizes=None, attrs=None, name="u"):
    shape = [(sizes or {}).get(d, 4) for d in dims]
    coords = {d: (d, np.arange(float(n)), (attrs or {}).get(d, {}))
              for d, n in zip(dims, shape, strict=True)}  # fmt: skip
    return xr.Dataset({name: (dims, np.zeros(shape))}, coords=coords)


@pytest.mark.parametrize(
    ("dataset", "rename", "average"),
    [
        (layout(("time", "x")), {}, ()),
        (layout(("t", "s")), {"t": "time", "s": "x"}, ()),
        (layout(("member", "time", "lon")), {"member": "path", "lon": "x"}, ()),
        (layout(("a", "b"), attrs={"a": {"axis": "T"}}), {"a": "time", "b": "x"}, ()),
        (layout(("time", "depth", "lon"), {"depth": 1}), {"lon": "x"}, ("depth",)),
        (layout(("time", "lat", "lon")), {"lon": "x"}, ("lat",)),
        (layout(("time", "j", "i"), attrs={"j": {"units": "degrees_north"}}), {"i": "x"}, ("j",)),
    ],
)
def test_layout(dataset, rename, average):
    how = guess_layout(dataset).preparation
    assert dict(how.rename) == rename
    assert how.average == average


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (layout(("a", "b")), "one field over time"),
        (layout(("time", "y", "x")), "one spatial dim"),
        (layout(("time",)), "over time alone"),
        (xr.Dataset(), "one field over time"),
    ],
)
def test_layouts_that_cannot_be_guessed(dataset, message):
    with pytest.raises(DataError, match=message):
        guess_layout(dataset)


def test_bounds_of_coordinates_are_no_fields():
    dataset = layout(("time", "x"))
    dataset["time_bnds"] = (("time", "nv"), np.zeros((4, 2)))
    dataset["time"].attrs["bounds"] = "time_bnds"
    assert guess_layout(dataset).preparation.variable == "u"


def test_boundary():
    lon = np.arange(0.0, 360.0, 10.0)
    around = sl.as_fields(np.ones((3, 36)), times=[0, 1, 2], points=lon)
    around["x"].attrs["units"] = "degrees_east"
    assert guess_boundary(around)[:2] == ("periodic", (0.0, 360.0))
    x = np.linspace(0, np.pi, 9)
    pinned = sl.as_fields(np.tile(np.sin(x), (3, 1)), times=[0, 1, 2], points=x)
    assert guess_boundary(pinned)[0] == "dirichlet"
    free = sl.as_fields(np.tile(np.cos(x), (3, 1)), times=[0, 1, 2], points=x)
    assert guess_boundary(free)[:2] == ("neumann", (0.0, np.pi))
    with pytest.raises(DataError, match="at least two points"):
        guess_boundary(free.isel(x=[0]))


def test_unit_follows_the_step():
    start = np.datetime64("2000-01-01", "ns")
    for step, unit in (("30D", "days"), ("1h", "hours"), ("10s", "seconds")):
        n, code = int(step[:-1]), step[-1]
        assert guess_unit(start + np.arange(4) * np.timedelta64(n, code)) == unit


# ------------------------------------------------------------------ several spatial dims


@pytest.fixture
def globe(folder):
    """Kelvin with a season and land, dims in another's order and latitudes from the north."""
    field = builders.globe().transpose("longitude", "latitude", "time")
    dataset = field.isel(latitude=slice(None, None, -1)).to_dataset(name="t2m")
    dataset.to_netcdf("globe.nc", engine="h5netcdf")
    return dataset


def test_sphere_in_dates_and_kelvin(run, run_json, globe):
    prepare = ("--anomalies", "month", "--detrend", "--standardise", "point")
    common = ("--modes", 4, "--nuisance", 0, "--initial", "stationary")
    document = run_json("fit", "globe.nc", "--domain", "sphere", *common, *prepare,
                        "--out", "a.law")  # fmt: skip
    assert "space is lon = longitude, lat = latitude" in document["guesses"]
    law = sl.load("a.law")
    how = sl.Preparation(rename={"latitude": "lat", "longitude": "lon"}, anomalies="month",
                         detrend=True, standardise="point")  # fmt: skip
    expected = sl.fit(globe["t2m"], sl.Sphere(), 4, prepare=how, nuisance=0, initial="stationary")
    xr.testing.assert_allclose(law.parameters, expected.parameters)
    run("forecast", "a.law", "globe.nc", "--times", "2006-01-01,2006-07-01", "--out", "f.nc")
    with xr.open_dataset("f.nc") as opened:
        mean = opened["mean"].load()
    assert mean.dims == ("path", "time", "latitude", "longitude")
    assert mean.attrs["cell_methods"] == "realization: mean"
    assert mean["time"].values.astype("datetime64[D]").astype(str).tolist() == [
        "2006-01-01", "2006-07-01",
    ]  # fmt: skip
    assert 278 < float(mean.mean()) < 282
    land = globe["t2m"].isnull().all("time").sortby("latitude").transpose("latitude", "longitude")
    np.testing.assert_array_equal(mean[0, 0].isnull(), land)
    run("reconstruct", "a.law", "globe.nc", "--out", "r.nc")
    run("evaluate", "a.law", "globe.nc")


def test_box_of_longitudes_and_latitudes(run_json, fails, globe):
    """Without its own names a box takes the longitude for x; latitudes are still by area."""
    options = ("--domain", "box", "--boundary", "neumann", "--select", "latitude=-80:0",
               "--coarsen", "longitude=2", "--anomalies", "dayofyear")  # fmt: skip
    document = run_json("fit", "globe.nc", *options, *FEW, "--out", "a.law")
    law = sl.load("a.law")
    assert law.domain.sides == ((30.0, 330.0), (-75.0, -15.0))
    assert document["law"]["info"]["n_points"] == 18
    assert "mean of 2 neighbours in longitude" in document["law"]["info"]["preparation"]
    assert "leave --along out" in fails("fit", "globe.nc", *options, "--along", "longitude",
                                        "--out", "b.law")  # fmt: skip
    assert "can be lat, lon" in fails("fit", "globe.nc", "--domain", "sphere", "--average",
                                      "latitude", "--detrend", "--out", "b.law")  # fmt: skip
    document = run_json("fit", "globe.nc", "--anomalies", "mean", "--dry-run")
    assert document["domain"] == {"name": "sphere", "radius": 1.0}


@pytest.mark.parametrize(
    ("dataset", "dims", "rename"),
    [
        (layout(("time", "y", "x")), ("x", "y", "z"), {}),
        (layout(("time", "b", "a")), ("x", "y", "z"), {"b": "x", "a": "y"}),
        (layout(("time", "c", "b", "a")), ("x", "y", "z"), {"c": "x", "b": "y", "a": "z"}),
        (layout(("time", "lat", "lon")), ("x", "y"), {"lon": "x", "lat": "y"}),
        (layout(("t", "lon", "lat")), ("lat", "lon"), {"t": "time"}),
    ],
)
def test_layout_in_space(dataset, dims, rename):
    assert dict(guess_layout(dataset, dims=dims).preparation.rename) == rename
