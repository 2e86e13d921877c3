"""Products of one-dimensional domains; rectangles and cuboids; derivatives of their modes."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from spdelaw.checks import checked, one_of, real_array, shown
from spdelaw.domains.base import AbstractDomain, Array, Turn, pair
from spdelaw.domains.interval import BOUNDARIES, Interval
from spdelaw.domains.places import grid_points, places_of_points
from spdelaw.domains.products import WAVE_BYTES, Products, grid_of, looked_up
from spdelaw.errors import DomainError

# ---------- Products of one-dimensional domains
#
# Modes are ``h_n(x) = prod_k h_{n_k}(x_k)`` with ``mu_n = sum_k mu_{n_k}``, in order of
# eigenvalue; ties are broken by the indices ``(n_1, n_2, ...)``.


#: Eigenvalues that agree to this part of the gap scale are a tie on every machine.
TIE_TOLERANCE = 1e-9


class TensorDomain(AbstractDomain):
    """A product of one-dimensional domains."""

    @property
    @abc.abstractmethod
    def factors(self) -> tuple[AbstractDomain, ...]:
        """One domain a dim."""

    def _each(self, method: str, given: Iterable[Any]) -> list[Any]:
        """Results of a method of every factor, each called with its own argument."""
        return [getattr(f, method)(x) for f, x in zip(self.factors, given, strict=True)]

    def _rows(self, points: Any) -> Array:
        return real_array("points", points, columns=len(self.factors))

    def indices(self, n_modes: int) -> Array:
        """Position of each mode in its factors, from zero; shape (n_modes, d).

        A mode ``(n_1, ..., n_d)`` has ``prod (n_k + 1)`` modes that come no later, itself
        included, so only those with a product of at most ``n_modes`` need to be sorted.
        """
        return self._sorted_modes(self.check_modes(n_modes))[0]

    def _sorted_modes(self, n_modes: int) -> tuple[Array, Array]:
        return _sorted_modes(self.factors, n_modes)

    def eigenvalues(self, n_modes: int) -> Array:
        """``mu_n = sum_k mu_{n_k}`` in increasing order."""
        return self._sorted_modes(self.check_modes(n_modes))[1].copy()

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Products of the factors' eigenfunctions; shape (n_points, n_modes)."""
        index, points = self.indices(n_modes), self._rows(points)
        out = np.ones((len(points), n_modes))
        for k, factor in enumerate(self.factors):
            # On a grid each coordinate takes few values: evaluate there, then look up.
            axis, at = np.unique(points[:, k], return_inverse=True)
            table = factor.eigenfunctions(axis, int(index[:, k].max()) + 1)
            out *= table[:, index[:, k]][at.reshape(-1)]
        return out

    def products(self, points: Array, n_modes: int) -> Products:
        """Gram matrices looked up among sums of the weights over products in each dim."""
        index, points = self.indices(n_modes), self._rows(points)
        grid = grid_of(points)
        columns, cells = (list(points.T), None) if grid is None else grid
        most = index.max(0) + 1
        pairs = tuple(
            factor.mode_pairs(x, int(n))
            for factor, x, n in zip(self.factors, columns, most, strict=True)
        )
        n_waves = np.prod([pair.waves.shape[1] for pair in pairs])
        if grid is None and 8.0 * len(points) * n_waves > WAVE_BYTES:
            return super().products(points, n_modes)
        return looked_up(pairs, index, cells)

    def weight(self, points: Array) -> Array:
        """Product of the factors' densities."""
        return np.prod(self._each("weight", self._rows(points).T), axis=0)

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Product rule with ``n_points`` a dim."""
        rules = [factor.quadrature(n_points) for factor in self.factors]
        weights = functools.reduce(np.multiply.outer, [w for _, w in rules])
        return grid_points([x for x, _ in rules]), weights.ravel()

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """Product rule fine enough for the highest mode of each factor, and a smooth function."""
        least = 64 if len(self.factors) == 2 else 24
        return self.quadrature(max(least, 4 * int(self.indices(n_modes).max() + 1)))

    @checked()
    def grid(self, n_points: int | Sequence[int]) -> Array:
        """Regular points, ``n_points`` a dim, or one number for each."""
        d = len(self.factors)
        counts = list(n_points) if np.iterable(n_points) else [n_points] * d
        if len(counts) != d:
            expected, fix = f"one number, or {d}", f"pass n_points={(33,) * d}"
            raise DomainError("n_points", expected=expected, got=str(len(counts)), fix=fix)
        return grid_points(self._each("grid", counts))

    def grid_weights(self, points: Array) -> Array:
        """Product of the factors' rules on a grid; equal weights on scattered points."""
        places = places_of_points(self._rows(points), self.dims)
        if places.dims != self.dims:
            density = self.weight(places.points)
            return density * (self.volume / density.sum())
        each = self._each("grid_weights", [places.coords[d][1] for d in self.dims])
        weights = functools.reduce(np.multiply.outer, each)
        return weights.ravel() if places.inside is None else weights.ravel()[places.inside]

    @property
    def volume(self) -> float:
        """Product of the factors' volumes."""
        return float(np.prod([factor.volume for factor in self.factors]))

    def contains(self, points: Array) -> Array:
        """Whether every coordinate lies in its factor."""
        return np.all(self._each("contains", self._rows(points).T), axis=0)


@functools.lru_cache(maxsize=64)
def _sorted_modes(factors: tuple[AbstractDomain, ...], n_modes: int) -> tuple[Array, Array]:
    """Indices (n_modes, d) and eigenvalues (n_modes,) in order."""
    index = np.array(list(_candidates(len(factors), n_modes)))
    parts = np.stack([f.eigenvalues(n_modes)[index[:, k]] for k, f in enumerate(factors)], axis=1)
    # Summed in order of size, so that (1, 2) and (2, 1) on a square are equal to the last bit.
    total = np.sort(parts, axis=1).sum(1)
    scale = TIE_TOLERANCE * max(float(f.eigenvalues(2)[-1]) for f in factors)
    order = np.lexsort((*index.T[::-1], np.round(total / scale)))[:n_modes]
    return index[order], np.maximum.accumulate(total[order])


def _candidates(d: int, most: int) -> itertools.chain[tuple[int, ...]] | list[tuple[int, ...]]:
    """Indices with ``prod (n_k + 1) <= most``."""
    if d == 1:
        return [(n,) for n in range(most)]
    return itertools.chain.from_iterable(
        ((n, *others) for others in _candidates(d - 1, most // (n + 1))) for n in range(most)
    )


# ---------- Rectangles and cuboids


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Box(TensorDomain):
    """``[a_1, b_1] x [a_2, b_2] (x [a_3, b_3])`` with ``-A0 = -Laplace``.

    Modes are products of those of `Interval`, in order of eigenvalue. Fields have dims
    ``(path, time, x, y)``, or ``z`` as well.

    Args:
        sides: two or three pairs of ends.
        boundary: "dirichlet", "neumann" or "periodic" for all sides, or one per dim.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> square = sl.Box((0, np.pi), (0, np.pi))
        >>> square.eigenvalues(6)
        array([ 2.,  5.,  5.,  8., 10., 10.])
        >>> square.synthesise(np.ones(1), ([0.5, 1.0, 1.5], [1.0, 2.0])).shape
        (6,)
    """

    sides: tuple[tuple[float, float], ...]
    boundary: tuple[str, ...]
    name: ClassVar[str] = "box"
    default_points: ClassVar[int] = 32

    def __init__(
        self, *sides: Sequence[float], boundary: str | Sequence[str] = "dirichlet"
    ) -> None:
        """Check the sides and the boundary."""
        words = _boundary_per_side(boundary, len(sides))
        if len(sides) not in (2, 3) or len(words) != len(sides):
            expected = "two or three sides, and one boundary for all or one per side"
            got = f"{len(sides)} sides, {len(words)} boundaries"
            fix = "pass Box((0, 1), (0, 2), boundary='dirichlet'); for one side use Interval"
            raise DomainError("Box", expected=expected, got=got, fix=fix)
        for name in words:
            one_of("boundary", name, BOUNDARIES, DomainError)
        object.__setattr__(self, "sides", tuple(_check_side(side) for side in sides))
        object.__setattr__(self, "boundary", words)

    @property
    def dims(self) -> tuple[str, ...]:
        """``x, y`` and, in three dimensions, ``z``."""
        return ("x", "y", "z")[: len(self.sides)]

    @property
    def factors(self) -> tuple[Interval, ...]:
        """One interval a dim."""
        pairs = zip(self.sides, self.boundary, strict=True)
        return tuple(Interval(a, b, word) for (a, b), word in pairs)  # type: ignore[arg-type]

    def fix_outside(self, points: Array) -> str:
        """For longitudes that are inside after whole turns, the line that turns them."""
        table = points.copy()
        low, high = self.sides[0]
        table[:, 0] += 360.0 * np.ceil((low - table[:, 0]) / 360.0)
        if not self.contains(table).all():
            return super().fix_outside(points)
        counted = f"sl.Preparation(select={{'lon': ({low:g}, {high:g})}})"
        return f"longitudes begin at {low:g} with --select lon={low:g}:{high:g}, {counted}"

    def turns(self, n_modes: int) -> tuple[Turn, ...] | None:
        """Cosine and sine along the one side that is periodic, equal in the others.

        With several such sides a shift along all of them mixes more than two modes.
        """
        if self.boundary.count("periodic") != 1:
            return None
        side = self.boundary.index("periodic")
        modes = [tuple(map(int, index)) for index in self.indices(n_modes)]
        at = {mode: n for n, mode in enumerate(modes)}
        waves = {wave.cosine: wave for wave in self.factors[side].turns(n_modes) or ()}
        cosines = [(mode, waves[mode[side]]) for mode in modes if mode[side] in waves]
        pairs = [(m, (*m[:side], w.sine, *m[side + 1 :]), w.wavenumber) for m, w in cosines]
        return tuple(Turn(at[c], at[s], k) for c, s, k in pairs if s in at)

    def __repr__(self) -> str:
        """As one would write it."""
        words = set(self.boundary)
        shown = self.boundary[0] if len(words) == 1 else self.boundary
        sides = ", ".join(f"({a:.6g}, {b:.6g})" for a, b in self.sides)
        return f"Box({sides}, boundary={shown!r})"

    @classmethod
    def from_settings(cls, **settings: Any) -> Box:
        """Box from its ``sides`` and ``boundary``."""
        return cls(*settings.pop("sides", ()), **settings)


def _check_side(side: Any) -> tuple[float, float]:
    expected, fix = "sides (a, b) with finite a < b", "pass Box((0, 1), (0, 2))"
    a, b = pair("Box", side, expected, fix)
    if not a < b:
        raise DomainError("Box", expected=expected, got=shown(side), fix=fix)
    return a, b


def _boundary_per_side(boundary: Any, n_sides: int) -> tuple[Any, ...]:
    """One boundary a side, not checked yet."""
    if isinstance(boundary, str):
        return (boundary,) * n_sides
    try:
        return tuple(boundary)
    except TypeError:
        return (boundary,) * n_sides  # no word at all, which its check says


# ---------- First derivatives of the modes of intervals and boxes
#
# On a box one factor of the product is differentiated.


def gradients(domain: AbstractDomain, points: Array, n_modes: int) -> Array:
    """``d h_n / d x_k`` at the points; (d, n_points, n_modes).

    Example:
        >>> import numpy as np
        >>> round(float(gradients(Interval(0, np.pi), np.array([0.0]), 1)[0, 0, 0]), 6)
        0.797885
    """
    if isinstance(domain, Interval):
        return domain.gradient(points, n_modes)[None]
    if not isinstance(domain, Box):
        expected = "an Interval or a Box, whose modes have known derivatives"
        fix = "use terms without derivatives, such as 'u' and 'u^3'"
        raise DomainError("domain", expected=expected, got=repr(domain), fix=fix)
    columns, index, tables = domain._rows(points).T, domain.indices(n_modes).T, []
    for factor, column, order in zip(domain.factors, columns, index, strict=True):
        most = int(order.max()) + 1
        both = factor.eigenfunctions(column, most), factor.gradient(column, most)
        tables.append([table[:, order] for table in both])
    out = np.ones((len(tables), len(points), n_modes))
    for k in range(len(tables)):
        for j, (value, slope) in enumerate(tables):
            out[k] *= slope if j == k else value
    return out
