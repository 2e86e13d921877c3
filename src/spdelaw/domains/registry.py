"""Domains by name, those of other packages included (entry points ``spdelaw.domains``)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from spdelaw.checks import shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.disk import Disk
from spdelaw.domains.empirical import Empirical
from spdelaw.domains.fields import Fields
from spdelaw.domains.graph import Graph
from spdelaw.domains.hermite import Line, Plane
from spdelaw.domains.interval import Interval
from spdelaw.domains.mesh import Mesh
from spdelaw.domains.sphere import Sphere
from spdelaw.errors import DomainError

ENTRY_POINT_GROUP = "spdelaw.domains"


def find_domain(name: object) -> type[AbstractDomain] | None:
    """The class that an installed package registered under ``name``, or None."""
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name != name:
            continue
        loaded = entry.load()
        if isinstance(loaded, type) and issubclass(loaded, AbstractDomain) and loaded.name == name:
            return loaded
        expected = f"a subclass of AbstractDomain with name = {entry.name!r}"
        got = f"{entry.value} of the entry point {entry.name!r}"
        fix = "fix the package that registers it, or remove it"
        raise DomainError("domain", expected=expected, got=got, fix=fix)
    return None


#: Domains by the name under which files and the shell know them.
DOMAINS: dict[str, type[AbstractDomain]] = {
    cls.name: cls
    for cls in (Interval, Line, Box, Plane, Disk, Sphere, Mesh, Graph, Empirical, Fields)
}


def from_dict(description: dict[str, Any]) -> AbstractDomain:
    """Domain from the plain description that ``domain.to_dict()`` gives.

    Example:
        >>> from_dict({"name": "interval", "a": 0.0, "b": 1.0, "boundary": "periodic"})
        Interval(a=0.0, b=1.0, boundary='periodic')
    """
    if not isinstance(description, Mapping):
        raise DomainError(
            "domain",
            expected="a dict with a name",
            got=shown(description),
            fix="write it with domain.to_dict()",
        )
    settings = {str(key): value for key, value in description.items()}
    name = settings.pop("name", None)
    cls = DOMAINS[name] if isinstance(name, str) and name in DOMAINS else find_domain(name)
    if cls is None:
        fix = "check the name in the description, or install the package of the domain"
        raise DomainError("domain", expected=f"one of {sorted(DOMAINS)}", got=repr(name), fix=fix)
    try:
        return cls.from_settings(**settings)
    except DomainError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        got = f"{sorted(settings)}"
        fix = f"write it with domain.to_dict() ({type(error).__name__}: {shown(str(error))})"
        raise DomainError("domain", expected=f"the settings of {name}", got=got, fix=fix) from error
