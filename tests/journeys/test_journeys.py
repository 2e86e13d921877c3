"""Seven journeys from a file to a law and back, through the shell or through Python."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.journeys import records
from typer.testing import CliRunner

import spdelaw as sl
from spdelaw.cli.shell import app

NAMES = {"time": "date", "value": "tmax", "station": "id", "lon": "lon", "lat": "lat"}
#: Few, stated choices: a journey is about its steps, not about the search.
PLAIN = "--residual white --nuisance 0 --mean zero --initial stationary"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Run a command that has to succeed, in an empty folder; its JSON document."""
    monkeypatch.chdir(tmp_path)

    def run(line):
        result = CliRunner().invoke(app, [*line.split(), "--json"])
        assert result.exit_code == 0, result.stderr or result.exception
        return json.loads(result.stdout)

    return run


def stored(name):
    with xr.open_dataset(name, engine="h5netcdf") as opened:
        return opened.load()


def test_pacific_map(shell):
    """From the question to the law that `skill` chose, its forecast, and its report on new data."""
    sst = sl.datasets.pacific_sst()[:, ::2, ::3]
    sst.to_dataset().to_netcdf("sst.nc", engine="h5netcdf")
    chosen = shell(
        "skill sst.nc --anomalies month --domain eof --modes 3 --leads 1,3 --refits 1 "
        "--most-origins 12 --drift dense --residual white --save-law best.law"
    )
    assert chosen["fit"]["domain"] == "eof"
    words = {"n_modes": "modes"}
    options = [f"--{words.get(k, k).replace('_', '-')} {v}" for k, v in chosen["fit"].items()]
    fitted = shell(f"fit sst.nc --anomalies month {' '.join(options)} --out again.law")
    best, again = sl.load("best.law"), sl.load("again.law")
    np.testing.assert_allclose(
        best.parameters.drift.sel(statistic="estimate"),
        again.parameters.drift.sel(statistic="estimate"), rtol=1e-4, atol=1e-6,
    )  # fmt: skip
    assert fitted["domain_from"] == "EOFs of the data"
    shell("forecast best.law sst.nc --steps 3 --out ahead.nc")
    ahead = stored("ahead.nc")
    assert ahead["mean"].dims == ("path", "time", "lat", "lon")
    assert ahead["mean"].attrs["units"] == "degC"
    land = sst.isnull().all("time")
    assert (ahead["mean"][0, 0].isnull() == land).all()


def test_table_of_stations(shell):
    """A table in gives a table out, under its own column names, also at new places."""
    rows = records.stations(n_days=120)
    rows.to_csv("stations.csv", index=False)
    shell(f"fit stations.csv --anomalies mean --modes 4 {PLAIN} --out tmax.law")
    shell("forecast tmax.law stations.csv --steps 2 --out ahead.csv")
    ahead = pd.read_csv("ahead.csv")
    assert list(ahead.columns) == ["date", "id", "lon", "lat", "mean", "std", "std_field"]
    assert len(ahead) == 2 * rows["id"].nunique()
    assert ahead["date"].min() == "1990-05-01"
    shell(
        "fill stations.csv --anomalies mean --modes 4 --basis domain --drift diagonal "
        "--residual white --units degC --out full.csv --save-law fill.law"
    )
    full = pd.read_csv("full.csv")
    assert len(full) == 120 * rows["id"].nunique()
    assert set(full["units"]) == {"degC"}
    there = rows.merge(full, on=["date", "id"])
    np.testing.assert_allclose(there["mean"], there["tmax"])
    pd.DataFrame({"name": ["A"], "lon": [-92.0], "lat": [41.0]}).to_csv("new.csv", index=False)
    shell("reconstruct fill.law stations.csv --places new.csv --out new-tmax.csv")
    assert len(pd.read_csv("new-tmax.csv")) == 120
    card = shell("evaluate tmax.law stations.csv")
    assert 0.9 < card["scorecard"]["tiers"]["predict"]["coverage"] < 1.0


def test_hindcast(shell):
    """Starts and leads on a curvilinear grid: fitted, forecast, and verified."""
    forecasts, observations = records.hindcast(20, 6)
    forecasts.to_netcdf("dple.nc", engine="h5netcdf")
    observations.to_netcdf("observed.nc", engine="h5netcdf")
    shell("fit dple.nc --anomalies lead --modes 4 --out dple.law")
    shell("forecast dple.law dple.nc --origin 3 --steps 3 --out ahead.nc")
    ahead = stored("ahead.nc")
    assert ahead["mean"].dims == ("init", "lead", "nlat", "nlon")
    assert list(ahead["lead"].values) == [4, 5, 6]
    scores = shell("verify ahead.nc observed.nc")
    assert scores["leads"] == [4, 5, 6]
    assert set(scores["scores"]["forecast"]) >= {"rmse", "crps", "anomaly_correlation"}


def test_hourly_with_sea(shell):
    """The cycle of the day, cells that are never observed, and bands that hold what comes."""
    records.hourly_land(8).to_netcdf("hourly.nc", engine="h5netcdf")
    shell(
        "fit hourly.nc --anomalies hour --modes 6 --nuisance 0 --select time=2020-07-01:2020-07-07 "
        "--out t2m.law"
    )
    law = sl.load("t2m.law")
    assert law.parameters.eigenvalue.attrs["units"] == "1/hours"
    assert law.parameters.observation_std.attrs["units"] == "K"
    raw = records.hourly_land(8)["t2m"]
    truth = raw.sel(time=slice("2020-07-08", None)).values
    ahead = law.forecast(raw.sel(time=slice(None, "2020-07-07")), steps=24)
    mean, std = (ahead[name].values[0] for name in ("mean", "std"))
    assert (np.isnan(mean[0]) == np.isnan(truth[0])).all()
    inside = np.abs(truth - mean)[np.isfinite(truth)] < 1.96 * std[np.isfinite(truth)]
    assert inside.mean() > 0.8


def test_numpy_arrays():
    """Every verb takes the arrays that the fit took."""
    heat = sl.catalogue.heat(n_modes=2, initial="stationary")
    times, points = np.linspace(0, 8, 81), np.linspace(0.1, 3, 9)
    values = sl.simulate(heat, 1, times, points, seed=1).values[0]
    values = values + 0.02 * np.random.default_rng(0).standard_normal(values.shape)
    gappy = values.copy()
    gappy[::7, 3] = np.nan
    given = {"times": times, "points": points}
    words = {"domain": heat.domain, "n_modes": 2, "drift": "diagonal", "basis": "domain"}
    words["residual"] = "white"
    law = sl.fit(gappy, heat.domain, 2, **given)
    labelled = xr.DataArray(gappy, {"time": times, "x": points}, ("time", "x"))
    pairs = [
        (law.reconstruct(gappy, **given), law.reconstruct(labelled)),
        (law.forecast(gappy, at=[8.5], **given), law.forecast(labelled, times=[8.5])),
        (law.forecast(gappy, steps=2, **given), law.forecast(labelled, steps=2)),
        (sl.fill(gappy, **words, **given), sl.fill(labelled, **words)),
    ]  # fmt: skip
    for bare, named in pairs:
        np.testing.assert_allclose(bare["mean"], named["mean"])
    ahead, later = [8.1, 8.2], values[:2]
    truth = xr.DataArray(later, {"time": ahead, "x": points}, ("time", "x"))
    figures = [
        (law.plot.field(gappy, **given)[0], law.plot.field(labelled)[0]),
        (law.plot.innovations(gappy, **given)[1], law.plot.innovations(labelled)[1]),
        (
            law.plot.forecast(gappy, ahead, later, **given),
            law.plot.forecast(labelled, truth=truth, times=ahead),
        ),
    ]
    for bare, named in figures:
        for one, two in zip(bare.lines, named.lines, strict=True):
            np.testing.assert_allclose(one.get_xydata(), two.get_xydata())
    both = [law.log_likelihood(gappy, **given), law.log_likelihood(labelled)]
    np.testing.assert_allclose(*both)
    cards = [sl.evaluate(law, gappy, **given), sl.evaluate(law, labelled)]
    assert cards[0].to_dict() == cards[1].to_dict()
    other = sl.fit(gappy, heat.domain, 1, **given)
    one, two = sl.compare(law, other, data=gappy, **given), sl.compare(law, other, data=labelled)
    assert one.sentence == two.sentence
    scores = [
        sl.skill(data, heat.domain, 2, leads=(1,), refits=1, most_origins=5, **more)
        for data, more in ((values, given), (labelled.copy(data=values), {}))
    ]
    assert scores[0].verdict == scores[1].verdict
    guessed = sl.fit(values, n_modes=2, **given)
    assert guessed.domain.dims == ("x",)


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
def test_another_calendar(shell, calendar):
    """Months of a calendar that is not ours: anomalies, six months ahead, dates out."""
    records.monthly_map(calendar, 8).to_netcdf("tos.nc", engine="h5netcdf")
    shell(f"fit tos.nc --anomalies month --modes 4 {PLAIN} --out tos.law")
    shell("forecast tos.law tos.nc --steps 6 --out ahead.nc")
    times = stored("ahead.nc").time.values
    assert [(t.year, t.month) for t in times] == [
        (1988, month) for month in range(2, 8)
    ]  # fmt: skip
    assert times[0].calendar == calendar
    shell("forecast tos.law tos.nc --steps 2 --out ahead.csv")
    assert pd.read_csv("ahead.csv")["time"].iloc[0].startswith("1988-02-01")


def test_curvilinear_grid(shell):
    """Points of a tilted grid are fitted as they lie and come back on their two indices."""
    raw = records.curvilinear_months(72)
    raw.to_netcdf("thetao.nc", engine="h5netcdf")
    shell(f"fit thetao.nc --anomalies month --modes 5 {PLAIN} --out thetao.law")
    shell("reconstruct thetao.law thetao.nc --out full.nc")
    full = stored("full.nc")
    assert full["mean"].dims == ("path", "time", "j", "i")
    np.testing.assert_allclose(full["latitude"], raw["latitude"])
    shell("forecast thetao.law thetao.nc --origin 1985-06 --steps 3 --out ahead.nc")
    scores = shell("verify ahead.nc thetao.nc --anomalies month")
    assert scores["leads"] == [1, 2, 3]
