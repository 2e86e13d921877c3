"""Semilinear laws: the terms beyond the linear drift, from fields alone."""

from spdelaw.infer.semilinear._complete import fit_complete, fit_transitions
from spdelaw.infer.semilinear._discover import (
    Discovery,
    discover,
    discover_complete,
    discover_filtered,
)
from spdelaw.infer.semilinear._filtered import fit_filtered
from spdelaw.infer.semilinear._layout import Layout, layout
from spdelaw.infer.semilinear._result import SemilinearFit

__all__ = [
    "Discovery",
    "Layout",
    "SemilinearFit",
    "discover",
    "discover_complete",
    "discover_filtered",
    "fit_complete",
    "fit_filtered",
    "fit_transitions",
    "layout",
]
