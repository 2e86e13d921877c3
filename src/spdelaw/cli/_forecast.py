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
from spdelaw.cli._options import positive
from spdelaw.cli._output import Output
from spdelaw.cli._target import check_room, check_target
from spdelaw.cli._written import report_written
from spdelaw.data import from_dates, to_dates, write
from spdelaw.errors import InputError
from spdelaw.law import Law

EXAMPLES = """**Examples**

spdelaw forecast heat.law history.nc --until 2 --steps 100 --out forecast.nc

spdelaw forecast sst.law sst.nc --until 2011-03-15 --steps 6 --out forecast.nc

spdelaw forecast heat.law history.nc --times 1.1,1.5,3 --samples 200 --out forecast.nc
"""


def command(
    law: _options.LawArgument,
    file: _options.InFile,
    out: _options.OutFile,
    until: Annotated[
        str | None, typer.Option(help="Last time of a regular forecast: a number or a date.")
    ] = None,
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
    history = read_for(learned, file, variable)
    seen = learned.prepared(history)
    end = _last_time(seen)
    clock = _regular(learned, end, until, steps) if times is None else _listed(learned, times)
    check_room(out, _bytes(seen, len(clock), samples))
    with output.busy(f"forecasting {file}"):
        result = learned.forecast(history, clock, n_samples=samples, seed=seed)
    write(result, out)
    report_written(
        output, "forecast", f"{file} under {law}", result, out, time.perf_counter() - start,
        facts={"history": f"until {_shown(learned, end)}",
               "forecast": f"{_shown(learned, clock[0])} to {_shown(learned, clock[-1])}"},
        law=str(law), data=str(file), history_end=end, times=list(clock), seed=seed,
    )  # fmt: skip


def _check_choice(until: str | None, steps: int | None, times: str | None) -> None:
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


def _regular(law: Law, end: float, until: str | None, steps: int | None) -> list[float]:
    (last,) = _moments(law, "--until", [until or ""])
    if not (math.isfinite(last) and last > end):
        shown = f"{last:g}" if law.info.get("time") is None else f"{until} ({last:g})"
        raise InputError(
            "--until", expected=f"a time after the history's last, {end:g}", got=shown,
            fix=f"pass --until {end + 1:g}",
        )  # fmt: skip
    return list(np.linspace(end, last, 1 + (50 if steps is None else steps))[1:])


def _listed(law: Law, times: str) -> list[float]:
    return _moments(law, "--times", times.split(","))


def _moments(law: Law, option: str, texts: list[str]) -> list[float]:
    """Numbers, or dates on the clock of the law."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        pass
    try:
        dates = np.array([text.strip() for text in texts], dtype="datetime64[ns]")
    except ValueError as error:
        raise InputError(
            option, expected="numbers, or dates such as 2011-03-15, with commas between them",
            got=repr(",".join(texts)), fix=f"pass {option} 1.5",
        ) from error  # fmt: skip
    return [float(t) for t in from_dates(dates, law.info.get("time", {}))]


def _shown(law: Law, moment: float) -> str:
    """A time as a number, and as a date where the law has dates."""
    clock = law.info.get("time", {})
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    return f"{str(to_dates(np.array([moment]), clock)[0])[:16]} ({moment:g})"


def _bytes(history: xr.DataArray, n_times: int, samples: int) -> int:
    return 8 * (2 + max(samples, 0)) * (history.size // history.sizes["time"]) * n_times
