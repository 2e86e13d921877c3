"""The information around a point, taken apart: Newton steps, and directions that nothing bends.

In coordinates scaled to standard errors, by Cholesky where that holds and by eigenvectors else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

Array = np.ndarray


class Bend(NamedTuple):
    """Information in scaled coordinates, taken apart once.

    Attributes:
        scale: rough standard errors.
        factor: lower Cholesky factor of the information with rows and columns backwards, where it
            has one and no direction without information.
        values, vectors: eigenvalues and eigenvectors where not.
    """

    scale: Array
    factor: Array | None
    values: Array
    vectors: Array

    @classmethod
    def of(cls, information: Array, scale: Array) -> Bend:
        """Taken apart by the cheaper way that holds."""
        scale = balanced(information, scale)
        scaled = scale[:, None] * information * scale
        factor = well_conditioned_factor(scaled[::-1, ::-1])
        if factor is not None:
            return cls(scale, factor, np.ones(0), np.ones((len(scale), 0)))
        return cls(scale, None, *np.linalg.eigh(scaled))

    def step(self, gradient: Array) -> Array:
        """Newton step on the directions that carry information, uphill also at a saddle.

        No coordinate moves by more than three standard errors or one, whichever is more.
        """
        slope, scale = self.scale * gradient, self.scale
        if self.factor is not None:
            known = (self.factor, True)
            step = scipy.linalg.cho_solve(known, slope[::-1], check_finite=False)[::-1]
        else:
            sizes = np.abs(self.values)
            usable = sizes > 1e-6 * max(sizes.max(initial=0.0), 1e-12)
            part = self.vectors[:, usable]
            step = part @ ((part.T @ slope) / sizes[usable])
        longest = max(np.abs(step).max(initial=0.0), 1e-300)
        farthest = max(np.abs(scale * step).max(initial=0.0), 1e-300)
        return np.asarray(scale * step * min(1.0, max(3.0 / longest, 1.0 / farthest)))

    def decrement(self, gradient: Array) -> float:
        """Log-likelihood that a step gains where it is quadratic."""
        return float(0.5 * gradient @ self.step(gradient))

    def uphill(self, gradient: Array) -> float:
        """Slope in the directions that a Newton step leaves out, where nothing bends it down."""
        flat = self.vectors[:, self.values <= 1e-6 * max(self.values.max(initial=0.0), 1e-12)]
        return float(np.linalg.norm(flat.T @ (self.scale * gradient)))


def balanced(information: Array, scale: Array) -> Array:
    """Rough standard errors, smaller where the information says so.

    Beside a coordinate whose error was supposed to be hundreds of times too large, every other
    direction looks as if it had no information.
    """
    return scale / np.sqrt(np.maximum(scale**2 * np.diag(information), 1.0))


def well_conditioned_factor(matrix: Array) -> Array | None:
    """Lower Cholesky factor of a symmetric matrix whose condition number is below 1e5, or None."""
    if not len(matrix) or not np.isfinite(matrix).all():
        return None
    # Symmetric: rows of a C array are the columns that LAPACK wants.
    factor, failed = scipy.linalg.lapack.dpotrf(np.ascontiguousarray(matrix).T, lower=1, clean=1)
    if failed:
        return None
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.abs(matrix).sum(0).max(), uplo="L")
    return factor if reciprocal > 1e-5 else None
