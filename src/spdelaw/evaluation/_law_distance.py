"""A learned law against the true one: numbers in units of their standard error, and KL."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.equation import SpectralSPDE
from spdelaw.law import Law

#: Relative standard error from which on a parameter counts as undetermined.
UNDETERMINED = 1.5


def parameter_errors(law: Law, truth: SpectralSPDE) -> xr.Dataset:
    """Truth, estimate and ``z = (estimate - truth) / stderr`` of drift and noise.

    Dim ``mode`` for spectra, which are compared with the diagonals of a coupled truth; dims
    (``mode``, ``mode_2``) for matrices, where an entry that the structure fixes has z = 0.
    """
    variables, n = {}, law.n_modes
    for name, true in _true_numbers(law, truth).items():
        table = law.parameters[name]
        estimate = table.sel(statistic="estimate").values
        stderr = table.sel(statistic="stderr").values
        true = true[(slice(n),) * estimate.ndim]
        usable = np.isfinite(stderr) & ((stderr < UNDETERMINED * estimate) | (estimate.ndim == 2))
        known = (estimate.ndim == 2) & (stderr == 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(known, 0.0, (estimate - true) / stderr)
        # An estimate without a usable interval is no success, however small its z.
        z = np.where(usable, z, np.nan)
        for suffix, values in (("truth", true), ("estimate", estimate), ("z", z)):
            variables[f"{name}_{suffix}"] = (table.dims[:-1], values)
    axes = [dim for dim in ("mode", "mode_2") if dim in law.parameters.sizes]
    return xr.Dataset(variables, coords={dim: law.parameters[dim] for dim in axes})


def _true_numbers(law: Law, truth: SpectralSPDE) -> dict[str, np.ndarray]:
    if "drift" in law.parameters:
        return {"drift": truth.drift_matrix, "noise_covariance": truth.noise_covariance}
    return {"eigenvalue": np.diag(truth.drift_matrix), "noise_variance": truth.noise_variance}


def law_distance(law: Law, truth: SpectralSPDE) -> dict[str, Any]:
    """KL per path with its limit, largest errors, and second-order statistics at the end."""
    table = parameter_errors(law, truth)
    n = law.n_modes
    final = law.times[-1:]
    energy = law.equation.energy_spectrum(final).values[0, :n]
    true_energy = truth.energy_spectrum(final).values[0, :n]
    variance = law.equation.variance(law.times).values[:, :n].sum(1)
    true_variance = truth.variance(law.times).values[:, :n].sum(1)
    later = true_variance > 0
    # A network has weights beside the parameters of the law.
    n_parameters = law.info.get("n_law_parameters", law.info["n_parameters"])
    names = [str(name) for name in table.data_vars if str(name).endswith("_z")]
    z = np.abs([table[name].values for name in names])
    return {
        "kl_per_path": law.kl_divergence(truth),
        "kl_limit": n_parameters / (2.0 * law.info["n_paths"]),
        "largest_z": float(np.nanmax(z)) if np.isfinite(z).any() else float("nan"),
        "n_undetermined": int(np.isnan(z).sum()),
        **{name: table[name].values.tolist() for name in names},
        "energy_spectrum_error": float(np.abs(energy / true_energy - 1.0).max()),
        "variance_error": float(np.abs(variance[later] / true_variance[later] - 1.0).max()),
    }
