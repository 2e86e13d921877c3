"""Draw the picture at the head of the README and of the documentation.

    python -m benchmarks.overview

fits the Pacific record that comes with the package after a third of it was hidden in blocks, as
clouds hide it, and writes ``docs/assets/overview.png``: what is observed, what is learned, and
what comes next.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as mdates
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import spdelaw as sl
from spdelaw.report.figures.draw import save_figure

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "assets" / "overview.png"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#595959"
N_MODES = 6
#: Cells that a cloud hides, by month and by degree.
PIECE, HIDDEN = (3, 12), 0.33


def main() -> int:
    """Fit once, draw three panels."""
    line = sl.datasets.equatorial_pacific().mean("latitude", keep_attrs=True)
    seen = line.where(_clear(line.shape))
    how = sl.Preparation(rename={"longitude": "x"}, anomalies="month")
    domain = sl.Interval(150, 270, boundary="neumann")
    law = sl.fit(seen, domain, N_MODES, prepare=how, initial="stationary", nuisance=0)
    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1, 1.25])
    _observed(left, seen)
    _learned(middle, law)
    _forecast(right, law, seen)
    save_figure(figure, PICTURE)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size // 1024} kB")
    return 0


def _clear(shape: tuple[int, ...]) -> np.ndarray:
    """False in blocks that hide a third of the record."""
    cells = [-(-size // piece) for size, piece in zip(shape, PIECE, strict=True)]
    open_sky = np.random.default_rng(3).uniform(size=cells) >= HIDDEN
    return np.kron(open_sky, np.ones(PIECE, bool))[: shape[0], : shape[1]]


def _observed(ax: Axes, seen: xr.DataArray) -> None:
    anomaly = seen.groupby("time.month") - seen.groupby("time.month").mean()
    ax.set_facecolor("#d9d9d9")
    ax.pcolormesh(seen.longitude, seen.time, anomaly, cmap="RdBu_r", vmin=-3, vmax=3)
    ax.set_title(
        "You have: sea-surface temperature,\na third of it behind clouds", loc="left", fontsize=9.5
    )
    ax.set_xlabel("degrees east, along the equator")
    ax.yaxis.set_major_locator(mdates.YearLocator())
    ax.yaxis.set_major_formatter(mdates.DateFormatter("%Y"))


def _learned(ax: Axes, law: sl.Law) -> None:
    memory = 1 / law.parameters.eigenvalue / 30.4
    low, mid, high = (memory.sel(statistic=s).values for s in ("upper", "estimate", "lower"))
    modes = law.parameters.mode.values
    ax.errorbar(modes, mid, [mid - low, high - mid], fmt="o", color=ORANGE, capsize=3)
    ax.set(yscale="log", xlabel="pattern, coarse to fine", ylabel="memory in months")
    ax.set_title(
        "You learn: the law, here how long\neach pattern lasts, 95 % intervals",
        loc="left",
        fontsize=9.5,
    )
    ax.grid(color="#e5e5e5")


def _forecast(ax: Axes, law: sl.Law, seen: xr.DataArray) -> None:
    place = {"longitude": 200.0}
    past = law.reconstruct(seen).isel(path=0).sel(place, method="nearest") - 273.15
    ahead = law.forecast(seen, steps=8).isel(path=0).sel(place, method="nearest")
    spread = 1.96 * ahead["std"]
    mean = ahead["mean"] - 273.15
    recent = seen.sel(place, method="nearest")[-30:] - 273.15
    ax.fill_between(ahead.time, mean - spread, mean + spread, color=ORANGE, alpha=0.25, lw=0)
    ax.plot(past.time[-30:], past["mean"][-30:], color=GREY, lw=1, label="reconstructed")
    ax.plot(recent.time, recent, "o", ms=3.5, color=BLUE, label="observed")
    ax.plot(ahead.time, mean, color=ORANGE, label="forecast, 95 %")
    ax.set_title(
        "You get: gaps filled, forecasts with\nbands, in °C and dates (160° W)",
        loc="left",
        fontsize=9.5,
    )
    ax.xaxis.set_major_locator(mdates.YearLocator())
    ax.xaxis.set_major_formatter(mdates.DateFormatter("%Y"))
    ax.grid(color="#e5e5e5")
    ax.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    sys.exit(main())
