"""JUDGE: trajectories, the law, calibration, and whether the model fits."""

from spdelaw.evaluate._checks import ModelCheck, check_model, standard_innovations
from spdelaw.evaluate._decoder_floor import decoder_floor
from spdelaw.evaluate._law_distance import law_distance, parameter_errors
from spdelaw.evaluate._scorecard import Scorecard, evaluate
from spdelaw.evaluate._tiers import TIERS, TierScore, mean_predictor, projection_floor
from spdelaw.evaluate._trajectory import coverage, gaussian_crps
from spdelaw.law import relative_l2, rmse

__all__ = [
    "TIERS",
    "ModelCheck",
    "Scorecard",
    "TierScore",
    "check_model",
    "coverage",
    "decoder_floor",
    "evaluate",
    "gaussian_crps",
    "law_distance",
    "mean_predictor",
    "parameter_errors",
    "projection_floor",
    "relative_l2",
    "rmse",
    "standard_innovations",
]
