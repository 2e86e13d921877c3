"""The first lines that run: signals are set before any library is loaded."""

from __future__ import annotations

import signal
import sys

from spdelaw.cli._interrupt import ending_interrupts


def main() -> None:
    """Entry point of the console script.

    A reader that has left, as in ``spdelaw ... | head``, ends the process as it ends any other
    program of Unix: by SIGPIPE, without a word (exit code 141 in a shell). What a terminal cannot
    show, such as the degrees of a unit in ASCII, is a question mark.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with ending_interrupts():
        from spdelaw.cli._app import app
    app(prog_name="spdelaw")
