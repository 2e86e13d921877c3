"""Plan, records, tables, figures, page and command, on data small enough for a test."""

import dataclasses
import json

import numpy as np
import pytest
from tests.paper.cases import TINY, tiny_run
from tests.report.pages import figures_of, unpacked

import spdelaw as sl
from paper.regimes import PAPER
from paper.reproduction.figures import NETWORK_FIGURES, draw_figures
from paper.reproduction.page import write_page
from paper.reproduction.plan import PROFILES, plan
from paper.reproduction.records import find_record, read_records, record_path
from paper.reproduction.run import execute, make_data, thinned
from paper.reproduction.scores import (
    best_constant_path,
    of_equation,
    of_law,
    point_scores,
    predictive_scores,
)
from paper.reproduction.tables import answers, name_of, sheets, tables, to_markdown, write_tables
from spdelaw.errors import FileError
from spdelaw.evaluation.tasks import mean_predictor

# ------------------------------------------------------------------ the plan


def test_full_has_the_papers_systems_and_quick_lists_what_it_shortens():
    for regime, rows in PAPER.items():
        runs = plan(regime, PROFILES["full"])
        assert set(rows) <= {run.entry.published for run in runs}
        assert len({run.name for run in runs}) == len(runs)
        assert all(not run.shortened for run in runs)
    runs, quick = plan("ab", PROFILES["quick"]), PROFILES["quick"].epochs
    assert {run.entry.key for run in runs if run.shortened} == {*quick}
    assert sum(run.estimate for run in runs) < 15 * 60  # on one core


def test_networks_differ_in_their_start_and_others_in_their_data():
    runs = plan("b", PROFILES["full"])
    for key in ("amortized-paper", "fno-hidden", "spde-prior-hidden", "exact"):
        seeds = [(run.seed, run.initialisation) for run in runs if run.entry.key == key]
        network = key in ("amortized-paper", "fno-hidden")
        expected = [(0, n) if network else (n, None) for n in range(3)]
        if key == "amortized-paper":  # and one network on each of two further data sets
            expected[2:2], expected[4:] = [(1, 0)], [(2, 0)]
        assert sorted(seeds) == sorted(expected)
    names = {run.name for run in runs if run.entry.key == "amortized-paper"}
    assert {"b-amortized-paper-2", "b-amortized-paper-0-data2"} <= names


# ------------------------------------------------------------------ data and scores


def test_thinned_increments_add_up(small_data):
    data = make_data("b", 6, 12, 0).train
    thin = thinned(data, 4, "x")
    assert thin["field"].shape == (8, 11, 9)
    every = data["noise_field"].isel(x=slice(None, None, 4))
    np.testing.assert_allclose(thin["noise_field"].sum("time"), every.sum("time"))
    step = data["noise_increment"].values[:, 1:5].sum(1)
    np.testing.assert_allclose(thin["noise_increment"].values[:, 1], step)
    assert not thin["noise_field"].values[:, 0].any()


@pytest.mark.parametrize("truncated", [False, True])
def test_distribution_agrees_with_the_equation_and_its_draws(truncated):
    equation, times = sl.catalogue.heat(n_modes=3), np.linspace(0, 1, 21)
    points = equation.domain.grid(9)
    law = of_equation(equation, times, points)
    np.testing.assert_allclose(law.field()[0], equation.mean(times, points), atol=1e-12)
    np.testing.assert_allclose(law.field()[1] ** 2, equation.variance(times, points), atol=1e-12)
    if truncated:
        data = sl.simulate(equation, 40, times, points, seed=0)
        fit = sl.fit(data, equation.domain, 3, engine="chaos", tail="dropped", n_time=4)
        law = of_law(fit, times, points)
        assert law.n_time == 4
    (mean, std), n = law.field(), 4000
    draws, inside = law.draw(n, seed=0), std > 1e-6
    # z-scores of 180 means and variances, false-alarm rate 1e-4 together: |z| < 5.
    assert np.abs((draws.mean(0) - mean)[inside] / std[inside]).max() < 5 / np.sqrt(n)
    assert np.abs(draws.var(0)[inside] / std[inside] ** 2 - 1).max() < 5 * np.sqrt(2 / n)


def test_the_true_law_scores_best():
    equation = sl.catalogue.heat(n_modes=4)
    times, points = np.linspace(0, 1, 21), equation.domain.grid(9)
    truth = sl.simulate(equation, 400, times, points, seed=0)
    law = of_equation(equation, times, points)
    louder = dataclasses.replace(law.space.linear, noise=4 * law.space.linear.noise)
    laws = (law, law._replace(space=law.space._replace(dynamics=louder)))
    best, other = (predictive_scores(each, truth.values, 0) for each in laws)
    assert best["relative_l2"] == pytest.approx(mean_predictor(truth, equation).relative_l2)
    assert all(best[name] < other[name] for name in ("crps", "energy_score"))
    assert abs(best["coverage"] - 0.95) < 0.02 < other["coverage"] - 0.95


def test_best_constant_path_beats_the_mean_and_is_stationary():
    rng = np.random.default_rng(0)
    x = 1 + rng.standard_normal((200, 3, 2)) * rng.uniform(0.2, 2, (200, 1, 1))
    norm = np.linalg.norm(x.reshape(200, -1), axis=1)
    a = best_constant_path(x)

    def error(path):
        return (np.linalg.norm((path - x).reshape(200, -1), axis=1) / norm).mean()

    steps = 1e-3 * np.eye(6).reshape(6, 3, 2)
    assert all(error(a) < error(a + sign * step) for step in steps for sign in (-1, 1))
    assert error(a) < error(x.mean(0))
    scores = point_scores(np.broadcast_to(a, (200, 3, 2)), x)
    later = x[:, 1:].reshape(200, -1)
    each = np.linalg.norm(a[1:].ravel() - later, axis=1) / np.linalg.norm(later, axis=1)
    assert scores["standard_error"] == pytest.approx(each.std(ddof=1) / np.sqrt(200))


# ------------------------------------------------------------------ every entry runs


FIRST = [run for p in PROFILES.values() for run in plan("ab", p) if run.name.endswith("-0")]


@pytest.mark.parametrize("planned", FIRST, ids=[f"{run.profile.name}-{run.name}" for run in FIRST])
def test_every_entry_of_a_profile_runs(planned, small_data, tmp_path):
    key, epochs = planned.entry.key, 1 if planned.epochs else None
    short = {"epochs": {key: epochs} if epochs else {}, "keep_runs": False}
    run = tiny_run(key, planned.regime, profile=dataclasses.replace(planned.profile, **short))
    record = execute(run, tmp_path)
    assert record.get("epochs") == epochs
    assert find_record(tmp_path, run) == record
    scores = record["scores"].values()
    assert any("rmse" in of_task for of_task in scores)
    missing = {name for of_task in scores for name, value in of_task.items() if value is None}
    assert missing <= {"coverage"}  # that of predictions without spread


# ------------------------------------------------------------------ records


def test_networks_on_further_data_sets_have_a_row_of_their_own(records):
    made = [r for r in records[0] if r["entry"] in ("limits", "fno-hidden")]
    (fno,) = [r for r in made if r["name"] == "b-fno-hidden-0"]
    other = fno | {"seed": 1, "name": "b-fno-hidden-0-data1"}
    by_name = {row["system"]: row for row in tables([*made, other])["b"]}
    first, over = by_name["FNO"], by_name["FNO, over data sets"]
    assert (first["seeds"], first["initialisations"]) == ([0, 0], [0, 1])
    assert (over["seeds"], over["initialisations"]) == ([0, 1], [0, 0])
    assert "| 2 data sets, 1 network each |" in to_markdown(tables([*made, other]), "")
    partial = other | {"scores": {"reconstruct": fno["scores"]["predict"]}, "curves": {}}
    rows = tables([*made, partial])["b"]  # a task that one of the networks lacks
    assert [row["system"] for row in rows if row["entry"] == "fno-hidden"] == ["FNO"]


def test_records_become_tables(records):
    made, runs, out = records
    assert read_records(out, runs) == made
    rows = tables(made)["b"]
    by_name = {(row["entry"], row["task"]): row for row in rows}
    exact, fno = by_name["exact", "reconstruct"], by_name["fno-hidden", "predict"]
    scores = [r["scores"]["reconstruct"]["relative_l2"] for r in made if r["entry"] == "exact"]
    assert exact["relative_l2"] == scores
    assert (fno["seeds"], fno["initialisations"], exact["seeds"]) == ([0, 0], [0, 1], [0, 1])
    (mean,) = (r["relative_l2"] for r in rows if r["system"] == "limit: exact mean of the true law")
    assert fno["over_limit"] == pytest.approx((mean[0], np.mean(fno["relative_l2"]) / mean[0]))
    assert fno["paper_relative_l2"] == [0.4783, 0.0013]
    # The features of DLR-Net solve the heat equation, with the boundary of the domain.
    assert max(by_name["dlr-features", "observed"]["relative_l2"]) < 0.02
    assert min(by_name["dlr-features-periodic", "observed"]["relative_l2"]) > 0.1
    assert by_name["dlr-net-observed", "observed"]["paper_relative_l2"] is None
    text = to_markdown(tables(made), "the command")
    marked = ("FNO, noise hidden †", "| 2 networks |", "| 2 data sets |", "2 of 1000 epochs",
              "20 of 700 training paths", "| DLR-Net, noise observed † |")  # fmt: skip
    assert [phrase for phrase in marked if phrase not in text] == []
    json_file, markdown = write_tables(out, made, "the command")
    assert json.loads(json_file.read_text())["regimes"]["b"] == json.loads(json.dumps(rows))
    assert markdown.read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_figures_of_trained_networks(small_data, tmp_path):
    made = [execute(tiny_run("amortized-paper", number=n), tmp_path) for n in range(2)]
    first, second = (record["network"]["initial_mean"] for record in made)
    assert (len(first), first == second) == (8, False)
    files = draw_figures(tmp_path, made, ("png",))
    names = {*NETWORK_FIGURES, "eigenvalues", "noise", "spectrum", "variance"}
    assert {file.name for file in files} == {f"b-{name}.png" for name in names}
    assert all(file.stat().st_size > 5000 for file in files)
    (row,) = (r for r in tables(made)["b"] if r["task"] == "reconstruct")
    assert (row["initialisations"], len(row["relative_l2"])) == ([0, 1], 2)


def test_a_record_has_all_that_is_needed_to_repeat_it(records):
    record = next(r for r in records[0] if r["entry"] == "dlr-net-observed")
    settings = record["configuration"]
    assert (settings["protocol"]["batch_size"], settings["data"]["scheme"]) == (8, "semi_implicit")
    assert record["epochs"] == 2
    assert record["peak_memory"] > 1e8
    assert {"spdelaw", "torch", "numpy"} <= set(record["versions"])
    assert not list((records[2] / "runs" / "tiny").iterdir())  # checkpoints are not kept


def test_limits_hold(records):
    scores = {(r["entry"], r["seed"]): r["scores"] for r in records[0] if not r["initialisation"]}
    for seed in (0, 1):
        limits, exact = scores["limits", seed], scores["exact", seed]
        assert exact["reconstruct"]["relative_l2"] >= 0.999 * limits["projection"]["relative_l2"]
        truncated = scores["chaos-dropped", seed]["reconstruct"]["relative_l2"]
        assert truncated > 0.8 * limits["floor"]["relative_l2"]


def test_a_record_of_other_settings_or_a_damaged_one_is_not_used(records, tmp_path):
    run = tiny_run("exact")
    assert find_record(records[2], run) is not None
    other = dataclasses.replace(TINY, reference_modes={"a": 8, "b": 9})
    assert find_record(records[2], tiny_run("exact", profile=other)) is None
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 1, "name"')
    with pytest.raises(FileError, match="a record of `python -m paper reproduce`"):
        find_record(tmp_path, run)


def test_a_system_with_drawn_noise_has_a_distribution(small_data, tmp_path):
    scores = execute(tiny_run("sv-nn-independent", "a"), tmp_path)["scores"]["predict"]
    errors = {"relative_l2", "rmse", "standard_error"}
    assert set(scores) == errors | {"crps", "coverage", "energy_score"}
    assert all(np.isfinite(v) for v in scores.values())


# ------------------------------------------------------------------ the page


@pytest.fixture(scope="module")
def page(records):
    made, _, out = records
    return write_page(out, made, "the <command>")


@pytest.fixture
def rows(checkout):
    """Rows of the full run that is part of the documentation."""
    return json.loads((checkout / "docs/reproduce/full/tables.json").read_text())["regimes"]


def test_the_page_has_every_cell_of_the_tables_and_every_run(page, records):
    text = page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    for sheet in sheets(tables(records[0])["b"]):
        cells = {cell for lines in sheet.groups.values() for line in lines for cell in line}
        assert all(f">{cell.replace(chr(39), '&#39;')}<" in text for cell in cells)
    assert all(f">{record['name']}<" in text for record in records[0])
    assert "the &lt;command&gt;" in text


def test_figures_of_the_page_show_the_records(page, records):
    figures = {figure["name"]: figure for figure in figures_of(page)}
    assert set(figures) == {"errors-b", "moments-b", "spectra-b"}
    traces = figures["errors-b"]["data"]
    points = {pair for trace in traces for pair in zip(trace["y"], trace["x"], strict=True)}
    assert ("FNO, noise hidden †", 0.4783) in points  # the paper's
    shown = [row for row in tables(records[0])["b"] if row["task"] != "gaps"]
    assert {(name_of(row), np.mean(row["relative_l2"])) for row in shown} <= points
    variance = next(t for t in figures["moments-b"]["data"] if t.get("name") == "exact")
    curves = [r["curves"]["averaged_variance"] for r in records[0] if r["entry"] == "exact"]
    np.testing.assert_allclose(unpacked(variance["y"]), np.mean(curves, axis=0), rtol=1e-6)


def test_answers_follow_the_numbers(rows):
    reached, hidden, law = answers(rows)
    assert reached.short == "Yes"
    assert [s.count("data sets") for s in reached.sentences] == [0, 1, 0, 1]  # A, A, B, B
    assert (hidden.short, hidden.mood) == ("The mean path, and no more", "good")
    assert law.short == "3 of 7"
    assert "exact" in law.sentences[1]
    assert "tail dropped" in law.sentences[2]
    assert answers({}) == []
    assert answers({"b": [row for row in rows["b"] if row["kind"] == "reference"]}) == []


@pytest.mark.parametrize(
    ("error", "cut", "short"), [(0.2, [], "No"), (0.05, [], "Yes"), (0.05, [1], "Not settled")]
)
def test_answers_change_with_the_numbers(rows, error, cut, short):
    for row in (row for group in rows.values() for row in group):
        if row["entry"] == "amortized-paper":
            row |= {"relative_l2": [error], "shortened": cut}
        if row["entry"] == "fno-hidden":
            row["relative_l2"] = [0.7]
        if row["kl_per_path"]:
            row["kl_per_path"] = [0.9 * row["kl_limit"]]
    reached, hidden, law = answers(rows)
    assert reached.short.split(":")[0].removesuffix(" here") == short
    assert "FNO, noise hidden (Regime B) by +0.2" in hidden.sentences[1]
    assert (hidden.mood, law.short, law.mood) == ("fair", "7 of 7", "good")


# ------------------------------------------------------------------ the command


def test_a_run_with_a_record_does_not_run_again(invoke, tmp_path, small_data):
    def document(*args):
        result = invoke("reproduce", "--regime", "b", "--json", *args)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    planned = document("--list", "--profile", "full")
    assert {r["state"] for r in planned["runs"]} == {"to do"}
    assert planned["seconds_left"] > 86400
    assert not list(tmp_path.iterdir())
    for recorded in (False, True):
        runs = document("--only", "limits", "--out", "results")["runs"]
        assert [r["was_known"] for r in runs] == [recorded]
    listed = document("--list", "--out", "results")["runs"]
    assert {r["entry"] for r in listed if r["state"] == "done"} == {"limits"}
    record = json.loads((tmp_path / "results/records/quick/b-limits-0.json").read_text())
    assert record["command"] == "python -m paper reproduce --regime b --profile quick"
