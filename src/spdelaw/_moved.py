"""Import paths of earlier versions, which still work in this one with a DeprecationWarning."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old path: new path, as documented in the changelog. Modules below an old path follow it; the
#: longest path that matches decides.
MOVED = {
    "spdelaw.domain": "spdelaw.domains",
    "spdelaw.equation": "spdelaw.processes",
    "spdelaw.infer.amortized": "spdelaw.amortized",
    "spdelaw.model": "spdelaw.statespace",
    "spdelaw.paper": "paper",
    "spdelaw.simulation": "spdelaw.processes.paths",
    "spdelaw.train": "spdelaw.amortized.training",
}


def new_path(old: str) -> str | None:
    """New path of a module that moved, None for others.

    Example:
        >>> new_path("spdelaw.paper.baselines.fno"), new_path("spdelaw.law")
        ('paper.baselines.fno', None)
    """
    if not old.startswith("spdelaw."):
        return None  # the usual case: the finder is called for every import of the process
    for path in sorted(MOVED, key=len, reverse=True):
        if f"{old}.".startswith(f"{path}."):
            return MOVED[path] + old.removeprefix(path)
    return None


class MovedFinder(MetaPathFinder, Loader):
    """Finds a module under its old path, and registers the module of the new path there.

    It has to come first in ``sys.meta_path``: the default finder would load the file of a moved
    sub-module a second time, under its old name.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Spec of a module that moved and exists; None leaves the import to other finders."""
        new = new_path(name)
        try:
            exists = new is not None and importlib.util.find_spec(new) is not None
        except ModuleNotFoundError:  # the parent of the new module does not exist
            exists = False
        return ModuleSpec(name, self) if exists else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module that `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Import the new module, and warn once for each path of the table."""
        old = module.__name__
        new = str(new_path(old))
        sys.modules[old] = importlib.import_module(new)
        if old in MOVED:
            text = f"{old!r} is deprecated and will be removed: import {new!r} instead"
            # Python leaves the frames of importlib out: 2 is the statement that imports.
            warnings.warn(text, DeprecationWarning, stacklevel=2)


def install() -> None:
    """Put the finder in front of the others, once for each process."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
