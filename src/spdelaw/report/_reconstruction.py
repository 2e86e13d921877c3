"""One path through its gaps: what was seen, what the law makes of it, how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spdelaw.errors import DataError
from spdelaw.report._fields import colour_scale, draw_image
from spdelaw.report._maps import axis_names, draw_map, is_map, map_shape, time_text
from spdelaw.report._one_path import moments_of, one_path
from spdelaw.report._style import new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    seen = one_path("observed", observed, path)
    mean, std = moments_of("reconstruction", reconstruction, path)
    if not np.isfinite(seen).any():
        expected = "at least one value to draw"
        raise DataError("observed", expected=expected, got="NaN only", fix="choose another path")
    maps = is_map(seen)
    if maps:
        seen, mean, std = (_at_time(array, time) for array in (seen, mean, std))
    both = np.concatenate([seen.values.ravel(), mean.values.ravel()])
    top = float(std.max())
    sure: dict[str, Any] = {"cmap": "cividis", "vmin": 0.0, "vmax": top if top > 0 else 1.0}
    missing = 100 * float(np.isnan(seen.values).mean())
    with style():
        figure = new_figure(7.4, 0.8 + 1.7 * map_shape(seen) if maps else 2.5)
        figure.set_layout_engine("compressed" if maps else "constrained")
        draw = draw_map if maps else draw_image
        row = figure.subplots(1, 3, sharex=True, sharey=True)
        scale = colour_scale(both)
        draw(row[0], seen, scale)
        image = draw(row[1], mean, scale)
        spread = draw(row[2], std, sure)
        titles = (f"observed, {missing:.3g} % missing", "reconstructed mean", "standard deviation")
        right, up = axis_names(seen) if maps else ("time", str(seen.dims[-1]))
        for ax, title in zip(row, titles, strict=True):
            ax.set(title=title, xlabel=right)
            if not maps and seen["time"].dtype.kind == "M":
                ax.tick_params(axis="x", rotation=45)
        row[0].set_ylabel(f"{time_text(seen['time'].values)}\n{up}" if maps else up)
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
