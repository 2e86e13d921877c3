"""The command ``spdelaw`` put together from its parts."""

from __future__ import annotations

from typing import Annotated

import typer

from spdelaw import __version__
from spdelaw.cli import (
    _dataset,
    _demo,
    _evaluate,
    _fit,
    _forecast,
    _info,
    _reconstruct,
    _report,
    _reproduce,
    _sample,
    _show,
    _simulate,
)
from spdelaw.cli._errors import GuardedGroup

app = typer.Typer(
    name="spdelaw",
    cls=GuardedGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: In the order of the help. A command is a module with ``command`` and ``EXAMPLES``.
COMMANDS = {
    "demo": _demo, "dataset": _dataset, "simulate": _simulate, "info": _info, "fit": _fit,
    "show": _show, "sample": _sample, "reconstruct": _reconstruct, "forecast": _forecast,
    "evaluate": _evaluate, "report": _report, "reproduce": _reproduce,
}  # fmt: skip

for _name, _module in COMMANDS.items():
    app.command(_name, epilog=_module.EXAMPLES)(_module.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spdelaw {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Learn the law of a stochastic PDE from observed space-time fields.

    Every command takes --json and prints one JSON document on stdout. Exit codes: 0 done, 1 a
    check failed, 2 bad input with one line on stderr, 130 interrupted.
    """


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="spdelaw")
