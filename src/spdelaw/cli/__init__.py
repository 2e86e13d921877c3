"""DOOR: the shell command ``spdelaw``, one file a command.

Importing this package loads nothing: a Ctrl-C while libraries are loaded has to meet `main`.
"""

from typing import TYPE_CHECKING, Any

from spdelaw.cli._main import main

if TYPE_CHECKING:
    from spdelaw.cli._app import app

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from spdelaw.cli._app import app

    return app
