"""The list of commands, and a shell that loads a command when it is called."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from spdelaw.cli._errors import one_line_errors
from spdelaw.cli._grouped import ungrouped
from spdelaw.cli._interrupt import ending_interrupts

#: In the order of the help, with the first sentence of each. A command is a module ``_name`` with
#: ``command`` and ``EXAMPLES``.
COMMANDS = {
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
}

#: Key of the wish for JSON in the context of a call.
JSON = "spdelaw.json"


def make_app(
    name: str, commands: Mapping[str, str], load: Callable[[str], Any], **settings: Any
) -> typer.Typer:
    """A shell whose commands are loaded when they are called.

    Args:
        name: name of the program.
        commands: first sentence of the help of each command.
        load: gives the real command of a name, such as `load_command`.
        settings: further settings of `typer.Typer`.
    """
    app = typer.Typer(
        name=name,
        cls=type("Commands", (LazyGroup,), {"load": staticmethod(load)}),
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )
    for command, text in commands.items():
        app.command(command, help=text)(stand_in)
    return app


def stand_in() -> None:
    """A command in the list; the real one is loaded when it is called."""


@functools.cache
def load_command(name: str, module: str | None = None) -> Any:
    """The real command, with its options and examples.

    Args:
        name: name of the command.
        module: module with ``command`` and ``EXAMPLES``; by default that of `spdelaw.cli`.
    """
    with ending_interrupts():
        loaded = importlib.import_module(module or f"spdelaw.cli._{name}")
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name, epilog=loaded.EXAMPLES)(ungrouped(loaded.command))
    return typer.main.get_command(single)


class LazyGroup(TyperGroup):
    """A group that lists stand-ins, runs real commands, and ends in a line instead of a traceback.

    Lists call ``get_command``; a run calls ``resolve_command``.
    """

    load: Callable[[str], Any]

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        """Read the options of the group; ``--json`` of a command is noted for what may fail."""
        wanted = "--json" in args
        with one_line_errors(wanted):
            ctx = super().make_context(info_name, args, *more, **extra)
        ctx.meta[JSON] = wanted
        return ctx

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that was asked for."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and self.load(str(command.name)), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        with one_line_errors(ctx.meta.get(JSON, False)):
            return super().invoke(ctx)
