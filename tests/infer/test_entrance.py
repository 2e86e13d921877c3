"""What is never seen does not exist: points such as land, and times without any value."""

import numpy as np
import pytest

import spdelaw as sl

pytestmark = pytest.mark.filterwarnings("ignore::spdelaw.errors.SpdeLawWarning")
INTERVAL = sl.Interval(0, np.pi)
#: Of numbers that go through the same arithmetic in another order.
SAME = 1e-8


def same_law(one, two):
    assert one.info["route"] == two.info["route"]
    for name, table in one.parameters.data_vars.items():
        expected = two.parameters[name].values
        size = SAME * np.nanmax(np.abs(expected))
        np.testing.assert_allclose(table.values, expected, rtol=0, atol=size, err_msg=str(name))


def test_the_pacific_as_a_grid_with_land_and_as_points_of_the_sea():
    """ERSST from 27 S to 29 N, monthly anomalies: one law, by one route, from both."""
    raw = sl.datasets.pacific_sst().isel(time=slice(72))
    clean = raw.groupby("time.month") - raw.groupby("time.month").mean()
    grid = sl.as_fields(clean.rename(lat="y", lon="x"), dims=("x", "y"), time_unit="days")
    sea = ~np.isnan(grid.values).all((0, 1))
    assert 0 < (~sea).sum() < sea.size
    domain = sl.Box((120.0, 290.0), (-28.0, 30.0), boundary="neumann")
    points = np.stack(np.meshgrid(grid.x.values, grid.y.values, indexing="ij"), -1)[sea]
    values = grid.values[:, :, sea]
    words = {"mean": "zero", "nuisance": 0}
    one = sl.fit(grid, domain, 2, **words)
    two = sl.fit(values, domain, 2, times=grid.time.values, points=points, **words)
    same_law(one, two)


def gappy(n_paths=20):
    times = np.linspace(0.0, 2.0, 31)
    equation = sl.catalogue.heat(n_modes=2)
    fields = sl.simulate(equation, n_paths, times, seed=0, observation_std=0.05)
    hidden = sl.mask(fields, "random", 0.2, seed=1).copy(deep=True)
    hidden[:, 5:9] = hidden[:, -2:] = np.nan
    return hidden, np.r_[0:5, 9:29]


@pytest.mark.parametrize("words", [{}, {"drift": "dense"}, {"engine": "chaos"}], ids=str)
def test_times_without_any_value_are_no_part_of_a_fit(words):
    hidden, keep = gappy()
    words = {"nuisance": 0, "mean": "zero"} | words if "engine" not in words else words
    one, two = (sl.fit(data, INTERVAL, 2, **words) for data in (hidden, hidden.isel(time=keep)))
    same_law(one, two)
    np.testing.assert_array_equal(one.times, hidden.time)
    assert one.info["log_likelihood_of"] == two.info["log_likelihood_of"]
    assert one.log_likelihood(hidden).sum() == pytest.approx(
        float(two.log_likelihood(hidden.isel(time=keep)).sum()), rel=1e-10
    )


def test_the_same_for_lazy_data():
    hidden, keep = gappy()
    words = {"nuisance": 0, "mean": "zero"}
    one = sl.fit(hidden.chunk(path=7, time=6), INTERVAL, 2, **words)
    same_law(one, sl.fit(hidden.isel(time=keep), INTERVAL, 2, **words))
    np.testing.assert_array_equal(one.times, hidden.time)


def test_the_first_time_stays_because_paths_start_there():
    hidden, _ = gappy()
    hidden[:, 0] = np.nan
    law = sl.fit(hidden, INTERVAL, 2, nuisance=0, mean="zero")
    assert law.times[0] == hidden.time[0]
