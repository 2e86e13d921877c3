"""WHERE: bases, quadratures and transforms between fields and coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spdelaw.domain._analysis import Analysis
from spdelaw.domain._base import AbstractDomain
from spdelaw.domain._box import Box
from spdelaw.domain._derivatives import gradients
from spdelaw.domain._disk import Disk
from spdelaw.domain._empirical import Empirical
from spdelaw.domain._fields import Fields
from spdelaw.domain._graph import Graph
from spdelaw.domain._interval import Boundary, Interval
from spdelaw.domain._line import Line
from spdelaw.domain._mesh import Mesh
from spdelaw.domain._notebook import table_html
from spdelaw.domain._places import VARIABLE, Places, numbered, places_of_fields
from spdelaw.domain._plane import Plane
from spdelaw.domain._plugins import find_domain
from spdelaw.domain._products import Multiplied, Products
from spdelaw.domain._settings import shown
from spdelaw.domain._sphere import Sphere
from spdelaw.domain._turns import Turn
from spdelaw.errors import DomainError

__all__ = [
    "DOMAINS",
    "VARIABLE",
    "AbstractDomain",
    "Analysis",
    "Boundary",
    "Box",
    "Disk",
    "Empirical",
    "Fields",
    "Graph",
    "Interval",
    "Line",
    "Mesh",
    "Multiplied",
    "Places",
    "Plane",
    "Products",
    "Sphere",
    "Turn",
    "from_dict",
    "gradients",
    "numbered",
    "places_of_fields",
    "table_html",
]

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
