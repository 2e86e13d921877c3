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
