"""One series of errors, made white, and regressions on it.

Under the right law no regressor that is known before a step explains anything: the F statistic of
a regression of the white errors on it has its textbook distribution. The gain in log-likelihood
that a richer model promises is ``n/2 log(1 + explained / left)`` less what chance explains, half a
nat for each number.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.evaluation._allowance import Allowance, Uncertainty, allowance

Array = np.ndarray

#: Fewest errors of a series that are tested.
FEWEST = 20
#: Size of a direction, relative to that of a change of scale, that differences do not resolve.
ROUNDING = 1e-3
#: Length of a unit column from which on it differs from those that were taken out.
LEFT = 0.03
#: Uncertainty, in standard errors, of a law on the very data it follows: nothing is left to test.
FOLLOWED = 1e6


class Explained(NamedTuple):
    """Sums of squares of a regression: explained by ``k`` columns, left over, and how many left."""

    explained: float
    left: float
    k: int
    n: int

    @property
    def p_value(self) -> float:
        """Of the F statistic; NaN where nothing was regressed."""
        if self.k < 1 or self.n < 5 or self.left <= 0:
            return float("nan")
        f = self.explained / self.k / (self.left / self.n)
        return float(scipy.special.fdtrc(self.k, self.n, f))

    @property
    def gain(self) -> float:
        """Nats that the columns promise beyond chance."""
        if self.left <= 0:
            return 0.0
        n = self.n + self.k
        return max(0.5 * n * float(np.log1p(self.explained / self.left)) - 0.5 * self.k, 0.0)


NOTHING = Explained(0.0, 0.0, 0, 0)


def together(parts: list[Explained]) -> Explained:
    """Several regressions of series of equal variance as one."""
    some = [part for part in parts if part.k]
    return Explained(*(sum(column) for column in zip(*some, strict=True))) if some else NOTHING


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """Errors of one series where they are seen.

    Attributes:
        at: where they are, boolean (path, time).
        z: standardised by the law, (n,).
        e: white and of variance 1, (n,).
        scale: variance of the errors, 1 under the law.
        log_error: standard error of its logarithm that the estimate of the law alone makes.
        allowance: for what the law may be wrong by.
    """

    at: Array
    z: Array
    e: Array
    scale: float
    log_error: float
    allowance: Allowance

    @property
    def n(self) -> int:
        """How many errors."""
        return len(self.z)

    def column(self, values: Array) -> Array:
        """Values (path, time, ...) where the series is seen; what is not seen counts as zero."""
        return np.nan_to_num(values[self.at])

    def regress(self, columns: Array, *, free: Array | None = None) -> Explained:
        """White errors on columns (n, k), given others that are free (n, m)."""
        x, y = self.allowance.whiten(unit(columns)), self.e
        lost = self.allowance.out.shape[1]
        if free is not None:
            basis = span(self.allowance.whiten(unit(free)))
            x, y = x - basis @ (basis.T @ x), y - basis @ (basis.T @ y)
            lost += basis.shape[1]
        basis = span(x)
        explained = float(((basis.T @ y) ** 2).sum())
        k = basis.shape[1]
        return Explained(explained, float(y @ y) - explained, k, self.n - k - lost)


def unit(x: Array) -> Array:
    """Columns of unit length; those of zeros stay."""
    size = np.linalg.norm(x, axis=0)
    return x / np.where(size > 0, size, 1.0)


def span(x: Array) -> Array:
    """Orthonormal columns with the span of ``x``, whose columns once were of unit length.

    What an allowance leaves hardly anything of, it leaves rounding of.
    """
    if not x.shape[1]:
        return x
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, s > LEFT]


def make_series(
    z: Array, slopes: Array, growth: Array, free: Array, known: Uncertainty, index: int
) -> Series | None:
    """Series ``index`` of errors (path, time); None where too few are seen.

    Args:
        z: errors, (path, time).
        slopes: ``dz / dtheta_j``, (j, path, time).
        growth: ``dlog sigma / dtheta_j``, (j, path, time).
        free: columns that the law leaves free, (path, time, k).
        known: about the parameters.
        index: of the series.
    """
    at = ~np.isnan(z)
    if at.sum() < FEWEST + free.shape[-1]:
        return None
    y, x, root = z[at], np.nan_to_num(slopes[:, at]).T, known.roots
    if root is None:
        log_error, x, root, floor = np.sqrt(2.0 / known.n_train), x[:, :0], np.zeros((0, 0)), 0.0
    else:
        # As many directions as parameters, whatever the number of columns of the root.
        root = np.asarray(np.linalg.qr(root[:, index].T, mode="r")).T
        grow = np.nan_to_num(growth[:, at]).T @ root
        log_error = float(2.0 * np.linalg.norm(grow.mean(0)))
        # Changes of scale may cancel, as of a fast mode's decay and noise; their rounding does not.
        each = np.abs(np.nan_to_num(growth[:, at])).T @ np.linalg.norm(root, axis=1)
        floor = ROUNDING * float(np.linalg.norm(y * each))
    if known.seen:
        root, floor = FOLLOWED * root, FOLLOWED * floor
    own = allowance(np.nan_to_num(free[at]), x, root, floor)
    e = own.whiten(y)
    left = float(e @ e) / (len(y) - own.out.shape[1])
    # Maximum likelihood divides by all errors, not by those that its parameters leave.
    scale = float(y @ y) / len(y) if known.seen else left
    return Series(at, y, e / np.sqrt(left), scale, log_error, own)
