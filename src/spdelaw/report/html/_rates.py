"""Decay rates and noise strengths of a law with intervals, modes coupled or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.domain import Fields
from spdelaw.equation import Linear, SpectralSPDE
from spdelaw.law import Law

Array = np.ndarray


class Rates(NamedTuple):
    """What a report shows of drift and noise.

    Attributes:
        decay: decay rate of each mode, or of each eigenmode of a drift that couples modes;
            (n, 4), estimate, standard error and interval.
        noise: noise variance of each mode; (n_modes, 4).
        unit: "mode", or "eigenmode", that ``decay`` runs over.
    """

    decay: Array
    noise: Array
    unit: str


def rates(law: Law) -> Rates | None:
    """Of a linear law; None for others, which have no such numbers."""
    p = law.parameters
    if not isinstance(law.dynamics, Linear):
        return None
    if "eigenvalue" in p:
        return Rates(p["eigenvalue"].values, p["noise_variance"].values, "mode")
    own = np.arange(law.n_modes)
    decay, noise = law.eigenmodes()["decay_rate"].values, p["noise_covariance"].values
    return Rates(decay, noise[own, own], "eigenmode")


def mode_names(law: Law) -> list[str]:
    """Modes by number; of several fields by name and number, which take turns."""
    if not isinstance(law.domain, Fields):
        return [str(n + 1) for n in range(law.n_modes)]
    names = law.domain.names
    return [f"{names[k % len(names)]} {k // len(names) + 1}" for k in range(law.n_modes)]


def true_rates(truth: SpectralSPDE, law: Law) -> tuple[Array, Array]:
    """Decay rates and noise variances of an equation in the order of the law's own."""
    n = min(law.n_modes, truth.n_modes)
    if "eigenvalue" in law.parameters:
        return np.diag(truth.drift_matrix)[:n], truth.noise_variance[:n]
    # A pair of complex eigenvalues is one eigenmode.
    found = np.linalg.eigvals(truth.drift_matrix[:n, :n])
    return np.sort(found[found.imag >= 0].real), truth.noise_variance[:n]
