"""spdelaw skill: tables, forecasts, figure, JSON and refusals."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.data import write

CALM = sl.catalogue.heat(n_modes=2, initial="stationary")
SHORT = ("--modes", 2, "--leads", "1,3", "--first", 60, "--refits", 1)


@pytest.fixture
def data(folder):
    fields = sl.simulate(CALM, 1, 0.2 * np.arange(80), np.linspace(0, np.pi, 9), seed=0)
    write(fields, "calm.nc")
    return fields


def test_scores_are_those_of_the_library(run_json, data):
    document = run_json("skill", "calm.nc", *SHORT, "--out", "f.nc")
    own = sl.skill(data, CALM.domain, 2, leads=(1, 3), first=60, refits=1)
    assert document["scores"] == own.to_dict()["scores"]
    assert document["n_origins"] == 18
    stored = sl.data.read_dataset("f.nc")
    np.testing.assert_array_equal(stored["mean"], own.forecasts["mean"])
    assert stored["predictor"].values.tolist() == own.forecasts.predictor.values.tolist()


def test_table_and_figure_for_people(run, data, folder):
    text = run("skill", "calm.nc", *SHORT, "--domain", "eof", "--figure", "skill.png").stdout
    for word in ("RMSE", "CRPS", "log score", "damped persistence", "LIM", "law against"):
        assert word in text
    assert (folder / "skill.png").read_bytes()[:4] == b"\x89PNG"


def test_modes_to_choose_from(run_json, data):
    document = run_json("skill", "calm.nc", *SHORT[2:], "--modes", "1,2", "--rest", "white")
    assert set(document["tried"]) == {"1 mode, drift diagonal", "2 modes, drift diagonal"}
    assert document["rest"] == "white"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--leads", "1,x"), "whole numbers"),
        (("--leads", "40"), "at most 20"),
        (("--modes", "two"), "whole numbers"),
        (("--origins", "sliding"), "expanding"),
        (("--rest", "pink"), "white"),
        (("--refits", 0), "positive"),
        (("--figure", "skill.txt"), ".png"),
        (("--out", "f.txt"), ".nc or .zarr"),
    ],
)
def test_refusals(fails, data, folder, options, message):
    assert message in fails("skill", "calm.nc", *SHORT, *options)
    assert sorted(p.name for p in folder.iterdir()) == ["calm.nc"]


def test_rest_of_a_fit(run_json, data):
    document = run_json(
        "fit", "calm.nc", "--modes", 1, "--nuisance", 0, "--rest", "memory", "--out", "a.law"
    )
    assert document["law"]["info"]["rest"]["answer"] == "memory"
    assert sl.load("a.law").rest is not None
