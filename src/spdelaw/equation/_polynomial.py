"""Polynomials of a field and its first derivatives, and their means under a Gaussian.

A monomial is a tuple of powers of ``(u, u_x, u_y, u_z)``. For Gaussian ``a`` with mean m and
covariance V, integration by parts gives each mean from lower ones:

    E[a_j X] = m_j E[X] + sum_k V_jk E[d X / d a_k].
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

import numpy as np

from spdelaw.errors import EquationError

Array = np.ndarray
Powers = tuple[int, int, int, int]
Polynomial = dict[Powers, float]

ONE: Powers = (0, 0, 0, 0)
FEATURES = ("u", "u_x", "u_y", "u_z")
GRADIENT = "|grad u|^2"
#: Highest total power. Means of higher ones under a wide Gaussian lose all meaning.
HIGHEST_DEGREE = 7


@functools.cache
def _factors(features: tuple[str, ...]) -> re.Pattern:
    """A power of a feature, a number, or ``|grad u|^2``."""
    names = "|".join(map(re.escape, sorted(features, key=len, reverse=True)))
    number = r"(\d+\.?\d*(?:[eE][+-]?\d+)?)"
    return re.compile(rf"({names})(?:\^(\d+))?|{number}|(\|grad u\|\^2)")


def parse(name: str, n_dims: int, features: tuple[str, ...] = FEATURES) -> Polynomial:
    """Polynomial from its ASCII name, for example ``u u_x`` or ``u - u^3``.

    Args:
        name: sums of products of numbers, ``u``, ``u_x``, ``u_y``, ``u_z`` and ``|grad u|^2``.
        n_dims: dimensions of the domain; ``|grad u|^2`` is the sum over them.
        features: names of what it is a polynomial of; of several fields their names.
    """
    out: Polynomial = {}
    text = " ".join(str(name).split())
    pieces = re.split(r"(?<!\^)(?<![eE])\s*([+-])\s*", text)
    pieces = pieces if pieces[0] == "" else ["+", *pieces]
    signs, products = [p for p in pieces if p in "+-" and p], [p for p in pieces if p not in "+-"]
    if not products or len(signs) != len(products):
        raise unknown_term(name, features)
    for sign, product in zip(signs, products, strict=True):
        for powers, value in _product(product, n_dims, name, features).items():
            out[powers] = out.get(powers, 0.0) + (value if sign == "+" else -value)
    if max(map(sum, out)) > HIGHEST_DEGREE:
        raise unknown_term(name, features)
    return out


def _product(text: str, n_dims: int, name: str, features: tuple[str, ...]) -> Polynomial:
    out: Polynomial = {ONE: 1.0}
    position = 0
    while position < len(text):
        found = _factors(features).match(text, position)
        if found is None or (found.group(4) and features != FEATURES):
            raise unknown_term(name, features)
        out = _multiply(out, _factor(found, n_dims, features))
        position = found.end()
        while position < len(text) and text[position] in " *":
            position += 1
    return out


def _factor(found: re.Match, n_dims: int, features: tuple[str, ...]) -> Polynomial:
    feature, power, number, _ = found.groups()
    if number is not None:
        return {ONE: float(number)}
    if feature is None:
        return {_unit(k, 2): 1.0 for k in range(1, n_dims + 1)}
    return {_unit(features.index(feature), int(power or 1)): 1.0}


def _unit(feature: int, power: int) -> Powers:
    return tuple(power if k == feature else 0 for k in range(4))  # type: ignore[return-value]


def _multiply(first: Polynomial, second: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for p, a in first.items():
        for q, b in second.items():
            key: Powers = tuple(i + j for i, j in zip(p, q, strict=True))  # type: ignore[assignment]
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


def derivative(polynomial: Mapping[Powers, float], feature: int) -> Polynomial:
    """``d g / d a_feature``."""
    out: Polynomial = {}
    for powers, value in polynomial.items():
        if powers[feature]:
            lower: Powers = tuple(p - (k == feature) for k, p in enumerate(powers))  # type: ignore[assignment]
            out[lower] = out.get(lower, 0.0) + powers[feature] * value
    return out


def features_of(polynomials: Iterable[Mapping[Powers, float]]) -> tuple[int, ...]:
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

    def of(self, polynomial: Mapping[Powers, float]) -> Array | float:
        """``E g``; a number where it is the same at all points."""
        out: Array | float = 0.0
        for powers, value in polynomial.items():
            out = out + value * self._monomial(powers)
        return out

    def _monomial(self, powers: Powers) -> Array | float:
        if powers in self._known:
            return self._known[powers]
        j = next(k for k in range(4) if powers[k])
        lower: Powers = tuple(p - (k == j) for k, p in enumerate(powers))  # type: ignore[assignment]
        out = self.mean[j] * self._monomial(lower)
        for k in range(4):
            spread = self.covariance.get((min(j, k), max(j, k)))
            if lower[k] and spread is not None:
                least: Powers = tuple(p - (i == k) for i, p in enumerate(lower))  # type: ignore[assignment]
                out = out + lower[k] * spread * self._monomial(least)
        self._known[powers] = out
        return out
