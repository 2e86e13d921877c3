"""Vertices of a weighted graph with its Laplacian."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import scipy

from spdelaw.domains.base import Array, TabulatedDomain, lowest_modes, restored, table
from spdelaw.errors import DomainError

#: What an adjacency matrix has to be, and what helps where it is not.
_ADJACENCY_ADVICE = (
    "a square, symmetric matrix of non-negative weights",
    "for directed graphs pass (w + w.T) / 2",
)


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Graph(TabulatedDomain):
    """A graph with ``-A0 = L``, ``(L u)_i = sum_j w_ij (u_i - u_j)``, all vertices of weight 1.

    Fields have dims ``(path, time, vertex)``, vertices counted from 0.

    Args:
        adjacency: symmetric non-negative weights ``w_ij``, a dense or a SciPy sparse matrix;
            the diagonal does not matter.
        n_modes: how many modes to compute; by default 64, or all.
        positions: (n_vertices, 2), to draw the graph.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> ring = np.roll(np.eye(6), 1, axis=1)
        >>> sl.Graph(ring + ring.T).eigenvalues(6).round(12)
        array([0., 1., 1., 3., 3., 4.])
    """

    adjacency: Array  # (n_edges, 3): two vertices and their weight
    positions: Array  # (n_vertices, 2), or (0, 2)
    spectrum: Array
    modes: Array
    name: ClassVar[str] = "graph"
    dims = ("vertex",)

    def __init__(self, adjacency: Any, n_modes: int | None = None, positions: Any = None) -> None:
        """Check the weights and compute the modes."""
        w = _check_adjacency(adjacency)
        n = w.shape[0]
        where = np.zeros((0, 2)) if positions is None else _positions(positions, n)
        laplacian = scipy.sparse.diags_array(np.asarray(w.sum(1)).ravel()) - w
        shift = max(float(w.sum()) / n, 1e-300)
        count = min(64, n) if n_modes is None else n_modes
        self._store(spectrum=np.empty(n))  # allows as many modes as there are vertices
        mu, v = lowest_modes(laplacian, scipy.sparse.eye_array(n), self.check_modes(count), shift)
        upper = scipy.sparse.triu(w, 1).tocoo()
        edges = np.stack([*upper.coords, upper.data], axis=1)
        self._store(adjacency=edges, positions=where, spectrum=mu, modes=v)

    def _restore(self, **settings: Any) -> None:
        tables = {key: restored(key, value) for key, value in settings.items()}
        self._store(**tables | {"positions": tables["positions"].reshape(-1, 2)})

    @property
    def nodes(self) -> Array:
        """Numbers of the vertices."""
        return np.arange(len(self.modes), dtype=float)

    @property
    def node_weights(self) -> Array:
        """One for each vertex."""
        return np.ones(len(self.modes))

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Rows of the table."""
        return self.modes[np.asarray(points).astype(int), : self.check_modes(n_modes)]

    def grid_weights(self, points: Array) -> Array:
        """One for each vertex."""
        return np.ones(len(points))

    @property
    def reach(self) -> str:
        """Numbers of vertices."""
        return f"the integers from 0 to {len(self.modes) - 1}"

    def contains(self, points: Array) -> Array:
        """Whether points are numbers of vertices."""
        return np.isin(points, self.nodes)

    def fix_outside(self, points: Array) -> str:
        """How vertices are numbered."""
        return "number the vertices as in the adjacency matrix"

    def __repr__(self) -> str:
        """Sizes."""
        sizes = f"{len(self.modes)} vertices, {len(self.adjacency)} edges"
        return f"Graph({sizes}, {self.most_modes} modes)"


def _check_adjacency(adjacency: Any) -> Any:
    """Adjacency as a sparse matrix with an empty diagonal, or `DomainError`."""
    if not scipy.sparse.issparse(adjacency):
        adjacency = table("adjacency", adjacency, *_ADJACENCY_ADVICE)
    try:
        w = scipy.sparse.csr_array(adjacency, dtype=float, copy=True)
    except (TypeError, ValueError) as error:
        raise _not_a_graph(f"{type(error).__name__}: {error}") from error
    if w.ndim != 2 or w.shape[0] != w.shape[1] or w.shape[0] < 2:
        raise _not_a_graph(f"shape {w.shape}")
    w.setdiag(0.0)
    w.eliminate_zeros()
    if not np.isfinite(w.data).all() or (w.data < 0).any():
        raise _not_a_graph("weights that are negative or not finite")
    if abs(w - w.T).max() > 1e-12 * max(float(w.max()), 1e-300):
        raise _not_a_graph("a matrix that is not symmetric")
    return w


def _positions(positions: Any, n: int) -> Array:
    expected, fix = f"finite numbers ({n}, 2), one row per vertex", "leave positions out"
    where = table("positions", positions, expected, fix)
    if where.shape != (n, 2) or not np.isfinite(where).all():
        raise DomainError("positions", expected=expected, got=f"shape {where.shape}", fix=fix)
    return where


def _not_a_graph(got: str) -> DomainError:
    return DomainError(
        "adjacency", expected=_ADJACENCY_ADVICE[0], got=got, fix=_ADJACENCY_ADVICE[1]
    )
