"""What a command prints, and checks of the files that it writes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from spdelaw.cli.options import OUTPUT, option
from spdelaw.errors import FileError, InputError

if TYPE_CHECKING:
    import xarray as xr

# ---------- Output of a command: tables for people, one JSON document for programs


#: Columns where the output is not a terminal: wide enough never to break a file name.
PIPE_WIDTH = 200

Json = Annotated[
    bool, option(OUTPUT, "Print one JSON document on stdout and nothing else there.", "--json")
]
Quiet = Annotated[
    bool, option(OUTPUT, "Print errors only, no tables and no progress.", "--quiet", "-q")
]


class Output(NamedTuple):
    """Where and how much to print; the options of every command."""

    json: Json = False
    quiet: Quiet = False

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
            table.add_row(*row)
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        console = Console(file=sys.stdout, width=width, markup=False, highlight=False)
        console.print(title, style="bold")
        console.print(table)

    def facts(self, title: str, facts: Mapping[str, str]) -> None:
        """Print a table of two columns, name and value."""
        self.table(title, ("", ""), list(facts.items()))

    def line(self, text: str) -> None:
        """Print one line."""
        if self.talks:
            typer.echo(text)

    def document(self, **content: Any) -> None:
        """Print the JSON document under --json."""
        if self.json:
            typer.echo(json.dumps(plain(content), allow_nan=False))

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None] | None]:
        """A progress bar on stderr; None where stderr is no terminal or nobody reads along."""
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
        """A spinner on stderr and a function that updates its text; None where nobody reads."""
        if not self.talks or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console

        with Console(file=sys.stderr).status(what) as status:
            yield lambda state: status.update(f"{what}: {state}")


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


# ---------- Checks of an output path, made before any work


FORMATS = (".nc", ".zarr")
FIGURE_FORMATS = (".png", ".pdf", ".svg")
#: Share of the memory of the machine that one result may take.
MEMORY_SHARE = 0.5


def required_target(out: Path | None, example: str) -> Path:
    """The path of ``--out``; only a dry run may omit it."""
    if out is None:
        fix = f"pass --out {example}, or --dry-run to see what would be done"
        raise InputError("--out", expected="the name of what to write", got="nothing", fix=fix)
    return out


def check_target(path: Path, *, force: bool) -> Path:
    """Return a path that can be written to, or raise `FileError`."""
    if path.suffix not in FORMATS:
        expected, fix = "a name that ends in .nc or .zarr", f"pass --out {path.stem or 'paths'}.nc"
        raise FileError("--out", expected=expected, got=str(path), fix=fix)
    _check_folder(path)
    if path.exists() or path.is_symlink():
        _check_replaceable(path, force)
    return path


def check_law_target(path: Path, *, force: bool) -> Path:
    """Return a path that a law can be written to, or raise `FileError`."""
    if not path.name or path.suffix in FORMATS:
        fix = f"pass --out {path.stem or 'heat'}.law"
        raise FileError("--out", expected="the name of a law", got=repr(str(path)), fix=fix)
    _check_folder(path)
    if not (path.exists() or path.is_symlink()):
        return path
    if not force:
        raise _exists_error(path)
    if path.is_symlink():
        raise _not_replaceable_error(path, "a law")
    from spdelaw.law.io import check_replaceable

    check_replaceable(path)
    return path


def check_page_target(path: Path, *, force: bool) -> Path:
    """Return a path that a page can be written to, or raise `FileError`."""
    return check_file_target(path, (".html", ".htm"), force=force)


def check_file_target(path: Path, endings: tuple[str, ...], *, force: bool) -> Path:
    """Return a path that one file of a kind can be written to, or raise `FileError`."""
    if not path.name.endswith(endings):
        got, fix = str(path), f"pass --out {path.stem or 'result'}{endings[0]}"
        raise FileError("--out", expected=f"a name that ends in {endings[0]}", got=got, fix=fix)
    _check_folder(path)
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise _exists_error(path)
    return path


def check_figure_target(path: Path, *, force: bool) -> Path:
    """Return a path that a figure can be written to, or raise `FileError`."""
    if path.suffix not in FIGURE_FORMATS:
        expected = f"a name that ends in one of {', '.join(FIGURE_FORMATS)}"
        fix = f"pass --figure {path.stem or 'skill'}.png"
        raise FileError("--figure", expected=expected, got=str(path), fix=fix)
    _check_folder(path)
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise _exists_error(path)
    return path


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        fix = f"mkdir -p '{path.parent}'"
        raise FileError("--out", expected="an existing folder", got=str(path.parent), fix=fix)
    if not os.access(path.parent, os.W_OK):
        expected, got = "a folder that can be written to", str(path.parent)
        raise FileError("--out", expected=expected, got=got, fix="choose another folder")


def _exists_error(path: Path) -> FileError:
    fix = "pass --force to replace it, or choose another name"
    return FileError("--out", expected="a name that is free", got=f"{path} exists", fix=fix)


def _check_replaceable(path: Path, force: bool) -> None:
    if not force:
        raise _exists_error(path)
    if path.is_dir() != (path.suffix == ".zarr") or not path.exists():
        raise _not_replaceable_error(path, f"a {path.suffix} file")
    if path.is_dir():
        from spdelaw.data.io.zarr import check_replaceable

        check_replaceable(path)


def _not_replaceable_error(path: Path, kind: str) -> FileError:
    expected, got = f"{kind} for --force to replace", f"{path}, which is something else"
    return FileError("--out", expected=expected, got=got, fix="choose another name")


def check_free_space(path: Path, n_bytes: int) -> None:
    """Raise where the result exceeds the disk or, as NetCDF, the memory."""
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        expected = f"at most the {free / 1e9:.3g} GB that are free on the disk"
        fix = "ask for fewer paths, times or points"
        raise FileError("--out", expected=expected, got=f"{n_bytes / 1e9:.3g} GB", fix=fix)
    memory = _physical_memory()
    if path.suffix == ".nc" and memory is not None and n_bytes > MEMORY_SHARE * memory:
        expected = f"at most {MEMORY_SHARE * memory / 1e9:.3g} GB as NetCDF"
        fix = f"pass --out {path.stem}.zarr, which is written batch by batch"
        raise InputError("--out", expected=expected, got=f"{n_bytes / 1e9:.3g} GB", fix=fix)


def _physical_memory() -> int | None:
    """Bytes of physical memory; None where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


# ---------- Report of a written file


def report_written(
    output: Output,
    command: str,
    title: str,
    written: xr.DataArray | xr.Dataset,
    out: Path,
    seconds: float,
    facts: dict[str, str] | None = None,
    **document: Any,
) -> None:
    """Print shape, variables, size and time as a table or as the JSON document."""
    variables = getattr(written, "data_vars", None)  # None for a DataArray
    names = [str(written.name)] if variables is None else [str(n) for n in variables]
    main: Any = written["mean"] if variables is not None and "mean" in names else written
    sizes = {str(d): n for d, n in main.sizes.items()}
    size = file_size(out)
    output.facts(
        title,
        {
            "shape": shape(sizes),
            "variables": ", ".join(names),
            **(facts or {}),
            "file": f"{out} ({human_size(size)})",
            "time": f"{seconds:.1f} s",
        },
    )
    output.document(
        command=command, shape=sizes, variables=names, file=str(out), bytes=size,
        seconds=seconds, **document,
    )  # fmt: skip
