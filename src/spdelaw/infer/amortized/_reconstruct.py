"""Reconstruction by the encoder: a path in chaos coordinates, decoded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import optional
from spdelaw.data import Observed, observe
from spdelaw.errors import InputError
from spdelaw.law import Law, relative_l2, rmse
from spdelaw.model import collapse, project_on_decoder


def amortized_reconstruct(source: Law | str | Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Field of the encoder's posterior: ``mean`` and ``std``, dims (path, time, x).

    The errors against the data are in ``attrs``: ``relative_l2``, the mean over paths of
    ``|X_hat - X| / |X|``, and ``rmse``, pooled; both without the first time (paper, section 3.3),
    at which the field is the learned initial state and not fitted to the path.

    Args:
        source: a law of ``engine="amortized"``; with ``preset="paper"`` one that was trained with
            ``checkpoint=``, or that folder.
        data: fields, NaN for missing; with ``preset="paper"`` on the points of the training data
            and within its times.
        adapter: as in `spdelaw.fit`.
    """
    if isinstance(source, Law) and source.info.get("preset") == "structured":
        own = observe(data, source.domain, **adapter).in_memory()
        return decode(source, own, source.info["n_time"])
    return _neural().neural_reconstruct(_folder(source), data, **adapter)


def amortized_posterior(source: Law | str | Path, data: Any, **adapter: Any) -> xr.Dataset:
    """What the paper's encoder says of each path, before it is decoded.

    Independent normals: ``z0_mean``, ``z0_std`` over (path, mode) and ``xi_mean``, ``xi_std`` over
    (path, k, noise). `spdelaw.law.chaos_posterior` has the exact ones.

    Args:
        source: a law of ``preset="paper"`` or ``"literal"`` trained with ``checkpoint=``, or that
            folder.
        data: fields on the points of the training data and within its times.
        adapter: as in `spdelaw.fit`.
    """
    return _neural().neural_posterior(_folder(source), data, **adapter)


def _neural() -> Any:
    return optional("spdelaw.infer.amortized._neural_reconstruct", "preset='paper'", "neural")


def _folder(source: Law | str | Path) -> Path:
    if not isinstance(source, Law):
        return Path(source)
    folder = source.info.get("checkpoint")
    if source.info.get("engine") != "amortized" or folder is None:
        expected = "a law of engine='amortized' trained with checkpoint="
        got = f"engine {source.info.get('engine')!r}, checkpoint {folder!r}"
        fix = "use law.reconstruct, which every law has"
        raise InputError("law", expected=expected, got=got, fix=fix)
    return Path(folder)


def decode(law: Law, own: Observed, n_time: int) -> xr.Dataset:
    """Best field of the decoder in expectation: ``mean`` and ``std``, dims (path, time, x).

    ``E|f - X|^2 = |f - E[X | data]|^2 + const``, so among the fields ``f`` of N modes and K
    functions of time the best is the least-squares projection of the posterior mean, which needs
    no truncation. ``std`` is that of the field itself. Errors are in ``attrs`` as in
    `spdelaw.infer.amortized.amortized_reconstruct`.
    """
    domain, smoothed, places = law.domain, law.reconstruct(own), own.places
    basis = own.basis(law.n_modes)
    whole = np.asarray(domain.flatten(smoothed["mean"]).values)
    times = own.times if own.times.ndim == 1 else np.take_along_axis(own.times, own.rows, axis=1)
    lam, horizon = law.linear.drift[: law.n_modes], float(np.ptp(law.times))
    mean = np.empty(whole.shape)
    for part in project_on_decoder(collapse(whole, times, basis), lam, n_time, horizon):
        mean[part.paths] = part.coefficients.transpose(2, 0, 1) @ basis.T
    truth = np.array(own.fields.values)
    truth[:, 0] = np.nan  # not scored, as in the paper
    scored = np.where(np.isnan(truth), np.nan, mean)
    errors = {"relative_l2": relative_l2(scored, truth), "rmse": rmse(scored, truth)}
    shown = (smoothed["mean"].dims, places.unflatten(mean))
    return smoothed.assign(mean=shown).assign_attrs(errors)
