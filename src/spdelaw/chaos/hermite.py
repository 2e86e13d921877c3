"""Normalised Hermite polynomials of the chaos coordinates, one for each multi-index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from spdelaw.chaos.multi_index import MultiIndex
from spdelaw.domain import Line
from spdelaw.errors import InputError

Array = np.ndarray


def hermite_chaos(indices: MultiIndex | Iterable[MultiIndex], coordinates: Any) -> Array:
    """``xi_alpha = prod_{k,l} H_{alpha_k^l}(xi_k^l) / sqrt(alpha!)`` (paper, eq. 7).

    Orthonormal for independent standard normal coordinates. The polynomials come from the
    recurrence of the normalised ones, so that no factorial overflows.

    Args:
        indices: one multi-index, or any iterable of them.
        coordinates: ``xi_k^l``, shape (..., K, L).

    Returns:
        Shape (...) for one multi-index, (..., n_indices) for several.

    Example:
        >>> xi = np.array([[2.0], [3.0]])  # K = 2, L = 1
        >>> hermite_chaos(MultiIndex({(1, 1): 2, (2, 1): 1}), xi).round(6)  # (2^2 - 1) / sqrt(2) 3
        np.float64(6.363961)
        >>> hermite_chaos([MultiIndex(), MultiIndex.unit(2, 1)], xi)
        array([1., 3.])
    """
    xi = np.asarray(coordinates, dtype=float)
    if xi.ndim < 2:
        expected, fix = "shape (..., K, L)", "add the axes: xi[:, None] for L = 1"
        raise InputError("coordinates", expected=expected, got=f"shape {xi.shape}", fix=fix)
    if isinstance(indices, MultiIndex):
        return _hermite_products([indices], xi)[..., 0]
    return _hermite_products(list(indices), xi)


def _hermite_products(indices: list[MultiIndex], xi: Array) -> Array:
    degrees: dict[tuple[int, int], int] = {}
    for alpha in indices:
        for pair, a in alpha.entries:
            degrees[pair] = max(a, degrees.get(pair, 0))
    tables = {pair: _polynomials(xi, pair, a) for pair, a in degrees.items()}
    out = np.ones((*xi.shape[:-2], len(indices)))
    for i, alpha in enumerate(indices):
        for pair, a in alpha.entries:
            out[..., i] *= tables[pair][..., a]
    return out


def _polynomials(xi: Array, pair: tuple[int, int], degree: int) -> Array:
    """``H_a / sqrt(a!)`` of ``xi_k^l`` for a = 0 ... degree; shape (..., degree + 1)."""
    k, l = pair
    if k > xi.shape[-2] or l > xi.shape[-1]:
        expected = f"at least K = {k} and L = {l} for a multi-index at ({k}, {l})"
        fix = "keep to multi-indices of TruncationSet(K, L, ...)"
        raise InputError("coordinates", expected=expected, got=f"shape {xi.shape}", fix=fix)
    return Line().eigenfunctions(xi[..., k - 1, l - 1], degree + 1)
