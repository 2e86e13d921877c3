"""Empirical orthogonal functions: modes estimated from the data themselves."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import LARGEST_VALUE, real_array, shown
from spdelaw.domains.base import AbstractDomain, Array, TabulatedDomain, restored, table
from spdelaw.domains.places import as_points, places_of_fields
from spdelaw.errors import ConvergenceError, DomainError

# ---------- Leading singular vectors of a large matrix, with or without gaps


#: Extra directions, and passes over the matrix, of the randomised method.
OVERSAMPLING, PASSES = 12, 4
#: Shorter side up to which a matrix with gaps is factored exactly.
EXACT_SIDE = 400
#: Relative change of the filled values at which iterations stop, and the most of them.
TOLERANCE, MOST_ROUNDS = 1e-6, 500


class LowRank(NamedTuple):
    """``X ~ U diag(values) V'``: singular values (r,) and right vectors (M, r)."""

    values: Array
    right: Array


def randomised_svd(x: Array, rank: int, generator: np.random.Generator) -> LowRank:
    """Leading right singular vectors by a random range finder with power iterations.

    Halko, Martinsson and Tropp (2011), algorithms 4.4 and 5.1: the error of each singular value
    falls by the square of the spectral gap in every pass.
    """
    width = min(rank + OVERSAMPLING, *x.shape)
    q = np.linalg.qr(x.T @ generator.standard_normal((len(x), width)))[0]
    for _ in range(PASSES):
        q = np.linalg.qr(x.T @ np.linalg.qr(x @ q)[0])[0]
    _, s, v = np.linalg.svd(x @ q, full_matrices=False)
    return LowRank(s[:rank], (q @ v.T)[:, :rank])


def fill_and_factor(x: Array, rank: int, generator: np.random.Generator) -> LowRank:
    """The same where NaN marks gaps: each gap is filled by the low-rank fit of the other values.

    Rounds of filling and factoring go on where no gap changes. The fit shrinks each singular
    value by the share that white noise has in it, as estimated from the known entries: without
    that, a column with few entries would ask for any value in its gaps (Josse and Husson 2012).
    Rounds are sped up by momentum, which restarts whenever changes grow.
    """
    gaps = np.isnan(x)
    if not gaps.any():
        return randomised_svd(x, rank, generator)
    filled = np.where(gaps, 0.0, x)
    scale = np.sqrt(np.mean(filled[~gaps] ** 2))
    change, before, age = np.inf, filled[gaps], 0
    factors = randomised_svd(filled, rank, generator)
    for _ in range(MOST_ROUNDS):
        fit = _shrunk_fit(filled, factors, gaps)[gaps]
        last, change = change, float(np.sqrt(np.mean((fit - filled[gaps]) ** 2)))
        age = 0 if change > last else age + 1
        filled[gaps] = fit + age / (age + 3.0) * (fit - before)
        before = fit
        factors = _refactor(filled, factors, rank, generator)
        if change <= TOLERANCE * scale:
            return factors
    expected = f"gaps filled to {TOLERANCE:g} in {MOST_ROUNDS} rounds"
    got, fix = f"a change of {change / scale:.1e}", "use fewer modes, or drop empty rows"
    raise ConvergenceError("Empirical", expected=expected, got=got, fix=fix)


def _shrunk_fit(filled: Array, factors: LowRank, gaps: Array) -> Array:
    """``X V diag(d) V'`` with ``d = 1 - noise / s^2``, noise that of the known entries."""
    rows, columns = filled.shape
    amplitude = filled @ factors.right
    residual_variance = np.mean((filled - amplitude @ factors.right.T)[~gaps] ** 2)
    # Of all entries the r patterns take r (rows + columns - r) degrees of freedom.
    r = len(factors.values)
    free = max(1.0 - r * (rows + columns - r) / (rows * columns), 1e-3)
    noise = residual_variance / free * max(rows, columns)
    keep = np.clip(1.0 - noise / np.maximum(factors.values**2, 1e-300), 0.0, 1.0)
    return (amplitude * keep) @ factors.right.T


def _refactor(x: Array, last: LowRank, rank: int, generator: np.random.Generator) -> LowRank:
    """Singular vectors of a matrix that changed a little: exact where it is small."""
    if min(x.shape) <= EXACT_SIDE:
        wide = x.shape[0] >= x.shape[1]
        values, vectors = np.linalg.eigh(x.T @ x if wide else x @ x.T)
        s = np.sqrt(np.maximum(values[::-1][:rank], 0.0))
        v = vectors[:, ::-1][:, :rank]
        return LowRank(s, v if wide else x.T @ v / np.maximum(s, 1e-300))
    start = np.hstack([last.right, generator.standard_normal((x.shape[1], OVERSAMPLING))])
    q = np.linalg.qr(x.T @ (x @ start))[0]
    q = np.linalg.qr(x.T @ (x @ q))[0]
    _, s, v = np.linalg.svd(x @ q, full_matrices=False)
    return LowRank(s[:rank], (q @ v.T)[:, :rank])


# ---------- Empirical orthogonal functions


#: Points closer than this part of the extent are one.
SAME_POINT = 1e-9
#: Variance of a pattern, relative to the first, that is rounding.
NEGLIGIBLE_VARIANCE = 1e-12


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Empirical(TabulatedDomain):
    """Empirical orthogonal functions (EOFs) of fields, orthonormal under given weights.

    The second moments ``C`` of the fields about zero have ``C h_n = v_n h_n`` with
    ``sum_i w_i h_m(x_i) h_n(x_i) = delta_mn``; the reference operator is their inverse in units
    of the first, ``mu_n = v_1 / v_n``. Pass anomalies, as a mean would become an EOF.

    A randomised singular value decomposition computes the EOFs. Gaps are filled by the low-rank
    fit, iterated until it converges. Points without data are excluded. The modes are defined at the
    points of the data only.

    Args:
        fields: DataArray with dims path, time, or both, and space; NaN is missing.
        n_modes: how many patterns.
        weights: None for equal ones, one per point, or a domain, such as ``sl.Sphere()``, whose
            rule on the grid gives them (area weights).
        dims: spatial coordinates; by default all dims but path and time.
        seed: of the random directions.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.heat(n_modes=3, initial="stationary")
        >>> fields = sl.simulate(equation, n_paths=50, seed=0)
        >>> eofs = sl.Empirical(fields, n_modes=3, weights=equation.domain)
        >>> eofs.share.round(2)  # of the energy
        array([0.92, 0.07, 0.01])
    """

    nodes: Array
    node_weights: Array
    spectrum: Array
    modes: Array
    share: Array
    coordinates: tuple[str, ...]
    name: ClassVar[str] = "empirical"

    def __init__(
        self,
        fields: xr.DataArray,
        n_modes: int = 16,
        *,
        weights: AbstractDomain | Any = None,
        dims: tuple[str, ...] | None = None,
        seed: int = 0,
    ) -> None:
        """Check the fields and compute their patterns."""
        names = _space_dims(fields) if dims is None else _named(fields, dims)
        points, rows = _rows_of(fields, names)
        observed = ~np.isnan(rows).all(0)
        points, rows = points[observed], rows[:, observed]
        rows = rows[~np.isnan(rows).all(1)]
        self._store(spectrum=np.empty(min(rows.shape)))  # most patterns there can be
        if not rows.size:
            fix = "pass fields with values"
            raise DomainError("fields", expected="at least one value", got="none", fix=fix)
        n = self.check_modes(n_modes)
        w = _weights(weights, points, observed)
        factors = fill_and_factor(rows * np.sqrt(w), n, _generator(seed))
        v = factors.values**2 / len(rows)
        if v[-1] <= NEGLIGIBLE_VARIANCE * v[0]:
            most = int((v > NEGLIGIBLE_VARIANCE * v[0]).sum())
            expected = f"at most {most} EOFs, which represent the fields completely"
            raise DomainError("n_modes", expected=expected, got=str(n), fix="ask for fewer")
        patterns = factors.right / np.sqrt(w)[:, None]
        patterns *= np.sign(patterns[np.abs(patterns).argmax(0), np.arange(n)])
        energy = np.nansum(w * np.nanmean(rows**2, axis=0))
        self._store(
            nodes=points, node_weights=w, spectrum=v[0] / v, modes=patterns, share=v / energy,
            coordinates=names,
        )  # fmt: skip

    def _restore(self, **settings: Any) -> None:
        names = tuple(settings.pop("coordinates"))
        self._store(coordinates=names, **{k: restored(k, v) for k, v in settings.items()})

    @property
    def dims(self) -> tuple[str, ...]:
        """Those of the fields."""
        return self.coordinates

    @functools.cached_property
    def _tree(self) -> scipy.spatial.KDTree:
        return scipy.spatial.KDTree(self.nodes.reshape(len(self.nodes), -1))

    def _rows(self, points: Array) -> Array:
        """Row of each point in the table; the number of rows where it is none of them."""
        reach = SAME_POINT * max(float(np.ptp(self.nodes, axis=0).max()), 1e-300)
        rows = real_array("points", points).reshape(len(points), -1)
        return self._tree.query(rows, distance_upper_bound=reach)[1]

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Rows of the table."""
        return self.modes[self._rows(points), : self.check_modes(n_modes)]

    def grid_weights(self, points: Array) -> Array:
        """Weights of the points."""
        return self.node_weights[self._rows(points)]

    def contains(self, points: Array) -> Array:
        """Whether each point is one of the table."""
        return self._rows(points) < len(self.nodes)

    @property
    def reach(self) -> str:
        """The points of the table."""
        return "the points of the data that the patterns come from"

    def fix_outside(self, points: Array) -> str:
        """How to have patterns there."""
        return "interpolate the data, or compute the patterns on these points"

    def __repr__(self) -> str:
        """Sizes, and how much the patterns hold."""
        return (
            f"Empirical({len(self.nodes)} points, {self.most_modes} modes, "
            f"{100 * self.share.sum():.3g} % of the energy)"
        )


def _check_fields(fields: Any) -> None:
    if not isinstance(fields, xr.DataArray) or not {"path", "time"} & set(fields.dims):
        expected = "a DataArray with dims path or time, and space"
        got = f"dims {getattr(fields, 'dims', None)} of a {type(fields).__name__}"
        fix = "pass the result of sl.as_fields, sl.read or sl.simulate"
        raise DomainError("fields", expected=expected, got=got, fix=fix)


def _named(fields: Any, dims: Any) -> tuple[str, ...]:
    """Spatial coordinates as they were given."""
    _check_fields(fields)
    names = tuple(dims) if isinstance(dims, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        expected = "names of spatial coordinates"
        raise DomainError("dims", expected=expected, got=shown(dims), fix="pass dims=('x',)")
    return names


def _rows_of(fields: xr.DataArray, names: tuple[str, ...]) -> tuple[Array, Array]:
    """Points, and one row of values per path and time."""
    lead = [d for d in fields.dims if d in ("path", "time")]
    places = places_of_fields(fields, names)
    more = [str(d) for d in fields.dims if d not in (*lead, *places.dims)]
    if more:
        expected = f"dims path, time and {', '.join(places.dims)}"
        fix = "select one entry of it, or name it in dims"
        raise DomainError("fields", expected=expected, got=f"{', '.join(more)} as well", fix=fix)
    values = fields.transpose(*lead, *places.dims).values
    values = table("fields", values, "fields of numbers", "convert them to float")
    points = as_points(places.points, names)
    rows = places.flatten(values).reshape(-1, len(points))
    if (largest := float(np.fmax.reduce(np.abs(rows), axis=None, initial=0.0))) > LARGEST_VALUE:
        expected = f"finite numbers up to {LARGEST_VALUE:g}, NaN where missing"
        got, fix = f"{largest:g}", "change the unit, or fields.where(np.isfinite(fields))"
        raise DomainError("fields", expected=expected, got=got, fix=fix)
    return points, rows


def _generator(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        expected = "a whole number of at least 0"
        raise DomainError("seed", expected=expected, got=shown(seed), fix="pass seed=0") from error


def _space_dims(fields: Any) -> tuple[str, ...]:
    _check_fields(fields)
    dims = tuple(str(d) for d in fields.dims if d not in ("path", "time"))
    if dims != ("point",):
        return dims
    along = {str(k): v for k, v in fields.coords.items() if v.dims == dims and k != "point"}
    for usual in (("lat", "lon"), ("x", "y", "z")):  # next to names and numbers of stations
        if set(usual[:2]) <= set(along):
            return tuple(k for k in along if k in usual)
    return tuple(k for k, v in along.items() if v.dtype.kind in "iuf")


def _weights(weights: Any, points: Array, observed: Array) -> Array:
    """Positive weights of the observed points."""
    if isinstance(weights, AbstractDomain):
        w = weights.grid_weights(weights.check_points(points))
    else:
        w = np.ones(len(points))
        if weights is not None:
            w = table("weights", weights, "positive numbers", "leave weights out").ravel()
        if len(w) == len(observed) and weights is not None:
            w = w[observed]
    if w.shape != (len(points),) or not (np.isfinite(w) & (w > 0)).all():
        expected = f"positive numbers, one for each of {len(observed)} points"
        got = f"shape {w.shape}, least {w.min(initial=np.inf):g}"
        fix = "pass the domain the points lie on, or leave weights out"
        raise DomainError("weights", expected=expected, got=got, fix=fix)
    return w
