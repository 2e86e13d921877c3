"""Rectangles and cuboids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from spdelaw.domain._interval import BOUNDARIES, Interval
from spdelaw.domain._places import as_points
from spdelaw.domain._settings import pair, shown, word
from spdelaw.domain._tensor import TensorDomain
from spdelaw.domain._turns import Turn
from spdelaw.errors import DomainError


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
        words = _words(boundary, len(sides))
        if len(sides) not in (2, 3) or len(words) != len(sides):
            expected = "two or three sides, and one boundary for all or one a side"
            got = f"{len(sides)} sides, {len(words)} boundaries"
            fix = "pass Box((0, 1), (0, 2), boundary='dirichlet'); for one side use Interval"
            raise DomainError("Box", expected=expected, got=got, fix=fix)
        for name in words:
            word("boundary", name, BOUNDARIES)
        object.__setattr__(self, "sides", tuple(_side(side) for side in sides))
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

    def _fix_outside(self, points: Any) -> str:
        """For longitudes that are inside after whole turns, the line that turns them."""
        table = as_points(points, self.dims).copy()
        low, high = self.sides[0]
        table[:, 0] += 360.0 * np.ceil((low - table[:, 0]) / 360.0)
        if not self.contains(table).all():
            return super()._fix_outside(points)
        counted = f"sl.Preparation(select={{'lon': ({low:g}, {high:g})}})"
        return f"longitudes count from {low:g} on with --select lon={low:g}:{high:g}, {counted}"

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


def _side(side: Any) -> tuple[float, float]:
    expected, fix = "sides (a, b) with finite a < b", "pass Box((0, 1), (0, 2))"
    a, b = pair("Box", side, expected, fix)
    if not a < b:
        raise DomainError("Box", expected=expected, got=shown(side), fix=fix)
    return a, b


def _words(boundary: Any, n_sides: int) -> tuple[Any, ...]:
    """One boundary a side, not checked yet."""
    if isinstance(boundary, str):
        return (boundary,) * n_sides
    try:
        return tuple(boundary)
    except TypeError:
        return (boundary,) * n_sides  # no word at all, which its check says
