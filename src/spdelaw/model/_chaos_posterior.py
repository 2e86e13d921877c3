"""Chaos coordinates given the data: the exact Gaussian posterior that an encoder stands in for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.model._chaos import coupled, decoupled
from spdelaw.model._chaos_gaussian import Gaussian
from spdelaw.model._chaos_map import ChaosModel, dense_columns, latent_map
from spdelaw.model._chaos_rows import Rows, rows_of, single_patterns
from spdelaw.model._collapse import Block, Collapsed
from spdelaw.model._parameters import Parameters

Array = np.ndarray


class Latents(NamedTuple):
    """Chaos coordinates of the paths of one pattern, given their data.

    Attributes:
        paths: indices of the paths, (P,).
        initial_mean, initial_std: of ``z0``, (N, P) and (N,); the std is 0 where it is shared.
        mean, std: of ``xi``, (K, L, P) and (K, L).
        coefficients: ``c_n(t)`` of the truncated model at the mean coordinates, (T, N, P).
        covariance: of all coordinates, (S, D, D): a matrix a mode, or one for all.
    """

    paths: Array
    initial_mean: Array
    initial_std: Array
    mean: Array
    std: Array
    coefficients: Array
    covariance: Array


def chaos_latents(
    collapsed: Collapsed, parameters: Parameters, model: ChaosModel
) -> list[Latents]:
    """Exact posterior of ``(z0, xi)``, one entry for each set of paths with one pattern."""
    out = []
    for block in collapsed.blocks:
        for one in single_patterns(block):
            couple = not one.is_diagonal or model.noise_factor is not None
            rows = rows_of(one, couple=couple)
            if couple:
                found = coupled(rows, parameters, model)
            else:
                found = decoupled(rows, parameters, model)[0]
            out.append(_latents(one, rows, found, parameters, model))
    return out


def _latents(
    block: Block, rows: Rows, found: Gaussian, parameters: Parameters, model: ChaosModel
) -> Latents:
    n, n_paths = parameters.n_modes, len(block.paths)
    start = int(parameters.initial_kind != "deterministic")
    variance = np.maximum(np.diagonal(found.covariance, axis1=1, axis2=2), 0.0)
    if rows.is_coupled:
        columns = dense_columns(parameters, rows.ages, model)
        driven = np.einsum("tnd,dp->tnp", columns, found.mean[0])
        first, rest = found.mean[0, : n * start], found.mean[0, n * start :]
        v_first, v_rest = variance[0, : n * start], variance[0, n * start :]
        xi, v_xi = rest.reshape(model.n_time, -1, n_paths), v_rest.reshape(model.n_time, -1)
    else:
        columns = latent_map(parameters, rows.ages, model).columns
        driven = np.einsum("tnd,ndp->tnp", columns, found.mean)
        first, v_first = found.mean[:, :start].reshape(-1, n_paths), variance[:, :start].ravel()
        xi, v_xi = found.mean[:, start:].transpose(1, 0, 2), variance[:, start:].T
    scale = np.sqrt(parameters.initial_variance)
    z0 = np.broadcast_to(parameters.initial_mean[:, None], (n, n_paths))
    z0_std = np.zeros(n)
    if start:
        z0, z0_std = z0 + scale[:, None] * first, scale * np.sqrt(v_first)
    decay = np.exp(-rows.ages[:, None] * parameters.eigenvalues)
    coefficients = (decay * parameters.initial_mean)[..., None] + driven
    return Latents(
        block.paths, z0, z0_std, xi, np.sqrt(v_xi), coefficients, found.covariance
    )
