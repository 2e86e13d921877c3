"""WHAT: the equation, its spectra, its initial state and its closed-form moments."""

from spdelaw.equation import catalogue
from spdelaw.equation._checks import check_times
from spdelaw.equation._forcing import Forcing
from spdelaw.equation._initial import Gaussian
from spdelaw.equation._matrix_transition import (
    MatrixTransition,
    distinct_steps,
    matrix_transition,
    stationary_covariance,
    stationary_pull_back,
)
from spdelaw.equation._rotation import rotating_pairs, whole_pairs
from spdelaw.equation._season import Season
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import (
    AbstractSpectrum,
    Matern,
    OperatorFormula,
    PowerLaw,
    White,
)
from spdelaw.equation._transition import Transition, decay_mean, mode_variance, transition

__all__ = [
    "AbstractSpectrum",
    "Forcing",
    "Gaussian",
    "Matern",
    "MatrixTransition",
    "OperatorFormula",
    "PowerLaw",
    "Season",
    "SpectralSPDE",
    "Transition",
    "White",
    "catalogue",
    "check_times",
    "decay_mean",
    "distinct_steps",
    "matrix_transition",
    "mode_variance",
    "rotating_pairs",
    "stationary_covariance",
    "stationary_pull_back",
    "transition",
    "whole_pairs",
]
