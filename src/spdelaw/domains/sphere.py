"""The sphere with real spherical harmonics, on longitudes and latitudes in degrees."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import scipy

from spdelaw.checks import checked, real_array
from spdelaw.domains.base import AbstractDomain, Array, Turn, real, turns_of_neighbours
from spdelaw.domains.places import grid_points, places_of_points


@dataclasses.dataclass(frozen=True)
class Sphere(AbstractDomain):
    """The sphere of radius R with ``-A0`` the Laplace-Beltrami operator, ``mu = l (l + 1) / R^2``.

    Real spherical harmonics, normalised by area, in order of degree l and, within it, of
    m = 0, then cosine and sine of m = 1, ..., l: ``(L + 1)^2`` modes up to degree L. Fields have
    dims ``(path, time, lat, lon)`` in degrees; any longitudes are accepted, land is NaN.

    Example:
        >>> import spdelaw as sl
        >>> sl.Sphere().eigenvalues(9)
        array([0., 2., 2., 2., 6., 6., 6., 6., 6.])
    """

    radius: float = 1.0
    name: ClassVar[str] = "sphere"
    dims = ("lat", "lon")  # in degrees
    default_points: ClassVar[int] = 18

    def __post_init__(self) -> None:
        """Check the radius."""
        object.__setattr__(
            self, "radius", real("radius", self.radius, "use Sphere()", positive=True)
        )

    @property
    def volume(self) -> float:
        """Area ``4 pi R^2``."""
        return float(4 * np.pi * self.radius**2)

    def degrees(self, n_modes: int) -> Array:
        """Degree l of each mode; (n_modes,)."""
        return np.floor(np.sqrt(np.arange(self.check_modes(n_modes)))).astype(int)

    def eigenvalues(self, n_modes: int) -> Array:
        """``l (l + 1) / R^2``, each ``2 l + 1`` times."""
        l = self.degrees(n_modes)
        return l * (l + 1.0) / self.radius**2

    def orders(self, n_modes: int) -> tuple[Array, Array]:
        """Order m of each mode, and whether it is a sine; both (n_modes,)."""
        within = np.arange(n_modes) - self.degrees(n_modes) ** 2  # 0, cosine, sine of 1, 2, ...
        return (within + 1) // 2, (within > 0) & (within % 2 == 0)

    def turns(self, n_modes: int) -> tuple[Turn, ...]:
        """``cos(m lon)`` and ``sin(m lon)`` of the same degree: rotation about the axis."""
        m, is_sine = self.orders(n_modes)
        return turns_of_neighbours(is_sine, m)

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """``P_l^m(sin lat)`` times 1, ``sqrt(2) cos(m lon)`` or ``sqrt(2) sin(m lon)``."""
        lat, lon = np.radians(real_array("points", points, columns=2)).T
        l = self.degrees(n_modes)
        m, is_sine = self.orders(n_modes)
        legendre = _legendre(lat, int(l.max()))
        angle = m * lon[:, None]
        turn = np.where(is_sine, np.sin(angle), np.cos(angle)) * np.sqrt(2.0)
        turn = np.where(m == 0, 1.0, turn)
        return legendre[l, m].T * turn / self.radius

    def weight(self, points: Array) -> Array:
        """Area of a square degree."""
        lat = np.radians(real_array("points", points, columns=2)[:, 0])
        return np.cos(lat) * np.radians(1.0) ** 2 * self.radius**2

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Gauss-Legendre in ``sin(lat)`` and ``2 n_points`` longitudes: exact to degree 2n - 1."""
        s, w = scipy.special.roots_legendre(n_points)
        lon = np.arange(2 * n_points) * (180.0 / n_points)
        points = grid_points((np.degrees(np.arcsin(s)), lon))
        return points, np.repeat(w, 2 * n_points) * (np.pi / n_points) * self.radius**2

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """A rule that is exact for products of three modes, at least."""
        return self.quadrature(max(32, 2 * int(self.degrees(n_modes).max()) + 2))

    @checked()
    def grid(self, n_points: int) -> Array:
        """Middles of ``n_points`` bands of latitude and of twice as many longitudes."""
        step = 180.0 / n_points
        lat = -90.0 + step * (np.arange(n_points) + 0.5)
        return grid_points((lat, step * (np.arange(2 * n_points) + 0.5)))

    def grid_weights(self, points: Array) -> Array:
        """Areas of the cells around the points of a grid; equal ones for scattered points.

        Cells end midway between latitudes and at the poles. Longitudes go around the globe, but
        for a region, where the widest gap exceeds twice the median one, they end half a cell
        beyond the outermost ones.
        """
        places = places_of_points(real_array("points", points, columns=2), self.dims)
        if places.dims != self.dims:
            return np.full(len(points), self.volume / len(points))
        lat, lon = (places.coords[d][1] for d in self.dims)
        bands = np.diff(np.sin(np.radians(_band_edges(lat))))
        cells = np.outer(bands, np.radians(_longitude_cells(lon))).ravel() * self.radius**2
        return cells if places.inside is None else cells[places.inside]

    @property
    def reach(self) -> str:
        """All longitudes, and the latitudes there are."""
        return "latitudes from -90 to 90 degrees"

    def contains(self, points: Array) -> Array:
        """Whether latitudes lie between the poles."""
        return np.abs(real_array("points", points, columns=2)[:, 0]) <= 90.0 + 1e-9

    def fix_outside(self, points: Array) -> str:
        """How points on a sphere are written."""
        return "points are (lat, lon): swap the columns, or convert from colatitude"


def _legendre(lat: Array, degree: int) -> Array:
    """Normalised associated Legendre functions, (degree + 1, degree + 1, n_points).

    ``int |P_l^m Y|^2 = 1`` over the unit sphere, without the sign of Condon and Shortley. The
    recurrence in l runs on the normalised functions, which neither overflow nor lose digits.
    """
    s, c = np.sin(lat), np.cos(lat)
    p = np.zeros((degree + 1, degree + 1, len(lat)))
    p[0, 0] = np.sqrt(0.25 / np.pi)
    for m in range(1, degree + 1):
        p[m, m] = np.sqrt(1.0 + 0.5 / m) * c * p[m - 1, m - 1]
    for m in range(degree):
        p[m + 1, m] = np.sqrt(2.0 * m + 3.0) * s * p[m, m]
        for l in range(m + 2, degree + 1):
            a = np.sqrt((4.0 * l**2 - 1.0) / (l**2 - m**2))
            b = np.sqrt(((l - 1.0) ** 2 - m**2) / (4.0 * (l - 1.0) ** 2 - 1.0))
            p[l, m] = a * (s * p[l - 1, m] - b * p[l - 2, m])
    return p


def _band_edges(lat: Array) -> Array:
    """Edges of cells around latitudes; half a cell beyond the outermost ones, or the pole."""
    if len(lat) == 1:
        return np.array([-90.0, 90.0])
    middle = 0.5 * (lat[1:] + lat[:-1])
    ends = 1.5 * lat[[0, -1]] - 0.5 * lat[[1, -2]]
    return np.clip(np.concatenate([ends[:1], middle, ends[1:]]), -90.0, 90.0)


def _longitude_cells(lon: Array) -> Array:
    """Widths of cells around longitudes, in degrees."""
    if len(lon) == 1:
        return np.array([360.0])
    gaps = np.diff(np.append(lon, lon[0] + 360.0))
    if gaps[-1] > 2.0 * np.median(gaps[:-1]):  # a region: its cells do not reach around
        gaps[-1] = np.median(gaps[:-1])
    return 0.5 * (gaps + np.roll(gaps, 1))
