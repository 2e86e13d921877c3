"""``spdelaw fill``: the gaps of a record, by the law that predicts held-out clouds best."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from spdelaw.cli import _options, _prepare
from spdelaw.cli._domain import Asked, choose_domain
from spdelaw.cli._law_file import domain_name
from spdelaw.cli._options import one_of, word_or_count
from spdelaw.cli._output import Output
from spdelaw.cli._plan import show_plan
from spdelaw.cli._source import read_source
from spdelaw.cli._target import check_room, check_target, needed
from spdelaw.cli._written import report_written
from spdelaw.data import write
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation import BASES, RESTS, Filled, fill_record
from spdelaw.infer import DRIFTS

EXAMPLES = """**Examples**

spdelaw fill sst.nc --anomalies month --out filled.nc

spdelaw fill sst.nc --anomalies dayofyear --select lat=-20:20 --out filled.nc

spdelaw fill stations.csv --time date --value tmax --station id --lon lon --lat lat --out full.nc

spdelaw fill gappy.nc --modes 8 --drift diagonal --basis domain --rest white --out filled.nc

spdelaw fill sst.nc --anomalies month --dry-run
"""


def command(
    *,
    file: _options.InFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write: .nc or .zarr.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print guesses and the prepared data, and stop.")
    ] = False,
    table: _options.Table,
    asked: Asked,
    modes: Annotated[
        str, typer.Option(help="Number of modes, or auto to choose it by held-out clouds.")
    ] = "auto",
    basis: Annotated[
        str | None,
        typer.Option(help="domain (its modes) or patterns (of the data); both are tried."),
    ] = None,
    drift: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(DRIFTS)}; the usual ones are tried."),
    ] = None,
    rest: Annotated[
        str,
        typer.Option(
            help="What the modes leave over: white, memory, local (close values), shared (other "
            "points of the same time), auto."
        ),
    ] = "auto",
    smooth: Annotated[
        bool, typer.Option("--smooth", help="The law's field at observed values also.")
    ] = False,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Fill points that were never seen too.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(help="Begin no candidate that would take longer; 0 for no limit.")
    ] = 300.0,
    variable: _options.Variable = None,
    wanted: _prepare.Wanted,
    seed: _options.Seed = 0,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Fill the gaps of a record: mean and standard deviation of each missing value.

    Laws are tried on clouds: values that are held out as the gaps of other times lie. The one that
    predicts them best is learned again from all values and fills the gaps. Observed values stay as
    they are, and so do points that were never seen, such as land. The file is written whole or not
    at all.
    """
    start = time.perf_counter()
    columns = table.columns
    target = None if dry_run else check_target(needed(out, "filled.nc"), force=force)
    n_modes = word_or_count("--modes", modes, "auto", 1)
    settings: dict[str, Any] = {
        "basis": None if basis is None else one_of("--basis", basis, BASES),
        "drift": None if drift is None else one_of("--drift", drift, DRIFTS),
        "rest": one_of("--rest", rest, RESTS),
        "seconds": _limit(seconds),
        "smooth": smooth,
        "everywhere": everywhere,
        "seed": seed,
    }
    source = read_source(file, variable, wanted, asked.domain, columns)
    asked = asked._replace(domain=source.domain)
    chosen = choose_domain(asked, source.fields)
    if target is None:
        show_plan(output, file, source, chosen, n_modes)
        return
    if not (smooth or everywhere):
        _check_gaps(source.fields)
    check_room(target, 16 * source.fields.size)
    with output.busy(f"filling {file}"):
        found = fill_record(
            source.data, chosen.domain, n_modes, prepare=source.preparation, **settings
        )
    write(found.data, target)
    guesses = [*source.guesses, *([chosen.reason] if chosen.guessed else [])]
    if guesses:
        output.line(f"Guessed: {'; '.join(guesses)}. Options overrule each of these.\n")
    _show(output, found)
    report_written(
        output, "fill", f"{file} filled", found.data, target, time.perf_counter() - start,
        facts=_facts(found, source.fields) | {"domain": domain_name(chosen.domain)},
        data=str(file), guesses=guesses, candidates=_rows(found), chosen=_rows(found)[0],
        chosen_by=found.data.attrs["chosen_by"],
    )  # fmt: skip


def _check_gaps(fields: xr.DataArray) -> None:
    """Refuse what has nothing to be filled, before laws are compared for minutes."""
    seen = np.isfinite(fields.values)
    ever = seen.any((0, 1))
    if seen[..., ever].all():
        never = int((~ever).sum())
        raise DataError(
            "data",
            expected="gaps to fill",
            got="none" + (f"; {never} points are never seen" if never else ""),
            fix=("--everywhere fills points that are never seen, " if never else "")
            + "--smooth gives the law's field",
        )


def _limit(seconds: float) -> float | None:
    if not np.isfinite(seconds) or seconds < 0:
        expected, got = "a number of at least 0", f"{seconds:g}"
        raise InputError("--seconds", expected=expected, got=got, fix="pass --seconds 300")
    return seconds or None


def _facts(found: Filled, fields: xr.DataArray) -> dict[str, str]:
    seen = np.isfinite(fields.values)
    ever = seen.any((0, 1))
    gaps = float((~seen[..., ever]).mean()) if ever.any() else 0.0
    never = f", {int((~ever).sum())} points never seen" if not ever.all() else ""
    std = found.data["std"].values
    filled = std[np.isfinite(std) & (std > 0)]
    spread = f"{filled.min():.3g} to {filled.max():.3g}" if filled.size else "no gap was filled"
    return {
        "missing before": f"{100 * gaps:.3g} %{never}",
        "std in gaps": spread,
        "chosen": found.data.attrs["chosen_by"],
    }


def _show(output: Output, found: Filled) -> None:
    """Candidates by how well they predict what was held out."""
    header = ["candidate", "RMSE", "CRPS", "50 %", "80 %", "95 %", "seconds", ""]
    rows = []
    for trial in found.trials:
        scores = [f"{x:.4g}" for x in (trial.rmse, trial.crps)]
        inside = [f"{100 * c:.0f}" for c in trial.coverage]
        shown = [*scores, *inside] if np.isfinite(trial.crps) else [""] * 5
        rows.append(
            [f"{trial.candidate}, {trial.rest}", *shown, f"{trial.seconds:.1f}", trial.note]
        )
    output.table("Candidates on held-out clouds, the chosen one first, then by CRPS", header, rows)


def _rows(found: Filled) -> list[dict[str, Any]]:
    return [
        {
            **trial.candidate._asdict(), "rest": trial.rest, "rmse": trial.rmse,
            "crps": trial.crps, "coverage": list(trial.coverage), "seconds": trial.seconds,
            "note": trial.note,
        }
        for trial in found.trials
    ]  # fmt: skip
