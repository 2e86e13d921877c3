"""Skill: scores and rivals by hand, no look ahead, the choice of modes, and refusals."""

import json

import numpy as np
import pytest
import scipy
import xarray as xr
from tests.data.builders import globe

import spdelaw as sl
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation import hindcast as hindcast_module
from spdelaw.evaluation.hindcast import Trial
from spdelaw.evaluation.rivals import (
    amplitudes,
    damped,
    inverse_model,
    last_observed,
    memory,
)
from spdelaw.evaluation.scores import OF_FORECASTS

CALM = sl.catalogue.heat(n_modes=2, initial="stationary")
GRID = np.linspace(0.3, 2.8, 7)


def one_path(n=121, step=0.2, seed=0):
    return sl.simulate(CALM, 1, step * np.arange(n), GRID, seed=seed)


@pytest.fixture(scope="module")
def judged():
    return sl.skill(one_path(), CALM.domain, 2, leads=(1, 3), first=100, refits=2)


def test_the_chosen_law_is_learned_from_all_data(judged):
    assert judged.law.n_modes == judged.n_modes
    assert judged.law.times[-1] == one_path()["time"][-1]
    assert judged.law is judged.law  # learned once
    ahead = judged.law.forecast(one_path(), steps=2)
    assert np.isfinite(ahead["mean"]).all()


def test_the_law_of_raw_data_takes_raw_data():
    """It selects and takes anomalies as the preparation says; patterns of the data are saved."""
    raw = globe()
    how = sl.Preparation(anomalies="mean", select={"latitude": (-60, 40)})
    result = sl.skill(raw, "eof", 2, prepare=how, leads=(1,), refits=1, first=0.7)
    ahead = result.law.forecast(raw, steps=2)
    assert ahead.sizes["time"] == 2
    assert np.isfinite(ahead["mean"]).any()


def test_hindcasts_have_both_bands(judged):
    bands = judged.forecasts
    law = bands.sel(predictor="law")
    assert (law["std_field"] <= law["std"]).all()
    assert np.isfinite(law["std_field"]).all()
    assert bands["std_field"].drop_sel(predictor="law").isnull().all()


# ------------------------------------------------------------------ rivals by hand


def test_damped_persistence_is_the_regression_on_one_step():
    x = np.array([2.0, 1.0, 1.5, np.nan, 0.5, 0.4])[None, :, None]
    pairs = [(2.0, 1.0), (1.0, 1.5), (0.5, 0.4)]
    r = sum(a * b for a, b in pairs) / sum(a * a for a, b in pairs)
    assert memory(x)[0] == pytest.approx(r)
    out = damped(x, (1, 2), memory(x))
    assert out.mean[:, 0, 0] == pytest.approx([0.4 * r, 0.4 * r**2])
    errors = [1.0 - 2 * r, 1.5 - r, 0.4 - 0.5 * r]
    assert out.std[0, 0, 0] == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_a_point_that_is_not_seen_persists_from_its_last_value():
    x = np.array([[1.0, 2.0, np.nan, np.nan], [1.0, 2.0, 3.0, 4.0], [np.nan] * 4]).T[None]
    last, age = last_observed(x)
    assert last[0, :2].tolist() == [2.0, 4.0]
    assert np.isnan(last[0, 2])
    assert age[0, :2].tolist() == [2, 0]
    assert damped(x, (1,), 0.5).mean[0, 0, :2] == pytest.approx([2.0 * 0.5**3, 4.0 * 0.5])


def test_inverse_model_is_the_regression_of_amplitudes():
    fields = one_path(300)
    model = inverse_model(fields, 2, (1, 2), ("x",))
    x = fields.values[0]
    _, _, v = np.linalg.svd(x, full_matrices=False)
    a = x @ v[:2].T
    g = np.linalg.solve(a[:-1].T @ a[:-1], a[:-1].T @ a[1:]).T
    expected = v[:2].T @ np.linalg.matrix_power(g, 2) @ v[:2] @ x[-1]
    np.testing.assert_allclose(model.predict(x[None], (1, 2)).mean[1, 0], expected, atol=1e-8)
    left = x[2:] - x[:-2] @ (v[:2].T @ np.linalg.matrix_power(g, 2) @ v[:2]).T
    np.testing.assert_allclose(model.errors[1], np.sqrt((left**2).mean(0)), atol=1e-8)


def test_a_forecast_that_was_never_wrong_is_not_taken_for_sure():
    """A station seen twice, which the patterns met: its log score was infinite."""
    history = np.random.default_rng(0).standard_normal((1, 30, 2))
    history[0, :, 1] = np.nan
    history[0, [3, 4], 1] = 0.7  # persistence was right the only time
    prediction = damped(history, (1,), 1.0)
    np.testing.assert_allclose(prediction.std[0, 0, 1], 0.7)
    assert prediction.std[0, 0, 0] == pytest.approx(
        np.sqrt(np.mean(np.diff(history[0, :, 0]) ** 2))
    )


def test_amplitudes_through_gaps_are_those_of_the_seen_points():
    generator = np.random.default_rng(0)
    patterns = np.linalg.qr(generator.standard_normal((9, 2)))[0]
    a = generator.standard_normal((1, 5, 2))
    x = a @ patterns.T
    x[0, 1, :4] = np.nan
    np.testing.assert_allclose(amplitudes(x, patterns, np.zeros(2)), a, atol=1e-6)


# ------------------------------------------------------------------ scores by hand


@pytest.mark.parametrize("lead", [1, 3])
def test_scores_by_hand(judged, lead):
    x = one_path().values[0]
    ends = range(100, 121 - 3 + 1)  # all leads from the same origins
    truth = np.array([x[o - 1 + lead] for o in ends])
    still = np.array([x[o - 1] for o in ends])
    std = np.array([np.sqrt(np.mean((x[lead:o] - x[: o - lead]) ** 2, axis=0)) for o in ends])
    row = judged.table.estimate.sel(predictor="persistence", lead=lead)
    error = truth - still
    assert float(row.sel(score="rmse")) == pytest.approx(np.sqrt(np.mean(error**2)))
    density = scipy.stats.norm.logpdf(truth, still, std)
    assert float(row.sel(score="log_score")) == pytest.approx(-density.mean())
    inside = np.abs(error) <= scipy.stats.norm.ppf(0.9) * std
    assert float(row.sel(score="coverage_80")) == pytest.approx(inside.mean())
    z = error / std
    crps = std * (z * (2 * scipy.stats.norm.cdf(z) - 1) + 2 * scipy.stats.norm.pdf(z))
    crps -= std / np.sqrt(np.pi)
    assert float(row.sel(score="crps")) == pytest.approx(crps.mean())


def test_table_and_forecasts_are_consistent(judged):
    t, f = judged.table, judged.forecasts
    mse = t.estimate.sel(score="rmse") ** 2
    of_law = mse.sel(predictor="law", drop=True)
    np.testing.assert_allclose(t.skill, (1 - of_law / mse).transpose(*t.skill.dims), atol=1e-12)
    means = t.sel(score=[s for s in t.score.values if s not in OF_FORECASTS])
    inside = (means.lower <= means.estimate + 1e-12) & (means.upper >= means.estimate - 1e-12)
    assert inside.all()
    assert int(t.n_values.sel(lead=1)) == 19 * 7
    assert t.attrs["n_origins"] == 19
    assert f["mean"].dims == ("predictor", "lead", "origin", "path", "x")
    error = ((f["mean"] - f["observed"]) ** 2).mean(("origin", "path", "x"))
    np.testing.assert_allclose(np.sqrt(error), t.estimate.sel(score="rmse"))
    np.testing.assert_allclose(f.valid_time - f.origin, 0.2 * f.lead * xr.ones_like(f.valid_time))
    past = one_path().isel(time=slice(100))
    ahead = sl.fit(past, CALM.domain, 2, residual="auto").forecast(past, steps=3)["mean"].values[0]
    np.testing.assert_allclose(f["mean"].sel(predictor="law")[:, 0, 0], ahead[[0, 2]], atol=1e-9)


def test_anomaly_correlation_and_ranks_of_every_method(judged):
    t, f = judged.table, judged.forecasts
    normal = f["mean"].sel(predictor="climatology")
    observed = f["observed"] - normal
    for name in ("law", "damped persistence", "LIM"):
        for lead in t.lead.values:
            one = f.sel(predictor=name, lead=lead)
            forecast, truth = one["mean"] - normal.sel(lead=lead), observed.sel(lead=lead)
            expected = (forecast * truth).sum() / np.sqrt((forecast**2).sum() * (truth**2).sum())
            row = t.estimate.sel(predictor=name, lead=lead)
            assert float(row.sel(score="anomaly_correlation")) == pytest.approx(float(expected))
            rank = scipy.stats.norm.cdf(((one["observed"] - one["mean"]) / one["std"]).values)
            shares = np.histogram(rank, np.linspace(0, 1, 11))[0] / rank.size
            histogram = t["rank_histogram"].sel(predictor=name, lead=lead)
            np.testing.assert_allclose(histogram, shares)
            uneven = float(row.sel(score="reliability_index"))
            assert uneven == pytest.approx(np.abs(shares - 0.1).sum())
    assert np.isnan(t.estimate.sel(predictor="climatology", score="anomaly_correlation")).all()
    assert "anomaly correlation" in repr(judged)
    assert judged.to_dict()["rank_histogram"]["law"][0] == pytest.approx(
        t["rank_histogram"].sel(predictor="law").values[0].tolist()
    )


def test_words_of_the_law_give_it_again(judged):
    words = judged.about["fit"]
    again = sl.fit(one_path(), CALM.domain, **words)
    np.testing.assert_allclose(
        again.parameters.eigenvalue.sel(statistic="estimate"),
        judged.law.parameters.eigenvalue.sel(statistic="estimate"), rtol=1e-6,
    )  # fmt: skip


# ------------------------------------------------------------------ no look ahead


@pytest.mark.parametrize(("origins", "domain"), [("expanding", "given"), ("rolling", "eof")])
def test_the_future_has_no_influence_on_forecasts_before_it(origins, domain):
    raw = one_path(80) + 5.0
    changed = raw.copy(deep=True)
    changed[:, 62:] = 3.0 + 100.0 * np.random.default_rng(0).standard_normal(changed[:, 62:].shape)
    settings = {"leads": (1, 4), "first": 50, "refits": 3, "origins": origins, "nuisance": 0}
    settings |= {"prepare": sl.Preparation(anomalies="mean", standardise="point")}
    place = CALM.domain if domain == "given" else "eof"
    one, other = (sl.skill(x, place, [1, 2], **settings).forecasts for x in (raw, changed))
    before = one.origin <= 0.2 * 61  # times 0 to 61 are the same in both
    assert int(before.sum()) == 13
    for name in ("mean", "std"):
        assert one[name].where(before, drop=True).equals(other[name].where(before, drop=True))
    assert not one["mean"].equals(other["mean"])


def test_a_rolling_law_forgets():
    fields = one_path(90)
    other = fields.copy(deep=True)
    other[:, :19] = -other[:, :19] + 1.0
    settings = {"leads": 2, "first": 50, "refits": 2, "origins": "rolling", "nuisance": 0}
    one, two = (sl.skill(x, CALM.domain, 2, **settings).forecasts["mean"] for x in (fields, other))
    assert not one[:, :, 0].equals(two[:, :, 0])
    # The second fit, at the twentieth origin, learns from times 19 to 68. The first fit alone
    # chose how many patterns the inverse model has.
    assert one[:4, :, 19:].equals(two[:4, :, 19:])


# ------------------------------------------------------------------ preparation, land, modes


def test_preparation_is_relearned_and_undone():
    raw = globe()
    how = sl.Preparation(anomalies="month")
    result = sl.skill(
        raw, "eof", 2, prepare=how, leads=(1, 2), first=48, refits=1, initial="stationary"
    )
    f = result.forecasts
    assert f["mean"].dims[-2:] == ("latitude", "longitude")
    past = raw.isel(time=slice(48)).groupby("time.month").mean()
    first = f["mean"].sel(predictor="climatology", lead=1).isel(origin=0, path=0)
    month = int(f.valid_time.dt.month[0, 0])
    np.testing.assert_allclose(first, past.sel(month=month).transpose(*first.dims), atol=1e-9)
    land = raw.isnull().all("time")
    assert bool((f["mean"].isnull().all(("predictor", "lead", "origin", "path")) == land).all())
    assert result.about["units"] == ""
    assert 270 < float(f["observed"].mean()) < 290


def test_number_of_modes_is_chosen_before_the_first_origin():
    fields = one_path(200)
    other = fields.copy(deep=True)
    other[:, 150:] *= -3.0
    words = {"leads": 1, "first": 150, "refits": 1, "nuisance": 0, "most_origins": 5}
    one, two = (sl.skill(data, CALM.domain, [1, 2], **words) for data in (fields, other))
    assert set(one.tried) == {"1 mode, drift diagonal", "2 modes, drift diagonal"}
    assert min(one.tried, key=one.tried.get).startswith(f"{one.n_modes} ")
    assert two.tried == one.tried
    assert "chosen by held-out CRPS" in repr(one)


def test_close_laws_are_judged_again_from_more_origins(monkeypatch):
    """Few origins like three laws alike, and one of them that many do not; one is far off."""
    few, many = {1: 0.701, 2: 0.700, 3: 0.704, 5: 0.9}, {1: 0.75, 2: 0.76, 3: 0.74, 5: 0.1}
    calls = []

    def score(past, trial, plan):
        calls.append((int(trial.n_modes), len(plan.origins)))
        return (few if len(plan.origins) <= 24 else many)[int(trial.n_modes)]

    monkeypatch.setattr(hindcast_module, "_score", score)
    past = one_path(400)
    trial = Trial(CALM.domain, ("x",), "auto", None, {"drift": "diagonal"})
    laws = [trial.with_modes(CALM.domain, "diagonal", n) for n in few]
    best, scores = hindcast_module.choose(past, laws, (1,), lambda done: None)
    assert best.n_modes == 3
    assert calls == [(1, 24), (2, 24), (3, 24), (5, 24), (1, 96), (2, 96), (3, 96)]
    assert scores["5 modes, drift diagonal"] == 0.9
    assert scores["3 modes, drift diagonal"] == 0.74


# ------------------------------------------------------------------ what it says, and refusals


def test_text_and_plain_data(judged):
    text = repr(judged)
    for word in ("RMSE", "CRPS", "log score", "inside 50/80/95 %", "LIM", "law against"):
        assert word in text
    assert judged._repr_html_().count("<table>") == 6
    plain = json.loads(json.dumps(judged.to_dict(), allow_nan=False))
    assert plain["leads"] == [1, 3]
    rows = plain["scores"]["law"]["rmse"]
    assert rows[0]["lower"] <= rows[0]["estimate"] <= rows[0]["upper"]
    rivals = {"climatology", "persistence", "damped persistence", "LIM"}
    assert set(plain["skill_against"]) == rivals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"first": 3}, "from 4 to 29 times"),
        ({"leads": (1, 40)}, "at most 12"),
        ({"leads": ()}, "steps ahead"),
        ({"leads": (0,)}, "a positive integer"),
        ({"leads": 1.5}, "integer"),
        ({"origins": "sliding"}, "expanding"),
        ({"refits": 0}, "a positive integer"),
        ({"n_modes": "many"}, "numbers to choose from"),
        ({"n_modes": []}, "numbers to choose from"),
        ({"domain": "fourier"}, "'eof'"),
        ({"progress": 3}, "a function"),
        ({"prepare": "month"}, "a Preparation"),
        ({"prepare": sl.Preparation(anomalies="lead")}, "score hindcasts by verify"),
        ({"residual": "pink"}, "white"),
        ({"nmodes": 3}, "did you mean n_modes"),
    ],
)
def test_refusals(settings, message):
    given = {"domain": CALM.domain, "n_modes": 2, **settings}
    with pytest.raises(InputError, match=message):
        sl.skill(one_path(30), given.pop("domain"), given.pop("n_modes"), **given)


def test_no_values_to_score(judged):
    fields = one_path(40)
    fields[:, 24:] = np.nan
    with pytest.raises(DataError, match="none at lead 1"):
        sl.skill(fields, CALM.domain, 2, leads=1, refits=1, nuisance=0)
    with pytest.raises(InputError, match="rmse"):
        judged.score("mse")


def test_rivals_have_the_mean_of_the_past_as_the_law_has_its_own():
    """Far from zero, too: the mean of the past is what everybody would forecast."""
    raw = one_path(100) + 100.0 + 2.0 * np.sin(one_path(100).x)
    done, words = [], {"leads": 1, "first": 80, "refits": 1, "nuisance": 0, "mean": "constant"}
    result = sl.skill(raw, CALM.domain, 2, progress=lambda *at: done.append(at), **words)
    assert done == [(i + 1, 20) for i in range(20)]
    f = result.forecasts["mean"].isel(lead=0, origin=0, path=0)
    mean = raw.values[0, :80].mean(0)
    np.testing.assert_allclose(f.sel(predictor="climatology"), mean, atol=1e-12)
    away = (raw.values[0, :80] - mean)[None]
    damp = mean + memory(away) * away[0, -1]
    np.testing.assert_allclose(f.sel(predictor="damped persistence"), damp, atol=1e-12)
    np.testing.assert_allclose(f.sel(predictor="persistence"), raw.values[0, 79], atol=1e-12)
    past = raw.isel(time=slice(80))
    law = sl.fit(past, CALM.domain, 2, mean="constant", nuisance=0, residual="auto")
    ahead = law.forecast(past, steps=1)["mean"].values[0, 0]
    np.testing.assert_allclose(f.sel(predictor="law"), ahead, atol=1e-9)
    rmse = result.score("rmse").sel(statistic="estimate", lead=1)
    assert float(rmse.sel(predictor="LIM")) < 2.0 * float(one_path(100).std())


@pytest.mark.parametrize("words", [{"prepare": sl.Preparation(anomalies="mean")}, {"mean": "zero"}])
def test_the_climatology_is_that_of_the_preparation_or_zero(words):
    raw = one_path(100) + 100.0
    result = sl.skill(raw, CALM.domain, 2, leads=1, first=80, refits=1, nuisance=0, **words)
    climatology = result.forecasts["mean"].sel(predictor="climatology")
    if words == {"mean": "zero"}:
        np.testing.assert_array_equal(climatology, 0.0)
    else:
        assert float(abs(climatology - raw.mean()).max()) < 2.0 * float(raw.std())


def test_a_curvilinear_grid_comes_back_as_it_was():
    rng = np.random.default_rng(0)
    lat, lon = np.meshgrid(np.linspace(50, 60, 3), np.linspace(-20, 0, 4), indexing="ij")
    walk = np.cumsum(rng.standard_normal((60, 12)), axis=0) * 0.95 ** np.arange(60)[:, None]
    values = (walk @ rng.standard_normal((12, 12))).reshape(60, 3, 4)
    values[:, 0, 0] = np.nan
    where = {"lat": (("j", "i"), lat + 0.05 * lon), "lon": (("j", "i"), lon + 0.1 * lat)}
    raw = xr.DataArray(values, {"time": np.arange(60.0), **where}, ("time", "j", "i"), "tos")
    result = sl.skill(raw, "eof", 2, drift="diagonal", leads=1, refits=1, most_origins=3)
    assert result.forecasts["mean"].dims == ("predictor", "lead", "origin", "path", "j", "i")
    assert result.forecasts["mean"].isel(j=0, i=0).isnull().all()
