"""Figures of trained networks from records: training, initial states, learned noise, draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.report.drawing import COLUMN, GREY, figure_of, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]

#: Colours by entry, as in the other figures.
COLOURS = {"amortized-paper": "#D55E00", "amortized-literal": "#999999"}
OTHER = "#CC79A7"


def plot_training(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw the relative error of the validation paths over epochs, one line for each network."""
    with style():
        ax = _axes(ax)
        for record, colour, label in _lines(records):
            curve = record["network"]
            ax.plot(curve["epoch"], curve["validation_relative_l2"], color=colour, label=label)
        floors = [r["scores"]["floor"]["relative_l2"] for r in records if r["kind"] == "reference"]
        if floors:
            ax.axhline(floors[0], color="black", linestyle="--", label="limit, test paths")
        ax.set(xlabel="epoch", ylabel="relative error, validation", yscale="log")
        ax.legend()
    return figure_of(ax)


def plot_initial_states(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw ``z0 - truth`` of each mode: bars of its spread over paths, lines as wide as claimed."""
    with style():
        ax = _axes(ax)
        drawn = list(_lines(records))
        for i, (record, colour, label) in enumerate(drawn):
            found = {k: np.array(v) for k, v in record["network"].items() if "initial" in k}
            error = found["initial_mean"] - found["initial_truth"]
            at = np.arange(1, len(error) + 1) + 0.15 * (i - 0.5 * (len(drawn) - 1))
            ax.errorbar(at, error, yerr=found["initial_spread"], color=colour, fmt="o",
                        markersize=2.5, capsize=2.0, elinewidth=0.8, label=label)  # fmt: skip
            ax.vlines(at, error - found["initial_claimed"], error + found["initial_claimed"],
                      color=colour, linewidth=3.0, alpha=0.5)  # fmt: skip
        ax.axhline(0.0, color="black", linestyle="--", linewidth=0.8)
        ax.set(xlabel="mode n", ylabel=r"learned $z_{0,n}$ minus true")
        ax.legend()
    return figure_of(ax)


def plot_observation_noise(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw the learned standard deviation of the observations along x; the data have none."""
    with style():
        ax = _axes(ax)
        for record, colour, label in _lines(records):
            curve = record["network"]
            ax.plot(curve["x"], curve["observation_std"], color=colour, label=label)
        ax.set(xlabel="x", ylabel=r"learned $\sigma(x)$")
        ax.set_ylim(bottom=0.0)
        ax.legend()
    return figure_of(ax)


def plot_draws(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw one path at the middle point: data, the truncated decoder, the untruncated process."""
    with style():
        ax = _axes(ax)
        curve = next(_lines(records))[0]["network"]
        ax.plot(curve["time"], curve["of_data"], color="black", label="data")
        ax.plot(curve["time"], curve["of_decoder"], color="#D55E00",
                label="decoder: K functions of time and noise")  # fmt: skip
        ax.plot(curve["time"], curve["of_process"], color=GREY,
                label=r"process with the learned $\lambda$, q")  # fmt: skip
        ax.set(xlabel="time", ylabel="X(t, x) at the middle")
        ax.legend()
    return figure_of(ax)


#: Figures of a regime by the end of their file's name.
NETWORK_FIGURES: dict[str, Callable[[list[Record]], Figure]] = {
    "training": plot_training,
    "initial": plot_initial_states,
    "sigma": plot_observation_noise,
    "draws": plot_draws,
}


def has_network(records: list[Record]) -> bool:
    """Whether a record has what these figures show."""
    return any("network" in record for record in records)


def _lines(records: list[Record]) -> Iterator[tuple[Record, str, str | None]]:
    """Records with a network, their colour, and a label for the first of each entry."""
    seen: set[str] = set()
    for record in (r for r in records if "network" in r):
        entry = record["entry"]
        name = None if entry in seen else record["label"]
        short = f" ({record['shortened'][0]})" if name and record["shortened"] else ""
        seen.add(entry)
        yield record, COLOURS.get(entry, OTHER), f"{name}{short}" if name else None


def _axes(ax: Axes | None) -> Axes:
    return new_figure(COLUMN, 0.8 * COLUMN).add_subplot() if ax is None else ax
