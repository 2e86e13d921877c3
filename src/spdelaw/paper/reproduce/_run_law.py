"""Runs of engines: a law from the training paths, its scores on the test paths, its curves."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.infer import fit
from spdelaw.infer.amortized import amortized_reconstruct
from spdelaw.law import Law, chaos_posterior
from spdelaw.paper.reproduce._data import Data
from spdelaw.paper.reproduce._distribution import Distribution, of_law
from spdelaw.paper.reproduce._network import network_curves
from spdelaw.paper.reproduce._plan import N_MODES, Run
from spdelaw.paper.reproduce._scores import gaussian_scores, point_scores, predictive_scores
from spdelaw.report.drawing import spatial_weights

Array = np.ndarray
#: Called with epochs done and in all.
Watch = Callable[[int, int], None]


def run_law(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """Fit an engine, or go on with its training, and score it."""
    settings: dict[str, Any] = dict(run.entry.settings)
    if run.epochs is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        settings |= {
            "epochs": run.epochs, "checkpoint": checkpoint, "seed": run.seed,
            "validation": data.validation["field"], "progress": on_epoch(watch),
        }  # fmt: skip
    if run.initialisation is not None:
        settings["initialisation"] = run.initialisation
    start = time.perf_counter()
    with warnings.catch_warnings():  # the record has what the law says about itself
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        law = fit(data.train["field"], data.equation.domain, N_MODES, **settings)
    seconds = time.perf_counter() - start
    test = data.test["field"]
    times, points = axes_of(test, law.domain)
    predictive = of_law(law, times, points)
    info = law.info
    network = run.entry.network
    return {
        "parameters": info["n_parameters"],
        "parameters_real": info["n_parameters"],
        "scores": {
            "reconstruct": _reconstruction(law, test),
            "predict": predictive_scores(predictive, test.values, run.seed),
        },
        "kl_per_path": law.kl_divergence(data.truth),
        "kl_limit": info.get("n_law_parameters", info["n_parameters"]) / (2 * info["n_paths"]),
        "curves": law_curves(predictive, law.domain, points),
        **({"network": network_curves(law, data, checkpoint, run.number)} if network else {}),
        "epochs": info.get("epochs"),
        "best_epoch": info.get("training", {}).get("best_epoch"),
        "notes": info["warnings"],
        "seconds": sum(info["seconds"].values()) if run.epochs else seconds,
    }


def _reconstruction(law: Law, test: xr.DataArray) -> dict[str, float]:
    """Each engine's own way to give back a path it has seen."""
    preset = law.info.get("preset")
    if preset == "structured":
        # Fields of K functions of time have no distribution for what those leave out.
        return point_scores(amortized_reconstruct(law, test)["mean"].values, test.values)
    if law.info.get("tail") == "dropped":
        return point_scores(chaos_posterior(law, test)["reconstruct_truncated"].values, test.values)
    found = amortized_reconstruct(law, test) if preset else law.reconstruct(test)
    std = np.sqrt(found["std"].values ** 2 + law.observation_variance)
    return gaussian_scores(found["mean"].values, std, test.values)


def on_epoch(watch: Watch | None) -> Any:
    """What a training calls after each epoch."""
    return None if watch is None else lambda state: watch(state.epoch, state.epochs)


def axes_of(fields: xr.DataArray, domain: AbstractDomain) -> tuple[Array, Array]:
    """Times and points of fields."""
    return fields["time"].values, fields[domain.dims[0]].values


def law_curves(law: Distribution, domain: AbstractDomain, points: Array) -> dict[str, Any]:
    """What the law figures show: the paper's Appendix A in closed form."""
    mean, variance = law.coefficients()
    _, std = law.field()
    return {
        "time": law.times,
        "averaged_variance": std**2 @ spatial_weights(domain, points),
        "energy_at_end": (mean[-1] ** 2 + variance[-1])[:N_MODES],
        "eigenvalues": law.space.linear.drift[:N_MODES],
        "noise_variance": law.space.linear.noise[:N_MODES],
    }
