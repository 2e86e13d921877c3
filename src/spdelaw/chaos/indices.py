"""Multi-indices of the chaos expansion and their Hermite polynomials."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from spdelaw.checks import whole
from spdelaw.errors import InputError

# ---------- Sets of multi-indices, each set one array
#
# A multi-index ``alpha = (alpha_k^l)`` counts how often the Gaussian variable ``xi_k^l`` enters:
# ``k = 1, 2, ...`` numbers functions of time, ``l = 1, 2, ...`` the driving Wiener processes
# (paper, section 2.3).
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
