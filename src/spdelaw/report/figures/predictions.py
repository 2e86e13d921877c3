"""Forecasts, innovations, calibration and skill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import checked, one_of
from spdelaw.errors import DataError
from spdelaw.evaluation.checks.verdict import ModelCheck
from spdelaw.evaluation.forecast_skill import SCORES, Skill
from spdelaw.report.figures.charts import (
    Z95,
    Band,
    Bars,
    Chart,
    Control,
    Line,
    Panel,
    apart,
    fan,
)
from spdelaw.report.figures.draw import COLUMN, draw
from spdelaw.report.figures.fields import moments_of, nearest, one_path, space_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray


# ---------- A forecast at one point with its bands


def forecast_chart(
    history: tuple[Any, Any],
    future: tuple[Any, Any, Any],
    later: tuple[Any, Any] | None,
    titles: tuple[str, str],
    place: str = "",
    controls: tuple[Control, ...] = (),
) -> Chart:
    """History, forecast with 50 and 95 % bands, and later observations at one point.

    Args:
        history: times and values.
        future: times, means and standard deviations.
        later: times and observed values after the history; None where they are not known.
        titles: of both axes.
        place: name of the point.
        controls: the slider that chooses the point.
    """
    times, mean, std = future
    marks = [
        Line(*history, "history", "muted", symbol="o", width=1.5, size=3),
        *fan(times, mean, std),
        Line(times, mean, "forecast mean"),
    ]
    if later is not None:
        marks.append(Line(*later, "later observations", "data", symbol="o", width=1.5, size=3))
    panel = Panel(marks, place, *titles, cursor=("", history[0][-1:]), height=320)
    return Chart("forecast", ((panel,),), controls)


@checked()
def plot_forecast(
    history: xr.DataArray,
    forecast: xr.Dataset,
    truth: xr.DataArray | None = None,
    *,
    point: Any = None,
    path: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw history and forecast of one path at one point, with 50 and 95 % bands.

    Args:
        history: fields that the forecast started from, (path, time, x).
        forecast: Dataset with ``mean`` and ``std`` from ``law.forecast``.
        truth: what really happened, fields (path, time, x).
        point: the nearest point is drawn, x or (x, y); the middle one by default.
        path: position of the path.
        ax: axes to draw into; by default those of a new figure.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.report import plot_forecast
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> law = sl.fit(data, equation.domain, 2)
        >>> history, later = data[:, :150], data[:, 150:]
        >>> figure = plot_forecast(history, law.forecast(history, later.time), later, point=1.0)
        >>> figure.axes[0].get_title("left")
        'x = 1.01'
    """
    observed = one_path("history", history, path)
    mean, std = moments_of("forecast", forecast, path)
    names = space_names(mean)
    mean = nearest(mean, point)
    at = tuple(float(mean[name]) for name in names)
    later = None if truth is None else nearest(one_path("truth", truth, path), at)
    before, units = nearest(observed, at), observed.attrs.get("units")
    chart = forecast_chart(
        (before["time"].values, before.values),
        (mean["time"].values, mean.values, nearest(std, at).values),
        None if later is None else (later["time"].values, later.values),
        ("time", f"{observed.name or 'field'}" + (f" [{units}]" if units else "")),
        ", ".join(f"{name} = {x:.3g}" for name, x in zip(names, at, strict=True)),
    )
    return draw(chart, (1.3 * COLUMN, 0.7 * COLUMN), ax)


# ---------- Innovations of data under a law: distribution and correlation


#: Bins of the histogram and lags of the correlations.
BINS, LAGS = 20, 10


def innovations_chart(check: ModelCheck) -> Chart:
    """Histogram of ``Phi(z)`` of the innovations z, and their correlation in time.

    The bands hold 95 % of histograms, bin by bin, and of correlations, lag by lag, of innovations
    that are independent and standard normal.
    """
    z = check.innovations
    observed = z[~np.isnan(z)]
    n = max(observed.size, 1)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    density = np.histogram(scipy.special.ndtr(observed), edges)[0] / n * BINS
    reach = float(Z95 * np.sqrt((BINS - 1) / n))
    left = (
        Bars(0.5 * (edges[1:] + edges[:-1]), density),
        Band([0, 1], [1 - reach] * 2, [1 + reach] * 2, colour="axis", darkness=0.35),
        Line([0, 1], [1, 1], dash="--", width=1.5),
    )
    lags, correlation, allowed = _autocorrelations(z)
    right = [
        Band(lags, -allowed, allowed, colour="axis"),
        *(Line(lags, one, colour="data", symbol="o", width=1, size=4) for one in correlation),
    ]
    panels = (
        Panel(left, "flat if calibrated", "probability integral transform", "density",
              x_range=(0, 1), from_zero=True, height=260),
        Panel(right, "zero if the model is right", "lag in time steps", "correlation", whole=True),
    )  # fmt: skip
    return Chart("innovations", (panels,))


def _autocorrelations(z: Array) -> tuple[Array, Array, Array]:
    """Lags, correlation of each series with its past (series, lag), and 95 % reach by lag."""
    lags = np.arange(1, max(1, min(LAGS, z.shape[1] - 2)) + 1)
    correlation = np.full((z.shape[-1], len(lags)), np.nan)
    pairs = np.zeros((z.shape[-1], len(lags)))
    square = np.nansum(z**2, (0, 1)) / np.maximum((~np.isnan(z)).sum((0, 1)), 1)
    for i, lag in enumerate(lags):
        product = z[:, lag:] * z[:, :-lag]
        pairs[:, i] = (~np.isnan(product)).sum((0, 1))
        total = np.nansum(product, (0, 1))
        enough = (pairs[:, i] > 0) & (square > 0)
        correlation[enough, i] = total[enough] / pairs[enough, i] / square[enough]
    return lags, correlation, Z95 / np.sqrt(np.maximum(np.median(pairs, axis=0), 1.0))


@checked()
def plot_innovations(check: ModelCheck) -> Figure:
    """Draw the probabilities of the innovations and their correlation in time.

    Args:
        check: what `spdelaw.evaluation.checks.verdict.check_model` found, or ``scorecard.check``.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_innovations
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> card = sl.evaluate(sl.fit(data, equation.domain, 2), data, tiers=())
        >>> [ax.get_xlabel() for ax in plot_innovations(card.check).axes]
        ['probability integral transform', 'lag in time steps']
    """
    if not np.isfinite(check.innovations).any():
        got, fix = "none: no row determines all modes", "use fewer modes, or data with fewer gaps"
        raise DataError("check", expected="at least one innovation", got=got, fix=fix)
    return draw(innovations_chart(check), (1.75 * COLUMN, 0.6 * COLUMN))


# ---------- Calibration: share of held-out values inside intervals of each level


#: Levels of the coverage curve.
LEVELS = np.round(np.concatenate([np.arange(0.05, 1.0, 0.05), [0.99]]), 2)


def coverage_chart(predicted: Mapping[str, tuple[Array, Array, Array]]) -> Chart:
    """Share of held-out values inside the central intervals of the `LEVELS`, by task.

    ``predicted`` are mean, standard deviation and truth of the values of each task; NaN is missing.
    """
    marks = [Line([0, 100], [0, 100], "ideal", "muted", "--", width=1.2)]
    looks = (("law", "-"), ("data", ":"))
    for (task, (mean, std, truth)), (colour, dash) in zip(predicted.items(), looks, strict=True):
        there = ~np.isnan(truth) & (std > 0)
        distance = np.abs(truth - mean)[there] / std[there]
        inside = [(distance <= scipy.special.ndtri(0.5 + 0.5 * p)).mean() for p in LEVELS
                  if len(distance)]  # fmt: skip
        marks.append(
            Line(100 * LEVELS[: len(inside)], 100 * np.array(inside), task, colour, dash, "o",
                 size=5)
        )  # fmt: skip
    panel = Panel(marks, x="level of the interval (%)", y="values inside (%)", x_range=(0, 100),
                  y_range=(0, 101), height=280)  # fmt: skip
    return Chart("coverage", ((panel,),))


# ---------- Scores of forecasts by lead


#: Colours, and marks that differ in black and white too.
LOOKS = {
    "law": ("law", "o"),
    "climatology": ("muted", "s"),
    "persistence": ("third", "^"),
    "damped persistence": ("data", "v"),
    "LIM": ("second", "D"),
}
#: Names of the scores.
NAMES = {"rmse": "RMSE", "crps": "CRPS", "log_score": "log score [nats]"}
#: Distance of two methods relative to the smallest step of leads.
OFFSET_SHARE = 0.06


def skill_chart(document: Mapping[str, Any], scores: tuple[str, ...] = ("rmse", "crps")) -> Chart:
    """Scores by lead with intervals, from the plain form of a `spdelaw.evaluation.Skill`."""
    leads, methods = np.asarray(document["leads"], float), document["scores"]
    offset = OFFSET_SHARE * (float(np.diff(leads).min()) if len(leads) > 1 else 1.0)
    panels = []
    for score in scores:
        marks = []
        for k, (method, rows) in enumerate(methods.items()):
            value, low, high = (
                np.array([row[name] for row in rows[score]], float)
                for name in ("estimate", "lower", "upper")
            )
            colour, symbol = LOOKS.get(method, ("muted", "x"))
            x, bars = leads + apart(k, len(methods), offset), [value - low, high - value]
            marks.append(Line(x, value, method, colour, "-", symbol, 2 if method == "law" else 1.2,
                              error=np.maximum(bars, 0.0)))  # fmt: skip
        if score.startswith("coverage"):
            nominal = [int(score.split("_")[1]) / 100] * 2
            marks.append(Line(leads[[0, -1]], nominal, "", "muted", ":", width=1.2))
        unit = document.get("units", "") if score in ("rmse", "crps") else ""
        name = NAMES.get(score, f"share inside {score.split('_')[-1]} % interval")
        panels.append(Panel(marks, x="lead [steps]", y=name + (f" [{unit}]" if unit else ""),
                            from_zero=score in ("rmse", "crps"), ticks=leads.tolist()))  # fmt: skip
    return Chart("skill", (panels,))


@checked()
def plot_skill(found: Skill, score: str | None = None) -> Figure:
    """Draw RMSE and CRPS by lead, or one score, with an interval for each predictor.

    Args:
        found: from `spdelaw.skill`.
        score: one of "rmse", "crps", "log_score", "coverage_50", "coverage_80", "coverage_95".

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.report import plot_skill
        >>> calm = sl.catalogue.heat(n_modes=2, initial="stationary")
        >>> one = sl.simulate(calm, 1, np.linspace(0, 20, 101), np.linspace(0, np.pi, 9), seed=0)
        >>> figure = plot_skill(sl.skill(one, calm.domain, 2, leads=(1, 3), refits=1))
        >>> [ax.get_ylabel() for ax in figure.axes]
        ['RMSE', 'CRPS']
    """
    scores = ("rmse", "crps") if score is None else (one_of("score", score, SCORES),)
    chart = skill_chart(found.to_dict(), scores)
    return draw(chart, (1.25 * COLUMN * len(scores), 0.7 * COLUMN))
