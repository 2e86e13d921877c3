"""The command ``spdelaw``, put together from commands that are loaded when they are called."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from spdelaw import __version__
from spdelaw.cli.entry import INTERRUPTED, INTERRUPTED_LINE, ending_interrupts, kept_interrupts
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
# A command may take a NamedTuple whose fields are annotated options: the shell offers these options
# and passes the tuple. So a group is written once, with its help and its defaults.


Parameter = inspect.Parameter


class Without:
    """Fields of a group that a command does not offer, as in ``Annotated[Group, Without("x")]``."""

    def __init__(self, *names: str) -> None:
        self.names = names


def ungrouped(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with every option as an argument of its own, as typer wants it."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    flat: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        group = getattr(hint, "__origin__", hint)
        if not hasattr(group, "_fields"):
            flat.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
            continue
        left_out = {n for m in getattr(hint, "__metadata__", ()) for n in m.names}
        options = get_type_hints(group, include_extras=True)
        names = [name for name in group._fields if name not in left_out]
        groups[parameter.name] = (group, names)
        flat += [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=group._field_defaults[name],
                annotation=options[name],
            )
            for name in names
        ]

    def run(**given: Any) -> None:
        for name, (group, fields) in groups.items():
            given[name] = group(**{field: given.pop(field) for field in fields})
        command(**given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


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
        loaded = importlib.import_module(module or f"spdelaw.cli.{MODULES[name]}")
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    command, examples = (
        getattr(loaded, key) for key in (f"{name}_command", f"{name.upper()}_EXAMPLES")
    )
    single.command(name, epilog=examples)(ungrouped(command))
    return typer.main.get_command(single)


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
