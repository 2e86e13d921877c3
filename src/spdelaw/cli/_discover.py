"""``spdelaw discover``: which terms the fields in a file obey."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from spdelaw.cli import _options, _prepare
from spdelaw.cli._config import Config, lines_named
from spdelaw.cli._domain import Asked, choose_domain
from spdelaw.cli._fit import observation_noise_of, said_once, with_source
from spdelaw.cli._grouped import Without
from spdelaw.cli._law_file import domain_name, law_document, show_notes, show_terms
from spdelaw.cli._options import held_of, names_of, one_of, word_or_count
from spdelaw.cli._output import Output
from spdelaw.cli._source import read_source
from spdelaw.cli._target import check_law_target
from spdelaw.data import Columns
from spdelaw.infer import OBSERVATION_NOISES, Discovery, discover
from spdelaw.infer.semilinear import NOISES

EXAMPLES = """**Examples**

spdelaw discover fronts.nc --modes 16 --out fronts.law

spdelaw discover fronts.nc --modes 16 --library u,u^2,u^3 --json

spdelaw discover flow.nc --modes 16 --library "u,u u_x,u_x^2" --out flow.law
"""


def command(
    *,
    ctx: typer.Context,
    file: _options.InFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Law with the chosen terms to write; none by default."),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="Terms to choose from, with commas; by default 1,u,u^2,u^3 and products of first "
            "derivatives where the domain has them."
        ),
    ] = None,
    asked: Asked,
    modes: Annotated[str, typer.Option(help="Modes of the law, or auto.")] = "auto",
    observation_noise: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(OBSERVATION_NOISES)}, or its known standard deviation."
        ),
    ] = "auto",
    noise: Annotated[
        str, typer.Option(help="parametric (scale n^-exponent) or diagonal.")
    ] = NOISES[0],
    fixed: _options.Fixed = None,
    variable: _options.Variable = None,
    wanted: Annotated[
        _prepare.Wanted, Without("anomalies", "detrend", "standardise", "area_weights")
    ],
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    bootstrap: Annotated[
        int, typer.Option(help="Resampled records that say how sure the choice is.")
    ] = 200,
    seed: _options.Seed = 0,
    config: Config = None,
    force: _options.Force = False,
    output: Output,
) -> None:
    """Learn which terms the fields in a file obey, and their law with these terms.

    Every subset of the library is a candidate, the linear law among them; the table compares the
    best by likelihood and BIC, and says how often resampled records choose each. Fields may have
    gaps, noise and times of their own, as for fit.
    """
    start = time.perf_counter()
    with lines_named(ctx):
        target = None if out is None else check_law_target(out, force=force)
        n_modes = word_or_count("--modes", modes, "auto", 1)
        settings: dict[str, Any] = {
            "library": None if library is None else names_of("--library", library),
            "noise": one_of("--noise", noise, NOISES),
            "fixed": None if fixed is None else held_of("--fixed", fixed),
            "observation_noise": observation_noise_of(observation_noise),
            "level": level,
            "bootstrap": bootstrap,
            "seed": seed,
        }
        source = read_source(file, variable, wanted, asked.domain, Columns())
        chosen = choose_domain(asked._replace(domain=source.domain), source.fields)
        settings["prepare"] = source.preparation
        with output.busy(f"choosing terms of {file}"), said_once(output):
            found = discover(source.data, chosen.domain, n_modes, **settings)
    law = with_source(found.law, file, source.fields, Columns())
    if target is not None:
        law.save(target)
    _show(output, found)
    facts = {"domain": f"{domain_name(law.domain)} ({chosen.reason})", "modes": str(law.n_modes)}
    facts |= {} if target is None else {"file": str(target)}
    output.facts("", facts | {"time": f"{time.perf_counter() - start:.1f} s"})
    show_notes(output, law)
    output.document(
        command="discover",
        data=str(file),
        file=None if target is None else str(target),
        domain_from=chosen.reason,
        discovery=found.to_dict(),
        law=law_document(law),
    )


def _show(output: Output, found: Discovery) -> None:
    """The sentence, the candidates and the coefficients of the best."""
    rows = []
    for row in found.to_dict()["candidates"]:
        height = row["log_likelihood"]
        height = "not fitted" if height is None else f"{height:.2f}"
        chosen = "" if row["frequency"] is None else f"{100 * row['frequency']:.0f} %"
        rows.append([row["terms"], height, f"{row['bic']:.1f}", chosen])
    output.table(found.sentence, ["terms", "log-likelihood", "BIC above the best", "chosen"], rows)
    show_terms(output, found.law)
