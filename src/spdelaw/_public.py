"""The public names of the package, loaded together when the first of them is used."""

from __future__ import annotations

from spdelaw import datasets, errors, report
from spdelaw.amortized.engine import Amortized
from spdelaw.data.fields import as_fields, stack
from spdelaw.data.io.files import read, write
from spdelaw.data.io.tables import from_table, to_table
from spdelaw.data.prepare import Preparation
from spdelaw.data.splits import mask, split
from spdelaw.data.summary import describe
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
from spdelaw.evaluation.comparison import Comparison, compare
from spdelaw.evaluation.forecast_skill import Skill, Verification, leave_future_out, skill
from spdelaw.evaluation.gap_filling import fill
from spdelaw.evaluation.scorecard import Scorecard, evaluate
from spdelaw.evaluation.verification import verify
from spdelaw.infer.discovery import Discovery, discover
from spdelaw.infer.engines.chaos import Chaos
from spdelaw.infer.engines.exact import Exact
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.many import Learner, fit_many
from spdelaw.infer.model import LowRank, Model
from spdelaw.infer.objective import LogNormal, Normal
from spdelaw.infer.pipeline import fit, update
from spdelaw.law.io import load
from spdelaw.law.law import Law
from spdelaw.processes import catalogue
from spdelaw.processes.forcing import Forcing, Season
from spdelaw.processes.paths import simulate
from spdelaw.processes.semilinear import Semilinear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.specification import Gaussian, Matern, OperatorFormula, PowerLaw, White

__all__ = [
    "AbstractDomain",
    "Amortized",
    "Box",
    "Chaos",
    "Comparison",
    "Discovery",
    "Disk",
    "Empirical",
    "Engine",
    "Exact",
    "Fields",
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
    "Semilinear",
    "Skill",
    "SpectralSPDE",
    "Sphere",
    "Verification",
    "White",
    "as_fields",
    "catalogue",
    "compare",
    "datasets",
    "describe",
    "discover",
    "errors",
    "evaluate",
    "fill",
    "fit",
    "fit_many",
    "from_table",
    "leave_future_out",
    "load",
    "mask",
    "read",
    "report",
    "simulate",
    "skill",
    "split",
    "stack",
    "to_table",
    "update",
    "verify",
    "write",
]
