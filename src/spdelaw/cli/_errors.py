"""One handler for everything that can go wrong in any command."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from spdelaw.cli._interrupt import kept_interrupts
from spdelaw.errors import SpdeLawError

#: Exit codes: bad input as for a wrong option; an interrupt as shells expect it.
BAD_INPUT, INTERRUPTED = 2, 130


class GuardedGroup(TyperGroup):
    """A group whose commands end in one line on stderr instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        with one_line_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors of this package, of files and of memory into a line and an exit code.

    Anything else is a defect of ours and keeps its traceback.
    """
    with warnings.catch_warnings(), kept_interrupts():
        warnings.showwarning = _show_warning
        try:
            yield
        except SpdeLawError as error:
            raise _leave(str(error), BAD_INPUT) from error
        except MemoryError as error:
            message = f"not enough memory ({error}). Fix: ask for less, or write to a .zarr"
            raise _leave(message, BAD_INPUT) from error
        except BrokenPipeError:
            raise  # the reader of a pipe has left; typer ends quietly
        except OSError as error:
            raise _leave(
                f"{error.filename or 'file'}: {error.strerror or error}", BAD_INPUT
            ) from error
        except KeyboardInterrupt as error:
            raise _leave("interrupted, nothing was half-written", INTERRUPTED) from error


def _leave(message: str, code: int) -> typer.Exit:
    _say("error", typer.colors.RED, message)
    return typer.Exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("warning", typer.colors.YELLOW, str(message))


def _say(kind: str, colour: str, message: str) -> None:
    line = " ".join(message.split())
    typer.echo(f"{typer.style(kind + ':', fg=colour, bold=True)} {line}", err=True)
