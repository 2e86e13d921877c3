"""What figures of other parts of the package are drawn with: sizes, style, weights of points.

Matplotlib is loaded by the functions that draw, not by this module.
"""

from spdelaw.report._estimates import spatial_weights
from spdelaw.report._style import COLUMN, GREY, figure_of, new_figure, save_figure, style

__all__ = ["COLUMN", "GREY", "figure_of", "new_figure", "save_figure", "spatial_weights", "style"]
