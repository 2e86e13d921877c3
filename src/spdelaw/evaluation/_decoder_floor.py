"""The best a truncated decoder can do on given paths, whoever estimates its coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.checks import whole
from spdelaw.data import observe
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation._tiers import TierScore
from spdelaw.law import relative_l2, rmse
from spdelaw.model import collapse, project_on_decoder


def decoder_floor(
    fields: Any, domain: AbstractDomain, n_modes: int, n_time: int, eigenvalues: Any
) -> TierScore:
    """Error of the least-squares projection of each path on the span of the decoder.

    The span holds ``h_n(x) e^(-lambda_n t)`` and ``h_n(x) psi_k(t; lambda_n)`` for n <= N and
    k <= K, with a free initial state in each path: no reconstruction by this decoder, at these
    eigenvalues, has a smaller error. As in the paper, the first time is not scored, and so
    not fitted.

    Args:
        fields: paths (path, time, x) on one clock; NaN is left out.
        domain: where the fields live.
        n_modes: N.
        n_time: K.
        eigenvalues: ``lambda_n``, shape (N,).

    Returns:
        `TierScore` with ``relative_l2`` and ``rmse``; the others are NaN.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.catalogue.heat(n_modes=4)
        >>> paths = sl.simulate(heat, n_paths=20, seed=0)
        >>> few, many = (decoder_floor(paths, heat.domain, 4, k, heat.eigenvalues) for k in (4, 64))
        >>> many.rmse < 0.5 * few.rmse
        True
    """
    own = observe(fields, domain).in_memory()
    n, k = domain.check_modes(n_modes), whole("n_time", n_time, 1)
    lam = np.asarray(eigenvalues, float)
    if lam.shape != (n,):
        expected = f"one number per mode, shape ({n},)"
        fix = "pass equation.eigenvalues or law.dynamics.drift"
        raise InputError("eigenvalues", expected=expected, got=f"shape {lam.shape}", fix=fix)
    if own.has_own_clocks:
        expected = "one clock for all paths"
        fix = "compute the floor for paths on a common grid of times"
        raise DataError("fields", expected=expected, got="times of each path's own", fix=fix)
    values, times, basis = own.values, own.times, own.basis(n)
    projected = np.empty(values.shape)
    for part in project_on_decoder(collapse(values, times, basis), lam, k, float(np.ptp(times))):
        projected[part.paths] = part.coefficients.transpose(2, 0, 1) @ basis.T
    scored = np.broadcast_to(np.arange(len(times))[:, None] > 0, values.shape) & ~np.isnan(values)
    projected, truth = np.where(scored, projected, np.nan), np.where(scored, values, np.nan)
    return TierScore(relative_l2(projected, truth), rmse(projected, truth), np.nan, np.nan)
