"""Options reach the library: a command line is the call that it would be in Python."""

import dataclasses
import inspect
import json

import numpy as np
import pytest
import xarray as xr
from tests.cli.law_files import CALM, EQUATION, GRID, complete
from typer.testing import CliRunner

import spdelaw as sl
from spdelaw.cli.commands.fit import discover_command, fit_command
from spdelaw.cli.commands.judge import compare_command, evaluate_command, skill_command
from spdelaw.cli.commands.predict import fill_command
from spdelaw.cli.commands.simulate import simulate_command
from spdelaw.cli.shell import app
from spdelaw.data.io.files import write

VERBS = {"fit": (fit_command, "fit"), "fill": (fill_command, "fill"),
         "skill": (skill_command, "skill"), "discover": (discover_command, "discover"),
         "simulate": (simulate_command, "simulate"), "evaluate": (evaluate_command, "evaluate"),
         "compare": (compare_command, "compare")}  # fmt: skip
MODEL = {field.name: field.default for field in dataclasses.fields(sl.Model)}


class CalledError(Exception):
    """Ends a command where it calls the library."""


@pytest.fixture
def call_of(stocked, monkeypatch):
    """Arguments that a command line hands to the library, with those that the library assumes."""

    def call(line):
        command = line.split()[0]
        if command in VERBS:
            function, name = VERBS[command]
            names = function.__globals__
        else:
            names, name = sl.Law, command
        real = names[name] if isinstance(names, dict) else getattr(names, name)

        def stop(*args, **words):
            raise CalledError(arguments(real, *args, **words))

        if isinstance(names, dict):
            monkeypatch.setitem(names, name, stop)
        else:
            monkeypatch.setattr(names, name, stop)
        result = CliRunner().invoke(app, line.split())
        assert isinstance(result.exception, CalledError), result.output
        return real, result.exception.args[0]

    return call


def arguments(function, *args, **words):
    bound = inspect.signature(function).bind(*args, **words)
    bound.apply_defaults()
    flat = bound.arguments | bound.arguments.get("words", {})
    flat |= flat.get("settings", {})
    return {k: v for k, v in flat.items() if k not in ("words", "settings", "progress")}


def plain(value):
    """Domains with numbers that are equal up to rounding, and seasons, which hold arrays."""
    if hasattr(value, "to_dict"):
        return json.loads(json.dumps(value.to_dict()), parse_float=lambda x: round(float(x), 9))
    return repr(value) if isinstance(value, sl.Season) else value


def same(one, other):
    try:
        np.testing.assert_equal(one, other)
    except AssertionError:
        return False
    return True


HEAT, NEUMANN = sl.Interval(0, np.pi), sl.Interval(0, np.pi, "neumann")
SQUARE = sl.Box((0, np.pi), (0, np.pi))
MIXED = sl.Box((0, np.pi), (0, np.pi), boundary=("neumann", "dirichlet"))
FITS = [
    ("complete.nc", HEAT, "auto", {}),
    ("complete.nc --modes 3 --bounds 0 4", sl.Interval(0, 4), 3, {}),
    ("complete.nc --boundary neumann --nuisance 2", NEUMANN, "auto", {"nuisance": 2}),
    ("complete.nc --domain line", sl.Line(), "auto", {}),
    ("plain.nc --modes 2", HEAT, 2, {}),
    ("square.nc --domain box --modes 2", SQUARE, 2, {}),
    ("square.nc --domain box --sides 0,4,-1,4", sl.Box((0, 4), (-1, 4)), "auto", {}),
    ("square.nc --domain box --boundary neumann,dirichlet", MIXED, "auto", {}),
    ("square.nc --domain disk --radius 9 --centre 1,2 --boundary neumann",
     sl.Disk(9.0, (1.0, 2.0), "neumann"), "auto", {}),
    ("square.nc --domain plane", sl.Plane(), "auto", {}),
    ("complete.nc --drift parametric --noise parametric --initial gaussian --level 0.8 --seed 3",
     HEAT, "auto", {"drift": "parametric", "noise": "parametric", "initial": "gaussian",
                    "level": 0.8, "seed": 3}),
    ("complete.nc --observation-noise 0.01 --noise low_rank --noise-rank 2 --bootstrap 5",
     HEAT, "auto", {"observation_noise": 0.01, "noise": "low_rank", "noise_rank": 2,
                    "bootstrap": 5}),
    ("complete.nc --observation-noise none --mean zero --residual memory", HEAT, "auto",
     {"observation_noise": "none", "mean": "zero", "residual": "memory"}),
    ("complete.nc --terms u,u^3 --fixed nu=0.05,u^3=-1 --modes 5", HEAT, 5,
     {"terms": ("u", "u^3"), "fixed": {"nu": 0.05, "u^3": -1.0}}),
    ("complete.nc --season 0.5 2", HEAT, "auto", {"season": sl.Season(0.5, 2)}),
    ("complete.nc --engine chaos --n-time 16 --tail dropped --threads 2", HEAT, "auto",
     {"engine": "chaos", "n_time": 16, "tail": "dropped", "threads": 2}),
    ("complete.nc --engine amortized --preset paper --epochs 7 --engine-option a=true "
     "--engine-option b=text", HEAT, "auto",
     {"engine": "amortized", "preset": "paper", "epochs": 7, "a": True, "b": "text"}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "domain", "n_modes", "words"), FITS)
def test_fit(call_of, line, domain, n_modes, words):
    real, got = call_of(f"fit {line} --out x.law")
    fields = sl.read(line.split()[0], dims=None)
    np.testing.assert_array_equal(got["data"].fields.values.ravel(), fields.values.ravel())
    expected = MODEL | arguments(real, got["data"], domain, n_modes, **words)
    assert {k: plain(v) for k, v in (MODEL | got).items()} == {
        k: plain(v) for k, v in expected.items()
    }


LON = {"lon": "x"}
PREPARED = [
    ("sst.nc --domain interval",  # anomalies are chosen by the values
     {"average": "lat", "rename": LON, "anomalies": "mean"}),
    ("sst.nc --domain interval --anomalies none", {"average": "lat", "rename": LON}),
    ("sst.nc --domain interval --terms u", {"average": "lat", "rename": LON}),
    ("sst.nc --domain interval --detrend", {"average": "lat", "rename": LON, "detrend": True}),
    ("sst.nc --domain interval --anomalies month --detrend --standardise point --time-unit hours",
     {"average": "lat", "rename": LON, "anomalies": "month", "detrend": True,
      "standardise": "point", "time_unit": "hours"}),
    ("two.nc --domain interval --variable sst --missing -9999",
     {"average": "lat", "rename": LON, "missing": -9999, "anomalies": "mean"}),
    ("wide.nc --domain interval --select lat=-2:2 --select lon=160:200 --coarsen x=2 "
     "--anomalies none",
     {"average": "lat", "rename": LON, "select": {"lat": (-2, 2), "lon": (160, 200)},
      "coarsen": {"x": 2}}),
    ("wide.nc --along lon --average lat --area-weights",
     {"average": "lat", "rename": LON, "area_weights": True}),
    ("globe.nc --domain sphere --anomalies none",
     {"rename": {"latitude": "lat", "longitude": "lon"}}),
    ("globe.nc --domain box --select latitude=-80:0 --coarsen longitude=2 --anomalies dayofyear",
     {"rename": {"longitude": "x", "latitude": "y"}, "select": {"latitude": (-80, 0)},
      "coarsen": {"longitude": 2}, "anomalies": "dayofyear"}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "words"), PREPARED)
def test_preparation_of_a_fit(call_of, line, words):
    _, got = call_of(f"fit {line} --out x.law")
    how = got["data"].prepared.how
    file = line.split()[0]
    expected = sl.Preparation(**({"time_unit": "days", "variable": how.variable} | words))
    assert how.variable == ("t2m" if file == "globe.nc" else "sst")
    assert how == expected


def test_known_fields_from_files(call_of, stocked):
    """Forcing, mean and the standard deviation of each value."""
    x = xr.DataArray(np.ones((2, 17)), {"time": [0.0, 1.0], "x": GRID}, ("time", "x"), "heat")
    write(x, "heater.nc")
    x.isel(time=0, drop=True).rename("climate").to_netcdf("climate.nc", engine="h5netcdf")
    both = xr.Dataset({"u": complete(), "error": abs(complete()) + 0.1})
    both.to_netcdf("both.nc", engine="h5netcdf")
    _, got = call_of("fit complete.nc --forcing heater.nc --mean climate.nc --out x.law")
    np.testing.assert_array_equal(got["forcing"].values[0], x)
    np.testing.assert_array_equal(got["mean"], x[0])
    _, got = call_of("fit both.nc --variable u --domain interval --observation-noise error "
                     "--out x.law")  # fmt: skip
    assert got["observation_noise"] == "auto"
    np.testing.assert_allclose(got["data"].std.ravel(), both["error"].values.ravel())


SST = sl.Preparation(rename={"lon": "x", "lat": "y"}, variable="sst", time_unit="days",
                     anomalies="mean")  # fmt: skip
COMPLETE = {"domain": HEAT, "prepare": None}
CALLS = [
    ("fill sea.nc --anomalies mean --out x.nc",
     {"prepare": SST, "seconds": 300.0, "return_law": True}),
    ("fill masked.nc --modes 3 --drift diagonal --basis domain --residual white --seconds 0 "
     "--smooth --everywhere --seed 4 --out x.nc",
     COMPLETE | {"n_modes": 3, "drift": "diagonal", "basis": "domain", "residual": "white",
                 "seconds": None, "smooth": True, "everywhere": True, "seed": 4,
                 "return_law": True}),
    ("skill calm.nc", {"domain": CALM.domain, "prepare": None}),
    ("skill calm.nc --state-noise proportional --terms u,u^2 --observation-noise 0.1 --mean zero",
     {"domain": CALM.domain, "prepare": None, "state_noise": "proportional", "terms": ("u", "u^2"),
      "observation_noise": 0.1, "mean": "zero"}),
    ("skill calm.nc --modes 1,2 --leads 1,3 --first 60 --refits 1 --origins rolling "
     "--residual white --drift dense --noise dense --initial stationary --nuisance 0 --level 0.9 "
     "--most-origins 5",
     {"n_modes": [1, 2], "leads": [1, 3], "first": 60, "refits": 1, "origins": "rolling",
      "residual": "white", "drift": "dense", "noise": "dense", "initial": "stationary",
      "nuisance": 0, "level": 0.9, "most_origins": 5}),
    ("skill sst.nc --domain eof --modes 2", {"domain": "eof", "n_modes": 2}),
    ("discover fronts.nc --modes 5 --library u,u^3 --noise diagonal --fixed nu=0 --bootstrap 20",
     {"n_modes": 5, "library": ("u", "u^3"), "noise": "diagonal", "fixed": {"nu": 0.0},
      "bootstrap": 20, "domain": sl.catalogue.allen_cahn(5).domain, "prepare": None}),
    ("simulate heat --paths 5 --modes 3 --steps 10 --points 17 --final-time 2 --seed 7 "
     "--scheme semi_implicit --observation-std 0.1 --noise --out x.nc",
     {"equation": EQUATION, "n_paths": 5, "times": np.linspace(0, 2, 11), "grid": GRID[:, None],
      "seed": 7, "scheme": "semi_implicit", "observation_std": 0.1, "return_noise": True}),
    ("sample a.law --paths 5 --seed 3 --observation-noise --times 0,0.5,3 --points 17 --out x.nc",
     {"n_paths": 5, "seed": 3, "observation_noise": True, "times": [0, 0.5, 3],
      "grid": GRID[:, None]}),
    ("reconstruct a.law masked.nc --points 17 --out x.nc", {"grid": GRID[:, None]}),
    ("reconstruct a.law masked.nc --out x.nc", {"grid": None}),
    ("forecast a.law complete.nc --until 2 --steps 4 --samples 3 --seed 2 --parameter-draws 6 "
     "--out x.nc", {"at": [1.25, 1.5, 1.75, 2.0], "n_samples": 3, "seed": 2,
                    "parameter_draws": 6}),
    ("forecast a.law complete.nc --times 1.5,4 --out x.nc", {"at": [1.5, 4.0]}),
    ("forecast a.law complete.nc --steps 2 --out x.nc", {"at": [1.05, 1.1]}),
    ("forecast a.law complete.nc --until 1.12 --out x.nc", {"at": [1.05, 1.1]}),
    ("evaluate a.law test.nc", {"truth": EQUATION}),
    ("evaluate a.law test.nc --no-truth", {"truth": None}),
    ("evaluate a.law plain.nc", {"truth": None}),
    ("evaluate a.law plain.nc --truth complete.nc", {"truth": EQUATION}),
    ("compare a.law m1.law --data test.nc --level 0.8 --seed 2",
     {"names": ("a", "m1"), "level": 0.8, "seed": 2}),
    ("compare m1.law ./m1.law", {"names": ("1", "2"), "data": None}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "words"), CALLS)
def test_other_commands(call_of, line, words):
    real, got = call_of(line)
    defaults = {name: p.default for name, p in inspect.signature(real).parameters.items()
                if p.default is not p.empty and name != "progress"}  # fmt: skip
    loose = ("domain", "prepare", "times", "at", "grid", "truth", "data")
    for name, value in words.items():
        if name in ("times", "at", "grid") and value is not None:
            np.testing.assert_allclose(np.reshape(got[name], np.shape(value)), value)
        else:
            assert got[name] == value, name
    for name, value in defaults.items():
        if name not in words and name not in loose:
            assert same(got[name], value), name


def test_data_follow_the_laws(call_of):
    _, got = call_of("compare a.law m1.law test.nc")
    assert got["names"] == ("a", "m1")
    np.testing.assert_array_equal(got["data"], sl.read("test.nc"))


def test_a_domain_from_a_file(call_of, files):
    domain = sl.Empirical(sl.read(files / "square.nc", dims=None), 2)
    with open("eofs.json", "w") as file:
        json.dump(domain.to_dict(), file)
    assert call_of("fit square.nc --domain eofs.json --modes 2 --out x.law")[1]["domain"] == domain


def test_config_sets_options_and_the_command_line_overrules(call_of, stocked):
    (stocked / "fit.yaml").write_text(
        "modes: 2\ndomain: interval\nnuisance: 0\ninitial: stationary\nanomalies: month\n"
        "out: x.law\nselect: ['lon=150:190']\nbounds: [150, 190]\ndetrend: true\n"
    )
    _, got = call_of("fit sst.nc --config fit.yaml --modes 1")
    assert (got["n_modes"], got["nuisance"], got["initial"]) == (1, 0, "stationary")
    assert got["domain"] == sl.Interval(150, 190, "neumann")
    how = got["data"].prepared.how
    assert (how.anomalies, how.detrend, how.select) == ("month", True, {"lon": (150, 190)})
