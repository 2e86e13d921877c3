"""What a command says: tables for people, one JSON document for machines."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

#: Columns where the output is not a terminal: wide enough never to break a file name.
PIPE_WIDTH = 200


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no table and no progress; errors stay.")
]


class Output(NamedTuple):
    """Where and how much to print; the options of every command."""

    json: Json = False
    quiet: Quiet = False

    @property
    def talks(self) -> bool:
        """Whether people read along."""
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
        """Print the JSON document, where one is wanted."""
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
        """A spinner on stderr that can be told how far the work is; None where nobody reads."""
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
    """Bytes in the unit that people say."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5:  # above, three digits round to 1e+03
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"
