"""Expected information on the parameters of coupled modes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spdelaw.processes import operators
from spdelaw.statespace.chain import StateSpace

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
