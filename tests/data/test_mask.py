"""mask: the pattern and the number asked for, and nothing else changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import fields

from spdelaw.data import as_fields, mask
from spdelaw.data._mask import PATTERNS
from spdelaw.errors import InputError


def full(paths=3, times=10, points=8):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(paths, times, points))
    return as_fields(data, times=np.arange(times), points=np.arange(points))


def hidden(data, *arguments, **options):
    return np.isnan(mask(data, *arguments, **options).values)


def expected(size, fraction):
    return min(round(fraction * size), size - 1)


FRACTIONS = st.floats(0, 1, exclude_max=True)


@settings(max_examples=60)
@given(
    st.sampled_from(PATTERNS), FRACTIONS, st.integers(0, 2**40), st.tuples(*[st.integers(1, 9)] * 3)
)
def test_counts_are_exact_and_the_rest_is_untouched(pattern, fraction, seed, shape):
    data = full(*shape)
    masked = mask(data, pattern, fraction, seed)
    gone = np.isnan(masked.values)
    np.testing.assert_array_equal(masked.values[~gone], data.values[~gone])
    _, times, points = shape
    if pattern == "sensors":
        assert gone.any(axis=(0, 1)).sum() == expected(points, fraction)
    elif pattern == "rows":
        assert (gone.any(axis=2).sum(axis=1) == expected(times, fraction)).all()
    else:
        assert (gone.sum(axis=(1, 2)) == expected(times * points, fraction)).all()


def test_rows_are_whole_and_differ_between_paths():
    gone = hidden(full(8), "rows", 0.5)
    assert (gone.all(axis=2) == gone.any(axis=2)).all()
    assert len({row.tobytes() for row in gone[..., 0]}) > 1


def test_sensors_are_the_same_everywhere():
    gone = hidden(full(), "sensors", 0.5)
    assert (gone == gone[0, 0]).all()


def test_blocks_are_contiguous():
    # In a block most neighbours of a hidden point are hidden too; at random 30 in 100 are.
    def neighbours(pattern):
        gone = hidden(full(20, 40, 40), pattern, 0.3)
        return gone[:, 1:][gone[:, :-1]].mean()

    assert neighbours("blocks") > 0.7
    assert neighbours("random") < 0.35


def test_what_was_missing_stays_missing_and_the_input_is_not_touched():
    data = full()
    data[1, 2, 3] = np.nan
    before = data.copy(deep=True)
    masked = mask(data, "random", 0.2, seed=3)
    assert np.isnan(masked[1, 2, 3])
    assert data.identical(before)
    np.testing.assert_array_equal(
        np.isnan(masked), np.isnan(data) | np.isnan(mask(full(), "random", 0.2, seed=3))
    )


@pytest.mark.parametrize("pattern", PATTERNS)
def test_seed_decides_and_more_paths_change_nothing(pattern):
    few, more = full(2), full(5)
    gone = hidden(more, pattern, 0.4, seed=5)
    np.testing.assert_array_equal(gone, hidden(more, pattern, 0.4, seed=5))
    np.testing.assert_array_equal(gone[:2], hidden(few, pattern, 0.4, seed=5))
    assert (gone != hidden(more, pattern, 0.4, seed=6)).any()


def test_attributes_names_and_laziness_are_kept():
    data = full().rename("u").assign_attrs(units="K")
    masked = mask(data.chunk(), "rows")
    assert masked.chunks is not None
    assert masked.name == "u"
    assert masked.attrs == {"units": "K"}
    assert masked.compute().identical(mask(data, "rows"))


def test_two_space_dims():
    data = as_fields(
        np.ones((2, 6, 5, 4)), times=range(6), points=(range(5), range(4)), dims=("y", "x")
    )
    for pattern in PATTERNS:
        masked = mask(data, pattern, 0.5)
        assert masked.dims == data.dims
        np.testing.assert_allclose(np.isnan(masked).mean(), 0.5)


@pytest.mark.parametrize("fraction", [-0.1, 1, 1.5, np.nan, "half", None, True])
def test_wrong_fraction(fraction):
    with pytest.raises(InputError, match="fraction"):
        mask(fields(), fraction=fraction)


def test_wrong_pattern():
    with pytest.raises(InputError, match="random, rows, sensors, blocks"):
        mask(fields(), "stripes")
