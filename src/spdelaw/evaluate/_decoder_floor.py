"""The best a truncated decoder can do on given paths, whoever estimates its coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.chaos import CosineBasis, propagate
from spdelaw.data import as_fields
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.evaluate._tiers import TierScore
from spdelaw.evaluate._trajectory import relative_l2, rmse
from spdelaw.model import Block, collapse
from spdelaw.model._chaos_rows import rows_of, single_patterns

Array = np.ndarray


def decoder_floor(
    fields: Any, domain: AbstractDomain, n_modes: int, n_time: int, eigenvalues: Any
) -> TierScore:
    """Error of the least-squares projection of each path on the span of the decoder.

    The span holds ``h_n(x) e^(-lambda_n t)`` and ``h_n(x) psi_k(t; lambda_n)`` for n <= N and
    k <= K, with a free initial state in each path: no reconstruction by this decoder, at these
    eigenvalues, has a smaller error. As in the paper, the first time is not scored, and so
    not fitted.

    Args:
        fields: paths (path, time, x); NaN is left out.
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
    checked = as_fields(fields, dims=domain.dims)
    projected = project_on_decoder(checked, domain, n_modes, n_time, eigenvalues)
    truth = np.where(np.isnan(projected), np.nan, checked.values)
    return TierScore(relative_l2(projected, truth), rmse(projected, truth), np.nan, np.nan)


def project_on_decoder(
    fields: xr.DataArray, domain: AbstractDomain, n_modes: int, n_time: int, eigenvalues: Any
) -> Array:
    """The projections themselves, (path, time, x); NaN at the first time and where data are."""
    lam = np.asarray(eigenvalues, float)
    if lam.shape != (n_modes,):
        raise InputError(
            "eigenvalues", expected=f"one number a mode, shape ({n_modes},)",
            got=f"shape {lam.shape}", fix="pass equation.eigenvalues or law.state.eigenvalues",
        )  # fmt: skip
    if "path_time" in fields.coords:
        raise DataError(
            "fields", expected="one clock for all paths", got="times of each path's own",
            fix="compute the floor for paths on a common grid of times",
        )  # fmt: skip
    times = fields["time"].values
    basis = domain.eigenfunctions(fields[domain.dims[0]].values, n_modes)
    columns = _columns(times - times[0], lam, n_time)
    out = np.full(fields.shape, np.nan)
    for block in collapse(np.asarray(fields.values), times, basis).blocks:
        for one in single_patterns(block):
            out[one.paths] = _projected(one, columns).transpose(2, 0, 1) @ basis.T
    out[:, 0] = np.nan
    return np.where(np.isnan(fields.values), np.nan, out)


def _columns(ages: Array, eigenvalues: Array, n_time: int) -> Array:
    """Decay and responses of each mode, (T, N, 1 + K)."""
    basis = CosineBasis(float(ages[-1]))
    curves = propagate(basis, ages, eigenvalues, np.ones(len(eigenvalues)), n_time)
    return np.concatenate([curves.decay[..., None], curves.response.transpose(0, 2, 1)], axis=2)


def _projected(block: Block, columns: Array) -> Array:
    """Least squares over the times after the first; (T, N, P) at all times."""
    rows, n = rows_of(block), columns.shape[1]
    if rows.is_coupled:
        wide = columns[:, :, None, :] * np.eye(n)[:, :, None]
        columns = wide.reshape(*columns.shape[:2], -1)
    later = rows.after_first()
    weights = np.linalg.pinv(later.whiten(columns[1:])) @ later.whiten(later.estimate)
    if rows.is_coupled:
        return np.einsum("tnd,dp->tnp", columns, weights[0])
    return np.einsum("tnd,ndp->tnp", columns, weights)
