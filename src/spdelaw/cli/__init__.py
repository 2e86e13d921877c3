"""The shell command ``spdelaw``, and the parts that build another shell.

Importing this package loads nothing: a Ctrl-C while libraries are loaded has to meet `run`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from spdelaw.cli.entry import main, run

if TYPE_CHECKING:
    from spdelaw.cli.options import OutFolder, Seed, one_of, positive
    from spdelaw.cli.output import Output
    from spdelaw.cli.shell import app, load_command, make_app

_MODULES = {
    "Output": "output",
    **dict.fromkeys(("OutFolder", "Seed", "one_of", "positive"), "options"),
    **dict.fromkeys(("app", "load_command", "make_app"), "shell"),
}
__all__ = ["OutFolder", "Output", "Seed", "app", "load_command"]
__all__ += ["main", "make_app", "one_of", "positive", "run"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"spdelaw.cli.{_MODULES[name]}"), name)
