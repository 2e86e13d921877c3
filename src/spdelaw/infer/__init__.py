"""LEARN: parameters from data."""

from spdelaw.infer._fit import ENGINES, fit, update
from spdelaw.infer._learner import Learner
from spdelaw.infer._priors import LogNormal, Normal
from spdelaw.infer._settings import DRIFTS, NOISES

__all__ = ["DRIFTS", "ENGINES", "NOISES", "Learner", "LogNormal", "Normal", "fit", "update"]
