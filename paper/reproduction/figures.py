"""Figures made of records: learned laws against the truth, and trained networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paper.reproduction.plan import N_MODES
from spdelaw.report import save_figure
from spdelaw.report.figures.draw import COLUMN, GREY, figure_of, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
Array = np.ndarray

#: Largest factor between a drawn value and the truth.
LARGEST_FACTOR = 30.0
#: Okabe and Ito's colours and a marker, by entry; the truth is grey.
LOOK = {
    "exact": ("#0072B2", "o"),
    "chaos-modelled": ("#56B4E9", "s"),
    "chaos-dropped": ("#E69F00", "^"),
    "amortized-paper": ("#D55E00", "v"),
    "amortized-rescaled": ("#882255", ">"),
    "amortized-literal": ("#999999", "<"),
    "amortized-structured": ("#009E73", "D"),
}
OTHER = ("#CC79A7", "P")
TRUTH: dict[str, Any] = {"color": "black", "linewidth": 1.1, "label": "law of the data"}


# ------------------------------------------------------------------ curves


def laws(records: list[Record], curve: str) -> Iterator[tuple[str, list[Record], str]]:
    """Entry, records and label of each learned law that has this curve, in their order."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record["kind"] == "law" and curve in record.get("curves", {}):
            groups.setdefault(record["entry"], []).append(record)
    for entry, group in groups.items():
        short = f" ({group[0]['shortened'][0]})" if group[0]["shortened"] else ""
        yield entry, group, group[0]["label"].removeprefix("spdelaw, ") + short


def truths(records: list[Record]) -> list[Record]:
    """Records of the law that made the data, one for each data set."""
    return [r for r in records if r["kind"] == "reference"]


def moments(group: list[Record], curve: str) -> tuple[Array, Array]:
    """Mean and standard deviation over runs; zero spread for a single one."""
    values = np.array([r["curves"][curve] for r in group], dtype=float)
    std = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    return values.mean(0), std


def bars(records: list[Record], group: list[Record], curve: str) -> tuple[Array, Array]:
    """Means, and bars (2, N) below and above them, for a logarithmic axis.

    A mean further from the truth than `LARGEST_FACTOR`, such as a rate of zero, is drawn at that
    distance, and no bar reaches zero.
    """
    mean, std = moments(group, curve)
    if references := truths(records):
        truth = moments(references, curve)[0]
        mean = np.clip(mean, truth.min() / LARGEST_FACTOR, truth.max() * LARGEST_FACTOR)
    return mean, np.stack([np.minimum(std, 0.999 * mean), std])


def modes(values: Array) -> Array:
    """Numbers of the modes, from 1."""
    return np.arange(1.0, len(values) + 1)


# ------------------------------------------------------------------ laws


def plot_variance_over_time(records: list[Record], ax: Axes | None = None) -> Figure:
    """Draw the spatially averaged variance, observation noise included (paper, Appendix A)."""
    with style():
        ax = new_figure(COLUMN, 0.9 * COLUMN).add_subplot() if ax is None else ax
        for entry, group, label in laws(records, "averaged_variance"):
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


def _plot_by_mode(records: list[Record], curve: str, label: str, ax: Axes | None) -> Figure:
    with style():
        if ax is None:
            ax = new_figure(COLUMN, COLUMN).add_subplot()
        groups = list(laws(records, curve))
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


def _side_by_side(mode: Array, shift: float, curve: str) -> Array:
    """Points of several systems next to one another, on a linear or a logarithmic axis."""
    return mode * (1.0 + 0.02 * shift) if curve == "noise_variance" else mode + 0.08 * shift


# ------------------------------------------------------------------ networks


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
            curve = {k: np.array(v) for k, v in record["network"].items() if "initial" in k}
            error = curve["initial_mean"] - curve["initial_truth"]
            at = np.arange(1, len(error) + 1) + 0.15 * (i - 0.5 * (len(drawn) - 1))
            ax.errorbar(at, error, yerr=curve["initial_spread"], color=colour, fmt="o",
                        markersize=2.5, capsize=2.0, elinewidth=0.8, label=label)  # fmt: skip
            ax.vlines(at, error - curve["initial_claimed"], error + curve["initial_claimed"],
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
    """Whether a record has the curves of a trained network."""
    return any("network" in record for record in records)


def _lines(records: list[Record]) -> Iterator[tuple[Record, str, str | None]]:
    """Records with a network, their colour, and a label for the first of each entry."""
    labelled: set[str] = set()
    for record in (r for r in records if "network" in r):
        entry = record["entry"]
        name = None if entry in labelled else record["label"]
        short = f" ({record['shortened'][0]})" if name and record["shortened"] else ""
        labelled.add(entry)
        yield record, LOOK.get(entry, OTHER)[0], f"{name}{short}" if name else None


def _axes(ax: Axes | None) -> Axes:
    return new_figure(COLUMN, 0.8 * COLUMN).add_subplot() if ax is None else ax


# ------------------------------------------------------------------ files


def draw_figures(
    out: Path, records: list[Record], suffixes: tuple[str, ...] = ("png", "pdf")
) -> list[Path]:
    """Write all figures of all regimes that have a law among the records."""
    files = []
    for regime in sorted({r["regime"] for r in records}):
        group = [r for r in records if r["regime"] == regime]
        if not any(True for _ in laws(group, "eigenvalues")):
            continue
        drawn = FIGURES | (NETWORK_FIGURES if has_network(group) else {})
        for name, plot in drawn.items():
            figure = plot(group)
            files += [save_figure(figure, out / f"{regime}-{name}.{s}") for s in suffixes]
    return files
