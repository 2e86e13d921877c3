"""STATE: the coefficients given the parameters, and the likelihood of what was observed."""

from spdelaw.model._chaos import evaluate_chaos
from spdelaw.model._chaos_map import TAILS, ChaosModel
from spdelaw.model._chaos_posterior import Latents, chaos_latents, project_on_decoder
from spdelaw.model._collapse import collapse
from spdelaw.model._collapsed import Block, Collapsed, first_paths, some_paths
from spdelaw.model._filter import filter_log_likelihood, forward_filter, rts_smoother, smooth_block
from spdelaw.model._forced import without_response
from spdelaw.model._information import (
    Tangents,
    complete_information,
    expected_information,
    tangents,
)
from spdelaw.model._likelihood import Evaluation, evaluate_likelihood, link_of
from spdelaw.model._louis import observed_information
from spdelaw.model._pair_sums import PairSums
from spdelaw.model._pieces import collapse_pieces, part_slices, statistics_of_pieces
from spdelaw.model._restricted import evaluate_restricted, mean_given, with_mean
from spdelaw.model._restricted_statistics import (
    evaluate_restricted_statistics,
    mean_given_statistics,
)
from spdelaw.model._rotate import rotate
from spdelaw.model._semilinear_filter import filter_scores, smooth_semilinear
from spdelaw.model._semilinear_likelihood import (
    Transitions,
    closure_log_likelihood,
    closure_scores,
    scheme_scores,
    transition_innovations,
    transitions,
)
from spdelaw.model._semilinear_segments import in_segments
from spdelaw.model._smoother import (
    OneStep,
    PathNormals,
    Smoothed,
    component_innovations,
    innovations,
    sample_states,
    smooth_part,
    smooth_states,
)
from spdelaw.model._state_space import StateSpace, linear_state_space
from spdelaw.model._statistics import Statistics, collect, evaluate_statistics, white_noise_z
from spdelaw.model._stitch import Link, stitch

__all__ = [
    "TAILS",
    "Block",
    "ChaosModel",
    "Collapsed",
    "Evaluation",
    "Latents",
    "Link",
    "OneStep",
    "PairSums",
    "PathNormals",
    "Smoothed",
    "StateSpace",
    "Statistics",
    "Tangents",
    "Transitions",
    "chaos_latents",
    "closure_log_likelihood",
    "closure_scores",
    "collapse",
    "collapse_pieces",
    "collect",
    "complete_information",
    "component_innovations",
    "evaluate_chaos",
    "evaluate_likelihood",
    "evaluate_restricted",
    "evaluate_restricted_statistics",
    "evaluate_statistics",
    "expected_information",
    "filter_log_likelihood",
    "filter_scores",
    "first_paths",
    "forward_filter",
    "in_segments",
    "innovations",
    "linear_state_space",
    "link_of",
    "mean_given",
    "mean_given_statistics",
    "observed_information",
    "part_slices",
    "project_on_decoder",
    "rotate",
    "rts_smoother",
    "sample_states",
    "scheme_scores",
    "smooth_block",
    "smooth_part",
    "smooth_semilinear",
    "smooth_states",
    "some_paths",
    "statistics_of_pieces",
    "stitch",
    "tangents",
    "transition_innovations",
    "transitions",
    "white_noise_z",
    "with_mean",
    "without_response",
]
