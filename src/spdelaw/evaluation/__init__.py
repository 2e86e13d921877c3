"""Judgement of laws: scores, calibration, forecasts, and whether the model fits."""

from spdelaw.evaluation.comparison import Comparison as Comparison
from spdelaw.evaluation.comparison import check_comparable as check_comparable
from spdelaw.evaluation.comparison import compare as compare
from spdelaw.evaluation.forecast_skill import Skill as Skill
from spdelaw.evaluation.forecast_skill import leave_future_out as leave_future_out
from spdelaw.evaluation.forecast_skill import skill as skill
from spdelaw.evaluation.gap_filling import fill as fill
from spdelaw.evaluation.scorecard import Scorecard as Scorecard
from spdelaw.evaluation.scorecard import evaluate as evaluate
from spdelaw.evaluation.scores import gaussian_crps as gaussian_crps
from spdelaw.evaluation.tasks import decoder_floor as decoder_floor
from spdelaw.evaluation.tasks import law_distance as law_distance
