"""Law figures from records: mean and spread over seeds of every system that has a law."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.paper.reproduce._curves import bars, laws, modes, moments, truths
from spdelaw.paper.reproduce._network_figures import NETWORK_FIGURES, has_network
from spdelaw.paper.reproduce._plan import N_MODES
from spdelaw.report.drawing import COLUMN, GREY, figure_of, new_figure, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
Array = np.ndarray

#: Okabe and Ito's colours and a marker, by entry; the truth is grey.
LOOK = {
    "exact": ("#0072B2", "o"),
    "chaos-modelled": ("#56B4E9", "s"),
    "chaos-dropped": ("#E69F00", "^"),
    "amortized-paper": ("#D55E00", "v"),
    "amortized-literal": ("#999999", "<"),
    "amortized-structured": ("#009E73", "D"),
}
OTHER = ("#CC79A7", "P")
TRUTH: dict[str, Any] = {"color": "black", "linewidth": 1.1, "label": "law of the data"}


def plot_variance_over_time(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw the spatially averaged variance, observation noise included (paper, Appendix A)."""
    with style():
        ax = new_figure(COLUMN, 0.9 * COLUMN).add_subplot() if ax is None else ax
        for entry, group, label in laws(records):
            colour, _ = LOOK.get(entry, OTHER)
            mean, std = moments(group, "averaged_variance")
            time = group[0]["curves"]["time"]
            ax.fill_between(time, mean - std, mean + std, color=colour, alpha=0.25, linewidth=0)
            ax.plot(time, mean, color=colour, label=label)
        if truth := truths(records):
            mean, _ = moments(truth, "averaged_variance")
            ax.plot(truth[0]["curves"]["time"], mean, "--", **TRUTH)
        ax.set(xlabel="time", ylabel="spatially averaged variance")
        ax.set_ylim(bottom=0.0)
        _legend_above(ax)
    return figure_of(ax)


def plot_energy_at_end(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw ``E c_n(T)^2`` of each mode at the last time."""
    return _plot_by_mode(records, "energy_at_end", r"energy $E\,c_n(T)^2$", ax)


def plot_eigenvalues(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw the learned eigenvalues, against the equation's and those of the data's scheme."""
    return _plot_by_mode(records, "eigenvalues", r"eigenvalue $\lambda_n$", ax)


def plot_noise_amplitudes(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw the learned noise variances ``q_n`` on logarithmic axes."""
    figure = _plot_by_mode(records, "noise_variance", r"noise variance $q_n$", ax)
    with style():
        axes = figure.axes[0] if ax is None else ax
        axes.set_xscale("log")
        numbers = range(1, N_MODES + 1)
        axes.set_xticks(numbers, [str(n) for n in numbers])
        axes.set_xticks([], minor=True)
    return figure


#: Figures of a regime by the end of their file's name.
FIGURES: dict[str, Callable[[list[Record]], Figure]] = {
    "variance": plot_variance_over_time,
    "spectrum": plot_energy_at_end,
    "eigenvalues": plot_eigenvalues,
    "noise": plot_noise_amplitudes,
}


def draw_figures(
    out: Path, records: list[Record], suffixes: tuple[str, ...] = ("png", "pdf")
) -> list[Path]:
    """Write all figures of all regimes that have a law among the records."""
    files = []
    for regime in sorted({r["regime"] for r in records}):
        own = [r for r in records if r["regime"] == regime]
        if not any(True for _ in laws(own)):
            continue
        drawn = FIGURES | (NETWORK_FIGURES if has_network(own) else {})
        for name, plot in drawn.items():
            figure = plot(own)
            files += [save_figure(figure, out / f"{regime}-{name}.{s}") for s in suffixes]
    return files


def _plot_by_mode(records: list[Record], curve: str, label: str, ax: Axes | None) -> Figure:
    with style():
        if ax is None:
            ax = new_figure(COLUMN, COLUMN).add_subplot()
        groups = list(laws(records))
        for i, (entry, group, name) in enumerate(groups):
            colour, marker = LOOK.get(entry, OTHER)
            mean, reach = bars(records, group, curve)
            at = _side_by_side(modes(mean), i - 0.5 * (len(groups) - 1), curve)
            ax.errorbar(
                at, mean, yerr=reach, color=colour, fmt=marker, markersize=3.6,
                elinewidth=1.1, capsize=2.0, label=name, zorder=3,
            )  # fmt: skip
        if truth := truths(records):
            mean, _ = moments(truth, curve)
            ax.plot(modes(mean), mean, "--", **TRUTH)
            exact = truth[0]["curves"].get(f"equation_{curve}")
            if exact is not None:
                ax.plot(modes(mean), exact, ":", color=GREY, linewidth=1.1, label="equation")
        ax.set(yscale="log", xlabel="mode n", ylabel=label)
        ax.locator_params(axis="x", integer=True)
        _legend_above(ax)
    return figure_of(ax)


def _legend_above(ax: Axes) -> None:
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, labelspacing=0.2)


def _side_by_side(mode: Array, place: float, curve: str) -> Array:
    """Points of several systems beside one another, on a linear or a logarithmic axis."""
    return mode * (1.0 + 0.02 * place) if curve == "noise_variance" else mode + 0.08 * place
