"""Sample moments of fields and their closed forms: variance over time, energy of modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import checked
from spdelaw.domains import hermite
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import DataError
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.specification import check_times
from spdelaw.report.figures.charts import Z95, Band, Chart, Line, Panel
from spdelaw.report.figures.draw import COLUMN, as_paths, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# ---------- Sample moments of fields with their Monte-Carlo error
#
# An estimate is a mean over paths of something computed path by path, so its standard error
# is that mean's; correlation between points, times and modes needs no model.


Array = np.ndarray

#: Normal equations worse conditioned than this give useless coefficients.
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

    The influence of a path is ``sum_x w (X - m)^2 / f`` with f the share of paths observed at x.
    """
    observed = np.isfinite(values)
    n, count = len(values), observed.sum(0)
    if (count < 2).any():
        return np.nan, np.nan
    values = np.where(observed, values, 0.0)
    deviation = np.where(observed, values - values.sum(0) / count, 0.0) ** 2
    v = deviation.sum(0) / (count - 1)
    influence = (deviation - observed * v) @ (w * n / count)
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
        time=check_times(times), method="nearest"
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


# ---------- Sample moments of the modes against their closed forms


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


@checked()
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


@checked()
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


# ---------- The energy of each mode at one time


@checked()
def plot_energy_spectrum(
    fields: xr.DataArray,
    equation: SpectralSPDE,
    *,
    time: float | None = None,
    n_modes: int | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw ``E c_n(t)^2`` of each mode against its closed form (paper, Appendix A).

    Args:
        fields: DataArray (path, time, x).
        equation: the law to compare with; its domain gives the coefficients.
        time: the nearest observed time is drawn; the last one by default.
        n_modes: how many modes; all of the equation by default. With fewer the grid has to
            keep the others out, or an `AliasingWarning` says that it does not.
        ax: axes to draw into; by default a new figure, with the ratio of the two below.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_energy_spectrum
        >>> equation = sl.catalogue.heat(n_modes=4)
        >>> figure = plot_energy_spectrum(sl.simulate(equation, 20, seed=0), equation)
        >>> figure.axes[0].get_yscale()
        'log'
    """
    fields = as_paths(fields, equation.domain.dims, at_least=2)
    at = fields["time"].values[-1] if time is None else time
    c = coefficients_at(fields, equation, at, n_modes).isel(time=0)
    t, mode = float(c["time"]), c["mode"].values
    sample = energy(c)
    exact = equation.energy_spectrum([t]).values[0, : len(mode)]
    label = f"{c.sizes['path']} paths, 95 % interval"
    low, high = sample.interval()
    bars = np.stack([sample.value - low, high - sample.value])
    closed: dict[str, Any] = {"colour": "law", "dash": "--", "width": 1.5}
    points: dict[str, Any] = {"colour": "data", "dash": "", "symbol": "o", "size": 5}
    limits = 0.4, float(mode[-1]) + 0.6
    top = Panel(
        (Line(mode, exact, "closed form", **closed),
         Line(mode, sample.value, label, error=bars, **points)),
        y=f"energy E cₙ² at t = {t:g}", log=True, whole=True, x_range=limits,
    )  # fmt: skip
    # The ratio is below: decades hide an error of 10 %.
    bottom = Panel(
        (Line(limits, [1.0, 1.0], **closed),
         Line(mode, sample.value / exact, error=bars / exact, **points)),
        x="mode n", y="ratio", whole=True, x_range=limits,
    )  # fmt: skip
    return draw(Chart("energy", ((top,), (bottom,))), (COLUMN, 0.9 * COLUMN), ax, (3, 1.2))


# ---------- The spatially averaged variance over time


@checked()
def plot_variance(
    fields: xr.DataArray, equation: SpectralSPDE, *, ax: Axes | None = None
) -> Figure:
    """Draw the spatially averaged variance over time against its closed form.

    ``E_x Var X(t, x)`` of the paper's Appendix A, ``1/|D| int Var X dx`` on an interval and
    ``int Var X gamma dx`` on the line. Sample and closed form use the same rule on the grid
    of the fields, so on the line both are the integral over the part the grid covers.

    Args:
        fields: DataArray (path, time, x); NaN is missing.
        equation: the law to compare with.
        ax: axes to draw into; by default those of a new figure.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_variance
        >>> equation = sl.catalogue.heat(n_modes=4)
        >>> figure = plot_variance(sl.simulate(equation, n_paths=20, seed=0), equation)
        >>> figure.axes[0].get_xlabel()
        'time'
    """
    fields = as_paths(fields, equation.domain.dims, at_least=2)
    domain, time = equation.domain, fields["time"].values
    grid = domain.places(fields).points
    sample = averaged_variance(fields, domain)
    exact = domain.flatten(equation.variance(time, grid)).values @ spatial_weights(domain, grid)
    marks = (
        Band(time, *sample.interval(), "95 % band", "data", 0.25),
        Line(time, sample.value, f"{fields.sizes['path']} paths", "data"),
        Line(time, exact, "closed form", "law", "--"),
    )
    y = "spatially averaged variance"
    panel = Panel(marks, _variance_formula(equation), "time", y, from_zero=True)
    return draw(Chart("variance", ((panel,),)), ax=ax)


def _variance_formula(equation: SpectralSPDE) -> str:
    if isinstance(equation.domain, hermite.Line | hermite.Plane):
        return r"$\int \mathrm{Var}\,X(t,x)\,\gamma(x)\,dx$ over the grid"
    return r"$|D|^{-1} \int_D \mathrm{Var}\,X(t,x)\,dx$"
