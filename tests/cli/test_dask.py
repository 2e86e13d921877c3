"""``--dask``: the same law by workers, and clear words where there are none."""

import json

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import spdelaw as sl
from spdelaw.cli.shell import app

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dask")
    fields = sl.simulate(sl.catalogue.heat(n_modes=2), 12, seed=0).isel(time=slice(0, 60, 4))
    noise = 0.05 * np.random.default_rng(0).standard_normal(fields.shape)
    return sl.write(sl.mask(fields + noise, "random", 0.2, seed=1), folder / "gappy.zarr")


def test_a_fit_with_workers_is_the_fit_without(store, tmp_path):
    words = ["fit", store, "--domain", "interval", "--bounds", 0, np.pi, "--modes", 1]
    words += ["--boundary", "dirichlet", "--mean", "zero", "--nuisance", 0, "--json"]
    here = run(*words, "--out", tmp_path / "here.law")
    there = run(*words, "--out", tmp_path / "there.law", "--dask", "local:2")
    assert here.exit_code == there.exit_code == 0, there.output
    one, two = (sl.load(tmp_path / name) for name in ("here.law", "there.law"))
    np.testing.assert_allclose(two.linear.drift, one.linear.drift, rtol=1e-9)
    assert json.loads(there.stdout)["law"]["n_modes"] == 1


@pytest.mark.slow
def test_workers_of_a_scheduler_that_is_there(store, tmp_path):
    from distributed import LocalCluster

    words = ["fit", store, "--domain", "interval", "--bounds", 0, np.pi, "--modes", 1]
    words += ["--boundary", "dirichlet", "--mean", "zero", "--nuisance", 0]
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        result = run(*words, "--out", tmp_path / "a.law", "--dask", cluster.scheduler_address)
    assert result.exit_code == 0, result.output
    assert sl.load(tmp_path / "a.law").n_modes == 1


def test_a_scheduler_that_is_not_there_is_one_sentence(store, tmp_path, monkeypatch):
    monkeypatch.setattr("spdelaw.cli.commands.fit.SCHEDULER_TIMEOUT", 1)
    result = run("fit", store, "--out", tmp_path / "a.law", "--dask", "tcp://127.0.0.1:1")
    assert result.exit_code != 0
    assert "a Dask scheduler at tcp://127.0.0.1:1" in result.output.replace("\n", " ")
    assert not (tmp_path / "a.law").exists()


def test_a_long_record_in_a_store_is_never_whole(tmp_path, monkeypatch):
    """Commands that take a law read a .zarr in parts, and say what they say of the file read."""
    heat = sl.catalogue.heat(n_modes=1)
    fields = sl.simulate(heat, 1, times=np.linspace(0.0, 3.0, 61), seed=0, observation_std=0.05)
    data = sl.mask(fields, "random", 0.2, seed=1)
    sl.fit(data, heat.domain, 1, mean="zero", nuisance=0).save(tmp_path / "a.law")
    whole, parts = sl.write(data, tmp_path / "whole.nc"), tmp_path / "parts.zarr"
    data.chunk(time=15).to_dataset(name="field").to_zarr(parts, consolidated=False)

    load = xr.DataArray.load

    def refuse(self, **words):
        assert self.chunks is None or self.size < data.size / 2, "all values were read at once"
        return load(self, **words)

    answers = []
    for file, out in ((whole, "whole_out.nc"), (parts, "parts_out.zarr")):
        if file is parts:
            monkeypatch.setattr("xarray.DataArray.load", refuse)
        words = (tmp_path / "a.law", file)
        done = run("reconstruct", *words, "--out", tmp_path / out, "--json")
        judged = run("evaluate", *words, "--json")
        for result in (done, judged):
            assert result.exit_code == 0, result.output
        answers.append((json.loads(done.stdout), json.loads(judged.stdout)["scorecard"]))
    (one, card), (two, other) = answers
    assert two["missing"] == pytest.approx(one["missing"])
    np.testing.assert_allclose(two["std"], one["std"])
    for tier, scores in card["tiers"].items():
        for name in ("relative_l2", "rmse", "crps", "coverage"):
            assert other["tiers"][tier][name] == pytest.approx(scores[name], rel=1e-9)
