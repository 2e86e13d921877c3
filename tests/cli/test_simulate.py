"""spdelaw simulate."""

import json

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data import read
from spdelaw.equation.catalogue import EQUATIONS

SMALL = ("--paths", 5, "--modes", 4, "--steps", 10, "--points", 9)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_file_holds_the_paths_of_the_library(run_json, folder, name):
    document = run_json("simulate", "heat", *SMALL, "--seed", 7, "--out", name)
    e = sl.catalogue.heat(n_modes=4)
    t, x = np.linspace(0, 1, 11), np.linspace(0, np.pi, 9)
    expected = sl.simulate(e, 5, times=t, grid=x, seed=7)
    got = read(name)
    np.testing.assert_array_equal(got.values, expected.values)
    assert sl.SpectralSPDE.from_dict(json.loads(got.attrs["equation"])) == e
    assert document["shape"] == {"path": 5, "time": 11, "x": 9}
    assert document["file"] == name
    assert document["bytes"] > 0
    assert [p.name for p in folder.iterdir()] == [name]


def test_table_says_what_was_made(run):
    text = run("simulate", "heat", *SMALL, "--out", "a.nc").stdout
    assert "stochastic heat equation" in text
    assert "5 path × 11 time × 9 x" in text
    assert "a.nc (" in text


def test_quiet_says_nothing(run):
    result = run("simulate", "heat", *SMALL, "--out", "a.nc", "--quiet")
    assert result.output == ""


@pytest.mark.parametrize("equation", EQUATIONS)
def test_every_equation_of_the_catalogue(run_json, equation):
    small = ("--paths", 2, "--modes", 4, "--times", "0.1,0.2,0.7")
    assert run_json("simulate", equation, *small, "--out", "a.nc")["shape"]["time"] == 3
    np.testing.assert_array_equal(read("a.nc", dims=None).time, [0.1, 0.2, 0.7])


def test_options_reach_the_simulation(run):
    common = ("simulate", "heat", *SMALL, "--final-time", 2, "--scheme", "semi_implicit")
    run(*common, "--observation-std", 0.1, "--out", "a.nc")
    got = read("a.nc")
    expected = sl.simulate(
        sl.catalogue.heat(n_modes=4), 5, times=np.linspace(0, 2, 11), grid=np.linspace(0, np.pi, 9),
        scheme="semi_implicit", observation_std=0.1,
    )  # fmt: skip
    np.testing.assert_array_equal(got.values, expected.values)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_noise_is_written_too(run_json, name):
    document = run_json("simulate", "heat", *SMALL, "--noise", "--out", name)
    assert document["variables"] == ["field", "noise_increment", "noise_field"]
    opened = xr.open_zarr(name, chunks=None, consolidated=False) if "zarr" in name else (
        xr.open_dataset(name))  # fmt: skip
    with opened as stored:
        assert set(stored.data_vars) == set(document["variables"])
        assert stored.noise_increment.dims == ("path", "time", "mode")
    assert read(name, variable="field").shape == (5, 11, 9)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_force_replaces_and_nothing_else_does(run, fails, folder, name):
    run("simulate", "heat", *SMALL, "--out", name)
    before = read(name).load()
    assert "--force" in fails("simulate", "heat", *SMALL, "--seed", 1, "--out", name)
    assert read(name).equals(before)
    run("simulate", "heat", *SMALL, "--seed", 1, "--out", name, "--force")
    assert not read(name).equals(before)
    assert [p.name for p in folder.iterdir()] == [name]


def test_force_replaces_no_strangers(folder, fails):
    """A folder that is no store, or a file where a store belongs, may be somebody's work."""
    (folder / "thesis.zarr").mkdir()
    (folder / "thesis.zarr" / "chapter.tex").write_text("years")
    (folder / "b.zarr").write_text("text")
    (folder / "c.nc").mkdir()
    for name in ("thesis.zarr", "b.zarr", "c.nc"):
        assert "something else" in fails("simulate", "heat", *SMALL, "--out", name, "--force")
    assert (folder / "thesis.zarr" / "chapter.tex").read_text() == "years"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["heta"], "did you mean heat?"),
        (["schroedinger"], "expected one of heat"),
        (["heat", "--paths", 0], "--paths: expected a positive integer, got 0"),
        (["heat", "--paths", -3], "got -3"),
        (["heat", "--modes", 0], "--modes"),
        (["heat", "--points", -1], "--points"),
        (["heat", "--steps", 0], "--steps"),
        (["heat", "--final-time", -1], "--final-time"),
        (["heat", "--final-time", "nan"], "--final-time"),
        (["heat", "--final-time", "inf"], "--final-time"),
        (["heat", "--times", "0,a"], "--times"),
        (["heat", "--times", ""], "--times"),
        (["heat", "--times", "0,1", "--steps", 5], "got both"),
        (["heat", "--times", "1,0"], "strictly increasing"),
        (["heat", "--times", "-1,0"], "times from the initial one"),
        (["heat", "--seed", -1], "seed"),
        (["heat", "--scheme", "euler"], "exact"),
        (["heat", "--observation-std", -1], "observation_std"),
        (["heat", "--observation-std", "nan"], "observation_std"),
        (["heat", "--paths", 10**12], "GB"),
        (["heat", "--steps", 10**15], "GB"),
    ],
)
def test_bad_input_ends_before_any_work(fails, folder, args, words):
    assert words in fails("simulate", *args, "--out", "a.nc")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("a.csv", "ends in .nc or .zarr"),
        ("a", "pass --out a.nc"),
        ("nowhere/a.nc", "mkdir -p 'nowhere'"),
        ("file.txt/a.nc", "existing folder"),
        ("", "ends in .nc or .zarr"),
    ],
)
def test_bad_target(fails, folder, out, words):
    (folder / "file.txt").write_text("")
    assert words in fails("simulate", "heat", *SMALL, "--out", out)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_unwritable_folder(fails, folder, monkeypatch, name):
    """Root may write anywhere, so the system's answer is put in its mouth."""
    monkeypatch.setattr("spdelaw.cli._target.os.access", lambda *_: False)
    assert "can be written" in fails("simulate", "heat", *SMALL, "--out", name)


def test_larger_than_memory_points_to_zarr(fails, monkeypatch):
    monkeypatch.setattr("spdelaw.cli._target._memory", lambda: 1000)
    assert "pass --out a.zarr" in fails("simulate", "heat", *SMALL, "--out", "a.nc")


def test_a_streamed_store_is_sealed_and_can_be_replaced(run, fails, folder):
    run("simulate", "heat", *SMALL, "--out", "a.zarr")
    assert list((folder / "a.zarr").glob("*/spdelaw.sha256"))
    run("simulate", "heat", *SMALL, "--out", "a.zarr", "--force", "--seed", 1)
    (folder / "a.zarr" / "notes.txt").write_text("mine")
    line = fails("simulate", "heat", *SMALL, "--out", "a.zarr", "--force")
    assert "notes.txt" in line
    assert (folder / "a.zarr" / "notes.txt").read_text() == "mine"
