"""Several laws against one truth: learned over true, mode by mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from spdelaw.equation import SpectralSPDE
from spdelaw.errors import InputError
from spdelaw.law import Law
from spdelaw.report._style import COLUMN, GREY, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours with a marker each: six laws can be told apart in print.
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D"), ("#CC79A7", "^"), ("#E69F00", "v"),
         ("#595959", "P"))  # fmt: skip


def plot_ratios(laws: Mapping[str, Law], truth: SpectralSPDE) -> Figure:
    """Draw learned over true eigenvalues and noise variances of up to six laws.

    Intervals are drawn where a law has them; on the line at 1 a number is right.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.report import plot_ratios
        >>> heat = sl.catalogue.heat(n_modes=4)
        >>> law = sl.fit(sl.simulate(heat, 20, seed=0), heat.domain, 4)
        >>> len(plot_ratios({"exact": law}, heat).axes)
        2
    """
    if not 1 <= len(laws) <= len(LOOKS):
        expected, got = f"one to {len(LOOKS)} laws by name", str(len(laws))
        raise InputError("laws", expected=expected, got=got, fix="pass {'exact': law}")
    with style():
        figure = new_figure(1.75 * COLUMN, 0.7 * COLUMN)
        left, right = figure.subplots(1, 2, sharex=True)
        for ax, name, true in (
            (left, "eigenvalue", truth.eigenvalues),
            (right, "noise_variance", truth.noise_variance),
        ):
            _draw(ax, laws, name, np.asarray(true))
        left.set_ylabel(r"learned $\lambda_n$ / true")
        right.set_ylabel(r"learned $q_n$ / true")
        left.legend(loc="best")
    return figure


def _draw(ax: Axes, laws: Mapping[str, Law], name: str, true: np.ndarray) -> None:
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    ax.axhline(1.0, color=GREY, linewidth=1.0, linestyle="--")
    for i, (label, law) in enumerate(laws.items()):
        values = law.parameters[name].values / true[: law.n_modes, None]
        estimate, _, lower, upper = values.T
        reach = np.stack([estimate - lower, upper - estimate])
        at = np.arange(1, law.n_modes + 1) + 0.14 * (i - 0.5 * (len(laws) - 1))
        color, marker = LOOKS[i]
        ax.errorbar(
            at, estimate, yerr=np.where(np.isfinite(reach), reach, 0.0), color=color, fmt=marker,
            markersize=4.0, elinewidth=1.0, capsize=2.0, label=label,
        )  # fmt: skip
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("mode n")
    ax.locator_params(axis="x", integer=True)
