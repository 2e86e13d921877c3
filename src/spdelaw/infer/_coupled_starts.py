"""Where the search for a drift matrix starts: the lag covariances of a linear inverse model.

Over steps of one length tau, ``F = C(tau) C(0)^-1`` and ``Lambda = -log(F) / tau`` (Penland
1989). On complete, noise-free data with equal steps, given the first state of each path, this is
the maximum of the likelihood itself. Noise in the coefficients is taken out of ``C(0)`` as well
as it is known.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import distinct_steps
from spdelaw.infer._starts import Rough
from spdelaw.model import Collapsed, Statistics

Array = np.ndarray

#: Least correlation over a step, and least decay over the record, of a mode at the start.
LEAST_FACTOR, LEAST_DECAY = 1e-3, 0.05
#: Angle from which on a mode that seems to turn by half a circle a step does not turn.
HALF_TURN = 0.9 * np.pi
#: Least eigenvalue of a starting noise covariance, relative to its diagonal.
LEAST_NOISE = 1e-3
#: Pairs of complete rows for each mode that lag covariances need.
PAIRS = 5


class CoupledRough(Rough):
    """Rough estimates of coupled modes: ``drift`` and ``noise_covariance``, (N, N) each."""

    def __init__(self, rough: Rough, drift: Array, noise_covariance: Array) -> None:
        super().__init__(rough.eigenvalues, rough.noise_variance, rough.noise, rough.energy)
        self.drift, self.noise_covariance = drift, noise_covariance


def coupled_from_statistics(s: Statistics, rough: Rough, diagonal_drift: bool) -> CoupledRough:
    """Start from complete, noise-free paths: steps of the length that occurs most."""
    sums = s.pairs
    if sums is None:
        return _uncoupled(rough)
    u = int(sums.n_steps.argmax())
    moments = (sums.before[u], sums.cross[u], sums.after[u])
    span = float(np.ptp(s.times))
    return _start(rough, moments, sums.n_steps[u], sums.lengths[u], span, diagonal_drift)


def coupled_from_estimates(
    collapsed: Collapsed, rough: Rough, diagonal_drift: bool
) -> CoupledRough:
    """Start from least-squares coefficients of rows that determine them all."""
    n = collapsed.n_modes
    pairs = [_pairs(block.estimate, block.gram, block.times) for block in collapsed.blocks]
    now, then, dt = (np.concatenate(part, axis=-1) for part in zip(*pairs, strict=True))
    if dt.size < PAIRS * n:
        return _uncoupled(rough)
    lengths, which = distinct_steps(dt)
    common = np.bincount(which).argmax()
    close = np.abs(dt - lengths[common]) <= 0.05 * lengths[common]
    if close.sum() < PAIRS * n:
        return _uncoupled(rough)
    now, then = now[:, close], then[:, close]
    noise = close.sum() * np.diag(np.minimum(rough.noise, 0.8 * np.mean(now**2, axis=1)))
    moments = (now @ now.T - noise, now @ then.T, then @ then.T - noise)
    span = max(float(np.ptp(block.times, axis=0).max()) for block in collapsed.blocks)
    return _start(rough, moments, close.sum(), lengths[common], span, diagonal_drift)


def _uncoupled(rough: Rough) -> CoupledRough:
    return CoupledRough(rough, np.diag(rough.eigenvalues), np.diag(rough.noise_variance))


def _pairs(estimate: Array, gram: Array, times: Array) -> tuple[Array, Array, Array]:
    """Estimates at both ends of a step, (N, pairs) each, and its length, (pairs,)."""
    diagonal = gram if gram.ndim == 3 else np.einsum("tiib->tib", gram)
    usable = np.zeros(diagonal[:, 0].shape, bool)
    if (diagonal > 0).any():
        usable = (diagonal > 0.2 * np.median(diagonal[diagonal > 0])).all(1)
    usable = np.broadcast_to(usable, estimate[:, 0].shape)
    both = usable[:-1] & usable[1:]
    dt = np.broadcast_to(np.diff(times, axis=0), both.shape)
    at = np.moveaxis(estimate, 1, 0)
    return at[:, :-1][:, both], at[:, 1:][:, both], dt[both]


def _start(
    rough: Rough, moments: tuple[Array, Array, Array], count: float, dt: float, span: float,
    diagonal_drift: bool,
) -> CoupledRough:  # fmt: skip
    before, cross, after = (m / count for m in moments)
    if diagonal_drift:
        drift = np.diag(rough.eigenvalues)
    else:
        found = _drift(_positive(before), cross, dt, span)
        if found is None:
            return _uncoupled(rough)
        drift = found
    from scipy import linalg

    f = linalg.expm(-dt * drift)
    carried = f @ cross
    omega = after - carried - carried.T + f @ before @ f.T
    # Q that gives this covariance of a step: the stationary P = F P F' + Omega.
    p = linalg.solve_discrete_lyapunov(f, 0.5 * (omega + omega.T))
    q = drift @ p
    return CoupledRough(rough, drift, _positive(q + q.T, rough.noise_variance))


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
