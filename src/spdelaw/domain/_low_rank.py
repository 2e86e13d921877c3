"""Leading singular vectors of a large matrix, with or without gaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.errors import ConvergenceError

Array = np.ndarray

#: Extra directions, and passes over the matrix, of the randomised method.
OVERSAMPLING, PASSES = 12, 4
#: Relative change of the filled values at which iterations stop, and the most of them.
TOLERANCE, MOST_ROUNDS = 1e-6, 500


class LowRank(NamedTuple):
    """``X ~ U diag(values) V'``: singular values (r,) and right vectors (M, r)."""

    values: Array
    right: Array


def randomised_svd(x: Array, rank: int, generator: np.random.Generator) -> LowRank:
    """Leading right singular vectors by a random range finder with power iterations.

    Halko, Martinsson and Tropp (2011), algorithms 4.4 and 5.1: the error of each singular value
    falls by the square of the spectral gap in every pass.
    """
    width = min(rank + OVERSAMPLING, *x.shape)
    q = np.linalg.qr(x.T @ generator.standard_normal((len(x), width)))[0]
    for _ in range(PASSES):
        q = np.linalg.qr(x.T @ np.linalg.qr(x @ q)[0])[0]
    _, s, v = np.linalg.svd(x @ q, full_matrices=False)
    return LowRank(s[:rank], (q @ v.T)[:, :rank])


def fill_and_factor(x: Array, rank: int, generator: np.random.Generator) -> LowRank:
    """The same where NaN marks gaps: each gap is filled by the low-rank fit of the rest.

    Rounds of filling and factoring raise the likelihood of a rank-r matrix in white noise at
    the known entries (this is expectation-maximisation); they stop where no gap changes.
    """
    gaps = np.isnan(x)
    if not gaps.any():
        return randomised_svd(x, rank, generator)
    filled = np.where(gaps, 0.0, x)
    scale = np.sqrt(np.mean(filled[~gaps] ** 2))
    change = np.inf
    for _ in range(MOST_ROUNDS):
        found = randomised_svd(filled, rank, generator)
        fit = (filled @ found.right) @ found.right.T
        change = float(np.sqrt(np.mean((fit[gaps] - filled[gaps]) ** 2)))
        filled[gaps] = fit[gaps]
        if change <= TOLERANCE * scale:
            return found
    raise ConvergenceError(
        "Empirical", expected=f"gaps filled to {TOLERANCE:g} in {MOST_ROUNDS} rounds",
        got=f"a change of {change / scale:.1e}", fix="ask for fewer modes, or drop empty rows",
    )  # fmt: skip
