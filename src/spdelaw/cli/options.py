"""Options of a command, made from the arguments of its function.

Name, type, default and help of an option come from the argument, its annotation and its entry in
the docstring. An argument may be a group: a function or class whose arguments are options too.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from spdelaw.cli import values
from spdelaw.cli.values import load_config

# ---------- Signatures and docstrings of functions and classes, read from their source
#
# The source is parsed, not imported: the help of a command must not wait for NumPy and xarray.


#: Default of an argument that has none.
REQUIRED = inspect.Parameter.empty
PACKAGE = Path(__file__).resolve().parents[1]


class Field(NamedTuple):
    """An argument of a function or a field of a class, as the source states it.

    Attributes:
        name: of the argument.
        annotation: its text.
        default: value, None where the source does not write it as a plain value, or `REQUIRED`.
        text: its entry in the docstring, empty where there is none.
    """

    name: str
    annotation: str
    default: Any
    text: str


class Signature(NamedTuple):
    """Fields by name, and the docstring."""

    fields: dict[str, Field]
    docstring: str


@functools.cache
def read_signature(path: Path, name: str) -> Signature:
    """Arguments of a function, or the fields of a class.

    Fields that a docstring with entries leaves out are no part of the interface.

    Args:
        path: of the module.
        name: of a function or a class.
    """
    source = path.read_text(encoding="utf-8")
    node = _definition(source, name)
    docstring = ast.get_docstring(node) or ""
    texts = describe_arguments(docstring)
    if isinstance(node, ast.FunctionDef):
        declared = _arguments(node)
    else:
        parents = [_definition(source, ast.unparse(base)) for base in node.bases]
        kinds = [kind for kind in (*parents, node) if kind is not None]
        declared = [entry for kind in kinds for entry in _class_fields(kind)]
        declared = [entry for entry in declared if not texts or entry[0] in texts]
    fields = {
        key: Field(key, ast.unparse(annotation), default, texts.get(key, ""))
        for key, annotation, default in declared
        if annotation is not None
    }
    return Signature(fields, docstring)


def _definition(source: str, name: str) -> Any:
    """Syntax tree of the last class or function of this name; None where there is none.

    Its lines alone are parsed, up to the next one that is not indented: a whole module takes tens
    of milliseconds.
    """
    pattern = rf"^(?:class|def) {re.escape(name)}\b.*\n(?:(?:[ )].*)?\n)*"
    blocks = re.findall(pattern, source, re.M)
    return ast.parse(blocks[-1]).body[0] if blocks else None


def _arguments(node: ast.FunctionDef) -> list[tuple[str, Any, Any]]:
    """Name, annotation and default of each argument."""
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = [REQUIRED] * (len(positional) - len(node.args.defaults))
    defaults += [_literal(value) for value in node.args.defaults]
    defaults += [REQUIRED if v is None else _literal(v) for v in node.args.kw_defaults]
    arguments = [*positional, *node.args.kwonlyargs]
    return [(a.arg, a.annotation, d) for a, d in zip(arguments, defaults, strict=True)]


def _class_fields(node: ast.ClassDef) -> list[tuple[str, Any, Any]]:
    """The same of annotated fields, and of the keyword arguments of a constructor."""
    fields = [
        (n.target.id, n.annotation, REQUIRED if n.value is None else _literal(n.value))
        for n in node.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    ]
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            fields += _arguments(function)
    return fields


def _literal(node: ast.expr) -> Any:
    """Value of a default; None where it is not written as a plain value."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def section(docstring: str, *titles: str) -> str:
    """Indented lines below a title of a docstring; empty where there is none."""
    pattern = f"^(?:{'|'.join(titles)}):\n((?:    .*\n?|\n)*)"
    return "\n".join(textwrap.dedent(text) for text in re.findall(pattern, docstring, re.M))


def describe_arguments(docstring: str) -> dict[str, str]:
    """Texts of the sections "Args", "Attributes" and "Options" of a docstring, by name."""
    entries = re.findall(
        r"^(\w+): (.*(?:\n +.*)*)", section(docstring, "Args", "Attributes", "Options"), re.M
    )
    return {name: " ".join(text.split()) for name, text in entries}


def first_sentence(text: str) -> str:
    """First sentence of a docstring's entry, in the language of the shell."""
    sentence = re.split(r'(?<=\.) (?=[A-Z`"])', text)[0]
    sentence = re.sub(r'(\w+)="(\w+)"', lambda m: f"--{m[1].replace('_', '-')} {m[2]}", sentence)
    sentence = re.sub(r'[`"]', "", sentence)
    return sentence[:1].upper() + sentence[1:]


# ---------- Types of arguments, and how the shell writes them


Given = dict[str, Any]
LawFile = Path
DataFile = Path
Forecasts = Path
Observations = Path
JsonFile = Path
ConfigFile = Path
OutFolder = Path
LawFiles = list[Path]
PositiveInt = int
PositiveFloat = float
Pair = tuple[float, float]
Numbers = list[float]
Names = tuple[str, ...]
Modes = int | str
SeveralModes = int | str | list[int]
Settings = Given
DatasetName = str
EquationName = str


def _equations() -> Sequence[str]:
    from spdelaw.processes.catalogue import EQUATIONS, SEMILINEAR

    return [*EQUATIONS, *SEMILINEAR]


def _datasets() -> Sequence[str]:
    from spdelaw.datasets import NAMES

    return list(NAMES)


class Shape(NamedTuple):
    """How the shell writes a type of argument.

    Attributes:
        kind: type of the option, for typer.
        parse: turns the option's name and its text into the value; None takes it as it is.
        syntax: sentence for the help.
        metavar: name of a positional argument; an argument with a default is an option.
        check: refuses an input file before anything else is looked at.
        words: lists the values that the shell completes.
    """

    kind: Any = str
    parse: Callable[[str, Any], Any] | None = None
    syntax: str = ""
    metavar: str = ""
    check: Callable[..., Any] | None = None
    words: Callable[[], Sequence[str]] | None = None


REPEATED = "The option can be repeated."
#: Shapes by annotation, with or without "| None"; all others are text.
SHAPES = {
    **{kind.__name__: Shape(kind) for kind in (bool, int, float, Path)},
    "LawFile": Shape(Path, metavar="LAW", check=values.existing_law),
    "LawFiles": Shape(list[Path], metavar="LAW... [DATA]", check=values.existing_law_or_data),
    "DataFile": Shape(Path, metavar="FILE", check=values.existing_data),
    "Forecasts": Shape(Path, metavar="FORECASTS", check=values.existing_data),
    "Observations": Shape(Path, metavar="OBSERVATIONS", check=values.existing_data),
    "JsonFile": Shape(Path, check=values.regular_file),
    "ConfigFile": Shape(Path, check=load_config),
    "OutFolder": Shape(Path),
    "DatasetName": Shape(metavar="NAME", words=_datasets),
    "EquationName": Shape(metavar="EQUATION", words=_equations),
    "PositiveInt": Shape(int, values.positive),
    "PositiveFloat": Shape(float, values.positive_number),
    "Seconds": Shape(float, values.time_limit),
    "ShareOrCount": Shape(float, values.share_or_count),
    "Numbers": Shape(parse=values.numbers),
    "Counts": Shape(parse=values.counts),
    "Names": Shape(parse=values.names),
    "Modes": Shape(parse=values.auto_or_count),
    "SeveralModes": Shape(parse=values.auto_or_counts),
    "Settings": Shape(list[str], values.settings, REPEATED),
    "Pair": Shape(tuple[float, float]),
    # Of `spdelaw.Model`, `spdelaw.Preparation` and the engines:
    "int | str": Shape(parse=lambda option, text: values.auto_or_count(option, text, 0)),
    "tuple[str, ...]": Shape(list[str], lambda _, texts: tuple(texts), REPEATED),
    "tuple[float, ...]": Shape(list[float], lambda _, numbers: tuple(numbers), REPEATED),
    "Sequence[str]": Shape(parse=values.names, syntax="Separate several by commas, as in u,u^3."),
    "Mapping[str, Any]": Shape(
        parse=values.fixed_values,
        syntax="Write name=value, separated by commas, such as nu=0.05,u^3=-1.",
    ),
    "Mapping[str, tuple[float, float]]": Shape(
        list[str],
        values.ranges,
        "Write longitude=150:270 or time=1990:2010-06, or depth=10 for the nearest entry. "
        + REPEATED,
    ),
    "Mapping[str, int]": Shape(list[str], values.block_sizes, f"Write x=2. {REPEATED}"),
    "Season": Shape(tuple[float, int]),
}

# ---------- Options that mean the same in every command


class Shared:
    """Help of options that mean the same in every command.

    Options:
        law: Law written by spdelaw fit, a directory.
        file: NetCDF (.nc), Zarr (.zarr), or a table (.csv, .csv.gz, .parquet).
        data: File with data for the scores, preferably data that no law was fitted to.
        variable: Variable to use, where the file holds several.
        columns: Columns of a table, such as time=date,value=tmax; by default those of the fit.
        along: Dimension of the file that becomes the spatial axis; guessed by default.
        config: YAML file with options by their long names; the command line takes precedence.
        modes: Number of modes to estimate, or auto to choose it by BIC.
        times: Times, separated by commas, such as 0,0.1,0.5.
        paths: Number of paths.
        level: Probability that an interval contains the true value.
        seed: Seed of random numbers, a non-negative integer: the same seed gives the same result.
        force: Replace an existing file.
        dry_run: Print how the file is read and what is guessed, and stop before the fit.
        truth: Simulated file whose equation is the truth; by default that of the data.
        no_truth: Do not compare with the equation that is stored with the data.
        time: Name of the column with the times, as dates or numbers.
        value: Name of the column with the observed values.
        station: Name of the column with the names of the stations.
        lon: Name of the column with longitudes in degrees.
        lat: Name of the column with latitudes in degrees.
        x: Name of the column with positions x, where they are not longitudes.
        y: Name of the column with positions y, where they are not latitudes.
        quantity: Rows to use if a column names the quantity of each row, such as element=TMAX.
        units: Units of the values, such as degC; by default those in a column units.
    """


SHARED = describe_arguments(inspect.cleandoc(str(Shared.__doc__)))
SHORT_FLAGS = {
    "out": "-o",
    "force": "-f",
    "paths": "-n",
    "variable": "-v",
    "config": "-c",
    "quiet": "-q",
    "data": "-d",
    "residual": "--rest",
}  # the last is its earlier name
#: Named groups in the help of a long command, with options that no group of arguments puts there.
MODEL, ENGINE, OUTPUT = "Model", "Engine", "Output"
PANELS = {
    "Input": ("variable", "along", "config"),
    MODEL: ("modes", "library", "noise", "basis", "residual", "seconds"),
    "Forecasts of the past": ("leads", "origins", "first", "refits", "most_origins"),
    "Uncertainty": ("level", "bootstrap", "seed"),
    ENGINE: ("engine", "engine_option", "dask"),
    OUTPUT: (
        "out",
        "save_law",
        "force",
        "figure",
        "dry_run",
        "smooth",
        "everywhere",
        "json",
        "quiet",
    ),
}
PANEL_OF = {name: panel for panel, options in PANELS.items() for name in options}


# ---------- Groups of options as one argument of a command


class Group(NamedTuple):
    """Options from the arguments of functions and classes.

    Attributes:
        sources: module and name, such as ``infer/model.py:Model``; the same name is one option.
        call: whether the command gets what the source returns, or the values that were given.
        panel: group of the help.
        only: arguments to offer, by default all.
        leave_out: arguments that are no options.
        users: engine that each source belongs to, for the help.
        shapes: annotations that replace those of the source, by argument.
    """

    sources: tuple[str, ...]
    call: bool = False
    panel: str | None = None
    only: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    shapes: Mapping[str, str] = {}

    def fields(self) -> dict[str, Field]:
        """The first argument of each name."""
        fields: dict[str, Field] = {}
        for source in self.sources:
            fields = self._read(source) | fields
        if self.only:
            return {name: fields[name] for name in self.only}
        return {name: field for name, field in fields.items() if name not in self.leave_out}

    def _read(self, source: str) -> dict[str, Field]:
        path, _, name = source.partition(":")
        fields = read_signature(PACKAGE / path, name).fields
        if path.startswith("cli/"):
            return fields
        return {
            key: field._replace(
                text=first_sentence(field.text), annotation=self.shapes.get(key, field.annotation)
            )
            for key, field in fields.items()
        }

    def help(self, field: Field) -> str:
        """Help of an option, with the engines that take it."""
        pairs = zip(self.users, self.sources, strict=False)
        users = [user for user, source in pairs if field.name in self._read(source)]
        engines = f"Engines: {', '.join(dict.fromkeys(users))}." if users else ""
        return _join(field.text, engines)

    def make(self, given: Given) -> Any:
        """What the command gets."""
        if not self.call:
            return given
        path, _, name = self.sources[0].partition(":")
        module = path.removesuffix(".py").replace("/", ".")
        return getattr(importlib.import_module(f"spdelaw.{module}"), name)(**given)


NewFields = Path
NewLaw = Path
NewPage = Path
ModelOptions = Given
DiscoverModel = Given
FillModel = Given
SkillModel = Given
PreparationOptions = Given
TermOptions = Given
EngineOptions = Given
FillSettings = Given
SkillSettings = Given
_MODEL = ("infer/model.py:Model",)
GROUPS = {
    "Output": Group(("cli/output.py:Output",), call=True),
    "NewFields": Group(("cli/output.py:new_fields",), call=True),
    "NewLaw": Group(("cli/output.py:new_law",), call=True),
    "NewPage": Group(("cli/output.py:new_page",), call=True),
    "SkillTargets": Group(("cli/output.py:SkillTargets",), call=True),
    "DataOptions": Group(("cli/inputs.py:DataOptions",), call=True),
    "LawAndData": Group(("cli/inputs.py:LawAndData",), call=True),
    "LawsAndData": Group(("cli/inputs.py:LawsAndData",), call=True),
    "TruthOptions": Group(("cli/commands/judge.py:TruthOptions",), call=True),
    "DomainOptions": Group(("cli/inputs.py:DomainOptions",), call=True, panel="Domain"),
    "Columns": Group(
        ("data/io/tables.py:Columns",),
        call=True,
        panel="Columns of a table with one row per station and time",
    ),
    "PreparationOptions": Group(
        ("data/prepare.py:Preparation",),
        panel="Preparation, stored in the law and undone on output",
        leave_out=("variable", "rename"),
    ),
    "ModelOptions": Group(_MODEL, panel=MODEL, leave_out=("priors",)),
    "DiscoverModel": Group(_MODEL, panel=MODEL, only=("observation_noise", "fixed")),
    "FillModel": Group(_MODEL, panel=MODEL, only=("drift",)),
    "SkillModel": Group(
        _MODEL,
        panel=MODEL,
        only=("drift", "noise", "initial", "observation_noise", "nuisance", "mean", "residual",
              "state_noise"),
    ),
    "FillSettings": Group(
        ("evaluation/gap_filling.py:fill",),
        only=("basis", "residual", "smooth", "everywhere", "seconds", "seed"),
        shapes={"seconds": "Seconds"},
    ),
    "SkillSettings": Group(
        ("evaluation/forecast_skill.py:skill",),
        only=("leads", "origins", "first", "refits", "most_origins", "level", "seed"),
        shapes={"leads": "Counts", "first": "ShareOrCount"},
    ),
    "TermOptions": Group(
        ("infer/semilinear/engine.py:SemilinearEngine",), panel=MODEL, only=("terms",)
    ),
    "EngineOptions": Group(
        (
            "infer/engines/exact.py:Exact",
            "infer/engines/chaos.py:Chaos",
            "amortized/engine.py:Amortized",
            "amortized/structured.py:AmortizedConfig",
            "infer/semilinear/engine.py:SemilinearEngine",
        ),
        panel=ENGINE,
        only=("threads", "profile", "n_time", "order", "tail", "preset", "encoder", "epochs",
              "checkpoint", "tensorboard", "method", "scheme"),
        users=("exact", "chaos", "amortized", "amortized", "that of --terms"),
    ),
}  # fmt: skip


# ---------- From an argument to options, and from their values back to the argument


#: Value of an argument whose options were not given: Python's default holds.
MISSING = object()


class Part(NamedTuple):
    """Options of one argument, and the function that makes the argument from their values."""

    parameters: list[inspect.Parameter]
    make: Callable[[Mapping[str, Any]], Any]


def expand(fields: Mapping[str, Field], texts: Mapping[str, str], group: Group) -> dict[str, Part]:
    """Options of each argument; ``texts`` are the entries of the command's docstring."""
    return {name: _expand_one(field, texts, group) for name, field in fields.items()}


def _expand_one(field: Field, texts: Mapping[str, str], group: Group) -> Part:
    annotation = field.annotation.removesuffix(" | None")
    if annotation in GROUPS:
        return _expand_group(GROUPS[annotation], field, texts)
    shape = SHAPES.get(annotation, Shape())
    text = _help(field, shape, texts.get(field.name, "..."), group)
    parameter = _parameter(field, shape, text, group.panel)
    option = _flag(field.name)

    def make(given: Mapping[str, Any]) -> Any:
        value = given[field.name]
        if value is None or value == [] or (value is False and not field.default):
            return MISSING
        return value if shape.parse is None else shape.parse(option, value)

    return Part([parameter], make)


def _expand_group(group: Group, argument: Field, texts: Mapping[str, str]) -> Part:
    fields = group.fields()
    required = [name for name, field in fields.items() if field.default is REQUIRED]
    if argument.default is not REQUIRED:  # the group as a whole may be left out
        fields |= {name: fields[name]._replace(default=None) for name in required}
    parts = expand(fields, texts, group)

    def make(given: Mapping[str, Any]) -> Any:
        made = collect(parts, given)
        return group.make(made) if set(required) <= set(made) else MISSING

    return Part([p for part in parts.values() for p in part.parameters], make)


def collect(parts: Mapping[str, Part], given: Mapping[str, Any]) -> Given:
    """Arguments whose options were given."""
    made = {name: part.make(given) for name, part in parts.items()}
    return {name: value for name, value in made.items() if value is not MISSING}


def _parameter(field: Field, shape: Shape, text: str, panel: str | None) -> inspect.Parameter:
    """The parameter as typer reads it; an option that is not given is None, a flag False."""
    settings: dict[str, Any] = {"help": text, "rich_help_panel": panel or PANEL_OF.get(field.name)}
    if shape.check is not None:
        settings |= {"callback": _checked_first(shape.check), "is_eager": True}
    if shape.words is not None:
        settings["autocompletion"] = _completion(shape.words)
    is_flag, is_required = shape.kind is bool and not field.default, field.default is REQUIRED
    if is_required and shape.metavar:
        note = typer.Argument(metavar=shape.metavar, **settings)
    else:
        flag = _flag(field.name)
        flag += f"/--no-{flag[2:]}" if shape.kind is bool and not is_flag else ""
        short = [SHORT_FLAGS[field.name]] if field.name in SHORT_FLAGS else []
        note = typer.Option(flag, *short, show_default=False, **settings)
    kind = shape.kind if is_flag or is_required else shape.kind | None
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if is_flag else REQUIRED if is_required else None,
        annotation=Annotated[kind, note],
    )


def _completion(words: Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    return lambda incomplete: [word for word in words() if word.startswith(incomplete)]


def _checked_first(check: Callable[..., Any]) -> Callable[..., Any]:
    def callback(ctx: typer.Context, value: Any) -> Any:
        if value is not None and not ctx.resilient_parsing:
            for path in value if isinstance(value, list) else [value]:
                check(path, ctx)
        return value

    return callback


def _help(field: Field, shape: Shape, text: str, group: Group) -> str:
    """Help of an option: the entry of the command; "..." in it stands for that of the argument."""
    if text.startswith("..."):
        argument = group.help(field) or SHARED.get(field.name, "")
        text = _join(argument, shape.syntax, text.removeprefix("...").strip())
    return text if "[default:" in text else _join(text, _shown_default(field.default))


def _shown_default(default: Any) -> str:
    if default is REQUIRED or default is None or default is False or default in ((), ""):
        return ""
    default = "on" if default is True else default
    return f"[default: {','.join(map(str, default)) if isinstance(default, tuple) else default}]"


def _flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def _join(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
