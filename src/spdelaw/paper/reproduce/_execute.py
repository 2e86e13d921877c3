"""One run: fit, score, record."""

from __future__ import annotations

import platform
import shutil
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
import xarray as xr

from spdelaw._version import __version__
from spdelaw.domain import AbstractDomain
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.evaluation import decoder_floor
from spdelaw.infer import fit
from spdelaw.infer.amortized import amortized_reconstruct
from spdelaw.law import Law, chaos_posterior
from spdelaw.paper.baselines._grid import Grid
from spdelaw.paper.baselines._predictor import Predictor
from spdelaw.paper.baselines.dlr_net import DLRNet, DLRNetwork
from spdelaw.paper.reproduce._data import Data, make_data, thinned
from spdelaw.paper.reproduce._distribution import Distribution, of_equation, of_law
from spdelaw.paper.reproduce._memory import peak_memory
from spdelaw.paper.reproduce._plan import N_MODES, N_PATHS, N_TIME, Run
from spdelaw.paper.reproduce._records import read_record, write_record
from spdelaw.paper.reproduce._scores import (
    N_DRAWS,
    energy_score,
    gaussian_scores,
    point_scores,
    predictive_scores,
)
from spdelaw.report._estimates import spatial_weights

Array = np.ndarray
#: Called with epochs done and in all.
Watch = Callable[[int, int], None]


def execute(run: Run, out: Path, watch: Watch | None = None) -> dict[str, Any]:
    """Run, or go on with, one entry, and write its record.

    Args:
        run: what to run.
        out: folder of records and checkpoints.
        watch: called after every epoch.

    Returns:
        The record as it was written.
    """
    data = make_data(run.regime, run.profile.reference_modes[run.regime], N_PATHS, run.seed)
    work = {"reference": _limits, "law": _law, "predictor": _predictor, "features": _features}
    checkpoint = out / "runs" / run.profile.name / run.name
    with peak_memory() as peak:
        found = work[run.entry.kind](run, data, checkpoint, watch)
    record = {
        "name": run.name, "regime": run.regime, "entry": run.entry.key, "seed": run.seed,
        "label": run.entry.label, "kind": run.entry.kind, "noise": run.entry.noise,
        "published": run.entry.published, "profile": run.profile.name,
        "configuration": run.configuration, "shortened": run.shortened, **found,
        "n_test": int(data.test.sizes["path"]), "peak_memory": peak.value,
        "peak_memory_is_own": peak.own, "versions": _versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"spdelaw reproduce --regime {run.regime} --profile {run.profile.name}",
    }  # fmt: skip
    path = write_record(out, run, record)
    if not run.profile.keep_runs:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return read_record(path)


# ------------------------------------------------------------------ limits


def _limits(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """The true law, and the least error of the decoder on the test paths."""
    test, truth = data.test["field"], data.truth
    times, points = _axes(test, truth.domain)
    law = of_equation(truth, times, points)
    basis = truth.domain.eigenfunctions(points, N_MODES)
    projected = test.values @ (basis @ np.linalg.pinv(basis)).T
    lam = truth.eigenvalues[:N_MODES]
    floor = decoder_floor(test, truth.domain, N_MODES, N_TIME, lam)
    return {
        "scores": {
            "predict": predictive_scores(law, test.values, run.seed),
            "floor": {"relative_l2": floor.relative_l2, "rmse": floor.rmse},
            "projection": point_scores(projected, test.values),
        },
        "curves": {
            **_curves(law, truth.domain, points),
            "equation_eigenvalues": data.equation.eigenvalues[:N_MODES],
            "equation_noise_variance": data.equation.noise_variance[:N_MODES],
        },
    }  # fmt: skip


# ------------------------------------------------------------------ laws


def _law(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    settings: dict[str, Any] = dict(run.entry.settings)
    if run.epochs is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        settings |= {
            "epochs": run.epochs, "checkpoint": checkpoint, "seed": run.seed,
            "validation": data.validation["field"], "progress": _epochs(watch),
        }  # fmt: skip
    start = time.perf_counter()
    with warnings.catch_warnings():  # the record has what the law says about itself
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        law = fit(data.train["field"], data.equation.domain, N_MODES, **settings)
    seconds = time.perf_counter() - start
    test = data.test["field"]
    times, points = _axes(test, law.domain)
    predictive = of_law(law, times, points)
    info = law.info
    return {
        "parameters": info["n_parameters"],
        "parameters_real": info["n_parameters"],
        "scores": {
            "reconstruct": _reconstruction(law, test),
            "predict": predictive_scores(predictive, test.values, run.seed),
        },
        "kl_per_path": law.kl_divergence(data.truth),
        "kl_limit": info.get("n_law_parameters", info["n_parameters"]) / (2 * info["n_paths"]),
        "curves": _curves(predictive, law.domain, points),
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


# ------------------------------------------------------------------ predictors


def _predictor(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    domain = data.equation.domain
    (dim,) = domain.dims
    train = thinned(data.train.isel(path=slice(run.n_train)), run.thin, dim)
    validation = thinned(data.validation, run.thin, dim)
    system = Predictor.systems[run.entry.system](domain, **run.entry.settings)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    system.fit(
        train, noise=run.entry.noise or "hidden", validation=validation, seed=run.seed,
        progress=_epochs(watch), checkpoint=checkpoint, epochs=run.epochs, **run.rules,
    )  # fmt: skip
    test = data.test["field"].values
    scores = point_scores(system.predict(data.test, seed=run.seed).values, test)
    if run.entry.noise == "independent":
        scores |= _sampled_scores(system, test, data.test, run.seed)
    info = system.info
    return {
        "parameters": system.n_parameters,
        "parameters_real": system.n_real_parameters,
        "scores": {"predict": scores},
        "epochs": info["epochs"],
        "best_epoch": info["best_epoch"],
        "stopped_early": info["stopped_early"],
        "seconds": info["seconds"],
    }


def _sampled_scores(
    system: Predictor, truth: Array, test: xr.Dataset, seed: int
) -> dict[str, float]:
    """Scores of the distribution that drawing the noise gives; it is normal at every point.

    The paths all start alike, so draws for the starts of some are draws for all.
    """
    starts = test["field"].isel(path=np.arange(N_DRAWS) % test.sizes["path"])
    starts = starts.assign_coords(path=np.arange(N_DRAWS))
    draws = system.predict(starts, seed=seed + 1).values
    scores = gaussian_scores(draws.mean(0), draws.std(0, ddof=1), truth)
    return {
        "crps": scores["crps"], "coverage": scores["coverage"],
        "energy_score": energy_score(draws, truth),
    }  # fmt: skip


def _features(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """``I_c[u0] + I[xi]`` of DLR-Net: no weight is trained."""
    test, domain = data.test, data.equation.domain
    times, points = _axes(test["field"], domain)
    network = DLRNet(domain, **run.entry.settings).network(Grid(times, points, domain))
    if not isinstance(network, DLRNetwork):
        raise TypeError("DLRNet builds a DLRNetwork")
    start = time.perf_counter()
    with torch.no_grad():
        initial = torch.tensor(test["field"].values[:, 0], dtype=torch.float32)
        drive = torch.tensor(test["noise_field"].values, dtype=torch.float32)
        u, a = network.solve(initial, drive)
    return {
        "parameters": 0,
        "parameters_real": 0,
        "scores": {"predict": point_scores((u + a).numpy(), test["field"].values)},
        "seconds": time.perf_counter() - start,
    }


# ------------------------------------------------------------------ parts


def _epochs(watch: Watch | None) -> Any:
    return None if watch is None else lambda state: watch(state.epoch, state.epochs)


def _axes(fields: xr.DataArray, domain: AbstractDomain) -> tuple[Array, Array]:
    return fields["time"].values, fields[domain.dims[0]].values


def _curves(law: Distribution, domain: AbstractDomain, points: Array) -> dict[str, Any]:
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


def _versions() -> dict[str, str]:
    return {
        "spdelaw": __version__, "python": platform.python_version(), "numpy": np.__version__,
        "scipy": scipy.__version__, "torch": str(torch.__version__),
        "machine": platform.machine(), "threads": str(torch.get_num_threads()),
    }  # fmt: skip
