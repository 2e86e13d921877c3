"""The shell of the paper in one process, and records of small runs."""

import dataclasses

import numpy as np
import pytest
from tests.paper.cases import tiny_run
from typer.testing import CliRunner

from paper.__main__ import load_app
from paper.reproduction import plan, run

#: Entries that take a second or two.
CHEAP = ("limits", "exact", "chaos-dropped", "dlr-features", "dlr-features-periodic", "fno-hidden")


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    app = load_app()
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture(scope="module")
def small_data():
    """Sixty paths on a coarse grid in place of a thousand."""

    def coarse(make):
        return lambda n: dataclasses.replace(make(n), times=np.linspace(0.0, 1.0, 41), n_points=33)

    equations = {regime: coarse(make) for regime, make in run.EQUATIONS.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "EQUATIONS", equations)
        patch.setattr(plan, "N_PATHS", 60)
        patch.setattr(run, "N_PATHS", 60)
        yield
    run.make_data.cache_clear()


@pytest.fixture(scope="module")
def records(small_data, tmp_path_factory):
    """Records of cheap entries, their runs and their folder."""
    runs = [tiny_run(key, number=n) for n in range(2) for key in CHEAP]
    runs += [tiny_run("dlr-net-observed")]
    out = tmp_path_factory.mktemp("results")
    return [run.execute(one, out) for one in runs], runs, out
