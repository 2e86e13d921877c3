"""How much a mean gains by chance where modes are coupled.

The likelihood-ratio statistic of an intercept in a vector autoregression,

    D = n log(|S_0| / |S_1|),    S_0 of c' - F c,    S_1 of c' - a - F c,

has heavier tails than chi-square: every row of F is estimated (Wilks' law for a fixed design), and
coupled states have slow directions. So D is simulated with F estimated in each draw as it was in
the fit: the entries that the law couples, noise independent or not. Estimates are faster than the
truth; the draws around one say by how much, and those of the law that is slower by as much count as
well (Kilian 1998).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import scipy

from spdelaw.equation import operators
from spdelaw.model import StateSpace

Array = np.ndarray

#: Most and fewest draws, and values of all draws together that are multiplied by one another.
DRAWS, FEWEST, WORK = 1999, 150, 4e8
#: Most paths, and most steps for each mode; more of either bring D closer to Wilks' law.
MOST_PATHS, STEPS = 8, 30
#: Fewest steps for each mode that F is estimated from.
FEWEST_STEPS = 3
#: Numbers held at once.
AT_ONCE = 4e6
SEED = 20


def coupled_upper_point(
    space: StateSpace, span: float, n_steps: int, n_paths: int, level: float
) -> float:
    """What D exceeds at the rate ``level`` without a mean; arguments as of `upper_point`."""
    n, linear, initial = space.n_modes, space.linear, space.initial
    paths, steps = min(n_paths, MOST_PATHS), min(n_steps, STEPS * n)
    if steps * paths < FEWEST_STEPS * n:
        return _wilks(n, n_steps * n_paths, level)
    one = linear.over(np.array([span / steps]), np.zeros(1))
    factor, *covariances = map(
        operators.as_matrix, (one.factor[0], initial.covariance, one.covariance[0])
    )
    first = functools.partial(_paths, initial.mean, *map(operators.root, covariances))
    free = (operators.as_matrix(linear.drift) != 0) | np.eye(n, dtype=bool)
    how = (first, (steps, paths), free, linear.noise.ndim == 2)
    more = _wilks(n, n_steps * n_paths, level) / _wilks(n, steps * paths, level)
    gains, found = _draws(factor, *how)
    slower, _ = _draws(_unbiased(factor, found), *how)
    return more * max(_upper(gains, level), _upper(slower, level))


def _draws(
    factor: Array, paths: Callable, shape: tuple[int, int], free: Array, correlated: bool
) -> tuple[Array, Array]:
    """Draws of D, and the mean of the estimates of F.

    Args:
        factor: F of the law that is drawn from, (N, N).
        paths: draws them.
        shape: steps and paths of a draw.
        free: entries of F that are estimated, (N, N).
        correlated: whether the noise is.
    """
    n, size = len(factor), shape[0] * shape[1]
    total = int(np.clip(WORK / (size * n**2), FEWEST, DRAWS))
    some = int(np.clip(AT_ONCE / (size * n), 1, total))
    generator, gains, factors = np.random.default_rng(SEED), [], np.zeros((n, n))
    for first in range(0, total, some):
        noise = generator.standard_normal((min(some, total - first), shape[0] + 1, shape[1], n))
        c = paths(factor, noise)
        x, y = (part.reshape(len(c), -1, n) for part in (c[:, :-1], c[:, 1:]))
        xx, xy, yy = _sums(x, y, c[:, 0], c[:, -1])
        by_zero, found = _residuals(xx, xy, yy, free)
        x, y = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
        less = [size * np.swapaxes(a, 1, 2) @ b for a, b in ((x, x), (x, y), (y, y))]
        by_mean = _residuals(xx - less[0], xy - less[1], yy - less[2], free)[0]
        gains.append(size * (_log_size(by_zero, correlated) - _log_size(by_mean, correlated)))
        factors += found.sum(0) / total
    return np.concatenate(gains), factors


def _paths(start: Array, spread: Array, root: Array, factor: Array, c: Array) -> Array:
    """States (draw, step, path, mode) of ``c' = F c + root e``, from numbers of unit variance."""
    c[:, 0] = start + c[:, 0] @ spread.T
    c[:, 1:] = c[:, 1:] @ root.T
    for t in range(c.shape[1] - 1):
        c[:, t + 1] += c[:, t] @ factor.T
    return c


def _sums(x: Array, y: Array, first: Array, last: Array) -> tuple[Array, Array, Array]:
    """Sums of ``x x'``, ``x y'`` and ``y y'``; all states but the ends are in both."""
    before, across, start, end = (
        np.swapaxes(a, 1, 2) @ b for a, b in ((x, x), (x, y), (first, first), (last, last))
    )
    return before, across, before - start + end


def _residuals(xx: Array, xy: Array, yy: Array, free: Array) -> tuple[Array, Array]:
    """Sums of products of what regressions on free entries leave, and the entries.

    ``sum (y - F x)(y - F x)' = yy - F xy - (F xy)' + F xx F'`` from sums of products.
    """
    if free.all():
        factor = np.linalg.solve(xx, xy)
    else:
        factor = np.zeros(xx.shape)
        for i, own in enumerate(free):
            factor[:, own, i] = np.linalg.solve(xx[:, own][:, :, own], xy[:, own, i, None])[..., 0]
    turned = np.swapaxes(factor, 1, 2)
    crossed = turned @ xy
    left = yy - crossed - np.swapaxes(crossed, 1, 2) + turned @ xx @ factor
    return left, turned


def _log_size(products: Array, correlated: bool) -> Array:
    if correlated:
        return np.asarray(np.linalg.slogdet(products)[1])
    return np.asarray(np.log(np.einsum("dii->di", products)).sum(1))


def _unbiased(factor: Array, found: Array) -> Array:
    """``F - (mean of estimates - F)``, as much of it as leaves the law stable."""
    for share in np.linspace(1.0, 0.0, 21):
        out = factor - share * (found - factor)
        if np.abs(np.linalg.eigvals(out)).max() < 1.0:
            return np.asarray(out)
    return factor


def _upper(gains: Array, level: float) -> float:
    """Point that a gamma law with the moments of the draws exceeds at a rate."""
    mean, variance = float(gains.mean()), float(gains.var())
    return float(scipy.special.gammainccinv(mean**2 / variance, level)) * variance / mean


def _wilks(n_modes: int, size: int, level: float) -> float:
    """The same of ``size log(1 + N / (size - 2 N) F)``, D for a fixed design and free noise."""
    left = max(size - 2 * n_modes, 1)
    f = scipy.special.fdtri(n_modes, left, 1.0 - level)
    return float(size * np.log1p(n_modes / left * f))
