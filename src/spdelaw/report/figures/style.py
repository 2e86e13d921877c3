"""The style of all figures, and the check of their fields."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import xarray as xr

from spdelaw.checks import checked, instance, optional
from spdelaw.data.io.safe_files import replace_file
from spdelaw.errors import DataError, FileError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# ---------- The style of all figures, without changes to the settings of the process


#: Files of this package.
ASSETS = resources.files("spdelaw.report")
#: Colours by role: Okabe and Ito's on light ground, distinct with every common form of colour
#: blindness, and lighter neighbours of the same hues on dark. Print has the light ones.
PALETTES = json.loads(ASSETS.joinpath("palettes.json").read_text(encoding="utf-8"))
PALETTE = PALETTES["light"]
GREY = PALETTE["muted"]
#: Dots per inch of a figure in a notebook.
NOTEBOOK_DPI = 110
#: Width in inches of a column of text; heights follow.
COLUMN = 4.2


def require_figures() -> None:
    """Raise `MissingExtraError` where figures cannot be drawn: a check to make before work."""
    optional("matplotlib", "figures", "report")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the house style, and restore the caller's rcParams."""
    require_figures()
    import matplotlib.style

    # The settings of a notebook do not leak into the figure either.
    with (
        resources.as_file(ASSETS.joinpath("paper.mplstyle")) as file,
        matplotlib.style.context(file, after_reset=True),
    ):
        yield


def new_figure(width: float = COLUMN, height: float = 0.7 * COLUMN) -> Figure:
    """A figure outside of pyplot: no window, no list of open figures."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def figure_of(ax: Axes) -> Figure:
    """The figure that holds the axes."""
    return cast("Figure", ax.figure)


def figure_as_png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file."""
    file = io.BytesIO()
    with style():
        figure.savefig(file, format="png", dpi=NOTEBOOK_DPI)
    return file.getvalue()


@checked()
def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure whole or not at all; the suffix is the format.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_fields, save_figure
        >>> fields = sl.simulate(sl.catalogue.heat(n_modes=4), n_paths=2, seed=0)
        >>> save_figure(plot_fields(fields), "paths.png").name
        'paths.png'
    """
    instance(
        "figure",
        figure,
        optional("matplotlib.figure", "figures", "report").Figure,
        "pass ax.figure",
    )
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    formats = sorted(figure.canvas.get_supported_filetypes())
    if kind not in formats:
        expected = f"a name that ends in one of {', '.join(formats)}"
        fix = f"write {path.stem}.png or {path.stem}.pdf"
        raise FileError("figure", expected=expected, got=path.name, fix=fix)
    with replace_file(path) as new, style():
        figure.savefig(new, format=kind)
    return path


# ---------- The check of fields


def as_paths(
    fields: Any, space: tuple[str, ...] | None = None, *, at_least: int = 1
) -> xr.DataArray:
    """Fields as (path, time, *space) with enough paths on common times, or raise `DataError`.

    Args:
        fields: DataArray with these dims in any order.
        space: the spatial dims of a domain; None takes whatever dims there are.
        at_least: how many paths are needed.
    """
    dims = tuple(fields.dims) if isinstance(fields, xr.DataArray) else ()
    space = tuple(str(d) for d in dims if d not in ("path", "time")) if space is None else space
    names = space
    if len(space) > 1 and "point" in dims:
        space = ("point",)
    expected_dims = ("path", "time", *space)
    if not space or set(dims) != set(expected_dims):
        expected = f"a DataArray with dims {expected_dims if space else '(path, time, x)'}"
        got = f"dims {dims}" if dims else type(fields).__name__
        fix = "pass the result of sl.simulate, sl.read or sl.as_fields"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    missing = [d for d in ("time", *names) if d not in fields.coords and d != "point"]
    if missing or "path_time" in fields.coords:
        expected = "coordinates time and space that all paths share"
        got = f"no coordinate {missing[0]}" if missing else "times of their own for each path"
        fix = "fields.assign_coords(...)" if missing else "select paths with common times"
        raise DataError("fields", expected=expected, got=got, fix=fix)
    if fields.sizes["path"] < at_least:
        expected, fix = f"at least {at_least} paths", "pass more paths; a sample moment needs them"
        raise DataError("fields", expected=expected, got=str(fields.sizes["path"]), fix=fix)
    return fields.transpose(*expected_dims)
