"""The real line and the plane with the Gaussian weight and Hermite polynomials."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import scipy

from spdelaw.checks import checked, real_array
from spdelaw.domains.base import AbstractDomain, Array, real
from spdelaw.domains.box import TensorDomain

# ---------- The real line with the standard Gaussian weight and its Hermite polynomials


@dataclasses.dataclass(frozen=True)
class Line(AbstractDomain):
    """``L2(R, gamma)`` with ``gamma = N(0, 1)`` and ``-A0 u = -u'' + x u'``.

    The eigenfunctions are the normalised probabilists' Hermite polynomials of degree
    0, 1, ..., ``h_n = He_n / sqrt(n!)``, with ``mu_n`` the degree. The Ornstein-Uhlenbeck
    operator of the paper's Regime A, ``A u = u'' - x u' - u``, has ``lambda_n = 1 + mu_n``.

    ``extent`` is half the width of the grid that `grid` draws; it changes no mathematics.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> sl.Line().eigenfunctions(np.array([2.0]), 3)  # 1, x, (x^2 - 1) / sqrt(2)
        array([[1.        , 2.        , 2.12132034]])
    """

    extent: float = 3.0
    name: ClassVar[str] = "line"

    def __post_init__(self) -> None:
        """Check the extent."""
        object.__setattr__(self, "extent", real("extent", self.extent, "use Line()", positive=True))

    @property
    def volume(self) -> float:
        """Mass of a probability density."""
        return 1.0

    def eigenvalues(self, n_modes: int) -> Array:
        """Degrees 0, 1, ..., n_modes - 1."""
        return np.arange(self.check_modes(n_modes), dtype=float)

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """``h_{n+1} = (x h_n - sqrt(n) h_{n-1}) / sqrt(n+1)``.

        The recurrence runs on the normalised polynomials: ``He_n`` itself overflows near
        degree 150 and its factorial near 170.
        """
        x = real_array("points", points)
        h = np.ones((*x.shape, self.check_modes(n_modes)))
        if n_modes > 1:
            h[..., 1] = x
        for n in range(1, n_modes - 1):
            h[..., n + 1] = (x * h[..., n] - np.sqrt(n) * h[..., n - 1]) / np.sqrt(n + 1)
        return h

    def weight(self, points: Array) -> Array:
        """Standard normal density."""
        x = real_array("points", points)
        return np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Gauss-Hermite for the Gaussian weight: exact to degree ``2 n_points - 1``."""
        x, w = scipy.special.roots_hermitenorm(n_points)
        return x, w / np.sqrt(2 * np.pi)

    @checked()
    def grid(self, n_points: int) -> Array:
        """Uniform points on ``[-extent, extent]``."""
        return np.linspace(-self.extent, self.extent, n_points)

    def grid_weights(self, points: Array) -> Array:
        """Gauss-Hermite weights on Gauss-Hermite points, else cell widths times the density."""
        x = real_array("points", points)
        nodes = scipy.special.roots_hermitenorm(x.size)[0] if 1 < x.size <= 200 else None
        order = np.argsort(x)
        w = np.empty_like(x)
        if nodes is not None and np.allclose(x[order], nodes, rtol=0, atol=1e-10):
            w[order] = self.quadrature(x.size)[1]
            return w
        s = x[order]
        cell = np.gradient(s) if s.size > 1 else np.ones(1)
        if s.size > 1:  # trapezoid: half a cell at both ends
            cell[[0, -1]] *= 0.5
        w[order] = cell * self.weight(s)
        return w


# ---------- The plane with the standard Gaussian weight and its Hermite polynomials


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
    dims = ("x", "y")
    default_points: ClassVar[int] = 32

    def __post_init__(self) -> None:
        """Check the extent."""
        object.__setattr__(self, "extent", Line(self.extent).extent)

    @property
    def factors(self) -> tuple[Line, Line]:
        """The same line twice."""
        return Line(self.extent), Line(self.extent)
