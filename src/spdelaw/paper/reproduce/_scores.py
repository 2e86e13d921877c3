"""Scores of predictions, with and without a distribution; the first time is left out."""

from __future__ import annotations

import numpy as np

from spdelaw.evaluation import coverage, gaussian_crps, relative_l2, rmse
from spdelaw.paper.reproduce._distribution import Distribution

Array = np.ndarray
#: Draws behind an energy score, and the step between times that enter it.
N_DRAWS, EVERY = 200, 4


def point_scores(predicted: Array, truth: Array) -> dict[str, float]:
    """Both errors of the paper; arrays (path, time, x)."""
    p, t = predicted[:, 1:], truth[:, 1:]
    return {"relative_l2": relative_l2(p, t), "rmse": rmse(p, t)}


def gaussian_scores(mean: Array, std: Array, truth: Array) -> dict[str, float]:
    """Errors, CRPS and 95 % coverage of pointwise normals; mean and std may lack paths."""
    mean = np.broadcast_to(mean, truth.shape)
    m, s, t = mean[:, 1:], np.broadcast_to(std, truth.shape)[:, 1:], truth[:, 1:]
    return {
        **point_scores(mean, truth),
        "crps": float(np.mean(gaussian_crps(m, s, t))),
        "coverage": coverage(m, s, t),
    }


def predictive_scores(law: Distribution, truth: Array, seed: int) -> dict[str, float]:
    """Scores of a law that has seen only where the paths start."""
    draws = law.draw(N_DRAWS, seed)
    return {**gaussian_scores(*law.field(), truth), "energy_score": energy_score(draws, truth)}


def energy_score(draws: Array, truth: Array) -> float:
    """``mean |X - y| - mean |X - X'| / 2`` over draws X, X' and paths y, per root of values.

    A proper score of whole paths (Gneiting and Raftery, 2007): it also sees whether values go
    together as they should. In the unit of the field; every fourth time enters.
    """
    x, y = (v[:, 1::EVERY].reshape(len(v), -1) for v in (draws, truth))
    n = len(x)
    between = _distances(x, y).mean()
    within = _distances(x, x).sum() / (n * (n - 1))
    return float((between - 0.5 * within) / np.sqrt(x.shape[1]))


def _distances(x: Array, y: Array) -> Array:
    square = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2.0 * x @ y.T
    return np.sqrt(np.maximum(square, 0.0))
