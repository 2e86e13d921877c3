"""Cross products of test parameters: `make test` runs a pairwise selection, `make test-all` all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest


def cross(**axes: Any) -> pytest.MarkDecorator:
    """Parametrise a test over the product of ``axes``.

    Rows that a pairwise selection does not need are marked ``slow``: every pair of values of two
    axes still occurs in a fast row. An axis is a list, or a dict whose keys become the ids.

    >>> mark = cross(kind=["a", "b"], size=[1, 2], gaps=[False, True])
    >>> [row.values for row in mark.args[1] if not row.marks]
    [('a', 1, False), ('a', 2, True), ('b', 1, True), ('b', 2, False)]
    """
    labels, values = zip(*(_labelled(axis) for axis in axes.values()), strict=True)
    rows = list(itertools.product(*(range(len(axis)) for axis in values)))
    fast = _pairwise(rows)
    parameters = [
        pytest.param(
            *(axis[i] for axis, i in zip(values, row, strict=True)),
            id="-".join(label[i] for label, i in zip(labels, row, strict=True)),
            marks=[] if row in fast else [pytest.mark.slow],
        )
        for row in rows
    ]
    return pytest.mark.parametrize(tuple(axes), parameters)


def _labelled(axis: Any) -> tuple[list[str], list[Any]]:
    if isinstance(axis, dict):
        return list(map(str, axis)), list(axis.values())
    plain = (str, int, float, bool, type(None))
    items = list(axis)
    return [str(x) if isinstance(x, plain) else str(i) for i, x in enumerate(items)], items


def _pairwise(rows: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Rows that cover every pair, greedily: the row with most uncovered pairs comes next."""
    pairs = {row: set(itertools.combinations(enumerate(row), 2)) for row in rows}
    if len(rows[0]) < 2:
        return set(rows)
    uncovered = set().union(*pairs.values())
    selected: set[tuple[int, ...]] = set()
    while uncovered:
        row = max(rows, key=lambda r: len(pairs[r] & uncovered))
        selected.add(row)
        uncovered -= pairs[row]
    return selected


def each(**axes: Any) -> pytest.MarkDecorator:
    """Parametrise a test over the product of ``axes``; each value occurs in a fast row.

    For axes that do not interact, or fits that take their time: all other rows are ``slow``.

    >>> mark = each(kind=["a", "b", "c"], gaps=[False, True])
    >>> [row.values for row in mark.args[1] if not row.marks]
    [('a', False), ('b', True), ('c', False)]
    """
    mark = cross(**axes)
    lists = [_labelled(axis)[1] for axis in axes.values()]
    longest = max(map(len, lists))
    fast = {tuple(i % len(axis) for axis in lists) for i in range(longest)}
    rows = itertools.product(*(range(len(axis)) for axis in lists))
    parameters = [
        pytest.param(*one.values, id=one.id, marks=[] if row in fast else [pytest.mark.slow])
        for one, row in zip(mark.args[1], rows, strict=True)
    ]
    return pytest.mark.parametrize(tuple(axes), parameters)
