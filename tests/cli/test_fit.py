"""spdelaw fit and show."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr
from tests.cli.law_files import EQUATION, KINDS, MODES, complete, write_kind

import spdelaw as sl
from spdelaw.data import write


@pytest.fixture
def data(folder):
    return write_kind("complete")


@pytest.mark.parametrize("kind", KINDS)
def test_fit_writes_the_law_of_the_library(run_json, folder, kind):
    fields = write_kind(kind)
    noise = ("--observation-noise", "estimate" if kind == "masked" else "none")
    document = run_json("fit", "data.nc", "--domain", "interval", *MODES, *noise, "--out", "a.law")
    expected = sl.fit(fields, sl.Interval(0, np.pi), 3, observation_noise=noise[1])
    got = sl.load("a.law")
    assert got.parameters.equals(expected.parameters)
    estimate = document["law"]["parameters"]["eigenvalue"]["estimate"]
    assert estimate == pytest.approx(expected.parameters.eigenvalue.values[:, 0], rel=1e-12)
    assert document["law"]["info"]["n_paths"] == fields.sizes["path"]
    assert sorted(p.name for p in folder.iterdir()) == ["a.law", "data.nc"]


def test_table_shows_estimates_intervals_and_the_domain(run, data):
    text = run("fit", "data.nc", *MODES, "--out", "a.law").stdout
    values = sl.load("a.law").parameters.eigenvalue.values
    for estimate, _, lower, upper in values:
        assert f"{estimate:.4g}" in text
        assert f"[{lower:.4g}, {upper:.4g}]" in text
    assert "bounds from the equation in the file" in text
    assert "a.law" in text


def test_quiet_says_nothing(run, data):
    assert run("fit", "data.nc", *MODES, "--out", "a.law", "--quiet").output == ""


@pytest.mark.parametrize(
    ("args", "domain", "reason"),
    [
        ([], sl.Interval(0, np.pi), "equation in the file"),
        (["--bounds", 0, 4], sl.Interval(0, 4), "--bounds"),
        (["--boundary", "neumann"], sl.Interval(0, np.pi, "neumann"), "equation in the file"),
        (["--domain", "line"], sl.Line(), "no bounds"),
    ],
)
def test_where_the_domain_comes_from(run_json, data, args, domain, reason):
    # Most of these are wrong for the data, whose likelihood then need not have a maximum: plain
    # projections without nuisance modes always do.
    plain = ("--modes", 2, "--nuisance", 0, "--observation-noise", "none")
    document = run_json("fit", "data.nc", *args, *plain, "--out", "a.law")
    assert sl.load("a.law").domain == domain
    assert reason in document["domain_from"]


def test_without_an_equation_the_coordinate_gives_the_bounds(run, fails, data):
    write(data.drop_attrs(), "plain.nc")
    common = ("fit", "plain.nc", *MODES, "--out", "a.law")
    periodic = (*common, "--domain", "interval", "--boundary", "periodic")
    assert "--bounds" in fails(*periodic)
    text = run(*common).stdout
    assert "ends of the coordinate x" in text
    assert "dirichlet, because the field is zero at both ends" in text
    assert sl.load("a.law").domain == sl.Interval(0, np.pi)


def test_zarr_gives_the_same_law(run, data):
    pytest.importorskip("zarr")
    write(data, "data.zarr")
    for suffix in ("nc", "zarr"):
        run("fit", f"data.{suffix}", *MODES, "--out", f"{suffix}.law")
    # A Zarr directory is read piece by piece: its sums are taken in another order.
    xr.testing.assert_allclose(
        sl.load("zarr.law").parameters, sl.load("nc.law").parameters, rtol=1e-9
    )


def test_options_reach_the_fit(run_json, data):
    document = run_json(
        "fit", "data.nc", *MODES, "--drift", "parametric", "--noise", "parametric",
        "--initial", "gaussian", "--level", 0.8, "--observation-noise", 0.01, "--nuisance", 0,
        "--out", "a.law",
    )  # fmt: skip
    law = document["law"]
    assert (law["info"]["drift"], law["info"]["noise"]) == ("parametric", "parametric")
    assert law["info"]["initial_state"] == "gaussian"
    assert law["level"] == 0.8
    assert law["parameters"]["observation_std"]["estimate"] == pytest.approx(0.01)


def test_modes_chosen_by_the_fit_are_noted(run, data):
    text = run("fit", "data.nc", "--out", "a.law").stdout
    assert "note: " in text
    assert sl.load("a.law").n_modes == EQUATION.n_modes


def test_force_replaces_a_law_and_nothing_else(run, fails, folder, data):
    run("fit", "data.nc", *MODES, "--out", "a.law")
    before = (folder / "a.law" / "law.json").read_bytes()
    assert "--force" in fails("fit", "missing.nc", "--out", "a.law"), "before any work"
    assert (folder / "a.law" / "law.json").read_bytes() == before
    run("fit", "data.nc", "--modes", 2, "--out", "a.law", "--force")
    assert sl.load("a.law").n_modes == 2
    (folder / "thesis").mkdir()
    (folder / "thesis" / "chapter.tex").write_text("years")
    assert "something else" in fails("fit", "data.nc", "--out", "thesis", "--force")
    assert (folder / "thesis" / "chapter.tex").read_text() == "years"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--domain", "torus"], "one of interval, line"),
        (["--domain", "line", "--bounds", 0, 1], "--domain interval"),
        (["--boundary", "open"], "--boundary"),
        (["--bounds", 1, 0], "a < b"),
        (["--bounds", 0, 1], "points"),
        (["--modes", "many"], "--modes: expected auto or an integer"),
        (["--modes", 0], "--modes"),
        (["--modes", 99], "n_modes: expected at most"),
        (["--observation-noise", "some"], "--observation-noise"),
        (["--observation-noise", -1], "observation_noise"),
        (["--observation-noise", "nan"], "observation_noise"),
        (["--initial", "random"], "--initial"),
        (["--drift", "full"], "--drift"),
        (["--noise", "full"], "--noise"),
        (["--noise", "low_rank", "--noise-rank", 0], "noise_rank"),
        (["--nuisance", -1], "--nuisance"),
        (["--level", 1.5], "level"),
        (["--bootstrap", -1], "bootstrap"),
        (["--threads", 0], "threads"),
        (["--variable", "wind"], "wind"),
    ],
)
def test_bad_input_leaves_nothing_behind(fails, folder, data, args, words):
    assert words in fails("fit", "data.nc", *args, "--out", "a.law")
    assert [p.name for p in folder.iterdir()] == ["data.nc"]


@pytest.mark.parametrize(
    ("out", "words"),
    [("a.nc", "pass --out a.law"), ("nowhere/a.law", "mkdir -p"), ("data.nc/a.law", "folder")],
)
def test_bad_target(fails, data, out, words):
    assert words in fails("fit", "data.nc", "--out", out)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: f.rename(time="depth"),
        lambda f: f.isel(time=[0]),
        lambda f: f * np.nan,
    ],
    ids=["dims", "one time", "all missing"],
)
def test_bad_data(fails, folder, spoil):
    spoil(complete()).to_netcdf("data.nc")
    fails("fit", "data.nc", "--domain", "interval", *MODES, "--out", "a.law")
    assert [p.name for p in folder.iterdir()] == ["data.nc"]


# ------------------------------------------------------------------ show


def test_show_has_parameters_facts_and_citation(run, run_json, data):
    run("fit", "data.nc", *MODES, "--out", "a.law", "-q")
    text, document = run("show", "a.law").stdout, run_json("show", "a.law")
    law = sl.load("a.law")
    for name in ("eigenvalue", "noise_variance"):
        assert all(f"{v:.4g}" in text for v in law.parameters[name].values[:, 0])
    for words in ("exact", "[0, 3.14159], dirichlet", "12 path × ", "Initial state", "cite: "):
        assert words in text
    assert document["citation"] == law.citation()
    assert document["law"]["info"] == json.loads(json.dumps(dict(law.info)))
    assert run("show", "a.law", "-q").output == ""


def test_show_needs_a_law(fails, folder, data):
    assert "nothing of this name" in fails("show", "b.law")
    assert "spdelaw fit data.nc" in fails("show", "data.nc")
    (folder / "empty.law").mkdir()
    assert "no law there" in fails("show", "empty.law")
    (folder / "empty.law" / "law.json").write_text("{}")
    fails("show", "empty.law")


# -- modes that drift or noise couple ---------------------------------------------------------


def test_transport_on_the_sphere(run, run_json, fails):
    run("simulate", "rotating-sphere", "--paths", 12, "--modes", 4, "--points", 6, "--out", "s.nc")
    fit = ("--drift", "normal", "--modes", 4)
    drift = run_json("fit", "s.nc", *fit, "--out", "s.law")["law"]["parameters"]["drift"]
    matrix = np.array(drift["estimate"])
    assert matrix[2, 3] == -matrix[3, 2] != 0
    assert abs(matrix[2, 3] - 1.0) < 4 * np.array(drift["stderr"])[2, 3]
    np.testing.assert_array_equal(matrix[:2, 2:], 0.0)
    run("simulate", "square-heat", "--paths", 4, "--modes", 4, "--points", 6, "--out", "b.nc")
    assert "one periodic side" in fails("fit", "b.nc", *fit, "--out", "b.law")


def test_coupled_laws_from_fit_to_forecast(run, run_json):
    """Every command takes a law of coupled modes; tables show eigenmodes, --json the matrices."""
    run("simulate", "advection-diffusion", "--paths", 30, "--modes", 3, "--out", "ring.nc")
    arguments = ("--drift", "dense", "--noise", "dense", "--modes", 3)
    document = run_json("fit", "ring.nc", *arguments, "--out", "ring.law")
    assert np.shape(document["law"]["parameters"]["drift"]["estimate"]) == (3, 3)
    assert document["law"]["info"]["drift"] == "dense"
    text = run("show", "ring.law").stdout
    modes = sl.load("ring.law").eigenmodes()
    for name in ("e_folding_time", "period"):
        assert f"{modes[name].values[-1, 0]:.4g}" in text
    assert "none" in text  # the period of the mean, which does not turn
    card = run_json("evaluate", "ring.law", "ring.nc")["scorecard"]
    assert np.shape(card["law"]["drift_z"]) == (3, 3)
    run("forecast", "ring.law", "ring.nc", "--until", 1.2, "--steps", 4, "--out", "ahead.nc")
    assert xr.open_dataset("ahead.nc", engine="h5netcdf")["mean"].sizes["path"] == 30


def test_known_forcing_from_a_file(run_json, folder):
    forcing = sl.Forcing([0.0, 1.0], [[4.0, 0.0, -3.0], [0.0, 5.0, 0.0]])
    truth = dataclasses.replace(EQUATION, forcing=forcing)
    fields = sl.simulate(truth, 20, seed=3)
    write(fields, "data.nc")
    x = fields["x"].values
    write(
        xr.DataArray(truth.domain.synthesise(forcing.coefficients, x), dims=("time", "x"),
                     coords={"time": [0.0, 1.0], "x": x}), "heater.nc",
    )  # fmt: skip
    document = run_json("fit", "data.nc", *MODES, "--forcing", "heater.nc", "--out", "a.law")
    law = sl.load("a.law")
    np.testing.assert_allclose(law.forcing.on_modes(3), forcing.coefficients, atol=1e-9)
    expected = sl.fit(fields, truth.domain, 3, forcing=forcing).parameters.eigenvalue.values
    got = np.array(document["law"]["parameters"]["eigenvalue"]["estimate"])
    # The forcing went through a file of fields: a search by another way ends as close as this.
    assert (np.abs(got - expected[:, 0]) < 1e-3 * expected[:, 1]).all()


def test_seasons_of_the_noise(run_json, run, fails, folder):
    truth = dataclasses.replace(EQUATION, season=sl.Season(0.5, [3.0, 1.0]))
    write(sl.simulate(truth, 20, seed=3), "data.nc")
    document = run_json("fit", "data.nc", *MODES, "--season", 0.5, 2, "--out", "a.law")
    estimate = document["law"]["parameters"]["season"]["estimate"]
    assert estimate == pytest.approx([1.5, 0.5], abs=0.1)
    assert sl.load("a.law").linear.season.period == 0.5
    assert "season" in run("show", "a.law").stdout
    assert "positive period" in fails("fit", "data.nc", "--season", -1, 2, "--out", "b.law")


def test_mean_of_the_law(run_json, run, fails, folder):
    shifted = dataclasses.replace(EQUATION, centre=np.array([2.0, 0.0, 0.0]), initial="stationary")
    fields = sl.simulate(shifted, 10, seed=0)
    write(fields, "shifted.nc")
    fit = ("fit", "shifted.nc", "--domain", "interval", *MODES)
    found = run_json(*fit, "--out", "around.law")["law"]
    low, high = (found["parameters"]["mean"][end][0] for end in ("lower", "upper"))
    assert low < 2.0 < high
    assert "a mean gains" in run(*fit, "--mean", "auto", "--out", "auto.law").stdout
    zero = run_json(*fit, "--mean", "zero", "--out", "zero.law")["law"]
    assert "mean" not in zero["parameters"]
    climate = fields.mean(("path", "time")).rename("climate")
    climate.to_netcdf("climate.nc", engine="h5netcdf")
    known = run_json(*fit, "--mean", "climate.nc", "--out", "known.law")["law"]
    assert known["parameters"]["mean"]["stderr"] == [0.0, 0.0, 0.0]
    assert "--mean" in fails(*fit, "--mean", "steady", "--out", "b.law")


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
    here = ("--domain", "interval", "--bounds", 0, np.pi, "--boundary", "dirichlet")
    options = ("--variable", "u", *here, "--modes", 2, "--initial", "stationary")
    run("fit", "both.nc", *options, "--observation-noise", "error", "--out", "a.law")
    law = sl.load("a.law")
    assert law.info["observation_noise"] == "known per value"
    run("reconstruct", "a.law", "both.nc", "--variable", "u", "--out", "near.nc")
    data = both["u"].assign_coords(observation_std=both["error"])
    expected = law.reconstruct(data)["std"].values
    with xr.open_dataset("near.nc") as near:
        np.testing.assert_allclose(near["std"].values, expected, rtol=1e-6)
    assert "error" in fails("fit", "both.nc", *options, "--observation-noise", "eror", "--out", "b")
