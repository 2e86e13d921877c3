"""Every command on fields with several spatial dims, and the options that name the domain."""

import json
import os

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.data import read, write

SMALL = ("--paths", 12, "--modes", 3, "--steps", 20, "--points", 6)
FIT = ("--modes", 3, "--initial", "stationary", "--observation-noise", "none")


@pytest.mark.parametrize("equation", ["square-heat", "disk-heat", "sphere-heat"])
def test_from_simulation_to_judgement(run_json, equation):
    run_json("simulate", equation, *SMALL, "--out", "a.nc")
    fields = read("a.nc", dims=None)
    document = run_json("fit", "a.nc", *FIT, "--out", "a.law")
    domain = sl.load("a.law").domain
    assert "equation in the file" in document["domain_from"] or domain == sl.Sphere()
    assert domain == getattr(sl.catalogue, equation.replace("-", "_"))(n_modes=3).domain
    for command, more in (
        ("sample", ("--paths", 2)),
        ("reconstruct", ("a.nc",)),
        ("forecast", ("a.nc", "--until", 2, "--steps", 3)),
    ):
        arguments = (command, "a.law", *more, "--out", f"{command}.nc")
        shape = run_json(*arguments)["shape"]
        for dim in domain.dims:
            assert shape[dim] == fields.sizes[dim]
    card = run_json("evaluate", "a.law", "a.nc")["scorecard"]
    assert card["law"]["largest_z"] < 4
    info = run_json("info", "a.nc", "--dims", ",".join(domain.dims))["fields"]
    assert set(domain.dims) <= set(info["coordinates"])


@pytest.fixture
def plain(folder):
    """Fields on a square grid in a file that does not know its domain."""
    fields = sl.simulate(sl.catalogue.square_heat(n_modes=3), 12, np.linspace(0, 1, 21), seed=0,
                         grid=sl.Box((0, np.pi), (0, np.pi)).grid(6))  # fmt: skip
    write(fields.drop_attrs(), "plain.nc")
    return fields


@pytest.mark.parametrize(
    ("options", "domain"),
    [
        ([], sl.Box((0, np.pi), (0, np.pi))),
        (["--sides", "0,4,-1,4"], sl.Box((0, 4), (-1, 4))),
        (["--boundary", "neumann,dirichlet"],
         sl.Box((0, np.pi), (0, np.pi), boundary=("neumann", "dirichlet"))),
    ],
)  # fmt: skip
def test_sides_of_a_box(run, plain, options, domain):
    common = ("--modes", 1, "--nuisance", 0, "--observation-noise", "none", "--out", "a.law")
    run("fit", "plain.nc", "--domain", "box", *options, *common)
    got = sl.load("a.law").domain
    assert got.boundary == domain.boundary
    np.testing.assert_allclose(got.sides, domain.sides)


def test_a_domain_from_a_file(run, fails, plain):
    domain = sl.Empirical(plain, 2)
    with open("eofs.json", "w") as file:
        json.dump(domain.to_dict(), file)
    run("fit", "plain.nc", "--domain", "eofs.json", "--modes", 2, "--out", "a.law")
    assert sl.load("a.law").domain == domain
    assert "a file of json.dumps" in fails(
        "fit", "plain.nc", "--domain", "none.json", "--out", "b.law"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--domain", "box", "--bounds", 0, 1], "pass --domain interval"),
        (["--domain", "box", "--radius", 1], "pass --domain disk"),
        (["--domain", "box", "--sides", "0,1,2"], "4 numbers, two per dim"),
        (["--domain", "box", "--boundary", "periodic"], "--sides"),
        (["--domain", "box", "--boundary", "neumann,neumann,neumann"], "one word, or 2"),
        (["--domain", "disk"], "--radius"),
        (["--domain", "disk", "--radius", -1], "--radius"),
        (["--domain", "disk", "--radius", 1], "larger disk"),
        (["--domain", "sphere"], "lat"),
        (["--domain", "interval"], "dim 'y'"),
        (["--domain", "mesh"], "one of interval, line, box"),
    ],
)
def test_wrong_options_are_named(fails, plain, options, words):
    assert words in fails("fit", "plain.nc", *options, "--modes", 2, "--out", "a.law")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "box"}', "two or three sides"),
        ('{"name": "mesh"}', "the fields modes, nodes"),
        ('{"name": "graph", "modes": [[1]]}', "the fields adjacency"),
        ("[1, 2]", "a dict with a name"),
        ('{"name": ' + "[" * 100_000, "nested without end"),
        ("box", "a file of json.dumps"),
        (None, "a regular file, got a pipe"),
    ],
)
def test_a_domain_file_that_is_none(plain, fails, text, words):
    if text is None:
        os.mkfifo("domain.json")
    else:
        with open("domain.json", "w") as file:
            file.write(text)
    args = ("fit", "plain.nc", "--domain", "domain.json", "--modes", 2, "--out", "a.law")
    assert words in fails(*args)


def test_a_sensor_outside_is_named(folder, fails):
    points = np.array([[0.2, 0.3], [0.5, 0.5], [4.0, 0.5]])
    values = np.random.default_rng(0).standard_normal((4, 6, 3))
    fields = xr.DataArray(
        values,
        dims=("path", "time", "point"),
        coords={"time": np.arange(6.0), "x": ("point", points[:, 0]), "y": ("point", points[:, 1])},
    )
    write(fields, folder / "sensors.nc")
    args = ("--domain", "box", "--sides", "0,1,0,1", "--modes", 2, "--out", "a.law")
    assert "number 2 at x 4, y 0.5" in fails("fit", "sensors.nc", *args)
