"""split and mask: exact sizes and patterns, no leaks, and nothing else changed."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import fields

from spdelaw.data.fields import as_fields
from spdelaw.data.splits import PATTERNS, mask, split
from spdelaw.errors import DataError, InputError


def many(paths):
    """Each path holds its own number, so that a mix-up of data and labels shows."""
    data = np.broadcast_to(np.arange(paths)[:, None, None], (paths, 2, 2))
    return as_fields(data, times=[0, 1], points=[0, 1])


def full(paths=3, times=10, points=8):
    data = np.random.default_rng(0).normal(size=(paths, times, points))
    return as_fields(data, times=np.arange(times), points=np.arange(points))


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


def test_largest_remainders_seeds_labels_and_laziness():
    for paths, words, sizes in (
        (10, ((0.34, 0.33, 0.33),), [4, 3, 3]), (3, (), [1, 1, 1]), (1000, (), [700, 150, 150]),
    ):  # fmt: skip
        assert [p.sizes["path"] for p in split(many(paths), *words)] == sizes
    data = many(20).assign_coords(path=np.arange(100, 120))
    first = split(data, seed=1)
    assert all(a.identical(b) for a, b in zip(first, split(data, seed=1), strict=True))
    assert not first[0].equals(split(data, seed=2)[0])
    assert first[0].path.min() >= 100
    assert first[0].identical(split(data, seed=np.random.default_rng(1))[0])
    assert split(many(10).chunk())[0].chunks is not None


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


# ---------------------------------------------------------------- mask


def hidden(data, *arguments, **options):
    return np.isnan(mask(data, *arguments, **options).values)


SHAPES = st.tuples(*[st.integers(1, 9)] * 3)
FRACTIONS = st.floats(0, 1, exclude_max=True)


@settings(max_examples=60)
@given(st.sampled_from(PATTERNS), FRACTIONS, st.integers(0, 2**40), SHAPES)
def test_counts_are_exact_and_the_rest_is_untouched(pattern, fraction, seed, shape):
    data = full(*shape)
    masked = mask(data, pattern, fraction, seed)
    gone = np.isnan(masked.values)
    np.testing.assert_array_equal(masked.values[~gone], data.values[~gone])
    _, times, points = shape
    size = {"sensors": points, "rows": times}.get(pattern, times * points)
    expected = min(round(fraction * size), size - 1)
    if pattern == "sensors":
        assert gone.any(axis=(0, 1)).sum() == expected
        assert (gone == gone[0, 0]).all()  # the same everywhere
    elif pattern == "rows":
        assert (gone.any(axis=2).sum(axis=1) == expected).all()
        assert (gone.all(axis=2) == gone.any(axis=2)).all()  # whole rows
    else:
        assert (gone.sum(axis=(1, 2)) == expected).all()


def test_blocks_are_contiguous_and_rows_differ_between_paths():
    # In a block most neighbours of a hidden point are hidden too; at random 30 in 100 are.
    def neighbours(pattern):
        gone = hidden(full(20, 40, 40), pattern, 0.3)
        return gone[:, 1:][gone[:, :-1]].mean()

    assert neighbours("blocks") > 0.7
    assert neighbours("random") < 0.35
    assert len({row.tobytes() for row in hidden(full(8), "rows", 0.5)[..., 0]}) > 1


def test_what_was_missing_stays_missing_and_the_input_is_not_touched():
    data = full().rename("u").assign_attrs(units="K")
    data[1, 2, 3] = np.nan
    before = data.copy(deep=True)
    masked = mask(data, "random", 0.2, seed=3)
    assert np.isnan(masked[1, 2, 3])
    assert data.identical(before)
    gone = np.isnan(data.values) | hidden(full(), "random", 0.2, seed=3)
    np.testing.assert_array_equal(np.isnan(masked), gone)
    lazy = mask(data.chunk(), "random", 0.2, seed=3)
    assert lazy.chunks is not None
    assert (lazy.name, lazy.attrs) == ("u", {"units": "K"})
    assert lazy.compute().identical(masked)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_seed_decides_and_more_paths_change_nothing(pattern):
    few, more = full(2), full(5)
    gone = hidden(more, pattern, 0.4, seed=5)
    np.testing.assert_array_equal(gone, hidden(more, pattern, 0.4, seed=5))
    np.testing.assert_array_equal(gone[:2], hidden(few, pattern, 0.4, seed=5))
    assert (gone != hidden(more, pattern, 0.4, seed=6)).any()
    grid = as_fields(np.ones((2, 6, 5, 4)), times=range(6), points=(range(5), range(4)),
                     dims=("y", "x"))  # fmt: skip
    masked = mask(grid, pattern, 0.5)
    assert masked.dims == grid.dims
    np.testing.assert_allclose(np.isnan(masked).mean(), 0.5)


SEEDS = [-1, 1.5, None, True, "0"]
SUMS = [(), (0.5, 0.6), (1.2, -0.2), (1.0, 0.0), "abc", 0.5, (np.nan, 1), None]
REFUSED = [
    *((InputError, "sum to 1|each a finite number", lambda f=f: split(fields(), f)) for f in SUMS),
    *((InputError, "seed", lambda s=s: split(fields(), seed=s)) for s in SEEDS),
    (InputError, "along", lambda: split(fields(), along="x")),
    (DataError, 'along="time"', lambda: split(fields(2))),
    (DataError, "fewer parts", lambda: split(fields(1).isel(time=[0, 1]), along="time")),
    *((InputError, "fraction", lambda f=f: mask(fields(), fraction=f))
      for f in (-0.1, 1, 1.5, np.nan, "half", None, True)),
    (InputError, "'random', 'rows', 'sensors', 'blocks'", lambda: mask(fields(), "stripes")),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "call"), REFUSED)
def test_refused(error, words, call):
    with pytest.raises(error, match=words):
        call()
