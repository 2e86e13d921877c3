"""WHAT: the equation, its spectra, its initial state and its closed-form moments."""

from spdelaw.equation import catalogue
from spdelaw.equation._checks import check_times
from spdelaw.equation._closure import Closure, Moments, advance
from spdelaw.equation._closure_gradient import Pulled, pull_back
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
from spdelaw.equation._semilinear import Semilinear, reaction_rate, substeps
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import (
    AbstractSpectrum,
    Matern,
    OperatorFormula,
    PowerLaw,
    White,
)
from spdelaw.equation._terms import TERMS, Reaction, bind
from spdelaw.equation._transition import Transition, decay_mean, mode_variance, transition

__all__ = [
    "TERMS",
    "AbstractSpectrum",
    "Closure",
    "Forcing",
    "Gaussian",
    "Matern",
    "MatrixTransition",
    "Moments",
    "OperatorFormula",
    "PowerLaw",
    "Pulled",
    "Reaction",
    "Season",
    "Semilinear",
    "SpectralSPDE",
    "Transition",
    "White",
    "advance",
    "bind",
    "catalogue",
    "check_times",
    "decay_mean",
    "distinct_steps",
    "matrix_transition",
    "mode_variance",
    "pull_back",
    "reaction_rate",
    "rotating_pairs",
    "stationary_covariance",
    "stationary_pull_back",
    "substeps",
    "transition",
    "whole_pairs",
]
