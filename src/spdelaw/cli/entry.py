"""The first lines that run: signals are set before any library is loaded."""

from __future__ import annotations

import _thread
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# ---------- Handlers of Ctrl-C


#: Exit code of an interrupt, as shells expect it, and its message.
INTERRUPTED, INTERRUPTED_LINE = 130, "interrupted; no output file is incomplete"
#: Seconds until a lost interrupt is sent again.
RESEND_DELAY = 0.05


@contextlib.contextmanager
def ending_interrupts() -> Iterator[None]:
    """End at once, in one line, on a Ctrl-C while libraries are loaded and nothing is at work.

    An exception in the middle of an import is at the mercy of what is imported: some of it is
    swallowed, some comes out as a traceback of somebody else's code.
    """

    def leave(*_: Any) -> None:
        os.write(2, f"error: {INTERRUPTED_LINE}\n".encode())
        os._exit(INTERRUPTED)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # somebody else decides, as a shell that started this in the background
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def kept_interrupts() -> Iterator[None]:
    """Send an interrupt again that fell into a callback, where Python only prints it.

    HDF5 runs so many weak-reference callbacks while it writes that about every second Ctrl-C
    falls into one.
    """
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(RESEND_DELAY, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back until the yielded function is called, or the block ends.

    Zarr writes in threads of its own, which go on after an exception here and would fill a
    directory that is being removed. A second Ctrl-C is not held back.
    """
    pressed = threading.Event()

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    def handler(*_: Any) -> None:
        check()
        pressed.set()

    if threading.current_thread() is not threading.main_thread():
        yield check  # only the main thread is ever interrupted
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
    check()


# ---------- The entry point


def main() -> None:
    """Entry point of the console script."""
    run("spdelaw", _load_app)


def run(name: str, load_app: Callable[[], Any]) -> None:
    """Set signals, load a shell and run it.

    A reader that has left, as in ``spdelaw ... | head``, ends the process as it ends any other
    program of Unix: by SIGPIPE, without a message (exit code 141 in a shell). What a terminal
    cannot show, such as the degrees of a unit in ASCII, is a question mark.

    Args:
        name: name of the program in its help.
        load_app: imports and returns the shell.
    """
    # A caller may have closed them.
    sys.stdout, sys.stderr = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with ending_interrupts():
        from typer.main import get_command

        command = get_command(load_app())
    command(prog_name=name)


def _load_app() -> Any:
    from spdelaw.cli.shell import app

    return app
