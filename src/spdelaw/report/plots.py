"""Parts of the page as plain documents: sections, tables, figures with their controls."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.report.figures.fields import TWO_SIGNS, colour_scale

# ---------- A section of the page: text, tables and figures


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text below a header; the first column names the row.

    Attributes:
        caption: what the table says.
        header: names of the columns.
        rows: cells of text; a row of one cell is a heading over those that follow.
        folded: hidden until it is opened.
        note: how to read it, shown below.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Section:
    """One heading of the page.

    Attributes:
        name: anchor.
        title: heading.
        lead: sentences above the figures.
        parts: figures and tables in order.
    """

    name: str
    title: str
    lead: str
    parts: tuple[Figure | Table, ...] = ()


# ---------- Figures as plain documents that the page draws: traces, layout, controls
#
# Colours are roles such as ``@data``; the page fills them in for its light or dark theme.
# Arrays travel as base64 of float32, which plotly.js reads as they are.


Array = np.ndarray

#: Roles of colour that the page knows; laws to compare take them in this order.
LAW_COLOURS = ("@law", "@second", "@third", "@fourth")
MARKERS = ("circle", "diamond", "square", "triangle-up")
#: Decades beyond the estimates up to which a logarithmic axis shows their intervals.
INTERVAL_DECADES = 2.0
#: ColorBrewer's RdBu from blue to red: distinct with every common form of colour blindness.
DIVERGING = [
    [0.0, "#053061"], [0.1, "#2166ac"], [0.2, "#4393c3"], [0.3, "#92c5de"], [0.4, "#d1e5f0"],
    [0.5, "#f7f7f7"], [0.6, "#fddbc7"], [0.7, "#f4a582"], [0.8, "#d6604d"], [0.9, "#b2182b"],
    [1.0, "#67001f"],
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Control:
    """A choice that a reader makes: a slider, or a list where the choices have names.

    Attributes:
        name: what is chosen, such as "time".
        labels: text of each choice.
        start: index of the first shown.
        kind: "range" or "select".
    """

    name: str
    labels: Sequence[str]
    start: int = 0
    kind: str = "range"


@dataclasses.dataclass(frozen=True)
class Bind:
    """Attribute of a trace that follows controls: ``array[i, j, ...]`` with i, j their choices.

    The remaining dims, a line or a map, become the attribute.
    """

    trace: int
    attribute: str
    array: str
    index: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Swap:
    """Attribute of a trace that takes one of some values, by the choice of a control."""

    trace: int
    attribute: str
    control: str
    values: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Cursor:
    """A vertical line in some subplots that stands at the choice of a control."""

    control: str
    values: Sequence[Any]
    axes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Attributes:
        name: identifier in the page.
        caption: what the figure shows and how to read it, printed below.
        traces, layout: as plotly.js takes them.
        height: in pixels.
        controls, binds, swaps, cursors: how it moves; ``arrays`` hold what it moves through.
        maps: where maps lie, in pixels above the lowest axis: they shrink with narrow windows.
    """

    name: str
    caption: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 380
    controls: tuple[Control, ...] = ()
    binds: tuple[Bind, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    swaps: tuple[Swap, ...] = ()
    maps: tuple[tuple[int, int], ...] = ()
    arrays: dict[str, Array] = dataclasses.field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return {
            "name": self.name,
            "height": self.height,
            "data": as_plain_text(self.traces),
            "layout": as_plain_text(self.layout),
            "controls": [dataclasses.asdict(control) for control in self.controls],
            "binds": [dataclasses.asdict(bind) for bind in self.binds],
            "cursors": [dataclasses.asdict(cursor) for cursor in self.cursors],
            "swaps": [dataclasses.asdict(swap) for swap in self.swaps],
            "maps": [list(interval) for interval in self.maps],
            "arrays": {name: packed(values) for name, values in self.arrays.items()},
        }


#: Keys of traces and layouts whose strings plotly.js reads as HTML.
TEXT_KEYS = ("name", "text", "ticktext")


def as_plain_text(value: Any, key: str = "") -> Any:
    """Traces or a layout whose names, titles and labels show their characters as they are.

    plotly.js takes ``<b>`` or ``&lt;`` in them for HTML.
    """
    if isinstance(value, dict):
        return {k: as_plain_text(v, k) for k, v in value.items()}
    if isinstance(value, list | tuple) and (key in TEXT_KEYS or not key or key == "annotations"):
        return [as_plain_text(entry, key) for entry in value]
    if isinstance(value, str) and key in TEXT_KEYS:
        return escape(value, quote=False)
    return value


def hover_text(text: str) -> str:
    """A name from the data as a part of a hover template: neither HTML nor a placeholder."""
    return escape(text, quote=False).replace("%", "&#37;")


def packed(values: Array) -> dict[str, str]:
    """Array as float32 in base64, with its shape; NaN stays NaN."""
    data = np.ascontiguousarray(values, dtype="<f4")
    text = base64.b64encode(data.tobytes()).decode("ascii")
    return {"dtype": "f4", "bdata": text, "shape": ", ".join(map(str, data.shape))}


def axis(title: str = "", **settings: Any) -> dict[str, Any]:
    """An axis in the house style."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 13}},
        "tickfont": {"size": 12}, "gridcolor": "@grid", "zeroline": False,
        "linecolor": "@axis", "showline": True, "ticks": "outside", "tickcolor": "@axis",
        "ticklen": 4, "automargin": True, **settings,
    }  # fmt: skip


def log_axis(values: Array, ends: Array | None = None, **settings: Any) -> dict[str, Any]:
    """A logarithmic axis with ticks at 1, 2, 5 over few decades, at powers of ten over many.

    It holds all values, and of the ``ends`` of their intervals those within
    `INTERVAL_DECADES` decades.
    """
    shown = _logarithms(values)
    if ends is not None and shown.size:
        low, high = shown.min(), shown.max()
        near = np.clip(_logarithms(ends), low - INTERVAL_DECADES, high + INTERVAL_DECADES)
        shown = np.append(shown, near)
        margin = 0.05 * max(float(np.ptp(shown)), 0.5)
        settings |= {"range": [float(shown.min()) - margin, float(shown.max()) + margin]}
    decades = float(np.ptp(shown)) if shown.size else 0.0
    tick = "D2" if decades < 2.5 else max(1, round(decades / 8))
    return axis(type="log", dtick=tick, exponentformat="power", **settings)


def _logarithms(values: Array) -> Array:
    return np.log10(values[np.isfinite(values) & (values > 0)])


def layout(**settings: Any) -> dict[str, Any]:
    """A layout in the house style: transparent background, legend above the figure."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "@ink"},
        "margin": {"l": 64, "r": 24, "t": 44, "b": 52},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom",
                   "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"bgcolor": "@card", "bordercolor": "@axis", "font": {"color": "@ink"}},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "@muted", "activecolor": "@ink"},
        "dragmode": False, **settings,
    }  # fmt: skip


def panel_title(text: str, x: float, y: float = 1.0) -> dict[str, Any]:
    """Title of one panel, left-aligned at paper coordinates."""
    return {
        "text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left",
        "yanchor": "bottom", "showarrow": False, "font": {"size": 13, "color": "@muted"},
    }  # fmt: skip


def band(x: Any, low: Array, high: Array, colour: str, name: str, **more: Any) -> list[dict]:
    """Two lines with the area between them filled."""
    line = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": x, **more}
    return [
        {**line, "y": packed(low), "showlegend": False},
        {**line, "y": packed(high), "fill": "tonexty", "fillcolor": colour, "name": name},
    ]


def thinned(n: int, most: int) -> Array:
    """At most ``most`` indices of ``n``, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


# ---------- Space-time images for the page, on colour scales that suit the values


def scale(values: Array) -> dict[str, Any]:
    """Colours and their limits; diverging only where both signs are in use."""
    limits = colour_scale(values)
    colours = DIVERGING if limits["cmap"] == TWO_SIGNS else "Viridis"
    return {"colorscale": colours, "zmin": float(limits["vmin"]), "zmax": float(limits["vmax"])}


def symmetric_scale(values: Array) -> dict[str, Any]:
    """Diverging colours around zero."""
    magnitudes = np.abs(values[np.isfinite(values)])
    reach = (
        float(np.quantile(magnitudes, 0.998)) if magnitudes.size and magnitudes.max() > 0 else 1.0
    )
    return {"colorscale": DIVERGING, "zmin": -reach, "zmax": reach}


def image(values: Array, times: Any, points: Array, axes: str, **settings: Any) -> dict[str, Any]:
    """One field (time, x) as an image with time to the right; missing values stay empty."""
    return {
        "type": "heatmap", "x": times, "y": points.tolist(), "z": packed(values), "transpose": True,
        "xaxis": f"x{axes}", "yaxis": f"y{axes}", "zsmooth": False, "showscale": False,
        "hovertemplate": "time %{x}<br>place %{y:.4g}<br>%{z:.4g}<extra></extra>", **settings,
    }  # fmt: skip


def colour_bar(title: str, x: float, **settings: Any) -> dict[str, Any]:
    """Settings that show the colour scale of an image."""
    bar = {
        "title": {"text": title, "side": "right"}, "x": x, "xanchor": "left", "thickness": 12,
        "outlinewidth": 0, "tickfont": {"size": 11}, "tickformat": ".3~g", **settings,
    }  # fmt: skip
    return {"showscale": True, "colorbar": bar}


def ground(axes: str) -> dict[str, Any]:
    """Grey background of an image, which shows at missing values."""
    return {
        "type": "rect", "xref": f"x{axes} domain", "yref": f"y{axes} domain",
        "x0": 0, "x1": 1, "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0},
        "fillcolor": "@missing",
    }  # fmt: skip


# ---------- Times on an axis: dates where the data have them, numbers elsewhere


#: Calendars whose dates a browser can draw.
REAL_CALENDARS = ("proleptic_gregorian", "gregorian", "standard")


class TimeLabels(NamedTuple):
    """Positions on an axis, their text, and the title of the axis."""

    positions: list[Any]
    texts: list[str]
    title: str
    is_date: bool

    @property
    def axis(self) -> dict[str, Any]:
        """Settings of the axis."""
        return {"type": "date"} if self.is_date else {}


def time_labels(times: np.ndarray, attrs: dict[str, Any]) -> TimeLabels:
    """Positions and texts of times that count as ``attrs["units"]`` says."""
    units, calendar = str(attrs.get("units", "")), str(attrs.get("calendar", "standard"))
    dates = _dates(times, units, calendar)
    if dates is None:
        texts = [f"{t:.6g}" for t in times]
        title = f"time ({units})" if units else "time"
        return TimeLabels([float(t) for t in times], texts, title, False)
    is_date = dates.dtype.kind == "M" and calendar in REAL_CALENDARS
    texts = [str(np.datetime_as_string(d, "s")) if is_date else d.isoformat() for d in dates]
    if all(text.endswith("T00:00:00") for text in texts):
        texts = [text[:10] for text in texts]
    readable = [text.replace("T", " ") for text in texts]
    if is_date:
        return TimeLabels(texts, readable, "time", True)
    return TimeLabels(
        [_decimal_year(date) for date in dates], readable, f"year ({calendar} calendar)", False
    )


def _dates(times: np.ndarray, units: str, calendar: str) -> np.ndarray | None:
    """Dates of a browser's calendar as such, of another one as objects of cftime."""
    if " since " not in units:
        return None
    variable = xr.Variable("time", times, {"units": units, "calendar": calendar})
    coder = xr.coders.CFDatetimeCoder(use_cftime=None if calendar in REAL_CALENDARS else True)
    try:
        return xr.decode_cf(xr.Dataset({"time": variable}), decode_times=coder)["time"].values
    except (ValueError, OverflowError, ImportError):
        return None


def _decimal_year(date: Any) -> float:
    """Year with its fraction, in the calendar of the date."""
    first, then = (
        date.replace(year=date.year + k, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        for k in (0, 1)
    )
    return float(date.year + (date - first) / (then - first))
