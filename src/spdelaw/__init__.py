"""Learn the law of a stochastic PDE from observed space-time fields.

The public names are listed in ``__all__``; everything else may change.
"""

from __future__ import annotations

from spdelaw._version import __version__
from spdelaw.data import as_fields, describe, mask, read, split, stack, write
from spdelaw.domain import (
    AbstractDomain,
    Box,
    Disk,
    Empirical,
    Graph,
    Interval,
    Line,
    Mesh,
    Plane,
    Sphere,
)
from spdelaw.equation import (
    Gaussian,
    Matern,
    OperatorFormula,
    PowerLaw,
    SpectralSPDE,
    White,
    catalogue,
)
from spdelaw.evaluate import Scorecard, evaluate
from spdelaw.infer import LogNormal, Normal, fit, update
from spdelaw.law import Law, load
from spdelaw.simulate import simulate

__all__ = [
    "AbstractDomain",
    "Box",
    "Disk",
    "Empirical",
    "Gaussian",
    "Graph",
    "Interval",
    "Law",
    "Line",
    "LogNormal",
    "Matern",
    "Mesh",
    "Normal",
    "OperatorFormula",
    "Plane",
    "PowerLaw",
    "Scorecard",
    "SpectralSPDE",
    "Sphere",
    "White",
    "__version__",
    "as_fields",
    "catalogue",
    "describe",
    "evaluate",
    "fit",
    "load",
    "mask",
    "read",
    "simulate",
    "split",
    "stack",
    "update",
    "write",
]
