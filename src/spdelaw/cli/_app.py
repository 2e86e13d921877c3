"""The command ``spdelaw`` put together from its parts, each loaded when it is called.

Commands load the whole package, which takes longer than a list of commands may.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spdelaw import __version__
from spdelaw.cli._group import COMMANDS, load_command, make_app, stand_in
from spdelaw.cli._moved import MOVED, load_moved


def _load(name: str) -> Any:
    return load_moved(name) if name in MOVED else load_command(name)


app = make_app("spdelaw", COMMANDS, _load)
for _name in MOVED:
    app.command(_name, hidden=True)(stand_in)


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
