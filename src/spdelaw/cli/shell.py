"""The command ``spdelaw``, put together from commands that are loaded when they are called."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup

from spdelaw import __version__
from spdelaw.cli.commands import RECORDS
from spdelaw.cli.entry import INTERRUPTED, INTERRUPTED_LINE, ending_interrupts, kept_interrupts
from spdelaw.cli.options import FieldsOf, config_lines_in_errors, option_names_in_errors
from spdelaw.errors import SpdeLawError

# ---------- Errors and warnings of commands


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
        return f"not enough memory ({error}). Fix: ask for less, or write to a .zarr"
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
    _print_line("warning", typer.colors.YELLOW, str(message))


def _print_line(kind: str, colour: str, message: str) -> None:
    line = " ".join(message.split())
    typer.echo(f"{typer.style(kind + ':', fg=colour, bold=True)} {line}", err=True)


# ---------- Groups of options as one argument of a command
#
# An argument may be a group: a NamedTuple whose fields are annotated options, or fields of classes
# (`FieldsOf`). The shell offers the options and passes the group.


Parameter = inspect.Parameter
#: A command with more options shows the important ones first and the others in named groups.
MOST_IN_ONE_LIST = 15


class Without:
    """Fields of a group that a command does not offer, as in ``Annotated[Group, Without("x")]``."""

    def __init__(self, *names: str) -> None:
        self.names = names


def expand(
    name: str, hint: Any, default: Any
) -> tuple[list[Parameter], Callable[[Mapping[str, Any]], Any]]:
    """Options of one argument, and the function that makes the argument from their values."""
    group = getattr(hint, "__origin__", hint)
    notes = getattr(hint, "__metadata__", ())
    for note in notes:
        if isinstance(note, FieldsOf):
            return note.parameters(), note.parse
    if not hasattr(group, "_fields"):
        parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        return [parameter], lambda values: values[name]
    left_out = {n for note in notes for n in note.names}
    hints = get_type_hints(group, include_extras=True)
    parts = {
        key: expand(key, hints[key], group._field_defaults.get(key, Parameter.empty))
        for key in group._fields
        if key not in left_out
    }

    def make(values: Mapping[str, Any]) -> Any:
        return group(**{key: make_part(values) for key, (_, make_part) in parts.items()})

    return [parameter for options, _ in parts.values() for parameter in options], make


def ungrouped(command: Callable[..., None], first: tuple[str, ...] = ()) -> Callable[..., None]:
    """The same command with every option as an argument of its own, as typer expects it.

    Args:
        command: a function of options and groups of options.
        first: options that the help of a long command shows first.
    """
    hints = get_type_hints(command, include_extras=True)
    parts = {
        name: expand(name, hints[name], parameter.default)
        for name, parameter in inspect.signature(command).parameters.items()
    }
    flat = [parameter for options, _ in parts.values() for parameter in options]
    shown = first if len(flat) > MOST_IN_ONE_LIST else tuple(p.name for p in flat)
    flat = [_in_one_list(p) if p.name in shown else p for p in flat]
    flat.sort(key=lambda p: shown.index(p.name) if p.name in shown else len(shown))

    def run(ctx: typer.Context, **values: Any) -> None:
        with config_lines_in_errors(ctx), option_names_in_errors(values):
            command(**{name: make(values) for name, (_, make) in parts.items()})

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    context = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *flat])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [context, *flat]}
    return run


def _in_one_list(parameter: Parameter) -> Parameter:
    """The same parameter outside of the named groups of the help."""
    kind, *notes = get_args(parameter.annotation)
    notes = [copy.copy(note) for note in notes]
    for note in notes:
        note.rich_help_panel = None
    return parameter.replace(annotation=Annotated[kind, *notes])


# ---------- The list of commands, and a shell that loads each on demand


#: In the order of the help, with the first sentence of each. `MODULES` has the module of each.
COMMANDS = {
    "dataset": "Copy a data set that comes with the package into a NetCDF file or a table.",
    "simulate": "Simulate paths of an equation of the catalogue and write them to a file.",
    "info": "Describe the fields of a file: whatever `fit` can read, and how it would read it.",
    "fit": "Learn the law of the fields in a file: spectra, initial state, noise, with intervals.",
    "discover": "Learn which terms the fields in a file obey, and their law with these terms.",
    "show": "Show a law: every parameter with its interval, how it was found, what to cite.",
    "sample": "Draw new paths from a law, at the times and points of its data by default.",
    "reconstruct": "Reconstruct fields under a law: mean and standard deviation at every time and "
    "point.",
    "fill": "Fill the gaps of a record: mean and standard deviation of each missing value.",
    "forecast": "Forecast paths from their history: mean and standard deviation, and draws on "
    "request.",
    "evaluate": "Judge a law on fields it has not seen: errors, calibration, model checks.",
    "compare": "Compare laws: likelihoods, nested tests, scores on new data, parameters side by "
    "side.",
    "skill": "Score forecasts of the past beside climatology, persistence, its decay and a LIM.",
    "report": "Write one HTML page: what was learned, how sure, does it fit, with figures to move.",
}

#: Module of each command in this folder.
MODULES = {
    **dict.fromkeys(("dataset", "simulate"), "simulate"),
    **dict.fromkeys(("info", "show"), "show"),
    **dict.fromkeys(("fit", "discover"), "fit"),
    **dict.fromkeys(("sample", "reconstruct", "fill", "forecast"), "predict"),
    **dict.fromkeys(("evaluate", "compare", "skill", "report"), "judge"),
}

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


@functools.cache
def load_command(name: str, module: str | None = None) -> Any:
    """The real command, with its options and examples.

    Args:
        name: name of the command.
        module: module with ``name_command`` and ``NAME_EXAMPLES``; by default that of `MODULES`.
    """
    with ending_interrupts():
        if module is None and name in RECORDS:
            command, examples, first = _from_record(name), *RECORDS[name][1:]
        else:
            loaded = importlib.import_module(module or f"spdelaw.cli.{MODULES[name]}")
            command, first = getattr(loaded, f"{name}_command"), ()
            examples = getattr(loaded, f"{name.upper()}_EXAMPLES")
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name, epilog=examples)(ungrouped(command, first))
    return typer.main.get_command(single)


def _from_record(name: str) -> Callable[..., None]:
    """A command whose options are known before its module is loaded."""
    record = RECORDS[name].record

    def command(call: Any) -> None:
        with ending_interrupts():
            loaded = importlib.import_module(f"spdelaw.cli.{MODULES[name]}")
        getattr(loaded, f"{name}_command")(call)

    command.__annotations__ = {"call": record}
    command.__doc__, command.__name__ = record.__doc__, f"{name}_command"
    return command


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
#
# Commands load the whole package, which takes longer than a list of commands may.


def _load(name: str) -> Any:
    return load_moved(name) if name in MOVED else load_command(name)


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
