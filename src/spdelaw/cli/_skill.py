"""``spdelaw skill``: forecasts of the past, scored beside what people use now."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from spdelaw.cli import _domain, _options, _prepare
from spdelaw.cli._config import Config, lines_named
from spdelaw.cli._domain import NAMES, Asked, choose_domain
from spdelaw.cli._options import one_of, positive, word_or_count
from spdelaw.cli._output import Output, file_size, human_size
from spdelaw.cli._source import read_source
from spdelaw.cli._target import check_figure_target, check_target
from spdelaw.data import Columns, write
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.evaluation import ORIGINS, Skill, skill
from spdelaw.infer import DRIFTS, INITIALS, NOISES, RESTS
from spdelaw.report import plot_skill, require_figures, save_figure

EXAMPLES = """**Examples**

spdelaw skill sst.nc --anomalies month --modes 6 --leads 1,3,6,12

spdelaw skill sst.nc --domain eof --anomalies month --modes 2,4,8 --drift dense --noise dense

spdelaw skill tmax.csv --time date --value tmax --lon lon --lat lat --anomalies dayofyear

spdelaw skill heat.nc --modes 4 --leads 1,5 --out forecasts.nc --figure skill.png
"""

#: The word for patterns of the data.
PATTERNS = "eof"


def command(
    ctx: typer.Context,
    file: _options.InFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Forecasts to write: .nc or .zarr.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Figure of the scores to write, such as skill.png.")
    ] = None,
    leads: Annotated[str, typer.Option(help="Steps ahead, with commas.")] = "1,3,6,12",
    origins: Annotated[
        str, typer.Option(help="expanding (learn from all before) or rolling (from as many).")
    ] = ORIGINS[0],
    first: Annotated[
        float, typer.Option(help="Times before the first origin, as a number or a share of all.")
    ] = 0.6,
    refits: Annotated[int, typer.Option(help="How often all is learned anew.")] = 4,
    most_origins: Annotated[int, typer.Option(help="Origins, spread evenly.")] = 100,
    domain: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(NAMES)}, a .json, or eof for patterns of the data."),
    ] = None,
    bounds: _domain.Bounds = None,
    boundary: _domain.Boundary = None,
    sides: _domain.Sides = None,
    radius: _domain.Radius = None,
    centre: _domain.Centre = None,
    modes: Annotated[
        str, typer.Option(help="A number, several to choose from with commas, or auto.")
    ] = "auto",
    drift: Annotated[str, typer.Option(help=f"One of {', '.join(DRIFTS)}.")] = DRIFTS[0],
    noise: Annotated[str, typer.Option(help=f"One of {', '.join(NOISES)}.")] = NOISES[0],
    initial: Annotated[str, typer.Option(help=f"One of {', '.join(INITIALS)}.")] = "auto",
    nuisance: Annotated[
        str, typer.Option(help="Modes to model but not to report: a number, or auto.")
    ] = "auto",
    rest: Annotated[
        str, typer.Option(help=f"What the modes leave over: one of {', '.join(RESTS)}.")
    ] = "auto",
    time_column: _options.TimeColumn = None,
    value_column: _options.ValueColumn = None,
    station_column: _options.StationColumn = None,
    lon_column: _options.LonColumn = None,
    lat_column: _options.LatColumn = None,
    x_column: _options.XColumn = None,
    y_column: _options.YColumn = None,
    variable: _options.Variable = None,
    along: _prepare.Along = None,
    average: _prepare.Average = None,
    select: _prepare.Select = None,
    coarsen: _prepare.Coarsen = None,
    anomalies: _prepare.Anomalies = None,
    detrend: _prepare.Detrend = False,
    standardise: _prepare.Standardise = None,
    area_weights: _prepare.AreaWeights = False,
    missing: _prepare.Missing = None,
    time_unit: _prepare.TimeUnit = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: _options.Seed = 0,
    config: Config = None,
    force: _options.Force = False,
    json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Score forecasts of the past beside climatology, persistence, its decay and a LIM.

    From each origin, law and rivals see earlier times only: law, climatology and patterns are
    learned anew, --refits times in all. RMSE, CRPS, log score and coverage come with intervals
    from a bootstrap over blocks of origins.
    """
    start, output = time.perf_counter(), Output(json, quiet)
    wanted = _prepare.Wanted(
        along, average, select, coarsen, anomalies, detrend, standardise, time_unit, area_weights,
        missing,
    )  # fmt: skip
    columns = Columns(
        time_column, value_column, station_column, lon_column, lat_column, x_column, y_column
    )
    with lines_named(ctx):
        _check_targets(out, figure, force)
        settings: dict[str, Any] = {
            "leads": _counts("--leads", leads),
            "origins": one_of("--origins", origins, ORIGINS),
            "first": int(first) if first >= 1 and float(first).is_integer() else first,
            "refits": positive("--refits", refits),
            "most_origins": positive("--most-origins", most_origins),
            "drift": one_of("--drift", drift, DRIFTS), "noise": one_of("--noise", noise, NOISES),
            "initial": one_of("--initial", initial, INITIALS),
            "nuisance": word_or_count("--nuisance", nuisance, "auto", 0),
            "rest": one_of("--rest", rest, RESTS), "level": level, "seed": seed,
        }  # fmt: skip
        n_modes = _modes(modes)
        named = None if domain == PATTERNS else domain
        source = read_source(file, variable, wanted, named, columns)
        place: Any = PATTERNS
        if domain != PATTERNS:
            asked = Asked(source.domain, bounds, sides, boundary, radius, centre)
            place = choose_domain(asked, source.fields).domain
        with output.progress(f"forecasting {file}") as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            found = skill(
                source.data, place, n_modes, prepare=source.preparation, progress=progress,
                **settings,
            )  # fmt: skip
    _write(found, out, figure)
    _show(output, found, file, source.guesses)
    facts = {"forecasts": f"{out} ({human_size(file_size(out))})"} if out is not None else {}
    facts |= {"figure": str(figure)} if figure is not None else {}
    seconds = time.perf_counter() - start
    output.facts("", facts | {"time": f"{seconds:.1f} s"})
    output.document(
        command="skill", data=str(file), guesses=source.guesses, seconds=seconds,
        file=None if out is None else str(out), figure=None if figure is None else str(figure),
        **found.to_dict(),
    )  # fmt: skip


def _check_targets(out: Path | None, figure: Path | None, force: bool) -> None:
    if out is not None:
        check_target(out, force=force)
    if figure is not None:
        require_figures()
        check_figure_target(figure, force=force)


def _write(found: Skill, out: Path | None, figure: Path | None) -> None:
    if out is not None:
        write(found.forecasts, out)
    if figure is not None:
        save_figure(plot_skill(found), figure)


def _show(output: Output, found: Skill, file: Path, guesses: list[str]) -> None:
    output.line(f"{found.title}, {file}")
    for fact in found.facts:
        output.line(f"  {fact}")
    if guesses:
        output.line(f"  guessed: {'; '.join(guesses)}")
    output.line("")
    for header, rows in found.tables():
        output.table("", header, rows)
    output.line(found.verdict)


def _counts(option: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(
            option, expected="whole numbers of at least 1, with commas between them",
            got=repr(text), fix=f"pass {option} 1,3,6",
        )  # fmt: skip
    return [int(part) for part in parts]


def _modes(text: str) -> int | str | list[int]:
    if text == "auto":
        return text
    given = _counts("--modes", text)
    return given[0] if len(given) == 1 else given
