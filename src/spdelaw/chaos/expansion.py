"""The truncated expansion: chaos coordinates in, paths of the Galerkin coefficients out."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.chaos.array_namespace import Array, as_floating, namespace
from spdelaw.chaos.propagators import Propagators
from spdelaw.errors import InputError


def expand(curves: Propagators, initial: Any, coordinates: Any) -> Array:
    """``c_n(t) = e^(-lambda_n t) z0_n + sum_{k,l} B[l, n] psi_k(t; lambda_n) xi_{k,l}`` (eq. 12).

    The noise factor is applied to the coordinates first, one small matrix; then one matrix
    product per mode, (paths, K) by (K, T). The dense tensor (T, K, L, N) never exists.

    Args:
        curves: from `propagate`.
        initial: ``z0_n``, shape (..., N); its leading axes broadcast with those of the coordinates.
        coordinates: ``xi_{k,l}``, shape (..., K, L). In torch the result has their precision
            and device, and gradients flow to all arguments.

    Returns:
        Coefficients, shape (..., T, N); ``domain.synthesise`` makes fields of them.

    Example:
        >>> from spdelaw.chaos import CosineBasis, propagate
        >>> curves = propagate(CosineBasis(), [0.0, 1.0], [0.0, 0.0], [1.0, 2.0], n_time=1)
        >>> expand(curves, initial=[5.0, 5.0], coordinates=[[1.0, -1.0]])
        array([[5., 5.],
               [6., 3.]])
    """
    xp = namespace(coordinates, initial, *curves)
    xi, z0 = as_floating(coordinates, xp), as_floating(initial, xp)
    decay, psi, b = (as_floating(a, xp) for a in curves)
    if xp is not np:
        z0, decay, psi, b = (a.to(xi) for a in (z0, decay, psi, b))
    _check_shapes(curves, z0, xi)
    forcing = xi * b if b.ndim == 1 else xp.matmul(xi, b)  # (..., K, N)
    return decay * z0[..., None, :] + respond(psi, forcing, xp)


def respond(response: Array, forcing: Array, xp: Any) -> Array:
    """``sum_k psi_k(t; lambda_n) f_{k,n}``: (T, K, N) and (..., K, N) give (..., T, N)."""
    flat = forcing.reshape(-1, *forcing.shape[-2:])
    rows = xp.moveaxis(flat, 2, 0)  # (N, paths, K)
    columns = xp.moveaxis(response, (0, 1, 2), (2, 1, 0))  # (N, K, T)
    out = xp.moveaxis(xp.matmul(rows, columns), 0, 2)
    return out.reshape(*forcing.shape[:-2], response.shape[0], response.shape[2])


def _check_shapes(curves: Propagators, initial: Array, coordinates: Array) -> None:
    k, l, n = curves.n_time, curves.n_noise, curves.n_modes
    if tuple(coordinates.shape[-2:]) != (k, l):
        expected = f"shape (..., {k}, {l}) for K = {k}, L = {l}"
        got = f"shape {tuple(coordinates.shape)}"
        fix = "time index before noise index: np.swapaxes(xi, -1, -2)"
        raise InputError("coordinates", expected=expected, got=got, fix=fix)
    if initial.ndim == 0 or initial.shape[-1] != n:
        expected, got = f"shape (..., {n}), one number per mode", f"shape {tuple(initial.shape)}"
        raise InputError("initial", expected=expected, got=got, fix="pass equation.initial_mean")
    try:
        np.broadcast_shapes(tuple(initial.shape[:-1]), tuple(coordinates.shape[:-2]))
    except ValueError as error:
        expected = f"leading axes that fit {tuple(coordinates.shape[:-2])}"
        got, fix = f"{tuple(initial.shape[:-1])}", "one initial state a path, or one for all"
        raise InputError("initial", expected=expected, got=got, fix=fix) from error
