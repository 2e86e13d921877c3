"""spdelaw demo, end to end on a small size."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from spdelaw.cli import app
from spdelaw.evaluation import mean_predictor
from spdelaw.paper import demo
from spdelaw.paper.demo import Learned
from spdelaw.paper.regimes import REGIMES
from spdelaw.report import Verdict
from spdelaw.simulation import simulate

pytest.importorskip("matplotlib")

EACH = ("fields", "variance", "spectrum", "law")
FIGURES = {f"regime-{r}-{what}.png" for r in "ab" for what in EACH} | {
    f"regime-b-{what}.png" for what in ("law-gaps", "reconstruction", "forecast", "engines")
}


@pytest.fixture
def hard_case_once(monkeypatch):
    """Two runs of the demo on the same paths share the one fit that takes seconds."""
    fit, found = demo.learn_hard_case, []

    def once(*args):
        if not found:
            found.append(fit(*args))
        return found[0]

    monkeypatch.setattr(demo, "learn_hard_case", once)


def test_demo_from_end_to_end(run, run_json, folder, hard_case_once):
    document = run_json("demo", "--paths", 60, "--out", "demo")
    assert {p.name for p in (folder / "demo").iterdir()} == FIGURES | {"report.html"}
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in (folder / "demo").glob("*.png"))
    assert document["report"] == "demo/report.html"
    assert [r["regime"] for r in document["regimes"]] == ["A", "B"]
    for regime in document["regimes"]:
        assert regime["verdict"]["agrees"]
        assert np.shape(regime["moments"]["variance_z"]) == (3, regime["n_modes"])
        assert {p.split("/")[-1] for p in regime["figures"]} <= FIGURES
    a, b = document["regimes"]
    assert [len(r["laws"]) for r in (a, b)] == [1, 2]
    assert all(law["agrees"] for r in (a, b) for law in r["laws"])
    assert set(b["use"]) == {"gaps", "forecast"}
    engines, floor = b["compared"]["engines"], b["compared"]["floor"]
    exact, dropped, structured = engines.values()
    assert structured["kl"] == pytest.approx(exact["kl"], rel=1e-3)
    assert dropped["kl"] > 10 * exact["kl"]
    for truncated in (dropped, structured):
        assert floor * 0.999 < truncated["relative_l2"] < 1.05 * floor
    text = run("demo", "--paths", 60).stdout  # again, into the same folder
    assert text.count("agrees with the closed form") == 2
    assert "false-alarm rate 0.0001" in text
    assert text.count("tier 'predict'") == 2
    assert "SV&NN" in text
    assert "DeepONet" in text
    assert all(name in text for name in FIGURES)
    assert text.count("The learned law agrees with the true one") == 3
    assert "In short" in text
    assert text.endswith("demo/report.html\n")


@pytest.mark.parametrize(("z", "stderr", "agrees"), [(1.0, 0.1, True), (9.0, 0.1, False),
                                                     (0.0, np.inf, False)])  # fmt: skip
def test_a_number_that_is_undetermined_is_not_recovered(z, stderr, agrees):
    """An infinite standard error has a z-score of zero, which must not pass for agreement."""
    table = xr.Dataset({
        name: (("mode", "statistic"), [[1.0, stderr, 1 - 2 * stderr, 1 + 2 * stderr]])
        for name in ("eigenvalue", "noise_variance")
    })  # fmt: skip
    law = SimpleNamespace(parameters=table, n_modes=1)
    assert Learned("", law, None, {"largest_z": z}, 0.0).agrees is agrees


@pytest.mark.parametrize(
    ("regime", "expected"),
    [(REGIMES[0], (0.2175, 0.756)), (REGIMES[1], (0.478, 0.315))],
    ids="AB",
)
def test_the_mean_predicts_as_well_as_the_published_baselines(regime, expected):
    """Spread over test paths is 0.07 and 0.27 in rel L2: five standard errors of 300 paths."""
    got = mean_predictor(simulate(regime.equation, 300, seed=1), regime.equation)
    spread = {"A": 0.07, "B": 0.27}[regime.letter]
    assert abs(got.relative_l2 - expected[0]) < 5 * spread / np.sqrt(300)
    assert got.rmse == pytest.approx(expected[1], rel=0.15)


def test_mean_predictor_on_a_case_by_hand():
    e = REGIMES[1].make(2)
    fields = simulate(e, 3, times=[0.0, 0.5, 1.0], grid=[0.5, 1.0], seed=0)
    x, m = fields.values[:, 1:], e.mean([0.5, 1.0], [0.5, 1.0]).values
    ratio = np.sqrt(((x - m) ** 2).sum((1, 2)) / (x**2).sum((1, 2)))
    got = mean_predictor(fields, e)
    assert got.relative_l2 == pytest.approx(ratio.mean())
    assert got.rmse == pytest.approx(np.sqrt(((x - m) ** 2).mean()))


def test_a_law_that_is_off_gives_exit_code_1(folder, monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.setattr("spdelaw.cli._demo._draw", lambda *_: [])
    monkeypatch.setattr(demo, "write_page", lambda *_: "report.html")
    easy = lambda fields, truth, _: demo.learn("", fields, truth)  # noqa: E731
    monkeypatch.setattr(demo, "learn_hard_case", easy)
    monkeypatch.setattr("spdelaw.report.verdict", lambda _: Verdict(False, 9.0, 4.0, 10, 1e-4))
    result = CliRunner().invoke(app, ["demo", "--paths", "3"])
    assert result.exit_code == 1
    assert result.stdout.count("DOES NOT AGREE") == 2


def test_bad_input(fails, folder, monkeypatch):
    (folder / "file").write_text("")
    assert "folder" in fails("demo", "--out", "file")
    assert "folder" in fails("demo", "--out", "file/below")
    assert "at least 2" in fails("demo", "--paths", 1)
    assert "positive" in fails("demo", "--paths", 0)
    assert "seed" in fails("demo", "--seed", -1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'spdelaw[report]'" in fails("demo")
