"""The propagators by the classical Runge-Kutta method, as in the paper: torchdiffeq's ``rk4``.

Two ways to set up eqs. 10 and 11. *Shared*: decay and unit responses, N (1 + K) states, once for
all paths. *Per path*: every path carries its own z0 and all N (1 + K L) states (1032 in the
paper), as its text describes. Both give what the closed form gives, to fourth order in the
observation step; they remain as an option and as an independent check. A basis with jumps inside
a step (Haar) lowers the order to one.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from spdelaw.chaos.array_namespace import Array, as_floating, constant, namespace, to_numpy
from spdelaw.chaos.checks import check_ages, check_eigenvalues, check_noise_factor
from spdelaw.chaos.time_basis import TimeBasis, check_basis
from spdelaw.checks import whole
from spdelaw.errors import ConvergenceError, InputError, MissingExtraError

#: Largest lambda dt at which the method still damps: |1 - x + x^2/2 - x^3/6 + x^4/24| < 1.
STABLE = 2.785


def rk4_responses(
    basis: TimeBasis, times: Any, eigenvalues: Any, n_time: int
) -> tuple[Array, Array]:
    """Decay ``e^(-lambda_n t)`` (T, N) and unit responses ``psi_k(t; lambda_n)`` (T, K, N).

    The shared system: ``y_0' = -lambda y_0`` from 1 and ``y_k' = -lambda y_k + m_k(t)`` from 0,
    integrated once on the observation grid. Tensors for a tensor, with gradients; NumPy
    for NumPy.

    Example:
        >>> import numpy as np
        >>> from spdelaw.chaos import CosineBasis
        >>> decay, psi = rk4_responses(CosineBasis(), np.linspace(0, 1, 101), [1.0], n_time=4)
        >>> float(np.round(decay[-1, 0], 6)), psi.shape
        (0.367879, (101, 4, 1))
    """
    torch, odeint = _solver()
    inside = namespace(eigenvalues)
    lam = check_eigenvalues(eigenvalues, torch)
    k = whole("n_time", n_time, 1)
    start = torch.zeros(1 + k, lam.shape[0], dtype=lam.dtype, device=lam.device)
    start[0] = 1.0

    def slope(t: Array, y: Array) -> Array:
        return _forcing(basis, t, k, y, torch)[:, None] - lam * y

    y = _integrate(odeint, slope, start, basis, times, lam, torch)
    decay, psi = y[:, 0], y[:, 1:]
    return (decay, psi) if inside is torch else (to_numpy(decay), to_numpy(psi))


def rk4_states(
    basis: TimeBasis,
    times: Any,
    eigenvalues: Any,
    noise_factor: Any,
    initial: Any,
    n_time: int,
) -> Array:
    """The paper's latent state, ``d = N (1 + K L)`` numbers per path; (T, paths, 1 + K L, N).

    Entry 0 of the third axis is the zero order, started from the path's own z0; then come the
    first-order propagators, l running fastest.

    Args:
        basis: functions of time.
        times: increasing, in [0, T], counted from the initial state.
        eigenvalues: ``lambda_n``, shape (N,).
        noise_factor: ``sqrt(q_n)``, shape (N,), or ``<Q^(1/2) h_l, h_n>``, shape (L, N).
        initial: ``z0``, shape (paths, N).
        n_time: K.

    Example:
        >>> from spdelaw.chaos import CosineBasis
        >>> states = rk4_states(
        ...     CosineBasis(), [0.0, 1.0], [1.0, 2.0], [1.0, 1.0], [[1.0, 1.0]], n_time=3
        ... )
        >>> tuple(states.shape)
        (2, 1, 7, 2)
    """
    torch, odeint = _solver()
    lam = check_eigenvalues(eigenvalues, torch)
    b = check_noise_factor(noise_factor, lam, torch)
    factor = torch.diag(b) if b.ndim == 1 else b
    k, z0 = whole("n_time", n_time, 1), as_floating(initial, torch).to(lam)
    if z0.ndim != 2 or z0.shape[1] != lam.shape[0]:
        expected, fix = f"shape (paths, {lam.shape[0]})", "one row per path: initial[None, :]"
        raise InputError("initial", expected=expected, got=f"shape {tuple(z0.shape)}", fix=fix)
    rest = torch.zeros(len(z0), k * len(factor), lam.shape[0], dtype=lam.dtype, device=lam.device)
    start = torch.cat([z0[:, None], rest], 1)

    def slope(t: Array, y: Array) -> Array:
        m = _forcing(basis, t, k, y, torch)
        push = (m[1:, None, None] * factor).reshape(-1, lam.shape[0])
        return torch.cat([torch.zeros_like(push[:1]), push]) - lam * y

    return _integrate(odeint, slope, start, basis, times, lam, torch)


def decode_states(states: Array, coordinates: Array) -> Array:
    """``c = z^(0) + sum_{k,l} z^(k,l) xi_{k,l}`` (eq. 12) of states from `rk4_states`.

    Args:
        states: shape (T, paths, 1 + K L, N).
        coordinates: shape (paths, K, L).

    Returns:
        Coefficients, shape (paths, T, N).

    Example:
        >>> import torch
        >>> states = torch.ones(5, 2, 1 + 3 * 4, 4)
        >>> decode_states(states, torch.ones(2, 3, 4))[0, 0]
        tensor([13., 13., 13., 13.])
    """
    xp = namespace(states, coordinates)
    xi = coordinates.reshape(coordinates.shape[0], -1)
    if states.shape[1:3] != (xi.shape[0], 1 + xi.shape[1]):
        expected = f"{states.shape[1]} paths of {states.shape[2] - 1} coordinates"
        got, fix = f"shape {tuple(coordinates.shape)}", "pass xi of shape (paths, K, L)"
        raise InputError("coordinates", expected=expected, got=got, fix=fix)
    return xp.moveaxis(states[:, :, 0], 0, 1) + xp.einsum("tpan,pa->ptn", states[:, :, 1:], xi)


def _solver() -> tuple[Any, Any]:
    try:
        torch, torchdiffeq = map(importlib.import_module, ("torch", "torchdiffeq"))
    except ImportError as error:
        raise MissingExtraError("rk4 propagators", "neural") from error
    return torch, torchdiffeq.odeint


def _forcing(basis: TimeBasis, t: Array, n_time: int, like: Array, torch: Any) -> Array:
    """``(0, m_1(t), ..., m_K(t))``: the zero order is not forced."""
    m = basis.values(np.array([min(float(t), basis.horizon)]), n_time)[0]
    return constant(np.concatenate([[0.0], m]), like, torch)


def _integrate(
    odeint: Any, slope: Any, start: Array, basis: TimeBasis, times: Any, lam: Array, torch: Any
) -> Array:
    """States at the observation times, one step from each to the next, from time 0 on."""
    t = check_ages(times, check_basis(basis).horizon)
    grid = t if t[0] == 0.0 else np.concatenate([[0.0], t])
    fastest = float(lam.detach().max()) * np.diff(grid).max(initial=0.0)
    if not fastest < STABLE:
        expected = f"lambda dt below {STABLE}, where rk4 is stable"
        fix = "use method='closed_form', or a finer grid of times"
        raise ConvergenceError("rk4 propagators", expected=expected, got=f"{fastest:.3g}", fix=fix)
    if len(grid) == 1:
        return start[None]
    steps = constant(grid, start, torch)
    return odeint(slope, start, steps, method="rk4")[len(grid) - len(t) :]
