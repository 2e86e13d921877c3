"""Two real data sets, raw as they are: every command ends in an answer, with advice.

Sea-surface temperatures of the globe (land missing) and daily maxima of 137 stations (gaps, moves).
"""

import numpy as np
import pytest
import xarray as xr
from tests.real_data import real_file

import spdelaw as sl

SST, STATIONS = "ersstv5-2010-2020.nc", "noaa-tmax-1990-1993.csv.gz"
DRIFTS = ("diagonal", "normal", "dense")
WORDS = (
    (), ("--modes", "4"), ("--modes", "8"), ("--anomalies", "month"), ("--anomalies", "dayofyear"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
@pytest.mark.parametrize(
    ("name", "drift"),
    [*((SST, drift) for drift in DRIFTS), (STATIONS, "diagonal"), (STATIONS, "dense")],
)
def test_every_law_of_raw_data_ends(run_json, name, drift, words):
    document = run_json("fit", real_file(name), "--drift", drift, *words, "--out", "a.law")
    info = document["law"]["info"]
    assert np.isfinite(info["log_likelihood"])
    notes = " ".join(info["warnings"])
    if not info["converged"]:
        assert "the optimiser stopped" in notes
        assert "fit fewer modes" in notes
    if "--anomalies" not in words:
        assert "is a cycle of the year" in " ".join(document["guesses"])
    drift = sl.load("a.law").linear.drift
    rates = drift if drift.ndim == 1 else np.linalg.eigvals(drift).real
    assert (rates > 0).all()


def test_modes_of_a_box_have_no_pairs_to_turn_into(fails):
    line = fails("fit", real_file(STATIONS), "--drift", "normal", "--modes", 4, "--out", "a.law")
    assert "a domain whose modes come in pairs" in line


@pytest.mark.slow
@pytest.mark.parametrize("name", [SST, STATIONS])
def test_every_command_takes_raw_data(run, run_json, name):
    file, few = real_file(name), ("--modes", "4", "--anomalies", "month")
    run_json("fit", file, *few, "--out", "a.law")
    run_json("fit", file, *few, "--drift", "dense", "--out", "b.law")
    run_json("evaluate", "a.law", file)
    run_json("forecast", "a.law", file, "--steps", "3", "--out", "f.nc")
    with xr.open_dataset("f.nc") as opened:
        assert np.isfinite(opened["mean"]).any()
        assert opened.sizes["time"] == 3
    run_json("compare", "a.law", "b.law")
    run("report", "a.law", "--data", file, "--out", "r.html")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::spdelaw.errors.IdentifiabilityWarning")
@pytest.mark.parametrize("drift", ["diagonal", "dense"])
def test_the_north_pacific_has_a_law_of_eight_modes(drift):
    """30 to 50 N, 150 to 230 E: eight Neumann modes once ended in a `ConvergenceError`."""
    with xr.open_dataset(real_file(SST)) as opened:
        raw = opened["sst"].sortby("lat").sel(lat=slice(30, 50), lon=slice(150, 230)).load()
    box = sl.Box((150.0, 230.0), (30.0, 50.0), boundary="neumann")
    how = sl.Preparation(rename={"lon": "x", "lat": "y"}, anomalies="month")
    law = sl.fit(raw, box, 8, prepare=how, drift=drift)
    assert np.isfinite(law.info["log_likelihood"])
    assert law.info["converged"]
