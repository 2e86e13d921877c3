"""The shell command ``spdelaw``, one file a command, and the parts that build another shell.

Importing this package loads nothing: a Ctrl-C while libraries are loaded has to meet `run`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from spdelaw.cli._main import main, run

if TYPE_CHECKING:
    from spdelaw.cli._app import app
    from spdelaw.cli._group import load_command, make_app
    from spdelaw.cli._options import OutFolder, Seed, one_of, positive
    from spdelaw.cli._output import Output

__all__ = [
    "OutFolder",
    "Output",
    "Seed",
    "app",
    "load_command",
    "main",
    "make_app",
    "one_of",
    "positive",
    "run",
]
_MODULES = {
    "app": "_app",
    "load_command": "_group",
    "make_app": "_group",
    "Output": "_output",
    **dict.fromkeys(("OutFolder", "Seed", "one_of", "positive"), "_options"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"spdelaw.cli.{_MODULES[name]}"), name)
