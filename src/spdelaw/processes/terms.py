"""Terms of a semilinear equation: polynomials of the fields and their slopes, on the modes."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box, gradients
from spdelaw.domains.fields import Fields
from spdelaw.errors import DomainError, EquationError

# ---------- Polynomials of a field and its first derivatives, and their means under a Gaussian
#
# A monomial is a tuple of powers of ``(u, u_x, u_y, u_z)``. For Gaussian ``a`` with mean m and
# covariance V, integration by parts gives each mean from lower ones:
#
#     E[a_j X] = m_j E[X] + sum_k V_jk E[d X / d a_k].


Array = np.ndarray
Powers = tuple[int, ...]
#: Coefficient of each monomial, or its coefficients at many points.
Polynomial = dict[Powers, Any]

CONSTANT: Powers = (0, 0, 0, 0)
FEATURES = ("u", "u_x", "u_y", "u_z")
GRADIENT = "|grad u|^2"
#: Highest total power. Means of higher ones under a wide Gaussian lose all meaning.
HIGHEST_DEGREE = 7


@functools.cache
def _factors(features: tuple[str, ...]) -> re.Pattern:
    """A power of a feature, a number or, of one field, ``|grad u|^2``."""
    names = "|".join(map(re.escape, sorted(features, key=len, reverse=True)))
    number = r"(\d+\.?\d*(?:[eE][+-]?\d+)?)"
    gradient = f"|({re.escape(GRADIENT)})" if features == FEATURES else ""
    return re.compile(rf"({names})(?:\^(\d+))?|{number}{gradient}")


def parse(name: str, n_dims: int, features: tuple[str, ...] = FEATURES) -> Polynomial:
    """Polynomial from its ASCII name, for example ``u u_x`` or ``u - u^3``.

    Args:
        name: sums of products of numbers, ``u``, ``u_x``, ``u_y``, ``u_z`` and ``|grad u|^2``.
        n_dims: dimensions of the domain; ``|grad u|^2`` is the sum over them.
        features: names of what it is a polynomial of; of several fields their names.
    """
    text = " ".join(str(name).split())
    pieces = re.split(r"(?<![\^eE])\s*([+-])\s*", text if text[:1] in ("+", "-") else f"+{text}")
    out: Polynomial = {}
    for sign, product in zip(pieces[1::2], pieces[2::2], strict=True):
        for powers, value in _product(product, n_dims, features).items():
            out[powers] = out.get(powers, 0.0) + (value if sign == "+" else -value)
    if max(map(sum, out)) > HIGHEST_DEGREE:
        raise unknown_term(name, features)
    return out


def _product(text: str, n_dims: int, features: tuple[str, ...]) -> Polynomial:
    """Product of all factors; one of a degree that is refused where the text is something else."""
    factors, out = _factors(features), {CONSTANT: 1.0}
    if not text or factors.sub("", text).strip(" *"):
        return {_power_of(0, HIGHEST_DEGREE + 1): 1.0}
    for feature, power, number, *_ in factors.findall(text):
        if number:
            factor = {CONSTANT: float(number)}
        elif feature:
            factor = {_power_of(features.index(feature), int(power or 1)): 1.0}
        else:
            factor = {_power_of(k, 2): 1.0 for k in range(1, n_dims + 1)}
        out = _multiply(out, factor)
    return out


def _power_of(feature: int, power: int) -> Powers:
    return tuple(power if k == feature else 0 for k in range(4))


def _lowered(powers: Powers, feature: int) -> Powers:
    return tuple(p - (k == feature) for k, p in enumerate(powers))


def _multiply(first: Polynomial, second: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for p, a in first.items():
        for q, b in second.items():
            key = tuple(map(operator.add, p, q))
            out[key] = out.get(key, 0.0) + a * b
    return out


def unknown_term(name: object, features: tuple[str, ...] = FEATURES) -> EquationError:
    """Error for a name that is no polynomial of the field, or of the fields."""
    of, fix = f"u, u_x, u_y, u_z, or {GRADIENT}", "'u^3', 'u u_x', 'u_x^2', '|grad u|^2', 'u - u^3'"
    if features != FEATURES:
        of = ", ".join(features)
        fix = f"'{features[0]}', '{features[0]}^3' or '{' '.join(features[:2])}^2'"
    expected = f"a polynomial up to degree {HIGHEST_DEGREE} of {of}"
    return EquationError("terms", expected=expected, got=repr(name), fix=f"write {fix}")


def derivative(polynomial: Polynomial, feature: int) -> Polynomial:
    """``d g / d a_feature``."""
    return {_lowered(p, feature): p[feature] * v for p, v in polynomial.items() if p[feature]}


def features_of(polynomials: Iterable[Polynomial]) -> tuple[int, ...]:
    """Which of ``u, u_x, u_y, u_z`` appear."""
    every = [powers for g in polynomials for powers in g]
    return tuple(k for k in range(4) if any(powers[k] for powers in every))


class Means:
    """Means of monomials at many points; each is computed once, when it is needed.

    Args:
        mean: mean of each feature, by its number.
        covariance: covariance of each pair ``(j, k)``, j <= k, that can matter; without one the
            features are known numbers.
    """

    def __init__(self, mean: Mapping[int, Array], covariance: Mapping[tuple[int, int], Array]):
        """Nothing is computed yet."""
        self.mean, self.covariance = mean, covariance
        self._cache: dict[Powers, Array | float] = {CONSTANT: 1.0}

    def of(self, polynomial: Polynomial) -> Array | float:
        """``E g``; a number where it is the same at all points."""
        out: Array | float = 0.0
        for powers, value in polynomial.items():
            out = out + value * self._monomial(powers)
        return out

    def _monomial(self, powers: Powers) -> Array | float:
        if powers in self._cache:
            return self._cache[powers]
        j = next(k for k in range(4) if powers[k])
        lower = _lowered(powers, j)
        out = self.mean[j] * self._monomial(lower)
        for k in range(4):
            spread = self.covariance.get((min(j, k), max(j, k)))
            if lower[k] and spread is not None:
                out = out + lower[k] * spread * self._monomial(_lowered(lower, k))
        self._cache[powers] = out
        return out


# ---------- Terms of a semilinear equation on the modes of a domain
#
# With the field and its derivatives at quadrature points, ``a_j = A_j c``, and weights w,
#
#     F_n(c) = <f(u, grad u), h_n> = sum_i w_i h_n(x_i) f(A c)_i,    f = sum_t theta_t g_t.
#
# The rule is fine enough that the products are exact (dealiased), or exact to `ALIAS_TOLERANCE`.


#: Relative error of the projected product of random fields that counts as none.
ALIAS_TOLERANCE = 1e-9
#: The finest rule that is tried has this many times the points of the coarsest.
FINEST_FACTOR = 4.0
#: Names that the documentation lists; any polynomial of u and its derivatives may join them.
TERMS = ("1", "u", "u^2", "u^3", "u u_x", "u_x^2", "|grad u|^2")


@dataclasses.dataclass(frozen=True, eq=False)
class Reaction:
    """The terms bound to a domain and a number of modes.

    Attributes:
        names: ASCII name of each term.
        polynomials: the terms themselves.
        operators: ``A_j`` by feature, those of ``u, u_x, u_y, u_z`` that are needed, or of the
            fields; (n_points, n_modes).
        analysis: ``w_i h_n(x_i)``, (n_points, n_modes).
        volume: of the domain.
    """

    names: tuple[str, ...]
    polynomials: tuple[Polynomial, ...]
    operators: dict[int, Array]
    analysis: Array
    volume: float

    @property
    def n_modes(self) -> int:
        """How many modes the terms act on."""
        return self.analysis.shape[1]

    @property
    def features(self) -> tuple[int, ...]:
        """What the terms are polynomials of, by number."""
        return tuple(self.operators)

    def total(self, coefficients: Array) -> Polynomial:
        """``f = sum_t theta_t g_t``."""
        out: Polynomial = {}
        for weight, g in zip(coefficients, self.polynomials, strict=True):
            for powers, value in g.items():
                out[powers] = out.get(powers, 0.0) + float(weight) * value
        return out

    @functools.cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of features whose covariance enters a mean."""
        both = itertools.combinations_with_replacement(self.features, 2)
        return tuple(
            (j, k)
            for j, k in both
            if any(derivative(derivative(g, j), k) for g in self.polynomials)
        )

    @functools.cached_property
    def jacobian_products(self) -> dict[int, Array]:
        """``w_i h_n(x_i) A_j[i, m]`` by feature, (n_points, n_modes^2)."""
        return {j: _outer(self.analysis, a) for j, a in self.operators.items()}

    @functools.cached_property
    def covariance_products(self) -> dict[tuple[int, int], Array]:
        """``(A_j[i, n] A_k[i, m] + A_k[i, n] A_j[i, m]) / 2`` by pair, (n_points, n_modes^2)."""
        a = self.operators
        return {(j, k): 0.5 * (_outer(a[j], a[k]) + _outer(a[k], a[j])) for j, k in self.pairs}

    def at_points(self, state: Array) -> dict[int, Array]:
        """Each feature of coefficients (..., n_modes) at the points."""
        return {j: state @ a.T for j, a in self.operators.items()}

    def spread(self, variance: Array) -> dict[tuple[int, int], Array]:
        """Variance of each feature at the points for independent modes of this variance, (N,)."""
        return {(j, j): a**2 @ variance for j, a in self.operators.items()}

    def values(self, state: Array, spread: Mapping[tuple[int, int], Array] | None = None) -> Array:
        """``<g_t(u), h_n>`` of each term, (n_terms, ..., n_modes); its mean, given a spread."""
        means = Means(self.at_points(state), spread or {})
        out = np.empty((len(self.polynomials), *np.shape(state)))
        for t, g in enumerate(self.polynomials):
            out[t] = self.project(means.of(g), np.shape(state)[:-1])
        return out

    def project(self, values: Array | float, lead: tuple[int, ...]) -> Array:
        """``<g, h_n>`` of values at the points, (*lead, n_points) or alike; (*lead, n_modes)."""
        return np.broadcast_to(values, (*lead, len(self.analysis))) @ self.analysis

    def drift(self, total: Polynomial, state: Array) -> Array:
        """``F(c)`` of the `total` polynomial; (..., n_modes)."""
        value = Means(self.at_points(state), {}).of(total)
        return self.project(value, np.shape(state)[:-1])


def _outer(first: Array, second: Array) -> Array:
    return np.einsum("in,im->inm", first, second).reshape(len(first), -1)


def bind(
    names: Sequence[str],
    domain: AbstractDomain,
    n_modes: int,
    rule: tuple[Array, Array] | None = None,
) -> Reaction:
    """Terms of these names on a domain.

    Args:
        names: ASCII names.
        domain: where the field lives.
        n_modes: how many modes.
        rule: points and weights to compute products at; by default fine enough to be exact. The
            grid of a finite-difference scheme gives the products of that scheme.

    Raises:
        EquationError: a name is no polynomial, appears twice, or needs a derivative that the
            domain does not have.
    """
    names = check_names(names)
    n_dims = len(domain.dims)
    polynomials = tuple(parse(name, n_dims) for name in names)
    features = features_of(polynomials)
    _check_features(names, features, domain)
    degree = max((max(map(sum, g)) for g in polynomials), default=0)
    points, w = rule or quadrature(domain, n_modes, degree, any(features))
    h = domain.eigenfunctions(points, n_modes)
    tables = [h, *(gradients(domain, points, n_modes) if any(features) else ())]
    operators = {j: tables[j] for j in features}
    return Reaction(names, polynomials, operators, w[:, None] * h, domain.volume)


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names with single spaces, each once, in the order given."""
    listed = [names] if isinstance(names, str) else list(names)
    clean = tuple(" ".join(str(name).replace("*", " ").split()) for name in listed)
    if len(set(clean)) < len(clean):
        fix = "leave out the one that is repeated"
        raise EquationError("terms", expected="each term once", got=repr(list(listed)), fix=fix)
    return clean


def _check_features(names: Sequence[str], features: Sequence[int], domain: AbstractDomain) -> None:
    if not any(features):
        return
    try:
        n_dims = len(gradients(domain, domain.quadrature(4)[0][:1], 1))
    except DomainError as error:
        expected, got = f"terms without derivatives on {domain}", repr(list(names))
        raise EquationError("terms", expected=expected, got=got, fix=error.fix) from error
    if max(features) > n_dims:
        expected = f"derivatives along {domain.dims}"
        fix = f"use only {', '.join('u_' + d for d in domain.dims)}"
        raise EquationError("terms", expected=expected, got=repr(list(names)), fix=fix)


def quadrature(
    domain: AbstractDomain, n_modes: int, degree: int, slopes: bool = False
) -> tuple[Array, Array]:
    """The coarsest rule that integrates products of ``degree + 1`` modes; points and weights.

    It is found by trial on the product of random fields, against a much finer rule, so that any
    domain can take part. On a domain of finitely many points the rule is always exact.
    """
    first = _half_waves(domain, n_modes) * (degree + 1) // 2 + 1
    sizes = sorted({int(first * 1.1**k) + k for k in range(12)})
    fine = _projected_product(domain, n_modes, degree, int(FINEST_FACTOR * sizes[-1] / 2), slopes)
    for size in sizes:
        coarse = _projected_product(domain, n_modes, degree, size, slopes)
        if np.abs(coarse - fine).max() <= ALIAS_TOLERANCE * np.abs(fine).max():
            break
    return domain.quadrature(size)


def _half_waves(domain: AbstractDomain, n_modes: int) -> int:
    """About the half-waves of the highest mode along one dim."""
    indices = getattr(domain, "indices", None)
    if indices is not None:
        return int(indices(n_modes).max()) + 1
    return n_modes if len(domain.dims) == 1 else int(np.sqrt(n_modes)) + 1


def _projected_product(
    domain: AbstractDomain, n_modes: int, degree: int, size: int, slopes: bool
) -> Array:
    points, w = domain.quadrature(size)
    h = domain.eigenfunctions(points, n_modes)
    c = np.random.default_rng(0).standard_normal((3, n_modes))
    field = c @ h.T
    product = field ** max(degree, 1)
    if slopes:
        product = field ** max(degree - 1, 0) * (c @ gradients(domain, points, n_modes)[0].T)
    return (product * w) @ h


# ---------- Terms of several fields at once on the modes of their domain
#
# A term belongs to the equation of one field and is a polynomial of all of them, named
# ``u: u v^2`` for ``u v^2`` in the equation of ``u``. On the quadrature points of every field, one
# field after the other, all fields are features,
#
#     a_u = H c_u,  a_v = H c_v  at each point,     F_n(c) = sum_i w_i h_n(x_i) f(a, i),
#
# and the polynomial depends on whose point i is: its coefficients are arrays over the points, zero
# at those of other fields. With that the closure of one field moves several of them as it is.


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
    if unknown and all(_split_name(str(key))[0] in names for key in terms):
        return terms
    if unknown:
        expected = f"terms by field, of {', '.join(names)}"
        fix = f"pass terms={{{names[0]!r}: ('{names[0]}', ), {names[1]!r}: ('{names[0]}', )}}"
        raise EquationError("terms", expected=expected, got=repr(unknown[0]), fix=fix)
    for field, field_terms in terms.items():
        if isinstance(field_terms, str) or not isinstance(field_terms, Mapping | Sequence):
            expected = f"names in a tuple for field {field!r}"
            fix = f"pass {{{field!r}: ('{field}', '{field}^2')}}"
            raise EquationError("terms", expected=expected, got=repr(field_terms), fix=fix)
    pairs = [
        (f"{field}: {term}", (field_terms, term))
        for field, field_terms in terms.items()
        for term in field_terms
    ]
    if all(isinstance(field_terms, Mapping) for field_terms in terms.values()):
        return {name: field_terms[term] for name, (field_terms, term) in pairs}
    return tuple(name for name, _ in pairs)


def _split_name(name: str) -> tuple[str, str]:
    """Field and polynomial of a full name; an empty field where there is none."""
    field, colon, polynomial = name.partition(":")
    return (field.strip(), polynomial.strip()) if colon else ("", name)


def field_of(name: str) -> str:
    """Whose equation the term of this full name is in."""
    return _split_name(name)[0]


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
    for k, (term_field, text) in enumerate(map(_split_name, names)):
        for powers, value in parse(text, 3, features).items() if term_field == field else ():
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
            grid = _contract_axis(grid, table.T, len(lead) + k)
        return np.tile(grid.reshape(*lead, -1), self.n_fields)

    def project(self, values: Array | float, lead: tuple[int, ...]) -> Array:
        """``<g, h_n>`` of values at the points; (*lead, n_modes)."""
        sizes = tuple(len(t) for t in self.tables)
        whole = np.broadcast_to(values, (*lead, self.n_fields * int(np.prod(sizes))))
        grid = whole.reshape(*lead, self.n_fields, *sizes)
        for k, (table, w) in enumerate(zip(self.tables, self.rules, strict=True)):
            grid = _contract_axis(grid, w[:, None] * table, len(lead) + 1 + k)
        coefficients = grid[(..., *self.indices.T)]
        return np.swapaxes(coefficients, -1, -2).reshape(*lead, -1)

    @property
    def covariance_products(self) -> dict[tuple[int, int], Array]:
        """Refused, and with them the closure: they would not fit into memory."""
        what = "modes of all fields for filters, forecasts and likelihoods"
        expected, got = f"at most {MOST_DENSE} {what}", str(self.n_modes)
        fix = "draw from the law with law.sample(...), or fit fewer modes"
        raise EquationError("n_modes", expected=expected, got=got, fix=fix)


def _contract_axis(values: Array, matrix: Array, axis: int) -> Array:
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
    each, parts = n_modes // domain.n_fields, [_split_name(name) for name in names]
    for name, (field, _) in zip(names, parts, strict=True):
        if field not in domain.names:
            expected = f"the field of a term, of {', '.join(domain.names)}"
            fix = f"pass terms={{{domain.names[0]!r}: ({name!r}, )}}"
            raise EquationError("terms", expected=expected, got=repr(name), fix=fix)
    plain = [parse(text, 0, domain.names) for _, text in parts]
    degree = max((max(map(sum, g)) for g in plain), default=0)

    base, identity = domain.domain, np.eye(domain.n_fields)
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
    operators = {
        j: np.tile(np.kron(h, identity[j]), (len(identity), 1)) for j in features_of(plain)
    }
    analysis = np.concatenate([np.kron(w[:, None] * h, row) for row in identity])
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
