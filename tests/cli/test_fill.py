"""``spdelaw fill`` through the shell: what is written, what is said, what is refused."""

import numpy as np
import xarray as xr
from tests.evaluation.test_fill import map_of_sea

import spdelaw as sl

FEW = ("--modes", 3, "--drift", "diagonal", "--basis", "domain", "--rest", "white")


def sea_file():
    full, gappy = map_of_sea()
    gappy.to_dataset(name="sst").to_netcdf("sst.nc", engine="h5netcdf")
    return full, gappy


def test_a_file_is_filled_as_in_python(run, run_json, folder):
    _, gappy = sea_file()
    document = run_json("fill", "sst.nc", *FEW, "--anomalies", "mean", "--out", "full.nc")
    assert document["candidates"][0]["rmse"] > 0
    assert document["chosen"]["n_modes"] == 3
    with xr.open_dataset("full.nc") as written:
        assert {"mean", "std", "held_out_rmse"} <= set(written.data_vars)
        how = sl.Preparation(anomalies="mean")
        python = sl.fill(gappy, prepare=how, n_modes=3, drift="diagonal", basis="domain",
                         rest="white")  # fmt: skip
        np.testing.assert_allclose(written["mean"], python["mean"], equal_nan=True)
        np.testing.assert_array_equal(written["time"], gappy["time"])
        assert set(written["mean"].dims) == {"path", "time", "lat", "lon"}
    text = run("fill", "sst.nc", *FEW, "--anomalies", "mean", "--out", "full.nc", "--force").stdout
    assert "Candidates on held-out clouds" in text
    assert "4 points never seen" in text
    assert "Guessed: " in text


def test_dry_run_and_refusals(run_json, fails, folder):
    sea_file()
    document = run_json("fill", "sst.nc", "--anomalies", "mean", "--dry-run")
    assert document["dry_run"]
    assert document["domain"]["name"] == "box"
    assert "--out" in fails("fill", "sst.nc")
    assert ".nc or .zarr" in fails("fill", "sst.nc", "--out", "a.txt")
    assert "--basis" in fails("fill", "sst.nc", "--basis", "x", "--out", "a.nc")
    assert "--drift" in fails("fill", "sst.nc", "--drift", "x", "--out", "a.nc")
    assert "--rest" in fails("fill", "sst.nc", "--rest", "x", "--out", "a.nc")
    assert "--seconds" in fails("fill", "sst.nc", "--seconds", "-3", "--out", "a.nc")
    assert "--modes" in fails("fill", "sst.nc", "--modes", "0", "--out", "a.nc")
    assert not list(folder.glob("a.*"))


def test_nothing_to_fill_is_said_before_any_work(fails, run_json, folder):
    """Once laws were compared for two minutes, and no gap was filled."""
    full, _ = map_of_sea()
    land = full.where(full.lat > full.lat.min())
    land.to_dataset(name="sst").to_netcdf("full.nc", engine="h5netcdf")
    said = fails("fill", "full.nc", "--out", "a.nc")
    assert "expected gaps to fill, got none; " in said
    assert "--everywhere" in said
    document = run_json("fill", "full.nc", *FEW, "--everywhere", "--out", "a.nc")
    assert set(document["shape"]) == {"path", "time", "lat", "lon"}


def test_laws_are_compared(run, run_json, fails, folder):
    run("simulate", "heat", "--paths", 40, "--modes", 3, "--observation-std", 0.1, "--out", "a.nc")
    run("simulate", "heat", "--paths", 20, "--modes", 3, "--observation-std", 0.1, "--seed", 1,
        "--out", "b.nc")  # fmt: skip
    for modes in (1, 3):
        run("fit", "a.nc", "--modes", modes, "--nuisance", 0, "--out", f"m{modes}.law")
    document = run_json("compare", "m1.law", "m3.law", "--data", "b.nc")
    assert document["use"] == "m3"
    laws = [sl.load("m1.law"), sl.load("m3.law")]
    expected = sl.compare(*laws, data=sl.read("b.nc"), names=("m1", "m3"))
    np.testing.assert_allclose(document["scores"]["value"], expected.scores["value"])
    assert expected.sentence in run("compare", "m1.law", "m3.law", "--data", "b.nc").stdout
    assert "BIC" in run("compare", "m1.law", "m3.law").stdout
    run("fit", "b.nc", "--modes", 1, "--nuisance", 0, "--out", "other.law")
    assert "same numbers" in fails("compare", "m1.law", "other.law")
    assert "at least two" in fails("compare", "m1.law")
    assert "nothing of this name" in fails("compare", "m1.law", "none.law")
