"""``spdelaw evaluate``: how well a law describes fields it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

import typer
import xarray as xr

from spdelaw.cli import _options
from spdelaw.cli._fields import check_same_domain, read_fields, read_for, stored_equation
from spdelaw.cli._law_file import load_law
from spdelaw.cli._output import Output
from spdelaw.equation import Linear, SpectralSPDE
from spdelaw.errors import InputError
from spdelaw.evaluation import evaluate
from spdelaw.law import Law

EXAMPLES = """**Examples**

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


def command(
    *,
    law: _options.LawArgument,
    file: _options.InFile,
    truth: TruthFile = None,
    no_truth: NoTruth = False,
    variable: _options.Variable = None,
    columns: _options.ColumnList = None,
    output: Output,
) -> None:
    """Judge a law on fields it has not seen: errors, calibration, model checks.

    Fields that were simulated carry their equation: the law is then compared with the truth
    as well.
    """
    learned = load_law(law)
    fields = read_for(learned, file, variable, columns)
    known = find_truth(truth, no_truth, file, fields, learned)
    with output.busy(f"evaluating {law}"):
        card = evaluate(learned, fields, known.equation)
    output.line(f"{law} on {file}; truth: {known.source}\n")
    output.line(repr(card))
    output.document(
        command="evaluate", law=str(law), data=str(file), truth=known.source,
        verdict=card.verdict, advice=card.advice, scorecard=card.to_dict(),
    )  # fmt: skip


def find_truth(
    given: Path | None, unwanted: bool, file: Path, fields: xr.DataArray, law: Law
) -> Truth:
    """The equation that the options or the file name, checked against the law."""
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
