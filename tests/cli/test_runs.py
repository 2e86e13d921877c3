"""Commands from file to file: what they write and show is what the library says."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.cli.law_files import CALM, EQUATION, KINDS, complete, raw_map

import spdelaw as sl
from spdelaw.data.io.files import read, read_dataset, write

FEW = "--modes 2 --nuisance 0 --initial stationary"
SMALL = "--paths 5 --modes 4 --steps 10 --points 9"


def stored(name):
    with xr.open_dataset(name) as opened:
        return opened.load()


def days(result):
    return result["time"].values.astype("datetime64[D]").astype(str).tolist()


# ------------------------------------------------------------------ simulate, dataset, info


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_simulate(run, run_json, fails, folder, name):
    document = run_json(f"simulate heat {SMALL} --seed 7 --noise --out {name}")
    e = sl.catalogue.heat(n_modes=4)
    t, x = np.linspace(0, 1, 11), np.linspace(0, np.pi, 9)
    expected = sl.simulate(e, 5, times=t, grid=x, seed=7)
    got = read(name, variable="field").load()
    np.testing.assert_array_equal(got.values, expected.values)
    assert sl.SpectralSPDE.from_dict(json.loads(got.attrs["equation"])) == e
    assert document["shape"] == {"path": 5, "time": 11, "x": 9}
    assert document["variables"] == ["field", "noise_increment", "noise_field"]
    assert document["bytes"] > 0
    assert [p.name for p in folder.iterdir()] == [name]
    assert "--force" in fails(f"simulate heat {SMALL} --out {name}")
    assert read(name, variable="field").equals(got)
    text = run(f"simulate heat {SMALL} --seed 1 --out {name} --force").stdout
    for part in ("stochastic heat equation", "5 path × 11 time × 9 x", f"{name} ("):
        assert part in text
    assert not read(name).equals(got)
    assert run(f"simulate heat {SMALL} --out {name} --force --quiet").output == ""
    if name == "a.zarr":  # streamed, sealed, and not replaced with files of somebody in it
        assert list((folder / name).glob("*/spdelaw.sha256"))
        (folder / name / "notes.txt").write_text("mine")
        assert "notes.txt" in fails(f"simulate heat {SMALL} --out {name} --force")
        assert (folder / name / "notes.txt").read_text() == "mine"


def test_dataset_is_copied_with_its_licence(run_json, folder):
    document = run_json("dataset equatorial-pacific --out sst.nc")
    assert "Open Government Licence" in document["licence"]
    assert document["shape"] == {"time": 54, "latitude": 7, "longitude": 145}
    expected = sl.datasets.equatorial_pacific()
    np.testing.assert_array_equal(stored("sst.nc")["surface_temperature"], expected)
    table = run_json("dataset station-tmax --out t.csv.gz")
    assert len(pd.read_csv("t.csv.gz")) == table["shape"]["rows"] == len(sl.datasets.station_tmax())


@pytest.mark.parametrize("name", ["b.nc", "b.zarr"])
def test_info_describes_the_fields(run, run_json, folder, name):
    fields = sl.simulate(sl.catalogue.heat(n_modes=4), 4, times=np.linspace(0, 1, 5), seed=0)
    write(fields.where(fields.x > 0), name)
    document = run_json(f"info {name}")
    assert (document["command"], document["file"]) == ("info", name)
    assert document["fields"]["sizes"] == {"path": 4, "time": 5, "x": 101}
    assert document["fields"]["missing"]["count"] == 20
    text = run(f"info {name}").stdout
    for part in (
        f"{name} (", "field", "4 path × 5 time × 101 x", "0 to 1, step 0.25", "20 (0.99 %)",
        f"{float(fields.max()):.4g}", "stochastic heat equation, dirichlet, 4 modes", "exact",
        document["fields"]["fingerprint"],
    ):  # fmt: skip
        assert part in text
    fields = fields.assign_coords(time=[0.0, 0.1, 0.5, 0.6, 0.7])
    fields.time.attrs["units"] = "days"
    fields.attrs = {"units": "K", "history": "a" * 100, "equation": "not known"}
    write(fields, name)
    text = run(f"info {name}").stdout
    for part in ("field [K]", "0 to 0.7, irregular [days]", "aaa...", "not known"):
        assert part in text


def test_info_and_dry_runs_of_raw_files(run, run_json, stocked):
    text = run("info stations.csv.gz").stdout
    for part in ("columns are time = date, station = id", "1 path × 120 time × 9 point",
                 "1990-01-01 to 1990-04-30, steps of 1 day", "a fit would take: box in degrees",
                 "note: the field has a mean"):  # fmt: skip
        assert part in text
    shapes = [run_json(f"info {name}.csv")["fields"] for name in ("plain", "comma", "again")]
    assert len({str(shape["values"]) for shape in shapes}) == 1
    assert len({shape["fingerprint"] for shape in shapes}) == 1
    before = sorted(stocked.iterdir())
    document = run_json("fit stations.csv.gz --dry-run")
    assert document["dry_run"]
    assert document["shape"] == {"path": 1, "time": 120, "point": 9}
    assert document["domain"]["name"] == "box"
    assert any("anomalies mean, because" in guess for guess in document["guesses"])
    document = run_json("fit stations.csv.gz --anomalies mean --detrend --dry-run")
    assert document["prepared_by"] == ["anomalies against the mean", "linear trend removed"]
    assert document["notes"] == []
    text = run("fit stations.csv.gz --dry-run").stdout
    for part in ("guessed: stations along point", "shape", "missing", "guessed: anomalies mean"):
        assert part in text
    assert run_json("fit fill.csv --missing -9999 --anomalies mean --dry-run")["missing"] > 0.25
    assert run_json("fill sea.nc --anomalies mean --dry-run")["domain"]["name"] == "box"
    guesses = "; ".join(run_json("fit wide.nc --dry-run")["guesses"])
    assert "box in degrees, because it covers 60 degrees" in guesses
    document = run_json("fit globe.nc --anomalies mean --dry-run")
    assert document["domain"] == {"name": "sphere", "radius": 1.0}
    document = run_json("fit square.nc --domain box --dry-run")
    assert document["domain"]["boundary"] == ["dirichlet", "dirichlet"]
    assert any("zero at both ends" in guess for guess in document["guesses"])
    assert sorted(stocked.iterdir()) == before


# ------------------------------------------------------------------ fit and what takes a law

SLOW = ("irregular", "single")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in KINDS]
)
def test_a_law_and_all_that_is_asked_of_it(run, run_json, stocked, kind):
    noise = "estimate" if kind == "masked" else "none"
    line = f"fit {kind}.nc --domain interval --modes 3 --observation-noise {noise} --out x.law"
    document = run_json(line)
    fields = KINDS[kind]()
    expected = sl.fit(fields, sl.Interval(0, np.pi), 3, observation_noise=noise)
    law = sl.load("x.law")
    assert law.parameters.equals(expected.parameters)
    estimate = document["law"]["parameters"]["eigenvalue"]["estimate"]
    assert estimate == pytest.approx(expected.parameters.eigenvalue.values[:, 0], rel=1e-12)
    assert document["law"]["info"]["n_paths"] == fields.sizes["path"]
    document = run_json("sample x.law --paths 5 --seed 3 --out new.nc")
    np.testing.assert_array_equal(read("new.nc").values, law.sample(5, seed=3).values)
    document = run_json(f"reconstruct x.law {kind}.nc --out rec.nc")
    result, got = law.reconstruct(fields), stored("rec.nc")
    for name in ("mean", "std"):
        np.testing.assert_array_equal(got[name], result[name])
    assert document["missing"] == pytest.approx(float(np.isnan(fields).mean()))
    document = run_json(f"forecast x.law {kind}.nc --until 9 --steps 4 --samples 3 --out fc.nc")
    result, got = law.forecast(fields, document["times"], n_samples=3), stored("fc.nc")
    for name in ("mean", "std", "sample"):
        np.testing.assert_array_equal(got[name], result[name])


def test_tables_of_fit_show_and_evaluate(run, run_json, stocked):
    text = run("fit complete.nc --modes 3 --out x.law").stdout
    law = sl.load("x.law")
    for estimate, _, lower, upper in law.parameters.eigenvalue.values:
        assert f"{estimate:.4g}" in text
        assert f"[{lower:.4g}, {upper:.4g}]" in text
    assert "bounds from the equation in the file" in text
    assert "x.law" in text
    before = (stocked / "x.law" / "law.json").read_bytes()
    shown, document = run("show x.law").stdout, run_json("show x.law")
    for name in ("eigenvalue", "noise_variance"):
        assert all(f"{v:.4g}" in shown for v in law.parameters[name].values[:, 0])
    for part in ("exact", "[0, 3.14159], dirichlet", "12 path × ", "Initial state", "cite: "):
        assert part in shown
    assert document["citation"] == law.citation()
    assert document["law"]["info"] == json.loads(json.dumps(dict(law.info)))
    assert (stocked / "x.law" / "law.json").read_bytes() == before
    card = sl.evaluate(law, complete(6, seed=9), EQUATION)
    document, text = run_json("evaluate x.law test.nc"), run("evaluate x.law test.nc").stdout
    assert (document["verdict"], document["advice"]) == (card.verdict, card.advice)
    kl = document["scorecard"]["law"]["kl_per_path"]
    assert kl == pytest.approx(law.kl_divergence(EQUATION))
    assert "from test.nc" in document["truth"]
    assert "from test.nc" in text
    assert card.verdict in text
    document = run_json("evaluate x.law complete.nc --no-truth")
    assert (document["truth"], document["scorecard"]["law"]) == ("not used", None)
    assert run_json("evaluate x.law plain.nc")["truth"] == "unknown"
    for line in ("fit complete.nc --modes 2 --out x.law --force -q", "show x.law -q"):
        assert run(line).output == ""
    assert sl.load("x.law").n_modes == 2
    assert "ends of the coordinate x; dirichlet, because the field is zero at both ends" in (
        " ".join(run("fit plain.nc --modes 1 --out y.law").stdout.split())
    )


def test_small_units_zarr_and_chosen_modes(run, stocked):
    """Variances of fields in units of 1e-9 are 1e-18 and have an interval."""
    write(1e-9 * complete(40), "small.nc")
    write(1e-9 * complete(40), "small.zarr")
    run("fit small.nc --modes 3 --out small.law -q")
    law = sl.load("small.law")
    first = float(law.parameters["noise_variance"][0].sel(statistic="estimate"))
    assert f"{first:.4g} [" in " ".join(run("show small.law").stdout.split())
    # A Zarr directory is read piece by piece: its sums are taken in another order.
    run("fit small.zarr --modes 3 --out zarr.law -q")
    xr.testing.assert_allclose(sl.load("zarr.law").parameters, law.parameters, rtol=1e-9)
    assert "note: " in run("fit complete.nc --out x.law").stdout
    assert sl.load("x.law").n_modes == EQUATION.n_modes


def test_coupled_laws_from_fit_to_forecast(run, run_json):
    """Every command takes a law of coupled modes; tables show eigenmodes, --json the matrices."""
    run("simulate advection-diffusion --paths 30 --modes 3 --steps 50 --out ring.nc")
    document = run_json("fit ring.nc --drift dense --noise dense --modes 3 --out ring.law")
    assert np.shape(document["law"]["parameters"]["drift"]["estimate"]) == (3, 3)
    assert document["law"]["info"]["drift"] == "dense"
    text = run("show ring.law").stdout
    modes = sl.load("ring.law").eigenmodes()
    for name in ("e_folding_time", "period"):
        assert f"{modes[name].values[-1, 0]:.4g}" in text
    assert "none" in text  # the period of the mean, which does not turn
    card = run_json("evaluate ring.law ring.nc")["scorecard"]
    assert np.shape(card["law"]["drift_z"]) == (3, 3)
    run("forecast ring.law ring.nc --until 1.2 --steps 4 --out ahead.nc")
    assert stored("ahead.nc")["mean"].sizes["path"] == 30


@pytest.mark.parametrize("raw", [False, True])
def test_standard_deviations_of_single_values_are_a_variable_of_the_file(run, fails, folder, raw):
    fields = complete().isel(path=slice(8))
    rng = np.random.default_rng(0)
    std = fields.copy(data=rng.uniform(0.05, 0.5, fields.shape)).rename("error")
    fields = (fields + std * rng.standard_normal(fields.shape)).rename("u")
    both = xr.Dataset({"u": fields, "error": std})
    if raw:
        both = both.isel(path=0, drop=True).rename(x="longitude")
    both.to_netcdf("both.nc")
    options = (f"fit both.nc --variable u --domain interval --bounds 0 {np.pi} --modes 2 "
               "--boundary dirichlet --initial stationary --observation-noise")  # fmt: skip
    run(f"{options} error --out a.law")
    law = sl.load("a.law")
    assert law.info["observation_noise"] == "known per value"
    run("reconstruct a.law both.nc --variable u --out near.nc")
    expected = law.reconstruct(both["u"].assign_coords(observation_std=both["error"]))["std"]
    np.testing.assert_allclose(stored("near.nc")["std"].values, expected.values, rtol=1e-6)
    assert "error" in fails(f"{options} eror --out b")


# ------------------------------------------------------------------ raw files


def test_raw_maps_in_dates_and_kelvin(run, run_json, fails, stocked):
    document = run_json(
        f"fit sst.nc --domain interval {FEW} --mean zero --anomalies month --out x.law"
    )
    guesses = "; ".join(document["guesses"])
    for part in ("space is lon", "mean over lat by area", "dates, counted in days", "neumann"):
        assert part in guesses
    how = sl.Preparation(average="lat", rename={"lon": "x"}, anomalies="month")
    law = sl.fit(raw_map(), sl.Interval(150, 210, "neumann"), 2, prepare=how, nuisance=0,
                 initial="stationary", mean="zero")  # fmt: skip
    xr.testing.assert_allclose(sl.load("x.law").parameters, law.parameters)
    run("forecast x.law sst.nc --times 2006-01-01,2006-07-01 --out f.nc")
    result = stored("f.nc")
    assert days(result) == ["2006-01-01", "2006-07-01"]
    assert 295 < float(result["mean"].mean()) < 305
    line = "forecast x.law sst.nc --out f.nc --force --until"
    assert len(run_json(f"{line} 2006-03-01 --steps 3")["times"]) == 3
    run(f"{line} 2006-03-15")
    assert days(stored("f.nc")) == ["2006-01-01", "2006-02-01", "2006-03-01"]
    assert "after the history" in fails(f"{line} 2001-03-01")
    assert "dates such as" in fails(f"{line} soon")
    run("reconstruct x.law two.nc --out r.nc")  # the law knows which variable
    run("evaluate x.law sst.nc")
    text = run(f"fit sst.nc --domain interval {FEW} --select time=2001:2003-12 "
               "--boundary dirichlet --bounds 140 220 --out y.law").stdout  # fmt: skip
    assert "Guessed: space is lon" in text
    assert sl.load("y.law").info["n_times"] == 36
    run("evaluate y.law sst.nc")  # the period is of the fit alone


@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
def test_a_globe_of_another_calendar(run, run_json, stocked):
    with xr.open_dataset("globe.nc") as opened:
        globe = opened["t2m"].load()
    time = xr.date_range("2001-01-01", periods=60, freq="MS", calendar="noleap", use_cftime=True)
    globe.assign_coords(time=time).to_netcdf("model.nc", engine="h5netcdf")
    options = "--modes 3 --nuisance 0 --initial stationary --anomalies month --standardise point"
    options += " --mean zero"
    document = run_json(f"fit model.nc --domain sphere {options} --detrend --out x.law")
    assert "space is lon = longitude, lat = latitude" in document["guesses"]
    how = sl.Preparation(rename={"latitude": "lat", "longitude": "lon"}, anomalies="month",
                         detrend=True, standardise="point")  # fmt: skip
    law = sl.fit(globe.assign_coords(time=time), sl.Sphere(), 3, prepare=how, nuisance=0,
                 initial="stationary", mean="zero")  # fmt: skip
    xr.testing.assert_allclose(sl.load("x.law").parameters, law.parameters)
    run("forecast x.law model.nc --steps 6 --out f.nc")
    with xr.open_dataset("f.nc", decode_times=xr.coders.CFDatetimeCoder(use_cftime=True)) as opened:
        mean = opened["mean"].load()
    assert [(d.month, d.day) for d in mean["time"].values] == [(m, 1) for m in range(1, 7)]
    assert mean.dims == ("path", "time", "latitude", "longitude")
    assert mean.attrs["cell_methods"] == "realization: mean"
    assert 278 < float(mean.mean()) < 282
    land = globe.isnull().all("time").sortby("latitude").transpose("latitude", "longitude")
    np.testing.assert_array_equal(mean[0, 0].isnull(), land)


def test_table_to_forecast_and_scores(run, run_json, stocked):
    columns = "--time date --value tmax --station id --lon lon --lat lat"
    line = f"fit stations.csv.gz {FEW} --anomalies mean --observation-noise none --out"
    guesses = "; ".join(run_json(f"{line} x.law {columns}")["guesses"])
    for part in ("box in degrees", "scattered points", "y = lat, x = lon", "counted in days",
                 "neumann, because the points are scattered"):  # fmt: skip
        assert part in guesses
    guesses = run_json(f"{line} y.law")["guesses"]
    assert "columns are time = date, station = id, lon = lon, lat = lat, value = tmax" in guesses
    law = sl.load("x.law")
    xr.testing.assert_identical(law.parameters, sl.load("y.law").parameters)
    raw = sl.from_table("stations.csv.gz", time="date", value="tmax", station="id", lon="lon",
                        lat="lat")  # fmt: skip
    run("forecast y.law stations.csv.gz --steps 3 --out f.nc")
    mean = stored("f.nc")["mean"]
    last = raw["time"].values[-1]
    np.testing.assert_array_equal(mean["time"], last + np.arange(1, 4) * np.timedelta64(1, "D"))
    np.testing.assert_allclose(mean.values, law.forecast(raw, steps=3)["mean"].values)
    assert 10 < float(mean.mean()) < 30
    run("reconstruct x.law stations.csv.gz --out r.nc")
    assert read_dataset("r.nc")["station"].values.tolist() == [str(7000 + k) for k in range(9)]
    run("evaluate x.law stations.csv.gz")


# ------------------------------------------------------------------ fill, skill, terms, comparisons


def test_fill(run, run_json, stocked):
    line = "fill sea.nc --modes 2 --drift diagonal --basis domain --residual white --anomalies mean"
    document = run_json(f"{line} --out full.nc")
    assert document["candidates"][0]["rmse"] > 0
    assert document["chosen"]["n_modes"] == 2
    got, gappy = stored("full.nc"), stored("sea.nc")["sst"]
    assert {"mean", "std", "held_out_rmse"} <= set(got.data_vars)
    python = sl.fill(gappy, prepare=sl.Preparation(anomalies="mean"), n_modes=2, drift="diagonal",
                     basis="domain", residual="white")  # fmt: skip
    np.testing.assert_allclose(got["mean"], python["mean"], equal_nan=True)
    np.testing.assert_array_equal(got["time"], gappy["time"])
    assert set(got["mean"].dims) == {"path", "time", "lat", "lon"}
    text = run(f"{line} --everywhere --out full.nc --force").stdout
    for part in ("Candidates on held-out values", "4 points have no data at any time", "Guessed: "):
        assert part in text


def test_skill(run, run_json, stocked):
    line = "skill calm.nc --modes 2 --leads 1,3 --first 60 --refits 1"
    document = run_json(f"{line} --out f.nc")
    fields = read("calm.nc")
    expected = sl.skill(fields, CALM.domain, 2, leads=(1, 3), first=60, refits=1)
    assert document["scores"] == expected.to_dict()["scores"]
    assert document["n_origins"] == 18
    got = read_dataset("f.nc")
    np.testing.assert_array_equal(got["mean"], expected.forecasts["mean"])
    assert got["predictor"].values.tolist() == expected.forecasts.predictor.values.tolist()
    text = run(f"{line} --domain eof --figure skill.png").stdout
    for word in ("RMSE", "CRPS", "log score", "damped persistence", "LIM", "law against"):
        assert word in text
    assert (stocked / "skill.png").read_bytes()[:4] == b"\x89PNG"


def test_discover_and_terms(run, run_json, stocked):
    line = "discover fronts.nc --modes 5 --library u,u^2,u^3 --bootstrap 20"
    document = run_json(f"{line} --out fronts.law")
    assert {"u", "u^3"} <= set(document["discovery"]["terms"])
    assert document["law"]["terms"] == document["discovery"]["terms"]
    assert "from the equation in the file" in document["domain_from"]
    assert sl.load("fronts.law").info["discovery"]["terms"] == document["discovery"]["terms"]
    text = run(line).stdout
    assert document["discovery"]["sentence"] in text
    assert "BIC above the best" in text
    shown = run("show fronts.law").stdout
    assert "coefficient" in shown
    assert "Terms of the drift" in shown
    card = run_json("evaluate fronts.law fronts.nc")
    assert card["truth"] == "not used"
    assert "model" in card["scorecard"]["model_check"]["verdict"]


@pytest.mark.slow
def test_two_fields(run, run_json):
    made = run_json("simulate fitzhugh-nagumo --modes 3 --paths 6 --steps 40 --final-time 4 "
                    "--out two.nc")  # fmt: skip
    assert made["shape"]["variable"] == 2
    assert "u, v" in run("info two.nc").stdout
    terms = "u: u, u: u^3, u: v, v: 1, v: u, v: v"
    document = run_json(f"fit two.nc --modes 6 --terms '{terms}' --fixed 'nu v=0' --out two.law")
    assert document["law"]["terms"] == terms.split(", ")
    assert document["law"]["info"]["estimates"]["nu v"] == 0.0
    assert "nu v" not in document["law"]["info"]["standard_errors"]
    assert sum(document["law"]["info"]["seconds"].values()) > 0
    run("forecast two.law two.nc --steps 2 --out ahead.nc")
    assert read_dataset("ahead.nc")["variable"].values.tolist() == ["u", "v"]


def test_compare_and_report(run, run_json, fails, stocked):
    pytest.importorskip("plotly")
    for n in (1, 3):
        run(f"fit masked.nc --modes {n} --nuisance 0 --out n{n}.law -q")
    document = run_json("compare n1.law n3.law --data test.nc")
    assert document["use"] == "n3"
    laws = [sl.load("n1.law"), sl.load("n3.law")]
    expected = sl.compare(*laws, data=read("test.nc"), names=("n1", "n3"))
    np.testing.assert_allclose(document["scores"]["value"], expected.scores["value"])
    assert expected.sentence in run("compare n1.law n3.law --data test.nc").stdout
    assert (
        "on which more modes always look better"
        in run("compare n1.law n3.law --data masked.nc").stdout
    )
    assert "BIC" in run("compare n1.law n3.law").stdout
    document = run_json("report n3.law --data masked.nc --out report.html")
    assert document["bytes"] == (stocked / "report.html").stat().st_size
    text = (stocked / "report.html").read_text(encoding="utf-8")
    assert "use the data that the law was fitted to" in text
    assert "The true equation is known here" in text
    assert "exists" in fails("report n3.law -d masked.nc -o report.html")
    run("fit complete.nc --modes 3 --out c3.law -q")
    run("report c3.law m1.law -d masked.nc -o report.html --force")
    text = (stocked / "report.html").read_text(encoding="utf-8")
    assert "Laws compared" in text
    assert "tests below use other data" in text
