"""One handler for everything that can go wrong in any command."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from typing import Any

import typer

from spdelaw.cli._interrupt import INTERRUPTED, INTERRUPTED_LINE, kept_interrupts
from spdelaw.errors import SpdeLawError

#: Exit code of bad input, the same as for a wrong option.
BAD_INPUT = 2
#: What typer raises for a command line that cannot be read, and shows in a box.
UsageError: Any = typer.BadParameter.__base__


@contextlib.contextmanager
def one_line_errors(as_json: bool = False) -> Iterator[None]:
    """Turn errors of this package, of files and of memory into a line and an exit code.

    With ``as_json`` stdout gets a JSON document about any error as well. Anything that is none
    of these is a defect of ours and keeps its traceback.
    """
    with warnings.catch_warnings(), kept_interrupts():
        warnings.showwarning = _show_warning
        try:
            yield
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise  # an end on purpose; the reader of a pipe has left
        except UsageError as error:
            _document(as_json, error, error.format_message(), BAD_INPUT)
            raise
        except (SpdeLawError, MemoryError, OSError) as error:
            message = _message(error)
            _document(as_json, error, message, BAD_INPUT)
            raise _leave(message, BAD_INPUT) from error
        except KeyboardInterrupt as error:
            _document(as_json, error, INTERRUPTED_LINE, INTERRUPTED)
            raise _leave(INTERRUPTED_LINE, INTERRUPTED) from error
        except Exception as error:
            _document(as_json, error, str(error), 1)
            raise


def _message(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}). Fix: ask for less, or write to a .zarr"
    if isinstance(error, OSError) and not isinstance(error, SpdeLawError):
        return f"{error.filename or 'file'}: {error.strerror or error}"
    return str(error)


def _document(wanted: bool, error: BaseException, message: str, code: int) -> None:
    """One JSON document about an error on stdout; parts that it does not have are null."""
    if not wanted:
        return
    parts = {key: getattr(error, key, None) for key in ("what", "expected", "got", "fix")}
    found = {"type": type(error).__name__, "message": " ".join(message.split())} | parts
    typer.echo(json.dumps({"error": found, "exit_code": code}, default=str))


def _leave(message: str, code: int) -> typer.Exit:
    _say("error", typer.colors.RED, message)
    return typer.Exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("warning", typer.colors.YELLOW, str(message))


def _say(kind: str, colour: str, message: str) -> None:
    line = " ".join(message.split())
    typer.echo(f"{typer.style(kind + ':', fg=colour, bold=True)} {line}", err=True)
