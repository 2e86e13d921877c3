"""Paths in chaos coordinates under a law."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.data import Observed
from spdelaw.domain import Places
from spdelaw.equation import Linear, operators
from spdelaw.errors import DataError, InputError
from spdelaw.law._law import Law
from spdelaw.law._observations import modes_at, noisy_state_space, seen_by, target, weights_of
from spdelaw.model import ChaosModel, Latents, StateSpace, chaos_latents, collapse

Array = np.ndarray
#: Functions of time where neither the caller nor the fit names a number: the paper's.
N_TIME = 16


def chaos_posterior(
    law: Law, data: Any, *, n_time: int | None = None, tail: Any = None
) -> xr.Dataset:
    """Exact posterior of the initial state and the chaos coordinates of each path.

    ``c_n(t) = e^(-lambda_n t) z0_n + sum_{k <= K} sqrt(q_n) psi_k(t; lambda_n) xi_kn (+ tail)``
    given the observed fields: what the paper's encoder approximates (section 2.6).

    Args:
        law: of any engine.
        data: fields (path, time, x); NaN is missing.
        n_time: K, by default that of the fit, or 16.
        tail: "modelled" or "dropped", by default that of the fit, or "modelled".

    Returns:
        Dataset with ``xi_mean``, ``xi_std`` over (path, k, mode), ``z0_mean``, ``z0_std`` over
        (path, mode), and ``reconstruct_truncated`` over (path, time, x), the field of the mean
        coordinates without the tail. `Law.reconstruct` gives the field with it.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
        >>> law = sl.fit(data, sl.Interval(0, np.pi), n_modes=2, engine="chaos", n_time=4)
        >>> dict(chaos_posterior(law, data)["xi_mean"].sizes)
        {'path': 20, 'k': 4, 'mode': 2}
    """
    if law.linear.forcing is not None or law.linear.season is not None:
        expected = "a law whose drift and noise do not change in time"
        got = "one with a forcing or with seasons"
        raise InputError("law", expected=expected, got=got, fix="use law.reconstruct(data)")
    own, places = target(law, seen_by(law, data), None)
    if own.times.ndim == 2:
        got, fix = "times of each path's own", "pass the paths one at a time with .isel(path=[i])"
        raise DataError("data", expected="one clock for all paths", got=got, fix=fix)
    weights = weights_of(law, own)
    space, factor = with_noise_factor(noisy_state_space(law, own))
    model = ChaosModel(
        n_time if n_time is not None else law.info.get("n_time", N_TIME),
        max(float(np.ptp(own.times)), law.info.get("horizon", 0.0)),
        tail if tail is not None else law.info.get("tail", "modelled"),
        factor,
    )
    collapsed = collapse(own.values, own.times, modes_at(law, own.places), weights)
    basis = modes_at(law, places)
    found = _dataset(chaos_latents(collapsed, space, model), own, places, basis, model)
    mean = law.linear.mean
    if mean is not None:
        field = places.unflatten(basis @ mean)
        found["reconstruct_truncated"] = found["reconstruct_truncated"] + field
    return found


def with_noise_factor(space: StateSpace) -> tuple[StateSpace, Array | None]:
    """State space with a spectrum for its drift, and the factor of noise that couples modes.

    The expansion needs ``e^(-lambda_n t)`` per mode; the factor is the symmetric root of Q.
    """
    drift, noise, spread = space.linear.drift, space.linear.noise, space.initial.covariance
    for what, a in (("drift", drift), ("initial state", spread)):
        if np.any(operators.as_matrix(a) != np.diag(operators.diagonal(a))):
            raise InputError(
                "law",
                expected="modes that only the noise couples, for chaos coordinates",
                got=f"modes that the {what} couples",
                fix="fit with drift='diagonal' and initial='deterministic'; Law.reconstruct takes "
                "any law",
            )
    dynamics = Linear(operators.diagonal(drift), operators.diagonal(noise))
    initial = space.initial._replace(covariance=operators.diagonal(spread))
    own = space._replace(dynamics=dynamics, initial=initial)
    return own, None if operators.is_diagonal(noise) else operators.root(noise)


def _dataset(
    parts: list[Latents], own: Observed, places: Places, basis: Array, model: ChaosModel
) -> xr.Dataset:
    fields = own.fields
    n_paths, n, k = fields.sizes["path"], basis.shape[1], model.n_time
    xi, xi_std = np.empty((n_paths, k, n)), np.empty((n_paths, k, n))
    z0, z0_std = np.empty((n_paths, n)), np.empty((n_paths, n))
    field = np.empty((*own.values.shape[:2], len(basis)))
    for part in parts:
        xi[part.paths], xi_std[part.paths] = part.mean.transpose(2, 0, 1), part.std
        z0[part.paths], z0_std[part.paths] = part.initial_mean.T, part.initial_std
        field[part.paths] = part.coefficients.transpose(2, 0, 1) @ basis.T
    return xr.Dataset(
        {
            "xi_mean": (("path", "k", "mode"), xi),
            "xi_std": (("path", "k", "mode"), xi_std),
            "z0_mean": (("path", "mode"), z0),
            "z0_std": (("path", "mode"), z0_std),
            "reconstruct_truncated": (("path", "time", *places.dims), places.unflatten(field)),
        },
        coords={
            **{dim: fields[dim].values for dim in ("path", "time")},
            **places.coords,
            "k": np.arange(1, k + 1),
            "mode": np.arange(1, n + 1),
        },
        attrs={"n_time": k, "tail": model.tail, "horizon": model.horizon},
    )
