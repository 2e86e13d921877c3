"""Learn the law of a stochastic PDE from observed space-time fields.

The public names are listed in ``__all__``; everything else may change.
"""

from __future__ import annotations

from spdelaw import datasets, report
from spdelaw._version import __version__
from spdelaw.data import Preparation, as_fields, describe, mask, read, split, stack, write
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
    Forcing,
    Gaussian,
    Matern,
    OperatorFormula,
    PowerLaw,
    Season,
    Semilinear,
    SpectralSPDE,
    White,
    catalogue,
)
from spdelaw.evaluation import Scorecard, evaluate, leave_future_out
from spdelaw.infer import Learner, LogNormal, Normal, fit, update
from spdelaw.law import Law, load
from spdelaw.simulation import simulate

__all__ = [
    "AbstractDomain",
    "Box",
    "Disk",
    "Empirical",
    "Forcing",
    "Gaussian",
    "Graph",
    "Interval",
    "Law",
    "Learner",
    "Line",
    "LogNormal",
    "Matern",
    "Mesh",
    "Normal",
    "OperatorFormula",
    "Plane",
    "PowerLaw",
    "Preparation",
    "Scorecard",
    "Season",
    "Semilinear",
    "SpectralSPDE",
    "Sphere",
    "White",
    "__version__",
    "as_fields",
    "catalogue",
    "datasets",
    "describe",
    "evaluate",
    "fit",
    "leave_future_out",
    "load",
    "mask",
    "read",
    "report",
    "simulate",
    "split",
    "stack",
    "update",
    "write",
]
