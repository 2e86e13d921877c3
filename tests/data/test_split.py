"""split: exact sizes, no leaks."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import fields

from spdelaw.data import as_fields, split
from spdelaw.errors import DataError, InputError


def many(paths: int) -> xr.DataArray:
    """Each path holds its own number, so that a mix-up of data and labels shows."""
    data = np.broadcast_to(np.arange(paths)[:, None, None], (paths, 2, 2))
    return as_fields(data, times=[0, 1], points=[0, 1])


@st.composite
def requests(draw):
    counts = draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    fractions = np.array(counts) / sum(counts)
    return draw(st.integers(len(counts), 60)), tuple(fractions), draw(st.integers(0, 2**40))


@settings(max_examples=60)
@given(requests())
def test_parts_are_disjoint_complete_and_sized(request_):
    paths, fractions, seed = request_
    parts = split(many(paths), fractions, seed)
    labels = np.concatenate([part.path for part in parts])
    assert sorted(labels) == list(range(paths))
    sizes = np.array([part.sizes["path"] for part in parts])
    assert (sizes >= 1).all()
    if (np.floor(paths * np.array(fractions)) >= 1).all():
        assert (np.abs(sizes - paths * np.array(fractions)) < 1).all()
    for part in parts:
        np.testing.assert_array_equal(part[:, 0, 0], part.path)


def test_largest_remainders_get_the_rest():
    sizes = [p.sizes["path"] for p in split(many(10), (0.34, 0.33, 0.33))]
    assert sizes == [4, 3, 3]
    assert [p.sizes["path"] for p in split(many(3))] == [1, 1, 1]
    assert [p.sizes["path"] for p in split(many(1000))] == [700, 150, 150]


def test_seed_decides_and_labels_are_kept():
    data = many(20).assign_coords(path=np.arange(100, 120))
    first = split(data, seed=1)
    assert all(a.identical(b) for a, b in zip(first, split(data, seed=1), strict=True))
    assert not first[0].equals(split(data, seed=2)[0])
    assert first[0].path.min() >= 100
    again = split(data, seed=np.random.default_rng(1))
    assert first[0].identical(again[0])


def test_the_deal_is_fair():
    # Null: each of 10 paths is in the first half with probability 1/2 in each of 200 deals.
    # A count off 100 by 40 or more has probability 1.5e-8, one of ten below 1e-6.
    data, counts = many(10), np.zeros(10)
    for seed in range(200):
        counts[split(data, (0.5, 0.5), seed)[0].path] += 1
    assert (np.abs(counts - 100) < 40).all()


def test_in_time_the_past_comes_first():
    past, future = split(fields(1), (0.6, 0.4), along="time")
    assert past.time.values.tolist() == [0.0, 0.1, 0.25]
    assert future.time.values.tolist() == [0.7, 1.5]
    assert xr.concat([past, future], "time", join="exact").identical(fields(1))


def test_lazy_fields_stay_lazy():
    assert split(many(10).chunk())[0].chunks is not None


@pytest.mark.parametrize(
    "fractions", [(), (0.5, 0.6), (1.2, -0.2), (1.0, 0.0), "abc", 0.5, (np.nan, 1), None]
)
def test_wrong_fractions(fractions):
    with pytest.raises(InputError, match="sum to 1"):
        split(fields(), fractions)


def test_too_few_paths_are_advised_to_split_in_time():
    with pytest.raises(DataError, match='along="time"'):
        split(fields(2))
    with pytest.raises(DataError, match="fewer parts"):
        split(fields(1).isel(time=[0, 1]), along="time")


@pytest.mark.parametrize("seed", [-1, 1.5, None, True, "0"])
def test_wrong_seed(seed):
    with pytest.raises(InputError, match="seed"):
        split(fields(), seed=seed)


def test_wrong_direction():
    with pytest.raises(InputError, match="along"):
        split(fields(), along="x")
