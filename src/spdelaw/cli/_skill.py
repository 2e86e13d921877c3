"""``spdelaw skill``: forecasts of the past, scored beside what people use now."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from spdelaw.cli import _options, _prepare
from spdelaw.cli._config import Config, lines_named
from spdelaw.cli._domain import Asked, choose_domain
from spdelaw.cli._options import one_of, positive, word_or_count
from spdelaw.cli._output import Output, file_size, human_size
from spdelaw.cli._source import Source, read_source
from spdelaw.cli._target import check_figure_target, check_target
from spdelaw.data import write
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
    *,
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
    asked: Asked,
    modes: Annotated[
        str, typer.Option(help="A number, several to choose from with commas, or auto.")
    ] = "auto",
    drift: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(DRIFTS)}; diagonal and, for EOFs, dense are tried."),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(NOISES)}; what goes with the drift.")
    ] = None,
    initial: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(INITIALS)}; stationary for EOFs.")
    ] = None,
    nuisance: Annotated[
        str | None,
        typer.Option(help="Modes to model but not to report: a number, or auto; 0 for EOFs."),
    ] = None,
    rest: Annotated[
        str, typer.Option(help=f"What the modes leave over: one of {', '.join(RESTS)}.")
    ] = "auto",
    table: _options.Table,
    variable: _options.Variable = None,
    wanted: _prepare.Wanted,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    seed: _options.Seed = 0,
    config: Config = None,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Score forecasts of the past beside climatology, persistence, its decay and a LIM.

    From each origin, law and rivals see earlier times only: law, climatology and patterns are
    learned anew, --refits times in all. RMSE, CRPS, log score and coverage come with intervals
    from a bootstrap over blocks of origins.
    """
    start = time.perf_counter()
    columns = table.columns
    with lines_named(ctx):
        _check_targets(out, figure, force)
        settings: dict[str, Any] = {
            "leads": _counts("--leads", leads),
            "origins": one_of("--origins", origins, ORIGINS),
            "first": int(first) if first >= 1 and float(first).is_integer() else first,
            "refits": positive("--refits", refits),
            "most_origins": positive("--most-origins", most_origins),
            "rest": one_of("--rest", rest, RESTS),
            "level": level,
            "seed": seed,
        }
        words = (("drift", drift, DRIFTS), ("noise", noise, NOISES), ("initial", initial, INITIALS))
        settings |= {name: one_of(f"--{name}", v, all_) for name, v, all_ in words if v is not None}
        if nuisance is not None:
            settings["nuisance"] = word_or_count("--nuisance", nuisance, "auto", 0)
        n_modes = _modes(modes)
        source = read_source(file, variable, wanted, _named(asked), columns)
        place = _place(asked, source)
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


def _named(asked: Asked) -> str | None:
    return None if asked.domain == PATTERNS else asked.domain


def _place(asked: Asked, source: Source) -> Any:
    """Patterns, the domain that was asked for, or None where the better one is to be found."""
    if asked.domain == PATTERNS or (source.preparation is not None and not any(asked)):
        return asked.domain
    return choose_domain(asked._replace(domain=source.domain), source.fields).domain


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
        expected = "whole numbers of at least 1, with commas between them"
        raise InputError(option, expected=expected, got=repr(text), fix=f"pass {option} 1,3,6")
    return [int(part) for part in parts]


def _modes(text: str) -> int | str | list[int]:
    if text == "auto":
        return text
    given = _counts("--modes", text)
    return given[0] if len(given) == 1 else given
