"""Where the search for a drift matrix starts: the lag covariances of a linear inverse model.

Over steps of one length tau, ``F = C(tau) C(0)^-1`` and ``Lambda = -log(F) / tau`` (Penland
1989). On complete, noise-free data with equal steps, given the first state of each path, this is
the maximum of the likelihood itself. Noise in the coefficients is taken out of ``C(0)`` as well
as it is known.
"""

from __future__ import annotations

import numpy as np
import scipy

from spdelaw.equation import distinct_steps, operators
from spdelaw.infer._moment_estimates import MomentEstimates, determined_rows
from spdelaw.model import Block, Collapsed, Statistics

Array = np.ndarray

#: Least correlation over a step, and least decay over the record, of a mode at the start.
LEAST_FACTOR, LEAST_DECAY = 1e-3, 0.05
#: Angle from which on a mode that seems to turn by half a circle per step does not turn.
HALF_TURN = 0.9 * np.pi
#: Least eigenvalue of a starting noise covariance, relative to its diagonal.
LEAST_NOISE = 1e-3
#: Paths whose mean is known well enough to be taken off them.
MANY_PATHS = 5
#: Pairs of complete rows for each mode that lag covariances need.
PAIRS = 5


def centred(block: Block) -> Block:
    """Coefficients less their mean over paths: what all paths share, such as a forcing, is gone.

    The response to a forcing needs the drift that is looked for. Blocks of few paths, or of paths
    with clocks of their own, stay as they are.
    """
    if block.times.shape[1] > 1 or len(block.paths) < MANY_PATHS:
        return block
    good = determined_rows(block)[:, None]
    count = good.sum(-1, keepdims=True)
    mean = np.where(good, block.estimate, 0.0).sum(-1, keepdims=True) / np.maximum(count, 1)
    return block._replace(estimate=block.estimate - mean)


def from_pair_sums(s: Statistics, moments: MomentEstimates, drift: bool = True) -> MomentEstimates:
    """Estimates from complete, noise-free paths: steps of the length that occurs most."""
    sums = s.pairs
    if sums is None:
        return moments
    u = int(sums.n_steps.argmax())
    products = tuple(m[u] / sums.n_steps[u] for m in (sums.before, sums.cross, sums.after))
    moments = moments._replace(spread=sums.first / s.n_paths)
    return _from_products(moments, products, sums.lengths[u], drift)


def from_coefficient_pairs(
    collapsed: Collapsed, moments: MomentEstimates, drift: bool = True, *, apart: bool = False
) -> MomentEstimates:
    """Estimates from least-squares coefficients of rows that determine them all.

    With ``apart`` each mode has its own, as if there were no others.
    """
    enough = PAIRS * collapsed.n_modes
    steps = np.concatenate(collapsed.over(_steps))
    if steps.size < enough:
        return moments
    lengths, which = distinct_steps(steps)
    common = lengths[np.bincount(which).argmax()]
    parts = collapsed.over(_products, common)
    before, cross, after, count = (sum(part) for part in zip(*parts, strict=True))
    if count < enough:
        return moments
    error = np.diag(np.minimum(moments.error, 0.8 * np.diag(before) / count))
    products = (before / count - error, cross / count, after / count - error)
    if not apart:
        return _from_products(moments, products, common, drift)
    alone = tuple(np.diag(np.diag(m)) for m in products)
    found = _from_products(moments, alone, common, drift)
    rates, noise = operators.diagonal(found.drift), operators.diagonal(found.noise)
    return found._replace(drift=rates, noise=noise)


def _steps(block: Block) -> Array:
    """Lengths of the steps between rows that determine all modes."""
    return _pairs(block)[2]


def _products(block: Block, common: float) -> tuple[Array, Array, Array, int]:
    """Sums of ``c_t c_t'``, ``c_t c_(t+1)'``, ``c_(t+1) c_(t+1)'`` over steps near one length."""
    now, then, dt = _pairs(block)
    close = np.abs(dt - common) <= 0.05 * common
    now, then = now[:, close], then[:, close]
    return now @ now.T, now @ then.T, then @ then.T, int(close.sum())


def _pairs(block: Block) -> tuple[Array, Array, Array]:
    """Estimates at both ends of a step, (N, pairs) each, and its length, (pairs,)."""
    usable = determined_rows(block)
    both = usable[:-1] & usable[1:]
    dt = np.broadcast_to(np.diff(block.times, axis=0), both.shape)
    at = np.moveaxis(block.estimate, 1, 0)
    return at[:, :-1][:, both], at[:, 1:][:, both], dt[both]


def _from_products(
    moments: MomentEstimates, products: tuple[Array, ...], dt: float, ask_drift: bool
) -> MomentEstimates:
    """From means of ``c_t c_t'``, ``c_t c_(t+1)'`` and ``c_(t+1) c_(t+1)'`` over equal steps."""
    before, cross, after = products
    drift: Array | None = moments.drift
    if ask_drift:
        drift = _drift(_positive(before), cross, dt, moments.span)
    if drift is None:
        return moments
    a = operators.as_matrix(drift)
    f = scipy.linalg.expm(-dt * a)
    carried = f @ cross
    omega = after - carried - carried.T + f @ before @ f.T
    # Q that gives this covariance of a step: the stationary P = F P F' + Omega.
    p = scipy.linalg.solve_discrete_lyapunov(f, 0.5 * (omega + omega.T))
    q = a @ p
    return moments._replace(drift=drift, noise=_positive(q + q.T, moments.noise))


def _drift(before: Array, cross: Array, dt: float, span: float) -> Array | None:
    """``-log(C(dt) C(0)^-1) / dt``, its modes kept decaying; None where it has no logarithm."""
    f = np.linalg.solve(before, cross).T
    values, vectors = np.linalg.eig(f)
    if np.linalg.cond(vectors) > 1e8:
        return None
    size = np.clip(np.abs(values), LEAST_FACTOR, np.exp(-LEAST_DECAY * dt / span))
    angle = np.where(np.abs(np.angle(values)) > HALF_TURN, 0.0, np.angle(values))
    rates = -(np.log(size) + 1j * angle) / dt
    return np.real(vectors @ np.diag(rates) @ np.linalg.inv(vectors))


def _positive(matrix: Array, least: Array | None = None) -> Array:
    """The nearest symmetric matrix whose eigenvalues, in units of its diagonal, are positive."""
    own = np.diag(matrix)
    if least is None:
        least = np.abs(own).max() * np.ones(len(own))
    d = np.sqrt(np.maximum(own, LEAST_NOISE * least))
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T) / np.outer(d, d))
    values = np.maximum(values, LEAST_NOISE)
    return np.outer(d, d) * ((vectors * values) @ vectors.T)
