"""WHAT: the equation, its operators and dynamics, its initial state and closed-form moments."""

from spdelaw.equation import catalogue, operators
from spdelaw.equation._closure import Closure, Moments, Tape, advance
from spdelaw.equation._closure_gradient import Pulled, pull_back
from spdelaw.equation._decay import decay_mean, decay_mean_slope
from spdelaw.equation._dynamics import Dynamics, Step, dynamics_from_dict
from spdelaw.equation._exponential import phi
from spdelaw.equation._field_terms import MOST_DENSE, bound, field_of, flat_terms, term_values
from spdelaw.equation._forcing import Forcing
from spdelaw.equation._given import Gaussian, InitialKind, InitialState, check_times
from spdelaw.equation._linear import Linear
from spdelaw.equation._polynomial import Means
from spdelaw.equation._reacting import Reacting, reaction_rate, substeps
from spdelaw.equation._rotation import rotating_pairs, whole_pairs
from spdelaw.equation._season import Season
from spdelaw.equation._semilinear import Semilinear
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import Matern, OperatorFormula, PowerLaw, White
from spdelaw.equation._terms import Reaction, bind
from spdelaw.equation._transition import Transition, distinct_steps, transition

__all__ = [
    "MOST_DENSE",
    "Closure",
    "Dynamics",
    "Forcing",
    "Gaussian",
    "InitialKind",
    "InitialState",
    "Linear",
    "Matern",
    "Means",
    "Moments",
    "OperatorFormula",
    "PowerLaw",
    "Pulled",
    "Reacting",
    "Reaction",
    "Season",
    "Semilinear",
    "SpectralSPDE",
    "Step",
    "Tape",
    "Transition",
    "White",
    "advance",
    "bind",
    "bound",
    "catalogue",
    "check_times",
    "decay_mean",
    "decay_mean_slope",
    "distinct_steps",
    "dynamics_from_dict",
    "field_of",
    "flat_terms",
    "operators",
    "phi",
    "pull_back",
    "reaction_rate",
    "rotating_pairs",
    "substeps",
    "term_values",
    "transition",
    "whole_pairs",
]
