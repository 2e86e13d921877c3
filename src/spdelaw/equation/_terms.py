"""Terms of a semilinear equation on the modes of a domain.

With the field and its derivatives at quadrature points, ``a_j = A_j c``, and weights w,

    F_n(c) = <f(u, grad u), h_n> = sum_i w_i h_n(x_i) f(A c)_i,    f = sum_t theta_t g_t.

The rule is fine enough that the products are exact (dealiased), or exact to `ALIAS`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from spdelaw.domain import AbstractDomain, gradients
from spdelaw.equation._polynomial import Means, Polynomial, derivative, features_of, parse
from spdelaw.errors import DomainError, EquationError

Array = np.ndarray

#: Relative error of the projected product of random fields that counts as none.
ALIAS = 1e-9
#: The finest rule that is tried has this many times the points of the coarsest.
FINEST = 4.0
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
    first = _waves(domain, n_modes) * (degree + 1) // 2 + 1
    sizes = sorted({int(first * 1.1**k) + k for k in range(12)})
    fine = _projected(domain, n_modes, degree, int(FINEST * sizes[-1] / 2), slopes)
    for size in sizes:
        found = _projected(domain, n_modes, degree, size, slopes)
        if np.abs(found - fine).max() <= ALIAS * np.abs(fine).max():
            break
    return domain.quadrature(size)


def _waves(domain: AbstractDomain, n_modes: int) -> int:
    """About the half-waves of the highest mode along one dim."""
    indices = getattr(domain, "indices", None)
    if indices is not None:
        return int(indices(n_modes).max()) + 1
    return n_modes if len(domain.dims) == 1 else int(np.sqrt(n_modes)) + 1


def _projected(domain: AbstractDomain, n_modes: int, degree: int, size: int, slopes: bool) -> Array:
    points, w = domain.quadrature(size)
    h = domain.eigenfunctions(points, n_modes)
    c = np.random.default_rng(0).standard_normal((3, n_modes))
    field = c @ h.T
    product = field ** max(degree, 1)
    if slopes:
        product = field ** max(degree - 1, 0) * (c @ gradients(domain, points, n_modes)[0].T)
    return (product * w) @ h
