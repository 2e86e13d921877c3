"""Space-time images for the page, on colour scales that suit the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.report._fields import TWO_SIGNS, colour_scale
from spdelaw.report.html._figure import DIVERGING, packed

Array = np.ndarray


def scale(values: Array) -> dict[str, Any]:
    """Colours and their limits; diverging only where both signs are in use."""
    found = colour_scale(values)
    colours = DIVERGING if found["cmap"] == TWO_SIGNS else "Viridis"
    return {"colorscale": colours, "zmin": float(found["vmin"]), "zmax": float(found["vmax"])}


def symmetric_scale(values: Array) -> dict[str, Any]:
    """Diverging colours around zero."""
    known = np.abs(values[np.isfinite(values)])
    reach = float(np.quantile(known, 0.998)) if known.size and known.max() > 0 else 1.0
    return {"colorscale": DIVERGING, "zmin": -reach, "zmax": reach}


def image(values: Array, times: Any, points: Array, axes: str, **settings: Any) -> dict[str, Any]:
    """One field (time, x) as an image with time to the right; missing values stay empty."""
    return {
        "type": "heatmap", "x": times, "y": points.tolist(), "z": packed(values), "transpose": True,
        "xaxis": f"x{axes}", "yaxis": f"y{axes}", "zsmooth": False, "showscale": False,
        "hovertemplate": "time %{x}<br>place %{y:.4g}<br>%{z:.4g}<extra></extra>", **settings,
    }  # fmt: skip


def colour_bar(title: str, x: float, **settings: Any) -> dict[str, Any]:
    """Settings that show the scale of an image."""
    bar = {
        "title": {"text": title, "side": "right"}, "x": x, "xanchor": "left", "thickness": 12,
        "outlinewidth": 0, "tickfont": {"size": 11}, "tickformat": ".3~g", **settings,
    }  # fmt: skip
    return {"showscale": True, "colorbar": bar}


def ground(axes: str) -> dict[str, Any]:
    """Grey behind an image, which missing values let through."""
    return {
        "type": "rect", "xref": f"x{axes} domain", "yref": f"y{axes} domain",
        "x0": 0, "x1": 1, "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0},
        "fillcolor": "@missing",
    }  # fmt: skip
