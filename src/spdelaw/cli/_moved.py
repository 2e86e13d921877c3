"""Commands that moved to the folder ``paper`` of the source repository: aliases in version 0.2."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from spdelaw.cli._group import load_command
from spdelaw.errors import SpdeLawError

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
