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
from spdelaw.cli._source import shown_time
from spdelaw.cli._target import check_room, check_target
from spdelaw.cli._written import report_written
from spdelaw.data import from_dates, write
from spdelaw.errors import InputError
from spdelaw.law import Law, next_times

#: Times of one forecast where only its end is given.
MOST_STEPS = 10_000

EXAMPLES = """**Examples**

spdelaw forecast sst.law sst.nc --steps 6 --out forecast.nc

spdelaw forecast heat.law history.nc --until 2 --steps 100 --out forecast.nc

spdelaw forecast sst.law sst.nc --until 2011-03-15 --out forecast.nc

spdelaw forecast heat.law history.nc --times 1.1,1.5,3 --samples 200 --out forecast.nc
"""


def command(
    *,
    law: _options.LawArgument,
    file: _options.InFile,
    out: _options.OutFile,
    until: Annotated[str | None, typer.Option(help="Last time: a number or a date.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the record to go on by; with --until, equal parts up to it."),
    ] = None,
    times: _options.Times = None,
    samples: Annotated[int, typer.Option(help="Joint draws to write as well.")] = 0,
    parameter_draws: Annotated[
        int, typer.Option(help="Laws drawn around this one, for bands that know its errors.")
    ] = 0,
    variable: _options.Variable = None,
    columns: _options.ColumnList = None,
    seed: _options.Seed = 0,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Forecast paths from their history: mean and standard deviation, and draws on request.

    The history may have gaps and noise. Say when by --steps, such as six months of monthly data, by
    --until, by both, which cuts the time up to it into equal parts, or by --times.
    """
    start = time.perf_counter()
    check_target(out, force=force)
    _check_choice(until, steps, times)
    learned = load_law(law)
    history = learned.observe(read_for(learned, file, variable, columns))
    seen = history.fields
    end = _last_time(seen)
    clock = _listed(learned, times) if times else _regular(learned, seen, end, until, steps)
    check_room(out, _bytes(seen, len(clock), samples))
    with output.busy(f"forecasting {file}"):
        result = learned.forecast(
            history, clock, n_samples=samples, seed=seed, parameter_draws=parameter_draws
        )
    write(result, out)
    report_written(
        output, "forecast", f"{file} under {law}", result, out, time.perf_counter() - start,
        facts={"history": f"until {_shown(learned, end)}",
               "forecast": f"{_shown(learned, clock[0])} to {_shown(learned, clock[-1])}"},
        law=str(law), data=str(file), history_end=end, times=list(clock), seed=seed,
    )  # fmt: skip


def _check_choice(until: str | None, steps: int | None, times: str | None) -> None:
    asked = until is not None or steps is not None
    if asked == (times is not None):
        expected, fix = "either --steps and --until, or one of them, or --times", "pass --steps 6"
        raise InputError("--steps", expected=expected, got="both" if asked else "neither", fix=fix)
    if steps is not None:
        positive("--steps", steps)


def _last_time(history: xr.DataArray) -> float:
    name = "path_time" if "path_time" in history.coords else "time"
    return float(np.nanmax(history[name].values))


def _regular(
    law: Law, seen: xr.DataArray, end: float, until: str | None, steps: int | None
) -> list[float]:
    """Steps of the record, as many as asked for or as fit, or equal parts up to a time."""
    if until is None:
        return [float(t) for t in next_times(law, seen, steps or 1)]
    (last,) = _moments(law, "--until", [until])
    if not (math.isfinite(last) and last > end):
        shown = f"{last:g}" if law.info.get("time") is None else f"{until} ({last:g})"
        expected = f"a time after the history's last, {_shown(law, end)}"
        fix = f"pass --until {_shown(law, float(next_times(law, seen, 1)[0])).split()[0]}"
        raise InputError("--until", expected=expected, got=shown, fix=fix)
    if steps is not None:
        return list(np.linspace(end, last, 1 + steps)[1:])
    span = last - end
    size = float(next_times(law, seen, 1)[0]) - end
    many = next_times(law, seen, min(MOST_STEPS, max(1, math.ceil(1.2 * span / size) + 1)))
    kept = [float(t) for t in many if t <= last + 1e-9 * abs(last)]
    return kept or [last]


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
        expected = "numbers, or dates such as 2011-03-15, with commas between them"
        got = repr(",".join(texts))
        raise InputError(option, expected=expected, got=got, fix=f"pass {option} 1.5") from error
    return [float(t) for t in from_dates(dates, law.info.get("time", {}))]


def _shown(law: Law, moment: float) -> str:
    """A time as a number, and as a date where the law has dates."""
    clock = law.info.get("time", {})
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    return f"{shown_time(moment, clock)} ({moment:g})"


def _bytes(history: xr.DataArray, n_times: int, samples: int) -> int:
    return 8 * (2 + max(samples, 0)) * (history.size // history.sizes["time"]) * n_times
