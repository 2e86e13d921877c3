"""``spdelaw sample``, ``reconstruct``, ``forecast`` and ``fill``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.cli.commands.show import show_guesses, show_plan, with_source
from spdelaw.cli.inputs import DataOptions, LawAndData, read_places, shown_time
from spdelaw.cli.options import (
    DataFile,
    FillModel,
    FillSettings,
    LawFile,
    Modes,
    NewFields,
    Numbers,
    PositiveInt,
)
from spdelaw.cli.output import Output, check_law, check_size, report_written, required_target
from spdelaw.cli.values import refused
from spdelaw.data.clock import from_dates
from spdelaw.data.io.files import write
from spdelaw.data.io.tables import is_table
from spdelaw.data.observed import Observed
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.gap_filling import fill
from spdelaw.infer.model import Model
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.law.observations import next_times
from spdelaw.report.tables import domain_text

# ---------- ``spdelaw sample``: write new paths of a law


def sample_command(
    law: LawFile,
    out: NewFields,
    output: Output,
    paths: PositiveInt = 100,
    times: Numbers | None = None,
    points: PositiveInt | None = None,
    observation_noise: bool = False,
    seed: int = 0,
) -> None:
    """Simulate new paths of a law, by default at the times and points of its data.

    Options:
        points: Number of regular grid points along each dimension; by default the points of the
            data.
        observation_noise: Add the estimated observation noise to each value.

    Examples:
        spdelaw sample heat.law --paths 100 --out new.nc
        spdelaw sample heat.law --times 0,0.5,1,2 --points 51 --observation-noise --out new.nc
    """
    learned = load(law)
    grid = learned.points if points is None else learned.domain.grid(points)
    check_size(out, 8 * paths * len(learned.times if times is None else times) * len(grid))
    fields = learned.sample(paths, times, grid, seed=seed, observation_noise=observation_noise)
    write(fields, out)
    report_written(output, f"New paths of {law}", fields, out, law=str(law), seed=seed)


# ---------- ``spdelaw reconstruct``: observed paths without gaps and noise


def reconstruct_command(
    source: LawAndData,
    out: NewFields,
    output: Output,
    points: PositiveInt | None = None,
    places: DataFile | None = None,
) -> None:
    """Reconstruct fields under a law: mean and standard deviation at every time and point.

    Gaps are NaN. `std` is the standard deviation of a value that would be observed, `std_field`
    that of the field without observation noise.

    Options:
        points: Number of regular grid points along each dimension; by default the points of the
            file.
        places: Table of places to reconstruct at, with columns lon and lat, or x and y.

    Examples:
        spdelaw reconstruct heat.law gappy.nc --out full.nc
        spdelaw reconstruct heat.law sensors.nc --points 101 --out full.nc
        spdelaw reconstruct tmax.law stations.csv --places villages.csv --out villages-tmax.csv
    """
    learned, fields = source.read()
    grid = None if points is None else learned.domain.grid(points)
    grid = grid if places is None else read_places(places, learned)
    with output.busy(f"reconstructing {source.file}"):
        result = learned.reconstruct(fields, grid)
    write(result, out)
    missing = float(np.isnan(fields.data).mean())
    std = _as_written(result["std"], out)
    low, high = float(std.min()), float(std.max())
    facts = {"missing before": f"{100 * missing:.3g} %", "std": f"{low:.3g} to {high:.3g}"}
    report_written(
        output, f"{source.file} under {source.law}", result, out, facts, law=str(source.law),
        data=str(source.file), missing=missing, std=[low, high],
    )  # fmt: skip


def _as_written(result: xr.DataArray, out: Path) -> xr.DataArray:
    """A lazy result read back from its file, so that it is not computed twice."""
    if result.chunks is None or is_table(out):
        return result
    if out.suffix.lower() == ".zarr":
        return xr.open_zarr(out, consolidated=False)[result.name]
    return xr.open_dataset(out, engine="h5netcdf", chunks={})[result.name]


# ---------- ``spdelaw forecast``: predict observed paths


#: Times of one forecast where only its end is given.
MOST_STEPS = 10_000


def forecast_command(
    source: LawAndData,
    out: NewFields,
    output: Output,
    origin: str | None = None,
    until: str | None = None,
    steps: PositiveInt | None = None,
    times: str | None = None,
    places: DataFile | None = None,
    samples: int = 0,
    parameter_draws: int = 0,
    seed: int = 0,
) -> None:
    """Forecast paths from their history: mean and standard deviation, and draws on request.

    The history may have gaps and noise. Choose the times of the forecast by --steps, such as six
    months of monthly data, by --until, by both, which cuts the time up to it into equal parts, or
    by --times.

    Options:
        origin: Last time of the history; later times of the file are not used. By default the last
            time of the file.
        until: Last time of the forecast, a number or a date.
        steps: Number of steps of the record to forecast; with --until, of equal parts up to it.
        times: Times of the forecast, numbers or dates, separated by commas, such as 0,0.1,0.5.
        places: Table of places to forecast at, with columns lon and lat, or x and y; by default
            the points of the file.
        samples: Number of joint draws to write as well.
        parameter_draws: Number of draws of the parameters, whose uncertainty the standard deviation
            then includes; 20 are enough, 0 ignores it.

    Shown first:
        law, file, out, force, steps, until, times, origin, samples, places

    Examples:
        spdelaw forecast sst.law sst.nc --steps 6 --out forecast.nc
        spdelaw forecast heat.law history.nc --until 2 --steps 100 --out forecast.nc
        spdelaw forecast sst.law sst.nc --until 2011-03-15 --out forecast.nc
        spdelaw forecast heat.law history.nc --times 1.1,1.5,3 --samples 200 --out forecast.nc
        spdelaw forecast sst.law hindcasts.nc --origin 3 --steps 5 --out ahead.nc
    """
    is_regular = until is not None or steps is not None
    if is_regular == (times is not None):
        expected = "--steps, --until or both, or else --times"
        raise refused("--steps", expected, "both" if is_regular else "neither", "6")
    learned, fields = source.read()
    history = learned.observe(fields)
    if origin is not None:
        history = _up_to(history, *_parse_times(learned, "--origin", [origin]))
    observed = history.fields
    end = _last_time(observed)
    if times is not None:
        clock = _parse_times(learned, "--times", times.split(","))
    else:
        clock = _regular_times(learned, observed, end, until, steps)
    n_values = (observed.size // observed.sizes["time"]) * len(clock)
    check_size(out, 8 * (2 + max(samples, 0)) * n_values)
    with output.busy(f"forecasting {source.file}"):
        result = learned.forecast(
            history, clock, n_samples=samples, seed=seed, parameter_draws=parameter_draws,
            grid=None if places is None else read_places(places, learned),
        )  # fmt: skip
    write(result, out)
    first, last = (_time_text(learned, moment) for moment in (clock[0], clock[-1]))
    facts = {"history": f"until {_time_text(learned, end)}", "forecast": f"{first} to {last}"}
    report_written(
        output, f"{source.file} under {source.law}", result, out, facts, law=str(source.law),
        data=str(source.file), history_end=end, times=list(clock), seed=seed,
    )  # fmt: skip


def _up_to(history: Observed, last: float) -> Observed:
    """The history without times after the last one."""
    known = history.fields["time"].values <= last
    if history.has_own_clocks or not known.any():
        expected = "a time of the history, the same for all paths"
        fix = f"pass --origin {history.fields['time'].values[-2]:g}"
        raise InputError("--origin", expected=expected, got=f"{last:g}", fix=fix)
    return history.at_times(slice(int(known.sum())))


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


def _parse_times(law: Law, option: str, texts: list[str]) -> list[float]:
    """Numbers, or dates on the clock of the law."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        pass
    try:
        return from_dates(np.array([t.strip() for t in texts]), law.info.get("time", {})).tolist()
    except DataError as error:
        last = _time_text(law, float(law.times[-1])).split()[0]
        expected = "numbers, or dates such as 2011-03-15 in the calendar of the data"
        raise refused(option, expected, repr(",".join(texts)), last) from error


def _time_text(law: Law, moment: float) -> str:
    """A time as a number, and as a date where the law has dates."""
    clock = law.info.get("time", {})
    if " since " not in str(clock.get("units", "")):
        return f"{moment:g}"
    return f"{shown_time(moment, clock)} ({moment:g})"


# ---------- ``spdelaw fill``: fill gaps by the law that predicts held-out values best


def fill_command(
    data: DataOptions,
    output: Output,
    model: FillModel,
    settings: FillSettings,
    out: NewFields | None = None,
    save_law: Path | None = None,
    dry_run: bool = False,
    modes: Modes = "auto",
) -> None:
    """Fill the gaps of a record: mean and standard deviation of each missing value.

    The model is chosen by cross-validation: values are held out in the same patterns as the real
    gaps. The best model is fitted again to all values and fills the gaps. Observed values do not
    change, and grid cells without any data, such as land, stay empty. An interrupted run leaves no
    file behind.

    Options:
        save_law: Law to write as well, such as best.law: the chosen one, fitted to all data. An
            existing law is not replaced.
        modes: Number of modes, or auto to choose it by cross-validation.
        drift: ... [default: several are compared]
        basis: Modes to use: domain (eigenfunctions of the domain) or patterns (EOFs of the data);
            by default both are compared.
        residual: Model of the residual outside the modes: white, memory (correlated in time at each
            point), local (interpolated from close values), shared (regression on other points of
            the same time), or auto (chosen by cross-validation).
        smooth: Also replace observed values by the estimated field.
        everywhere: Also fill grid cells that have no data at any time.
        seconds: Time limit: start no candidate that would exceed it; 0 for no limit.
        seed: Seed of the choice of held-out values: the same seed gives the same result.

    Shown first:
        file, out, save_law, force, dry_run, variable, domain, modes, anomalies, drift, basis,
        residual, smooth, everywhere, seconds

    Examples:
        spdelaw fill sst.nc --anomalies month --out filled.nc
        spdelaw fill sst.nc --anomalies dayofyear --select lat=-20:20 --out filled.nc
        spdelaw fill stations.csv --time date --value tmax --lon lon --lat lat --out full.csv
        spdelaw fill gappy.nc --modes 8 --drift diagonal --residual white --out full.nc
        spdelaw fill sst.nc --anomalies month --dry-run
    """
    file = data.file
    target = None if dry_run else required_target(out, file, "-filled.nc")
    Model(**model)  # checks the words
    if save_law is not None:
        check_law(save_law, False)
    source = data.read()
    chosen = source.choose_domain()
    if target is None:
        show_plan(output, file, source, chosen, modes)
        return
    gaps, never = _count_gaps(source.fields)
    without_data = f"{never} points have no data at any time"
    if not (gaps or settings.get("smooth") or settings.get("everywhere")):
        got = "none" + (f"; {without_data}" if never else "")
        fix = "--everywhere fills points without data, " if never else ""
        fix += "--smooth gives the law's field"
        raise DataError("data", expected="gaps to fill", got=got, fix=fix)
    check_size(target, 16 * source.fields.size)
    with output.busy(f"filling {file}"):
        filled, law = fill(
            source.data, chosen.domain, modes, prepare=source.preparation, return_law=True,
            **model, **settings,
        )  # fmt: skip
    write(filled, target)
    if save_law is not None:
        with_source(law, data, source.fields).save(save_law)
    show_guesses(output, source)
    candidates = _candidates_of(filled)
    _show_candidates(output, filled["candidate"].values, candidates)
    std = filled["std"].values
    std = std[np.isfinite(std) & (std > 0)]
    facts = {} if save_law is None else {"law": str(save_law)}
    facts |= {
        "missing before": f"{100 * gaps:.3g} %" + (f", {without_data}" if never else ""),
        "std in gaps": f"{std.min():.3g} to {std.max():.3g}" if std.size else "no gap was filled",
        "chosen": filled.attrs["chosen_by"],
        "domain": domain_text(chosen.domain),
    }
    report_written(
        output, f"{file} filled", filled, target, facts, data=str(file),
        guesses=source.guesses, candidates=candidates, chosen=candidates[0],
        chosen_by=filled.attrs["chosen_by"],
    )  # fmt: skip


def _count_gaps(fields: xr.DataArray) -> tuple[float, int]:
    """Share of gaps in cells that have data, and the number of cells that have none."""
    observed = np.isfinite(fields.values)
    ever_observed = observed.any((0, 1))
    gaps = ~observed[..., ever_observed]
    return float(gaps.mean()) if gaps.size else 0.0, int((~ever_observed).sum())


def _candidates_of(filled: xr.Dataset) -> list[dict[str, Any]]:
    """What each candidate is, and its scores."""
    table = {
        str(name).removeprefix("candidate_").removeprefix("held_out_"): column.values
        for name, column in filled.data_vars.items()
        if column.dims[:1] == ("candidate",)
    }
    return [{k: values[i] for k, values in table.items()} for i in range(filled.candidate.size)]


def _show_candidates(output: Output, names: Any, candidates: list[dict[str, Any]]) -> None:
    """Print the candidates with their scores on held-out values."""
    header = ["candidate", "RMSE", "CRPS", "50 %", "80 %", "95 %", "seconds", ""]
    rows = []
    for name, one in zip(names, candidates, strict=True):
        scores = [f"{one[score]:.4g}" for score in ("rmse", "crps")]
        inside = [f"{100 * share:.0f}" for share in one["coverage"]]
        shown = [*scores, *inside] if np.isfinite(one["crps"]) else [""] * 5
        rows.append([name, *shown, f"{one['seconds']:.1f}", one["note"]])
    output.table("Candidates on held-out values, the chosen one first, then by CRPS", header, rows)
