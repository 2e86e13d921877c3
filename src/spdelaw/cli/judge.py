"""``spdelaw evaluate``, ``compare``, ``skill`` and ``report``."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import xarray as xr

from spdelaw import report
from spdelaw.cli import options
from spdelaw.cli.commands import Skill as SkillCall
from spdelaw.cli.inputs import (
    Source,
    check_same_domain,
    choose_domain,
    read_fields,
    read_for,
    read_source,
    stored_equation,
)
from spdelaw.cli.laws import load_law
from spdelaw.cli.options import DomainOptions, one_of, positive
from spdelaw.cli.output import (
    Output,
    check_figure_target,
    check_page_target,
    check_target,
    file_size,
    human_size,
)
from spdelaw.data.io.files import write
from spdelaw.data.summary import fingerprint
from spdelaw.errors import IdentifiabilityWarning, InputError
from spdelaw.evaluation.comparison import compare
from spdelaw.evaluation.forecast_skill import ORIGINS, Skill, skill
from spdelaw.evaluation.scorecard import evaluate
from spdelaw.infer.model import Model
from spdelaw.law.law import Law
from spdelaw.processes.linear import Linear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.report.figures.predictions import plot_skill
from spdelaw.report.figures.style import require_figures, save_figure

# ---------- ``spdelaw evaluate``: how well a law describes new fields


EVALUATE_EXAMPLES = """**Examples**

spdelaw evaluate heat.law test.nc

spdelaw evaluate heat.law test.nc --truth heat.nc --json
"""


class Truth(NamedTuple):
    """The true equation, where one is known, and where it comes from."""

    equation: SpectralSPDE | None
    source: str


TruthFile = Annotated[
    Path | None,
    typer.Option(help="Simulated file whose equation is the truth; that of the data by default."),
]
NoTruth = Annotated[
    bool, typer.Option("--no-truth", help="Do not use the equation stored with the data.")
]


def evaluate_command(
    *,
    law: options.LawArgument,
    file: options.InFile,
    truth: TruthFile = None,
    no_truth: NoTruth = False,
    variable: options.Variable = None,
    columns: options.ColumnList = None,
    output: Output,
) -> None:
    """Judge a law on fields it has not seen: errors, calibration, model checks.

    Fields that were simulated carry their equation: the law is then compared with the truth
    as well.
    """
    learned = load_law(law)
    fields = read_for(learned, file, variable, columns)
    reference = find_truth(truth, no_truth, file, fields, learned)
    with output.busy(f"evaluating {law}"):
        card = evaluate(learned, fields, reference.equation)
    output.line(f"{law} on {file}; truth: {reference.source}\n")
    output.line(repr(card))
    output.document(
        command="evaluate", law=str(law), data=str(file), truth=reference.source,
        verdict=card.verdict, advice=card.advice, scorecard=card.to_dict(),
    )  # fmt: skip


def find_truth(
    given: Path | None, unwanted: bool, file: Path, fields: xr.DataArray, law: Law
) -> Truth:
    """The true equation from the options or the file, checked against the law."""
    if given is not None and unwanted:
        expected = "either --truth or --no-truth"
        raise InputError("--truth", expected=expected, got="both", fix="leave one out")
    if unwanted or (given is None and not isinstance(law.dynamics, Linear)):
        return Truth(None, "not used")
    source = file if given is None else given
    equation = stored_equation(fields if given is None else read_fields(given))
    if equation is None and given is None:
        return Truth(None, "unknown")
    if equation is None:
        expected, fix = "a simulated file, with its equation", "pass a file of spdelaw simulate"
        raise InputError("--truth", expected=expected, got=f"none in {source}", fix=fix)
    check_same_domain(f"equation of {source}", equation.domain, law.domain)
    name = equation.label or "equation"
    if equation.n_modes < law.n_modes:
        expected = f"an equation of at least {law.n_modes} modes, as the law has"
        fix = "pass --no-truth, or fit fewer modes"
        raise InputError("--truth", expected=expected, got=str(equation.n_modes), fix=fix)
    return Truth(equation, f"{name}, {equation.n_modes} modes, from {source}")


# ---------- ``spdelaw compare``: which of several laws to use


COMPARE_EXAMPLES = """**Examples**

spdelaw compare few.law many.law

spdelaw compare diagonal.law dense.law --data new.nc

spdelaw compare a.law b.law c.law --data new.nc --json
"""


def compare_command(
    *,
    laws: Annotated[
        list[Path], typer.Argument(metavar="LAW LAW ...", help="Laws written by `spdelaw fit`.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="File of data that no law was learned from.")
    ] = None,
    level: options.Level = 0.95,
    variable: options.Variable = None,
    columns: options.ColumnList = None,
    seed: options.Seed = 0,
    output: Output,
) -> None:
    """Compare laws: likelihoods, nested tests, scores on new data, parameters side by side.

    Likelihoods are compared where they are densities of the same numbers; else --data is needed.
    The last line says which law to use, and how sure that is.
    """
    if len(laws) < 2:
        fix = "spdelaw compare a.law b.law"
        raise InputError("LAW", expected="at least two laws", got=str(len(laws)), fix=fix)
    learned = [load_law(path) for path in laws]
    fields = None if data is None else read_for(learned[0], data, variable, columns)
    with output.busy(f"comparing {len(laws)} laws"):
        comparison = compare(*learned, data=fields, names=_law_names(laws), level=level, seed=seed)
    output.table("Laws compared", ["", *comparison.names], comparison.table)
    for note in [*comparison.notes, *_training_data_notes(comparison.names, learned, fields)]:
        output.line(f"note: {note}")
    output.line(comparison.sentence)
    output.document(
        command="compare",
        files=[str(path) for path in laws],
        data=None if data is None else str(data),
        **comparison.to_dict(),
    )


def _training_data_notes(names: tuple[str, ...], laws: list[Law], fields: Any) -> list[str]:
    """Notes about laws fitted to these very data, where more parameters look better."""
    if fields is None:
        return []
    data_fingerprint = fingerprint(laws[0].observe(fields).labelled)
    learned_from = [law.info.get("data") for law in laws]
    same_data = [
        name
        for name, source in zip(names, learned_from, strict=True)
        if isinstance(source, dict) and source.get("fingerprint") == data_fingerprint
    ]
    if not same_data:
        return []
    return [
        f"{' and '.join(same_data)} learned from these very data, on which more modes look better "
        "than they are: data of other times tell more, and so does spdelaw skill"
    ]


def _law_names(laws: list[Path]) -> tuple[str, ...]:
    """Names of the laws: their folders, or their paths where two folders have one name."""
    stems = [path.name.removesuffix(".law") or str(path) for path in laws]
    paths = [str(path) for path in laws]
    if len(set(stems)) == len(stems):
        return tuple(stems)
    return tuple(paths if len(set(paths)) == len(paths) else map(str, range(1, len(laws) + 1)))


# ---------- ``spdelaw skill``: forecasts of the past, scored beside reference methods


#: Option value that stands for patterns of the data.
PATTERNS = "eof"


def skill_command(call: SkillCall) -> None:
    """Score forecasts of the past."""
    start = time.perf_counter()
    file, output = call.file, call.output
    _check_targets(call.out, call.figure, call.force)
    Model(**call.model)  # checks the words
    settings: dict[str, Any] = call.model | {
        "leads": _parse_counts("--leads", call.leads),
        "origins": one_of("--origins", call.origins, ORIGINS),
        "first": int(call.first) if call.first >= 1 and call.first.is_integer() else call.first,
        "refits": positive("--refits", call.refits),
        "most_origins": positive("--most-origins", call.most_origins),
        "level": call.level,
        "seed": call.seed,
    }
    n_modes = _parse_modes(call.modes)
    source = read_source(
        file, call.variable, call.preparation, call.along, _domain_name(call.domain),
        call.table.columns,
    )  # fmt: skip
    domain = _skill_domain(call.domain, source)
    with output.progress(f"forecasting {file}") as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        scores = skill(
            source.data, domain, n_modes, prepare=source.preparation, progress=progress, **settings
        )
    _write_skill(scores, call.out, call.figure)
    _show_skill(output, scores, file, source.guesses)
    written = (
        {} if call.out is None else {"forecasts": f"{call.out} ({human_size(file_size(call.out))})"}
    )
    written |= {} if call.figure is None else {"figure": str(call.figure)}
    seconds = time.perf_counter() - start
    output.facts("", written | {"time": f"{seconds:.1f} s"})
    output.document(
        command="skill", data=str(file), guesses=source.guesses, seconds=seconds,
        file=None if call.out is None else str(call.out),
        figure=None if call.figure is None else str(call.figure),
        **scores.to_dict(),
    )  # fmt: skip


def _domain_name(domain_options: DomainOptions) -> str | None:
    return None if domain_options.domain == PATTERNS else domain_options.domain


def _skill_domain(domain_options: DomainOptions, source: Source) -> Any:
    """Patterns, the requested domain, or None for the better of the candidates."""
    if domain_options.domain == PATTERNS or (
        source.preparation is not None and not any(domain_options)
    ):
        return domain_options.domain
    return choose_domain(domain_options._replace(domain=source.domain), source.fields).domain


def _check_targets(out: Path | None, figure: Path | None, force: bool) -> None:
    if out is not None:
        check_target(out, force=force)
    if figure is not None:
        require_figures()
        check_figure_target(figure, force=force)


def _write_skill(scores: Skill, out: Path | None, figure: Path | None) -> None:
    if out is not None:
        write(scores.forecasts, out)
    if figure is not None:
        save_figure(plot_skill(scores), figure)


def _show_skill(output: Output, scores: Skill, file: Path, guesses: list[str]) -> None:
    output.line(f"{scores.title}, {file}")
    for fact in scores.facts:
        output.line(f"  {fact}")
    if guesses:
        output.line(f"  guessed: {'; '.join(guesses)}")
    output.line("")
    for header, rows in scores.tables():
        output.table("", header, rows)
    output.line(scores.verdict)


def _parse_counts(option: str, text: str) -> list[int]:
    """Whole numbers with commas between them."""
    parts = [entry.strip() for entry in text.split(",")]
    if not all(entry.isdecimal() and int(entry) > 0 for entry in parts):
        expected = "whole numbers of at least 1, with commas between them"
        raise InputError(option, expected=expected, got=repr(text), fix=f"pass {option} 1,3,6")
    return [int(entry) for entry in parts]


def _parse_modes(text: str) -> int | str | list[int]:
    if text == "auto":
        return text
    given = _parse_counts("--modes", text)
    return given[0] if len(given) == 1 else given


# ---------- ``spdelaw report``: one HTML file that shows a law and how it describes data


REPORT_EXAMPLES = """**Examples**

spdelaw report heat.law --data heat.nc --out report.html

spdelaw report sst.law --data sst.nc --skill skill.json --out report.html

spdelaw report exact.law chaos.law --data unseen.nc --out engines.html
"""


def report_command(
    *,
    laws: Annotated[
        list[Path],
        typer.Argument(metavar="LAW...", help="Law of `spdelaw fit`; further ones to compare."),
    ],
    data: Annotated[
        Path, typer.Option("--data", "-d", help="Fields to judge on: .nc or .zarr, best unseen.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write, such as report.html.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    skill: Annotated[
        Path | None, typer.Option(help="JSON that `spdelaw skill --json` printed, to show too.")
    ] = None,
    truth: TruthFile = None,
    no_truth: NoTruth = False,
    max_paths: Annotated[int, typer.Option(help="Paths to use at most.")] = 100,
    variable: options.Variable = None,
    columns: options.ColumnList = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    output: Output,
) -> None:
    """Write one HTML page: what was learned, how sure, does it fit, with figures to move.

    The page opens offline in any browser, prints, and has a light and a dark look. With
    several laws the page is about the first and compares the others with it.
    """
    start = time.perf_counter()
    check_page_target(out, force=force)
    positive("--max-paths", max_paths)
    report.require_report()
    scores = None if skill is None else report.read_skill(skill)
    learned = _load_laws(laws)
    first = next(iter(learned.values()))
    fields = read_for(first, data, variable, columns)
    reference = find_truth(truth, no_truth, data, fields, first)
    source = {
        "data": str(data),
        **{f"law {name}": str(p) for name, p in zip(learned, laws, strict=True)},
    }
    observed = first.observe(fields)
    source |= _is_training_data(first, fingerprint(observed.labelled))
    with output.busy(f"writing {out}"):
        report.write_report(
            out, learned, observed, truth=reference.equation, title=title, source=source,
            skill=scores, max_paths=max_paths, seed=seed,
        )  # fmt: skip
    size, seconds = file_size(out), time.perf_counter() - start
    output.facts(
        f"Report on {', '.join(str(path) for path in laws)}",
        {"data": str(data), "truth": reference.source, "page": f"{out} ({human_size(size)})",
         "time": f"{seconds:.1f} s", "open": out.resolve().as_uri()},
    )  # fmt: skip
    output.document(
        command="report", laws=[str(path) for path in laws], data=str(data), truth=reference.source,
        file=str(out), bytes=size, seconds=seconds,
    )  # fmt: skip


def _load_laws(paths: list[Path]) -> dict[str, Law]:
    laws: dict[str, Law] = {}
    for path in paths:
        name = path.stem or str(path)
        if name in laws:
            expected, got = "laws of different names", f"{name} twice"
            raise InputError("LAW", expected=expected, got=got, fix="rename one of the directories")
        laws[name] = load_law(path)
    return laws


def _is_training_data(law: Law, data_fingerprint: str) -> dict[str, str]:
    """Whether the law was fitted to these data; empty where the law stores no fingerprint."""
    learned_from = law.info.get("data")
    law_fingerprint = learned_from.get("fingerprint") if isinstance(learned_from, dict) else None
    return (
        {}
        if law_fingerprint is None
        else {"same": "yes" if law_fingerprint == data_fingerprint else "no"}
    )
