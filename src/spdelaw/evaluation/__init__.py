"""Judgement of laws: scores, calibration, forecasts, and whether the model fits."""

from spdelaw.evaluation.comparison import Comparison, check_comparable, compare
from spdelaw.evaluation.forecast_skill import Skill, leave_future_out, skill
from spdelaw.evaluation.gap_filling import fill
from spdelaw.evaluation.scorecard import Scorecard, evaluate
from spdelaw.evaluation.scores import gaussian_crps
from spdelaw.evaluation.tasks import decoder_floor, law_distance

__all__ = [
    "Comparison",
    "Scorecard",
    "Skill",
    "check_comparable",
    "compare",
    "decoder_floor",
    "evaluate",
    "fill",
    "gaussian_crps",
    "law_distance",
    "leave_future_out",
    "skill",
]
