"""Options that several commands share, from the command line or a YAML file."""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import yaml  # type: ignore[import-untyped]

from spdelaw.data.io.tables import Columns
from spdelaw.errors import ExecutorError, FileError, InputError, MissingExtraError, SpdeLawError

# ---------- Options that several commands share, each defined once


Seed = Annotated[
    int, typer.Option("--seed", help="Non-negative integer; the same seed gives the same numbers.")
]
Paths = Annotated[int, typer.Option("--paths", "-n", help="Number of paths.")]
OutFile = Annotated[
    Path, typer.Option("--out", "-o", help="File to write: .nc (NetCDF) or .zarr (Zarr).")
]
OutFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder to write to; made if it is not there.")
]
InFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="NetCDF (.nc), Zarr (.zarr), or a table (.csv, .csv.gz, .parquet)."
    ),
]
Variable = Annotated[
    str | None,
    typer.Option("--variable", "-v", help="Variable to take where the file holds several."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")]
LawArgument = Annotated[
    Path, typer.Argument(metavar="LAW", help="Law written by `spdelaw fit`, a directory.")
]
OutLaw = Annotated[Path, typer.Option("--out", "-o", help="Law to write, such as heat.law.")]
TABLE_PANEL = "Columns of a table, one row per station and time"


class Table(NamedTuple):
    """Columns of a table, as options."""

    time: Annotated[
        str | None, typer.Option("--time", help="Dates, or numbers.", rich_help_panel=TABLE_PANEL)
    ] = None
    value: Annotated[
        str | None, typer.Option("--value", help="Values.", rich_help_panel=TABLE_PANEL)
    ] = None
    station: Annotated[
        str | None,
        typer.Option("--station", help="Names of stations.", rich_help_panel=TABLE_PANEL),
    ] = None
    lon: Annotated[
        str | None,
        typer.Option("--lon", help="Longitudes in degrees.", rich_help_panel=TABLE_PANEL),
    ] = None
    lat: Annotated[
        str | None, typer.Option("--lat", help="Latitudes in degrees.", rich_help_panel=TABLE_PANEL)
    ] = None
    x: Annotated[
        str | None, typer.Option("--x", help="Other positions.", rich_help_panel=TABLE_PANEL)
    ] = None
    y: Annotated[
        str | None, typer.Option("--y", help="Other positions.", rich_help_panel=TABLE_PANEL)
    ] = None

    @property
    def columns(self) -> Columns:
        """As `spdelaw.data` takes them."""
        return Columns(*self)


ColumnList = Annotated[
    str | None,
    typer.Option(
        "--columns", help="Columns of a table, time=date,value=tmax; by default as for the fit."
    ),
]
Fixed = Annotated[
    str | None,
    typer.Option("--fixed", help="Numbers to hold, such as nu=0.05,u^3=-1; see fixed of sl.fit."),
]
Times = Annotated[str | None, typer.Option("--times", help="Times with commas, such as 0,0.1,0.5.")]


def positive(option: str, value: int) -> int:
    """A count of at least one, or `InputError` that names the option."""
    if value < 1:
        expected = "a positive integer"
        raise InputError(option, expected=expected, got=str(value), fix=f"pass {option} 100")
    return value


def positive_number(option: str, value: float) -> float:
    """A finite number above zero, or `InputError` that names the option."""
    if not (math.isfinite(value) and value > 0):
        expected = "a finite number above 0"
        raise InputError(option, expected=expected, got=f"{value:g}", fix=f"pass {option} 1.0")
    return value


def numbers(option: str, text: str) -> list[float]:
    """Numbers from a list with commas, or `InputError`."""
    try:
        return [float(entry) for entry in text.split(",")]
    except ValueError as error:
        expected, fix = "numbers with commas between them", f"pass {option} 0,0.1,0.5"
        raise InputError(option, expected=expected, got=repr(text), fix=fix) from error


def names_of(option: str, text: str) -> tuple[str, ...]:
    """Names from a list with commas, or `InputError`."""
    names = tuple(" ".join(entry.split()) for entry in text.split(","))
    if not all(names):
        expected = "names with commas between them"
        raise InputError(option, expected=expected, got=repr(text), fix=f"pass {option} u,u^3")
    return names


def fixed_values(option: str, text: str) -> dict[str, float]:
    """Values by name from a list such as ``nu=0.05,kappa=0``, or `InputError`."""
    out = {}
    for entry in text.split(","):
        name, _, value = entry.rpartition("=")
        try:
            out[" ".join(name.split())] = float(value)
        except ValueError:
            name = ""
        if not name.strip():
            expected, got = "names and numbers, name=value with commas between them", repr(text)
            raise InputError(option, expected=expected, got=got, fix=f"pass {option} nu=0.05")
    return out


def word_or_count(option: str, text: str, word: str, least: int) -> int | str:
    """The word itself or a whole number of at least ``least``, or `InputError`."""
    if text == word:
        return word
    if not text.isdecimal() or int(text) < least:
        expected = f"{word} or an integer of at least {least}"
        raise InputError(option, expected=expected, got=repr(text), fix=f"pass {option} {word}")
    return int(text)


def one_of(option: str, text: str, words: tuple[str, ...]) -> str:
    """One of the words, or `InputError`."""
    if text not in words:
        fix = f"pass {option} {words[0]}"
        raise InputError(option, expected=f"one of {', '.join(words)}", got=repr(text), fix=fix)
    return text


# ---------- ``--config``: options from a YAML file; errors name the line


#: Key in a command's context: maps each option to its line in the file.
CONFIG_LINES = "spdelaw.config"
#: Options that a file may not set.
NOT_IN_FILE = ("config", "help", "file")


def _load_config(ctx: typer.Context, file: Path | None) -> Path | None:
    if file is None or ctx.resilient_parsing:
        return file
    values, lines = _check_entries(ctx, file, _read_mapping(file))
    ctx.default_map = {**(ctx.default_map or {}), **values}
    ctx.meta[CONFIG_LINES] = {option: f"{file}, line {line}" for option, line in lines.items()}
    return file


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", callback=_load_config, is_eager=True,
        help="YAML file with options by their long names; the command line overrules it.",
    ),
]  # fmt: skip


def _read_mapping(file: Path) -> Any:
    """Top node of the file, a mapping with scalar keys."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        expected, got = "a YAML file of text", f"{file}: {error}"
        raise FileError("--config", expected=expected, got=got, fix="check the name") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(file)
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise _config_error(position, "YAML", problem, "mend this line") from error
    except RecursionError as error:
        raise _config_error(
            str(file), "a flat list of options", "deep nesting", "remove it"
        ) from error
    if node is None:
        return yaml.MappingNode("tag:yaml.org,2002:map", [])
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1
        raise _config_error(
            f"{file}, line {line}", "options as 'name: value'", node.id, "write modes: 8"
        )
    return node


def _check_entries(
    ctx: typer.Context, file: Path, node: Any
) -> tuple[dict[str, Any], dict[str, int]]:
    """Values by parameter and lines by option, each converted as the command line would."""
    parameters = {
        str(p.opts[0]).lstrip("-"): p for p in ctx.command.params if p.name not in NOT_IN_FILE
    }
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, entry in node.value:
        line = key.start_mark.line + 1
        position = f"{file}, line {line}"
        name = str(key.value).replace("_", "-")
        if not isinstance(key, yaml.ScalarNode) or name not in parameters:
            near = difflib.get_close_matches(name, parameters, 1)
            fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(parameters))}"
            raise _config_error(position, "an option of the command", repr(key.value), fix)
        if f"--{name}" in lines:
            raise _config_error(
                position, f"{name} once", f"it on line {lines[f'--{name}']} too", "remove one"
            )
        lines[f"--{name}"] = line
        parameter = parameters[name]
        values[str(parameter.name)] = _check_value(ctx, parameter, entry, position, name)
    return values, lines


def _check_value(ctx: Any, parameter: Any, node: Any, position: str, name: str) -> Any:
    value = _plain_value(node, position, name)
    several = parameter.multiple or parameter.nargs != 1
    if isinstance(value, list) != several:
        expected = "a list such as [0, 1]" if several else "one value"
        raise _config_error(
            position, f"{expected} for {name}", repr(value), "see spdelaw fit --help"
        )
    is_flag = getattr(parameter, "is_flag", False)
    if is_flag != isinstance(value, bool):
        expected = "true or false" if is_flag else "no true or false"
        raise _config_error(
            position, f"{expected} for {name}", repr(value), "see spdelaw fit --help"
        )
    try:
        parameter.process_value(ctx, value)
    except typer.BadParameter as error:
        raise _config_error(
            position,
            f"a value for {name}",
            f"{value!r}: {error.format_message()}",
            "see spdelaw fit --help",
        ) from error
    return value


def _plain_value(node: Any, position: str, name: str) -> Any:
    """Text, true or false, or a list of text; options convert text themselves."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain_value(entry, position, name) for entry in node.value]
    if not isinstance(node, yaml.ScalarNode):
        raise _config_error(
            position, f"a value for {name}", "nested options", "write each on its own line"
        )
    if node.tag == "tag:yaml.org,2002:bool":
        return node.value.lower() in ("true", "yes", "on")
    if node.tag == "tag:yaml.org,2002:null":
        raise _config_error(
            position, f"a value for {name}", "nothing", "remove the line, or give a value"
        )
    return str(node.value)


@contextlib.contextmanager
def config_lines_in_errors(ctx: typer.Context) -> Iterator[None]:
    """Add the line of the file to errors about options that come from it."""
    try:
        yield
    except SpdeLawError as error:
        position = ctx.meta.get(CONFIG_LINES, {}).get(error.what)
        if position is None:
            raise
        raise type(error)(
            f"{position}, {error.what.lstrip('-')}",
            expected=error.expected,
            got=error.got,
            fix=error.fix,
        ) from error


def _config_error(position: str, expected: str, got: str, fix: str) -> InputError:
    return InputError(position, expected=expected, got=got, fix=fix)


# ---------- ``--dask``: the executor of a command on lazy data


DaskWorkers = Annotated[
    str | None,
    typer.Option(
        help="Workers for a .zarr: local:4 starts four here, tcp://host:8786 is a scheduler.",
        rich_help_panel="Engine",
    ),
]
#: Seconds to wait for a scheduler to answer.
SCHEDULER_TIMEOUT = 15


@contextlib.contextmanager
def dask_client(where: str | None) -> Iterator[Any]:
    """A Dask client while a command runs; None without the option."""
    if where is None:
        yield None
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("--dask", "distributed") from error
    workers = _local_workers(where)
    if workers:
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    with _connect(Client, where) as client:
        yield client


def _local_workers(where: str) -> int:
    """Number of workers to start here; 0 where an address is given."""
    kind, _, count = where.partition(":")
    if kind == "local" and count.isdecimal() and int(count) > 0:
        return int(count)
    if kind in ("tcp", "tls", "ws", "wss") and count.startswith("//"):
        return 0
    got, fix = repr(where), "pass --dask local:4, or --dask tcp://host:8786"
    raise InputError("--dask", expected="local:4, or the address of a scheduler", got=got, fix=fix)


def _connect(client: Any, address: str) -> Any:
    try:
        return client(address, timeout=SCHEDULER_TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        expected = f"a Dask scheduler at {address}"
        fix = "start one with dask scheduler, or check the address"
        raise ExecutorError("--dask", expected=expected, got=f"none ({error})", fix=fix) from error
