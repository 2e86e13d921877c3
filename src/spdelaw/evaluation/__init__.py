"""JUDGE: trajectories, the law, calibration, and whether the model fits."""

from spdelaw.evaluation._checks import ModelCheck, check_model
from spdelaw.evaluation._comparable import check_comparable
from spdelaw.evaluation._compare import Comparison, compare
from spdelaw.evaluation._complete_climate import completed as completed_climate
from spdelaw.evaluation._decoder_floor import decoder_floor
from spdelaw.evaluation._fill import RESTS, Filled, fill, fill_record
from spdelaw.evaluation._fill_candidates import BASES
from spdelaw.evaluation._held_out import hold_out
from spdelaw.evaluation._law_distance import law_distance, parameter_errors
from spdelaw.evaluation._leave_future_out import leave_future_out
from spdelaw.evaluation._one_step import standard_innovations
from spdelaw.evaluation._scorecard import Scorecard, evaluate
from spdelaw.evaluation._skill import ORIGINS, skill
from spdelaw.evaluation._skill_result import Skill
from spdelaw.evaluation._skill_scores import SCORES
from spdelaw.evaluation._tiers import (
    TIERS,
    Predicted,
    TierScore,
    mean_predictor,
    predict_tier,
    projection_floor,
)
from spdelaw.evaluation._trajectory import coverage, gaussian_crps
from spdelaw.law import relative_l2, rmse

__all__ = [
    "BASES",
    "ORIGINS",
    "RESTS",
    "SCORES",
    "TIERS",
    "Comparison",
    "Filled",
    "ModelCheck",
    "Predicted",
    "Scorecard",
    "Skill",
    "TierScore",
    "check_comparable",
    "check_model",
    "compare",
    "completed_climate",
    "coverage",
    "decoder_floor",
    "evaluate",
    "fill",
    "fill_record",
    "gaussian_crps",
    "hold_out",
    "law_distance",
    "leave_future_out",
    "mean_predictor",
    "parameter_errors",
    "predict_tier",
    "projection_floor",
    "relative_l2",
    "rmse",
    "skill",
    "standard_innovations",
]
