"""The shell command ``spdelaw``, and the parts that build another shell.

Importing this package loads nothing: a Ctrl-C while libraries are loaded has to meet `run`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from spdelaw.cli.entry import main, run

if TYPE_CHECKING:
    from spdelaw.cli.options import OutFolder
    from spdelaw.cli.output import Output
    from spdelaw.cli.shell import app, load_command, make_app

_MODULES = {"OutFolder": "options", "Output": "output"}
_MODULES |= dict.fromkeys(("app", "load_command", "make_app"), "shell")
__all__ = ["OutFolder", "Output", "app", "load_command", "main", "make_app", "run"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"spdelaw.cli.{_MODULES[name]}"), name)
