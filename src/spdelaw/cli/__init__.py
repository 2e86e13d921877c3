"""DOOR: the shell command ``spdelaw``, one file a command."""

from spdelaw.cli._app import app, main

__all__ = ["app", "main"]
