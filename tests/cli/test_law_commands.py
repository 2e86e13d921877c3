"""spdelaw sample, reconstruct, forecast and evaluate."""

import numpy as np
import pytest
import xarray as xr
from tests.cli.law_files import EQUATION, MODES, complete, write_kind

import spdelaw as sl
from spdelaw.data import write


@pytest.fixture
def law(run):
    write(complete(40), "train.nc")
    run("fit", "train.nc", *MODES, "--out", "a.law", "-q")
    return sl.load("a.law")


def stored(name):
    with xr.open_dataset(name) as opened:
        return opened.load()


# ------------------------------------------------------------------ sample


def test_sample_writes_the_paths_of_the_library(run_json, law):
    document = run_json("sample", "a.law", "--paths", 5, "--seed", 3, "--out", "new.nc")
    np.testing.assert_array_equal(sl.read("new.nc").values, law.sample(5, seed=3).values)
    assert document["shape"] == {"path": 5, "time": 21, "x": 17}


def test_sample_at_other_times_and_points(run, law):
    run("sample", "a.law", "--paths", 2, "--times", "0,0.5,3", "--points", 9, "--out", "new.nc")
    got = sl.read("new.nc")
    np.testing.assert_array_equal(got.time, [0, 0.5, 3])
    np.testing.assert_allclose(got.x, np.linspace(0, np.pi, 9))


# ------------------------------------------------------------------ reconstruct, forecast


@pytest.mark.parametrize("kind", ["complete", "masked", "irregular", "single"])
def test_reconstruct_writes_mean_and_std(run_json, law, kind):
    fields = write_kind(kind)
    document = run_json("reconstruct", "a.law", "data.nc", "--out", "rec.nc")
    expected, got = law.reconstruct(fields), stored("rec.nc")
    for name in ("mean", "std"):
        np.testing.assert_array_equal(got[name], expected[name])
    assert document["missing"] == pytest.approx(float(np.isnan(fields).mean()))


def test_reconstruct_on_another_grid(run, law):
    write_kind("masked")
    run("reconstruct", "a.law", "data.nc", "--points", 33, "--out", "rec.nc")
    assert stored("rec.nc")["mean"].sizes["x"] == 33


@pytest.mark.parametrize("kind", ["complete", "masked", "single"])
def test_forecast_goes_on_from_the_history(run_json, law, kind):
    fields = write_kind(kind)
    end = float(fields.time[-1])
    document = run_json(
        "forecast", "a.law", "data.nc", "--until", end + 1, "--steps", 4, "--samples", 3,
        "--seed", 2, "--out", "fc.nc",
    )  # fmt: skip
    times = end + np.array([0.25, 0.5, 0.75, 1.0])
    assert document["times"] == pytest.approx(times)
    expected = law.forecast(fields, document["times"], n_samples=3, seed=2)
    got = stored("fc.nc")
    for name in ("mean", "std", "sample"):
        np.testing.assert_array_equal(got[name], expected[name])


def test_forecast_at_given_times(run, law):
    write_kind("complete")
    run("forecast", "a.law", "data.nc", "--times", "1.5,4", "--out", "fc.nc")
    got = stored("fc.nc")
    np.testing.assert_array_equal(got.time, [1.5, 4.0])
    assert "sample" not in got


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "got neither"),
        (["--until", 2, "--times", "2"], "got both"),
        (["--times", "2", "--steps", 3], "got both"),
        (["--until", 0.5], "after the history's last, 1"),
        (["--until", "nan"], "after the history's last"),
        (["--until", 2, "--steps", 0], "--steps"),
        (["--times", "2,1"], "increasing"),
        (["--times", "a"], "--times"),
        (["--until", 2, "--samples", -1], "n_samples"),
    ],
)
def test_bad_forecast(fails, folder, law, args, words):
    write_kind("complete")
    assert words in fails("forecast", "a.law", "data.nc", *args, "--out", "fc.nc")
    assert not (folder / "fc.nc").exists()


# ------------------------------------------------------------------ evaluate


def test_evaluate_uses_the_equation_of_the_file_and_says_so(run, run_json, law):
    test = complete(6, seed=9)
    write(test, "test.nc")
    document = run_json("evaluate", "a.law", "test.nc")
    card = sl.evaluate(law, test, EQUATION)
    assert document["verdict"] == card.verdict
    assert document["advice"] == card.advice
    assert document["scorecard"]["law"]["kl_per_path"] == pytest.approx(law.kl_divergence(EQUATION))
    assert "from test.nc" in document["truth"]
    text = run("evaluate", "a.law", "test.nc").stdout
    assert "from test.nc" in text
    assert card.verdict in text


def test_evaluate_with_another_truth_and_with_none(run_json, fails, law):
    write(complete(6, seed=9).drop_attrs(), "test.nc")
    assert run_json("evaluate", "a.law", "test.nc")["truth"] == "unknown"
    document = run_json("evaluate", "a.law", "test.nc", "--truth", "train.nc")
    assert document["scorecard"]["law"] is not None
    document = run_json("evaluate", "a.law", "train.nc", "--no-truth")
    assert (document["truth"], document["scorecard"]["law"]) == ("not used", None)
    assert "none in test.nc" in fails("evaluate", "a.law", "train.nc", "--truth", "test.nc")
    assert "got both" in fails("evaluate", "a.law", "test.nc", "--truth", "train.nc", "--no-truth")


def test_evaluate_refuses_a_truth_of_fewer_modes(fails, law):
    write(sl.simulate(sl.catalogue.heat(n_modes=2), 3, seed=0), "two.nc")
    assert "--no-truth" in fails("evaluate", "a.law", "two.nc")


# ------------------------------------------------------------------ all of them

READERS = [
    ("reconstruct", "--out", "o.nc"),
    ("forecast", "--until", 2, "--out", "o.nc"),
    ("evaluate",),
]


@pytest.mark.parametrize(("name", "args"), [(r[0], r[1:]) for r in READERS])
def test_readers_refuse_what_is_not_theirs(fails, folder, law, name, args):
    write_kind("complete")
    assert "nothing of this name" in fails(name, "b.law", "data.nc", *args)
    assert "directory" in fails(name, "data.nc", "data.nc", *args)
    assert "none of this name" in fails(name, "a.law", "missing.nc", *args)
    complete().rename(x="depth").to_netcdf("dims.nc")
    fails(name, "a.law", "dims.nc", *args)
    neumann = sl.Interval(0, np.pi, "neumann")
    other = sl.SpectralSPDE(neumann, 3, noise=sl.White(), initial=1.0)
    write(sl.simulate(other, 2, seed=0), "other.nc")
    assert "as the law" in fails(name, "a.law", "other.nc", *args)
    beyond = complete().drop_attrs()
    write(beyond.assign_coords(x=beyond.x.values + 1), "beyond.nc")
    assert "points" in fails(name, "a.law", "beyond.nc", *args)
    assert not (folder / "o.nc").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("sample", "a.law", "--paths", 2),
        ("reconstruct", "a.law", "train.nc"),
        ("forecast", "a.law", "train.nc", "--until", 2, "--steps", 2),
    ],
    ids=lambda c: c[0],
)
def test_writers_replace_only_with_force(run, fails, folder, law, command):
    (folder / "o.nc").write_text("mine")
    assert "--force" in fails(*command, "--out", "o.nc")
    assert (folder / "o.nc").read_text() == "mine"
    assert run(*command, "--out", "o.nc", "--force", "-q").output == ""
    assert stored("o.nc").sizes["x"] == 17
    assert "ends in .nc or .zarr" in fails(*command, "--out", "o.csv")


def test_report_of_one_law_and_of_two(run, run_json, fails, folder):
    pytest.importorskip("plotly")
    write_kind("complete")
    run("fit", "data.nc", *MODES, "--out", "first.law")
    run("fit", "data.nc", "--modes", 2, "--out", "second.law")
    document = run_json("report", "first.law", "--data", "data.nc", "--out", "report.html")
    assert document["bytes"] == (folder / "report.html").stat().st_size
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "on the very data it was learned from" in text
    assert "The truth is known here" in text
    assert "exists" in fails("report", "first.law", "-d", "data.nc", "-o", "report.html")
    write_kind("masked", "other.nc")
    run("report", "first.law", "second.law", "-d", "other.nc", "-o", "report.html", "--force")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "Laws compared" in text
    assert "judged here on other data" in text
    assert ".html" in fails("report", "first.law", "-d", "data.nc", "-o", "report.txt")
    assert "twice" in fails("report", "first.law", "first.law", "-d", "data.nc", "-o", "r.html")
    assert "nothing of this name" in fails("report", "no.law", "-d", "data.nc", "-o", "r.html")
    assert "positive" in fails(
        "report", "first.law", "-d", "data.nc", "-o", "r.html", "--max-paths", 0
    )


# ------------------------------------------------------------------ show


def test_small_units_are_not_shown_as_zero(run):
    """Variances of fields in units of 1e-9 are 1e-18 and have an interval."""
    write(1e-9 * complete(40), "small.nc")
    run("fit", "small.nc", *MODES, "--out", "small.law", "-q")
    law = sl.load("small.law")
    first = float(law.parameters["noise_variance"][0].sel(statistic="estimate"))
    assert f"{first:.4g} [" in " ".join(run("show", "small.law").stdout.split())
