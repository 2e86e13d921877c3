"""Errors of a predictive distribution of paths.

All take arrays (path, time, x) in which NaN marks what is not scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    scale = float(np.sqrt(np.nanmean(truth**2)))
    return total([score_sums(mean, std, truth, level, scale)])[3]


#: Deviations below this share of the size of the data are rounding: the value was known.
KNOWN = 1e-7


class Sums(NamedTuple):
    """What scores are made of, for some times of the same paths.

    Attributes:
        error, norm: sums of squared errors and of squares of what is scored, per path (P,).
        n_scored: scored values.
        crps: sum of the continuous ranked probability scores.
        inside, uncertain: values inside their interval, of those that have one.
    """

    error: Array
    norm: Array
    n_scored: int
    crps: float = np.nan
    inside: float = np.nan
    uncertain: float = np.nan


def error_sums(mean: Array, truth: Array) -> Sums:
    """Sums for a prediction without a distribution."""
    scored = ~(np.isnan(mean) | np.isnan(truth))
    error = np.nansum((mean - truth) ** 2, axis=(1, 2))
    norm = np.where(scored, truth, 0.0)
    return Sums(error, (norm**2).sum((1, 2)), int(scored.sum()))


def score_sums(mean: Array, std: Array, truth: Array, level: float, scale: float) -> Sums:
    """Sums for a Gaussian prediction; ``scale`` is the size of the data."""
    uncertain = (std > KNOWN * scale) & ~np.isnan(truth) & ~np.isnan(mean)
    half = scipy.special.ndtri(0.5 + 0.5 * level) * std
    inside = uncertain & (np.abs(truth - mean) <= half)
    return error_sums(mean, truth)._replace(
        crps=float(np.nansum(gaussian_crps(mean, std, truth))),
        inside=float(inside.sum()),
        uncertain=float(uncertain.sum()),
    )


def total(parts: Sequence[Sums]) -> tuple[float, float, float, float]:
    """Relative L2 (mean over paths), RMSE, CRPS and coverage of all parts together.

    ``mean over paths of |X_hat - X| / |X|``, then root mean square error pooled over everything.
    """
    columns = list(zip(*parts, strict=True))
    error, norm = (np.sum(column, axis=0) for column in columns[:2])
    n_scored, crps, inside, uncertain = (float(sum(column)) for column in columns[2:])
    kept = norm > 0
    relative = float(np.sqrt(error[kept] / norm[kept]).mean()) if kept.any() else float("nan")
    covered = inside / uncertain if uncertain else float("nan")
    if not n_scored:
        return relative, float("nan"), float("nan"), covered
    return relative, float(np.sqrt(error.sum() / n_scored)), crps / n_scored, covered
