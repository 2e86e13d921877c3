"""Multi-indices of the chaos expansion and their Hermite polynomials."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from spdelaw.checks import whole
from spdelaw.domains.hermite import Line
from spdelaw.errors import InputError

# ---------- Multi-indices of the chaos expansion and its truncation sets
#
# A multi-index ``alpha = (alpha_k^l)`` counts how often the Gaussian variable ``xi_k^l`` enters:
# ``k = 1, 2, ...`` numbers functions of time, ``l = 1, 2, ...`` the driving Wiener processes
# (paper, section 2.3).


Pair = tuple[int, int]


@functools.total_ordering
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class MultiIndex:
    """A multi-index that is zero but on finitely many pairs (k, l).

    Immutable and hashable. Sorted first by order, then by the pairs it repeats, so that the
    first-order indices sort as the entries of a (K, L) array in memory.

    Args:
        degrees: ``{(k, l): alpha_k^l}``; zeros may be left out.

    Example:
        >>> alpha = MultiIndex({(1, 1): 2, (3, 2): 1})
        >>> alpha.order, alpha.factorial, alpha[1, 1], alpha[2, 2]
        (3, 2, 2, 0)
        >>> alpha == MultiIndex.unit(1, 1) + MultiIndex.unit(1, 1) + MultiIndex.unit(3, 2)
        True
    """

    entries: tuple[tuple[Pair, int], ...]

    def __init__(self, degrees: Mapping[Pair, int] | Iterable[tuple[Pair, int]] = ()) -> None:
        counted = {_check_pair(pair): whole("degree", a, 0) for pair, a in _pairs(degrees)}
        object.__setattr__(self, "entries", tuple(sorted((p, a) for p, a in counted.items() if a)))

    @classmethod
    def unit(cls, k: int, l: int) -> MultiIndex:
        """``e_{k,l}``: one at (k, l), zero elsewhere (paper, below eq. 11)."""
        return cls({(k, l): 1})

    @property
    def order(self) -> int:
        """``|alpha|``, the sum of all degrees."""
        return sum(a for _, a in self.entries)

    @property
    def factorial(self) -> int:
        """``alpha!``, the product of the factorials of all degrees."""
        return math.prod(math.factorial(a) for _, a in self.entries)

    @property
    def support(self) -> tuple[Pair, ...]:
        """Pairs (k, l) with a degree above zero, sorted."""
        return tuple(pair for pair, _ in self.entries)

    @property
    def word(self) -> tuple[Pair, ...]:
        """The pairs of the support, each as often as its degree."""
        return tuple(itertools.chain.from_iterable((pair,) * a for pair, a in self.entries))

    def __getitem__(self, pair: Pair) -> int:
        return dict(self.entries).get(pair, 0)

    def __add__(self, other: object) -> MultiIndex:
        if not isinstance(other, MultiIndex):
            return NotImplemented
        pairs = {*self.support, *other.support}
        return MultiIndex({pair: self[pair] + other[pair] for pair in pairs})

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MultiIndex):
            return NotImplemented
        return (self.order, self.word) < (other.order, other.word)

    def __repr__(self) -> str:
        return f"MultiIndex({dict(self.entries)})"


@dataclasses.dataclass(frozen=True)
class TruncationSet:
    """``J_{p;K,L}``: all multi-indices with ``|alpha| <= p`` over K time and L noise indices.

    Iterates lazily and in sorted order; nothing is stored.

    Args:
        n_time: K.
        n_noise: L.
        max_order: p.
        min_order: smallest order that is kept; 1 leaves out the mean.

    Example:
        >>> pairs = TruncationSet(n_time=2, n_noise=1, max_order=2)
        >>> len(pairs)
        6
        >>> [dict(alpha.entries) for alpha in pairs][:4]
        [{}, {(1, 1): 1}, {(2, 1): 1}, {(1, 1): 2}]
        >>> MultiIndex.unit(3, 1) in pairs
        False
    """

    n_time: int
    n_noise: int
    max_order: int = 1
    min_order: int = 0

    def __post_init__(self) -> None:
        """Check the counts."""
        whole("n_time", self.n_time, 1)
        whole("n_noise", self.n_noise, 1)
        whole("min_order", self.min_order, 0)
        whole("max_order", self.max_order, self.min_order)

    @property
    def count(self) -> int:
        """``sum_{r = min}^{p} C(KL + r - 1, r)``; with min_order 0 this is ``C(KL + p, p)``."""
        variables = self.n_time * self.n_noise
        return math.comb(variables + self.max_order, self.max_order) - (
            math.comb(variables + self.min_order - 1, self.min_order - 1) if self.min_order else 0
        )

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[MultiIndex]:
        pairs = list(itertools.product(range(1, self.n_time + 1), range(1, self.n_noise + 1)))
        for order in range(self.min_order, self.max_order + 1):
            for word in itertools.combinations_with_replacement(pairs, order):
                yield MultiIndex((pair, len(list(run))) for pair, run in itertools.groupby(word))

    def __contains__(self, alpha: object) -> bool:
        return (
            isinstance(alpha, MultiIndex)
            and self.min_order <= alpha.order <= self.max_order
            and all(k <= self.n_time and l <= self.n_noise for k, l in alpha.support)
        )


def first_order_set(n_time: int, n_noise: int) -> TruncationSet:
    """``J_{K,L} = {e_{k,l}}``, the K L indices the paper keeps (section 2.5).

    Example:
        >>> [alpha.support for alpha in first_order_set(2, 2)]
        [((1, 1),), ((1, 2),), ((2, 1),), ((2, 2),)]
    """
    return TruncationSet(n_time, n_noise, max_order=1, min_order=1)


def _pairs(degrees: Any) -> Iterable[tuple[Any, Any]]:
    return degrees.items() if isinstance(degrees, Mapping) else degrees


def _check_pair(pair: Any) -> Pair:
    if not isinstance(pair, tuple) or len(pair) != 2:
        expected, fix = "pairs (k, l) of integers from 1 on", "MultiIndex({(1, 1): 2})"
        raise InputError("multi-index", expected=expected, got=repr(pair), fix=fix)
    return whole("k", pair[0], 1), whole("l", pair[1], 1)


# ---------- Normalised Hermite polynomials of the chaos coordinates, one for each multi-index


Array = np.ndarray


def hermite_chaos(indices: MultiIndex | Iterable[MultiIndex], coordinates: Any) -> Array:
    """``xi_alpha = prod_{k,l} H_{alpha_k^l}(xi_k^l) / sqrt(alpha!)`` (paper, eq. 7).

    Orthonormal for independent standard normal coordinates. The polynomials come from the
    recurrence of the normalised ones, so that no factorial overflows.

    Args:
        indices: one multi-index, or any iterable of them.
        coordinates: ``xi_k^l``, shape (..., K, L).

    Returns:
        Shape (...) for one multi-index, (..., n_indices) for several.

    Example:
        >>> xi = np.array([[2.0], [3.0]])  # K = 2, L = 1
        >>> hermite_chaos(MultiIndex({(1, 1): 2, (2, 1): 1}), xi).round(6)  # (2^2 - 1) / sqrt(2) 3
        np.float64(6.363961)
        >>> hermite_chaos([MultiIndex(), MultiIndex.unit(2, 1)], xi)
        array([1., 3.])
    """
    xi = np.asarray(coordinates, dtype=float)
    if xi.ndim < 2:
        expected, fix = "shape (..., K, L)", "add the axes: xi[:, None] for L = 1"
        raise InputError("coordinates", expected=expected, got=f"shape {xi.shape}", fix=fix)
    if isinstance(indices, MultiIndex):
        return _hermite_products([indices], xi)[..., 0]
    return _hermite_products(list(indices), xi)


def _hermite_products(indices: list[MultiIndex], xi: Array) -> Array:
    degrees: dict[tuple[int, int], int] = {}
    for alpha in indices:
        for pair, a in alpha.entries:
            degrees[pair] = max(a, degrees.get(pair, 0))
    tables = {pair: _polynomials(xi, pair, a) for pair, a in degrees.items()}
    out = np.ones((*xi.shape[:-2], len(indices)))
    for i, alpha in enumerate(indices):
        for pair, a in alpha.entries:
            out[..., i] *= tables[pair][..., a]
    return out


def _polynomials(xi: Array, pair: tuple[int, int], degree: int) -> Array:
    """``H_a / sqrt(a!)`` of ``xi_k^l`` for a = 0 ... degree; shape (..., degree + 1)."""
    k, l = pair
    if k > xi.shape[-2] or l > xi.shape[-1]:
        expected = f"at least K = {k} and L = {l} for a multi-index at ({k}, {l})"
        fix = "keep to multi-indices of TruncationSet(K, L, ...)"
        raise InputError("coordinates", expected=expected, got=f"shape {xi.shape}", fix=fix)
    return Line().eigenfunctions(xi[..., k - 1, l - 1], degree + 1)
