"""Sample moments of the modes against their closed forms, with one verdict."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.equation import SpectralSPDE
from spdelaw.errors import DataError
from spdelaw.report._estimates import coefficients_at

Array = np.ndarray

#: How often a verdict may be "no" although the law is the right one.
FALSE_ALARM_RATE = 1e-4


class Verdict(NamedTuple):
    """Joint answer of all comparisons.

    Attributes:
        agrees: no comparison lies beyond the bound.
        largest: the largest ``|z|``.
        bound: what the largest may be, Bonferroni over all comparisons.
        n_comparisons: how many there are.
        false_alarm_rate: at most this often ``agrees`` is False under the right law.
    """

    agrees: bool
    largest: float
    bound: float
    n_comparisons: int
    false_alarm_rate: float


def compare_moments(fields: xr.DataArray, equation: SpectralSPDE, times: Any) -> xr.Dataset:
    """Mean and variance of every mode: closed form, sample and z-score; dims (time, mode).

    Coefficients are Gaussian, so under the equation's law both z-scores are exactly standard
    normal: that of the mean from its known variance, that of the variance from its
    chi-square distribution with ``n_paths - 1`` degrees of freedom.

    Args:
        fields: complete paths (path, time, x), simulated or observed.
        equation: the law to compare with.
        times: after the initial one; the nearest observed ones are used.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import compare_moments, verdict
        >>> equation = sl.catalogue.heat(n_modes=4)
        >>> table = compare_moments(sl.simulate(equation, 200, seed=0), equation, [0.5, 1.0])
        >>> verdict(table).agrees
        True
    """
    c = coefficients_at(fields, equation, times).transpose("path", "time", "mode")
    t, n = c["time"].values, c.sizes["path"]
    mean, variance = equation.mean(t), equation.variance(t)
    if not (np.isfinite(c).all() and (variance > 0).all()):
        expected = "complete rows at times at which every mode varies"
        got = "missing coefficients" if (variance > 0).all() else f"times {t}"
        fix = "fill the gaps first; leave out the initial time"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    m, v = c.mean("path"), c.var("path", ddof=1)
    return xr.Dataset(
        {
            "mean": mean, "mean_sample": m, "mean_z": (m - mean) / np.sqrt(variance / n),
            "variance": variance, "variance_sample": v,
            "variance_z": (("time", "mode"), _normal_score((n - 1) * (v / variance).values, n - 1)),
        },
        attrs={"n_paths": n},
    )  # fmt: skip


def verdict(table: xr.Dataset, false_alarm_rate: float = FALSE_ALARM_RATE) -> Verdict:
    """Whether all z-scores of `compare_moments` together are what chance allows."""
    z = np.abs(np.concatenate([table["mean_z"].values, table["variance_z"].values], axis=None))
    bound = float(-scipy.special.ndtri(false_alarm_rate / (2 * z.size)))
    largest = float(z.max())
    return Verdict(largest < bound, largest, bound, z.size, false_alarm_rate)


def _normal_score(x: Array, degrees: int) -> Array:
    """The standard normal quantile at the probability of a chi-square value."""
    # Each half from its own tail: 1 - p loses every digit beyond z = 8.
    upper = -scipy.special.ndtri(scipy.special.chdtrc(degrees, x))
    return np.where(upper > 0, upper, scipy.special.ndtri(scipy.special.chdtr(degrees, x)))
