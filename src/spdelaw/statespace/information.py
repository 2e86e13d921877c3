"""Information on the parameters: expected, and observed by Louis' identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.processes import operators
from spdelaw.processes.linear import Transition
from spdelaw.statespace.chain import Prior, StateSpace, chain_of, chain_prior
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.likelihood import Evaluation, density, score
from spdelaw.statespace.posterior import (
    ChainSolution,
    Posterior,
    is_shared,
    posterior,
    solve_shared,
    solve_tridiagonal,
)

# ---------- Expected information of a coupled, stationary law
#
# Least-squares coefficients observed at equal steps with the Gram matrix ``G`` have the spectral
# density
#
#     f(w) = H Omega H* + r G^-1,    H = (1 - F z)^-1,  z = e^(-i w),
#
# and T of them, with ``df`` the derivative of f along a direction, the information (Whittle 1953)
#
#     I_jk = T / (4 pi) int tr(f^-1 df_j f^-1 df_k) dw.
#
# Along ``dF`` and ``dOmega`` every trace is a product of two matrices of f, so that all pairs of
# entries are a few products of (N^2, frequencies) matrices. The chain rule from ``Lambda, Q`` to
# ``F, Omega`` is a division in the eigenvectors of the drift. Without observation noise the
# integrals are known, and with the sums of the data in place of their expectations the result is
# the exact curvature at the maximum over free drift and noise.


Array = np.ndarray

#: Frequencies between 0 and pi at which the integral is taken.
N_FREQUENCIES = 96
#: Largest condition number of the eigenvectors of a drift that the chain rule goes through.
MAX_CONDITION = 1e6
#: Directions along which a transition is differentiated at once.
DIRECTIONS_AT_ONCE = 32


class Tangents(NamedTuple):
    """A transition and its derivatives along p directions.

    Attributes:
        factor, covariance: ``F`` and ``Omega``, (N, N).
        by_factor: of F along the directions of the drift, which come first; (a, N, N).
        by_covariance: of Omega along all, (p, N, N).
    """

    factor: Array
    covariance: Array
    by_factor: Array
    by_covariance: Array


def tangents(space: StateSpace, by_drift: Array, by_noise: Array, dt: float) -> Tangents | None:
    """Transition over ``dt`` and its derivatives; None where eigenvectors are nearly parallel.

    Args:
        space: the law.
        by_drift: directions of the drift, (a, N, N).
        by_noise: those of the noise, (b, N, N).
        dt: length of the step.
    """
    a, q = (operators.as_matrix(x) for x in (space.linear.drift, space.linear.noise))
    rates, v = np.linalg.eig(a)
    if not np.linalg.cond(v) < MAX_CONDITION or not rates.real.min() > 0:
        return None
    w, n_drift = np.linalg.inv(v), len(by_drift)
    rate_sums = rates[:, None] + rates.conj()
    p = (w @ q @ w.conj().T) / rate_sums
    decay = np.exp(-rates * dt)
    kept = ((1.0 - decay[:, None] * decay.conj()) / rate_sums)[:, None]
    slopes, late = _divided_differences(rates, decay, dt)[:, None], p * decay.conj()
    by_factor = np.empty((n_drift, *a.shape))
    by_covariance = np.empty((n_drift + len(by_noise), *a.shape))
    for some in _direction_chunks(n_drift):
        turned = _sandwich(w, _swap_stack(by_drift[some]), v)
        by_f = turned * slopes
        by_p = kept * _hermitian(_multiply_stack(turned, p)) + _hermitian(
            _multiply_stack(by_f, late)
        )
        by_factor[some] = _swap_stack(_sandwich(v, by_f, w).real)
        by_covariance[:n_drift][some] = _swap_stack(_sandwich(v, by_p, v.conj().T).real)
    for some in _direction_chunks(len(by_noise)):
        by_p = kept * _sandwich(w, _swap_stack(by_noise[some]), w.conj().T)
        by_covariance[n_drift:][some] = _swap_stack(_sandwich(v, by_p, v.conj().T).real)
    step = space.linear.over(np.array([dt]))
    return Tangents(step.factor[0], step.covariance[0], by_factor, by_covariance)


def _direction_chunks(size: int) -> Iterator[slice]:
    """Directions that stay in the cache together."""
    return (
        slice(start, start + DIRECTIONS_AT_ONCE) for start in range(0, size, DIRECTIONS_AT_ONCE)
    )


def _hermitian(turned: Array) -> Array:
    """``-(A + A*)`` of each matrix of a turned stack."""
    return -(turned + np.swapaxes(turned, 0, 2).conj())


def _swap_stack(stack: Array) -> Array:
    """A stack (p, N, N) as (N, p, N), or back: products from both sides are one call each then."""
    return np.ascontiguousarray(np.swapaxes(stack, 0, 1))


def _multiply_stack(stack: Array, matrix: Array) -> Array:
    """``stack_k matrix`` as one product; thousands of small ones take several times as long."""
    rows = stack.reshape(-1, stack.shape[-1])
    if not (np.iscomplexobj(matrix) and np.isrealobj(rows)):
        return (rows @ matrix).reshape(stack.shape)
    out = np.empty(rows.shape, complex)
    out.real, out.imag = rows @ matrix.real, rows @ matrix.imag
    return out.reshape(stack.shape)


def _sandwich(left: Array, stack: Array, right: Array) -> Array:
    """``left stack_k right`` of a turned stack (N, p, N)."""
    return (left @ _multiply_stack(stack, right).reshape(len(left), -1)).reshape(stack.shape)


def _divided_differences(rates: Array, decay: Array, dt: float) -> Array:
    """``(e^(-a dt) - e^(-b dt)) / (a - b)`` of all pairs of rates, its limit of equal ones."""
    gap = rates[:, None] - rates
    close = np.abs(gap) * dt < 1e-6
    middle = -dt * np.exp(-0.5 * (rates[:, None] + rates) * dt)
    return np.where(close, middle, (decay[:, None] - decay) / np.where(close, 1.0, gap))


def complete_information(tangent: Tangents, n_steps: float, before: Array) -> Array:
    """Information of n complete, noise-free steps of one length; (p, p).

    ``tr(Omega^-1 dF S00 dF') + n/2 tr(Omega^-1 dOmega Omega^-1 dOmega)``, ``before`` being S00.
    """
    root = np.linalg.inv(np.linalg.cholesky(tangent.covariance))
    spread = np.linalg.cholesky(before)
    half = np.sqrt(0.5 * n_steps) * root
    information = _pair_products(_sandwich(half, _swap_stack(tangent.by_covariance), root.T))
    n_drift = len(tangent.by_factor)
    information[:n_drift, :n_drift] += _pair_products(
        _sandwich(root, _swap_stack(tangent.by_factor), spread)
    )
    return information


def _pair_products(stack: Array) -> Array:
    """Products of all pairs of matrices of a turned stack."""
    flat = _swap_stack(stack).reshape(stack.shape[1], -1)
    return flat @ flat.T


def expected_information(tangent: Tangents, error: Array, n_times: float) -> Array:
    """Information of stationary coefficients observed with noise; (p + 1, p + 1).

    Args:
        tangent: derivatives along the directions.
        error: covariance ``r G^-1`` of the noise in the coefficients, (N, N); the last direction
            is the logarithm of r.
        n_times: times of all paths together.
    """
    n = len(error)
    z = np.exp(-1j * np.pi * (np.arange(N_FREQUENCIES) + 0.5) / N_FREQUENCIES)[:, None, None]
    h = np.linalg.inv(np.eye(n) - z * tangent.factor)
    x = h @ tangent.covariance @ _adjoint(h)
    inverse = np.linalg.inv(x + error)
    left, signal_share = _adjoint(h) @ inverse, x @ inverse
    b, m, noise = left @ h, z * (signal_share @ h), inverse @ error
    through = error @ inverse @ h
    # By entries (a, b) and (c, d): z^2 M_bc M_da + B_ca W_bd, z B_da M_bc and B_da B_bc.
    ff = _pairs(m, m).transpose(3, 0, 1, 2) + _pairs(b, signal_share @ x).transpose(1, 2, 0, 3)
    fo, oo = _pairs(b, m).transpose(1, 2, 3, 0), _pairs(b, b).transpose(1, 2, 3, 0)
    fr, orr = (z * (signal_share @ through)).sum(0).real.T, (left @ through).sum(0).real.T
    rr = float(np.einsum("kij,kji->", noise, noise).real)
    by_f, by_o = _rows(tangent.by_factor), _rows(tangent.by_covariance)
    n_drift, n_all = len(by_f), len(by_o)
    information = np.zeros((n_all + 1, n_all + 1))
    information[:n_all, :n_all] = by_o @ oo.reshape(n * n, -1) @ by_o.T
    mixed = 2.0 * by_f @ fo.reshape(n * n, -1) @ by_o.T
    information[:n_drift, :n_all] += mixed
    information[:n_all, :n_drift] += mixed.T
    information[:n_drift, :n_drift] += 2.0 * by_f @ ff.reshape(n * n, -1) @ by_f.T
    information[:n_all, -1] = by_o @ orr.ravel()
    information[:n_drift, -1] += 2.0 * by_f @ fr.ravel()
    information[-1, :-1], information[-1, -1] = information[:-1, -1], rr
    return 0.5 * n_times / N_FREQUENCIES * information


def _adjoint(a: Array) -> Array:
    return np.swapaxes(a, 1, 2).conj()


def _rows(stack: Array) -> Array:
    return stack.reshape(len(stack), -1)


def _pairs(a: Array, b: Array) -> Array:
    """Real part of ``sum_k a_k[i, j] b_k[l, m]``; (N, N, N, N)."""
    one = np.concatenate([_rows(a.real), -_rows(a.imag)])
    two = np.concatenate([_rows(b.real), _rows(b.imag)])
    n = a.shape[1]
    return (one.T @ two).reshape(n, n, n, n)


# ---------- Observed information of independent modes, by Louis' identity
#
# With ``s`` the score of states and data together (Louis 1982),
#
#     -d2 log p(y) = E[-d2 log p(c, y) | y] - Cov(s | y).
#
# The first is a difference of the frozen score, which needs no elimination. For the second, ``s``
# is quadratic in the states: a direction a changes the precision of the chain by ``A_a`` and its
# vector by ``h_a``, and with ``Sigma`` and ``mu`` the moments of the states given the data
#
#     Cov(s_a, s_b) = 1/2 tr(A_a Sigma A_b Sigma) + g_a' Sigma g_b,    g_a = A_a mu - h_a.
#
# ``A`` of a drift, a noise or a first variance touches one mode and neighbouring times, so traces
# are sums of products of ``X_k[t] = Cov(c_t, c_{t+k} | y)`` over times and lags, and these die out:
# ``X_{k+1}[t] = J_t X_k[t+1]`` with J the gain of the smoother. The observation variance has ``A =
# K - P`` with P the whole precision and K the prior's, a sum over modes. So a few products of all
# blocks stand for two evaluations per number.


#: Relative size below which a lag is negligible, and the most lags that are worth it.
LAG_TOLERANCE, MOST_LAGS = 1e-11, 60
#: Numbers of one lag, columns of data and kinds of step up to which this is the cheaper way.
MOST_NUMBERS, MOST_COLUMNS, MOST_KINDS = 2e7, 8, 4
#: Relative step of the differences of the frozen score.
DIFFERENCE_STEP = 1e-4


class Directions(NamedTuple):
    """Derivatives of the prior by drift, noise and first variance of each mode; D = 3.

    Attributes:
        kind: which steps lead to and from a position, (T,).
        within: of the diagonal of the prior's precision, (D, N, kinds).
        between: of the off-diagonal blocks, (D, N, U).
        first: of the vector at the first free state, (D, N).
        by_mean: the same by the initial mean, (N,).
    """

    kind: Array
    within: Array
    between: Array
    first: Array
    by_mean: Array


def observed_information(
    collapsed: Collapsed, state_space: StateSpace, use_misfit: bool = True
) -> Array | None:
    """``-d2 log p`` by drift, noise, first variance and mean of modes, and r; (4 N + 1, 4 N + 1).

    None where differences are the better way: modes that the data do not couple or that the law
    couples, many patterns, lags that do not decay.
    """
    if not _is_supported(collapsed, state_space):
        return None
    total = np.zeros((4 * state_space.n_modes + 1,) * 2)
    for block in collapsed.blocks:
        try:
            block_information = _block_information(block, state_space, use_misfit)
        except np.linalg.LinAlgError:
            return None
        if block_information is None:
            return None
        total += block_information
    return total if np.isfinite(total).all() else None


def _is_supported(collapsed: Collapsed, state_space: StateSpace) -> bool:
    linear = state_space.linear
    plain = state_space.is_diagonal and linear.season is None and not linear.is_driven
    if not plain or collapsed.executor.remote:
        return False
    return all(
        block.gram.ndim == 4
        and block.gram.shape[-1] == block.times.shape[-1] == 1
        and block.gram.size <= MOST_NUMBERS
        and block.vector.shape[-1] <= MOST_COLUMNS
        for block in collapsed.blocks
    )


def _block_information(block: Block, space: StateSpace, use_misfit: bool) -> Array | None:
    r, (_, gram, vector, prior) = float(space.observation_variance), chain_of(block, space)
    if prior.factor.shape[-1] > MOST_KINDS or not is_shared(block.gram, prior):
        return None
    chain = solve_shared(gram, vector, prior.scaled(r), crosses=True)
    post = posterior(gram, vector, prior.scaled(r), len(block.paths)).scaled(r)
    covariance = _score_covariance(block, space, prior, chain)
    if covariance is None:
        return None
    information = _complete_score_information(block, space, post, use_misfit) - covariance
    mean = slice(3 * space.n_modes, 4 * space.n_modes)  # there the likelihood is quadratic
    information[mean, mean] = score(block, space, prior, post, use_misfit).initial_information
    return information


# -- the complete part ------------------------------------------------------------------------
def _complete_score_information(
    block: Block, space: StateSpace, post: Posterior, use_misfit: bool
) -> Array:
    """``-d2`` of the expected complete log-likelihood, in which only r couples the modes."""
    n, initial, r = space.n_modes, space.initial, float(space.observation_variance)
    at = [space.linear.drift, space.linear.noise, initial.covariance, initial.mean]

    def slope(numbers: list[Array], variance: float) -> Array:
        drift, noise, spread, mean = numbers
        linear = type(space.linear)(drift, noise)
        moved = StateSpace(
            linear, initial._replace(mean=mean, covariance=spread), np.asarray(variance)
        )
        frozen = post._replace(gram_trace=post.gram_trace * r / variance)
        return _flat_score(score(block, moved, chain_prior(moved, block.times), frozen, use_misfit))

    information, index = np.zeros((4 * n + 1,) * 2), np.arange(n)
    for i, value in enumerate(at):
        h = DIFFERENCE_STEP * (np.abs(value) + (i == 3) * np.sqrt(np.abs(at[1] / at[0])))
        ends = [slope([*at[:i], value + sign * h, *at[i + 1 :]], r) for sign in (-1.0, 1.0)]
        by = np.divide(ends[0] - ends[1], 2.0 * np.tile(np.maximum(h, 1e-300), 5)[: 4 * n + 1])
        for j in range(4):
            information[j * n + index, i * n + index] = by[j * n + index]
    ends = [slope(at, r * (1.0 + sign * DIFFERENCE_STEP)) for sign in (-1.0, 1.0)]
    information[-1] = information[:, -1] = (ends[0] - ends[1]) / (2.0 * DIFFERENCE_STEP * r)
    # In closed form, less the number of states in `_score_covariance`: the two nearly cancel.
    count = density(block, use_misfit)[1].sum() - len(block.paths) * len(post.mean) * n
    information[-1, -1] = 2.0 * slope(at, r)[-1] / r + 0.5 * count / r**2
    return 0.5 * (information + information.T)


def _flat_score(evaluation: Evaluation) -> Array:
    """Gradients in the order of `observed_information`."""
    _, drift, noise, mean, spread, r, *_ = evaluation
    return np.hstack([drift, noise, spread, mean, r])


# -- covariance of the complete score ---------------------------------------------------------
def _score_covariance(
    block: Block, space: StateSpace, prior: Prior, chain: ChainSolution
) -> Array | None:
    """``Cov(s | y)``, without ``1 / (2 r^2)`` per state in the last entry.

    `_complete_score_information` has that term. Covariances in ``chain`` are in units of r.
    """
    n, r, n_paths = space.n_modes, float(space.observation_variance), len(block.paths)
    directions = _directions(space, prior)
    traces = _traces(r * chain.covariance, r * chain.cross, prior.free[:, 0], directions)
    if traces is None:
        return None
    # Directions that scale the whole prior of a mode stand for it: K = sum of -q dK/dq - v dK/dv.
    scale = np.concatenate([np.zeros(n), -space.linear.noise, -space.initial.covariance])
    by_prior = np.einsum("a,ab->b", scale, traces)
    within = _single_traces(r * chain.covariance, r * chain.cross, prior.free[:, 0], directions)
    mixed = (by_prior - within) / r
    alone = scale @ (by_prior - 2.0 * within) / r**2
    out, m = np.zeros((4 * n + 1,) * 2), 3 * n
    out[:m, :m], out[-1, -1] = 0.5 * n_paths * traces, 0.5 * n_paths * alone
    out[:m, -1] = out[-1, :m] = 0.5 * n_paths * mixed
    return out + _mean_covariance(block, prior, chain, directions, r)


def _directions(space: StateSpace, prior: Prior) -> Directions:
    """By drift, noise and first variance."""
    step, which, w = prior.transition, prior.free[:, 0], prior.weight
    f, zero = prior.factor, np.zeros_like(prior.factor)
    n_kinds, initial = f.shape[-1], space.initial
    slopes = _transition_slopes(step, len(initial.mean))
    by_f = np.stack([slopes[0].T, zero, zero])
    by_w = -(w**2) * np.stack([slopes[1].T, slopes[2].T, zero])
    by_pull, by_d = f**2 * by_w + 2.0 * f * w * by_f, f * by_w + w * by_f
    if prior.n_fixed:
        u = int(prior.which[0, 0])
        start, first = by_w[..., u], by_d[..., u] * initial.mean
        by_mean = prior.coupling[:, u]
    else:
        start = np.zeros((3, len(initial.mean)))
        start[2] = -1.0 / initial.covariance**2
        first, by_mean = start * initial.mean, prior.precision[:, 0]
    # Kinds of position: before it a step or the start, after it a step or the end.
    before, after = np.append(n_kinds, which), np.append(which, n_kinds)
    pairs, kind = np.unique(np.stack([before, after], 1), axis=0, return_inverse=True)
    entering = np.concatenate([by_w, start[..., None]], -1)
    leaving = np.concatenate([by_pull, np.zeros((*start.shape, 1))], -1)
    within = entering[..., pairs[:, 0]] + leaving[..., pairs[:, 1]]
    return Directions(kind.reshape(-1), within, -by_d, first, by_mean)


def _transition_slopes(step: Transition, n_modes: int) -> tuple[Array, Array, Array]:
    """``dF / d lambda``, ``dOmega / d lambda`` and ``dOmega / dq``; (U, N) each."""
    n_kinds = len(step.factor)
    out = np.empty((3, n_kinds, n_modes))
    for u in range(n_kinds):
        one, none = np.zeros((n_kinds, n_modes)), np.zeros((n_kinds, n_modes))
        one[u] = 1.0
        out[0, u] = step.pull_back(one, none)[0]
        out[1, u], out[2, u] = step.pull_back(none, one)[:2]
    return out[0], out[1], out[2]


def _traces(covariance: Array, cross: Array, which: Array, directions: Directions) -> Array | None:
    """``tr(A_a Sigma A_b Sigma)`` of all pairs; (3 N, 3 N), or None where lags do not decay."""
    gain = np.swapaxes(np.linalg.solve(covariance[1:], np.swapaxes(cross, 1, 2)), 1, 2)
    last, now, then = np.swapaxes(cross, 1, 2), covariance, cross
    total, sizes = np.zeros((3, 3, *covariance.shape[1:])), list[float]()
    for k in range(len(covariance)):
        lag_traces = _traces_at_lag(k, last, now, then, which, directions)
        total += lag_traces if k == 0 else lag_traces + lag_traces.transpose(1, 0, 3, 2)
        diagonal = np.sqrt(np.einsum("aaii->ai", total).clip(1e-300))
        sizes.append(
            float((np.abs(lag_traces) / np.einsum("ai,bj->abij", diagonal, diagonal)).max())
        )
        if sizes[-1] < LAG_TOLERANCE or len(then) == 0:
            break
        if k >= MOST_LAGS or (k >= 8 and _lags_left(sizes) > MOST_LAGS - k):
            return None
        last, now, then = now[1:], then, gain[: len(then) - 1] @ then[1:]
    n = covariance.shape[1]
    return total.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)


def _lags_left(sizes: list[float]) -> float:
    """Lags until they are negligible, at the rate of the last four."""
    rate = np.log(sizes[-1] / sizes[-5]) / 4.0
    return float(np.log(LAG_TOLERANCE / sizes[-1]) / rate) if rate < 0 else np.inf


def _traces_at_lag(
    k: int, last: Array, now: Array, then: Array, which: Array, directions: Directions
) -> Array:
    """Contribution of all positions t and t + k, ``(a, b, i, j)`` with a, i at t.

    ``last``, ``now`` and ``then`` are ``X_{k-1}`` from the second time on, ``X_k`` and ``X_{k+1}``.
    """
    within, between, size = directions.within, directions.between, len(now)
    here, there = directions.kind[:size], directions.kind[k:]
    total = _weighted(now * now, here, there, within, within)
    if n := len(then):  # b between t + k and the next
        step = which[k:]
        total += 2.0 * _weighted(now[:n] * then, here[:n], step, within, between)
        products = now[:n] * now[1:] + then * last[:n]
        total += 2.0 * _weighted(products, which[:n], step, between, between)
    if n := len(last):  # a between t and the next
        total += 2.0 * _weighted(now[:n] * last, which[:n], there[:n], between, within)
    return total


def _weighted(products: Array, left: Array, right: Array, a: Array, b: Array) -> Array:
    """``sum_t a[left_t] b[right_t] products_t``, summed over times of equal kinds first."""
    pairs, which = np.unique(left * b.shape[-1] + right, return_inverse=True)
    rows = np.equal.outer(np.arange(len(pairs)), which.reshape(-1)).astype(float)
    sums = (rows @ products.reshape(len(products), -1)).reshape(-1, *products.shape[1:])
    one, two = a[..., pairs // b.shape[-1]], b[..., pairs % b.shape[-1]]
    return np.einsum("aiu,bju,uij->abij", one, two, sums, optimize=True)


def _single_traces(covariance: Array, cross: Array, which: Array, directions: Directions) -> Array:
    """``tr(A_a Sigma)``; (3 N,)."""
    variance, lag = (np.einsum("tii->ti", x) for x in (covariance, cross))
    traces = np.einsum("ait,ti->ai", directions.within[..., directions.kind], variance)
    return (traces + 2.0 * np.einsum("ait,ti->ai", directions.between[..., which], lag)).ravel()


def _mean_covariance(
    block: Block, prior: Prior, chain: ChainSolution, directions: Directions, r: float
) -> Array:
    """``g_a' Sigma g_b`` of all directions, summed over columns; (4 N + 1, 4 N + 1)."""
    n, which, start = chain.mean.shape[1], prior.free[:, 0], prior.n_fixed
    gram, index, kinds = block.gram[start:, ..., 0], np.arange(n), range(2 if start else 3)
    prior_blocks, d = (
        prior.scaled(r).diagonal_blocks()[..., 0],
        np.moveaxis(r * prior.coupling, -1, 0),
    )
    out = np.zeros((4 * n + 1,) * 2)
    for p, mu in enumerate(np.moveaxis(chain.mean, -1, 0)):
        pulls = [_pull(directions, a, which, mu) for a in kinds]
        noise = ((gram @ mu[..., None])[..., 0] - block.vector[start:, :, p]) / -(r**2)
        for b in (*kinds, 3):
            right = np.zeros((*mu.shape, n + (b == 3)))
            if b == 3:
                right[0, index, index], right[..., -1] = -directions.by_mean, noise
            else:
                right[:, index, index] = pulls[b]
            solution = solve_tridiagonal(gram, d, right, prior_blocks, which, crosses=False)
            carried, columns = r * solution.mean, slice(b * n, (b + 1) * n + (b == 3))
            for a in kinds:
                out[a * n + index, columns] += np.einsum("ti,tib->ib", pulls[a], carried)
            out[3 * n + index, columns] -= directions.by_mean[:, None] * carried[0]
            out[-1, columns] += np.tensordot(noise, carried, 2)
    return out


def _pull(directions: Directions, a: int, which: Array, mu: Array) -> Array:
    """``g_a`` of all modes, each of which it touches alone; (T, N)."""
    between = directions.between[a][:, which].T
    out = directions.within[a][:, directions.kind].T * mu
    out[:-1] += between * mu[1:]
    out[1:] += between * mu[:-1]
    out[0] -= directions.first[a]
    return out
