"""Sample moments of fields with their Monte-Carlo error.

An estimate is a mean over paths of something computed path by path, so its standard error
is that mean's; correlation between points, times and modes needs no model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import DataError
from spdelaw.report._paths import as_paths

Array = np.ndarray

#: Two-sided 95 % of a normal.
Z95 = 1.959963984540054
#: Normal equations worse conditioned than this give coefficients that mean nothing.
MAX_CONDITION = 1e12


class Estimate(NamedTuple):
    """Estimates and their standard errors, of one shape."""

    value: Array
    error: Array

    def interval(self) -> tuple[Array, Array]:
        """95 % limits, normal on the log scale: the moments are positive and skewed."""
        v = self.value
        ratio = np.divide(self.error, v, out=np.zeros_like(v), where=v > 0)
        return v * np.exp(-Z95 * ratio), v * np.exp(Z95 * ratio)


def averaged_variance(fields: xr.DataArray, domain: AbstractDomain) -> Estimate:
    """``1/|D| int Var X(t, x) dx`` by the domain's rule on the grid of the fields; (time,).

    On the line the weight is the Gaussian density and ``|D| = 1`` (paper, Appendix A). On the
    regular grid of an interval this is ``1/|D| sum_n Var c_n``. NaN is missing; a time at
    which some point has fewer than two paths is NaN.
    """
    fields = domain.flatten(as_paths(fields, domain.dims, at_least=2))
    w = spatial_weights(domain, domain.places(fields).points)
    rows = [_averaged_variance(fields.isel(time=t).values, w) for t in range(fields.sizes["time"])]
    return Estimate(*np.array(rows).T)


def spatial_weights(domain: AbstractDomain, points: Array) -> Array:
    """Weights of the spatial mean of Appendix A on a grid; shape (n_points,)."""
    return domain.grid_weights(points) / domain.volume


def _averaged_variance(values: Array, w: Array) -> tuple[float, float]:
    """Estimate and standard error from one time, (n_paths, n_points).

    The influence of a path is ``sum_x w (X - m)^2 / f`` with f the share of paths seen at x.
    """
    seen = np.isfinite(values)
    n, count = len(values), seen.sum(0)
    if (count < 2).any():
        return np.nan, np.nan
    values = np.where(seen, values, 0.0)
    deviation = np.where(seen, values - values.sum(0) / count, 0.0) ** 2
    v = deviation.sum(0) / (count - 1)
    influence = (deviation - seen * v) @ (w * n / count)
    return float(w @ v), float(influence.std(ddof=1) / np.sqrt(n))


def energy(coefficients: xr.DataArray) -> Estimate:
    """``E c_n^2`` from coefficients (path, mode); paths with NaN are left out, mode by mode."""
    square = coefficients.transpose("path", "mode").values ** 2
    count = np.isfinite(square).sum(0)
    if (count < 2).any():
        expected = "at least 2 complete paths at this time"
        fix = "choose another time, or fewer modes"
        raise DataError("fields", expected=expected, got=str(count.min()), fix=fix)
    return Estimate(np.nanmean(square, 0), np.nanstd(square, 0, ddof=1) / np.sqrt(count))


def coefficients_at(
    fields: xr.DataArray, equation: SpectralSPDE, times: Any, n_modes: int | None = None
) -> xr.DataArray:
    """Coefficients (path, time, mode) at the times nearest to the given ones.

    Raises `DataError` where the grid cannot tell the modes apart: least squares would still
    return numbers.
    """
    domain, n = equation.domain, equation.n_modes if n_modes is None else n_modes
    chosen = as_paths(fields, domain.dims, at_least=2).sel(
        time=np.atleast_1d(times), method="nearest"
    )
    c = domain.analyse(chosen, n)
    if c.attrs["condition"] > MAX_CONDITION:
        raise DataError(
            "fields",
            expected=f"a grid that tells {n} modes apart",
            got=f"{len(domain.places(chosen).points)} points with condition "
            f"{c.attrs['condition']:.2g}",
            fix="simulate fewer modes, or on the points of domain.quadrature(n)",
        )
    return c
