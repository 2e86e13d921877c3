"""The command ``spdelaw``, put together from commands that are loaded when they are called."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from spdelaw import __version__
from spdelaw.cli.entry import ending_interrupts
from spdelaw.cli.options import (
    Group,
    Signature,
    collect,
    describe_arguments,
    expand,
    read_signature,
    section,
)
from spdelaw.cli.output import one_line_errors, shell_language
from spdelaw.cli.values import CONFIG_LINES
from spdelaw.errors import FileError, SpdeLawError

# ---------- A command from the function that runs it
#
# The function ``fit_command`` is the command ``fit``: its arguments are the options, its docstring
# is the help. The module is imported when the command runs.


FOLDER = "spdelaw.cli.commands"
#: Module of each command in this folder, in the order of the help.
MODULES = {
    **dict.fromkeys(("dataset", "simulate"), "simulate"),
    "info": "show",
    **dict.fromkeys(("fit", "discover"), "fit"),
    "show": "show",
    **dict.fromkeys(("sample", "reconstruct", "fill", "forecast"), "predict"),
    **dict.fromkeys(("evaluate", "compare", "skill", "verify", "report"), "judge"),
}
#: A command with more options shows the important ones first and the others in named groups.
MOST_IN_ONE_LIST = 15
#: Options that come last in the help of a short command.
LAST = ("variable", "columns", "seed", "force", "json", "quiet")


def signature_of(name: str, module: str) -> Signature:
    """Arguments and docstring of the function of a command."""
    spec = importlib.util.find_spec(module)
    return read_signature(Path(str(spec and spec.origin)), f"{name}_command")


def help_of(docstring: str) -> str:
    """The docstring up to its sections."""
    return re.split(r"\n\n(?:Options|Shown first|Examples):\n", docstring)[0]


@functools.cache
def load_command(name: str, module: str | None = None) -> Any:
    """The command, with its options and examples.

    Args:
        name: name of the command.
        module: module with ``name_command``; by default that of `MODULES`.
    """
    module = module or f"{FOLDER}.{MODULES[name]}"
    signature = signature_of(name, module)
    docstring = signature.docstring
    parts = expand(signature.fields, describe_arguments(docstring), Group(()))
    parameters = [parameter for part in parts.values() for parameter in part.parameters]

    def run(ctx: typer.Context, **values: Any) -> None:
        labels = {str(p.name): str(p.metavar or p.opts[0]) for p in ctx.command.params}
        with shell_language(labels, lambda: ctx.meta.get(CONFIG_LINES, {})):
            _refuse_output_on_input(values)
            with ending_interrupts():
                function = getattr(importlib.import_module(module), f"{name}_command")
            arguments = collect(parts, values)
            arguments["output"].command = name
            function(**arguments)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    everything = [context, *_in_order_of_help(parameters, section(docstring, "Shown first"))]
    run.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in everything}
    lines = section(docstring, "Examples").strip().splitlines()
    examples = "\n\n".join(["**Examples**", *filter(None, lines)])
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name, help=help_of(docstring), epilog=examples)(run)
    return typer.main.get_command(single)


def _refuse_output_on_input(values: Mapping[str, Any]) -> None:
    """``--force`` replaces an output; it must not replace what the command reads."""
    out = values.get("out")
    inputs = [values.get(name) for name in ("law", "file", "data", "truth", "skill", "config")]
    for path in [*inputs, *values.get("laws", [])]:
        if out is not None and path is not None and out.exists() and out.samefile(path):
            expected, fix = "a name that differs from the input's", "choose another name"
            raise FileError("--out", expected=expected, got=str(out), fix=fix)


def _in_order_of_help(
    parameters: list[inspect.Parameter], important: str
) -> list[inspect.Parameter]:
    """The important options of a long command first; those of a short one outside of groups."""
    names = [parameter.name for parameter in parameters]
    shown = sorted(names, key=lambda name: LAST.index(name) if name in LAST else -1)
    if len(names) > MOST_IN_ONE_LIST:
        shown = re.findall(r"\w+", important)
    ordered = [_outside_of_groups(p) if p.name in shown else p for p in parameters]
    return sorted(ordered, key=lambda p: shown.index(p.name) if p.name in shown else len(shown))


def _outside_of_groups(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, note = get_args(parameter.annotation)
    note = copy.copy(note)
    note.rich_help_panel = None
    return parameter.replace(annotation=Annotated[kind, note])


# ---------- A shell that loads each command on demand


#: Key in the context of a call: whether ``--json`` was given.
JSON_KEY = "spdelaw.json"


def make_app(
    name: str, commands: Mapping[str, str], load: Callable[[str], Any], **settings: Any
) -> typer.Typer:
    """A shell whose commands are loaded when they are called.

    Args:
        name: name of the program.
        commands: first sentence of the help of each command.
        load: gives the real command of a name, such as `load_command`.
        settings: further settings of `typer.Typer`.
    """
    app = typer.Typer(
        name=name,
        cls=type("Commands", (LazyGroup,), {"load": staticmethod(load)}),
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )
    for command, text in commands.items():
        app.command(command, help=text)(stand_in)
    return app


def stand_in() -> None:
    """A command in the list; the real one is loaded when it is called."""


class LazyGroup(TyperGroup):
    """A group that lists stand-ins, runs real commands, and ends in a line instead of a traceback.

    Lists call ``get_command``; a run calls ``resolve_command``.
    """

    load: Callable[[str], Any]

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        """Read the options of the group; store ``--json`` for errors of any command."""
        as_json = "--json" in args
        with one_line_errors(as_json):
            ctx = super().make_context(info_name, args, *more, **extra)
        ctx.meta[JSON_KEY] = as_json
        return ctx

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the requested command."""
        name, command, arguments = super().resolve_command(ctx, args)
        return name, command and self.load(str(command.name)), arguments

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        with one_line_errors(ctx.meta.get(JSON_KEY, False)):
            return super().invoke(ctx)


# ---------- Aliases, in version 0.2, of commands that moved to the folder ``paper``


#: Module of each command; the aliases are not listed in the help.
MOVED = {"demo": "paper.demonstration", "reproduce": "paper.reproduction.command"}


class MovedError(SpdeLawError):
    """A command is in the source repository only."""

    def __init__(self, name: str) -> None:
        text = f"`spdelaw {name}` moved to the source repository: run `make {name}` in a checkout."
        Exception.__init__(self, text)


def load_moved(name: str) -> Any:
    """The command of the folder ``paper``, or `MovedError` where it cannot be imported."""
    try:
        importlib.import_module(MOVED[name])
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "paper":
            raise
        raise MovedError(name) from error
    text = f"`spdelaw {name}` is deprecated: run `python -m paper {name}` or `make {name}`."
    with warnings.catch_warnings():
        warnings.simplefilter("always", DeprecationWarning)  # Python hides it outside of __main__
        warnings.warn(text, DeprecationWarning, stacklevel=2)
    return load_command(name, MOVED[name])


# ---------- The command ``spdelaw``


def _summary(name: str) -> str:
    """First sentence of the help."""
    docstring = signature_of(name, f"{FOLDER}.{MODULES[name]}").docstring
    return docstring.split("\n\n")[0].replace("\n", " ")


def _load(name: str) -> Any:
    return load_moved(name) if name in MOVED else load_command(name)


COMMANDS = {name: _summary(name) for name in MODULES}
app = make_app("spdelaw", COMMANDS, _load)
for _name in MOVED:
    app.command(_name, hidden=True)(stand_in)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"spdelaw {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Learn the law of a stochastic PDE from observed space-time fields.

    Every command takes --json and prints one JSON document on stdout, also when it fails. Exit
    codes: 0 done, 1 a check failed, 2 bad input with one line on stderr, 130 interrupted.
    """
