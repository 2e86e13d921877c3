"""The interface of every spatial domain: a basis, its inner product and the two transforms."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import html
import numbers
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import LARGEST_VALUE, one_of, real_array, shown, whole
from spdelaw.domains.places import (
    Places,
    as_points,
    list_points,
    places_of_fields,
    places_of_points,
    space_dims,
)
from spdelaw.domains.products import Multiplied, Pairs, Products, pairs_of_modes
from spdelaw.errors import AliasingWarning, DomainError

Array = np.ndarray

# ---------- Fields to coefficients by weighted least squares, with measures of its accuracy
#
# With ``Phi = h_n(x_i)`` and rule weights ``W``, the coefficients minimise
# ``(u - Phi c)' W (u - Phi c)``. On a grid whose rule is exact for products of the modes the
# Gram matrix ``Phi' W Phi`` is the identity and least squares is the quadrature itself.


#: Gram matrices closer to the identity than this count as exact quadrature.
QUADRATURE_TOLERANCE = 1e-10
#: Rows whose normal equations are worse conditioned than this come back as NaN.
MAX_CONDITION = 1e12
#: Aliased energy, relative to the field, from which on a warning is due.
ALIASING_TOLERANCE = 1e-4


class Analysis(NamedTuple):
    """Coefficients and their quality.

    Attributes:
        coefficients: (..., n_modes); NaN where a row has too few points.
        method: "fast", "quadrature" or "least_squares".
        condition: condition number of the Gram matrix, the worst row where points are missing.
        leakage: largest norm with which one of the next modes enters the coefficients.
        outside: share of the fields' energy in the residual.
        n_lost: rows that have too few points for the modes.
    """

    coefficients: Array
    method: str
    condition: float
    leakage: float
    outside: float
    n_lost: int


def analyse_values(
    domain: AbstractDomain, values: Array, points: Array, n_modes: int, method: str
) -> Analysis:
    """Weighted least-squares coefficients of ``values`` (..., n_points)."""
    values = _as_real(values)
    observed = np.isfinite(values)
    complete = bool(observed.all())
    if complete and n_modes > len(points):
        expected = f"at most {len(points)} modes on {len(points)} points"
        fix = f"pass n_modes={max(1, len(points) // 2)} or a finer grid"
        raise DomainError("n_modes", expected=expected, got=str(n_modes), fix=fix)
    phi = domain.eigenfunctions(points, n_modes)
    w = domain.grid_weights(points)
    if not complete:
        return _analyse_with_gaps(domain, values, observed, points, phi, w)
    # With 64 modes or fewer one matrix product beats the full transform.
    fast = fast_transform(method, n_modes > 64, domain.fast_analyse, values, points, n_modes)
    if fast is not None:
        return Analysis(fast, "fast", 1.0, 0.0, _residual_energy(values, fast, phi, w), 0)
    operator, condition, exact = projection(phi, w)
    c, leak = values @ operator.T, _leakage(domain, operator, points, n_modes)
    used = "quadrature" if exact else "least_squares"
    return Analysis(c, used, condition, leak, _residual_energy(values, c, phi, w), 0)


def fast_transform(
    method: str, pays_off: bool, transform: Callable[..., Array | None], *given: Any
) -> Array | None:
    """Result of a fast transform where ``method`` calls for it; None for the dense way."""
    fast = transform(*given) if method == "fast" or (method == "auto" and pays_off) else None
    if method == "fast" and fast is None:
        expected, got = "a grid with a fast transform for method='fast'", "a grid without one"
        fix = "use method='auto', or the grid of domain.grid(n)"
        raise DomainError("method", expected=expected, got=got, fix=fix)
    return fast


def _as_real(values: Array) -> Array:
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        got = f"dtype {values.dtype}"
        raise DomainError("fields", expected="real numbers", got=got, fix="cast to float64")
    values = np.asarray(values, dtype=float)
    if np.isinf(values).any():
        expected, fix = "finite values or NaN for missing", "replace infinities by NaN"
        raise DomainError("fields", expected=expected, got="infinite values", fix=fix)
    return values


def projection(phi: Array, w: Array) -> tuple[Array, float, bool]:
    """Matrix (n_modes, n_points) from values to coefficients, its condition, and exactness."""
    root = np.sqrt(w)[:, None]
    gram = (root * phi).T @ (root * phi)
    if np.abs(gram - np.eye(len(gram))).max() < QUADRATURE_TOLERANCE:
        return (w[:, None] * phi).T, float(np.linalg.cond(gram)), True
    # The pseudo-inverse works on the factor, so it squares no condition number.
    operator = np.linalg.pinv(root * phi, rcond=1e-13) * root.T
    return operator, float(np.linalg.cond(gram)), False


def _leakage(domain: AbstractDomain, operator: Array, points: Array, n_modes: int) -> float:
    beyond = domain.eigenfunctions(points, domain.available(2 * n_modes))[:, n_modes:]
    return float(np.linalg.norm(operator @ beyond, axis=0).max(initial=0.0))


def _residual_energy(values: Array, c: Array, phi: Array, w: Array) -> float:
    """Share of energy in the residual, on at most 2000 rows: it feeds a warning, not a result."""
    rows = values.reshape(-1, values.shape[-1])
    coefficients = c.reshape(-1, c.shape[-1])
    step = max(1, len(rows) // 2000)
    rows, coefficients = rows[::step], coefficients[::step]
    residual = np.where(np.isfinite(rows), rows - coefficients @ phi.T, 0.0)
    residual = residual[np.isfinite(coefficients).all(1)]
    total = np.nansum(w * rows**2)
    return float((w * residual**2).sum() / total) if total > 0 else 0.0


def _analyse_with_gaps(
    domain: AbstractDomain,
    values: Array,
    observed: Array,
    points: Array,
    phi: Array,
    w: Array,
) -> Analysis:
    n_modes = phi.shape[1]
    rows, observed_rows = values.reshape(-1, len(points)), observed.reshape(-1, len(points))
    patterns, which = np.unique(observed_rows, axis=0, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    c = np.full((len(rows), n_modes), np.nan)
    worst, leak, lost = 1.0, 0.0, 0
    for p, pattern in enumerate(patterns):
        index = order[bounds[p] : bounds[p + 1]]
        if pattern.sum() < n_modes:
            lost += len(index)
            continue
        operator, condition, _ = projection(phi[pattern], w[pattern])
        if condition > MAX_CONDITION:
            lost += len(index)
            continue
        c[index] = rows[np.ix_(index, np.flatnonzero(pattern))] @ operator.T
        worst = max(worst, condition)
        if p < 20:  # a sample of patterns is enough for a warning
            leak = max(leak, _leakage(domain, operator, points[pattern], n_modes))
    c = c.reshape(*values.shape[:-1], n_modes)
    return Analysis(c, "least_squares", worst, leak, _residual_energy(values, c, phi, w), lost)


def warn_if_aliased(result: Analysis) -> None:
    """Warn, with the number, where energy beyond the modes enters the coefficients."""
    aliased = result.leakage * np.sqrt(result.outside)
    if aliased > ALIASING_TOLERANCE:
        warnings.warn(
            f"{100 * result.outside:.3g} % of the energy lies beyond the "
            f"{result.coefficients.shape[-1]} modes and this grid lets up to "
            f"{100 * result.leakage:.3g} % of a neighbouring mode's amplitude into the "
            f"coefficients (condition {result.condition:.3g}). Use more modes, or a grid of "
            "domain.grid(n) without gaps.",
            AliasingWarning,
            stacklevel=3,
        )
    if result.n_lost:
        warnings.warn(
            f"{result.n_lost} rows have too few points for "
            f"{result.coefficients.shape[-1]} modes; their coefficients are NaN.",
            AliasingWarning,
            stacklevel=3,
        )


# ---------- Checks of the arguments of domains: numbers and tables of numbers


def real(what: str, value: Any, fix: str, *, positive: bool = False) -> float:
    """A finite number as float, or `DomainError`; text and truth values are no numbers."""
    number = np.nan
    plain = np.ndim(value) == 0 if hasattr(value, "dtype") else isinstance(value, numbers.Real)
    if plain and not isinstance(value, bool) and np.asarray(value).dtype.kind in "iufO":
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
    least = 1.0 / LARGEST_VALUE if positive else -LARGEST_VALUE
    if not least <= number <= LARGEST_VALUE:  # squares of others overflow, or are zero
        expected = "a positive number" if positive else "a finite number"
        expected += f" up to {LARGEST_VALUE:g}" if np.isfinite(number) and number > least else ""
        raise DomainError(what, expected=expected, got=shown(value), fix=fix)
    return number


def table(what: str, value: Any, expected: str, fix: str) -> Array:
    """Numbers as an array of float64 of any shape, NaN allowed, or `DomainError`."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "iufbO":
            return array.astype(float)
    except Exception as error:  # objects may raise anything when they are turned into an array
        raise DomainError(what, expected=expected, got=shown(value), fix=fix) from error
    raise DomainError(what, expected=expected, got=shown(value), fix=fix)


def restored(what: str, value: Any) -> Array:
    """A table out of a description."""
    expected, fix = "a table of finite numbers", "write it with domain.to_dict()"
    values = table(what, value, expected, fix)
    if not (np.abs(values) <= LARGEST_VALUE).all():
        raise DomainError(what, expected=expected, got=shown(value), fix=fix)
    return values


def pair(what: str, value: Any, expected: str, fix: str) -> tuple[float, float]:
    """Two finite numbers, or `DomainError`."""
    ends = table(what, value, expected, fix)
    if ends.shape != (2,) or not np.isfinite(ends).all():
        raise DomainError(what, expected=expected, got=shown(value), fix=fix)
    return float(ends[0]), float(ends[1])


# ---------- Tables for notebooks


#: Modes of a domain or an equation that a notebook shows.
SHOWN_MODES = 6
#: Plain look of a table, the same in light and dark notebooks.
CELL_STYLE = "padding:2px 10px;text-align:right"


def table_html(
    title: str, facts: list[str], header: list[str], rows: list[list[str]], notes: list[str]
) -> str:
    """Title, lines of text, a table and more lines.

    Example:
        >>> table_html("A law", ["2 paths"], ["mode"], [["1"]], [])[:39]
        '<div><strong>A law</strong><div>2 paths'
    """

    def row(cells: list[str], tag: str) -> str:
        inside = "".join(f'<{tag} style="{CELL_STYLE}">{html.escape(c)}</{tag}>' for c in cells)
        return f"<tr>{inside}</tr>"

    def lines(sentences: list[str]) -> str:
        return "".join(f"<div>{html.escape(line)}</div>" for line in sentences)

    body = "".join(row(cells, "td") for cells in rows)
    return (
        f"<div><strong>{html.escape(title)}</strong>{lines(facts)}"
        f"<table><thead>{row(header, 'th')}</thead><tbody>{body}</tbody></table>"
        f"{lines(notes)}</div>"
    )


def domain_html(domain: AbstractDomain) -> str:
    """Coordinates, size, and the first eigenvalues of the reference operator."""
    n = min(SHOWN_MODES, domain.most_modes or SHOWN_MODES)
    facts = [f"coordinates {', '.join(domain.dims)}; size {domain.volume:.6g}"]
    modes = [str(i + 1) for i in range(n)]
    values = [f"{mu:.6g}" for mu in domain.eigenvalues(n)]
    rows = [["eigenvalue", *values]]
    more = f"{domain.most_modes} modes in all" if domain.most_modes else "as many modes as you like"
    return table_html(str(domain), facts, ["mode", *modes], rows, [more])


# ---------- Pairs of modes that a shift or rotation of the domain mixes


class Turn(NamedTuple):
    """Cosine and sine of one wave: a shift by ``s`` turns them by ``wavenumber * s``.

    Attributes:
        cosine: index of the mode, from 0.
        sine: index of its partner.
        wavenumber: angle for a unit of the shift, a length on a ring, radians on a sphere.
    """

    cosine: int
    sine: int
    wavenumber: float


def turns_of_neighbours(is_sine: Array, wavenumber: Array) -> tuple[Turn, ...]:
    """Turns where each sine comes right after its cosine; a last cosine may stand alone."""
    return tuple(Turn(int(n) - 1, int(n), float(wavenumber[n])) for n in np.flatnonzero(is_sine))


# ---------- The interface of all domains: a basis, its inner product and two transforms


Function = Callable[..., Array]
#: Ways to transform: by a fast transform where it pays off, never, or always.
METHODS = ("auto", "dense", "fast")


class AbstractDomain(abc.ABC):
    """A spatial domain with the orthonormal eigenbasis of its reference operator.

    The reference operator is ``-A0 h_n = mu_n h_n`` with ``<h_m, h_n> = delta_mn`` in
    ``L2(domain, weight)``. A subclass defines the basis; transforms use it.

    Points are (n_points,) in one dimension and (n_points, d) in d; a field is a row of values at
    the points. `places` handles labels, grids and grids with holes.

    Subclasses are final, frozen dataclasses of plain numbers and strings, so ``to_dict`` and
    ``from_dict`` need no further code.
    """

    #: Name under which the domain is stored in files.
    name: ClassVar[str]
    #: Points a dim of the grid used where none is given.
    default_points: ClassVar[int] = 101

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the spatial coordinates of a field on this domain."""
        return ("x",)

    @property
    def most_modes(self) -> int | None:
        """How many modes there are; None for as many as you like."""
        return None

    def _repr_html_(self) -> str:
        """Size and first eigenvalues, for notebooks."""
        return domain_html(self)

    # -- the basis ------------------------------------------------------------------

    @abc.abstractmethod
    def eigenvalues(self, n_modes: int) -> Array:
        """First ``n_modes`` eigenvalues ``mu_n >= 0`` in increasing order; shape (n_modes,)."""

    @abc.abstractmethod
    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Values ``h_n(x)``; shape (n_points, n_modes)."""

    def weight(self, points: Array) -> Array:
        """Density of the inner product at the points, by default 1; shape (n_points,)."""
        return np.ones(len(points))

    @abc.abstractmethod
    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Points and weights that integrate smooth functions against ``weight``."""

    @abc.abstractmethod
    def grid(self, n_points: int) -> Array:
        """A regular grid to plot or simulate fields on, with ``n_points`` per dim."""

    @abc.abstractmethod
    def grid_weights(self, points: Array) -> Array:
        """Weights of a composite rule on given points: ``sum_i w_i f(x_i) ~ <f, 1>``."""

    @property
    @abc.abstractmethod
    def volume(self) -> float:
        """Total mass ``<1, 1>`` of the domain: its length, or 1 for a probability weight."""

    @property
    def reach(self) -> str:
        """Where points may lie, for messages."""
        return str(self)

    def fix_outside(self, points: Array) -> str:
        """What a user can do about points some of which lie outside, for messages."""
        return "leave them out, rescale the coordinates, or choose a larger domain"

    def contains(self, points: Array) -> Array:
        """Whether each point lies in the domain; shape (n_points,)."""
        return np.ones(len(points), bool)

    def check_points(self, points: Any) -> Array:
        """Points (n,) or (n, d) from a table or a tuple of axes, or `DomainError`."""
        return self.points_inside(points)

    def points_inside(self, points: Any, fix: str = "") -> Array:
        """`check_points` with advice of the caller's own."""
        table = as_points(points, self.dims)
        outside = ~self.contains(table)
        if outside.any():
            expected, got = f"points within {self.reach}", list_points(table, self.dims, outside)
            fix = fix or self.fix_outside(table)
            raise DomainError("points", expected=expected, got=got, fix=fix)
        return table

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """Points and weights fine enough for products of ``n_modes`` modes with a function."""
        return self.quadrature(max(400, 4 * n_modes))

    def turns(self, n_modes: int) -> tuple[Turn, ...] | None:
        """Pairs of modes that rotate into each other when a field is shifted around the domain.

        Other modes are invariant, or have a partner beyond ``n_modes``. None if the domain has no
        such shift.
        """
        return None

    def fast_analyse(self, values: Array, points: Array, n_modes: int) -> Array | None:
        """Coefficients by a fast transform, or None where the grid does not allow one."""
        return None

    def fast_synthesise(self, coefficients: Array, points: Array) -> Array | None:
        """Field by a fast transform, or None where the grid does not allow one."""
        return None

    # -- products of modes ----------------------------------------------------------

    def products(self, points: Array, n_modes: int) -> Products:
        """Products of modes at points, for the Gram matrices ``Phi' W Phi`` of many weights.

        Example:
            >>> import numpy as np, spdelaw as sl
            >>> domain, weights = sl.Interval(0, np.pi), np.array([[1.0, 0.0, 1.0]])
            >>> domain.products(np.array([0.5, 1.0, 1.5]), 2).gram(weights).shape
            (1, 2, 2)
        """
        return Multiplied(self.eigenfunctions(points, n_modes))

    def mode_pairs(self, points: Array, n_modes: int) -> Pairs:
        """Products of modes in one dimension as few waves; here each product is its own."""
        return pairs_of_modes(self.eigenfunctions(points, n_modes))

    def __dir__(self) -> list[str]:
        """Public names, for completion."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    # -- labels ---------------------------------------------------------------------

    def places(self, fields: xr.DataArray | Array) -> Places:
        """Points of fields, or bare points, with the labels that fields have there.

        Points of a grid that lie outside the domain are left out where they hold no value.
        """
        if not isinstance(fields, xr.DataArray):
            return places_of_points(self.check_points(fields), self.dims)
        fields = fields.transpose(..., *space_dims(fields, self.dims))
        places = places_of_fields(fields, self.dims)
        inside = self.contains(places.points)
        is_cut = inside.any() and not inside.all()
        if is_cut and not places.only(~inside).has_values(fields.data).any():
            places = places.only(inside)
        return places._replace(points=self.check_points(places.points))

    def flatten(self, fields: xr.DataArray, places: Places | None = None) -> xr.DataArray:
        """Fields (path, time, x, y) as (path, time, point); in one dimension, less any holes.

        ``places`` are those of the fields, where they are known already.
        """
        places = self.places(fields) if places is None else places
        if len(self.dims) == 1:
            return fields if places.inside is None else fields.isel({self.dims[0]: places.inside})
        lead = [d for d in fields.dims if d not in space_dims(fields, self.dims)]
        values = places.flatten(fields.transpose(*lead, *places.dims).data)
        coords = {k: v for k, v in fields.coords.items() if set(v.dims) <= set(lead)}
        if fields.sizes.get("point") == len(places.points):  # names of stations and the like
            coords |= {k: v for k, v in fields.coords.items() if v.dims == ("point",)}
        for i, dim in enumerate(self.dims):
            coords[dim] = ("point", places.points[:, i], fields[dim].attrs)
        return xr.DataArray(values, coords, [*lead, "point"], fields.name, fields.attrs)

    # -- transforms -----------------------------------------------------------------

    def analyse(
        self,
        fields: xr.DataArray | Array,
        n_modes: int,
        points: Array | None = None,
        *,
        method: str = "auto",
    ) -> Any:
        """Coefficients ``c_n = <X, h_n>`` of fields; NaN marks a missing point.

        If the quadrature of the grid is exact for the modes, it is used (or a fast transform).
        Otherwise, and with missing points, the method is weighted least squares. If the grid mixes
        the requested modes with finer ones, an `AliasingWarning` says by how much.

        Args:
            fields: DataArray with this domain's dims, or array (..., n_points).
            n_modes: how many modes to return.
            points: grid of a bare array; a DataArray brings its own.
            method: "auto", "dense" or "fast".

        Returns:
            DataArray with dim ``mode`` in place of the spatial ones and attributes
            ``method``, ``condition``, ``leakage`` and ``outside``; a bare array for a bare array.

        Example:
            >>> import numpy as np, spdelaw as sl
            >>> domain = sl.Interval(0, np.pi)
            >>> x = domain.grid(101)
            >>> np.round(domain.analyse(np.sin(2 * x), n_modes=3, points=x), 6) + 0.0
            array([0.      , 1.253314, 0.      ])
        """
        values, grid = self._values_and_points(fields, points)
        result = self.analysis(values, grid, n_modes, method=method)
        warn_if_aliased(result)
        if not isinstance(fields, xr.DataArray):
            return result.coefficients
        kept = [d for d in fields.dims if d not in space_dims(fields, self.dims)]
        coords = {k: v for k, v in fields.coords.items() if set(v.dims) <= set(kept)}
        coords["mode"] = ("mode", np.arange(1, n_modes + 1))
        attrs = {k: getattr(result, k) for k in ("method", "condition", "leakage", "outside")}
        return xr.DataArray(result.coefficients, dims=[*kept, "mode"], coords=coords, attrs=attrs)

    def analysis(
        self, values: Array, points: Array, n_modes: int, method: str = "auto"
    ) -> Analysis:
        """Coefficients of bare arrays, with measures of their accuracy."""
        n_modes, method = self.check_modes(n_modes), one_of("method", method, METHODS, DomainError)
        return analyse_values(self, values, self.check_points(points), n_modes, method)

    def synthesise(
        self, coefficients: xr.DataArray | Array, points: Array, *, method: str = "auto"
    ) -> Any:
        """Field ``X(x) = sum_n c_n h_n(x)`` at the points.

        Args:
            coefficients: DataArray with dim ``mode``, or array (..., n_modes).
            points: shape (n_points,); in d dimensions (n_points, d) or a tuple of axes.
            method: "auto", "dense" or "fast".

        Returns:
            DataArray with the spatial dims in place of ``mode``; for a bare array (..., n_points).

        Example:
            >>> import numpy as np, spdelaw as sl
            >>> float(sl.Interval(0, 1, boundary="neumann").synthesise(np.array([2.0]), [0.3])[0])
            2.0
        """
        grid = self.check_points(points)
        if not isinstance(coefficients, xr.DataArray):
            return self._synthesise(real_array("coefficients", coefficients), grid, method)
        if "mode" not in coefficients.dims:
            expected, got = "coefficients with a dim mode", f"dims {coefficients.dims}"
            fix = "rename the dim of the modes, or pass a bare array"
            raise DomainError("coefficients", expected=expected, got=got, fix=fix)
        c = coefficients.transpose(..., "mode")
        kept = list(c.dims[:-1])
        coords = {k: v for k, v in c.coords.items() if set(v.dims) <= set(kept)}
        field = self._synthesise(real_array("coefficients", c.values), grid, method)
        places = places_of_points(grid, self.dims)
        return xr.DataArray(
            places.unflatten(field), {**coords, **places.coords}, [*kept, *places.dims]
        )

    def _synthesise(self, coefficients: Array, points: Array, method: str) -> Array:
        if not coefficients.ndim or not coefficients.size:
            expected, fix = "coefficients with the modes along the last axis", "check their shape"
            got = f"shape {coefficients.shape}"
            raise DomainError("coefficients", expected=expected, got=got, fix=fix)
        n_modes = self.check_modes(coefficients.shape[-1])
        one_of("method", method, METHODS, DomainError)
        # A fast transform pays off only when most modes of the grid are in use.
        pays_off = n_modes > 64 and 4 * n_modes > len(points)
        fast = fast_transform(method, pays_off, self.fast_synthesise, coefficients, points)
        return coefficients @ self.eigenfunctions(points, n_modes).T if fast is None else fast

    def project(self, function: Function, n_modes: int) -> Array:
        """Coefficients ``<f, h_n>`` of ``f(x)``, or ``f(x, y)``, by a finer quadrature."""
        n_modes = self.check_modes(n_modes)
        x, w = self.quadrature_for(n_modes)
        columns = (x,) if x.ndim == 1 else tuple(x.T)
        try:
            values = np.broadcast_to(np.asarray(function(*columns), dtype=float), w.shape)
        except Exception as error:
            expected = f"a function of ({', '.join(self.dims)}) that returns one value per point"
            got = f"{type(error).__name__}: {error}"
            fix = "write it with NumPy, for example lambda x: np.exp(-x**2)"
            raise DomainError("function", expected=expected, got=got, fix=fix) from error
        with np.errstate(over="ignore", invalid="ignore"):
            coefficients = (w * values) @ self.eigenfunctions(x, n_modes)
        if not np.isfinite(coefficients).all():
            expected = f"finite coefficients for {n_modes} modes"
            got = "an overflow or a value that is not finite"
            fix = "use fewer modes, or a function that is finite everywhere"
            raise DomainError("function", expected=expected, got=got, fix=fix)
        return coefficients

    # -- checks ---------------------------------------------------------------------

    def check_modes(self, n_modes: int) -> int:
        """Return ``n_modes`` as an int, or raise `DomainError`."""
        n_modes = whole("n_modes", n_modes, 1, DomainError)
        if n_modes > self.available(n_modes):
            expected = f"at most the {self.most_modes} modes of this domain"
            fix = f"pass n_modes={self.most_modes}, or build it with more"
            raise DomainError("n_modes", expected=expected, got=str(n_modes), fix=fix)
        return n_modes

    def available(self, n_modes: int) -> int:
        """``n_modes``, or all there are where that is fewer."""
        return n_modes if self.most_modes is None else min(n_modes, self.most_modes)

    def _values_and_points(
        self, fields: xr.DataArray | Array, points: Array | None
    ) -> tuple[Array, Array]:
        if isinstance(fields, xr.DataArray):
            places = self.places(fields)
            return places.flatten(fields.transpose(..., *places.dims).values), places.points
        values = np.asarray(fields)
        if points is None:
            fix = "pass points=, or a DataArray with coordinates"
            raise DomainError("points", expected="the grid of a bare array", got="None", fix=fix)
        table = as_points(points, self.dims)
        if values.ndim == 0 or values.shape[-1] != len(table):
            expected = f"a last axis of {len(table)} points"
            fix = "move the spatial axis last, or flatten a grid"
            raise DomainError("fields", expected=expected, got=f"shape {values.shape}", fix=fix)
        return values, table

    # -- files ----------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What the domain is built from, by name; numbers, text, tuples and arrays."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Plain description, from which `from_dict` makes an equal domain."""
        return {"name": self.name, **{key: _plain(v) for key, v in self.settings().items()}}

    @classmethod
    def from_settings(cls, **settings: Any) -> AbstractDomain:
        """Domain from what `settings` gives."""
        return cls(**settings)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


# ---------- Domains with tabulated modes: graphs, meshes, empirical patterns
#
# The table itself is stored, not the recipe: eigenvectors of equal eigenvalues are unique only up
# to a rotation, and a law needs the same modes on every machine.


class TabulatedDomain(AbstractDomain):
    """Modes as columns of a table at nodes, orthonormal under the weights of the nodes.

    Attributes:
        nodes: where the modes are tabulated; (n_nodes,) or (n_nodes, d).
        node_weights: weights of a rule on the nodes; (n_nodes,).
        spectrum: ``mu_n``, (N,).
        modes: ``h_n`` at the nodes, (n_nodes, N).
    """

    nodes: Any
    node_weights: Any
    spectrum: Array
    modes: Array

    @property
    def most_modes(self) -> int:
        """Columns of the table."""
        return len(self.spectrum)

    @property
    def volume(self) -> float:
        """Sum of the weights."""
        return float(self.node_weights.sum())

    def eigenvalues(self, n_modes: int) -> Array:
        """First entries of the spectrum."""
        return self.spectrum[: self.check_modes(n_modes)].copy()

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """The nodes and their weights, whatever the requested number."""
        return self.nodes.copy(), self.node_weights.copy()

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """The same rule for any number of modes."""
        return self.quadrature(self.check_modes(n_modes))

    def grid(self, n_points: int) -> Array:
        """The nodes, whatever the requested number."""
        return self.nodes.copy()

    def _store(self, **settings: Any) -> None:
        """Set fields; arrays become read-only copies."""
        for key, value in settings.items():
            if isinstance(value, np.ndarray):
                value = np.array(value)
                value.setflags(write=False)
            object.__setattr__(self, key, value)

    @classmethod
    def from_settings(cls, **settings: Any) -> TabulatedDomain:
        """Domain from its table; nothing is computed."""
        names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if settings.keys() != names:
            expected = f"the fields {', '.join(sorted(names))}"
            got = ", ".join(sorted(map(str, settings))) or "none"
            fix = "write it with domain.to_dict()"
            raise DomainError(cls.name, expected=expected, got=got, fix=fix)
        domain = object.__new__(cls)
        domain._restore(**settings)
        domain._check_tables()
        return domain

    def _check_tables(self) -> None:
        """Raise `DomainError` where restored tables do not belong together."""
        shape = len(self.nodes), len(self.spectrum)
        together = self.spectrum.ndim == 1 and self.spectrum.size and self.modes.shape == shape
        finite = np.isfinite(self.modes).all() and np.isfinite(self.spectrum).all()
        if not together or not finite or self.node_weights.shape != shape[:1]:
            expected = f"finite modes {shape} at {shape[0]} nodes"
            got = f"modes {self.modes.shape}, weights {self.node_weights.shape}"
            fix = "write it with domain.to_dict()"
            raise DomainError(self.name, expected=expected, got=got, fix=fix)

    @abc.abstractmethod
    def _restore(self, **settings: Any) -> None:
        """Take over what `settings` gave, through JSON or arrays of floats."""

    def __eq__(self, other: object) -> bool:
        """Equal when every entry of the tables is."""
        if not isinstance(other, type(self)):
            return False
        mine, theirs = self.settings(), other.settings()
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[key], theirs[key]) for key in mine
        )

    def __hash__(self) -> int:
        """Hash of the table."""
        return hash(hashlib.sha256(self.modes.tobytes()).digest())


def lowest_modes(stiffness: Any, mass: Any, n_modes: int, shift: float) -> tuple[Array, Array]:
    """Least eigenvalues and vectors of ``K v = mu M v``, ``v' M v = 1``, by shift-invert.

    ``shift > 0`` moves the spectrum away from zero, where K may be singular. The sign of a
    vector makes its largest entry positive.
    """
    n = stiffness.shape[0]
    if n_modes > n:
        expected = f"at most {n}, one per free node"
        raise DomainError("n_modes", expected=expected, got=str(n_modes), fix=f"pass n_modes={n}")
    if n <= 500 or 2 * n_modes > n:
        mu, v = scipy.linalg.eigh(
            stiffness.toarray(), mass.toarray(), subset_by_index=(0, n_modes - 1)
        )
    else:
        start = np.random.default_rng(0).standard_normal(n)
        mu, v = scipy.sparse.linalg.eigsh(
            scipy.sparse.csc_matrix(stiffness),
            n_modes,
            scipy.sparse.csc_matrix(mass),
            sigma=-shift,
            v0=start,
        )
        order = np.argsort(mu)
        mu, v = mu[order], v[:, order]
    # Rounding leaves the zero eigenvalue of a constant at a tiny number of either sign.
    mu = np.maximum.accumulate(np.where(np.abs(mu) < 1e-10 * shift, 0.0, mu))
    return mu, v * np.sign(v[np.abs(v).argmax(0), np.arange(n_modes)])
