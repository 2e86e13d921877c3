"""Options of commands: from the fields of classes, shared by commands, or from a YAML file.

Nothing here imports NumPy or xarray: the help of a command must not wait for them.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
import yaml  # type: ignore[import-untyped]

from spdelaw.errors import ExecutorError, FileError, InputError, MissingExtraError, SpdeLawError

if TYPE_CHECKING:
    from spdelaw.data.io.tables import Columns

# ---------- Groups of options in the help of a long command


INPUT, TABLE, DOMAIN = "Input", "Columns of a table with one row per station and time", "Domain"
MODEL, UNCERTAINTY, ENGINE = "Model", "Uncertainty", "Engine"
PREPARATION = "Preparation, stored in the law and undone on output"
OUTPUT = "Output"


def option(panel: str, text: str, *flags: str, **settings: Any) -> Any:
    """An option of typer in a group of the help; its flag is by default the argument's name."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **settings)


# ---------- Options that are the fields of a class
#
# Name, type, default and help of an option come from the field, its annotation and its entry in
# the section "Args" of the docstring. The source is parsed, not imported.


#: What a command gets from such a group: values by name of the field, for options that were given.
Given = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1]


class Field(NamedTuple):
    """A field of a class as its source states it."""

    name: str
    annotation: str
    default: Any
    text: str


@functools.cache
def read_class(path: str, name: str) -> dict[str, Field]:
    """Fields of a class, or keyword arguments of its constructor, that its docstring describes.

    Args:
        path: of the module, below the folder of the package.
        name: of the class.
    """
    tree = ast.parse((FOLDER / path).read_text(encoding="utf-8"))
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    node = classes[name]
    texts = describe_arguments(ast.get_docstring(node) or "")
    parents = [classes[n] for n in map(ast.unparse, node.bases) if n in classes]
    declared = [
        (n.target.id, n.annotation, n.value)
        for n in itertools.chain.from_iterable(kind.body for kind in (*parents, node))
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    ]
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            declared += [(a.arg, a.annotation, default) for a, default in pairs if a.annotation]
    return {
        key: Field(key, ast.unparse(annotation), _literal(default), texts[key])
        for key, annotation, default in declared
        if key in texts
    }


def _literal(node: ast.expr | None) -> Any:
    """Value of a default; None where it is not written as a plain value."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def describe_arguments(docstring: str) -> dict[str, str]:
    """Texts of the sections "Args" and "Attributes" of a docstring, by name."""
    texts: dict[str, str] = {}
    for section in re.findall(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)*)", docstring, re.M):
        for name, text in re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", section, re.M):
            texts[name] = " ".join(text.split())
    return texts


def help_text(text: str) -> str:
    """First sentence of a docstring's entry, in the language of the shell."""
    sentence = re.split(r"(?<=\.) (?=[A-Z`])", text)[0]
    sentence = re.sub(r'(\w+)="(\w+)"', lambda m: f"--{m[1].replace('_', '-')} {m[2]}", sentence)
    sentence = re.sub(r'[`"]', "", sentence)
    return sentence[0].upper() + sentence[1:]


class Shape(NamedTuple):
    """How a type of field is written in the shell.

    Attributes:
        kind: type of the option.
        parse: turns the option and its text into the value of the field; None takes it as it is.
        syntax: sentence for the help.
    """

    kind: Any
    parse: Callable[[str, Any], Any] | None = None
    syntax: str = ""


class FieldsOf:
    """Options from the fields of classes, as in ``Annotated[Given, FieldsOf(...)]``.

    Args:
        classes: a path and a name for `read_class`; fields of the same name are one option.
        panel: group of the help.
        only: fields to offer, by default all.
        leave_out: fields that are no options.
        notes: sentences about what only the shell can do, by field.
        users: engine that each class belongs to, for the help.
        defaults: texts that replace the defaults of the fields.
    """

    def __init__(
        self,
        *classes: tuple[str, str],
        panel: str,
        only: tuple[str, ...] = (),
        leave_out: tuple[str, ...] = (),
        notes: Mapping[str, str] | None = None,
        users: tuple[str, ...] = (),
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self.classes, self.panel, self.only, self.leave_out = classes, panel, only, leave_out
        self.notes, self.users, self.defaults = notes or {}, users, defaults or {}

    def fields(self) -> dict[str, Field]:
        """The first field of each name."""
        fields: dict[str, Field] = {}
        for path, name in self.classes:
            fields = read_class(path, name) | fields
        if self.only:
            return {name: fields[name] for name in self.only}
        return {name: field for name, field in fields.items() if name not in self.leave_out}

    def parameters(self) -> list[inspect.Parameter]:
        """Parameters of a command, as typer reads them."""
        return [self._parameter(field) for field in self.fields().values()]

    def _parameter(self, field: Field) -> inspect.Parameter:
        flag = "--" + field.name.replace("_", "-")
        shape = SHAPES.get(field.annotation, TEXT)
        if field.annotation == "bool" and field.default:
            flag = f"{flag}/--no-{flag[2:]}"
        default = self.defaults.get(field.name, "on" if field.default is True else field.default)
        option = typer.Option(
            flag,
            help=self._help(field, shape),
            rich_help_panel=self.panel,
            show_default=str(default) if default not in (None, (), False, "") else False,
        )
        is_off = field.annotation == "bool" and not field.default
        return inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if is_off else None,
            annotation=Annotated[bool if is_off else shape.kind, option],
        )

    def _help(self, field: Field, shape: Shape) -> str:
        sentences = [help_text(field.text), self.notes.get(field.name, ""), shape.syntax]
        users = [
            user
            for user, (path, name) in zip(self.users, self.classes, strict=False)
            if field.name in read_class(path, name)
        ]
        sentences += [f"Engines: {', '.join(dict.fromkeys(users))}."] if users else []
        return " ".join(sentence for sentence in sentences if sentence)

    def parse(self, values: Mapping[str, Any]) -> Given:
        """Values of the fields whose options were given, or `InputError`."""
        given: Given = {}
        for name, field in self.fields().items():
            value = values[name]
            if value is None or (value is False and not field.default) or value == []:
                continue
            parse = SHAPES.get(field.annotation, TEXT).parse
            option = "--" + name.replace("_", "-")
            given[name] = value if parse is None else parse(option, value)
        return given


# ---------- Options that several commands share, each defined once


Seed = Annotated[
    int,
    option(
        UNCERTAINTY,
        "Seed of random numbers, a non-negative integer: the same seed gives the same result.",
        "--seed",
    ),
]
Level = Annotated[
    float, option(UNCERTAINTY, "Probability that an interval contains the true value.")
]
Paths = Annotated[int, typer.Option("--paths", "-n", help="Number of paths.")]
OutFile = Annotated[
    Path, typer.Option("--out", "-o", help="File to write: .nc (NetCDF) or .zarr (Zarr).")
]
OutFolder = Annotated[
    Path, typer.Option("--out", "-o", help="Folder to write to; created if it does not exist.")
]
InFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="NetCDF (.nc), Zarr (.zarr), or a table (.csv, .csv.gz, .parquet)."
    ),
]
Variable = Annotated[
    str | None, option(INPUT, "Variable to use, where the file holds several.", "--variable", "-v")
]
Force = Annotated[bool, option(OUTPUT, "Replace an existing file.", "--force", "-f")]
DryRun = Annotated[
    bool,
    option(
        OUTPUT,
        "Print how the file is read and what is guessed, and stop before the fit.",
        "--dry-run",
    ),
]
LawArgument = Annotated[
    Path, typer.Argument(metavar="LAW", help="Law written by `spdelaw fit`, a directory.")
]


def _column(flag: str, content: str) -> Any:
    return option(TABLE, f"Name of the column with {content}.", flag)


class Table(NamedTuple):
    """Columns of a table, as options."""

    time: Annotated[str | None, _column("--time", "the times, as dates or numbers")] = None
    value: Annotated[str | None, _column("--value", "the observed values")] = None
    station: Annotated[str | None, _column("--station", "the names of the stations")] = None
    lon: Annotated[str | None, _column("--lon", "longitudes in degrees")] = None
    lat: Annotated[str | None, _column("--lat", "latitudes in degrees")] = None
    x: Annotated[str | None, _column("--x", "positions x, where they are not longitudes")] = None
    y: Annotated[str | None, _column("--y", "positions y, where they are not latitudes")] = None

    @property
    def columns(self) -> Columns:
        """As `spdelaw.data` takes them."""
        from spdelaw.data.io.tables import Columns

        return Columns(*self)


ColumnList = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Columns of a table, such as time=date,value=tmax; by default those of the fit.",
    ),
]
Times = Annotated[
    str | None, typer.Option("--times", help="Times, separated by commas, such as 0,0.1,0.5.")
]
#: Domains by name, with the options each of them takes.
DOMAIN_OPTIONS = {
    "interval": ("--bounds", "--boundary"),
    "line": (),
    "box": ("--sides", "--boundary"),
    "plane": (),
    "disk": ("--radius", "--centre", "--boundary"),
    "sphere": ("--radius",),
}
DOMAIN_NAMES = tuple(DOMAIN_OPTIONS)
BOUNDARIES = ("dirichlet", "neumann", "periodic")


class DomainOptions(NamedTuple):
    """Options about the domain; None means not given."""

    domain: Annotated[
        str | None,
        option(
            DOMAIN,
            f"Domain of the fields: one of {', '.join(DOMAIN_NAMES)}, or a .json file of "
            "domain.to_dict(). By default it is read from the equation in the file, or guessed "
            "from the coordinates.",
            "--domain",
        ),
    ] = None
    bounds: Annotated[
        tuple[float, float] | None,
        option(
            DOMAIN, "Both ends of the interval; by default those of the equation or the coordinate."
        ),
    ] = None
    sides: Annotated[
        str | None,
        option(
            DOMAIN,
            "Both ends of each side of the box, separated by commas, such as 0,1,0,2; by "
            "default those of the equation or the coordinates.",
        ),
    ] = None
    boundary: Annotated[
        str | None,
        option(
            DOMAIN,
            f"Boundary condition: {', '.join(BOUNDARIES)}; for a box also one per side, "
            "separated by commas. Guessed by default.",
        ),
    ] = None
    radius: Annotated[float | None, option(DOMAIN, "Radius of the disk or the sphere.")] = None
    centre: Annotated[
        str | None, option(DOMAIN, "Centre of the disk, such as 1,2; 0,0 by default.")
    ] = None


# ---------- Values from the text of an option


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


def _pairs(option: str, texts: list[str], example: str) -> Iterator[tuple[str, str]]:
    """Names and values from texts such as ``lon=150:270``, or `InputError`."""
    for text in texts:
        name, _, value = (entry.strip() for entry in text.partition("="))
        if not (name and value):
            expected, fix = (
                f"a dimension and a value, such as {example}",
                f"pass {option} {example}",
            )
            raise InputError(option, expected=expected, got=repr(text), fix=fix)
        yield name, value


def ranges(option: str, texts: list[str]) -> dict[str, Any]:
    """Ends of each range as numbers, those of the time as text; one number is both ends."""
    out: dict[str, Any] = {}
    for name, value in _pairs(option, texts, "longitude=150:270"):
        low, colon, high = value.partition(":")
        if name == "time":
            out[name] = (low.strip(), high.strip())
            continue
        try:
            out[name] = (float(low), float(high) if colon else float(low))
        except ValueError as error:
            expected, fix = "a dimension and a range", f"pass {option} longitude=150:270"
            raise InputError(option, expected=expected, got=repr(value), fix=fix) from error
    return out


def block_sizes(option: str, texts: list[str]) -> dict[str, int]:
    """Whole numbers by dimension, or `InputError`."""
    out = {}
    for name, value in _pairs(option, texts, "x=2"):
        if not value.isdecimal():
            expected, fix = "a dimension and a whole number", f"pass {option} x=2"
            raise InputError(option, expected=expected, got=repr(value), fix=fix)
        out[name] = int(value)
    return out


#: How fields are written in the shell, by their annotation; all others are text.
TEXT = Shape(str | None)
REPEATED = "The option can be repeated."
SHAPES = {
    "bool": Shape(bool | None),
    "int": Shape(int | None),
    "PositiveInt": Shape(int | None),
    "int | str": Shape(str | None, lambda option, text: word_or_count(option, text, "auto", 0)),
    "tuple[str, ...]": Shape(list[str] | None, lambda _, texts: tuple(texts), REPEATED),
    "tuple[float, ...]": Shape(list[float] | None, lambda _, values: tuple(values), REPEATED),
    "Sequence[str]": Shape(
        str | None,
        lambda option, text: names_of(option, text),
        "Separate several by commas, as in u,u^3.",
    ),
    "Mapping[str, Any] | None": Shape(
        str | None,
        lambda option, text: fixed_values(option, text),
        "Write name=value, separated by commas, such as nu=0.05,u^3=-1.",
    ),
    "Mapping[str, tuple[float, float]]": Shape(
        list[str] | None,
        ranges,
        "Write longitude=150:270 or time=1990:2010-06, or depth=10 for the nearest entry. "
        + REPEATED,
    ),
    "Mapping[str, int]": Shape(list[str] | None, block_sizes, f"Write x=2. {REPEATED}"),
    "Season | None": Shape(tuple[float, int] | None),
}


# ---------- Errors of the library in the language of the shell


@contextlib.contextmanager
def option_names_in_errors(names: Iterable[str]) -> Iterator[None]:
    """Name the option where an error is about the argument of the same name.

    ``initial: ... Fix: pass initial='auto'`` becomes ``--initial: ... Fix: pass --initial auto``.
    """
    options = {name: "--" + name.replace("_", "-") for name in names}
    try:
        yield
    except InputError as error:
        if error.what not in options:
            raise
        fix = re.sub(
            r"\b(\w+)='?([\w.]+)'?",
            lambda m: f"{options[m[1]]} {m[2]}" if m[1] in options else m[0],
            error.fix,
        )
        what, expected, got = options[error.what], error.expected, error.got
        raise type(error)(what, expected=expected, got=got, fix=fix) from error


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
    option(
        INPUT,
        "YAML file with options by their long names; the command line takes precedence.",
        "--config",
        "-c",
        callback=_load_config,
        is_eager=True,
    ),
]


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
    option(
        ENGINE,
        "Dask workers for a .zarr file: local:4 starts four on this machine, tcp://host:8786 "
        "connects to a scheduler.",
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
