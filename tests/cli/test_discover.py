"""Semilinear laws from the shell: simulate, discover, fit --terms, and what reads the law."""

import numpy as np
import pytest

import spdelaw as sl

DATA = ("simulate", "allen-cahn", "--modes", 5, "--paths", 8, "--steps", 40, "--final-time", 4)


@pytest.fixture
def fronts(run):
    run(*DATA, "--seed", 1, "--out", "fronts.nc", "--quiet")
    return "fronts.nc"


def test_simulated_files_know_their_times_and_domain(run_json, fronts):
    made = run_json("simulate", "burgers", "--modes", 3, "--paths", 1, "--out", "b.nc")
    assert made["shape"] == {"path": 1, "time": 101, "x": 4}
    assert sl.read(fronts).time.values[-1] == 4.0


def test_discover(run, run_json, fronts):
    words = ("discover", fronts, "--modes", 5, "--library", "u,u^2,u^3", "--bootstrap", 20)
    document = run_json(*words, "--out", "fronts.law")
    assert {"u", "u^3"} <= set(document["discovery"]["terms"])
    assert document["law"]["terms"] == document["discovery"]["terms"]
    assert "from the equation in the file" in document["domain_from"]
    law = sl.load("fronts.law")
    assert law.info["discovery"]["terms"] == document["discovery"]["terms"]
    text = run(*words).stdout
    assert document["discovery"]["sentence"] in text
    assert "BIC above the best" in text
    assert "coefficient" in run("show", "fronts.law").stdout


def test_two_fields(run, run_json):
    words = ("--modes", 3, "--paths", 6, "--steps", 40, "--final-time", 4, "--out", "two.nc")
    made = run_json("simulate", "fitzhugh-nagumo", *words)
    assert made["shape"]["variable"] == 2
    assert "u, v" in run("info", "two.nc").stdout
    terms = "u: u, u: u^3, u: v, v: 1, v: u, v: v"
    words = ("--modes", 6, "--terms", terms, "--fixed", "nu v=0", "--out", "two.law")
    document = run_json("fit", "two.nc", *words)
    assert document["law"]["terms"] == terms.split(", ")
    assert document["law"]["info"]["estimates"]["nu v"] == 0.0
    assert "nu v" not in document["law"]["info"]["standard_errors"]
    assert sum(document["law"]["info"]["seconds"].values()) > 0
    run("forecast", "two.law", "two.nc", "--steps", 2, "--out", "ahead.nc")
    ahead = sl.data.read_dataset("ahead.nc")
    assert ahead["variable"].values.tolist() == ["u", "v"]


def test_fit_with_terms_is_the_fit_of_python(run, run_json, fronts):
    document = run_json("fit", fronts, "--modes", 5, "--terms", "u, u^3", "--out", "a.law")
    e = sl.catalogue.allen_cahn(5)
    law = sl.fit(sl.read(fronts), e.domain, 5, terms=("u", "u^3"))
    row = document["law"]["parameters"]["coefficient"]["estimate"]
    np.testing.assert_allclose(row, law.parameters.coefficient.sel(statistic="estimate"), rtol=1e-6)
    assert document["law"]["info"]["noise"] == "parametric"
    assert "Terms of the drift" in run("show", "a.law").stdout
    card = run_json("evaluate", "a.law", fronts)
    assert card["truth"] == "not used"
    assert "model" in card["scorecard"]["model_check"]["verdict"]


def test_refusals(fails, fronts):
    assert "u_y" in fails("fit", fronts, "--terms", "u u_y", "--modes", 5, "--out", "a.law")
    assert "names with commas" in fails("discover", fronts, "--library", "u,,u^3")
    for text in ("nu", "nu=small", "=1"):
        assert "name=value" in fails("discover", fronts, "--fixed", text)
    assert "already a part" in fails(
        "fit", fronts, "--terms", "u", "--drift", "dense", "--out", "a.law"
    )
