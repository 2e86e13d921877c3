"""``spdelaw reconstruct``: observed paths through their gaps and noise."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import xarray as xr

from spdelaw.cli import _options
from spdelaw.cli._fields import read_for
from spdelaw.cli._law_file import load_law
from spdelaw.cli._options import positive
from spdelaw.cli._output import Output
from spdelaw.cli._target import check_target
from spdelaw.cli._written import report_written
from spdelaw.data import write

EXAMPLES = """**Examples**

spdelaw reconstruct heat.law gappy.nc --out full.nc

spdelaw reconstruct heat.law sensors.nc --points 101 --out full.nc
"""


def command(
    *,
    law: _options.LawArgument,
    file: _options.InFile,
    out: _options.OutFile,
    points: Annotated[
        int | None, typer.Option(help="Regular grid points; by default those of the file.")
    ] = None,
    variable: _options.Variable = None,
    columns: _options.ColumnList = None,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Reconstruct fields under a law: mean and standard deviation at every time and point.

    Gaps are NaN. The standard deviation is that of the field itself, without the noise of
    an observation.
    """
    start = time.perf_counter()
    check_target(out, force=force)
    n_points = None if points is None else positive("--points", points)
    learned = load_law(law)
    fields = read_for(learned, file, variable, columns)
    grid = None if n_points is None else learned.domain.grid(n_points)
    with output.busy(f"reconstructing {file}"):
        result = learned.reconstruct(fields, grid)
    write(result, out)
    missing = float(np.isnan(fields.data).mean())
    std = _stored(result["std"], out)
    low, high = float(std.min()), float(std.max())
    report_written(
        output, "reconstruct", f"{file} under {law}", result, out, time.perf_counter() - start,
        facts={
            "missing before": f"{100 * missing:.3g} %",
            "std": f"{low:.3g} to {high:.3g}",
        },
        law=str(law), data=str(file), missing=missing, std=[low, high],
    )  # fmt: skip


def _stored(result: xr.DataArray, out: Path) -> xr.DataArray:
    """A lazy result as it was written, so that it is not made a second time."""
    if result.chunks is None:
        return result
    if out.suffix.lower() == ".zarr":
        return xr.open_zarr(out, consolidated=False)[result.name]
    return xr.open_dataset(out, engine="h5netcdf", chunks={})[result.name]
