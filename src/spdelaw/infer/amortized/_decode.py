"""The field that a truncated decoder makes of a path, given its exact posterior."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.law import Law, own_clock, relative_l2, rmse
from spdelaw.model import collapse, project_on_decoder


def decode(law: Law, fields: xr.DataArray, n_time: int) -> xr.Dataset:
    """Best field of the decoder in expectation: ``mean`` and ``std``, dims (path, time, x).

    ``E|f - X|^2 = |f - E[X | data]|^2 + const``, so among the fields ``f`` of N modes and K
    functions of time the best is the least-squares projection of the posterior mean, which needs
    no truncation. ``std`` is that of the field itself. Errors are in ``attrs`` as in
    `spdelaw.infer.amortized.amortized_reconstruct`.
    """
    domain, smoothed = law.domain, law.reconstruct(fields)
    places = domain.places(fields)
    basis = domain.eigenfunctions(places.points, law.n_modes)
    whole = np.asarray(domain.flatten(smoothed["mean"]).values)
    times = own_clock(fields)[1] if "path_time" in fields.coords else fields["time"].values
    lam, horizon = law.linear.drift[: law.n_modes], float(np.ptp(law.times))
    mean = np.empty(whole.shape)
    for part in project_on_decoder(collapse(whole, times, basis), lam, n_time, horizon):
        mean[part.paths] = part.coefficients.transpose(2, 0, 1) @ basis.T
    truth = np.array(domain.flatten(fields).values)
    truth[:, 0] = np.nan  # not scored, as in the paper
    scored = np.where(np.isnan(truth), np.nan, mean)
    errors = {"relative_l2": relative_l2(scored, truth), "rmse": rmse(scored, truth)}
    shown = (smoothed["mean"].dims, places.unflatten(mean))
    return smoothed.assign(mean=shown).assign_attrs(errors)
