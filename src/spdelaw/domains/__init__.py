"""Spatial domains: bases, quadratures and transforms between fields and coefficients."""

from spdelaw.domains.base import AbstractDomain, Analysis
from spdelaw.domains.box import Box
from spdelaw.domains.disk import Disk
from spdelaw.domains.empirical import Empirical
from spdelaw.domains.fields import Fields
from spdelaw.domains.graph import Graph
from spdelaw.domains.hermite import Line, Plane
from spdelaw.domains.interval import Interval
from spdelaw.domains.mesh import Mesh
from spdelaw.domains.registry import from_dict
from spdelaw.domains.sphere import Sphere

__all__ = [
    "AbstractDomain",
    "Analysis",
    "Box",
    "Disk",
    "Empirical",
    "Fields",
    "Graph",
    "Interval",
    "Line",
    "Mesh",
    "Plane",
    "Sphere",
    "from_dict",
]
