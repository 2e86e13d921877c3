"""The command ``spdelaw`` put together from its parts, each loaded when it is called.

Commands load the whole package, which takes longer than a list of commands may.
"""

from __future__ import annotations

from typing import Annotated

import typer

from spdelaw import __version__
from spdelaw.cli._group import COMMANDS, LazyGroup

app = typer.Typer(
    name="spdelaw",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _loaded_when_called() -> None:
    """Stand-in of a command in the list."""


for _name, _text in COMMANDS.items():
    app.command(_name, help=_text)(_loaded_when_called)


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

    Every command takes --json and prints one JSON document on stdout, also when it fails. Exit
    codes: 0 done, 1 a check failed, 2 bad input with one line on stderr, 130 interrupted.
    """
