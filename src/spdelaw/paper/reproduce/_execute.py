"""One run: fit, score, record."""

from __future__ import annotations

import platform
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
import xarray as xr

from spdelaw import __version__
from spdelaw.evaluation import decoder_floor
from spdelaw.paper.baselines import DLRNet, DLRNetwork, Grid, Predictor
from spdelaw.paper.reproduce._data import Data, make_data, thinned
from spdelaw.paper.reproduce._distribution import of_equation
from spdelaw.paper.reproduce._memory import peak_memory
from spdelaw.paper.reproduce._plan import N_MODES, N_PATHS, N_TIME, Run
from spdelaw.paper.reproduce._records import read_record, write_record
from spdelaw.paper.reproduce._run_law import Watch, axes_of, law_curves, on_epoch, run_law
from spdelaw.paper.reproduce._scores import (
    N_DRAWS,
    energy_score,
    gaussian_scores,
    point_scores,
    predictive_scores,
)

Array = np.ndarray


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
    work = {"reference": _limits, "law": run_law, "predictor": _predictor, "features": _features}
    checkpoint = out / "runs" / run.profile.name / run.name
    with peak_memory() as peak:
        found = work[run.entry.kind](run, data, checkpoint, watch)
    record = {
        "name": run.name, "regime": run.regime, "entry": run.entry.key, "seed": run.seed,
        "initialisation": run.initialisation, "label": run.entry.label, "kind": run.entry.kind,
        "noise": run.entry.noise, "published": run.entry.published, "profile": run.profile.name,
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
    times, points = axes_of(test, truth.domain)
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
            **law_curves(law, truth.domain, points),
            "equation_eigenvalues": data.equation.eigenvalues[:N_MODES],
            "equation_noise_variance": data.equation.noise_variance[:N_MODES],
        },
    }


# ------------------------------------------------------------------ predictors


def _predictor(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    domain = data.equation.domain
    (dim,) = domain.dims
    train = thinned(data.train.isel(path=slice(run.n_train)), run.thin, dim)
    validation = thinned(data.validation, run.thin, dim)
    system = Predictor.systems[run.entry.system](domain, **run.entry.settings)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    system.fit(
        train, noise=run.entry.noise or "hidden", validation=validation, seed=run.number,
        progress=on_epoch(watch), checkpoint=checkpoint, epochs=run.epochs, **run.rules,
    )  # fmt: skip
    test = data.test["field"].values
    scores = point_scores(system.predict(data.test, seed=run.number).values, test)
    if run.entry.noise == "independent":
        scores |= _sampled_scores(system, test, data.test, run.number)
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
        "crps": scores["crps"],
        "coverage": scores["coverage"],
        "energy_score": energy_score(draws, truth),
    }


def _features(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """``I_c[u0] + I[xi]`` of DLR-Net: no weight is trained."""
    test, domain = data.test, data.equation.domain
    times, points = axes_of(test["field"], domain)
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


def _versions() -> dict[str, str]:
    return {
        "spdelaw": __version__, "python": platform.python_version(), "numpy": np.__version__,
        "scipy": scipy.__version__, "torch": str(torch.__version__),
        "machine": platform.machine(), "threads": str(torch.get_num_threads()),
    }  # fmt: skip
