"""Paths of the data that the report shows, beside what the law makes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.report.html._figure import Control, packed
from spdelaw.report.html._material import Material

Array = np.ndarray

Z95 = 1.959963984540054


class Reconstructed(NamedTuple):
    """Arrays (path, time, point) with the times that the paths share.

    Attributes:
        observed: NaN is missing.
        mean: of the smoothed field.
        reach: half-width of the band in which 95 % of the observations should lie.
        times: as numbers.
        labels: one per path.
    """

    observed: Array
    mean: Array
    reach: Array
    times: Array
    labels: list[str]

    def at(self, times: Array, points: Array) -> Reconstructed:
        """Fewer times and points."""
        observed, mean, reach = (part[:, times][:, :, points] for part in self[:3])
        return Reconstructed(observed, mean, reach, self.times[times], self.labels)

    @property
    def choice(self) -> tuple[Control, ...]:
        """The list to choose a path from, where there are several."""
        return (Control("path", self.labels, kind="select"),) if len(self.labels) > 1 else ()


def reconstructed(material: Material) -> Reconstructed:
    """Paths that are shown together."""
    at = material.together
    observed = [material.path(i) for i in at]
    mean, std = material.reconstructed(at)
    return Reconstructed(
        np.stack([o.values for o in observed]),
        mean,
        Z95 * np.sqrt(std**2 + material.noise),
        observed[0]["time"].values,
        [f"path {name}" for name in material.fields["path"].values[at]],
    )


def curve(x: list[Any], observed: Array, mean: Array, reach: Array) -> list[dict[str, Any]]:
    """Lower and upper end of the band, the mean, and the observations, in the fourth panel."""
    line = {"type": "scatter", "mode": "lines", "x": x, "xaxis": "x4", "yaxis": "y4"}
    edge = {**line, "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        {**edge, "y": packed(mean - reach), "showlegend": False},
        {**edge, "y": packed(mean + reach), "fill": "tonexty", "fillcolor": "@lawband",
         "name": "95 % band"},
        {**line, "y": packed(mean), "name": "reconstructed",
         "line": {"color": "@law", "width": 2}},
        {**line, "y": packed(observed), "mode": "markers", "name": "observed",
         "marker": {"color": "@data", "size": 5}},
    ]  # fmt: skip
