"""``spdelaw reproduce``."""

import json

from tests.paper.reproduce_cases import small_data  # noqa: F401


def test_list_runs_nothing(run_json, folder):
    document = run_json("reproduce", "--list", "--regime", "b", "--profile", "full")
    assert {r["state"] for r in document["runs"]} == {"to do"}
    assert document["seconds_left"] > 86400
    assert not list(folder.iterdir())


def test_what_is_known_does_not_run_again(run, run_json, folder, small_data):  # noqa: F811
    args = ("reproduce", "--regime", "b", "--only", "exact", "--out", "results")
    first = run(*args).stdout
    assert first.startswith("[1/3] b-exact-0")
    assert "known" not in first
    again = run_json(*args)
    assert [r["was_known"] for r in again["runs"]] == [True] * 3
    names = {path.name for path in (folder / "results" / "quick").iterdir()}
    assert {"report.html", "tables.md", "tables.json", "b-variance.png", "b-noise.pdf"} <= names
    listed = run_json("reproduce", "--list", "--regime", "b", "--out", "results")["runs"]
    assert {r["entry"] for r in listed if r["state"] == "done"} == {"exact"}
    record = json.loads((folder / "results/records/quick/b-exact-0.json").read_text())
    assert record["command"] == "spdelaw reproduce --regime b --profile quick"


def test_bad_words_are_refused(fails):
    assert "--regime" in fails("reproduce", "--regime", "c")
    assert "--profile" in fails("reproduce", "--profile", "slow")
    assert "--only" in fails("reproduce", "--only", "transformer")
