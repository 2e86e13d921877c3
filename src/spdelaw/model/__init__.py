"""STATE: the coefficients given the parameters, and the likelihood of what was observed."""

from spdelaw.model._chaos import chaos_log_likelihood, evaluate_chaos
from spdelaw.model._chaos_map import TAILS, ChaosModel, Tail
from spdelaw.model._chaos_posterior import Latents, chaos_latents
from spdelaw.model._chaos_projection import Projected, project_on_decoder
from spdelaw.model._collapse import Block, Collapsed, collapse
from spdelaw.model._coupled_likelihood import CoupledEvaluation
from spdelaw.model._coupled_statistics import PairSums
from spdelaw.model._forced import (
    evaluate_forced,
    evaluate_forced_statistics,
    unforced,
    unforced_statistics,
)
from spdelaw.model._likelihood import AnyEvaluation, Evaluation, evaluate_likelihood
from spdelaw.model._moments import Moments, transition_log_likelihood, transition_score
from spdelaw.model._parameters import (
    AnyParameters,
    CoupledParameters,
    InitialKind,
    Parameters,
    coupled_parameters,
)
from spdelaw.model._rotate import rotate
from spdelaw.model._semilinear_filter import (
    FilterScores,
    Prior,
    SemilinearStates,
    filter_scores,
    smooth_semilinear,
)
from spdelaw.model._semilinear_innovations import filter_innovations, transition_innovations
from spdelaw.model._semilinear_likelihood import (
    Scores,
    Transitions,
    closure_scores,
    gaussian,
    scheme_scores,
    transitions,
)
from spdelaw.model._semilinear_segments import in_segments
from spdelaw.model._smoother import (
    Smoothed,
    component_innovations,
    innovations,
    sample_states,
    smooth_states,
)
from spdelaw.model._statistics import (
    Statistics,
    collect,
    evaluate_statistics,
    white_noise_z,
)

__all__ = [
    "TAILS",
    "AnyEvaluation",
    "AnyParameters",
    "Block",
    "ChaosModel",
    "Collapsed",
    "CoupledEvaluation",
    "CoupledParameters",
    "Evaluation",
    "FilterScores",
    "InitialKind",
    "Latents",
    "Moments",
    "PairSums",
    "Parameters",
    "Prior",
    "Projected",
    "Scores",
    "SemilinearStates",
    "Smoothed",
    "Statistics",
    "Tail",
    "Transitions",
    "chaos_latents",
    "chaos_log_likelihood",
    "closure_scores",
    "collapse",
    "collect",
    "component_innovations",
    "coupled_parameters",
    "evaluate_chaos",
    "evaluate_forced",
    "evaluate_forced_statistics",
    "evaluate_likelihood",
    "evaluate_statistics",
    "filter_innovations",
    "filter_scores",
    "gaussian",
    "in_segments",
    "innovations",
    "project_on_decoder",
    "rotate",
    "sample_states",
    "scheme_scores",
    "smooth_semilinear",
    "smooth_states",
    "transition_innovations",
    "transition_log_likelihood",
    "transition_score",
    "transitions",
    "unforced",
    "unforced_statistics",
    "white_noise_z",
]
