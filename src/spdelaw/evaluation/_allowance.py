"""What an estimated law may be wrong by, seen in its one-step errors.

With slopes ``X_j = dz / dtheta_j`` of one series and parameters known to ``theta ~ N(0, V)``,
errors of a right law have, given the states they start from, the covariance

    Cov z = I + X V X' = I + U s^2 U',

so ``e = z - U (1 - 1/sqrt(1 + s^2)) U' z`` is white again, however little the law was learned
from: information is counted, not paths. A parameter that nothing is known about has ``s`` infinite:
its direction is taken out.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import xarray as xr

from spdelaw.equation import Linear, operators
from spdelaw.evaluation._one_step import drift_units
from spdelaw.law import Law, coordinate_root

Array = np.ndarray

#: Singular values of unit columns below this are zero.
RANK = 1e-7


@dataclasses.dataclass(frozen=True, eq=False)
class Allowance:
    """How one series of errors may be off although the law is right.

    Attributes:
        out: orthonormal directions about which nothing is known, (n, k).
        along: orthonormal directions of uncertain parameters, (n, j).
        size: their standard deviations ``s``, (j,).
    """

    out: Array
    along: Array
    size: Array

    def whiten(self, columns: Array) -> Array:
        """Errors, or regressors, (n,) or (n, m), with the uncertain directions shrunk."""
        left = columns - self.out @ (self.out.T @ columns)
        pull = self.along.T @ left
        shrink = 1.0 - 1.0 / np.sqrt(1.0 + self.size**2)
        return left - self.along @ (shrink.reshape(-1, *[1] * (columns.ndim - 1)) * pull)

    def shift(self, z: Array) -> tuple[float, int]:
        """``sum (u'z)^2 / (1 + s^2)`` over the uncertain directions, and their number."""
        left = z - self.out @ (self.out.T @ z)
        return float(((self.along.T @ left) ** 2 / (1.0 + self.size**2)).sum()), len(self.size)


def allowance(free: Array, slopes: Array, root: Array, floor: float) -> Allowance:
    """From regressors that are free and slopes of parameters with the covariance ``root root'``.

    Args:
        free: (n, k).
        slopes: (n, j).
        root: (j, m).
        floor: size below which a direction is rounding.
    """
    unit = np.linalg.norm(free, axis=0)
    out = _basis(free / np.where(unit > 0, unit, 1.0), RANK)[0]
    x = slopes @ root
    return Allowance(out, *_basis(x - out @ (out.T @ x), floor))


def _basis(x: Array, floor: float) -> tuple[Array, Array]:
    """Orthonormal columns with the span of ``x``, and its singular values above a floor."""
    if not x.size:
        return np.zeros((len(x), 0)), np.zeros(0)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, s > floor], s[s > floor]


class Uncertainty(NamedTuple):
    """What is known about the parameters behind the slopes.

    Attributes:
        roots: changes of each series' decay (in `drift_units`), log noise and log observation noise
            by directions of unit variance, (j, series, free); None where the law does not say.
        n_train: one-step errors per series that the law was learned from.
        seen: whether the data are those the law was learned from, which it follows along the
            directions of its parameters.
    """

    roots: Array | None
    n_train: int
    seen: bool = False


def uncertainty(law: Law, n_series: int, unit: str, seen: bool) -> Uncertainty:
    """The covariance of the estimates, as relative changes of each mode's numbers."""
    info = law.info
    n_train = max(int(info["n_paths"] * (info["n_times"] - 1)), 1)
    table, space = law.coordinates, law.bare.state_space
    known = isinstance(law.dynamics, Linear) and unit == "mode"
    if table is None or "jacobian" not in table or not known:
        return Uncertainty(None, n_train, seen)
    columns = coordinate_root(table["covariance"].values)
    rows, linear = table["jacobian"].values @ columns, space.linear
    drift, noise = linear.drift, linear.noise
    decay = _diagonal(rows[: drift.size], drift) / drift_units(law)[:, None]
    strength = _diagonal(rows[drift.size :], noise) / operators.diagonal(noise)[:, None]
    parts = [decay, strength]
    if law.observation_variance.any():
        parts.append(_observation_rows(table, columns, space.n_modes))
    roots = np.stack(parts)
    return Uncertainty(_with_floor(roots, law)[:, :n_series], n_train, seen)


def _with_floor(roots: Array, law: Law) -> Array:
    """Decays no better known than the steps of the training data allow.

    Their information on a decay is ``sum_t dt E c_t^2 / q`` at most: one at its boundary, zero, has
    a curvature of its logarithm that says nothing. Estimates are off by about two over the whole
    duration besides, which for slow modes is more than their standard error.
    """
    linear, times = law.bare.linear, law.times
    dt = np.diff(times)
    energy = law.bare.equation.energy_spectrum(times[:-1]).values
    information = law.info["n_paths"] * (dt @ energy) / operators.diagonal(linear.noise)
    least = 1.0 / np.sqrt(np.maximum(information, 1e-300)) / drift_units(law)
    bias = 2.0 / (law.info["n_paths"] * dt.sum()) / drift_units(law)
    lacking = np.sqrt(np.maximum(least**2 - (roots[0] ** 2).sum(-1), 0.0) + bias**2)
    extra = np.zeros((*roots.shape[:2], len(lacking)))
    extra[0] = np.diag(lacking)
    return np.concatenate([roots, extra], -1)


def _diagonal(rows: Array, operator: Array) -> Array:
    """Rows of the diagonal of an operator; (N, free)."""
    n = len(operator)
    return rows if operator.ndim == 1 else rows.reshape(n, n, -1)[np.arange(n), np.arange(n)]


def _observation_rows(table: xr.Dataset, columns: Array, n_modes: int) -> Array:
    names = list(table["coordinate"].values)
    if "observation_std" not in names:
        return np.zeros((n_modes, columns.shape[1]))
    return np.tile(2.0 * columns[names.index("observation_std")], (n_modes, 1))
