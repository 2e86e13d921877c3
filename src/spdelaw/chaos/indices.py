"""Multi-indices of the chaos expansion and their Hermite polynomials."""

from __future__ import annotations

import dataclasses
import functools
import heapq
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


# ---------- Sets of multi-indices as arrays, for expansions of any order
#
# A variable is a pair (k, l), counted with l fastest. An index has few variables, so that slots
# describe it: slot s of index i holds one variable, its degree, and the index with one degree less.


@dataclasses.dataclass(frozen=True, eq=False)
class IndexSet:
    """A downward-closed set of multi-indices, as one array.

    Downward-closed: with ``alpha`` every ``alpha - e_kl`` is in the set. Propagators then need no
    index outside the set, so that each of them is exact.

    Args:
        degrees: ``alpha_k^l`` of each index, (n_indices, K, L), sorted by order; the first is zero.

    Attributes:
        slots: variables, degrees and predecessors of each index, (3, S, n_indices). Slots that an
            index does not need have degree 0, the predecessor 0 and the variable K L.

    Example:
        >>> total_degree_set(n_time=2, n_noise=1, order=2).degrees[:, :, 0].tolist()
        [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """

    degrees: np.ndarray
    slots: np.ndarray = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Sort by order and link every index with those before it."""
        degrees = np.asarray(self.degrees)
        if degrees.ndim != 3 or not degrees.size or degrees.min() < 0 or degrees.max() > 127:
            expected, got = "degrees from 0 on, shape (n_indices, K, L)", f"shape {degrees.shape}"
            fix = "use total_degree_set(K, L, order)"
            raise InputError("degrees", expected=expected, got=got, fix=fix)
        degrees = degrees[np.argsort(degrees.sum((1, 2)), kind="stable")].astype(np.int8)
        object.__setattr__(self, "degrees", degrees)
        object.__setattr__(self, "slots", self._linked())

    def _linked(self) -> np.ndarray:
        degrees = self.degrees.reshape(len(self), -1)
        row, variable = np.nonzero(degrees)
        lowered = degrees[row]
        lowered[np.arange(len(row)), variable] -= 1
        previous = self.find(lowered)
        if (previous < 0).any() or degrees[0].any():
            expected = "every index less one degree in the set as well"
            got, fix = "a set with holes", "use total_degree_set, or weighted_set"
            raise InputError("degrees", expected=expected, got=got, fix=fix)
        slot = np.arange(len(row)) - np.searchsorted(row, row)
        out = np.zeros((3, max(1, int(slot.max(initial=0)) + 1), len(self)), int)
        out[0] = degrees.shape[1]
        out[:, slot, row] = variable, degrees[row, variable], previous
        return out

    def __len__(self) -> int:
        return len(self.degrees)

    def find(self, degrees: np.ndarray) -> np.ndarray:
        """Positions of indices (n, K L) in the set, -1 for those that are not."""
        keys, searched = self._sorted_keys, _keys(degrees)
        at = self._ranked[np.minimum(np.searchsorted(keys, searched), len(self) - 1)]
        rows = self.degrees.reshape(len(self), -1)[at]
        return np.where((rows == degrees).all(1), at, -1)

    @functools.cached_property
    def _ranked(self) -> np.ndarray:
        return np.argsort(_keys(self.degrees.reshape(len(self), -1)))

    @functools.cached_property
    def _sorted_keys(self) -> np.ndarray:
        return _keys(self.degrees.reshape(len(self), -1))[self._ranked]

    @property
    def n_time(self) -> int:
        """K, the number of functions of time."""
        return int(self.degrees.shape[1])

    @property
    def n_noise(self) -> int:
        """L, the number of driving Wiener processes."""
        return int(self.degrees.shape[2])

    @property
    def n_variables(self) -> int:
        """``K L``."""
        return self.n_time * self.n_noise

    @functools.cached_property
    def orders(self) -> np.ndarray:
        """``|alpha|`` of each index, (n_indices,)."""
        return self.degrees.sum((1, 2), dtype=int)

    @property
    def order(self) -> int:
        """Largest order."""
        return int(self.orders[-1])

    def rows(self, order: int) -> slice:
        """The indices of one order."""
        return slice(*np.searchsorted(self.orders, [order, order + 1]))

    def polynomials(self, coordinates: Any, xp: Any = np) -> Any:
        """``xi_alpha = prod H_alpha_kl(xi_kl) / sqrt(alpha!)``, (..., n_indices); eq. 7.

        Args:
            coordinates: ``xi_kl``, (..., K, L).
            xp: numpy, or torch for tensors; gradients flow to the coordinates.
        """
        xi = coordinates if xp is not np else np.asarray(coordinates)
        flat = xi.reshape(*xi.shape[:-2], self.n_variables)
        flat = xp.concatenate([flat, xp.zeros_like(flat[..., :1])], -1)
        table = [xp.ones_like(flat), flat]  # normalised Hermite polynomials, by degree
        for a in range(2, int(self.degrees.max()) + 1):
            table.append((flat * table[-1] - math.sqrt(a - 1) * table[-2]) / math.sqrt(a))
        values = xp.stack(table, -1)
        variable, degree, _ = self.slots
        out = values[..., variable[0], degree[0]]
        for v, a in zip(variable[1:], degree[1:], strict=True):
            out = out * values[..., v, a]
        return out

    def derivatives(self, polynomials: np.ndarray) -> np.ndarray:
        """``d xi_alpha / d xi_kl = sqrt(alpha_kl) xi_(alpha - e_kl)``, (..., K L, n_indices)."""
        variable, degree, previous = self.slots
        out = np.zeros((*polynomials.shape[:-1], self.n_variables + 1, len(self)))
        for v, a, b in zip(variable, degree, previous, strict=True):
            out[..., v, np.arange(len(self))] = np.sqrt(a) * polynomials[..., b]
        return out[..., :-1, :]


def total_degree_set(n_time: int, n_noise: int, order: int) -> IndexSet:
    """All multi-indices up to an order, ``|alpha| <= p``.

    Example:
        >>> len(total_degree_set(n_time=4, n_noise=4, order=3))  # C(16 + 3, 3)
        969
    """
    n = whole("n_time", n_time, 1) * whole("n_noise", n_noise, 1)
    blocks = []
    for p in range(whole("order", order, 0) + 1):
        words = itertools.combinations_with_replacement(range(n), p)
        count = math.comb(n + p - 1, p)
        flat = np.fromiter(itertools.chain.from_iterable(words), int, count * p).reshape(count, p)
        block = np.zeros((count, n), np.int8)
        for column in flat.T:
            block[np.arange(count), column] += 1
        blocks.append(block)
    return IndexSet(np.concatenate(blocks).reshape(-1, n_time, n_noise))


#: A decay of the energies closer to 1 than this is rescaled: costs would lose their differences.
SLOWEST_DECAY = 0.9


def weighted_set(energies: Any, n_indices: int, max_order: int | None = None) -> IndexSet:
    """The indices of least ``sum alpha_kl log(1 / rho_kl) + log alpha!``: the largest energies.

    Args:
        energies: ``rho_kl``, the energy of each first-order propagator relative to that of the
            mean, (K, L). Where the largest is 0.9 or more, all are rescaled to be below it.
        n_indices: how many to keep.
        max_order: largest order that is kept.

    Example:
        >>> weighted_set([[0.5], [0.01]], 4).degrees[:, :, 0].tolist()
        [[0, 0], [1, 0], [2, 0], [3, 0]]
    """
    rho = np.asarray(energies, float)
    if rho.ndim != 2 or not np.isfinite(rho).all() or not (rho >= 0).all():
        expected, fix = "energies from 0 on, shape (K, L)", "pass first_order_energies(...)"
        raise InputError("energies", expected=expected, got=f"{energies}", fix=fix)
    rho = rho * min(1.0, SLOWEST_DECAY / max(float(rho.max()), 1e-300))
    with np.errstate(divide="ignore"):
        costs = -np.log(rho.ravel())
    ranked = np.argsort(costs, kind="stable")
    costs = costs[ranked]
    heap: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    chosen = np.zeros((whole("n_indices", n_indices, 1), rho.size), np.int8)
    count = 0
    while heap and count < n_indices:
        cost, word = heapq.heappop(heap)
        np.add.at(chosen[count], ranked[list(word)], 1)
        count += 1
        # Every step costs more, so that indices come in the order of their costs.
        for grown, step in _growths(word, costs):
            if np.isfinite(step) and len(grown) <= (max_order or len(grown)):
                heapq.heappush(heap, (cost + step, grown))
    return IndexSet(chosen[:count].reshape(count, *rho.shape))


#: Energies of first-order coordinates that rank the indices of `decoder_indices`, times (k l)^2.
PRIOR_ENERGY = 0.5


def decoder_indices(n_time: int, n_noise: int, order: int, n_indices: int) -> IndexSet:
    """All indices up to order 1, and those of higher order with slow functions and first modes.

    Example:
        >>> len(decoder_indices(4, 4, 2, 400)), len(decoder_indices(16, 8, 2, 400))
        (153, 400)
    """
    linear = total_degree_set(n_time, n_noise, min(order, 1))
    if order < 2 or len(linear) >= n_indices:
        return linear
    if math.comb(n_time * n_noise + order, order) <= n_indices:
        return total_degree_set(n_time, n_noise, order)
    k, l = np.arange(1, n_time + 1)[:, None], np.arange(1, n_noise + 1)
    ranked = weighted_set(PRIOR_ENERGY / (k * l) ** 2.0, n_indices, order).degrees
    higher = ranked[ranked.sum((1, 2)) > 1][: n_indices - len(linear)]
    return IndexSet(np.concatenate([linear.degrees, higher]))


def _growths(word: tuple[int, ...], costs: np.ndarray) -> Iterator[tuple[tuple[int, ...], float]]:
    """Words that follow this one, each of them after one word only, with what they cost more."""
    last = word[-1] if word else -1
    if last >= 0:
        yield (*word, last), costs[last] + math.log(word.count(last) + 1)
    if last + 1 < len(costs):
        yield (*word, last + 1), costs[last + 1]
        if last >= 0 and word.count(last) == 1:
            yield (*word[:-1], last + 1), costs[last + 1] - costs[last]


def _keys(degrees: np.ndarray) -> np.ndarray:
    """One string of bytes for each row, to sort and search by."""
    rows = np.ascontiguousarray(degrees, np.int8)
    return rows.view(f"S{rows.shape[1]}")[:, 0]


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
        fix = "use multi-indices of TruncationSet(K, L, ...)"
        raise InputError("coordinates", expected=expected, got=f"shape {xi.shape}", fix=fix)
    return Line().eigenfunctions(xi[..., k - 1, l - 1], degree + 1)
