"""Drift matrix and noise covariance of a fit, with delta-method standard errors."""

from __future__ import annotations

import numpy as np

from spdelaw.infer._coordinates import AbstractCoordinates
from spdelaw.infer._fitted import Fitted
from spdelaw.infer._identifiability import UNKNOWN
from spdelaw.infer._layout import Layout
from spdelaw.law import Quantity
from spdelaw.model import CoupledParameters

Array = np.ndarray


def coupled_quantities(fitted: Fitted, state: CoupledParameters) -> dict[str, Quantity]:
    """``drift`` and ``noise_covariance``; ``initial_covariance`` where it was estimated.

    Variances have intervals on the log scale, everything else has symmetric ones.
    """
    n, layout = fitted.n_modes, fitted.layout
    diagonal = np.eye(n, dtype=bool)
    out = {
        "drift": Quantity(
            state.drift[:n, :n], _stderr(fitted, layout.drift, "drift"), np.zeros((n, n), bool)
        ),
        "noise_covariance": Quantity(
            state.noise_covariance[:n, :n], _stderr(fitted, layout.noise, "noise"), diagonal
        ),
    }
    initial = getattr(layout, "initial", None)
    if initial is not None:
        error = _stderr(fitted, initial, "initial_variance")
        covariance = state.initial_covariance[:n, :n]
        out["initial_covariance"] = Quantity(covariance, error, diagonal)
    return out


def undetermined_eigenmodes(fitted: Fitted, state: CoupledParameters) -> list[str]:
    """Eigenmodes of the drift whose decay rate the data leave open by a factor of 20 or more."""
    n, where = fitted.n_modes, fitted.layout.slices["drift"]
    jacobian = fitted.layout.drift.jacobian(fitted.solution.full[where])[:n, :n]
    roots = np.tensordot(np.nan_to_num(jacobian), fitted.solution.columns[where], (2, 0))
    rates, right = np.linalg.eig(state.drift[:n, :n])
    change = np.einsum("ki,ijr,jk->kr", np.linalg.inv(right), roots, right).real
    error = np.sqrt((change**2).sum(-1))
    open_ones = (error > UNKNOWN * np.abs(rates.real)) & (rates.imag >= 0)
    return [f"the eigenmode of decay rate {r:.3g}" for r in np.sort(rates.real[open_ones])]


def _stderr(fitted: Fitted, coordinates: AbstractCoordinates, part: str) -> Array:
    where, n = fitted.layout.slices[part], fitted.n_modes
    columns = fitted.solution.columns[where]
    jacobian = coordinates.jacobian(fitted.solution.full[where])[:n, :n]
    spread = np.tensordot(np.nan_to_num(jacobian), columns, (2, 0))
    return np.sqrt((spread**2).sum(-1))


def spectra_jacobian(layout: Layout, full: Array) -> Array:
    """Derivative of all drift and noise numbers, flattened, by the coordinates; (K, p)."""
    s = layout.slices
    parts = [(layout.drift, s["drift"]), (layout.noise, s["noise"])]
    rows = []
    for coordinates, where in parts:
        found = np.nan_to_num(coordinates.jacobian(full[where]))
        found = found.reshape(-1, found.shape[-1])
        wide = np.zeros((len(found), len(full)))
        wide[:, where] = found
        rows.append(wide)
    return np.concatenate(rows)
