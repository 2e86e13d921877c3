"""Innovations of data under a law: are they standard normal, and do they forget?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from spdelaw.errors import DataError
from spdelaw.evaluation import ModelCheck
from spdelaw.report._estimates import Z95
from spdelaw.report._style import CLOSED_FORM, COLUMN, SAMPLE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray

#: Bins of the histogram and lags of the correlations.
BINS, LAGS = 20, 10


def pit_histogram(z: Array) -> tuple[Array, Array, float]:
    """Middles of the bins, density of ``Phi(z)`` in them, and how far chance may take it from 1."""
    seen = z[~np.isnan(z)]
    edges = np.linspace(0.0, 1.0, BINS + 1)
    density = np.histogram(scipy.special.ndtr(seen), edges)[0] / max(seen.size, 1) * BINS
    chance = Z95 * np.sqrt((BINS - 1) / max(seen.size, 1))
    return 0.5 * (edges[1:] + edges[:-1]), density, float(chance)


def correlations(z: Array) -> tuple[Array, Array, Array]:
    """Lags, correlation of each series with its past (series, lag), and 95 % reach by lag."""
    lags = np.arange(1, max(1, min(LAGS, z.shape[1] - 2)) + 1)
    found = np.full((z.shape[-1], len(lags)), np.nan)
    pairs = np.zeros((z.shape[-1], len(lags)))
    for i, lag in enumerate(lags):
        product = z[:, lag:] * z[:, :-lag]
        pairs[:, i] = (~np.isnan(product)).sum((0, 1))
        square = np.nansum(z**2, (0, 1)) / np.maximum((~np.isnan(z)).sum((0, 1)), 1)
        total = np.nansum(product, (0, 1))
        enough = (pairs[:, i] > 0) & (square > 0)
        found[enough, i] = total[enough] / pairs[enough, i] / square[enough]
    return lags, found, Z95 / np.sqrt(np.maximum(np.median(pairs, axis=0), 1.0))


def plot_innovations(check: ModelCheck) -> Figure:
    """Draw the probabilities of the innovations and their correlation in time.

    Args:
        check: what `spdelaw.evaluation.check_model` found, or ``scorecard.check``.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_innovations
        >>> equation = sl.catalogue.heat(n_modes=2)
        >>> data = sl.simulate(equation, 8, seed=0)
        >>> card = sl.evaluate(sl.fit(data, equation.domain, 2), data, tiers=())
        >>> [ax.get_xlabel() for ax in plot_innovations(card.check).axes]
        ['probability integral transform', 'lag in time steps']
    """
    z = check.innovations
    if not np.isfinite(z).any():
        got, fix = "none: no row determines all modes", "use fewer modes, or data with fewer gaps"
        raise DataError("check", expected="at least one innovation", got=got, fix=fix)
    with style():
        figure = new_figure(1.75 * COLUMN, 0.6 * COLUMN)
        left, right = figure.subplots(1, 2)
        _draw_pit(left, z)
        _draw_correlations(right, z, check.unit)
    return figure


def _draw_pit(ax: Axes, z: Array) -> None:
    middle, density, chance = pit_histogram(z)
    ax.bar(middle, density, width=0.92 / BINS, color=SAMPLE)
    ax.axhspan(1 - chance, 1 + chance, color="#9E9E9E", alpha=0.35, linewidth=0)
    ax.axhline(1.0, color=CLOSED_FORM, linestyle="--", linewidth=1.2)
    ax.set(xlabel="probability integral transform", ylabel="density", xlim=(0, 1))


def _draw_correlations(ax: Axes, z: Array, unit: str) -> None:
    lags, found, reach = correlations(z)
    ax.fill_between(lags, -reach, reach, color="#EDEDED", linewidth=0)
    for n, line in enumerate(found):
        ax.plot(lags, line, "-o", color=SAMPLE, markersize=2.5, linewidth=0.8, alpha=0.7,
                label=f"{unit} {n + 1}")  # fmt: skip
    ax.set(xlabel="lag in time steps", ylabel="correlation")
    ax.locator_params(axis="x", integer=True)
