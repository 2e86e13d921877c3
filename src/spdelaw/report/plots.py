"""Parts of the page as plain documents: sections, tables, figures with their controls."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.data.clock import to_dates
from spdelaw.report.figures.charts import (
    Band,
    Bars,
    Chart,
    Contour,
    Image,
    Line,
    Panel,
)
from spdelaw.report.figures.draw import ASSETS
from spdelaw.report.maps import PAGE_WIDTH, Canvas

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

#: Decades beyond the estimates up to which a logarithmic axis shows their intervals.
INTERVAL_DECADES = 2.0
#: The style of plotly figures. Colour scales, symbols and dashes have the names of matplotlib; RdBu
#: is ColorBrewer's, distinct with every common form of colour blindness.
STYLE: Any = json.loads(ASSETS.joinpath("plotly.json").read_text(encoding="utf-8"))
#: Height over width within which a map keeps its true proportions.
TRUE_PROPORTIONS = (0.2, 3.0)
#: Shares of the width: between panels with axes of their own, between images, and of a colour bar.
WIDE_GAP, NARROW_GAP, BAR_WIDTH = 0.13, 0.035, 0.07
#: Pixels: between rows, above a row with titles, and above one with a legend.
ROW_GAP, TITLE_HEIGHT, LEGEND_HEIGHT = 62, 22, 28


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Attributes:
        name: identifier in the page.
        caption: what the figure shows and how to read it, printed below.
        traces, layout: as plotly.js takes them.
        height: in pixels.
        moves: how it moves, as the script of the page reads it. ``controls``. ``binds``: the
            attribute of a trace is ``array[i, j, ...]`` with i, j the choices of the controls
            ``index``. ``swaps``: it is one of ``values`` by the choice of a control. ``cursors``:
            vertical lines at the choice. ``arrays``. ``maps``: where maps lie, in pixels above the
            lowest axis; they shrink with narrow windows.
    """

    name: str
    caption: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 380
    moves: dict[str, Any] = dataclasses.field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Plain types for JSON."""
        still: dict[str, Any] = {k: [] for k in ("controls", "binds", "cursors", "swaps", "maps")}
        return {
            **still, "arrays": {}, **self.moves, "name": self.name, "height": self.height,
            "data": as_plain_text(self.traces), "layout": as_plain_text(self.layout),
        }  # fmt: skip


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
    style = STYLE["axis"]
    return {**style, "title": {**style["title"], "text": title}, **settings}


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
    return {**copy.deepcopy(STYLE["layout"]), **settings}


def panel_title(text: str, x: float, y: float = 1.0) -> dict[str, Any]:
    """Title of one panel, left-aligned at paper coordinates."""
    return {**STYLE["title"], "text": text, "x": x, "y": y}


# ---------- Charts drawn by plotly


def plotly_figure(chart: Chart, caption: str) -> Figure:
    """A chart as a figure of the page."""
    drawing = _Drawing(chart)
    boxes, height, maps = _place_panels(chart)
    settings: dict[str, Any] = {}
    notes, legend_at = [], None
    inner = height
    for n, (panel, (across, up)) in enumerate(boxes, 1):
        suffix = "" if n == 1 else str(n)
        drawing.add(panel, suffix, across[1], up)
        settings |= _axes(panel, suffix, across, up, n == 1)
        notes += [panel_title(panel.title, across[0], up[1] + 2 / inner)] if panel.title else []
        if legend_at is None and drawing.names:
            legend_at = up[1] + (TITLE_HEIGHT * bool(panel.title) + 2) / inner
    top = 8 + TITLE_HEIGHT * any(p.title for p in chart.rows[0])
    top += LEGEND_HEIGHT * any(getattr(m, "name", "") for p in chart.rows[0] for m in p.marks)
    page_layout = layout(**settings, annotations=notes, shapes=drawing.grounds, bargap=0.06,
                         margin={"l": 64, "r": 24, "t": top, "b": 52})  # fmt: skip
    page_layout["legend"] |= {"y": legend_at or 1.0}
    controls = [dataclasses.asdict(control) for control in chart.controls]
    moves = {"controls": controls, "maps": maps, **drawing.moves}
    name = f"{chart.name}-{chart.field}" if chart.field else chart.name
    return Figure(name, caption, drawing.traces, page_layout, inner + top + 52, moves)


def _place_panels(chart: Chart) -> tuple[list[tuple[Panel, Any]], int, tuple[tuple[int, int], ...]]:
    """Panels with their domains (right, up), pixels of all rows, and pixel ranges of the maps."""
    placed: list[tuple[Panel, list[float], int, int]] = []
    maps, below = [], 0
    for row in reversed(chart.rows):
        bars = [BAR_WIDTH * any(getattr(m, "bar", False) for m in panel.marks) for panel in row]
        gaps = [0.0, *(NARROW_GAP if panel.shared else WIDE_GAP for panel in row[1:])]
        width = (1.0 - sum(bars) - sum(gaps)) / len(row)
        canvas = row[0].canvas
        height = row[0].height if canvas is None else canvas.height(width * PAGE_WIDTH)
        maps += [(below, below + height)] if canvas is not None else []
        left = 0.0
        for panel, gap, bar in zip(row, gaps, bars, strict=True):
            placed.append((panel, [left + gap, left + gap + width], below, height))
            left += gap + width + bar
        below += height + ROW_GAP + TITLE_HEIGHT * any(panel.title for panel in row)
        below += LEGEND_HEIGHT * any(getattr(m, "name", "") for p in row for m in p.marks)
    total = max(low + height for _, _, low, height in placed)
    in_order = {id(panel): i for i, panel in enumerate(p for row in chart.rows for p in row)}
    placed.sort(key=lambda one: in_order[id(one[0])])
    boxes = [(p, (x, [low / total, (low + height) / total])) for p, x, low, height in placed]
    return boxes, total, tuple(maps)


def _axes(panel: Panel, n: str, across: list[float], up: list[float], first: bool) -> dict:
    """Both axes of a panel."""
    x: dict[str, Any] = {"domain": across, "anchor": f"y{n}"}
    y: dict[str, Any] = {"domain": up, "anchor": f"x{n}"}
    if panel.canvas is not None:
        return _map_axes(panel.canvas, panel.shared, n, x, y)
    marks = [mark for mark in panel.marks if hasattr(mark, "x")]
    x |= {"type": "date"} if any(_is_date(mark.x) for mark in marks) else {}
    x |= {"range": list(panel.x_range)} if panel.x_range else {}
    x |= {"tickvals": list(panel.ticks)} if panel.ticks is not None else {}
    if panel.whole and panel.ticks is None:
        x |= {"dtick": max(1, round(max(len(mark.x) for mark in marks) / 8))}
    if any(isinstance(mark, Image) for mark in marks):
        x |= {"nticks": 4, "showgrid": False}
        y |= {"showgrid": False}
    y |= {"matches": "y", "showticklabels": False} if panel.shared else {}
    y |= {"range": list(panel.y_range)} if panel.y_range else {}
    y |= {"rangemode": "tozero"} if panel.from_zero else {}
    if panel.log:
        y |= _log_range([mark for mark in marks if isinstance(mark, Line)])
    return {f"xaxis{n}": axis(panel.x, **x), f"yaxis{n}": axis(panel.y, **y)}


def _log_range(lines: list[Line]) -> dict[str, Any]:
    values = np.concatenate([np.ravel(line.y) for line in lines])
    ends = [np.ravel(line.y + s * line.error[i]) for line in lines if line.error is not None
            for i, s in enumerate((-1, 1))]  # fmt: skip
    drawn = log_axis(values, np.concatenate(ends) if ends else None)
    return {k: drawn[k] for k in ("type", "dtick", "exponentformat", "range") if k in drawn}


def _map_axes(canvas: Canvas, shared: bool, n: str, x: dict, y: dict) -> dict[str, Any]:
    """Axes of a map, in true proportions unless it is very long or narrow."""
    titled = bool(canvas.titles[0])
    common = {"showgrid": False, "nticks": 5, "constrain": "domain"} | ({} if titled else
                                                                        {"ticks": ""})  # fmt: skip
    if TRUE_PROPORTIONS[0] <= canvas.shape <= TRUE_PROPORTIONS[1]:
        y |= {"scaleanchor": f"x{n}"}
    west, east, south, north = canvas.window
    return {
        f"xaxis{n}": axis(canvas.titles[0], showticklabels=titled, range=[west, east], **common,
                          **x),
        f"yaxis{n}": axis("" if shared else canvas.titles[1], showticklabels=titled and not shared,
                          range=[south, north], **common, **y),
    }  # fmt: skip


def _is_date(x: Any) -> bool:
    return np.asarray(x).dtype.kind == "M"


def _positions(x: Any) -> Any:
    """Positions on an axis: dates as text, numbers in full precision."""
    values = np.asarray(x)
    if values.dtype.kind == "M":
        return np.datetime_as_string(values, "s").tolist()
    return values.tolist()


class _Drawing:
    """Traces of panels, and what moves them."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.traces: list[dict[str, Any]] = []
        self.moves: dict[str, Any] = {"binds": [], "swaps": [], "cursors": [], "arrays": {}}
        self.grounds: list[dict[str, Any]] = []
        self.names: set[str] = set()

    def add(self, panel: Panel, n: str, right: float, up: list[float]) -> None:
        """Add the marks of a panel; its colour bar stands on the right."""
        kinds: Any = {Line: self._line, Band: self._band, Bars: self._bars, Contour: self._contour}
        where = {"xaxis": f"x{n}", "yaxis": f"y{n}"}
        for mark in panel.marks:
            if isinstance(mark, Image):
                self._cells(mark, n, where, right, up)
            else:
                kinds[type(mark)](mark, where)
        if panel.cursor is not None:
            control, at = panel.cursor
            cursor = {"control": control, "values": _positions(at), "axes": [n]}
            self.moves["cursors"].append(cursor)

    def _trace(self, **trace: Any) -> None:
        """Add a trace; attributes with dims of controls follow these."""
        for key, value in list(trace.items()):
            if isinstance(value, xr.DataArray):
                trace[key] = self._follow(key, value)
        if "name" in trace:
            name = trace["name"]
            trace |= {"showlegend": bool(name) and name not in self.names}
            trace |= {"legendgroup": name} if name else {}
            self.names |= {name} - {""}
        self.traces.append(trace)

    def _follow(self, attribute: str, values: xr.DataArray) -> dict[str, str]:
        start = self.chart.start
        index = tuple(str(dim) for dim in values.dims if dim in start)
        if index:
            name = str(values.name or f"{attribute}{len(self.traces)}")
            bind = {"trace": len(self.traces), "attribute": attribute, "array": name}
            self.moves["arrays"][name] = packed(values.values)
            self.moves["binds"].append({**bind, "index": index})
        return packed(values.isel({dim: start[dim] for dim in index}).values)

    def _line(self, line: Line, where: dict[str, str]) -> None:
        mode = "+".join(["lines"] * bool(line.dash) + ["markers"] * bool(line.symbol))
        colour = f"@{line.colour}"
        label = f"{hover_text(line.name)}: " if line.name else ""
        trace: dict[str, Any] = {"hovertemplate": f"{label}%{{x}}, %{{y:.4g}}<extra></extra>"}
        if line.error is not None:
            low, high = line.y - line.error[0], line.y + line.error[1]
            ends = [[f"{a:.4g}", f"{b:.4g}"] for a, b in zip(low, high, strict=True)]
            trace["hovertemplate"] = (
                f"{label}%{{y:.4g}} [%{{customdata[0]}}, %{{customdata[1]}}]<extra></extra>"
            )
            trace |= {"customdata": ends, "error_y": {
                "type": "data", "symmetric": False, "thickness": 1.4, "width": 3, "color": colour,
                "array": line.error[1].tolist(), "arrayminus": line.error[0].tolist(),
            }}  # fmt: skip
        symbol, dash = STYLE["symbols"].get(line.symbol, "circle"), STYLE["dashes"].get(line.dash)
        marker = {"color": colour, "size": line.size, "symbol": symbol}
        x = line.x if isinstance(line.x, xr.DataArray) else _positions(line.x)
        y = line.y if isinstance(line.y, xr.DataArray) else packed(np.asarray(line.y))
        self._trace(type="scatter", mode=mode, x=x, y=y, name=line.name, marker=marker,
                    line={"color": colour, "width": line.width, "dash": dash},
                    **trace, **where)  # fmt: skip

    def _band(self, band: Band, where: dict[str, str]) -> None:
        in_law = "@lawcore" if band.darkness > 0.3 else "@lawband"
        colour = in_law if band.colour == "law" else "@neutralband"
        edge: dict[str, Any] = {"type": "scatter", "mode": "lines", "line": {"width": 0},
                                "hoverinfo": "skip", "x": _positions(band.x), **where}  # fmt: skip
        low, high = (
            v if isinstance(v, xr.DataArray) else packed(np.asarray(v))
            for v in (band.low, band.high)
        )
        self._trace(y=low, showlegend=False, **edge)
        self._trace(y=high, fill="tonexty", fillcolor=colour, name=band.name, **edge)

    def _bars(self, bars: Bars, where: dict[str, str]) -> None:
        self._trace(type="bar", x=_positions(bars.x), y=_positions(bars.y), name=bars.name,
                    marker={"color": f"@{bars.colour}"}, **where,
                    hovertemplate="%{x:.3g}: %{y:.3g}<extra></extra>")  # fmt: skip

    def _contour(self, line: Contour, where: dict[str, str]) -> None:
        look = {"color": f"@{line.colour}", "width": 2, "dash": STYLE["dashes"][line.dash]}
        self._trace(type="contour", x=line.x.tolist(), y=line.y.tolist(), z=packed(line.z),
                    contours={"coloring": "none", "start": 0, "end": 0, "size": 1}, line=look,
                    name=line.name, hoverinfo="skip", **where)  # fmt: skip

    def _cells(
        self, mark: Image, n: str, where: dict[str, str], right: float, up: list[float]
    ) -> None:
        """An image, or a map with what lies below and above it."""
        canvas = mark.canvas
        scales = mark.colours if mark.by else [mark.colours]
        first = scales[self.chart.start[mark.by] if mark.by else 0]
        bar = {"title": {"text": mark.bar if isinstance(mark.bar, str) else "", "side": "right"},
               "x": right + 0.008, "xanchor": "left", "thickness": 12, "outlinewidth": 0,
               "tickfont": {"size": 11}, "tickformat": ".3~g", "len": up[1] - up[0],
               "y": 0.5 * (up[0] + up[1])}  # fmt: skip
        look = {"colorscale": STYLE["scales"][first.name], "showscale": bool(mark.bar)}
        look |= {"colorbar": bar} if mark.bar else {}
        z = mark.z if isinstance(mark.z, xr.DataArray) else xr.DataArray(mark.z)
        if canvas is not None and not canvas.is_grid:
            attribute, ends = "marker.", ("cmin", "cmax")
            self._marks(canvas, z, where, look | {"cmin": first.low, "cmax": first.high})
        else:
            attribute, ends = "", ("zmin", "zmax")
            self.grounds += [ground(n)] if np.isnan(z.values).any() else []
            right_title, up_title = ("time", "place") if canvas is None else canvas.titles
            if canvas is not None:
                self._lines(canvas.coast, "@coast", where)
            hover = f"{hover_text(right_title)} %{{x}}<br>{hover_text(up_title)} %{{y:.4g}}<br>"
            self._trace(type="heatmap", x=_positions(mark.x), y=_positions(mark.y), z=z,
                        transpose=canvas is None, zsmooth=False, zmin=first.low,
                        zmax=first.high, hovertemplate=hover + "%{z:.4g}<extra></extra>",
                        **look, **where)  # fmt: skip
        if mark.by:
            values = {ends[0]: [s.low for s in scales], ends[1]: [s.high for s in scales],
                      "colorscale": [STYLE["scales"][s.name] for s in scales]}  # fmt: skip
            swap = {"trace": len(self.traces) - 1, "control": mark.by}
            self.moves["swaps"] += [
                {**swap, "attribute": attribute + k, "values": v} for k, v in values.items()
            ]

    def _marks(self, canvas: Canvas, z: xr.DataArray, where: dict, look: dict) -> None:
        self._lines(canvas.coast, "@coast", where)
        ends = np.insert(canvas.edges, 2, np.nan, axis=1) if len(canvas.edges) else canvas.edges
        self._lines(ends.reshape(-1, 2), "@axis", where)
        size = float(np.clip(180.0 / np.sqrt(len(canvas.x)), 4.0, 16.0))
        marker = {"color": self._follow("marker.color", z), "size": size,
                  "line": {"color": "@axis", "width": 0.5}, **look}  # fmt: skip
        hover = "point %{customdata}<br>%{marker.color:.4g}<extra></extra>"
        self._trace(type="scatter", mode="markers", x=canvas.x.tolist(), y=canvas.y.tolist(),
                    marker=marker, showlegend=False, customdata=canvas.at.tolist(),
                    hovertemplate=hover, **where)  # fmt: skip

    def _lines(self, points: Array, colour: str, where: dict[str, str]) -> None:
        """Lines below the marks and above cells, (n, 2), with rows of NaN between them."""
        if len(points):
            x, y = ([None if np.isnan(v) else round(v, 2) for v in c.tolist()] for c in points.T)
            self.traces.append({"type": "scatter", "mode": "lines", "x": x, "y": y, **where,
                                "line": {"color": colour, "width": 1}, "showlegend": False,
                                "hoverinfo": "skip"})  # fmt: skip


def ground(n: str) -> dict[str, Any]:
    """Grey background of an image, which shows at missing values."""
    return {**STYLE["ground"], "xref": f"x{n} domain", "yref": f"y{n} domain"}


# ---------- Times on an axis: dates where the data have them, numbers elsewhere


class TimeLabels(NamedTuple):
    """Positions on an axis, dates or numbers, their text, and the title of the axis."""

    positions: Array
    texts: list[str]
    title: str


def time_labels(times: Array, attrs: dict[str, Any]) -> TimeLabels:
    """Positions and texts of times that count as ``attrs["units"]`` says."""
    units, calendar = str(attrs.get("units", "")), str(attrs.get("calendar", "standard"))
    dates = to_dates(times, attrs) if " since " in units else times
    if dates.dtype.kind in "iuf":
        title = f"time ({units})" if units else "time"
        return TimeLabels(np.asarray(times, float), [f"{t:.6g}" for t in times], title)
    is_date = dates.dtype.kind == "M"
    texts = [str(np.datetime_as_string(d, "s")) if is_date else d.isoformat() for d in dates]
    if all(text.endswith("T00:00:00") for text in texts):
        texts = [text[:10] for text in texts]
    readable = [text.replace("T", " ") for text in texts]
    if is_date:
        return TimeLabels(dates, readable, "time")
    years = np.array([_decimal_year(date) for date in dates])
    return TimeLabels(years, readable, f"year ({calendar} calendar)")


def _decimal_year(date: Any) -> float:
    """Year with its fraction, in the calendar of the date."""
    first, then = (
        date.replace(year=date.year + k, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        for k in (0, 1)
    )
    return float(date.year + (date - first) / (then - first))
