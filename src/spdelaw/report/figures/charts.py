"""Charts: what a figure shows, in panels of marks, for both libraries that draw it.

A function of laws and data returns a `Chart`. `spdelaw.report.figures.draw` draws it with
matplotlib for papers, `spdelaw.report.plots` with plotly for the page. An array of a mark may have
more dims than the mark needs: a labelled array with dims named like controls moves with these
controls on the page, and matplotlib draws the choices at which the controls start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

if TYPE_CHECKING:
    from spdelaw.report.maps import Canvas

Array = np.ndarray

#: Two-sided 95 % of a normal.
Z95 = 1.959963984540054
#: Roles of colour, with a marker each; laws to compare take them in this order.
LAW_LOOKS = (("law", "o"), ("second", "D"), ("third", "s"), ("fourth", "^"), ("data", "v"),
             ("muted", "P"))  # fmt: skip
#: Perceptually uniform, and read the same with every common form of colour blindness.
ONE_SIGN, TWO_SIGNS = "viridis", "RdBu_r"
#: Share of values beyond either end of a colour scale, so that a spike does not set it.
CLIPPED_SHARE = 0.002
#: Probability inside each band of a forecast and how dark it is, wide first.
FAN = {0.95: 0.2, 0.5: 0.38}


class Colours(NamedTuple):
    """Colour map and its ends."""

    name: str
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve, or points where ``dash`` is empty, with error bars where these are given.

    Attributes:
        x, y: coordinates, (n,); x are numbers or dates.
        name: entry of the legend; none without.
        colour: role, such as "law" or "data".
        dash, symbol: as matplotlib writes them; ``symbol="O"`` is an open circle.
        width, size: of the line and of the symbols.
        error: distances (2, n) to both ends of intervals, ``x_error`` to the left and right.
    """

    x: Any
    y: Any
    name: str = ""
    colour: str = "law"
    dash: str = "-"
    symbol: str = ""
    width: float = 2.0
    size: float = 7.0
    error: Any = None
    x_error: Any = None


@dataclasses.dataclass(frozen=True)
class Band:
    """The area between two curves."""

    x: Any
    low: Any
    high: Any
    name: str = ""
    colour: str = "law"
    darkness: float = 0.2


@dataclasses.dataclass(frozen=True)
class Bars:
    """A histogram: middles of the bins, and heights."""

    x: Any
    y: Any
    name: str = ""
    colour: str = "data"


@dataclasses.dataclass(frozen=True)
class Image:
    """Values (x, y) as cells around the points of both axes; NaN stays empty.

    On a map, values (up, right) as cells or (n,) as coloured marks.

    Attributes:
        colours: one scale, or one for each choice of the control ``by``.
        bar: whether a colour bar stands on the right of the panel; a text is its title.
        canvas: of a map; None over time and space.
    """

    x: Any
    y: Any
    z: Any
    colours: Any
    bar: bool | str = False
    by: str = ""
    canvas: Canvas | None = None


@dataclasses.dataclass(frozen=True)
class Contour:
    """The line on which values (y, x) are zero."""

    x: Array
    y: Array
    z: Array
    name: str
    colour: str = "law"
    dash: str = "-"


@dataclasses.dataclass(frozen=True)
class Panel:
    """Marks on common axes.

    Attributes:
        marks: the lowest first.
        title: above the panel.
        x, y: titles of the axes.
        log: whether y is logarithmic.
        whole: whether x counts, so that ticks are whole numbers.
        x_range, y_range: limits of the axes; None adapts to the marks.
        from_zero: whether y starts at zero.
        cursor: control and its positions on x, at which a dotted line stands; ("", [x]) for a
            fixed one.
        shared: whether the y axis is that of the panel on the left, without labels.
        height: in pixels on the page; maps take theirs from their shape.
        ticks: positions of ticks on x; None for the default.
    """

    marks: Sequence[Any]
    title: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    whole: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    from_zero: bool = False
    cursor: tuple[str, Any] | None = None
    shared: bool = False
    height: int = 290
    ticks: Sequence[float] | None = None

    @property
    def canvas(self) -> Canvas | None:
        """Canvas of the first map; None where the panel is none."""
        return next((mark.canvas for mark in self.marks if isinstance(mark, Image)), None)


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
class Chart:
    """Panels in rows, and the controls that move them on the page.

    Attributes:
        name: by which the page has a caption.
        rows: of panels.
        controls: sliders and lists.
        note: about what the chart leaves out, such as points.
        field: name of one field of several.
    """

    name: str
    rows: Sequence[Sequence[Panel]]
    controls: tuple[Control, ...] = ()
    note: str = ""
    field: str = ""

    @property
    def start(self) -> dict[str, int]:
        """Choice at which each control starts."""
        return {control.name: control.start for control in self.controls}

    def of_field(self, name: str) -> Chart:
        """The chart of one of several fields, by its name; without a name the same."""
        return dataclasses.replace(self, field=name)


def thinned(n: int, most: int) -> Array:
    """At most ``most`` indices of ``n``, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


def colour_scale(values: Array) -> Colours:
    """Colours that suit the values, all but a few of them."""
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [CLIPPED_SHARE, 1.0 - CLIPPED_SHARE]) if values.size else (0, 1)
    # Centred at zero only where both sides are in use: else half of the colours is wasted.
    if low < 0 < high and min(-low, high) > 0.5 * max(-low, high):
        return symmetric_scale(values)
    return Colours(ONE_SIGN, float(low), float(high if high > low else low + 1.0))


def symmetric_scale(values: Array) -> Colours:
    """Diverging colours around zero."""
    magnitudes = np.abs(values[np.isfinite(values)])
    reach = float(np.quantile(magnitudes, 1.0 - CLIPPED_SHARE)) if magnitudes.size else 0.0
    return Colours(TWO_SIGNS, -(reach or 1.0), reach or 1.0)


def error_bars(rows: Array) -> Array:
    """Distances (2, n) from the estimates to both ends of their intervals.

    ``rows`` are estimate, standard error, lower and upper end, (n, 4). A bar has length zero where
    an end is not finite: the data do not determine the number.
    """
    estimate, _, lower, upper = rows.T
    bounded = np.isfinite(lower) & np.isfinite(upper)
    return np.where(bounded, [estimate - lower, upper - estimate], 0.0)


def fan(x: Any, mean: Any, std: Any) -> list[Band]:
    """Bands ``mean ± z std`` of a Gaussian forecast, the wide one first."""
    reach = {p: float(scipy.special.ndtri(0.5 + 0.5 * p)) * std for p in FAN}
    return [Band(x, mean - r, mean + r, f"{100 * p:g} % band", darkness=FAN[p])
            for p, r in reach.items()]  # fmt: skip


def apart(i: int, n: int, distance: float) -> float:
    """Shift of the marks of law or method i of n, so that none hides another."""
    return distance * (i - 0.5 * (n - 1))
