"""Do forecast bands hold what they say? Errors of windows of 1, 4 and 16 steps.

The error of an h-step forecast of a mode is ``sum_j a^(h-1-j) e_j`` of its one-step errors, which
for windows side by side are independent and, in units of their deviation, standard normal. So the
number inside a band of level p is binomial. An estimated law moves it by
``n q f(q) dlog v / dtheta`` at the edge q of the band, with v the variance of the windows: the
number is then taken as beta-binomial, with the variance that this adds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.evaluation._allowance import Uncertainty
from spdelaw.evaluation._one_step import Errors

Array = np.ndarray

LEVELS = (0.5, 0.8, 0.95)
STEPS = (1, 4, 16)
#: Fewest windows, and fewest steps of the training data for each step of a window.
FEWEST, TRAIN = 40, 20


class Band(NamedTuple):
    """How many windows of ``steps`` a band of ``level`` held."""

    steps: int
    level: float
    share: float
    p_value: float

    def __str__(self) -> str:
        """In words."""
        ahead = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return f"{100 * self.level:g} % bands {ahead} ahead hold {100 * self.share:.0f} %"


def band_tests(errors: Errors, decay: Array, known: Uncertainty) -> list[Band]:
    """Shares inside bands at all horizons that the data have.

    Args:
        errors: one-step errors.
        decay: factor of each series over a step, (series,).
        known: about the parameters.
    """
    found, n_times = [], errors.z.shape[1]
    for steps in STEPS:
        if steps > 1 and (steps > n_times // 4 or steps * TRAIN > known.n_train):
            break
        w = windows(errors.z, decay, steps)
        change = errors.slopes - errors.z * errors.growth
        slopes = np.stack([windows(x, decay, steps, errors.z) for x in change] or [w[:0]])
        n = int((~np.isnan(w)).sum())
        if n < FEWEST:
            break
        moved, bias = _log_variance(w, slopes, known)
        found += [_band(w, n, steps, level, moved, bias) for level in LEVELS]
    return found


def windows(x: Array, decay: Array, steps: int, like: Array | None = None) -> Array:
    """Weighted sums over windows side by side, of unit variance for white x; (window, series).

    NaN where a step is missing, in ``like`` or in x itself.
    """
    n_windows = (x.shape[1] - 1) // steps
    last = 1 + n_windows * steps
    cut = x[:, 1:last].reshape(len(x), n_windows, steps, -1)
    weights = decay ** np.arange(steps - 1, -1, -1)[:, None]
    weights = weights / np.linalg.norm(weights, axis=0)
    total = (cut * weights).sum(2).reshape(-1, x.shape[-1])
    if like is None:
        return total
    return np.where(np.isnan(windows(like, decay, steps)), np.nan, total)


def _log_variance(w: Array, slopes: Array, known: Uncertainty) -> tuple[Array, float]:
    """How the mean over windows of half their log variance moves with the parameters.

    First order, (free,), and the mean of second order that uncertain parameters add.
    """
    seen = ~np.isnan(w)
    n = seen.sum(0)
    if known.roots is None:
        return np.full(1, np.sqrt(0.5 / known.n_train / max((n > 0).sum(), 1))), 0.0
    filled, x = np.where(seen, w, 0.0), np.where(seen, slopes, 0.0)
    slope = np.einsum("ws,jws->js", filled, x)
    second = np.einsum("iws,jws,isf,jsf->", x, x, known.roots, known.roots)
    return np.einsum("js,jsf->f", slope, known.roots) / n.sum(), 0.5 * float(second) / n.sum()


def _band(w: Array, n: int, steps: int, level: float, moved: Array, bias: float) -> Band:
    edge = float(scipy.special.ndtri(0.5 + 0.5 * level))
    inside = int((np.abs(w[~np.isnan(w)]) <= edge).sum())
    density = np.exp(-0.5 * edge**2) / np.sqrt(2.0 * np.pi)
    shift = (2.0 * edge * density) ** 2 * (float(moved @ moved) + bias**2)
    return Band(steps, level, inside / n, _beta_binomial(inside, n, level, shift))


def _beta_binomial(k: int, n: int, p: float, variance: float) -> float:
    """Two-sided p-value of k of n where the share itself has mean p and a variance."""
    from scipy import stats  # slow to import, and needed here only

    variance = min(variance, 0.5 * p * (1.0 - p))
    if variance < 1e-3 * p * (1.0 - p) / n:
        law = stats.binom(n, p)
    else:
        total = p * (1.0 - p) / variance - 1.0
        law = stats.betabinom(n, p * total, (1.0 - p) * total)
    return float(min(1.0, 2.0 * min(law.cdf(k), law.sf(k - 1))))
