"""Multi-indices and truncation sets: algebra, order, counts, bad input."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdelaw.chaos.indices import MultiIndex, TruncationSet, first_order_set

pairs = st.tuples(st.integers(1, 5), st.integers(1, 4))
multi_indices = st.dictionaries(pairs, st.integers(0, 4), max_size=4).map(MultiIndex)


@given(multi_indices, multi_indices)
def test_addition_adds_degrees_and_orders(a, b):
    total = a + b
    assert total == b + a
    assert total.order == a.order + b.order
    assert all(total[pair] == a[pair] + b[pair] for pair in itertools.product(range(7), range(6)))
    # alpha! beta! divides (alpha + beta)!: the quotient is a product of binomials.
    assert total.factorial % (a.factorial * b.factorial) == 0


@given(multi_indices, multi_indices)
def test_order_is_total_and_graded(a, b):
    assert (a < b) + (b < a) + (a == b) == 1
    if a.order < b.order:
        assert a < b


@given(multi_indices)
def test_zeros_and_the_order_of_entries_do_not_matter(a):
    same = MultiIndex({**dict(reversed(a.entries)), (6, 6): 0})
    assert same == a
    assert hash(same) == hash(a)
    assert eval(repr(a)) == a


def test_factorial_and_word():
    a = MultiIndex({(2, 1): 3, (1, 2): 2})
    assert a.factorial == 12
    assert a.word == ((1, 2), (1, 2), (2, 1), (2, 1), (2, 1))
    assert MultiIndex().factorial == 1


@pytest.mark.parametrize(("k", "l", "p"), [(1, 1, 5), (2, 3, 3), (3, 2, 2), (4, 1, 0), (2, 2, 4)])
def test_truncation_set_is_all_indices_once_in_order(k, l, p):
    """Against every function from K x L to 0 ... p, and the formula C(KL + p, p)."""
    boxes = list(itertools.product(range(1, k + 1), range(1, l + 1)))
    brute = {
        MultiIndex(zip(boxes, degrees, strict=True))
        for degrees in itertools.product(range(p + 1), repeat=k * l)
        if sum(degrees) <= p
    }
    listed = list(TruncationSet(k, l, p))
    assert set(listed) == brute
    assert listed == sorted(brute)
    assert len(TruncationSet(k, l, p)) == len(listed) == math.comb(k * l + p, p)
    assert all(a in TruncationSet(k, l, p) for a in listed)
    for least in range(p + 1):
        assert len(TruncationSet(k, l, p, least)) == sum(a.order >= least for a in listed)


def test_iteration_is_lazy():
    huge = TruncationSet(n_time=1000, n_noise=1000, max_order=9)
    first = list(itertools.islice(huge, 3))
    assert first == [MultiIndex(), MultiIndex.unit(1, 1), MultiIndex.unit(1, 2)]
    assert huge.count == math.comb(10**6 + 9, 9)


def test_first_order_set_is_the_papers():
    """J_{K,L} = {e_{k,l}}: K L indices, in the memory order of a (K, L) array."""
    listed = list(first_order_set(16, 8))
    assert len(listed) == 128
    assert [a.support[0] for a in listed] == [(k, l) for k in range(1, 17) for l in range(1, 9)]
    assert MultiIndex() not in first_order_set(16, 8)
    assert MultiIndex.unit(16, 9) not in first_order_set(16, 8)
