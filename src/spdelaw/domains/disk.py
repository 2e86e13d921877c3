"""The disk with its Bessel functions."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from spdelaw.checks import checked, one_of, real_array
from spdelaw.domains.base import AbstractDomain, Array, Turn, pair, real, turns_of_neighbours
from spdelaw.domains.places import grid_points
from spdelaw.errors import DomainError

BOUNDARIES = ("dirichlet", "neumann")


class Modes(NamedTuple):
    """Angular order, radial wavenumber and parity of each mode; each (n_modes,)."""

    order: Array
    zero: Array
    is_sine: Array


@dataclasses.dataclass(frozen=True)
class Disk(AbstractDomain):
    """``|x - centre| <= R`` with ``-A0 = -Laplace``.

    ``h = c J_m(j r / R) cos(m phi)`` or ``sin(m phi)``, ``mu = (j / R)^2``, with ``j`` a zero of
    ``J_m`` (dirichlet) or of its derivative (neumann, the constant included), in order of
    eigenvalue, cosine before sine. Fields have dims ``(path, time, x, y)``; cells of a grid
    outside the disk are NaN.

    Example:
        >>> import spdelaw as sl
        >>> sl.Disk().eigenvalues(4)  # squares of 2.405, 3.832 twice, 5.136
        array([ 5.78318596, 14.68197064, 14.68197064, 26.37461643])
    """

    radius: float = 1.0
    centre: tuple[float, float] = (0.0, 0.0)
    boundary: str = "dirichlet"
    name: ClassVar[str] = "disk"
    dims = ("x", "y")
    default_points: ClassVar[int] = 33

    def __post_init__(self) -> None:
        """Check the radius, the centre and the boundary."""
        radius = real("radius", self.radius, "use Disk(1.0)", positive=True)
        centre = pair("centre", self.centre, "two finite numbers", "pass centre=(0.0, 0.0)")
        one_of("boundary", self.boundary, BOUNDARIES, DomainError)
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "centre", centre)

    @property
    def volume(self) -> float:
        """Area ``pi R^2``."""
        return float(np.pi * self.radius**2)

    def modes(self, n_modes: int) -> Modes:
        """Order, zero and parity of the first modes."""
        return _first_modes(self.check_modes(n_modes), self.boundary)

    def eigenvalues(self, n_modes: int) -> Array:
        """``(j_mk / R)^2`` in increasing order."""
        return (self.modes(n_modes).zero / self.radius) ** 2

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Bessel functions times cosines or sines, normalised in ``L2(disk)``."""
        m, j, is_sine = self.modes(n_modes)
        r, phi = self._polar(points)
        rho = np.minimum(r / self.radius, 1.0)[:, None]
        turn = np.where(is_sine, np.sin(m * phi[:, None]), np.cos(m * phi[:, None]))
        return (
            scipy.special.jv(m, j * rho) * turn * _normalisation(m, j, self.boundary) / self.radius
        )

    def turns(self, n_modes: int) -> tuple[Turn, ...]:
        """``cos(m phi)`` and ``sin(m phi)`` of the same zero: rotation about the centre."""
        m, _, is_sine = self.modes(n_modes)
        return turns_of_neighbours(is_sine, m)

    def _polar(self, points: Array) -> tuple[Array, Array]:
        x, y = (real_array("points", points, columns=2) - self.centre).T
        return np.hypot(x, y), np.arctan2(y, x)

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Gauss-Legendre in the radius, the trapezoid rule in ``2 n_points`` angles."""
        s, w = scipy.special.roots_legendre(n_points)
        r, wr = 0.5 * self.radius * (s + 1.0), 0.5 * self.radius * w
        phi = np.arange(2 * n_points) * (np.pi / n_points)
        polar = grid_points((r, phi))
        points = polar[:, :1] * np.stack([np.cos(polar[:, 1]), np.sin(polar[:, 1])], axis=1)
        return points + self.centre, np.repeat(wr * r, 2 * n_points) * (np.pi / n_points)

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """A rule fine enough for the highest zero and order."""
        m, j, _ = self.modes(n_modes)
        return self.quadrature(max(48, int(np.ceil(j.max())) + 16, 2 * int(m.max()) + 8))

    @checked()
    def grid(self, n_points: int) -> Array:
        """Points in the disk of a regular grid with ``n_points`` a dim around it."""
        s = np.linspace(-self.radius, self.radius, int(n_points))
        points = grid_points((s + self.centre[0], s + self.centre[1]))
        return points[self.contains(points)]

    def grid_weights(self, points: Array) -> Array:
        """Equal weights: the cells of a regular grid have one size."""
        return np.full(len(points), self.volume / len(points))

    def contains(self, points: Array) -> Array:
        """Whether points lie within the radius (1e-9 of it is forgiven)."""
        return self._polar(points)[0] <= self.radius * (1.0 + 1e-9)


@functools.lru_cache(maxsize=64)
def _first_modes(n_modes: int, boundary: str) -> Modes:
    """First modes by zero; ``m`` and ``k`` grow until the next zero of each lies beyond.

    The first zero of ``J_m`` and, for m > 0, of its derivative is larger than ``m``, and
    grows with it, so the orders stop where the first zero is larger than the last one needed.
    """
    # Weyl: n modes need zeros up to about 2 sqrt(n), and k of them up to about k pi.
    reach = 2.0 * np.sqrt(n_modes) + 4.0
    count = int(reach / np.pi) + 2
    find = scipy.special.jn_zeros if boundary == "dirichlet" else _neumann_zeros
    rows = []
    for m in range(int(reach) + 1):
        zeros = find(m, count)
        # Every order but zero comes twice, cosine and sine.
        rows += [(j, sine, m) for j in zeros[zeros <= reach] for sine in range(min(m, 1) + 1)]
    j, sine, order = np.array(sorted(rows)[:n_modes]).T
    return Modes(order.astype(int), j, sine.astype(bool))


def _neumann_zeros(m: int, count: int) -> Array:
    """Zeros of ``J_m'``; for m = 0 the constant mode comes first."""
    if m == 0:
        return np.append(0.0, scipy.special.jnp_zeros(0, count))
    return scipy.special.jnp_zeros(m, count)


def _normalisation(m: Array, j: Array, boundary: str) -> Array:
    """``1 / norm`` on the unit disk.

    ``int_0^1 J_m(j r)^2 r dr = J_{m+1}(j)^2 / 2`` at a zero of ``J_m`` and
    ``(1 - m^2/j^2) J_m(j)^2 / 2`` at one of its derivative; the angle gives pi, or 2 pi.
    """
    if boundary == "dirichlet":
        radial = 0.5 * scipy.special.jv(m + 1, j) ** 2
    else:
        flat = j == 0
        safe = np.where(flat, 1.0, j)
        radial = 0.5 * np.where(flat, 1.0, (1.0 - (m / safe) ** 2) * scipy.special.jv(m, safe) ** 2)
    return 1.0 / np.sqrt(radial * np.where(m == 0, 2.0, 1.0) * np.pi)
