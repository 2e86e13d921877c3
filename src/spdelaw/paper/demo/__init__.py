"""The demonstration: both regimes learned back from paths, engines compared, laws put to use."""

from spdelaw.paper.demo._engines import (
    MOST_PATHS,
    N_TIME,
    Compared,
    compare_engines,
    draw_engines,
    engines_document,
)
from spdelaw.paper.demo._laws import (
    N_MODES,
    NOISE,
    SPECTRA,
    Learned,
    Used,
    determined,
    draw_law,
    fill_gaps,
    learn,
    learn_hard_case,
    learned_document,
    look_ahead,
    write_page,
)

__all__ = [
    "MOST_PATHS",
    "NOISE",
    "N_MODES",
    "N_TIME",
    "SPECTRA",
    "Compared",
    "Learned",
    "Used",
    "compare_engines",
    "determined",
    "draw_engines",
    "draw_law",
    "engines_document",
    "fill_gaps",
    "learn",
    "learn_hard_case",
    "learned_document",
    "look_ahead",
    "write_page",
]
