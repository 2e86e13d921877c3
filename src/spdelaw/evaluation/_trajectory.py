"""Errors of a predictive distribution of paths.

All take arrays (path, time, x) in which NaN marks what is not scored.
"""

from __future__ import annotations

import numpy as np
import scipy

Array = np.ndarray


def gaussian_crps(mean: Array, std: Array, truth: Array) -> Array:
    """Continuous ranked probability score of ``N(mean, std^2)``, in the unit of the field.

    ``s [ z (2 F(z) - 1) + 2 f(z) - 1/sqrt(pi) ]`` with ``z = (x - m)/s``; ``|x - m|`` for s = 0.
    """
    known = std <= 0
    s = np.where(known, 1.0, std)
    z = (truth - mean) / s
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    score = s * (z * (2 * scipy.special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return np.where(known, np.abs(truth - mean), score)


def coverage(mean: Array, std: Array, truth: Array, level: float = 0.95) -> float:
    """Share of values inside the central interval; points known beforehand do not count."""
    scale = np.sqrt(np.nanmean(truth**2))
    uncertain = (std > 1e-7 * scale) & ~np.isnan(truth) & ~np.isnan(mean)
    if not uncertain.any():
        return float("nan")
    half = scipy.special.ndtri(0.5 + 0.5 * level) * std
    return float((np.abs(truth - mean) <= half)[uncertain].mean())
