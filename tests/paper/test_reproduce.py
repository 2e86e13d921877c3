"""Plan, records, tables, figures and the command, on data small enough for a test."""

import dataclasses
import json

import numpy as np
import pytest
from tests.paper.reproduce_cases import TINY, records, small_data, tiny_run  # noqa: F401

import spdelaw as sl
from spdelaw.errors import FileError
from spdelaw.evaluation import mean_predictor
from spdelaw.infer.amortized import TrainingInterrupted
from spdelaw.paper.published import PAPER
from spdelaw.paper.reproduce import (
    ENTRIES,
    NETWORK_FIGURES,
    PROFILES,
    draw_figures,
    execute,
    find_record,
    plan,
    read_records,
    tables,
    write_tables,
)
from spdelaw.paper.reproduce._data import make_data, scheme_law, thinned
from spdelaw.paper.reproduce._distribution import of_equation, of_law
from spdelaw.paper.reproduce._records import record_path
from spdelaw.paper.reproduce._scores import energy_score, predictive_scores
from spdelaw.paper.reproduce._sheets import to_markdown

# ------------------------------------------------------------------ the plan


def test_plan_has_every_system_of_the_papers_tables():
    for regime, rows in PAPER.items():
        planned = {run.entry.published for run in plan(regime, PROFILES["full"])}
        assert set(rows) <= planned
        names = [run.name for run in plan(regime, PROFILES["full"])]
        assert len(names) == len(set(names))


def test_full_is_the_papers_protocol_and_quick_says_where_it_is_not():
    assert all(not run.shortened for run in plan("ab", PROFILES["full"]))
    for run in plan("ab", PROFILES["quick"]):
        assert bool(run.shortened) == (run.entry.key in PROFILES["quick"].epochs)


@pytest.mark.parametrize("key", ["amortized-paper", "fno-hidden"])
def test_networks_differ_in_their_start_and_others_in_their_data(key):
    full = plan("b", PROFILES["full"])
    trained = [(run.seed, run.initialisation) for run in full if run.entry.key == key]
    assert trained == [(0, 0), (0, 1), (0, 2)]
    fitted = [(run.seed, run.initialisation) for run in full if run.entry.key == "exact"]
    assert fitted == [(0, None), (1, None), (2, None)]


def test_quick_fits_into_a_quarter_of_an_hour_by_its_own_estimate():
    # Two cores; the estimates are for one.
    assert sum(run.estimate for run in plan("ab", PROFILES["quick"])) < 2 * 15 * 60


def test_an_engine_that_is_not_there_is_not_planned():
    (entry,) = (e for e in ENTRIES if e.key == "amortized-paper")
    assert entry.available
    assert not dataclasses.replace(entry, settings={"preset": "no such preset"}).available


# ------------------------------------------------------------------ data and scores


def test_scheme_law_is_the_law_of_simulated_paths():
    equation = sl.catalogue.heat(n_modes=8)
    law, dt = scheme_law(equation), 1 / 200
    a = 1 / (1 + equation.eigenvalues * dt)
    np.testing.assert_allclose(np.exp(-law.eigenvalues * dt), a)
    variance = law.variance([0.0, dt]).values[1]
    np.testing.assert_allclose(variance, equation.noise_variance * dt * a**2)


def test_thinned_increments_add_up(small_data):  # noqa: F811
    data = make_data("b", 6, 12, 0).train
    thin = thinned(data, 4, "x")
    assert thin["field"].shape == (8, 11, 9)
    np.testing.assert_allclose(
        thin["noise_field"].sum("time").values,
        data["noise_field"].isel(x=slice(None, None, 4)).sum("time").values,
    )
    np.testing.assert_allclose(
        thin["noise_increment"].values[:, 1], data["noise_increment"].values[:, 1:5].sum(1)
    )
    assert not thin["noise_field"].values[:, 0].any()


def test_distribution_agrees_with_the_equation_and_its_draws():
    equation = sl.catalogue.heat(n_modes=5)
    times, points = np.linspace(0, 1, 21), equation.domain.grid(9)
    law = of_equation(equation, times, points)
    mean, std = law.field()
    np.testing.assert_allclose(mean, equation.mean(times, points).values, atol=1e-12)
    np.testing.assert_allclose(std**2, equation.variance(times, points).values, atol=1e-12)
    n = 4000
    draws = law.draw(n, seed=0)
    # z-scores of 180 means and variances, false-alarm rate 1e-4 together: |z| < 5.
    inside = std > 1e-6
    z = (draws.mean(0) - mean)[inside] / std[inside] * np.sqrt(n)
    assert np.abs(z).max() < 5
    assert np.abs(draws.var(0)[inside] / std[inside] ** 2 - 1).max() < 5 * np.sqrt(2 / n)


def test_truncated_distribution_agrees_with_its_draws():
    equation = sl.catalogue.heat(n_modes=3)
    data = sl.simulate(equation, 40, np.linspace(0, 1, 21), equation.domain.grid(9), seed=0)
    law = sl.fit(data, equation.domain, 3, engine="chaos", tail="dropped", n_time=4)
    found = of_law(law, data.time.values, data.x.values)
    assert found.n_time == 4
    mean, std = found.field()
    draws = found.draw(4000, seed=1)
    assert np.abs((draws.mean(0) - mean) / std).max() < 5 / np.sqrt(4000)
    assert np.abs(draws.var(0) / std**2 - 1).max() < 5 * np.sqrt(2 / 4000)


def test_energy_score_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    draws, truth = rng.standard_normal((6, 9, 4)), rng.standard_normal((3, 9, 4))
    x, y = draws[:, 1::4].reshape(6, -1), truth[:, 1::4].reshape(3, -1)
    between = np.mean([np.linalg.norm(a - b) for a in x for b in y])
    within = np.mean([np.linalg.norm(x[i] - x[j]) for i in range(6) for j in range(6) if i != j])
    expected = (between - 0.5 * within) / np.sqrt(x.shape[1])
    assert energy_score(draws, truth) == pytest.approx(expected)


def test_the_true_law_scores_best():
    equation = sl.catalogue.heat(n_modes=4)
    times, points = np.linspace(0, 1, 21), equation.domain.grid(9)
    truth = sl.simulate(equation, 400, times, points, seed=0)
    law = of_equation(equation, times, points)
    best = predictive_scores(law, truth.values, 0)
    louder = dataclasses.replace(law.space.linear, noise=4 * law.space.linear.noise)
    wrong = law._replace(space=law.space._replace(dynamics=louder))
    other = predictive_scores(wrong, truth.values, 0)
    assert best["relative_l2"] == pytest.approx(mean_predictor(truth, equation).relative_l2)
    assert best["crps"] < other["crps"]
    assert best["energy_score"] < other["energy_score"]
    assert abs(best["coverage"] - 0.95) < 0.02 < other["coverage"] - 0.95


# ------------------------------------------------------------------ records


def test_records_become_tables_and_figures(records):  # noqa: F811
    found, runs, out = records
    assert read_records(out, runs) == found
    rows = tables(found)["b"]
    by_name = {(row["entry"], row["task"]): row for row in rows}
    exact = by_name["exact", "reconstruct"]
    assert exact["relative_l2"] == [
        r["scores"]["reconstruct"]["relative_l2"] for r in found if r["entry"] == "exact"
    ]
    assert len(exact["kl_per_path"]) == 2
    fno = by_name["fno-hidden", "predict"]
    assert (fno["seeds"], fno["initialisations"]) == ([0, 0], [0, 1])
    (mean,) = (r["relative_l2"] for r in rows if r["system"] == "limit: exact mean of the true law")
    assert fno["over_limit"] == pytest.approx(np.mean(fno["relative_l2"]) / mean[0])
    assert by_name["dlr-features", "observed"]["relative_l2"][0] < 0.02
    assert by_name["fno-hidden", "predict"]["paper_relative_l2"] == [0.4783, 0.0013]
    assert by_name["dlr-net-observed", "observed"]["paper_relative_l2"] is None
    text = to_markdown(tables(found), "the command")
    assert "FNO, noise hidden †" in text
    assert "| 2 networks |" in text
    assert "| 2 data sets |" in text
    assert "2 of 1000 epochs" in text
    assert "20 of 700 training paths" in text
    assert "| DLR-Net, noise observed † |" in text
    json_file, markdown = write_tables(out, found, "the command")
    assert json.loads(json_file.read_text())["regimes"]["b"] == json.loads(json.dumps(rows))
    assert markdown.read_text(encoding="utf-8") == text
    files = draw_figures(out, found)
    assert sorted(f.name for f in files) == sorted(
        f"b-{name}.{kind}"
        for name in ("eigenvalues", "noise", "spectrum", "variance") for kind in ("pdf", "png")
    )  # fmt: skip
    assert all(file.stat().st_size > 5000 for file in files)


def test_figures_of_trained_networks(small_data, tmp_path):  # noqa: F811
    found = [execute(tiny_run("amortized-paper", number=n), tmp_path) for n in range(2)]
    for record in found:
        network = record["network"]
        assert network["epoch"] == [2]
        assert len(network["observation_std"]) == len(network["x"]) == 33
        assert len(network["initial_mean"]) == len(network["initial_claimed"]) == 8
        assert len(network["of_decoder"]) == len(network["time"]) == 41
    assert found[0]["network"]["initial_mean"] != found[1]["network"]["initial_mean"]
    drawn = {file.name for file in draw_figures(tmp_path, found, ("png",))}
    assert {f"b-{name}.png" for name in NETWORK_FIGURES} <= drawn
    (row,) = (r for r in tables(found)["b"] if r["task"] == "reconstruct")
    assert (row["initialisations"], len(row["relative_l2"])) == ([0, 1], 2)


def test_a_record_says_all_that_is_needed_to_repeat_it(records):  # noqa: F811
    record = next(r for r in records[0] if r["entry"] == "dlr-net-observed")
    assert record["configuration"]["protocol"]["batch_size"] == 8
    assert record["configuration"]["data"]["scheme"] == "semi_implicit"
    assert record["epochs"] == 2
    assert record["peak_memory"] > 1e8
    assert record["seconds"] > 0
    assert {"spdelaw", "torch", "numpy"} <= set(record["versions"])
    assert not list((records[2] / "runs" / "tiny").iterdir())  # checkpoints are not kept


def test_limits_hold(records):  # noqa: F811
    found = {(r["entry"], r["seed"]): r["scores"] for r in records[0] if not r["initialisation"]}
    for seed in (0, 1):
        limits, exact = found["limits", seed], found["exact", seed]
        assert exact["reconstruct"]["relative_l2"] >= 0.999 * limits["projection"]["relative_l2"]
        truncated = found["chaos-dropped", seed]["reconstruct"]["relative_l2"]
        assert truncated > 0.8 * limits["floor"]["relative_l2"]


def test_a_record_of_other_settings_is_not_taken(records):  # noqa: F811
    out = records[2]
    assert find_record(out, tiny_run("exact")) is not None
    other = dataclasses.replace(TINY, reference_modes={"a": 8, "b": 9})
    assert find_record(out, tiny_run("exact", profile=other)) is None


def test_a_damaged_record_is_named(tmp_path):
    run = tiny_run("exact")
    path = record_path(tmp_path, run)
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 1, "name"')
    with pytest.raises(FileError, match="a record of spdelaw reproduce"):
        find_record(tmp_path, run)


@pytest.mark.parametrize("key", ["fno-hidden", "amortized-paper"])
def test_a_stopped_training_goes_on(small_data, tmp_path, key):  # noqa: F811
    keep = dataclasses.replace(TINY, keep_runs=True)
    whole = execute(tiny_run(key, profile=keep), tmp_path / "whole")

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted):
        execute(tiny_run(key, profile=keep), tmp_path / "cut", stop)
    assert find_record(tmp_path / "cut", tiny_run(key, profile=keep)) is None
    epochs = []
    resumed = execute(
        tiny_run(key, profile=keep), tmp_path / "cut", lambda done, total: epochs.append(done)
    )
    assert epochs == [2]
    assert resumed["scores"] == whole["scores"]


def test_a_system_with_drawn_noise_has_a_distribution(small_data, tmp_path):  # noqa: F811
    scores = execute(tiny_run("sv-nn-independent", "a"), tmp_path)["scores"]["predict"]
    assert set(scores) == {"relative_l2", "rmse", "crps", "coverage", "energy_score"}
    assert all(np.isfinite(v) for v in scores.values())
