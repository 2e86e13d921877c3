"""``python -m paper demo``, end to end on a small size."""

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from paper.demonstration import SPECTRA, Learned
from spdelaw.report.figures.moments import Verdict

pytest.importorskip("matplotlib")

EACH = ("fields", "variance", "spectrum", "law")
FIGURES = {f"regime-{r}-{what}.png" for r in "ab" for what in EACH} | {
    f"regime-b-{what}.png" for what in ("law-gaps", "reconstruction", "forecast", "engines")
}


def test_demo_from_end_to_end(invoke, tmp_path):
    result = invoke("demo", "--paths", 60, "--out", "demo", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert {p.name for p in (tmp_path / "demo").iterdir()} == FIGURES | {"report.html"}
    assert document["report"] == "demo/report.html"
    assert [r["regime"] for r in document["regimes"]] == ["A", "B"]
    a, b = document["regimes"]
    for regime in (a, b):
        assert regime["verdict"]["agrees"]
        assert np.shape(regime["moments"]["variance_z"]) == (3, regime["n_modes"])
        assert {p.split("/")[-1] for p in regime["figures"]} <= FIGURES
        assert all(law["agrees"] for law in regime["laws"])
    assert [len(r["laws"]) for r in (a, b)] == [1, 2]
    assert set(b["use"]) == {"gaps", "forecast"}
    engines, floor = b["compared"]["engines"], b["compared"]["floor"]
    exact, dropped, structured = engines.values()
    assert structured["kl"] == pytest.approx(exact["kl"], rel=1e-3)
    assert dropped["kl"] > 10 * exact["kl"]
    for truncated in (dropped, structured):
        assert floor * 0.999 < truncated["relative_l2"] < 1.05 * floor


@pytest.mark.slow
def test_a_sample_that_is_off_gives_exit_code_1(invoke, monkeypatch):
    monkeypatch.setattr("spdelaw.report.verdict", lambda _: Verdict(False, 9.0, 4.0, 10, 1e-4))
    result = invoke("demo", "--paths", 60)
    assert result.exit_code == 1
    assert result.stdout.count("DOES NOT AGREE with the closed form") == 2
    assert result.stdout.count("The learned law agrees with the true one") == 3
    phrases = ("false-alarm rate 0.0001", "tier 'predict'", "SV&NN", "In short", *FIGURES)
    assert [phrase for phrase in phrases if phrase not in result.stdout] == []
    assert result.stdout.endswith("demo/report.html\n")


@pytest.mark.parametrize(
    ("z", "stderr", "agrees"), [(1.0, 0.1, True), (9.0, 0.1, False), (0.0, np.inf, False)]
)
def test_an_undetermined_number_does_not_agree(z, stderr, agrees):
    """An infinite standard error has a z-score of zero, which must not pass for agreement."""
    row = (("mode", "statistic"), [[1.0, stderr, 1 - 2 * stderr, 1 + 2 * stderr]])
    law = SimpleNamespace(parameters=xr.Dataset(dict.fromkeys(SPECTRA, row)), n_modes=1)
    assert Learned("", law, None, {"largest_z": z}, 0.0).agrees is agrees


BAD = [
    ("demo --out file", "folder"), ("demo --out file/below", "folder"),
    ("demo --paths 1", "at least 2"), ("demo --paths 0", "positive"), ("demo --seed -1", "seed"),
    ("reproduce --regime c", "--regime"), ("reproduce --profile slow", "--profile"),
    ("reproduce --only transformer", "--only"), ("demo", "pip install 'spdelaw[report]'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input_is_one_line(invoke, tmp_path, monkeypatch, words, message):
    (tmp_path / "file").write_text("")
    if words == "demo":
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = invoke(*words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(f"error: .*{re.escape(message)}.*\n", result.stderr)
