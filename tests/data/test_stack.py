"""stack: single paths with their own times as one array."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import POINTS, TIMES, fields, values

from spdelaw.data import as_fields, stack
from spdelaw.errors import DataError


def single(times, seed=0, points=POINTS):
    data = np.random.default_rng(seed).normal(size=(len(times), len(points)))
    return xr.DataArray(data, {"time": times, "x": points})


def test_paths_with_the_same_times_share_them():
    parts = [fields().isel(path=i) for i in range(3)]
    assert stack(parts).identical(fields())


def test_ragged_paths_are_padded():
    paths = [single([0.0, 1.0]), single([0.0, 0.5, 2.0, 3.0], seed=1)]
    made = stack(paths)
    assert made.shape == (2, 4, 4)
    np.testing.assert_array_equal(made.path_time, [[0, 1, np.nan, np.nan], [0, 0.5, 2, 3]])
    np.testing.assert_array_equal(made.values[0, :2], paths[0])
    np.testing.assert_array_equal(made.values[1], paths[1])
    assert np.isnan(made.values[0, 2:]).all()
    np.testing.assert_array_equal(made.time, range(4))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True), min_size=1, max_size=4
    )
)
def test_every_path_comes_back(all_times):
    paths = [single(sorted(times), seed) for seed, times in enumerate(all_times)]
    made = stack(paths)
    for i, path in enumerate(paths):
        n = path.sizes["time"]
        shared = "path_time" not in made.coords
        times = made.time.values if shared else made.path_time.values[i, :n]
        np.testing.assert_array_equal(times, path.time)
        np.testing.assert_array_equal(made.values[i, :n], path)
        assert np.isnan(made.values[i, n:]).all()


def test_dates_count_from_the_earliest_of_all_paths():
    late = single(pd.date_range("2000-01-11", periods=3))
    early = single(pd.date_range("2000-01-01", periods=2), seed=1)
    made = stack([late, early], time_unit="hours")
    np.testing.assert_array_equal(made.path_time, [[240, 264, 288], [0, 24, np.nan]])
    assert made.path_time.attrs["units"] == "hours since 2000-01-01"
    assert stack([early, early], time_unit="hours").time.attrs["units"] == "hours since 2000-01-01"


def test_descending_dates_and_points_are_turned_round():
    path = single(pd.date_range("2000-01-01", periods=3))
    turned = path.isel(time=slice(None, None, -1), x=slice(None, None, -1))
    other = single(pd.date_range("2000-02-01", periods=2), seed=1)
    assert stack([turned, other]).identical(stack([path, other]))


def test_labels_are_kept_when_they_are_distinct():
    parts = [fields().isel(path=i) for i in (2, 0)]
    assert stack(parts).path.values.tolist() == [2, 0]
    assert stack([parts[0], parts[0]]).path.values.tolist() == [0, 1]


def test_scalar_coordinates_that_differ_follow_their_path():
    paths = [single([0.0, 1.0]).assign_coords(station=s) for s in (10, 11)]
    assert stack(paths).station.values.tolist() == [10, 11]


def test_lazy_paths_stay_lazy():
    paths = [single([0.0, 1.0]).chunk(), single([0.0, 2.0, 3.0], seed=1).chunk()]
    made = stack(paths)
    assert made.chunks is not None
    assert made.compute().identical(stack([path.compute() for path in paths]))


REFUSED = {
    "an array": (lambda: stack(fields()), "paths", "DataArray"),
    "nothing": (lambda: stack([]), "paths", "list"),
    "bare arrays": (lambda: stack([values()[0]]), "paths", "list"),
    "several paths": (lambda: stack([fields()]), "paths[0]", "3 paths"),
    "other points": (
        lambda: stack([single(TIMES), single(TIMES, points=POINTS + 1)]),
        "paths[1], coordinate 'x'",
        "not the same",
    ),
    "broken path": (
        lambda: stack([single(TIMES), single([0.0, 0.0])]),
        "paths[1], coordinate 'time'",
        "0.0 more than once",
    ),
    "dates and numbers": (
        lambda: stack([single([0.0, 1.0]), single(pd.date_range("2000", periods=2))]),
        "coordinate 'time'",
        "dates and numbers",
    ),
    "two units": (
        lambda: stack([as_fields(single(TIMES), time_unit=u) for u in ("days", "hours")]),
        "coordinate 'time'",
        "units days, hours",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, what, got = REFUSED[case]
    with pytest.raises(DataError) as caught:
        call()
    assert caught.value.what == what
    assert got in caught.value.got
