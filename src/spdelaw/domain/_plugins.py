"""Domains of other packages, found by their entry points in the group ``spdelaw.domains``."""

from __future__ import annotations

from importlib.metadata import entry_points

from spdelaw.domain._base import AbstractDomain
from spdelaw.errors import DomainError

GROUP = "spdelaw.domains"


def find_domain(name: object) -> type[AbstractDomain] | None:
    """The class that an installed package registered under ``name``, or None."""
    for entry in entry_points(group=GROUP):
        if entry.name != name:
            continue
        found = entry.load()
        if isinstance(found, type) and issubclass(found, AbstractDomain) and found.name == name:
            return found
        expected = f"a subclass of AbstractDomain with name = {entry.name!r}"
        got = f"{entry.value} of the entry point {entry.name!r}"
        fix = "mend the package that registers it, or remove it"
        raise DomainError("domain", expected=expected, got=got, fix=fix)
    return None
