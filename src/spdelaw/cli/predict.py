"""``spdelaw sample``, ``reconstruct``, ``forecast`` and ``fill``."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from spdelaw.cli import options
from spdelaw.cli.commands import Fill
from spdelaw.cli.inputs import choose_domain, read_for, read_source, shown_time
from spdelaw.cli.laws import domain_name, load_law, show_plan
from spdelaw.cli.options import numbers, one_of, positive, word_or_count
from spdelaw.cli.output import (
    Output,
    check_free_space,
    check_target,
    report_written,
    required_target,
)
from spdelaw.data.clock import from_dates
from spdelaw.data.io.files import write
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.gaps.filling import RESTS, Filled, fill_record
from spdelaw.evaluation.gaps.prediction import BASES
from spdelaw.infer.model import Model
from spdelaw.law.law import Law
from spdelaw.law.observations import next_times

# ---------- ``spdelaw sample``: write new paths of a law


SAMPLE_EXAMPLES = """**Examples**

spdelaw sample heat.law --paths 100 --out new.nc

spdelaw sample heat.law --times 0,0.5,1,2 --points 51 --observation-noise --out new.nc
"""


def sample_command(
    *,
    law: options.LawArgument,
    out: options.OutFile,
    paths: options.Paths = 100,
    times: options.Times = None,
    points: Annotated[
        int | None, typer.Option(help="Regular grid points; by default those of the data.")
    ] = None,
    observation_noise: Annotated[
        bool, typer.Option("--observation-noise", help="Add the learned observation noise.")
    ] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    output: Output,
) -> None:
    """Draw new paths from a law, at the times and points of its data by default."""
    start = time.perf_counter()
    check_target(out, force=force)
    positive("--paths", paths)
    clock = None if times is None else numbers("--times", times)
    learned = load_law(law)
    grid = learned.points if points is None else learned.domain.grid(positive("--points", points))
    n_times = len(learned.times if clock is None else clock)
    check_free_space(out, 8 * paths * n_times * len(grid))
    fields = learned.sample(paths, clock, grid, seed=seed, observation_noise=observation_noise)
    write(fields, out)
    report_written(
        output, "sample", f"New paths of {law}", fields, out, time.perf_counter() - start,
        law=str(law), seed=seed,
    )  # fmt: skip


# ---------- ``spdelaw reconstruct``: observed paths without gaps and noise


RECONSTRUCT_EXAMPLES = """**Examples**

spdelaw reconstruct heat.law gappy.nc --out full.nc

spdelaw reconstruct heat.law sensors.nc --points 101 --out full.nc
"""


def reconstruct_command(
    *,
    law: options.LawArgument,
    file: options.InFile,
    out: options.OutFile,
    points: Annotated[
        int | None, typer.Option(help="Regular grid points; by default those of the file.")
    ] = None,
    variable: options.Variable = None,
    columns: options.ColumnList = None,
    force: options.Force = False,
    output: Output,
) -> None:
    """Reconstruct fields under a law: mean and standard deviation at every time and point.

    Gaps are NaN. `std` is the standard deviation of a value that would be observed, `std_field`
    that of the field without observation noise.
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
    std = _as_written(result["std"], out)
    low, high = float(std.min()), float(std.max())
    report_written(
        output, "reconstruct", f"{file} under {law}", result, out, time.perf_counter() - start,
        facts={
            "missing before": f"{100 * missing:.3g} %",
            "std": f"{low:.3g} to {high:.3g}",
        },
        law=str(law), data=str(file), missing=missing, std=[low, high],
    )  # fmt: skip


def _as_written(result: xr.DataArray, out: Path) -> xr.DataArray:
    """A lazy result read back from its file, so that it is not computed twice."""
    if result.chunks is None:
        return result
    if out.suffix.lower() == ".zarr":
        return xr.open_zarr(out, consolidated=False)[result.name]
    return xr.open_dataset(out, engine="h5netcdf", chunks={})[result.name]


# ---------- ``spdelaw forecast``: predict observed paths


#: Times of one forecast where only its end is given.
MOST_STEPS = 10_000

FORECAST_EXAMPLES = """**Examples**

spdelaw forecast sst.law sst.nc --steps 6 --out forecast.nc

spdelaw forecast heat.law history.nc --until 2 --steps 100 --out forecast.nc

spdelaw forecast sst.law sst.nc --until 2011-03-15 --out forecast.nc

spdelaw forecast heat.law history.nc --times 1.1,1.5,3 --samples 200 --out forecast.nc
"""


def forecast_command(
    *,
    law: options.LawArgument,
    file: options.InFile,
    out: options.OutFile,
    until: Annotated[str | None, typer.Option(help="Last time: a number or a date.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of the record to go on by; with --until, equal parts up to it."),
    ] = None,
    times: options.Times = None,
    samples: Annotated[int, typer.Option(help="Joint draws to write as well.")] = 0,
    parameter_draws: Annotated[
        int, typer.Option(help="Laws drawn around this one, for bands that know its errors.")
    ] = 0,
    variable: options.Variable = None,
    columns: options.ColumnList = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    output: Output,
) -> None:
    """Forecast paths from their history: mean and standard deviation, and draws on request.

    The history may have gaps and noise. Say when by --steps, such as six months of monthly data, by
    --until, by both, which cuts the time up to it into equal parts, or by --times.
    """
    start = time.perf_counter()
    check_target(out, force=force)
    _check_time_options(until, steps, times)
    learned = load_law(law)
    history = learned.observe(read_for(learned, file, variable, columns))
    observed = history.fields
    end = _last_time(observed)
    clock = (
        _listed_times(learned, times)
        if times
        else _regular_times(learned, observed, end, until, steps)
    )
    check_free_space(out, _result_bytes(observed, len(clock), samples))
    with output.busy(f"forecasting {file}"):
        result = learned.forecast(
            history, clock, n_samples=samples, seed=seed, parameter_draws=parameter_draws
        )
    write(result, out)
    report_written(
        output, "forecast", f"{file} under {law}", result, out, time.perf_counter() - start,
        facts={"history": f"until {_time_text(learned, end)}",
               "forecast": f"{_time_text(learned, clock[0])} to {_time_text(learned, clock[-1])}"},
        law=str(law), data=str(file), history_end=end, times=list(clock), seed=seed,
    )  # fmt: skip


def _check_time_options(until: str | None, steps: int | None, times: str | None) -> None:
    is_regular = until is not None or steps is not None
    if is_regular == (times is not None):
        expected, fix = "either --steps and --until, or one of them, or --times", "pass --steps 6"
        raise InputError(
            "--steps", expected=expected, got="both" if is_regular else "neither", fix=fix
        )
    if steps is not None:
        positive("--steps", steps)


def _last_time(history: xr.DataArray) -> float:
    name = "path_time" if "path_time" in history.coords else "time"
    return float(np.nanmax(history[name].values))


def _regular_times(
    law: Law, history: xr.DataArray, end: float, until: str | None, steps: int | None
) -> list[float]:
    """Steps of the record, ``steps`` of them or up to a time, or equal parts up to that time."""
    if until is None:
        return [float(t) for t in next_times(law, history, steps or 1)]
    (last,) = _parse_times(law, "--until", [until])
    if not (math.isfinite(last) and last > end):
        shown = f"{last:g}" if law.info.get("time") is None else f"{until} ({last:g})"
        expected = f"a time after the history's last, {_time_text(law, end)}"
        fix = f"pass --until {_time_text(law, float(next_times(law, history, 1)[0])).split()[0]}"
        raise InputError("--until", expected=expected, got=shown, fix=fix)
    if steps is not None:
        return list(np.linspace(end, last, 1 + steps)[1:])
    span = last - end
    size = float(next_times(law, history, 1)[0]) - end
    many = next_times(law, history, min(MOST_STEPS, max(1, math.ceil(1.2 * span / size) + 1)))
    kept = [float(t) for t in many if t <= last + 1e-9 * abs(last)]
    return kept or [last]


def _listed_times(law: Law, times: str) -> list[float]:
    return _parse_times(law, "--times", times.split(","))


def _parse_times(law: Law, option: str, texts: list[str]) -> list[float]:
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


def _time_text(law: Law, moment: float) -> str:
    """A time as a number, and as a date where the law has dates."""
    clock = law.info.get("time", {})
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    return f"{shown_time(moment, clock)} ({moment:g})"


def _result_bytes(history: xr.DataArray, n_times: int, samples: int) -> int:
    return 8 * (2 + max(samples, 0)) * (history.size // history.sizes["time"]) * n_times


# ---------- ``spdelaw fill``: fill gaps by the law that predicts held-out values best


def fill_command(call: Fill) -> None:
    """Fill the gaps of a file."""
    start = time.perf_counter()
    file, output = call.file, call.output
    target = None
    if not call.dry_run:
        target = check_target(required_target(call.out, "filled.nc"), force=call.force)
    n_modes = word_or_count("--modes", call.modes, "auto", 1)
    Model(**call.model)  # checks the words
    settings: dict[str, Any] = call.model | {
        "basis": None if call.basis is None else one_of("--basis", call.basis, BASES),
        "rest": one_of("--rest", call.rest, RESTS),
        "seconds": _time_limit(call.seconds),
        "smooth": call.smooth,
        "everywhere": call.everywhere,
        "seed": call.seed,
    }
    source = read_source(
        file, call.variable, call.preparation, call.along, call.domain.domain, call.table.columns
    )
    chosen = choose_domain(call.domain._replace(domain=source.domain), source.fields)
    if target is None:
        show_plan(output, file, source, chosen, n_modes)
        return
    if not (call.smooth or call.everywhere):
        _check_gaps(source.fields)
    check_free_space(target, 16 * source.fields.size)
    with output.busy(f"filling {file}"):
        filled_record = fill_record(
            source.data, chosen.domain, n_modes, prepare=source.preparation, **settings
        )
    write(filled_record.data, target)
    guesses = [*source.guesses, *([chosen.reason] if chosen.guessed else [])]
    if guesses:
        output.line(f"Guessed: {'; '.join(guesses)}. Options overrule each of these.\n")
    _show_filled(output, filled_record)
    report_written(
        output, "fill", f"{file} filled", filled_record.data, target, time.perf_counter() - start,
        facts=_fill_facts(filled_record, source.fields) | {"domain": domain_name(chosen.domain)},
        data=str(file), guesses=guesses, candidates=_candidate_rows(filled_record),
        chosen=_candidate_rows(filled_record)[0], chosen_by=filled_record.data.attrs["chosen_by"],
    )  # fmt: skip


def _check_gaps(fields: xr.DataArray) -> None:
    """Refuse fields without gaps before minutes of comparing laws."""
    observed = np.isfinite(fields.values)
    ever_observed = observed.any((0, 1))
    if observed[..., ever_observed].all():
        never = int((~ever_observed).sum())
        raise DataError(
            "data",
            expected="gaps to fill",
            got="none" + (f"; {never} points are never seen" if never else ""),
            fix=("--everywhere fills points that are never seen, " if never else "")
            + "--smooth gives the law's field",
        )


def _time_limit(seconds: float) -> float | None:
    if not np.isfinite(seconds) or seconds < 0:
        expected, got = "a number of at least 0", f"{seconds:g}"
        raise InputError("--seconds", expected=expected, got=got, fix="pass --seconds 300")
    return seconds or None


def _fill_facts(filled_record: Filled, fields: xr.DataArray) -> dict[str, str]:
    observed = np.isfinite(fields.values)
    ever_observed = observed.any((0, 1))
    gaps = float((~observed[..., ever_observed]).mean()) if ever_observed.any() else 0.0
    never = f", {int((~ever_observed).sum())} points never seen" if not ever_observed.all() else ""
    std = filled_record.data["std"].values
    filled = std[np.isfinite(std) & (std > 0)]
    spread = f"{filled.min():.3g} to {filled.max():.3g}" if filled.size else "no gap was filled"
    return {
        "missing before": f"{100 * gaps:.3g} %{never}",
        "std in gaps": spread,
        "chosen": filled_record.data.attrs["chosen_by"],
    }


def _show_filled(output: Output, filled_record: Filled) -> None:
    """Print the candidates with their scores on held-out values."""
    header = ["candidate", "RMSE", "CRPS", "50 %", "80 %", "95 %", "seconds", ""]
    rows = []
    for trial in filled_record.trials:
        scores = [f"{x:.4g}" for x in (trial.rmse, trial.crps)]
        inside = [f"{100 * c:.0f}" for c in trial.coverage]
        shown = [*scores, *inside] if np.isfinite(trial.crps) else [""] * 5
        rows.append(
            [f"{trial.candidate}, {trial.rest}", *shown, f"{trial.seconds:.1f}", trial.note]
        )
    output.table("Candidates on held-out clouds, the chosen one first, then by CRPS", header, rows)


def _candidate_rows(filled_record: Filled) -> list[dict[str, Any]]:
    return [
        {
            **trial.candidate._asdict(), "rest": trial.rest, "rmse": trial.rmse,
            "crps": trial.crps, "coverage": list(trial.coverage), "seconds": trial.seconds,
            "note": trial.note,
        }
        for trial in filled_record.trials
    ]  # fmt: skip
