"""Spatial domains: bases, quadratures and transforms between fields and coefficients."""

from spdelaw.domains.base import AbstractDomain as AbstractDomain
from spdelaw.domains.base import Analysis as Analysis
from spdelaw.domains.box import Box as Box
from spdelaw.domains.disk import Disk as Disk
from spdelaw.domains.empirical import Empirical as Empirical
from spdelaw.domains.fields import Fields as Fields
from spdelaw.domains.graph import Graph as Graph
from spdelaw.domains.hermite import Line as Line
from spdelaw.domains.hermite import Plane as Plane
from spdelaw.domains.interval import Interval as Interval
from spdelaw.domains.mesh import Mesh as Mesh
from spdelaw.domains.registry import from_dict as from_dict
from spdelaw.domains.sphere import Sphere as Sphere
