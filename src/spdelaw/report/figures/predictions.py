"""Forecasts, reconstructions, innovations and skill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.checks import instance, one_of
from spdelaw.errors import DataError
from spdelaw.evaluation.checks.verdict import ModelCheck
from spdelaw.evaluation.forecast_skill import SCORES, Skill
from spdelaw.report.figures.fields import (
    axis_names,
    colour_scale,
    draw_image,
    draw_map,
    is_map,
    map_shape,
    moments_of,
    nearest,
    one_path,
    space_names,
    time_text,
)
from spdelaw.report.figures.numbers import (
    BINS,
    InnovationStatistics,
    forecast_fan,
    innovation_statistics,
    skill_curves,
)
from spdelaw.report.figures.style import (
    CLOSED_FORM,
    COLUMN,
    GREY,
    SAMPLE,
    axes_for,
    figure_of,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# ---------- A forecast at one point with its bands


#: How dark each band is, by the probability inside.
BAND_DARKNESS = {0.95: 0.18, 0.5: 0.38}


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
    std, before = nearest(std, at), nearest(observed, at)
    with style():
        ax = axes_for(ax) if ax is not None else new_figure(1.3 * COLUMN).add_subplot()
        ax.plot(before["time"], before, color=GREY, linewidth=1.1, label="history")
        _draw_fan(ax, mean, std)
        ax.plot(mean["time"], mean, color=SAMPLE, label="forecast mean")
        if truth is not None:
            later = nearest(one_path("truth", truth, path), at)
            ax.plot(later["time"], later, color=CLOSED_FORM, linewidth=1.1, label="what happened")
        ax.axvline(before["time"].values[-1], color=GREY, linewidth=0.8, linestyle=":")
        ax.set(xlabel="time", ylabel=_quantity(observed))
        if before["time"].dtype.kind == "M":
            ax.tick_params(axis="x", rotation=30)
        title = ", ".join(f"{name} = {x:.3g}" for name, x in zip(names, at, strict=True))
        ax.set_title(title, color=GREY)
        ax.legend(loc="best", ncols=2)
    return figure_of(ax)


def _quantity(fields: xr.DataArray) -> str:
    units = fields.attrs.get("units")
    return f"{fields.name or 'field'}" + (f" [{units}]" if units else "")


def _draw_fan(ax: Axes, mean: xr.DataArray, std: xr.DataArray) -> None:
    for probability, ends in forecast_fan(mean, std).bands.items():
        ax.fill_between(
            mean["time"], *ends, color=SAMPLE, alpha=BAND_DARKNESS[probability],
            linewidth=0, label=f"{100 * probability:g} % band",
        )  # fmt: skip


# ---------- One path: observed, reconstructed, and its standard deviation


def plot_reconstruction(
    observed: xr.DataArray, reconstruction: xr.Dataset, path: int = 0, time: float | None = None
) -> Figure:
    """Draw one path as observed (gaps in grey), its reconstructed mean and the std of that.

    Over time and space; in two dimensions as maps at one time.

    Args:
        observed: fields (path, time, x); NaN is missing.
        reconstruction: of the same paths, from ``law.reconstruct``.
        path: position of the path to draw.
        time: of maps; the nearest one is drawn, the middle one by default.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_reconstruction
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> law = sl.fit(data, equation.domain, 2)
        >>> gappy = sl.mask(data, "blocks", 0.3, seed=0)
        >>> figure = plot_reconstruction(gappy, law.reconstruct(gappy))
        >>> [ax.get_title("left") for ax in figure.axes[:3]]
        ['observed, 30 % missing', 'reconstructed mean', 'standard deviation']
    """
    field = one_path("observed", observed, path)
    mean, std = moments_of("reconstruction", reconstruction, path)
    if not np.isfinite(field).any():
        expected = "at least one value to draw"
        raise DataError("observed", expected=expected, got="NaN only", fix="choose another path")
    maps = is_map(field)
    if maps:
        field, mean, std = (_at_time(array, time) for array in (field, mean, std))
    both = np.concatenate([field.values.ravel(), mean.values.ravel()])
    top = float(std.max())
    sure: dict[str, Any] = {"cmap": "cividis", "vmin": 0.0, "vmax": top if top > 0 else 1.0}
    missing = 100 * float(np.isnan(field.values).mean())
    with style():
        figure = new_figure(7.4, 0.8 + 1.7 * map_shape(field) if maps else 2.5)
        figure.set_layout_engine("compressed" if maps else "constrained")
        draw = draw_map if maps else draw_image
        row = figure.subplots(1, 3, sharex=True, sharey=True)
        scale = colour_scale(both)
        draw(row[0], field, scale)
        image = draw(row[1], mean, scale)
        spread = draw(row[2], std, sure)
        titles = (f"observed, {missing:.3g} % missing", "reconstructed mean", "standard deviation")
        right, up = axis_names(field) if maps else ("time", str(field.dims[-1]))
        for ax, title in zip(row, titles, strict=True):
            ax.set(title=title, xlabel=right)
            if not maps and field["time"].dtype.kind == "M":
                ax.tick_params(axis="x", rotation=45)
        row[0].set_ylabel(f"{time_text(field['time'].values)}\n{up}" if maps else up)
        for bar in (
            figure.colorbar(image, ax=list(row[:2]), extend="both", pad=0.01, aspect=25),
            figure.colorbar(spread, ax=row[2], pad=0.02, aspect=25),
        ):
            bar.outline.set_visible(False)
    return figure


def _at_time(fields: xr.DataArray, time: float | None) -> xr.DataArray:
    if time is None:
        return fields.isel(time=fields.sizes["time"] // 2)
    return fields.sel(time=time, method="nearest")


# ---------- Innovations of data under a law: distribution and correlation


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
    z = check.innovations
    if not np.isfinite(z).any():
        got, fix = "none: no row determines all modes", "use fewer modes, or data with fewer gaps"
        raise DataError("check", expected="at least one innovation", got=got, fix=fix)
    with style():
        figure = new_figure(1.75 * COLUMN, 0.6 * COLUMN)
        left, right = figure.subplots(1, 2)
        statistics = innovation_statistics(z)
        _draw_pit(left, statistics)
        _draw_correlations(right, statistics, check.unit)
    return figure


def _draw_pit(ax: Axes, statistics: InnovationStatistics) -> None:
    reach = statistics.density_reach
    ax.bar(statistics.bins, statistics.density, width=0.92 / BINS, color=SAMPLE)
    ax.axhspan(1 - reach, 1 + reach, color="#9E9E9E", alpha=0.35, linewidth=0)
    ax.axhline(1.0, color=CLOSED_FORM, linestyle="--", linewidth=1.2)
    ax.set(xlabel="probability integral transform", ylabel="density", xlim=(0, 1))


def _draw_correlations(ax: Axes, statistics: InnovationStatistics, unit: str) -> None:
    lags, reach = statistics.lags, statistics.correlation_reach
    ax.fill_between(lags, -reach, reach, color="#EDEDED", linewidth=0)
    for n, line in enumerate(statistics.correlation):
        ax.plot(lags, line, "-o", color=SAMPLE, markersize=2.5, linewidth=0.8, alpha=0.7,
                label=f"{unit} {n + 1}")  # fmt: skip
    ax.set(xlabel="lag in time steps", ylabel="correlation")
    ax.locator_params(axis="x", integer=True)


# ---------- Scores of forecasts by lead


#: Okabe and Ito's colours, and marks that differ in black and white too.
LOOKS = {
    "law": (SAMPLE, "o"),
    "climatology": (GREY, "s"),
    "persistence": ("#E69F00", "^"),
    "damped persistence": (CLOSED_FORM, "v"),
    "LIM": ("#009E73", "D"),
}
#: Names of the panels.
NAMES = {"rmse": "RMSE", "crps": "CRPS", "log_score": "log score [nats]"}


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
    instance("found", found, Skill, "pass what sl.skill returned")
    scores = ("rmse", "crps") if score is None else (one_of("score", score, SCORES),)
    with style():
        figure = new_figure(1.25 * COLUMN * len(scores))
        panels = np.atleast_1d(figure.subplots(1, len(scores)))
        for ax, name in zip(panels, scores, strict=True):
            _draw_score(ax, found, name)
        panels[0].legend(loc="best")
    return figure


def _draw_score(ax: Axes, skill: Skill, score: str) -> None:
    for name, curve in skill_curves(skill.to_dict(), score).items():
        colour, mark = LOOKS.get(name, (GREY, "x"))
        ax.errorbar(
            curve.leads, curve.estimate, curve.bars, color=colour, marker=mark, markersize=4,
            linewidth=1.2, elinewidth=0.9, label=name,
        )  # fmt: skip
    if score.startswith("coverage"):
        nominal = int(score.split("_")[1])
        ax.axhline(nominal / 100, color=GREY, linestyle=":", linewidth=0.9)
    unit = skill.about["units"]
    shown = NAMES.get(score, f"share inside {score.split('_')[-1]} % interval")
    in_units = f" [{unit}]" if unit and score in ("rmse", "crps") else ""
    ax.set(xlabel="lead [steps]", ylabel=shown + in_units, xticks=skill.table.lead.values)
