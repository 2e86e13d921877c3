"""Fingerprints see the content and nothing else; one pass sees every value once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.builders import POINTS, TIMES, fields, values, with_path_times

from spdelaw.data import _sweep, as_fields, checksum, fingerprint
from spdelaw.data._sweep import Moments, Values, sweep


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that small fields have many of them."""
    monkeypatch.setattr(_sweep, "BLOCK_BYTES", 200)


class Seen:
    def __init__(self, shape):
        self.counts, self.order = np.zeros(shape[:2], int), []

    def update(self, index, block):
        assert block.shape[:2] == self.counts[index].shape
        self.counts[index] += 1
        self.order.append((index[1].start, index[0].start))


@pytest.mark.parametrize("chunks", [None, (1, 5, 4), (3, 1, 2), (2, 2, 1), (4, 3, 4)])
def test_every_row_is_seen_once_in_order_of_time(small_blocks, chunks):
    data = fields(7)
    if chunks:
        data = data.chunk(dict(zip(data.dims, chunks, strict=True)))
    seen = Seen(data.shape)
    sweep(data.variable, seen)
    assert (seen.counts == 1).all()
    assert seen.order == sorted(seen.order)
    assert len(seen.order) > 1


@settings(max_examples=30)
@given(st.tuples(*[st.integers(1, 8)] * 3), st.integers(1, 2000))
def test_chunks_and_blocks_leave_no_trace(chunks, block_bytes):
    data = with_path_times(4)
    expected = fingerprint(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sweep, "BLOCK_BYTES", block_bytes)
        chunked = data.chunk(dict(zip(data.dims, chunks, strict=True)))
        assert fingerprint(chunked) == fingerprint(data) == expected


def test_moments_agree_with_numpy_far_from_zero(small_blocks):
    data = fields(6) + 1e8
    data[2, 3] = np.nan
    counts, moments = Values(), Moments()
    sweep(data.variable, counts, moments)
    assert (counts.size, counts.missing, counts.infinite) == (120, 4, 0)
    assert (moments.minimum, moments.maximum) == (float(data.min()), float(data.max()))
    np.testing.assert_allclose(moments.mean, float(data.mean()), rtol=1e-15)
    np.testing.assert_allclose(moments.std, float(data.std()), rtol=1e-7)


def test_names_attributes_and_layout_do_not_matter():
    expected = fingerprint(fields())
    assert fingerprint(fields().rename("u").assign_attrs(units="K")) == expected
    assert fingerprint(fields().transpose("x", "time", "path")) == expected
    assert fingerprint(fields().isel(x=slice(None, None, -1))) == expected


def test_every_kind_of_nan_is_the_same():
    data = values()
    data[0, 0, 0] = np.nan
    other = data.copy()
    other[0, 0, 0] = -np.float64(np.nan)
    assert data.tobytes() != other.tobytes()
    one, two = (as_fields(d, times=TIMES, points=POINTS) for d in (data, other))
    assert fingerprint(one) == fingerprint(two)


def smallest_change(data):
    changed = data.copy(deep=True)
    changed.values[1, 2, 3] = np.nextafter(changed.values[1, 2, 3], np.inf)
    return changed


def moved(name):
    def change(data):
        coordinate = data[name].values.copy()
        coordinate[1] = np.nextafter(coordinate[1], np.inf)
        return data.assign_coords({name: coordinate})

    return change


@pytest.mark.parametrize(
    "change",
    [
        smallest_change,
        moved("time"),
        moved("x"),
        lambda data: data.assign_coords(path=[0, 1, 3]),
        lambda data: data.assign_coords(path=["0", "1", "2"]),
        lambda data: data.isel(path=[1, 0, 2]),
        lambda data: data.assign_coords(path_time=data.time + 0 * data.path),
        lambda data: data.where(data < data.max()),
    ],
)
def test_any_change_of_content_shows(change):
    assert fingerprint(change(fields())) != fingerprint(fields())


def test_checksum_sees_every_value_its_place_and_the_coordinates():
    rng, times, points = np.random.default_rng(0), np.arange(90.0), np.arange(200.0)
    values = rng.normal(size=(2, 90, 200))  # two runs of values, and some that are left over
    known = checksum(as_fields(values, times=times, points=points))
    assert known == checksum(as_fields(values.copy(), times=times, points=points).rename("u"))
    for change in ("value", "swap", "gap"):
        other = values.copy()
        if change == "value":
            other[1, 3, 5] = np.nextafter(other[1, 3, 5], 1.0)
        elif change == "swap":
            other[0, 3, 5], other[0, 4, 7] = values[0, 4, 7], values[0, 3, 5]
        else:
            other[1, 80, 0] = np.nan
        assert checksum(as_fields(other, times=times, points=points)) != known, change
    assert checksum(as_fields(values, times=times, points=points + 1.0)) != known
    gappy = values.copy()
    gappy[0, 0, 0], values[0, 0, 0] = np.nan, -np.float64("nan")
    one, two = (as_fields(v, times=times, points=points) for v in (gappy, values))
    assert checksum(one) == checksum(two)
