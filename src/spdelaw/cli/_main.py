"""The first lines that run: signals are set before any library is loaded."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

from spdelaw.cli._interrupt import ending_interrupts


def main() -> None:
    """Entry point of the console script."""
    run("spdelaw", _load_app)


def run(name: str, load_app: Callable[[], Any]) -> None:
    """Set signals, load a shell and run it.

    A reader that has left, as in ``spdelaw ... | head``, ends the process as it ends any other
    program of Unix: by SIGPIPE, without a word (exit code 141 in a shell). What a terminal cannot
    show, such as the degrees of a unit in ASCII, is a question mark.

    Args:
        name: name of the program in its help.
        load_app: imports and returns the shell.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with ending_interrupts():
        app = load_app()
    app(prog_name=name)


def _load_app() -> Any:
    from spdelaw.cli._app import app

    return app
