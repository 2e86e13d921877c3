"""One pass over the values answers as one pass for each question would."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.data import checksum, observe
from spdelaw.data._reading import RUN, read_values
from spdelaw.errors import DataError

LINE = sl.Interval(0, np.pi)


def values(*bad, size=3 * RUN + 777):
    out = np.random.default_rng(0).normal(size=size)
    out[5 : 5 + len(bad)] = bad
    return out


@pytest.mark.parametrize("bad", [(), (np.nan,), (np.inf,), (-np.inf, np.nan), (1e300, -1e300)])
def test_every_answer_is_that_of_a_pass_of_its_own(bad):
    flat = values(*bad)
    found, known = read_values([flat]), flat[np.isfinite(flat)]
    assert (found.low, found.high) == (known.min(), known.max())
    assert found.has_infinite == np.isinf(flat).any()
    assert found.is_data == (not found.has_infinite)
    bits = [int(b) for b in np.where(np.isnan(flat), np.nan, flat).view(np.uint64)]
    runs, rest = [bits[i : i + RUN] for i in range(0, 3 * RUN, RUN)], bits[3 * RUN :]
    places = [sum(column) % 2**64 for column in zip(*runs, strict=True)]
    assert found.sums.tolist() == [*(sum(run) % 2**64 for run in runs), *places, *rest]


@pytest.mark.parametrize("cuts", [[1], [RUN], [100, RUN + 3, 2 * RUN + 9], [3 * RUN]])
def test_pieces_are_read_as_one(cuts):
    flat = values(np.nan)
    one, many = read_values([flat]), read_values(np.split(flat, cuts))
    assert one[:3] == many[:3]
    np.testing.assert_array_equal(one.sums, many.sums)


def test_nothing_but_gaps_has_no_ends():
    found = read_values([np.full(10, np.nan)])
    assert found[:3] == (np.inf, -np.inf, False)
    assert not found.is_data


def made(n_paths=4):
    return sl.simulate(sl.catalogue.heat(3), n_paths, np.linspace(0, 1, 30), LINE.grid(20), seed=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o,
        lambda o: o.paths([0, 2]),
        lambda o: o.at_times(slice(3, None)),
        lambda o: o.at_points(np.arange(20) > 3),
        lambda o: o.less(np.ones(20)),
        lambda o: o.masked(np.arange(20) % 5 > 0),
        lambda o: o.where_seen(),
    ],
)
def test_a_reading_is_of_these_fields_or_of_none(change):
    fields = made()
    fields[:, 7] = np.nan
    own = change(observe(fields, LINE, named=True))
    assert checksum(own.fields, own.reading) == checksum(own.fields)


def test_a_law_names_its_data_whether_they_were_read_before_or_not():
    law, again = sl.fit(made(), LINE, 3), sl.fit(observe(made(), LINE), LINE, 3)
    name = law.info["log_likelihood_of"]["fingerprint"]
    assert name == again.info["log_likelihood_of"]["fingerprint"] == checksum(made())


@pytest.mark.parametrize("bad", [np.inf, 9.96920996838687e36, -9999.0])
def test_what_is_no_number_is_refused_at_the_door(bad):
    fields = made()
    fields[1, 2, 3] = bad
    with pytest.raises(DataError, match="infinite" if np.isinf(bad) else "fill"):
        sl.fit(fields, LINE, 3)
