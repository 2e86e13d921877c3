"""Several fields on one domain: two species, a voltage and its recovery."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from spdelaw.checks import checked, real_array, shown
from spdelaw.domains.base import AbstractDomain, Array
from spdelaw.domains.places import VARIABLE, Places, numbered
from spdelaw.errors import DomainError

#: Most fields at once: terms are polynomials of at most so many.
MOST_FIELDS = 4


@checked()
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Fields(AbstractDomain):
    """Copies of a domain, one for each field: data have dims (path, time, variable, x).

    A mode lives on one field: ``h_n`` of the first, ``h_n`` of the second, then ``h_{n+1}`` of the
    first and so on, so that modes come in order of eigenvalue and the first ``2 n`` are n of each.

    Args:
        domain: where each field lives.
        names: of the fields, letters; the labels of the dim ``variable``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> both = sl.Fields(sl.Interval(0, np.pi), ("u", "v"))
        >>> both.eigenvalues(4)
        array([1., 1., 4., 4.])
    """

    domain: AbstractDomain
    names: tuple[str, ...]
    name: ClassVar[str] = "fields"

    def __init__(self, domain: AbstractDomain, names: Sequence[str] = ("u", "v")) -> None:
        """Check the parts."""
        if not isinstance(domain, AbstractDomain) or isinstance(domain, Fields):
            expected = "the domain of one field"
            fix = "pass sl.Fields(sl.Interval(0, 1), ('u', 'v'))"
            raise DomainError("domain", expected=expected, got=shown(domain), fix=fix)
        listed = () if isinstance(names, str) else tuple(names)
        fine = all(isinstance(name, str) and name.isidentifier() for name in listed)
        if not (fine and 2 <= len(listed) == len(set(listed)) <= MOST_FIELDS):
            expected, fix = f"2 to {MOST_FIELDS} distinct names of letters", "pass names=('u', 'v')"
            raise DomainError("names", expected=expected, got=shown(names), fix=fix)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "names", listed)

    def __repr__(self) -> str:
        """As one would write it."""
        return f"Fields({self.domain!r}, {self.names!r})"

    @property
    def dims(self) -> tuple[str, ...]:
        """``variable``, and those of the domain."""
        return (VARIABLE, *self.domain.dims)

    @property
    def default_points(self) -> int:  # type: ignore[override]
        """Those of the domain."""
        return self.domain.default_points

    @property
    def n_fields(self) -> int:
        """How many."""
        return len(self.names)

    @property
    def most_modes(self) -> int | None:
        """As many of each field as the domain has."""
        most = self.domain.most_modes
        return None if most is None else most * self.n_fields

    # -- the basis ------------------------------------------------------------------

    def eigenvalues(self, n_modes: int) -> Array:
        """Those of the domain, each once for each field."""
        n = self.check_modes(n_modes)
        return np.repeat(self.domain.eigenvalues(self._modes_per_field(n)), self.n_fields)[:n]

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """``h_n(x)`` at the points of its own field, 0 at those of others."""
        n = self.check_modes(n_modes)
        which, x = self.split(points)
        each = self._modes_per_field(n)
        out = np.zeros((len(which), each, self.n_fields))
        for field in range(self.n_fields):
            rows = np.flatnonzero(which == field)
            if len(rows):
                out[rows, :, field] = self.domain.eigenfunctions(x[rows], each)
        return out.reshape(len(which), -1)[:, :n]

    def _modes_per_field(self, n_modes: int) -> int:
        return -(-n_modes // self.n_fields)

    def split(self, points: Array) -> tuple[Array, Array]:
        """Number of the field, and position in the domain, of each point."""
        table = real_array("points", points)
        x = table[:, 1] if table.shape[1] == 2 else table[:, 1:]
        return table[:, 0].astype(int), x

    def repeated(self, points: Array) -> Array:
        """Points of the domain as points of every field, one field after the other."""
        x = np.reshape(points, (len(points), -1))
        which = np.repeat(np.arange(float(self.n_fields)), len(x))
        return np.column_stack([which, np.tile(x, (self.n_fields, 1))])

    def weight(self, points: Array) -> Array:
        """Density of the domain."""
        return self.domain.weight(self.split(points)[1])

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """The rule of the domain for each field."""
        points, w = self.domain.quadrature(n_points)
        return self.repeated(points), np.tile(w, self.n_fields)

    def quadrature_for(self, n_modes: int) -> tuple[Array, Array]:
        """The rule of the domain that is fine enough, for each field."""
        points, w = self.domain.quadrature_for(self._modes_per_field(n_modes))
        return self.repeated(points), np.tile(w, self.n_fields)

    def grid(self, n_points: Any) -> Array:
        """The grid of the domain for each field."""
        return self.repeated(self.domain.grid(n_points))

    def grid_weights(self, points: Array) -> Array:
        """The rule of the domain on the points of each field."""
        which, x = self.split(points)
        out = np.zeros(len(which))
        for field in np.unique(which):
            out[which == field] = self.domain.grid_weights(x[which == field])
        return out

    @property
    def volume(self) -> float:
        """Of all copies."""
        return self.n_fields * self.domain.volume

    # -- points -----------------------------------------------------------------------

    def contains(self, points: Array) -> Array:
        """Whether there is such a field, and the place lies in the domain."""
        table = real_array("points", points)
        is_field = np.isin(table[:, 0], np.arange(self.n_fields))
        return is_field & self.domain.contains(self.split(table)[1])

    def check_points(self, points: Any) -> Array:
        """Points (n, 1 + d), or points of the domain, which then stand for every field."""
        if self._are_of_one_field(points):
            return self.repeated(self.domain.check_points(points))
        return super().check_points(points)

    @property
    def reach(self) -> str:
        """Numbers of the fields, and where each lives."""
        return f"fields 0 to {self.n_fields - 1} and {self.domain.reach}"

    def fix_outside(self, points: Array) -> str:
        """How to leave the number of the field out."""
        return "give the points of one field, which then stand for every field"

    def _are_of_one_field(self, points: Any) -> bool:
        """Whether points, or axes of a grid, have no column for the number of the field."""
        d = len(self.domain.dims)
        axes = isinstance(points, tuple | list) and any(np.ndim(axis) for axis in points)
        if axes and np.ndim(points[0]) == 1 and len(points) in (d, 1 + d):
            return len(points) == d
        shape = np.shape(points)
        return len(shape) == 1 if d == 1 else len(shape) == 2 and shape[1] == d

    def places(self, fields: xr.DataArray | Array) -> Places:
        """Points and labels; the dim ``variable`` has the names of the fields."""
        if isinstance(fields, xr.DataArray):
            self._check_names(fields)
        places = super().places(fields)
        if VARIABLE not in places.coords:
            return places
        dims, which = places.coords[VARIABLE]
        names = np.array(self.names)[numbered(which).astype(int)]
        return places._replace(coords={**places.coords, VARIABLE: (dims, names)})

    def _check_names(self, fields: xr.DataArray) -> None:
        if VARIABLE not in fields.coords:
            return
        labels = fields[VARIABLE].values
        names = list(dict.fromkeys(np.atleast_1d(labels).tolist()))
        if labels.dtype.kind not in "iuf" and names != list(self.names):
            expected = f"fields {', '.join(self.names)}, in this order"
            fix = f"data.sel(variable={list(self.names)}), or name them so"
            raise DomainError("fields", expected=expected, got=", ".join(map(str, names)), fix=fix)

    # -- files ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description that `spdelaw.domains.from_dict` turns back."""
        return {"name": self.name, "domain": self.domain.to_dict(), "names": list(self.names)}

    @classmethod
    def from_settings(cls, **settings: Any) -> Fields:
        """Fields from the description of their domain, and names."""
        from spdelaw.domains.registry import from_dict  # which needs this module

        given = settings.pop("domain")
        domain = given if isinstance(given, AbstractDomain) else from_dict(given)
        return cls(domain, **settings)
