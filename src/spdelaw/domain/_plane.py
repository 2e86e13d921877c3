"""The plane with the standard Gaussian weight and its Hermite polynomials."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from spdelaw.domain._line import Line
from spdelaw.domain._tensor import TensorDomain


@dataclasses.dataclass(frozen=True)
class Plane(TensorDomain):
    """``L2(R^2, gamma)`` with ``gamma = N(0, I)`` and ``-A0 u = -Laplace u + x . grad u``.

    Modes are products ``h_j(x) h_k(y)`` of those of `Line` with ``mu = j + k``, so there are
    ``m + 1`` of degree m. ``extent`` is half the width of the grid that `grid` draws.

    Example:
        >>> import spdelaw as sl
        >>> sl.Plane().eigenvalues(6)
        array([0., 1., 1., 2., 2., 2.])
    """

    extent: float = 3.0
    name: ClassVar[str] = "plane"
    default_points: ClassVar[int] = 32

    def __post_init__(self) -> None:
        """Check the extent."""
        object.__setattr__(self, "extent", Line(self.extent).extent)

    @property
    def dims(self) -> tuple[str, ...]:
        """``x`` and ``y``."""
        return ("x", "y")

    @property
    def factors(self) -> tuple[Line, Line]:
        """The same line twice."""
        return Line(self.extent), Line(self.extent)
