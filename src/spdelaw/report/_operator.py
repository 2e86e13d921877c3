"""Drift and noise of a law as matrices, and the eigenvalues of the drift with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spdelaw.equation import SpectralSPDE, operators
from spdelaw.errors import InputError
from spdelaw.law import Law
from spdelaw.report._style import CLOSED_FORM, COLUMN, SAMPLE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_operator(law: Law, truth: SpectralSPDE | None = None) -> Figure:
    """Draw drift matrix, noise covariance and the eigenvalues of the drift.

    Entries whose interval holds zero are marked with a dot. On the right, each eigenmode by its
    decay rate and the angle it turns by per unit of time.

    Args:
        law: what was learned.
        truth: equation of at least as many modes, whose eigenvalues are drawn too.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_operator
        >>> ring = sl.catalogue.advection_diffusion(3, speed=2.0)
        >>> law = sl.fit(sl.simulate(ring, 50, seed=0), ring.domain, 3, drift="normal")
        >>> len(plot_operator(law, ring).axes)
        5
    """
    if truth is not None and (not isinstance(truth, SpectralSPDE) or truth.n_modes < law.n_modes):
        raise InputError(
            "truth", expected=f"an equation of at least {law.n_modes} modes",
            got=f"{truth.n_modes} modes" if isinstance(truth, SpectralSPDE)
            else type(truth).__name__, fix="pass the equation that made the data",
        )  # fmt: skip
    d = law.linear.leading(law.n_modes)
    drift, noise = operators.as_matrix(d.drift), operators.as_matrix(d.noise)
    with style():
        figure = new_figure(2.5 * COLUMN, 0.72 * COLUMN)
        left, middle, right = figure.subplots(1, 3)
        _draw_matrix(left, drift, _is_open(law, "drift"), "drift")
        left.set(xlabel="from mode", ylabel="to mode")
        _draw_matrix(middle, noise, _is_open(law, "noise_covariance"), "noise covariance")
        _draw_eigenvalues(right, law, truth)
    return figure


def _is_open(law: Law, name: str) -> np.ndarray:
    """Entries that were estimated and whose interval holds zero."""
    if name not in law.parameters:
        return np.zeros((law.n_modes, law.n_modes), bool)
    _, stderr, lower, upper = np.moveaxis(law.parameters[name].values, -1, 0)
    return (stderr > 0) & (lower < 0) & (upper > 0)


def _draw_matrix(ax: Axes, matrix: np.ndarray, is_open: np.ndarray, title: str) -> None:
    reach = float(np.abs(matrix).max())
    mode = np.arange(1, len(matrix) + 1)
    image = ax.imshow(
        matrix, cmap="RdBu_r", vmin=-reach, vmax=reach,
        extent=(0.5, len(matrix) + 0.5, len(matrix) + 0.5, 0.5),
    )  # fmt: skip
    rows, columns = np.nonzero(is_open)
    ax.plot(mode[columns], mode[rows], ".", color="#333333", markersize=3)
    ax.set(title=title, xlabel="mode", ylabel="mode")
    ax.locator_params(integer=True)
    ax.grid(False)
    ax.figure.colorbar(image, ax=ax, shrink=0.85)


def _draw_eigenvalues(ax: Axes, law: Law, truth: SpectralSPDE | None) -> None:
    if truth is not None:
        mu = np.linalg.eigvals(truth.drift_matrix[: law.n_modes, : law.n_modes])
        mu = mu[mu.imag >= 0]
        ax.plot(
            mu.real, mu.imag, linestyle="none", marker="o", markersize=7, markerfacecolor="none",
            color=CLOSED_FORM, label="truth",
        )  # fmt: skip
    modes, level = law.eigenmodes(), 100 * float(law.parameters.attrs["interval_level"])
    points = {}
    for name in ("decay_rate", "frequency"):
        estimate, _, lower, upper = modes[name].values.T
        reach = np.stack([estimate - lower, upper - estimate])
        points[name] = estimate, np.where(np.isfinite(reach), reach, 0.0)
    (x, xerr), (y, yerr) = points["decay_rate"], points["frequency"]
    ax.errorbar(
        x, y, xerr=xerr, yerr=yerr, fmt="o", color=SAMPLE, markersize=3, elinewidth=1.2,
        capsize=2.5, label=f"learned, {level:g} % interval",
    )  # fmt: skip
    ax.set(title="eigenvalues of the drift", xlabel="decay rate", ylabel="frequency [rad/time]")
    ax.set_xlim(left=0.0)
    ax.legend(loc="best")
