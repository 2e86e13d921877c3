"""First derivatives of the modes, where the domain has coordinates to differentiate along.

On an interval ``d/dx sin(k x) = k cos(k x)`` and ``d/dx cos(k x) = -k sin(k x)``; on a box one
factor of the product is differentiated.
"""

from __future__ import annotations

import numpy as np

from spdelaw.domain._base import AbstractDomain
from spdelaw.domain._box import Box
from spdelaw.domain._interval import Interval
from spdelaw.errors import DomainError

Array = np.ndarray


def gradients(domain: AbstractDomain, points: Array, n_modes: int) -> Array:
    """``d h_n / d x_k`` at the points; (d, n_points, n_modes).

    Example:
        >>> import numpy as np
        >>> round(float(gradients(Interval(0, np.pi), np.array([0.0]), 1)[0, 0, 0]), 6)
        0.797885
    """
    if isinstance(domain, Interval):
        return _slopes(domain, points, n_modes)[None]
    if isinstance(domain, Box):
        return _box_gradients(domain, np.asarray(points, float), n_modes)
    expected = "an Interval or a Box, whose modes have known derivatives"
    fix = "use terms without derivatives, such as 'u' and 'u^3'"
    raise DomainError("domain", expected=expected, got=repr(domain), fix=fix)


def _slopes(domain: Interval, points: Array, n_modes: int) -> Array:
    k = np.sqrt(domain.eigenvalues(n_modes))
    angle = np.multiply.outer(np.asarray(points, float) - domain.a, k)
    is_sine = np.full(n_modes, domain.boundary == "dirichlet")
    if domain.boundary == "periodic":
        is_sine = np.arange(n_modes) % 2 == 0
    slope = np.where(is_sine, np.cos(angle), -np.sin(angle))
    return slope * k * np.sqrt(2.0 / domain.volume)


def _box_gradients(box: Box, points: Array, n_modes: int) -> Array:
    index = box.indices(n_modes)
    tables = []
    for factor, column, order in zip(box.factors, points.T, index.T, strict=True):
        most = int(order.max()) + 1
        value = factor.eigenfunctions(column, most)[:, order]
        tables.append((value, _slopes(factor, column, most)[:, order]))
    out = np.ones((len(tables), len(points), n_modes))
    for k in range(len(tables)):
        for j, (value, slope) in enumerate(tables):
            out[k] *= slope if j == k else value
    return out
