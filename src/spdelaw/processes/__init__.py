"""Equations, their dynamics, and simulated paths of them."""

from spdelaw.processes import catalogue, operators
from spdelaw.processes.forcing import Forcing, Season
from spdelaw.processes.linear import Dynamics, Linear, Step
from spdelaw.processes.paths import simulate
from spdelaw.processes.semilinear import Reacting, Semilinear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.specification import (
    Gaussian,
    InitialState,
    Matern,
    OperatorFormula,
    PowerLaw,
    White,
)

__all__ = [
    "Dynamics",
    "Forcing",
    "Gaussian",
    "InitialState",
    "Linear",
    "Matern",
    "OperatorFormula",
    "PowerLaw",
    "Reacting",
    "Season",
    "Semilinear",
    "SpectralSPDE",
    "Step",
    "White",
    "catalogue",
    "operators",
    "simulate",
]
