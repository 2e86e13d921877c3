"""Engines of other packages, found by their entry points in the group ``spdelaw.engines``.

An engine is a function ``engine(observed, domain, n_modes, settings, **options) -> Law``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from spdelaw.errors import InputError
from spdelaw.law import Law

GROUP = "spdelaw.engines"


def engine_names() -> tuple[str, ...]:
    """Names that installed packages registered."""
    return tuple(sorted(entry.name for entry in entry_points(group=GROUP)))


def find_engine(name: str) -> Callable[..., Law]:
    """The function registered under ``name``, or `InputError`."""
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return entry.load()
    raise InputError(
        "engine", expected="a registered engine", got=repr(name), fix="install its package"
    )
