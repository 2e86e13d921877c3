"""Semilinear laws: the terms beyond the linear drift, from fields alone."""

from spdelaw.infer.semilinear._complete import SCHEMES, fit_complete, fit_transitions
from spdelaw.infer.semilinear._discover import check_library, select
from spdelaw.infer.semilinear._filtered import fit_filtered
from spdelaw.infer.semilinear._layout import NOISES, Layout, layout
from spdelaw.infer.semilinear._one_pass import fit_one_pass, residuals
from spdelaw.infer.semilinear._optimise import ALLOWED_SHIFT, FAST, coarse
from spdelaw.infer.semilinear._result import SemilinearFit

__all__ = [
    "ALLOWED_SHIFT",
    "FAST",
    "NOISES",
    "SCHEMES",
    "Layout",
    "SemilinearFit",
    "check_library",
    "coarse",
    "fit_complete",
    "fit_filtered",
    "fit_one_pass",
    "fit_transitions",
    "layout",
    "residuals",
    "select",
]
