"""Maps: coastlines, cells of a grid, marks where points are scattered."""

from __future__ import annotations

import functools
from importlib import resources
from typing import NamedTuple

import numpy as np

from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.graph import Graph
from spdelaw.domains.mesh import Mesh
from spdelaw.domains.places import Places
from spdelaw.report.figures.charts import thinned

# ---------- Coastlines over longitude and latitude: Natural Earth, in the public domain


Array = np.ndarray

#: Degrees of one integer step in the file.
DEGREES_PER_STEP = 0.01
#: Names and units of longitude and latitude in the CF conventions.
LONGITUDE = ("longitude", "degrees_east", "degree_east", "lon")
LATITUDE = ("latitude", "degrees_north", "degree_north", "lat")


def is_geographic(right: dict[str, str], up: dict[str, str]) -> bool:
    """Whether names or attributes mark two coordinates as longitude and latitude in degrees."""
    return any(v in LONGITUDE for v in right.values()) and any(v in LATITUDE for v in up.values())


def coastline(west: float, east: float, south: float, north: float) -> Array:
    """Coastlines inside a window, (n, 2) longitudes and latitudes; a row of NaN after each line.

    Longitudes are counted as those of the window: 0 to 360, -180 to 180, or beyond.

    Example:
        >>> lines = coastline(150.0, 290.0, -10.0, 10.0)  # the tropical Pacific
        >>> bool((lines[~np.isnan(lines[:, 0])] >= [150.0, -10.0]).all())
        True
    """
    ends = _coast_segments()
    around = [np.array([turn, 0.0]) for turn in (-360.0, 0.0, 360.0, 720.0)]
    pieces = [_clip_segments(ends + turn, west, east, south, north) for turn in around]
    return _join_segments(np.concatenate(pieces))


@functools.cache
def _coast_segments() -> Array:
    """Straight pieces of all lines, (n, 2 ends, 2 coordinates)."""
    with resources.files("spdelaw.report").joinpath("coastline.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        points, starts = DEGREES_PER_STEP * stored["points"].astype(float), stored["starts"]
    pieces = np.stack([points[:-1], points[1:]], axis=1)
    return np.delete(pieces, starts[1:] - 1, axis=0)


def _clip_segments(ends: Array, west: float, east: float, south: float, north: float) -> Array:
    """The parts of segments inside a window, by their ranges ``a + s (b - a)``, s in [s0, s1]."""
    a, d = ends[:, 0], ends[:, 1] - ends[:, 0]
    low, high = np.array([west, south]) - a, np.array([east, north]) - a
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.sort(np.stack([low / d, high / d]), axis=0)
    still = d == 0.0  # inside for all s, or for none
    inside = still & (low <= 0.0) & (high >= 0.0)
    s0 = np.where(still, np.where(inside, 0.0, 2.0), s[0]).max(1).clip(min=0.0)
    s1 = np.where(still, np.where(inside, 1.0, -1.0), s[1]).min(1).clip(max=1.0)
    kept = s0 < s1
    a, d, s0, s1 = a[kept], d[kept], s0[kept, None], s1[kept, None]
    return np.stack([a + s0 * d, a + s1 * d], axis=1)


def _join_segments(pieces: Array) -> Array:
    """Segments joined to lines, with NaN after the end of each line."""
    if not len(pieces):
        return np.zeros((0, 2))
    breaks = np.ones(len(pieces), bool)
    breaks[:-1] = (np.abs(pieces[1:, 0] - pieces[:-1, 1]) > DEGREES_PER_STEP / 10).any(1)
    # After the start of each piece, the end of a line and a row of NaN.
    after = np.repeat(np.flatnonzero(breaks) + 1, 2)
    ends = np.stack([pieces[breaks, 1], np.full((breaks.sum(), 2), np.nan)], 1).reshape(-1, 2)
    return np.insert(pieces[:, 0], after, ends, axis=0)


# ---------- Where the points of fields lie on a map
#
# Of more than two dimensions a map shows the middle.


#: Values of one map on the page, and edges of a graph, at most.
MAX_VALUES, MAX_EDGES = 1600, 3000
#: Coordinates preferred for a map where there are more than two.
MAP_DIMS = ("lon", "lat", "x", "y")
#: Dims that run to the right in a map, whatever their order in the data.
HORIZONTAL = ("x", "lon", "longitude")
#: Height over width up to which a map takes the width of the page.
WIDE_SHAPE = 0.6
#: Pixels: width of a map that fills the page, and limits of its height.
PAGE_WIDTH, MIN_HEIGHT, MAX_HEIGHT = 960, 130, 560


class Canvas(NamedTuple):
    """Where the points of fields lie on a map.

    Attributes:
        at: number of the point in each cell (up, right), or of each mark (n,); -1 for none.
        x, y: coordinates of the cells, increasing, or of the marks.
        titles: of the horizontal and the vertical axis.
        note: sentence about points that the map omits; empty where it omits none.
        edges: lines between vertices, (n_edges, 2) pairs of (x, y); none but for graphs.
        coast: coastlines, (n, 2), with a row of NaN after each line; none but for the globe.
        triangles: of a mesh whose nodes are the marks, (n, 3).
    """

    at: Array
    x: Array
    y: Array
    titles: tuple[str, str] = ("", "")
    note: str = ""
    edges: Array = np.zeros((0, 2, 2))
    coast: Array = np.zeros((0, 2))
    triangles: Array = np.zeros((0, 3), int)

    @property
    def is_grid(self) -> bool:
        """Whether the map has cells."""
        return self.at.ndim == 2

    @property
    def shape(self) -> float:
        """Height over width."""
        width, height = (float(np.ptp(c)) for c in (self.x, self.y))
        return height / width if width > 0 and height > 0 else 1.0

    @property
    def is_wide(self) -> bool:
        """Whether two maps go one above the other rather than side by side."""
        return self.shape <= WIDE_SHAPE

    @property
    def window(self) -> tuple[float, float, float, float]:
        """West, east, south and north ends of a map: half a cell around its points."""
        ends: list[float] = []
        for values in (self.x, self.y):
            low, high, steps = float(values.min()), float(values.max()), max(len(values) - 1, 1)
            half = ((high - low) / steps / 2 if self.is_grid else 0.05 * (high - low)) or 0.5
            ends += [low - half, high + half]
        return ends[0], ends[1], ends[2], ends[3]

    def height(self, width: float = PAGE_WIDTH) -> int:
        """Height in pixels of a map of a width, within the limits of the page."""
        return int(np.clip(width * self.shape, MIN_HEIGHT, MAX_HEIGHT))

    def shown(self, values: Array) -> Array:
        """Values (..., M) on the map: (..., up, right) or (..., n); NaN where there is none."""
        return np.where(self.at >= 0, values[..., self.at], np.nan)

    def where(self, point: int) -> tuple[float, float]:
        """Horizontal and vertical coordinate of a point that is on the map."""
        cell = np.argwhere(self.at == point)[0]
        return float(self.x[cell[-1]]), float(self.y[cell[0]])


def canvas_of(
    domain: AbstractDomain | None,
    places: Places,
    titles: tuple[str, ...],
    globe: tuple[int, ...] = (),
    most: int = MAX_VALUES,
) -> Canvas | None:
    """Canvas of the points of fields, with at most so many values; None in one dimension.

    ``titles`` are those of the coordinates, ``globe`` the positions of longitude and latitude,
    which get coastlines. The domain adds the edges of a graph and the triangles of a mesh.
    """
    if isinstance(domain, Graph) and len(domain.positions):
        return _graph_canvas(domain, places, most)
    if places.points.ndim == 1:
        return None
    names = tuple(places.coords) if domain is None else domain.dims
    preferred = [names.index(d) for d in MAP_DIMS if d in names] + list(range(len(names)))
    a, b = list(dict.fromkeys(preferred))[:2]
    right, up = globe or ((b, a) if names[b] in HORIZONTAL else (a, b))
    other_dims = [i for i in range(len(names)) if i not in (right, up)]
    kind = _scattered_canvas if len(places.dims) < len(names) else _grid_canvas
    canvas = kind(places, names, titles, right, up, other_dims, most)
    canvas = canvas._replace(titles=(titles[right], titles[up]))
    if isinstance(domain, Mesh) and np.array_equal(places.points, domain.nodes):
        canvas = canvas._replace(triangles=domain.triangles)
    return canvas._replace(coast=coastline(*canvas.window)) if globe else canvas


def _grid_canvas(
    places: Places, names: tuple[str, ...], titles: tuple[str, ...], right: int, up: int,
    other_dims: list[int], most: int,
) -> Canvas:  # fmt: skip
    number = places.unflatten(np.arange(len(places.points), dtype=float))
    coordinates = [np.asarray(places.coords[d][1], float) for d in names]
    cut = [len(coordinates[i]) // 2 for i in other_dims]
    number = np.moveaxis(number, [*other_dims, up, right], range(number.ndim))[tuple(cut)]
    shrink = min(1.0, float(np.sqrt(most / number.size)))
    kept = [
        np.argsort(c)[thinned(len(c), max(1, int(shrink * len(c))))]
        for c in (coordinates[up], coordinates[right])
    ]
    cells = number[np.ix_(*kept)]
    slices = [
        f"{titles[i]} = {coordinates[i][c]:.4g}" for i, c in zip(other_dims, cut, strict=True)
    ]
    notes = [f"The maps are the middle slice, {', '.join(slices)}."] if slices else []
    if cells.size < number.size:
        notes.append(
            f"The maps show {cells.shape[1]} x {cells.shape[0]} of "
            f"{number.shape[1]} x {number.shape[0]} points."
        )
    y, x = (c[k] for c, k in zip((coordinates[up], coordinates[right]), kept, strict=True))
    return Canvas(np.nan_to_num(cells, nan=-1.0).astype(int), x, y, note=" ".join(notes))


def _scattered_canvas(
    places: Places, names: tuple[str, ...], titles: tuple[str, ...], right: int, up: int,
    other_dims: list[int], most: int,
) -> Canvas:  # fmt: skip
    points = places.points
    near, notes = np.ones(len(points), bool), []
    for i in other_dims:
        low, high = np.quantile(points[:, i], [0.25, 0.75])
        near &= (points[:, i] >= low) & (points[:, i] <= high)
        notes.append(
            f"The maps show the middle half of the points in {titles[i]}, "
            f"from {low:.4g} to {high:.4g}."
        )
    at = np.flatnonzero(near) if near.any() else np.arange(len(points))
    kept = at[thinned(len(at), most)]
    if len(kept) < len(at):
        notes.append(f"The maps show {len(kept)} of {len(at)} points.")
    return Canvas(kept, points[kept, right], points[kept, up], note=" ".join(notes))


def _graph_canvas(domain: Graph, places: Places, most: int) -> Canvas:
    n = len(places.points)
    at = thinned(n, most)
    where = domain.positions[places.points.astype(int)[at]]
    pairs = domain.adjacency[thinned(len(domain.adjacency), MAX_EDGES), :2].astype(int)
    note = f"The maps show {len(at)} of {n} vertices." if len(at) < n else ""
    x, y = where.T
    return Canvas(at, x, y, note=note, edges=domain.positions[pairs])
