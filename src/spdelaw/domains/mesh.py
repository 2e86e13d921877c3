"""Any triangulated region of the plane, with linear finite elements."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np
import scipy

from spdelaw.checks import one_of, real_array, shown
from spdelaw.domains.base import Array, TabulatedDomain, lowest_modes, restored, table
from spdelaw.domains.places import as_points
from spdelaw.errors import DomainError, MissingExtraError

BOUNDARIES = ("neumann", "dirichlet")
#: Triangles near a point that are tried before all of them.
NEAREST_TRIANGLES = 12
#: Barycentric coordinates this far below zero still count as inside.
SLACK = 1e-9


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Mesh(TabulatedDomain):
    """A triangulation with ``-A0 u = -div(D grad u) + V u``.

    The modes are eigenvectors of the finite-element matrices ``K v = mu M v`` (linear elements,
    by `scikit-fem`), found by shift-invert, and are linear on each triangle. With
    ``V = kappa^2`` the operator is that of Matern fields. Fields lie along the dim ``point`` with
    coordinates ``x`` and ``y``, at the nodes or anywhere in the mesh. Building one needs
    the extra ``mesh``.

    Args:
        nodes: (n_nodes, 2).
        triangles: (n_triangles, 3), numbers of nodes.
        n_modes: how many modes to compute; by default 64, or all.
        boundary: "neumann" (no flux) or "dirichlet" (zero).
        diffusion: D > 0: a number, one a node, or a function of (x, y).
        potential: V >= 0, likewise.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from scipy.spatial import Delaunay
        >>> nodes = sl.Box((0, 1), (0, 1)).grid(12)
        >>> mesh = sl.Mesh(nodes, Delaunay(nodes).simplices, n_modes=4)
        >>> (mesh.eigenvalues(4) / np.pi**2).round(1)
        array([0., 1., 1., 2.])
    """

    nodes: Array
    triangles: Array
    spectrum: Array
    modes: Array
    name: ClassVar[str] = "mesh"
    dims = ("x", "y")

    def __init__(
        self,
        nodes: Any,
        triangles: Any,
        n_modes: int | None = None,
        *,
        boundary: str = "neumann",
        diffusion: Any = 1.0,
        potential: Any = 0.0,
    ) -> None:
        """Check the triangulation and compute the modes."""
        points, corners = _check_triangulation(nodes, triangles)
        one_of("boundary", boundary, BOUNDARIES, DomainError)
        d = _coefficient("diffusion", diffusion, points, "positive")
        v = _coefficient("potential", potential, points, "non-negative")
        stiffness, mass, free = _matrices(points, corners, d, v, boundary)
        count = min(64, len(free)) if n_modes is None else n_modes
        self._store(nodes=points, triangles=corners, spectrum=np.empty(len(free)))
        shift = float(d.mean()) / float(_areas(points, corners).sum())
        mu, inner = lowest_modes(stiffness, mass, self.check_modes(count), shift)
        modes = np.zeros((len(points), count))
        modes[free] = inner
        self._store(spectrum=mu, modes=modes)

    @classmethod
    def from_skfem(cls, mesh: Any, **settings: Any) -> Mesh:
        """Domain of a mesh of triangles of scikit-fem."""
        return cls(np.asarray(mesh.p).T, np.asarray(mesh.t).T, **settings)

    def _restore(self, **settings: Any) -> None:
        tables = {key: restored(key, value) for key, value in settings.items()}
        _check_triangulation(tables["nodes"], tables["triangles"].astype(int))
        self._store(**tables | {"triangles": tables["triangles"].astype(int)})

    @functools.cached_property
    def node_weights(self) -> Array:
        """A third of the area of the triangles around each node."""
        share = np.repeat(_areas(self.nodes, self.triangles) / 3.0, 3)
        return np.bincount(self.triangles.ravel(), share, len(self.nodes))

    @functools.cached_property
    def _tree(self) -> scipy.spatial.KDTree:
        return scipy.spatial.KDTree(self.nodes[self.triangles].mean(1))

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Linear interpolation in the triangle of each point; zero outside the mesh."""
        table = self.modes[:, : self.check_modes(n_modes)]
        points = real_array("points", points, columns=2)
        if np.array_equal(points, self.nodes):
            return table.copy()
        triangle, share = self._locate(points)
        values = np.einsum("pi,pin->pn", share, table[self.triangles[triangle]])
        return np.where(triangle[:, None] >= 0, values, 0.0)

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Middles of the edges of each triangle: exact for products of two modes."""
        corners = self.nodes[self.triangles]
        middles = 0.5 * (corners + np.roll(corners, 1, axis=1))
        return middles.reshape(-1, 2), np.repeat(_areas(self.nodes, self.triangles) / 3.0, 3)

    def grid_weights(self, points: Array) -> Array:
        """Areas around the nodes; equal weights on other points."""
        if np.array_equal(points, self.nodes):
            return self.node_weights.copy()
        return np.full(len(points), self.volume / len(points))

    @property
    def reach(self) -> str:
        """The rectangle around the nodes."""
        ends = zip(self.dims, self.nodes.min(0), self.nodes.max(0), strict=True)
        sides = ", ".join(f"{dim} {a:g} to {b:g}" for dim, a, b in ends)
        return f"the triangles of a mesh that spans {sides}"

    def contains(self, points: Array) -> Array:
        """Whether points lie in a triangle."""
        if np.array_equal(points, self.nodes):
            return np.ones(len(points), bool)
        return self._locate(real_array("points", points, columns=2))[0] >= 0

    def _locate(self, points: Array) -> tuple[Array, Array]:
        """Triangle of each point, -1 for none, and its barycentric coordinates there."""
        near = min(NEAREST_TRIANGLES, len(self.triangles))
        _, candidates = self._tree.query(points, k=near)
        triangle, share = self._best_triangle(points, candidates.reshape(len(points), near))
        everything = np.arange(len(self.triangles))[None]
        for i in np.flatnonzero(triangle < 0):  # long triangles, and points outside
            triangle[i : i + 1], share[i : i + 1] = self._best_triangle(
                points[i : i + 1], everything
            )
        return triangle, share

    def _best_triangle(self, points: Array, candidates: Array) -> tuple[Array, Array]:
        a, b, c = np.moveaxis(self.nodes[self.triangles[candidates]], 2, 0)
        p = points[:, None]
        whole = _cross(b - a, c - a)
        share = np.stack([_cross(b - p, c - p), _cross(c - p, a - p), _cross(a - p, b - p)], -1)
        share = share / whole[..., None]
        best = share.min(-1).argmax(1)
        rows = np.arange(len(points))
        best_share = share[rows, best]
        return np.where(best_share.min(-1) >= -SLACK, candidates[rows, best], -1), best_share

    def __repr__(self) -> str:
        """Sizes."""
        return (
            f"Mesh({len(self.nodes)} nodes, {len(self.triangles)} triangles, "
            f"{self.most_modes} modes)"
        )


def _cross(u: Array, v: Array) -> Array:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def _areas(nodes: Array, triangles: Array) -> Array:
    a, b, c = np.moveaxis(nodes[triangles], 1, 0)
    return 0.5 * np.abs(_cross(b - a, c - a))


def _check_triangulation(nodes: Any, triangles: Any) -> tuple[Array, Array]:
    points = as_points(table("nodes", nodes, "an array (n, 2)", "one row per node"), ("x", "y"))
    try:
        corners = np.asarray(triangles)
    except Exception as error:  # ragged lists, and objects that may raise anything
        expected, fix = "integers (n, 3), numbers of nodes", "pass Delaunay(nodes).simplices"
        raise DomainError("triangles", expected=expected, got=shown(triangles), fix=fix) from error
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu":
        expected = "integers (n, 3), numbers of nodes"
        got, fix = f"shape {corners.shape} of {corners.dtype}", "pass Delaunay(nodes).simplices"
        raise DomainError("triangles", expected=expected, got=got, fix=fix)
    if corners.size == 0 or corners.min() < 0 or corners.max() >= len(points):
        expected = f"numbers of nodes from 0 to {len(points) - 1}"
        got = f"{corners.min()} to {corners.max()}" if corners.size else "none"
        raise DomainError("triangles", expected=expected, got=got, fix="count nodes from zero")
    unused = np.setdiff1d(np.arange(len(points)), corners)
    if unused.size:
        got, fix = f"node {unused[0]} in none", "leave out nodes that no triangle uses"
        raise DomainError("nodes", expected="every node in a triangle", got=got, fix=fix)
    areas = _areas(points, corners)
    if areas.min() <= 1e-12 * np.ptp(points, axis=0).max() ** 2:
        expected, got = "triangles with an area", f"none in triangle {int(areas.argmin())}"
        raise DomainError("triangles", expected=expected, got=got, fix="drop flat triangles")
    return points, corners.astype(int)


def _coefficient(what: str, value: Any, nodes: Array, sign: str) -> Array:
    """Values of a coefficient at the nodes, or `DomainError`."""
    try:
        values = value(*nodes.T) if callable(value) else value
        coefficient = np.broadcast_to(table(what, values, "", ""), len(nodes)).copy()
    except Exception as error:  # a function of the user may raise anything
        expected, fix = "a number, one per node, or a function of (x, y)", f"pass {what}=1.0"
        raise DomainError(what, expected=expected, got=shown(value), fix=fix) from error
    fine = coefficient > 0 if sign == "positive" else coefficient >= 0
    if not (np.isfinite(coefficient) & fine).all():
        got = f"{coefficient.min():g}"
        raise DomainError(what, expected=f"{sign} numbers", got=got, fix=f"pass {what}=1.0")
    return coefficient


def _matrices(
    nodes: Array, triangles: Array, diffusion: Array, potential: Array, boundary: str
) -> tuple[Any, Any, Array]:
    """Stiffness and mass of the free nodes, and their numbers."""
    try:
        import skfem
        from skfem.helpers import dot, grad
    except ImportError as error:
        raise MissingExtraError("Mesh", "mesh") from error
    mesh = skfem.MeshTri(np.ascontiguousarray(nodes.T), np.ascontiguousarray(triangles.T))
    basis = skfem.Basis(mesh, skfem.ElementTriP1())

    def energy(u: Any, v: Any, w: Any) -> Any:
        return w["diffusion"] * dot(grad(u), grad(v)) + w["potential"] * u * v

    stiffness = skfem.BilinearForm(energy).assemble(
        basis, diffusion=basis.interpolate(diffusion), potential=basis.interpolate(potential)
    )
    mass = skfem.BilinearForm(lambda u, v, w: u * v).assemble(basis)
    free = np.arange(len(nodes))
    if boundary == "dirichlet":
        free = np.setdiff1d(free, mesh.boundary_nodes())
    if free.size == 0:
        expected = "nodes inside the boundary"
        raise DomainError("nodes", expected=expected, got="none", fix="refine the mesh")
    return stiffness.tocsr()[free][:, free], mass.tocsr()[free][:, free], free
