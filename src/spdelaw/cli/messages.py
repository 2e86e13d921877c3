"""Errors and warnings in the language of the shell: options, not Python's arguments."""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import typer

from spdelaw.cli.entry import INTERRUPTED, INTERRUPTED_LINE, kept_interrupts
from spdelaw.errors import SpdeLawError

#: Exit code of bad input, the same as for a wrong option.
BAD_INPUT = 2
#: What typer raises for a command line that cannot be read, and shows in a box.
UsageError: Any = typer.BadParameter.__base__

# ---------- One line and an exit code


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
            _print_error_document(as_json, error, error.format_message(), BAD_INPUT)
            raise
        except (SpdeLawError, MemoryError, OSError) as error:
            message = _message(error)
            _print_error_document(as_json, error, message, BAD_INPUT)
            raise _exit_with_error(message, BAD_INPUT) from error
        except KeyboardInterrupt as error:
            _print_error_document(as_json, error, INTERRUPTED_LINE, INTERRUPTED)
            raise _exit_with_error(INTERRUPTED_LINE, INTERRUPTED) from error
        except Exception as error:
            _print_error_document(as_json, error, str(error), 1)
            raise


def _message(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return (
            f"not enough memory ({error}). Fix: request fewer paths or times, or write to a .zarr"
        )
    if isinstance(error, OSError) and not isinstance(error, SpdeLawError):
        return f"{error.filename or 'file'}: {error.strerror or error}"
    return str(error)


def _print_error_document(as_json: bool, error: BaseException, message: str, code: int) -> None:
    """Print one JSON document about an error on stdout; attributes it lacks are null."""
    if not as_json:
        return
    parts = {key: getattr(error, key, None) for key in ("what", "expected", "got", "fix")}
    description = {"type": type(error).__name__, "message": " ".join(message.split())} | parts
    typer.echo(json.dumps({"error": description, "exit_code": code}, default=str))


def _exit_with_error(message: str, code: int) -> typer.Exit:
    _print_line("error", typer.colors.RED, message)
    return typer.Exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _print_line("warning", typer.colors.YELLOW, in_options(str(message)))


def _print_line(kind: str, colour: str, message: str) -> None:
    line = " ".join(message.split())
    typer.echo(f"{typer.style(kind + ':', fg=colour, bold=True)} {line}", err=True)


# ---------- Options in place of arguments


#: Options whose argument in Python has another name.
PYTHON_NAMES = {"n_modes": "modes", "n_paths": "paths", "n_samples": "samples",
                "return_noise": "noise"}  # fmt: skip
#: Coordinates of data; options of these names are columns of a table.
COORDINATES = ("time", "lon", "lat", "x", "y", "station", "units")
#: ``name=value`` of Python, with a text, a call such as ``sl.Season(365.25, 4)``, or a plain word.
_ASSIGNMENT = re.compile(r"\b(\w+)=(?:['\"]([^'\"]*)['\"]|sl\.(\w+)\(([^()]*)\)|([\w.+-]+))")

#: Advice for Python in addition to the option, which the shell does not need.
_FOR_PYTHON = re.compile(
    r", in Python (?:[^,()]*\([^()]*(?:\([^()]*\)[^()]*)*\)|\w+=['\"]?[\w.+-]+['\"]?)"
    r"(?:, \w+=\([^()]*\))*"
)


@functools.cache
def fit_options() -> frozenset[str]:
    """Arguments that are options of ``spdelaw fit``: advice about a law names them."""
    from spdelaw.cli.options import GROUPS

    groups = ("ModelOptions", "PreparationOptions", "TermOptions", "EngineOptions")
    own = {"modes", "domain", "bootstrap", "level", "seed", "engine"}
    return frozenset(own.union(*(GROUPS[name].fields() for name in groups)))


def in_options(text: str, names: Iterable[str] = ()) -> str:
    """A text with ``initial='auto'`` of Python as ``--initial auto`` of the shell."""
    options = {*names, *fit_options()}

    def option(match: re.Match[str]) -> str:
        name, quoted, kind, arguments, word = match.groups()
        name = PYTHON_NAMES.get(name, name)
        if name in ("prepare", "model", "engine") and arguments:
            return in_options(arguments, names)
        # A value, as in --select lat=-2:2, or an argument of another function.
        is_part = re.search(r"--[\w-]+ $|\w\($", text[: match.start()])
        if name not in options or is_part:
            return match[0]
        flag = "--" + name.replace("_", "-")
        if kind is not None:
            value = kind.lower() if name == "domain" else arguments.replace(",", "")
        else:
            value = quoted if quoted is not None else word
        if value in ("True", "False"):
            return flag if value == "True" else f"--no-{flag[2:]}"
        return f"{flag} {value}"

    return _ASSIGNMENT.sub(option, _FOR_PYTHON.sub("", text))


@contextlib.contextmanager
def shell_language(
    names: Mapping[str, str], lines: Callable[[], Mapping[str, str]]
) -> Iterator[None]:
    """Rewrite an error for the shell.

    ``initial: ... Fix: pass initial='auto'`` becomes ``--initial: ... Fix: pass --initial auto``.
    A value that is close to an accepted word gets that word as its fix. An option from a
    configuration file gets its line.

    Args:
        names: option, or name of the positional argument, by argument.
        lines: gives the position in the configuration file by option.
    """
    try:
        yield
    except SpdeLawError as error:
        what = PYTHON_NAMES.get(error.what, error.what)
        if what not in COORDINATES or "column" in error.expected:
            what = names.get(what, what).split("...")[0]  # of "LAW... [DATA]"
        position = lines().get(what)
        what = what if position is None else f"{position}, {what.lstrip('-')}"
        expected = re.sub(r"one of [(\[]([^)\]]*)[)\]]", _without_quotes, error.expected)
        fix = _suggestion(expected, error.got) or in_options(error.fix, names)
        expected = in_options(expected, names)
        SpdeLawError.__init__(error, what, expected=expected, got=error.got, fix=fix)
        raise


def _without_quotes(match: re.Match[str]) -> str:
    return "one of " + match[1].replace("'", "").rstrip(",")


def _suggestion(expected: str, got: str) -> str | None:
    """The accepted word that a value is close to."""
    words = expected.partition("one of ")[2].replace(" or ", ", ").split(", ")
    near = difflib.get_close_matches(got.strip("'\""), [word.strip(" ,") for word in words], 1)
    return f"did you mean {near[0]}?" if near and got.startswith(("'", '"')) else None
