"""Tables of recovery: runs that go on, failures that count, rows that stand."""

import json

import numpy as np
import pytest
from benchmarks import _recovery
from benchmarks._recovery import COLUMNS, collect, compare, coverage, run, summary

from spdelaw.errors import DataError


def case(seed):
    if seed % 4 == 3:
        raise DataError("data", expected="luck", got="none", fix="try again")
    z = np.random.default_rng(seed).standard_normal(2)
    truth, estimate = {"a": 1.0, "b": 2.0}, {"a": 1.0 + 0.1 * z[0], "b": 2.0 + 0.5 * z[1], "c": 0.0}
    stderr = {"a": 0.1, "b": 0.5, "c": 1.0}  # c has no truth to compare with
    return compare(truth, estimate, stderr, stderr) | {"seconds": 2.0, "cpu": 1.0}


CASES = {"coin": (case, 8), "other": (case, 8)}


def records(work):
    return [json.loads(line) for line in (work / "coin.jsonl").read_text().splitlines()]


def test_a_run_goes_on_where_it_stopped_and_is_summarised_in_standard_errors(tmp_path):
    run(CASES, "coin", 3, tmp_path, 0)
    first = records(tmp_path)
    for _ in range(2):
        run(CASES, "coin", 8, tmp_path, 0)
    assert records(tmp_path)[:3] == first
    assert len(records(tmp_path)) == len({r["seed"] for r in records(tmp_path)}) == 8
    result = summary(records(tmp_path))
    good = [r for r in records(tmp_path) if "error" not in r]
    z = np.array([[(r["estimate"]["a"] - 1) / 0.1, (r["estimate"]["b"] - 2) / 0.5] for r in good])
    assert (result["sets"], result["failed"]) == (6, 2)
    assert list(result["bias"].values()) == pytest.approx(z.mean(0), abs=1e-3)
    assert result["worst"] == pytest.approx(np.abs(z).max())
    assert result["coverage"] == (np.abs(z) < 1.96).mean()
    assert result["distance"] == pytest.approx(np.sqrt(((z * [0.1, 0.5]) ** 2).sum(1).mean()))
    assert COLUMNS["data sets"](result) == "6"
    assert COLUMNS["closure forecast"](result) == "-"


def test_rows_of_more_sets_stand(tmp_path, monkeypatch):
    monkeypatch.setattr(_recovery, "RESULTS", tmp_path)
    run(CASES, "coin", 6, tmp_path, 0)
    earlier = {"coin": {"sets": 100}, "gone": {"sets": 9}}
    (tmp_path / "tables.json").write_text(json.dumps({"cases": earlier}))
    assert collect("tables", CASES, tmp_path, "abc") == {"coin": {"sets": 100}}
    earlier["coin"]["sets"] = 2
    (tmp_path / "tables.json").write_text(json.dumps({"cases": earlier}))
    estimate = collect("tables", CASES, tmp_path, "abc")
    assert estimate["coin"]["sets"] == summary(records(tmp_path))["sets"]
    assert estimate["coin"]["code"] == "abc"


def test_coverage_of_bands_and_of_an_ensemble():
    """Null: 4,000 standard normal values; shares within 4.5 binomial deviations (0.036 at 50 %)."""
    rng = np.random.default_rng(0)
    later, draws = rng.standard_normal(4000), rng.standard_normal((2000, 4000))
    estimate = coverage(later, np.zeros(4000), np.ones(4000), draws)
    for kind in ("closure", "ensemble"):
        for level in (50, 80, 95):
            assert estimate[f"{kind}_{level}"] == pytest.approx(level / 100, abs=0.036)
