"""Bands that know how well the parameters are known: laws drawn around the learned one.

Coordinates of a fit are about normal around their estimate, ``theta ~ N(theta_hat, C)``, and drift
and noise follow them by their Jacobian: eigenvalues and covariances on a logarithmic scale, which
keeps them positive, other drifts as they are, as far as they stay stable. Over K such laws

    mean = mean of m_k,      variance = mean of v_k + variance of m_k.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.equation import Linear, operators
from spdelaw.errors import InputError
from spdelaw.law._coordinate_root import coordinate_root

if TYPE_CHECKING:
    from spdelaw.law._law import Law

Array = np.ndarray

#: A logarithm that the data do not tell moves by this much at most: a factor of 20.
FARTHEST = 3.0
#: How often a change of a drift is halved until it is stable.
HALVINGS = 20


def over_parameters(
    law: Law, n_draws: int, seed: int, n_samples: int, predict: Callable[[Law, int], xr.Dataset]
) -> xr.Dataset:
    """Moments over laws drawn around this one, and samples of each of them in turn.

    Args:
        law: the learned one.
        n_draws: how many laws; they come in pairs, one on each side of it. 0 for it alone.
        seed: of the draws.
        n_samples: samples in all.
        predict: ``mean``, ``std`` and so many samples under a law.
    """
    if not whole("parameter_draws", n_draws, 0):
        return predict(law, n_samples)
    laws = list(_laws(law, n_draws, seed))
    shares = np.diff(np.linspace(0, n_samples, len(laws) + 1).round()).astype(int)
    parts = [predict(one, int(n)) for one, n in zip(laws, shares, strict=True)]
    first, n = parts[0]["mean"], len(parts)
    mean = sum((part["mean"] - first for part in parts), 0.0 * first) / n
    spread = sum(((part["mean"] - first - mean) ** 2 for part in parts), 0.0 * first) / n
    variance = sum((part["std"] ** 2 for part in parts), 0.0 * first) / n
    out = parts[0].drop_vars("sample", errors="ignore")
    out = out.assign(mean=first + mean, std=np.sqrt(variance + spread))
    drawn = [part["sample"] for part in parts if "sample" in part]
    return out.assign(sample=xr.concat(drawn, "draw")) if drawn else out


def _laws(law: Law, n_draws: int, seed: int) -> Iterator[Law]:
    """Laws on both sides of the learned one."""
    table = law.coordinates
    if not isinstance(law.dynamics, Linear) or table is None or "jacobian" not in table:
        expected = "a linear law that knows how well its parameters are known"
        got = f"a law of the engine {law.info.engine!r}"
        fix = "fit with engine='exact', or leave parameter_draws out"
        raise InputError("parameter_draws", expected=expected, got=got, fix=fix)
    generator = np.random.default_rng([seed, 2])
    columns = coordinate_root(table["covariance"].values)
    errors = np.zeros(law.dynamics.n_modes)  # of the mean; nuisance modes have none
    if "mean" in law.parameters:
        known = law.parameters["mean"].sel(statistic="stderr").values
        errors[: law.n_modes] = np.nan_to_num(known)
    for k in range(n_draws):
        side = (-1.0) ** k
        if side > 0:
            change = columns @ generator.standard_normal(columns.shape[1])
            shift = errors * generator.standard_normal(len(errors))
        yield _moved(law, side * change, side * shift)


def _moved(law: Law, change: Array, shift: Array) -> Law:
    linear, table = law.linear, cast("xr.Dataset", law.coordinates)
    rows = table["jacobian"].values @ change
    drift = _drift(linear.drift, rows[: linear.drift.size].reshape(linear.drift.shape))
    noise = _covariance(linear.noise, rows[linear.drift.size :].reshape(linear.noise.shape))
    mean = None if linear.mean is None else linear.mean + shift
    initial, names = law.initial, list(table["coordinate"].values)
    if initial.kind == "stationary":
        initial = initial._replace(covariance=operators.stationary_covariance(drift, noise))
    r = law.observation_variance
    if "observation_std" in names:
        r = r * np.exp(2.0 * _limited(change[names.index("observation_std")]))
    dynamics = dataclasses.replace(linear, drift=drift, noise=noise, mean=mean)
    return dataclasses.replace(law, dynamics=dynamics, initial=initial, observation_variance=r)


def _limited(change: Array) -> Array:
    return np.clip(change, -FARTHEST, FARTHEST)


def _drift(drift: Array, change: Array) -> Array:
    if drift.ndim == 1:
        safe = np.where(drift > 0, drift, 1.0)
        return np.where(drift > 0, drift * np.exp(_limited(change / safe)), drift + change)
    for _ in range(HALVINGS):
        if operators.decay_rates(drift + change).min() > 0:
            return drift + change
        change = 0.5 * change
    return drift


def _covariance(noise: Array, change: Array) -> Array:
    """``R exp(R^-1 dQ R^-1') R'`` with ``R R' = Q``."""
    if noise.ndim == 1:
        safe = np.where(noise > 0, noise, 1.0)
        return noise * np.exp(_limited(change / safe))
    values, vectors = np.linalg.eigh(0.5 * (noise + noise.T))
    size = np.sqrt(np.maximum(values, 1e-12 * values.max()))
    relative = (vectors / size).T @ change @ (vectors / size)
    logs, turned = np.linalg.eigh(0.5 * (relative + relative.T))
    root = (vectors * size) @ turned
    return (root * np.exp(_limited(logs))) @ root.T
