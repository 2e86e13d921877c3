"""LEARN: parameters from data."""

from spdelaw.infer._fit import ENGINES, fit, update
from spdelaw.infer._priors import LogNormal, Normal

__all__ = ["ENGINES", "LogNormal", "Normal", "fit", "update"]
