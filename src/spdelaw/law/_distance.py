"""How far one set of fields is from another (paper, section 3.3)."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def relative_l2(prediction: Array, truth: Array) -> float:
    """``mean over paths of |X_hat - X| / |X|``, norms over times and points."""
    error = np.nansum((prediction - truth) ** 2, axis=(1, 2))
    scored = np.where(np.isnan(prediction), np.nan, truth)
    norm = np.nansum(scored**2, axis=(1, 2))
    kept = norm > 0
    return float(np.sqrt(error[kept] / norm[kept]).mean()) if kept.any() else float("nan")


def rmse(prediction: Array, truth: Array) -> float:
    """Root mean square error pooled over paths, times and points."""
    return float(np.sqrt(np.nanmean((prediction - truth) ** 2)))
