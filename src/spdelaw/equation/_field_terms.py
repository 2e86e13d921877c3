"""Terms of several fields at once on the modes of their domain.

A term belongs to the equation of one field and is a polynomial of all of them, named
``u: u v^2`` for ``u v^2`` in the equation of ``u``. On the quadrature points of every field, one
field after the other, all fields are features,

    a_u = H c_u,  a_v = H c_v  at each point,     F_n(c) = sum_i w_i h_n(x_i) f(a, i),

and the polynomial depends on whose point i is: its coefficients are arrays over the points, zero at
those of other fields. With that the closure of one field moves several of them as it is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Box, Fields
from spdelaw.equation._polynomial import FEATURES, Polynomial, features_of, parse
from spdelaw.equation._terms import Reaction, bind, check_names, quadrature
from spdelaw.errors import EquationError

Array = np.ndarray

#: Most modes of all fields whose products are kept as matrices, which the closure needs.
MOST_DENSE = 160


def flat_terms(terms: Any, names: Sequence[str]) -> Any:
    """Terms by field, ``{"u": ("u", "u v^2")}``, under their full names ``u: u v^2``.

    With coefficients by term, ``{"u": {"u": 1.0}}``, a mapping of the same form; what is flat
    already stays as it is.
    """
    if not isinstance(terms, Mapping):
        return terms
    unknown = [field for field in terms if field not in names]
    if unknown and all(_split(str(key))[0] in names for key in terms):
        return terms
    if unknown:
        expected = f"terms by field, of {', '.join(names)}"
        fix = f"pass terms={{{names[0]!r}: ('{names[0]}', ), {names[1]!r}: ('{names[0]}', )}}"
        raise EquationError("terms", expected=expected, got=repr(unknown[0]), fix=fix)
    for field, own in terms.items():
        if isinstance(own, str) or not isinstance(own, Mapping | Sequence):
            expected = f"names in a tuple for field {field!r}"
            fix = f"pass {{{field!r}: ('{field}', '{field}^2')}}"
            raise EquationError("terms", expected=expected, got=repr(own), fix=fix)
    pairs = [(f"{field}: {term}", (own, term)) for field, own in terms.items() for term in own]
    if all(isinstance(own, Mapping) for own in terms.values()):
        return {name: own[term] for name, (own, term) in pairs}
    return tuple(name for name, _ in pairs)


def _split(name: str) -> tuple[str, str]:
    """Field and polynomial of a full name; an empty field where there is none."""
    field, colon, rest = name.partition(":")
    return (field.strip(), rest.strip()) if colon else ("", name)


def field_of(name: str) -> str:
    """Whose equation the term of this full name is in."""
    return _split(name)[0]


def term_values(names: Sequence[str], fields: Mapping[str, Array], field: str = "") -> Array:
    """Terms where the fields have these values and no slopes, (n_terms, ...).

    Args:
        names: of the terms, full ones where there are several fields.
        fields: values by name, of one shape.
        field: whose equation it is; terms of the others are 0.
    """
    shape = np.shape(next(iter(fields.values())))
    features = tuple(fields) if len(fields) > 1 else FEATURES
    out = np.zeros((len(names), *shape))
    for k, (own, text) in enumerate(map(_split, names)):
        for powers, value in parse(text, 3, features).items() if own == field else ():
            if not any(powers[len(fields) :]):
                out[k] += value * math.prod(a**p for a, p in zip(fields.values(), powers))  # noqa: B905
    return out


@dataclasses.dataclass(frozen=True, eq=False)
class Separable(Reaction):
    """Terms on a box by sums along one dim after the other; no products of pairs of modes.

    Attributes:
        tables: values of the modes of each dim at its points, (points, modes).
        rules: weights of each dim.
        indices: position of each mode of a field in its dims, (n, d).
        n_fields: how many.
    """

    tables: tuple[Array, ...] = ()
    rules: tuple[Array, ...] = ()
    indices: Array = dataclasses.field(default_factory=lambda: np.zeros((0, 1), int))
    n_fields: int = 2

    @property
    def features(self) -> tuple[int, ...]:
        """All fields."""
        return tuple(range(self.n_fields))

    @property
    def n_modes(self) -> int:
        """How many modes the terms act on."""
        return self.n_fields * len(self.indices)

    def at_points(self, state: Array) -> dict[int, Array]:
        """Each field of coefficients (..., n_modes) at the points of all fields."""
        return {j: self._on_grid(state, j, self.tables) for j in self.features}

    def spread(self, variance: Array) -> dict[tuple[int, int], Array]:
        """Variance of each field at the points for independent modes of this variance."""
        squares = tuple(table**2 for table in self.tables)
        return {(j, j): self._on_grid(variance, j, squares) for j in self.features}

    def _on_grid(self, state: Array, j: int, tables: tuple[Array, ...]) -> Array:
        lead = np.shape(state)[:-1]
        grid = np.zeros((*lead, *(t.shape[1] for t in tables)))
        grid[(..., *self.indices.T)] = state[..., j :: self.n_fields]
        for k, table in enumerate(tables):
            grid = _along(grid, table.T, len(lead) + k)
        return np.tile(grid.reshape(*lead, -1), self.n_fields)

    def project(self, values: Array | float, lead: tuple[int, ...]) -> Array:
        """``<g, h_n>`` of values at the points; (*lead, n_modes)."""
        sizes = tuple(len(t) for t in self.tables)
        whole = np.broadcast_to(values, (*lead, self.n_fields * int(np.prod(sizes))))
        grid = whole.reshape(*lead, self.n_fields, *sizes)
        for k, (table, w) in enumerate(zip(self.tables, self.rules, strict=True)):
            grid = _along(grid, w[:, None] * table, len(lead) + 1 + k)
        found = grid[(..., *self.indices.T)]
        return np.swapaxes(found, -1, -2).reshape(*lead, -1)

    @property
    def covariance_products(self) -> dict[tuple[int, int], Array]:
        """Refused, and with them the closure: they would not fit into memory."""
        what = "modes of all fields for filters, forecasts and likelihoods"
        expected, got = f"at most {MOST_DENSE} {what}", str(self.n_modes)
        fix = "draw from the law with law.sample(...), or fit fewer modes"
        raise EquationError("n_modes", expected=expected, got=got, fix=fix)


def _along(values: Array, matrix: Array, axis: int) -> Array:
    """Sum over one axis against the rows of a matrix."""
    return np.moveaxis(np.moveaxis(values, axis, -1) @ matrix, -1, axis)


def bound(names: Sequence[str], domain: AbstractDomain, n_modes: int) -> Reaction:
    """Terms of one field or of several, as the domain has them."""
    if isinstance(domain, Fields):
        return bind_fields(check_names(names), domain, n_modes)
    return bind(names, domain, n_modes)


def bind_fields(names: tuple[str, ...], domain: Fields, n_modes: int) -> Reaction:
    """Terms of these full names on several fields.

    Raises:
        EquationError: a name has no field, or is no polynomial of the fields.
    """
    if n_modes % domain.n_fields:
        expected = f"as many modes of each of {domain.n_fields} fields"
        fix = f"pass n_modes={n_modes + domain.n_fields - 1}"
        raise EquationError("n_modes", expected=expected, got=str(n_modes), fix=fix)
    each, parts = n_modes // domain.n_fields, [_split(name) for name in names]
    for name, (field, _) in zip(names, parts, strict=True):
        if field not in domain.names:
            expected = f"the field of a term, of {', '.join(domain.names)}"
            fix = f"pass terms={{{domain.names[0]!r}: ({name!r}, )}}"
            raise EquationError("terms", expected=expected, got=repr(name), fix=fix)
    plain = [parse(text, 0, domain.names) for _, text in parts]
    degree = max((max(map(sum, g)) for g in plain), default=0)

    base, own = domain.domain, np.eye(domain.n_fields)
    if n_modes > MOST_DENSE and isinstance(base, Box):
        index = base.indices(each)
        sides = list(zip(base.factors, (int(n) + 1 for n in index.max(0)), strict=True))
        rules = [quadrature(side, n, degree) for side, n in sides]
        tables = tuple(
            side.eigenfunctions(x, n) for (side, n), (x, _) in zip(sides, rules, strict=True)
        )
        polynomials = _polynomials(parts, plain, domain.names, math.prod(map(len, tables)))
        return Separable(
            names, polynomials, {}, np.zeros((0, n_modes)), domain.volume, tables,
            tuple(w for _, w in rules), index, domain.n_fields,
        )  # fmt: skip
    points, w = quadrature(base, each, degree)
    h = base.eigenfunctions(points, each)
    operators = {j: np.tile(np.kron(h, own[j]), (len(own), 1)) for j in features_of(plain)}
    analysis = np.concatenate([np.kron(w[:, None] * h, row) for row in own])
    polynomials = _polynomials(parts, plain, domain.names, len(points))
    return Reaction(names, polynomials, operators, analysis, domain.volume)


def _polynomials(
    parts: list[tuple[str, str]], plain: list[Polynomial], names: tuple[str, ...], n_points: int
) -> tuple[Polynomial, ...]:
    """The polynomials with coefficients that are zero at the points of other fields."""
    out = []
    for (field, _), g in zip(parts, plain, strict=True):
        at = np.repeat(np.array([name == field for name in names], float), n_points)
        out.append({powers: value * at for powers, value in g.items()})
    return tuple(out)
