"""What the demo learns: laws against their truth, gaps filled, a forecast."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw import report
from spdelaw.data import mask
from spdelaw.equation import SpectralSPDE
from spdelaw.evaluation import law_distance
from spdelaw.infer import fit
from spdelaw.law import Law
from spdelaw.simulation import simulate

#: Modes to report; Regime B has 50.
N_MODES = 8
#: What is compared with the truth.
SPECTRA = ("eigenvalue", "noise_variance")
#: Two-sided 95 % of a normal, and how often a right law may be called wrong.
Z95, FALSE_ALARM_RATE = 1.959963984540054, 1e-4
#: The hard case: few paths, every fifth time, a third hidden, noise on the rest.
FEW, THIN, HIDDEN, NOISE = 60, 5, 0.3, 0.05
#: Share of the path that a forecast sees, and paths it is judged on.
SEEN, JUDGED = 0.6, 40


class Learned(NamedTuple):
    """A law, its truth and the distance between them."""

    title: str
    law: Law
    truth: SpectralSPDE
    distance: dict[str, Any]
    seconds: float

    @property
    def bound(self) -> float:
        """What the largest z-score may be, Bonferroni over both spectra."""
        return float(-scipy.special.ndtri(FALSE_ALARM_RATE / (4 * self.law.n_modes)))

    @property
    def n_undetermined(self) -> int:
        """Numbers without a finite interval: their z-score of zero would hide a failure."""
        return sum(int((~determined(self.law, name)).sum()) for name in SPECTRA)

    @property
    def agrees(self) -> bool:
        """Whether every number is determined and chance explains its error."""
        return self.n_undetermined == 0 and bool(self.distance["largest_z"] < self.bound)


def learn(title: str, data: xr.DataArray, truth: SpectralSPDE, **settings: Any) -> Learned:
    """Fit the exact engine and compare with the truth."""
    start = time.perf_counter()
    law = fit(data, truth.domain, min(N_MODES, truth.n_modes), **settings)
    return Learned(title, law, truth, law_distance(law, truth), time.perf_counter() - start)


def learn_hard_case(fields: xr.DataArray, truth: SpectralSPDE, seed: int) -> Learned:
    """The same law from few paths with noise and a third of the values missing.

    With the default settings: a number tuned on these very data would prove nothing.
    """
    few = fields[:FEW, ::THIN]
    noise = NOISE * np.random.default_rng(seed).standard_normal(few.shape)
    data = mask(few + noise, "random", HIDDEN, seed=seed)
    title = (
        f"{len(few)} paths, {few.sizes['time']} times, {100 * HIDDEN:g} % missing, noise {NOISE:g}"
    )
    return learn(title, data, truth)


def determined(law: Law, name: str) -> np.ndarray:
    """Which numbers of a spectrum have a finite interval."""
    return np.asarray(np.isfinite(law.parameters[name].values).all(axis=1))


def learned_document(learned: Learned) -> dict[str, Any]:
    """The same for --json."""
    table = learned.law.parameters
    return {
        "title": learned.title, "agrees": learned.agrees, "bound": learned.bound,
        "n_undetermined": learned.n_undetermined,
        "seconds": learned.seconds, **learned.distance,
        "eigenvalue": table["eigenvalue"].values,
        "noise_variance": table["noise_variance"].values,
        "observation_std": table["observation_std"].values,
    }  # fmt: skip


def draw_law(learned: Learned, file: Path) -> Path:
    """Figure of the learned spectra against the truth."""
    return report.save_figure(report.plot_spectrum(learned.law, learned.truth), file)


class Used(NamedTuple):
    """What a law did on new paths: error, share of truth inside 95 % bands, the figure."""

    rmse: float
    coverage: float
    figure: Path


def fill_gaps(learned: Learned, seed: int, file: Path) -> Used:
    """Reconstruct new noisy paths through large gaps; judged inside the gaps only."""
    clean, gappy = _unseen(learned, 8, seed, 0.4)
    result = learned.law.reconstruct(gappy)
    figure = report.save_figure(report.plot_reconstruction(gappy, result), file)
    return Used(*_judge(result, clean, np.isnan(gappy.values)), figure)


def write_page(learned: Learned, seed: int, file: Path) -> Path:
    """The report of a law on new noisy paths with large gaps."""
    gappy = _unseen(learned, FEW, seed, HIDDEN)[1]
    source = {"data": f"{FEW} new paths, simulated with seed {seed}, noise and gaps added",
              "law law": f"learned from {learned.title}", "same": "no"}  # fmt: skip
    title = "Stochastic heat equation, learned through gaps and noise"
    return report.write_report(
        file, learned.law, gappy, truth=learned.truth, title=title, source=source
    )


def _unseen(
    learned: Learned, n_paths: int, seed: int, hidden: float
) -> tuple[xr.DataArray, xr.DataArray]:
    """New paths of the truth, and the same with noise and gaps in blocks."""
    clean = simulate(learned.truth, n_paths, learned.law.times, seed=seed)
    noise = NOISE * np.random.default_rng(seed).standard_normal(clean.shape)
    return clean, mask(clean + noise, "blocks", hidden, seed=seed)


def look_ahead(learned: Learned, seed: int, file: Path) -> Used:
    """Forecast new paths from their first part."""
    fields = simulate(learned.truth, JUDGED, learned.law.times, seed=seed)
    n = int(SEEN * fields.sizes["time"])
    history, later = fields[:, :n], fields[:, n:]
    result = learned.law.forecast(history, later["time"].values)
    figure = report.plot_forecast(history, result, later, point=1.0)
    everywhere = np.ones(later.shape, dtype=bool)
    return Used(*_judge(result, later, everywhere), report.save_figure(figure, file))


def _judge(result: xr.Dataset, truth: xr.DataArray, where: np.ndarray) -> tuple[float, float]:
    error = (result["mean"].values - truth.values)[where]
    std = result["std"].values[where]
    inside = np.abs(error) <= Z95 * std
    return float(np.sqrt(np.mean(error**2))), float(inside.mean())
