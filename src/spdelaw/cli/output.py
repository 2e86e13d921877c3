"""What a command prints, its errors and warnings, and checks of the files that it writes."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from spdelaw.cli.entry import INTERRUPTED, INTERRUPTED_LINE, kept_interrupts
from spdelaw.errors import FileError, InputError, SpdeLawError

if TYPE_CHECKING:
    import xarray as xr

# ---------- Output of a command: tables for people, one JSON document for programs


#: Columns where the output is not a terminal: wide enough never to break a file name.
PIPE_WIDTH = 200


@dataclasses.dataclass
class Output:
    """Where and how much to print; the options of every command.

    Attributes:
        json: Print one JSON document on stdout and nothing else there.
        quiet: Print errors only, no tables and no progress.
    """

    json: bool = False
    quiet: bool = False
    command: str = ""
    start: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Time since the command began."""
        return time.perf_counter() - self.start

    @property
    def talks(self) -> bool:
        """Whether to print tables and progress."""
        return not (self.json or self.quiet)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table; named columns after the first are numbers, set to the right."""
        if not self.talks:
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, show_header=any(header))
        for i, name in enumerate(header):
            table.add_column(name, justify="right" if i and name else "left", overflow="fold")
        for row in rows:
            table.add_row(*(printable(cell) for cell in row))
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        console = Console(file=sys.stdout, width=width, markup=False, highlight=False)
        if title:
            console.print(title, style="bold")
        console.print(table)

    def facts(self, title: str, facts: Mapping[str, str]) -> None:
        """Print a table of two columns, name and value."""
        self.table(title, ("", ""), list(facts.items()))

    def line(self, text: str) -> None:
        """Print one line."""
        if self.talks:
            typer.echo(printable(text))

    def document(self, **content: Any) -> None:
        """Print the JSON document under --json."""
        if self.json:
            typer.echo(json.dumps(plain({"command": self.command, **content}), allow_nan=False))

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None] | None]:
        """A progress bar on stderr; None where stderr is no terminal or output is quiet."""
        if not self.talks or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(file=sys.stderr), transient=True) as bar:
            task = bar.add_task(what)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[Callable[[Any], None] | None]:
        """A spinner on stderr and a function that updates its text; None where output is quiet."""
        if not self.talks or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console

        with Console(file=sys.stderr).status(what) as status:
            yield lambda state: status.update(f"{what}: {state}")


def printable(text: str) -> str:
    """Text without control characters: attributes of a file may hold commands for a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def plain(value: Any) -> Any:
    """Value with JSON types only: NaN and infinities become null, arrays lists."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def shape(sizes: Mapping[Any, int | None]) -> str:
    """Sizes with the names of their dims, such as ``5 path × 11 time × 9 x``."""
    return " × ".join(f"{n} {dim}" for dim, n in sizes.items())


def file_text(path: Path) -> str:
    """A file with its size."""
    return f"{path} ({human_size(file_size(path))})"


def file_size(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    if path.is_dir():
        return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
    return path.stat().st_size


def human_size(n_bytes: float) -> str:
    """Bytes in a readable unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5:  # above, three digits round to 1e+03
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


# ---------- Files to write, checked before any work
#
# Each function is a group of options; the command gets the path.


FORMATS = (".nc", ".zarr")
TABLES = (".csv", ".csv.gz", ".tsv", ".parquet")
#: Bytes that any result needs; a law is smaller than this, with few exceptions.
SMALLEST_RESULT = 2**20


def new_fields(out: Path, force: bool = False) -> Path:
    """A path that fields can be written to.

    Args:
        out: File to write: .nc (NetCDF), .zarr (Zarr), or a table (.csv, .csv.gz, .parquet).
        force: Replace an existing file.
    """
    if out.suffix == ".parquet":
        from spdelaw.data.io.tables import require_parquet

        require_parquet(out)
    return check_target("--out", out, (*FORMATS, *TABLES), force)


def new_law(out: Path, force: bool = False) -> Path:
    """A path that a law can be written to.

    Args:
        out: Law to write, such as heat.law.
        force: Replace an existing law.
    """
    return check_law(out, force, "--out")


def check_law(path: Path, force: bool, option: str = "--save-law") -> Path:
    """The path, if a law can be written to it."""
    if not path.name or path.suffix in FORMATS:
        fix = f"pass {option} {path.stem or 'heat'}.law"
        raise FileError(option, expected="the name of a law", got=repr(str(path)), fix=fix)
    return check_target(option, path, (), force)


def new_page(out: Path, force: bool = False) -> Path:
    """A path that a page can be written to.

    Args:
        out: Page to write, such as report.html.
        force: Replace an existing page.
    """
    return check_target("--out", out, (".html", ".htm"), force)


class SkillTargets(NamedTuple):
    """Files that a skill is written to.

    Attributes:
        out: Forecasts to write: .nc or .zarr.
        figure: Figure of the scores to write, such as skill.png.
        save_law: Law to write, such as best.law: the chosen one, fitted to all data.
        force: Replace existing files.
    """

    out: Path | None = None
    figure: Path | None = None
    save_law: Path | None = None
    force: bool = False

    def check(self) -> None:
        """Refuse names that cannot be written to."""
        if self.out is not None:
            new_fields(self.out, self.force)
        if self.figure is not None:
            check_target("--figure", self.figure, (".png", ".pdf", ".svg"), self.force)
        if self.save_law is not None:
            check_law(self.save_law, self.force)


def required_target(out: Path | None, file: Path, ending: str) -> Path:
    """The path of ``--out``; only a dry run may omit it."""
    if out is None:
        name = file.name.split(".")[0] + ending
        fix = f"pass --out {name}, or --dry-run to see what would be done"
        raise InputError("--out", expected="the name of the output", got="nothing", fix=fix)
    return out


def check_target(option: str, path: Path, endings: tuple[str, ...], force: bool) -> Path:
    """The path, if its ending is one of these and it is free or ``force`` may replace it."""
    if endings and not path.name.endswith(endings):
        expected = f"a name that ends in {' or '.join(endings)}"
        fix = f"pass {option} {path.stem or 'result'}{endings[0]}"
        raise FileError(option, expected=expected, got=str(path), fix=fix)
    if not path.parent.is_dir():
        fix = f"mkdir -p '{path.parent}'"
        raise FileError(option, expected="an existing folder", got=str(path.parent), fix=fix)
    if not os.access(path.parent, os.W_OK):
        expected, got = "a writable folder", str(path.parent)
        raise FileError(option, expected=expected, got=got, fix="choose another folder")
    check_size(path, SMALLEST_RESULT)
    if not (path.exists() or path.is_symlink()):
        return path
    if not force:
        fix = "pass --force to replace it, or choose another name"
        raise FileError(option, expected="a new name", got=f"{path}, which exists", fix=fix)
    is_store = path.suffix == ".zarr" or not endings
    is_kind = path.is_dir() if is_store else path.is_file()
    if not is_kind or (not endings and path.is_symlink()):
        kind = f"a {path.suffix} file" if endings else "a law"
        expected, got = f"{kind} for --force to replace", f"{path}, which spdelaw did not write"
        raise FileError(option, expected=expected, got=got, fix="choose another name")
    if is_store:
        from spdelaw.data.io import zarr
        from spdelaw.law import io

        (zarr if endings else io).check_replaceable(path)
    return path


def check_size(path: Path, n_bytes: int) -> None:
    """Raise where the result exceeds the disk or, as NetCDF, the memory."""
    from spdelaw.data.io.safe_files import MEMORY_SHARE, check_free_space, usable_memory

    check_free_space(path, n_bytes)
    limit = MEMORY_SHARE * usable_memory()
    if path.suffix == ".nc" and n_bytes > limit:
        expected, got = f"at most {limit / 1e9:.3g} GB as NetCDF", f"{n_bytes / 1e9:.3g} GB"
        fix = f"pass --out {path.stem}.zarr, which is written batch by batch"
        raise InputError("--out", expected=expected, got=got, fix=fix)


# ---------- Report of a written file


def report_written(
    output: Output,
    title: str,
    written: xr.DataArray | xr.Dataset,
    out: Path,
    facts: Mapping[str, str] | None = None,
    **document: Any,
) -> None:
    """Print shape, variables, size and time as a table or as the JSON document."""
    variables = getattr(written, "data_vars", None)  # None for a DataArray
    names = [str(written.name)] if variables is None else [str(n) for n in variables]
    main = next((n for n in ("mean", "field") if n in names and variables is not None), None)
    sizes = {str(d): n for d, n in (written if main is None else written[main]).sizes.items()}
    output.facts(
        title,
        {
            "shape": shape(sizes),
            "variables": ", ".join(names),
            **(facts or {}),
            "file": file_text(out),
            "time": f"{output.seconds:.1f} s",
        },
    )
    output.document(
        shape=sizes, variables=names, file=str(out), bytes=file_size(out),
        seconds=output.seconds, **document,
    )  # fmt: skip


# ---------- Errors and warnings in the language of the shell: options, not Python's arguments


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
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    return str(error)


def _print_error_document(as_json: bool, error: BaseException, message: str, code: int) -> None:
    """Print one JSON document about an error on stdout, if it can be written.

    Attributes that the error lacks are null.
    """
    if not as_json:
        return
    parts = {key: getattr(error, key, None) for key in ("what", "expected", "got", "fix")}
    description = {"type": type(error).__name__, "message": " ".join(message.split())} | parts
    with contextlib.suppress(OSError):  # a full disk is the error that the other line describes
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
