"""The engines side by side on one data set: spectra, distance to the truth, reconstruction."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw import report
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.evaluation import decoder_floor, law_distance
from spdelaw.infer import fit
from spdelaw.infer.amortized import amortized_reconstruct
from spdelaw.law import Law, chaos_posterior, relative_l2
from spdelaw.paper.demo._laws import N_MODES
from spdelaw.simulation import simulate

#: Functions of time, and new paths that are reconstructed.
N_TIME, NEW_PATHS = 16, 50
#: Most paths to learn from.
MOST_PATHS = 200
#: Settings of each engine, by the name in the table.
ENGINES: dict[str, dict[str, Any]] = {
    "exact": {},
    "chaos, tail dropped (the paper's model)": {"engine": "chaos", "tail": "dropped"},
    "amortized, structured": {"engine": "amortized", "preset": "structured"},
}


class Compared(NamedTuple):
    """One engine's law, judged.

    Attributes:
        law: what was learned.
        q_ratio: learned over true noise variance, the worst mode.
        kl: divergence from the truth per path, in nats.
        relative_l2: of new paths reconstructed by N modes and K functions of time; without a
            truncation in time for the exact engine.
        seconds: of the fit.
    """

    law: Law
    q_ratio: float
    kl: float
    relative_l2: float
    seconds: float


def compare_engines(
    fields: xr.DataArray, truth: SpectralSPDE, seed: int
) -> tuple[dict[str, Compared], float]:
    """Every engine on the same paths, and the floor of the truncated reconstruction."""
    some = fields[:MOST_PATHS]
    new = simulate(truth, NEW_PATHS, fields["time"].values, fields["x"].values, seed=seed + 1)
    found = {name: _compare(some, new, truth, settings) for name, settings in ENGINES.items()}
    floor = decoder_floor(new, truth.domain, N_MODES, N_TIME, truth.eigenvalues[:N_MODES])
    return found, floor.relative_l2


def _compare(
    fields: xr.DataArray, new: xr.DataArray, truth: SpectralSPDE, settings: dict[str, Any]
) -> Compared:
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Without the tail, decay and noise of a fast mode trade places: the table shows it.
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        law = fit(fields, truth.domain, N_MODES, **settings)
    seconds = time.perf_counter() - start
    q = law.parameters["noise_variance"].sel(statistic="estimate").values
    ratio = q / truth.noise_variance[:N_MODES]
    worst = float(ratio[np.argmax(np.abs(np.log(ratio)))])
    kl = float(law_distance(law, truth)["kl_per_path"])
    return Compared(law, worst, kl, _error(law, new), seconds)


def _error(law: Law, new: xr.DataArray) -> float:
    engine = law.info["engine"]
    if engine == "amortized":
        return float(amortized_reconstruct(law, new).attrs["relative_l2"])
    found = (
        chaos_posterior(law, new)["reconstruct_truncated"]
        if engine == "chaos"
        else law.reconstruct(new)["mean"]
    )
    return relative_l2(found.values[:, 1:], new.values[:, 1:])


def draw_engines(found: dict[str, Compared], truth: SpectralSPDE, file: Path) -> Path:
    """Figure of every engine's spectra over the true ones."""
    laws = {name: compared.law for name, compared in found.items()}
    return report.save_figure(report.plot_ratios(laws, truth), file)


def engines_document(found: dict[str, Compared], floor: float) -> dict[str, Any]:
    """The same for --json."""
    rows = {name: {k: v for k, v in c._asdict().items() if k != "law"} for name, c in found.items()}
    return {"floor": floor, "engines": rows}
