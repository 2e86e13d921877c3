"""The list of commands, and how one of them is loaded and run."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import typer
from typer.core import TyperGroup

from spdelaw.cli._errors import one_line_errors
from spdelaw.cli._grouped import ungrouped
from spdelaw.cli._interrupt import ending_interrupts

#: In the order of the help, with the first sentence of each. A command is a module ``_name`` with
#: ``command`` and ``EXAMPLES``.
COMMANDS = {
    "demo": "Simulate the two equations of the paper, learn their laws back, and draw it all.",
    "dataset": "Copy a data set that comes with the package into a NetCDF file or a table.",
    "simulate": "Simulate paths of an equation of the catalogue and write them to a file.",
    "info": "Describe the fields of a file: whatever `fit` can read, and how it would read it.",
    "fit": "Learn the law of the fields in a file: spectra, initial state, noise, with intervals.",
    "discover": "Learn which terms the fields in a file obey, and their law with these terms.",
    "show": "Show a law: every parameter with its interval, how it was found, what to cite.",
    "sample": "Draw new paths from a law, at the times and points of its data by default.",
    "reconstruct": "Reconstruct fields under a law: mean and standard deviation at every time and "
    "point.",
    "fill": "Fill the gaps of a record: mean and standard deviation of each missing value.",
    "forecast": "Forecast paths from their history: mean and standard deviation, and draws on "
    "request.",
    "evaluate": "Judge a law on fields it has not seen: errors, calibration, model checks.",
    "compare": "Compare laws: likelihoods, nested tests, scores on new data, parameters side by "
    "side.",
    "skill": "Score forecasts of the past beside climatology, persistence, its decay and a LIM.",
    "report": "Write one HTML page: what was learned, how sure, does it fit, with figures to move.",
    "reproduce": "Run the paper's comparison again: five baselines, the engines, the limits.",
}

#: Key of the wish for JSON in the context of a call.
JSON = "spdelaw.json"


@functools.cache
def load_command(name: str) -> Any:
    """The real command, with its options and examples."""
    with ending_interrupts():
        module = importlib.import_module(f"spdelaw.cli._{name}")
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name, epilog=module.EXAMPLES)(ungrouped(module.command))
    return typer.main.get_command(single)


class LazyGroup(TyperGroup):
    """A group that lists stand-ins, runs real commands, and ends in a line instead of a traceback.

    ``get_command`` is what lists ask for, ``resolve_command`` what is going to run.
    """

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        """Read the options of the group; ``--json`` of a command is noted for what may fail."""
        wanted = "--json" in args
        with one_line_errors(wanted):
            ctx = super().make_context(info_name, args, *more, **extra)
        ctx.meta[JSON] = wanted
        return ctx

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that was asked for."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and load_command(str(found.name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        with one_line_errors(ctx.meta.get(JSON, False)):
            return super().invoke(ctx)
