"""``spdelaw compare``: which of several laws to use, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spdelaw.cli import _options
from spdelaw.cli._fields import read_for
from spdelaw.cli._law_file import load_law
from spdelaw.cli._output import Output
from spdelaw.data import fingerprint
from spdelaw.errors import InputError
from spdelaw.evaluation import compare
from spdelaw.law import Law

EXAMPLES = """**Examples**

spdelaw compare few.law many.law

spdelaw compare diagonal.law dense.law --data new.nc

spdelaw compare a.law b.law c.law --data new.nc --json
"""


def command(
    *,
    laws: Annotated[
        list[Path], typer.Argument(metavar="LAW LAW ...", help="Laws written by `spdelaw fit`.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="File of data that no law was learned from.")
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    variable: _options.Variable = None,
    columns: _options.ColumnList = None,
    seed: _options.Seed = 0,
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
        found = compare(*learned, data=fields, names=_names(laws), level=level, seed=seed)
    output.table("Laws compared", ["", *found.names], found.table)
    for note in [*found.notes, *_not_new(found.names, learned, fields)]:
        output.line(f"note: {note}")
    output.line(found.sentence)
    output.document(
        command="compare",
        files=[str(path) for path in laws],
        data=None if data is None else str(data),
        **found.to_dict(),
    )


def _not_new(names: tuple[str, ...], laws: list[Law], fields: Any) -> list[str]:
    """That the data are those of a fit, on which more numbers look better than they are."""
    if fields is None:
        return []
    seen = fingerprint(laws[0].observe(fields).labelled)
    known = [law.info.get("data") for law in laws]
    own = [n for n, d in zip(names, known, strict=True)
           if isinstance(d, dict) and d.get("fingerprint") == seen]  # fmt: skip
    if not own:
        return []
    return [
        f"{' and '.join(own)} learned from these very data, on which more modes look better than "
        "they are: data of other times tell more, and so does spdelaw skill"
    ]


def _names(laws: list[Path]) -> tuple[str, ...]:
    """Names of the laws: of their folders, or their paths where those are alike."""
    stems = [path.name.removesuffix(".law") or str(path) for path in laws]
    paths = [str(path) for path in laws]
    if len(set(stems)) == len(stems):
        return tuple(stems)
    return tuple(paths if len(set(paths)) == len(paths) else map(str, range(1, len(laws) + 1)))
