"""Polynomials of a field and its first derivatives, and their means under a Gaussian.

A monomial is a tuple of powers of ``(u, u_x, u_y, u_z)``. For Gaussian ``a`` with mean m and
covariance V, integration by parts gives each mean from lower ones:

    E[a_j X] = m_j E[X] + sum_k V_jk E[d X / d a_k].
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from spdelaw.errors import EquationError

Array = np.ndarray
Powers = tuple[int, ...]
#: Coefficient of each monomial, or its coefficients at many points.
Polynomial = dict[Powers, Any]

ONE: Powers = (0, 0, 0, 0)
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
    factors, out = _factors(features), {ONE: 1.0}
    if not text or factors.sub("", text).strip(" *"):
        return {_unit(0, HIGHEST_DEGREE + 1): 1.0}
    for feature, power, number, *_ in factors.findall(text):
        if number:
            factor = {ONE: float(number)}
        elif feature:
            factor = {_unit(features.index(feature), int(power or 1)): 1.0}
        else:
            factor = {_unit(k, 2): 1.0 for k in range(1, n_dims + 1)}
        out = _multiply(out, factor)
    return out


def _unit(feature: int, power: int) -> Powers:
    return tuple(power if k == feature else 0 for k in range(4))


def _lower(powers: Powers, feature: int) -> Powers:
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
    return {_lower(p, feature): p[feature] * v for p, v in polynomial.items() if p[feature]}


def features_of(polynomials: Iterable[Polynomial]) -> tuple[int, ...]:
    """Which of ``u, u_x, u_y, u_z`` appear."""
    every = [powers for g in polynomials for powers in g]
    return tuple(k for k in range(4) if any(powers[k] for powers in every))


class Means:
    """Means of monomials at many points; each is computed once, when it is asked for.

    Args:
        mean: mean of each feature, by its number.
        covariance: covariance of each pair ``(j, k)``, j <= k, that can matter; without one the
            features are known numbers.
    """

    def __init__(self, mean: Mapping[int, Array], covariance: Mapping[tuple[int, int], Array]):
        """Nothing is computed yet."""
        self.mean, self.covariance = mean, covariance
        self._known: dict[Powers, Array | float] = {ONE: 1.0}

    def of(self, polynomial: Polynomial) -> Array | float:
        """``E g``; a number where it is the same at all points."""
        out: Array | float = 0.0
        for powers, value in polynomial.items():
            out = out + value * self._monomial(powers)
        return out

    def _monomial(self, powers: Powers) -> Array | float:
        if powers in self._known:
            return self._known[powers]
        j = next(k for k in range(4) if powers[k])
        lower = _lower(powers, j)
        out = self.mean[j] * self._monomial(lower)
        for k in range(4):
            spread = self.covariance.get((min(j, k), max(j, k)))
            if lower[k] and spread is not None:
                out = out + lower[k] * spread * self._monomial(_lower(lower, k))
        self._known[powers] = out
        return out
