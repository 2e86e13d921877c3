"""``spdelaw forecast``: how observed paths go on."""

from __future__ import annotations

import math
import time
from typing import Annotated

import numpy as np
import typer
import xarray as xr

from spdelaw.cli import _options
from spdelaw.cli._fields import read_for
from spdelaw.cli._law_file import load_law
from spdelaw.cli._options import numbers, positive
from spdelaw.cli._output import Output
from spdelaw.cli._target import check_room, check_target
from spdelaw.cli._written import report_written
from spdelaw.data import write
from spdelaw.errors import InputError

EXAMPLES = """**Examples**

spdelaw forecast heat.law history.nc --until 2 --steps 100 --out forecast.nc

spdelaw forecast heat.law history.nc --times 1.1,1.5,3 --samples 200 --out forecast.nc
"""


def command(
    law: _options.LawArgument,
    file: _options.InFile,
    out: _options.OutFile,
    until: Annotated[float | None, typer.Option(help="Last time of a regular forecast.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Regular steps from the history's end; 50 by default.")
    ] = None,
    times: _options.Times = None,
    samples: Annotated[int, typer.Option(help="Joint draws to write as well.")] = 0,
    variable: _options.Variable = None,
    seed: _options.Seed = 0,
    force: _options.Force = False,
    json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Forecast paths from their history: mean and standard deviation, and draws on request.

    The history may have gaps and noise. Either --until with --steps, or --times.
    """
    start, output = time.perf_counter(), Output(json, quiet)
    check_target(out, force=force)
    _check_choice(until, steps, times)
    learned = load_law(law)
    history = read_for(learned.domain, file, variable)
    end = _last_time(history)
    clock = _regular(end, until, steps) if times is None else numbers("--times", times)
    check_room(out, _bytes(history, len(clock), samples))
    with output.busy(f"forecasting {file}"):
        result = learned.forecast(history, clock, n_samples=samples, seed=seed)
    write(result, out)
    report_written(
        output, "forecast", f"{file} under {law}", result, out, time.perf_counter() - start,
        facts={"history": f"until {end:g}", "forecast": f"{clock[0]:g} to {clock[-1]:g}"},
        law=str(law), data=str(file), history_end=end, times=list(clock), seed=seed,
    )  # fmt: skip


def _check_choice(until: float | None, steps: int | None, times: str | None) -> None:
    if (until is None) == (times is None) or (times is not None and steps is not None):
        raise InputError(
            "--until", expected="either --until with --steps, or --times",
            got="neither" if until is None and times is None else "both",
            fix="pass --until 2 --steps 50",
        )  # fmt: skip
    if steps is not None:
        positive("--steps", steps)


def _last_time(history: xr.DataArray) -> float:
    name = "path_time" if "path_time" in history.coords else "time"
    return float(np.nanmax(history[name].values))


def _regular(end: float, until: float | None, steps: int | None) -> list[float]:
    if until is None or not (math.isfinite(until) and until > end):
        raise InputError(
            "--until", expected=f"a time after the history's last, {end:g}", got=f"{until:g}",
            fix=f"pass --until {end + 1:g}",
        )  # fmt: skip
    return list(np.linspace(end, until, 1 + (50 if steps is None else steps))[1:])


def _bytes(history: xr.DataArray, n_times: int, samples: int) -> int:
    return 8 * (2 + max(samples, 0)) * (history.size // history.sizes["time"]) * n_times
