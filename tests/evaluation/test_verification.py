"""Forecasts against observations: scores by hand, times that match, and refusals."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from tests.journeys.records import hindcast

import spdelaw as sl
from spdelaw.errors import DataError


def by_hand(mean, std, truth, normal):
    """RMSE, anomaly correlation, and share inside the 80 % interval."""
    error, forecast, observed = mean - truth, mean - normal, truth - normal
    known = np.isfinite(error)
    correlation = (forecast * observed)[known].sum() / np.sqrt(
        (forecast[known] ** 2).sum() * (observed[known] ** 2).sum()
    )
    inside = np.abs(error[known] / std[known]) <= 1.2815515655446004
    return np.sqrt(np.mean(error[known] ** 2)), correlation, inside.mean()


def test_ensemble_by_hand():
    forecasts, observations = hindcast(12, 4, members=3)
    scores = sl.verify(forecasts, observations, adjust=False, replicates=20)
    values, obs = forecasts["SST"].values.astype(float), observations["SST"].values.astype(float)
    normal = obs.mean(0)
    for lead in (1, 4):
        members = values[:, :, lead - 1]
        mean, std = members.mean(1), np.sqrt(4 / 3) * members.std(1, ddof=1)
        truth = np.stack([obs[start + lead] for start in range(12)])
        expected = by_hand(mean, std, truth, normal)
        row = scores.table.estimate.sel(predictor="forecast", lead=lead)
        got = [float(row.sel(score=s)) for s in ("rmse", "anomaly_correlation", "coverage_80")]
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        kept = scores.table.estimate.sel(predictor="persistence", lead=lead, score="rmse")
        still = np.stack([obs[start] for start in range(12)])
        assert float(kept) == pytest.approx(np.sqrt(np.nanmean((still - truth) ** 2)), rel=1e-6)
    assert "12 starts" in repr(scores)
    assert scores.to_dict()["units"] == "degC"


def test_mean_error_of_the_other_starts_is_subtracted():
    forecasts, observations = hindcast(12, 3, members=3)
    off = forecasts + 5.0 * forecasts["lead"]  # a drift of the model changes nothing
    first, second = (sl.verify(f, observations, replicates=20) for f in (forecasts, off))
    np.testing.assert_allclose(
        first.table.estimate, second.table.estimate, rtol=1e-4, equal_nan=True
    )
    raw = sl.verify(off, observations, adjust=False, replicates=20)
    assert float(raw.score().sel(predictor="forecast", lead=3, statistic="estimate")) > 10


def test_law_forecasts_of_a_hindcast_and_of_one_record():
    forecasts, observations = hindcast(16, 5)
    law = sl.fit(forecasts, None, 3, prepare=sl.Preparation(anomalies="lead"), residual="white")
    ahead = law.forecast(forecasts.isel(lead=slice(3)), at=[4.0, 5.0])
    scores = sl.verify(ahead, observations, replicates=50)
    assert list(scores.table.lead.values) == [4, 5]
    assert list(scores.table.predictor.values) == ["forecast", "climatology", "persistence"]
    assert int(scores.table.n_values.min()) == 16 * int(observations["SST"][0].notnull().sum())
    one = sl.Preparation(anomalies="mean")
    record = observations.isel(time=slice(15))
    ahead = sl.fit(record, None, 3, prepare=one, residual="white").forecast(record, steps=3)
    scores = sl.verify(ahead, observations)
    assert list(scores.table.lead.values) == [1, 2, 3]
    assert np.isnan(scores.table.lower).all()  # one start has no interval
    assert scores.verdict == "forecast against climatology: no clear difference"


@pytest.mark.parametrize(("unit", "months"), [("months", 1), ("years", 12)])
def test_leads_in_months_and_years_of_dated_starts(unit, months):
    """A forecast that copies the observations at its valid times has no error."""
    times = pd.date_range("2000-01-01", periods=72, freq="MS")
    generator = np.random.default_rng(0)
    field = xr.DataArray(
        generator.standard_normal((72, 5)), {"time": times, "x": np.arange(5.0)}, ("time", "x"),
        "t",
    )  # fmt: skip
    starts = times[:24:3]
    rows = np.arange(0, 24, 3)[:, None] + months * np.arange(1, 4)
    mean = xr.DataArray(
        field.values[rows],
        {"init": starts, "lead": ("lead", [1, 2, 3], {"units": unit}), "x": field.x},
        ("init", "lead", "x"),
    )
    issued = xr.Dataset({"mean": mean, "std": mean * 0 + 1.0})
    scores = sl.verify(issued, field, adjust=False, replicates=20)
    rmse = scores.score().sel(predictor="forecast", statistic="estimate")
    np.testing.assert_allclose(rmse, 0.0, atol=1e-12)
    assert float(scores.score("anomaly_correlation").sel(predictor="forecast")[0, 0]) == 1.0


def test_refusals():
    forecasts, observations = hindcast(8, 3)
    with pytest.raises(DataError, match="mean and std, or members"):
        sl.verify(forecasts, observations)
    forecasts, _ = hindcast(8, 3, members=2)
    with pytest.raises(DataError, match="at the places"):
        sl.verify(forecasts, observations.isel(nlat=slice(3)))
    with pytest.raises(DataError, match="at times that were forecast"):
        sl.verify(forecasts, observations.assign_coords(time=observations.time + 500))
    months = pd.date_range("1960-01-01", periods=observations.sizes["time"], freq="YS")
    dated = sl.verify(forecasts, observations.assign_coords(time=months), replicates=10)
    np.testing.assert_allclose(
        dated.table.estimate, sl.verify(forecasts, observations, replicates=10).table.estimate
    )
    odd = forecasts.assign_coords(init=forecasts.init + 0.25)
    with pytest.raises(DataError, match="both have dates, or both numbers"):
        sl.verify(odd, observations.assign_coords(time=months))
