"""The public names of the package, loaded together when the first of them is used."""

from __future__ import annotations

from spdelaw import datasets, report
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
    SpectralSPDE,
    White,
    catalogue,
)
from spdelaw.evaluation import Scorecard, evaluate, leave_future_out
from spdelaw.infer import (
    Amortized,
    Chaos,
    Engine,
    Exact,
    Learner,
    LogNormal,
    LowRank,
    Model,
    Normal,
    fit,
    update,
)
from spdelaw.law import Law, load
from spdelaw.simulation import simulate

__all__ = [
    "AbstractDomain",
    "Amortized",
    "Box",
    "Chaos",
    "Disk",
    "Empirical",
    "Engine",
    "Exact",
    "Forcing",
    "Gaussian",
    "Graph",
    "Interval",
    "Law",
    "Learner",
    "Line",
    "LogNormal",
    "LowRank",
    "Matern",
    "Mesh",
    "Model",
    "Normal",
    "OperatorFormula",
    "Plane",
    "PowerLaw",
    "Preparation",
    "Scorecard",
    "Season",
    "SpectralSPDE",
    "Sphere",
    "White",
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
