"""Learn the law of a stochastic PDE from observed space-time fields.

The public names are listed in ``__all__``; everything else may change.
"""

from __future__ import annotations

from spdelaw.domain import AbstractDomain, Interval, Line
from spdelaw.equation import (
    Gaussian,
    Matern,
    OperatorFormula,
    PowerLaw,
    SpectralSPDE,
    White,
    catalogue,
)
from spdelaw.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "AbstractDomain",
    "Gaussian",
    "Interval",
    "Line",
    "Matern",
    "OperatorFormula",
    "PowerLaw",
    "SpectralSPDE",
    "White",
    "catalogue",
    "simulate",
]
