"""The metric of a search over coupled modes: information that the model itself expects.

A drift and a noise covariance of N modes have about 3/2 N^2 coordinates, which the data tie to one
another. In coordinates in which the expected information is the identity a quasi-Newton method
needs a few dozen evaluations, whatever the number of modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.equation import operators
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.model import (
    Block,
    Collapsed,
    StateSpace,
    Statistics,
    Tangents,
    complete_information,
    expected_information,
    tangents,
)

Array = np.ndarray

#: Parts whose coordinates have a metric, in the order of the full vector.
PARTS = ("drift", "noise", "observation")
#: Least eigenvalue of a mean Gram matrix, relative to its largest.
LEAST_SEEN = 1e-6


class Metric(NamedTuple):
    """Expected information on some coordinates.

    Attributes:
        dt: length of the steps.
        of: information along the directions of tangents, (p, p), or (p + 1, p + 1) with that of the
            logarithm of the observation variance last.
        exact: whether this is the curvature of the log-likelihood at its maximum.
    """

    dt: float
    of: Callable[[StateSpace, Tangents], Array]
    exact: bool = False

    @staticmethod
    def positions(parametrisation: Parametrisation) -> Array:
        """Of these coordinates in the full vector."""
        every, slices = np.arange(len(parametrisation.names)), parametrisation.slices
        return np.concatenate([every[slices[part]] for part in PARTS if part in slices])

    def information(self, parametrisation: Parametrisation, full: Array) -> Array | None:
        """On all coordinates of drift, noise and observation variance, (p, p), or None.

        None where it is not finite, or where the law has no tangents.
        """
        space = parametrisation.state_space(full)
        by_drift, by_noise = (_directions(parametrisation, x, full) for x in PARTS[:2])
        way = tangents(space, by_drift, by_noise, self.dt)
        if way is None:
            return None
        found, n = self.of(space, way), len(by_drift) + len(by_noise)
        if "observation" in parametrisation.parts:
            found[-1, :] *= 2.0  # of the deviation's logarithm
            found[:, -1] *= 2.0
        else:
            found = found[:n, :n]
        return found if np.isfinite(found).all() else None


def _directions(parametrisation: Parametrisation, part: str, full: Array) -> Array:
    """Derivatives of an operator by its coordinates, as matrices (p, N, N)."""
    stack = np.moveaxis(parametrisation.jacobian(part, full), -1, 0)
    return stack if stack.ndim == 3 else operators.embed(stack)


def metric_of_sums(s: Statistics) -> Metric:
    """Metric of complete, noise-free paths; exact where all steps are of one length."""
    n_steps, before = s.of_pairs.n_steps, s.of_pairs.before
    u, n = int(n_steps.argmax()), float(n_steps.sum())
    scaled = before[u] * (n / n_steps[u])

    def of(_: StateSpace, way: Tangents) -> Array:
        return complete_information(way, n, scaled)

    return Metric(float(s.lengths[0][u]), of, len(n_steps) == 1)


def metric_of_rows(collapsed: Collapsed, dt: float, spare: float) -> Metric:
    """Metric of rows seen with noise, all taken for rows of their mean Gram matrix.

    Args:
        collapsed: the rows.
        dt: most frequent step.
        spare: numbers outside the modes that speak about the observation variance.
    """
    parts = collapsed.over(_gram_sum)
    total, rows = (sum(part[i] for part in parts) for i in range(2))
    values, vectors = np.linalg.eigh(total / max(rows, 1.0))
    seen = np.maximum(values, LEAST_SEEN * values[-1])
    inverse = (vectors / seen) @ vectors.T

    def of(space: StateSpace, way: Tangents) -> Array:
        error = float(space.observation_variance) * inverse
        found = expected_information(way, error, rows)
        found[-1, -1] += 0.5 * spare
        return found

    return Metric(dt, of)


def _gram_sum(block: Block) -> tuple[Array, float]:
    """Gram matrices summed over rows that see anything, and how many; (N, N)."""
    gram = block.gram
    count = len(block.paths) if gram.shape[-1] == 1 else 1
    total = np.diag(gram.sum((0, 2))) if block.is_diagonal else gram.sum((0, 3))
    return count * total, float(count * (block.diagonal > 0).any(1).sum())
