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
    """Truth, estimate and ``z = (estimate - truth) / stderr`` of both spectra; dim ``mode``."""
    variables = {}
    for name, true in (
        ("eigenvalue", truth.eigenvalues),
        ("noise_variance", truth.noise_variance),
    ):
        table = law.parameters[name]
        estimate = table.sel(statistic="estimate").values
        stderr = table.sel(statistic="stderr").values
        true = true[: law.n_modes]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (estimate - true) / stderr
        # An estimate without a usable interval is no success, however small its z.
        z = np.where(np.isfinite(stderr) & (stderr < UNDETERMINED * estimate), z, np.nan)
        for suffix, values in (("truth", true), ("estimate", estimate), ("z", z)):
            variables[f"{name}_{suffix}"] = ("mode", values)
    return xr.Dataset(variables, coords={"mode": law.parameters["mode"]})


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
    z = np.abs([table.eigenvalue_z.values, table.noise_variance_z.values])
    return {
        "kl_per_path": law.kl_divergence(truth),
        "kl_limit": n_parameters / (2.0 * law.info["n_paths"]),
        "largest_z": float(np.nanmax(z)) if np.isfinite(z).any() else float("nan"),
        "n_undetermined": int(np.isnan(z).sum()),
        "eigenvalue_z": table.eigenvalue_z.values.tolist(),
        "noise_variance_z": table.noise_variance_z.values.tolist(),
        "energy_spectrum_error": float(np.abs(energy / true_energy - 1.0).max()),
        "variance_error": float(np.abs(variance[later] / true_variance[later] - 1.0).max()),
    }
