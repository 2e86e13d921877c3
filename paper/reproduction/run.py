"""One run of the comparison: simulate the paper's data, fit, score, and write a record."""

from __future__ import annotations

import contextlib
import functools
import platform
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
import xarray as xr

import spdelaw as sl
from paper.baselines import FSPDENO, DLRNet, DLRNetwork, Grid, Predictor
from paper.baselines.spdeno import time_floor
from paper.regimes import EQUATIONS
from paper.reproduction.gaps import completion_scores
from paper.reproduction.plan import N_MODES, N_PATHS, N_TIME, Run
from paper.reproduction.records import read_record, write_record
from paper.reproduction.scores import (
    N_DRAWS,
    Distribution,
    best_constant_path,
    energy_score,
    gaussian_scores,
    of_equation,
    of_law,
    point_scores,
    predictive_scores,
)
from spdelaw.amortized import amortized_posterior, amortized_reconstruct, sample_decoder
from spdelaw.amortized.training import read_checkpoint
from spdelaw.errors import IdentifiabilityWarning
from spdelaw.evaluation import decoder_floor
from spdelaw.law import chaos_posterior
from spdelaw.report.figures.moments import spatial_weights

Array = np.ndarray
#: Called with the epochs done and the number of epochs.
Watch = Callable[[int, int], None]
#: Standard deviations of draws that never differ at a point.
LEAST_STD = 1e-9
#: Epochs between two points of a training curve in a record.
EVERY = 5


def execute(run: Run, out: Path, watch: Watch | None = None) -> dict[str, Any]:
    """Run one entry, or resume it, and write its record.

    Args:
        run: the run.
        out: folder of records and checkpoints.
        watch: called after every epoch.

    Returns:
        The record as it was written.
    """
    data = make_data(run.regime, run.profile.reference_modes[run.regime], N_PATHS, run.seed)
    work = {"reference": _limits, "law": _law, "predictor": _predictor, "features": _features}
    checkpoint = out / "runs" / run.profile.name / run.name
    with peak_memory() as peak:
        results = work[run.entry.kind](run, data, checkpoint, watch)
    record = {
        "name": run.name, "regime": run.regime, "entry": run.entry.key, "seed": run.seed,
        "initialisation": run.initialisation, "label": run.entry.label, "kind": run.entry.kind,
        "noise": run.entry.noise, "published": run.entry.published, "profile": run.profile.name,
        "configuration": run.configuration, "shortened": run.shortened, **results,
        "n_test": int(data.test.sizes["path"]), "peak_memory": peak.value,
        "peak_memory_is_own": peak.was_reset, "versions": _versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m paper reproduce --regime {run.regime} --profile {run.profile.name}",
    }  # fmt: skip
    path = write_record(out, run, record)
    if not run.profile.keep_runs:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return read_record(path)


def _versions() -> dict[str, str]:
    return {
        "spdelaw": sl.__version__, "python": platform.python_version(), "numpy": np.__version__,
        "scipy": scipy.__version__, "torch": str(torch.__version__),
        "machine": platform.machine(), "threads": str(torch.get_num_threads()),
    }  # fmt: skip


# ------------------------------------------------------------------ data


class Data(NamedTuple):
    """Paths with their noise, the equation, and the law of the scheme that simulated them."""

    train: xr.Dataset
    validation: xr.Dataset
    test: xr.Dataset
    equation: sl.SpectralSPDE
    truth: sl.SpectralSPDE


@functools.lru_cache(maxsize=1)
def make_data(regime: str, n_modes: int, n_paths: int, seed: int) -> Data:
    """Simulate with the paper's scheme and split; the seed serves the paths and the split."""
    equation = EQUATIONS[regime](n_modes)
    simulated = sl.simulate(equation, n_paths, seed=seed, scheme="semi_implicit", return_noise=True)
    if not isinstance(simulated, xr.Dataset):
        raise TypeError("simulate(..., return_noise=True) gives a Dataset")
    train, validation, test = (
        simulated.sel(path=fields["path"]) for fields in sl.split(simulated["field"], seed=seed)
    )
    return Data(train, validation, test, equation, scheme_law(equation))


def scheme_law(equation: sl.SpectralSPDE) -> sl.SpectralSPDE:
    """The equation whose exact paths have the law of the semi-implicit scheme on its times.

    ``c <- (c + sqrt(q dt) N) / (1 + lambda dt)`` is the exact transition of
    ``lambda' = log(1 + lambda dt) / dt`` and ``q' = 2 lambda' q dt a^2 / (1 - a^2)`` with
    ``a = 1 / (1 + lambda dt)``. A law that is learned from such paths has to be compared with
    these.

    Example:
        >>> heat = sl.catalogue.heat(8)
        >>> law = scheme_law(heat)
        >>> [
        ...     round(float(v[7] / w[7]), 2)
        ...     for v, w in (
        ...         (law.eigenvalues, heat.eigenvalues),
        ...         (law.noise_variance, heat.noise_variance),
        ...     )
        ... ]
        [0.87, 0.75]
    """
    dt = float(equation.times[1] - equation.times[0])
    lam, q = equation.eigenvalues, equation.noise_variance
    a, slow = 1.0 / (1.0 + lam * dt), np.log1p(lam * dt) / dt
    return sl.SpectralSPDE(
        equation.domain, equation.n_modes, slow, noise=2.0 * slow * q * dt * a**2 / (1.0 - a**2),
        initial=equation.initial_mean, times=equation.times, n_points=equation.n_points,
        label=f"{equation.label}, law of the semi-implicit scheme",
    )  # fmt: skip


def thinned(data: xr.Dataset, step: int, dim: str) -> xr.Dataset:
    """Every ``step``-th time and point; increments of the noise add up in between."""
    if step == 1:
        return data
    rows = {"time": slice(None, None, step)}
    noise = {
        name: data[name].cumsum("time").isel(rows).diff("time", label="upper")
        for name in ("noise_field", "noise_increment")
    }
    first = {name: data[name].isel(time=[0]) for name in noise}
    out = data.isel(rows).assign(
        {name: xr.concat([first[name], noise[name]], "time") for name in noise}
    )
    return out.isel({dim: slice(None, None, step)})


def _axes(fields: xr.DataArray, domain: sl.AbstractDomain) -> tuple[Array, Array]:
    """Times and points of fields."""
    return fields["time"].values, fields[domain.dims[0]].values


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
            "constant": _constant(data, test),
            "floor": {"relative_l2": floor.relative_l2, "rmse": floor.rmse},
            "projection": point_scores(projected, test.values),
        },
        "curves": {
            **_law_curves(law, truth.domain, points),
            "equation_eigenvalues": data.equation.eigenvalues[:N_MODES],
            "equation_noise_variance": data.equation.noise_variance[:N_MODES],
        },
    }


def _constant(data: Data, test: xr.DataArray) -> dict[str, float]:
    """Scores of the best constant path of the training set, and of a law that is this path."""
    path = best_constant_path(data.train["field"].values[:, 1:])
    later = np.broadcast_to(path, test[:, 1:].shape)
    fields = np.concatenate([test.values[:, :1], later], axis=1)
    score = energy_score(fields[:2], test.values)
    return point_scores(fields, test.values) | {"energy_score": score}


def _law_curves(law: Distribution, domain: sl.AbstractDomain, points: Array) -> dict[str, Any]:
    """Curves of the law figures: the paper's Appendix A in closed form."""
    mean, variance = law.coefficients()
    _, std = law.field()
    return {
        "time": law.times,
        "averaged_variance": std**2 @ spatial_weights(domain, points),
        "energy_at_end": (mean[-1] ** 2 + variance[-1])[:N_MODES],
        "eigenvalues": law.space.linear.drift[:N_MODES],
        "noise_variance": law.space.linear.noise[:N_MODES],
    }


# ------------------------------------------------------------------ engines


def _law(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """Fit an engine, or resume its training, and score it on the test paths."""
    settings: dict[str, Any] = dict(run.entry.settings)
    if run.epochs is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        settings |= {
            "epochs": run.epochs, "checkpoint": checkpoint, "seed": run.seed,
            "validation": data.validation["field"], "progress": _on_epoch(watch),
        }  # fmt: skip
    if run.initialisation is not None:
        settings["initialisation"] = run.initialisation
    start = time.perf_counter()
    with warnings.catch_warnings():  # the record has the warnings of the law
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        # The models of the comparison have no mean, and no memory outside their modes.
        if settings.get("engine") in ("exact", "chaos"):
            settings = {"mean": "zero", "residual": "white"} | settings
        law = sl.fit(data.train["field"], data.equation.domain, N_MODES, **settings)
    seconds = time.perf_counter() - start
    test = data.test["field"]
    times, points = _axes(test, law.domain)
    predictive = of_law(law, times, points)
    info = law.info
    network = run.entry.network
    return {
        "parameters": info["n_parameters"],
        "parameters_real": info["n_parameters"],
        "scores": {
            "reconstruct": _reconstruction(law, test),
            "predict": predictive_scores(predictive, test.values, run.seed),
            **_completion(run, law, test),
        },
        "kl_per_path": law.kl_divergence(data.truth),
        "kl_limit": info.get("n_law_parameters", info["n_parameters"]) / (2 * info["n_paths"]),
        "curves": _law_curves(predictive, law.domain, points),
        **({"network": _network_curves(law, data, checkpoint, run.number)} if network else {}),
        "epochs": info.get("epochs"),
        "best_epoch": info.get("training", {}).get("best_epoch"),
        "notes": info["warnings"],
        "seconds": sum(info["seconds"].values()) if run.epochs else seconds,
    }


def _reconstruction(law: sl.Law, test: xr.DataArray) -> dict[str, float]:
    """Scores of the test paths, reconstructed in the way of the engine."""
    preset = law.info.get("preset")
    if preset == "structured":
        # Fields of K functions of time have no distribution for the residual.
        return point_scores(amortized_reconstruct(law, test)["mean"].values, test.values)
    if law.info.get("tail") == "dropped":
        return point_scores(chaos_posterior(law, test)["reconstruct_truncated"].values, test.values)
    result = amortized_reconstruct(law, test) if preset else law.reconstruct(test)
    return gaussian_scores(result["mean"].values, result["std"].values, test.values)


def _completion(run: Run, system: Any, test: xr.DataArray) -> dict[str, dict[str, float]]:
    """Scores of paths with gaps, by systems whose ``reconstruct`` accepts them."""
    if run.regime not in run.entry.gappy:
        return {}
    return {"gaps": completion_scores(system.reconstruct, test, run.seed)}


def _on_epoch(watch: Watch | None) -> Any:
    """Function that a training calls after each epoch."""
    return None if watch is None else lambda state: watch(state.epoch, state.epochs)


# ------------------------------------------------------------------ figures of a trained network


def _network_curves(law: sl.Law, data: Data, checkpoint: Path, seed: int) -> dict[str, Any]:
    """Training, initial states, learned noise and draws of a trained network, for its figures.

    ``z0`` of the equation is one number for each mode, the same for all paths; the encoder gives a
    normal for each path. The spread of its means over paths, and the width that it claims,
    shows whether it learned that. The record keeps two kinds of draws: of the decoder, truncated
    and with observation noise, as the paper samples its model, and of the process with the learned
    lambda and q.
    """
    return {
        **_training(checkpoint),
        **_initial_states(law, data),
        "x": law.points,
        "observation_std": np.sqrt(law.observation_variance),
        **_draws(law, data, seed),
    }


def _training(checkpoint: Path) -> dict[str, Any]:
    snapshot, identity = read_checkpoint(checkpoint)
    rows = np.array(snapshot.history)
    at = np.unique(np.r_[np.arange(EVERY - 1, len(rows), EVERY), len(rows) - 1])
    return {
        "epoch": at + 1,
        "loss": rows[at, 0],
        "validation_loss": rows[at, 1],
        "validation_relative_l2": rows[at, 2],
        "schedule": identity["config"]["schedule"],
    }


def _initial_states(law: sl.Law, data: Data) -> dict[str, Any]:
    """By mode, over test paths: mean and spread of the posterior means, claimed width."""
    posterior = amortized_posterior(law, data.test["field"])
    return {
        "initial_mean": posterior["z0_mean"].mean("path").values,
        "initial_spread": posterior["z0_mean"].std("path", ddof=1).values,
        "initial_claimed": posterior["z0_std"].mean("path").values,
        "initial_truth": data.equation.initial_mean[: law.n_modes],
    }


def _draws(law: sl.Law, data: Data, seed: int) -> dict[str, Any]:
    """One path at the middle point: of the data, of the decoder, and without truncation."""
    middle = len(law.points) // 2
    fields = {
        "of_data": data.test["field"],
        "of_decoder": sample_decoder(law, 1, seed=seed),
        "of_process": law.sample(1, seed=seed),
    }
    return {"time": law.times} | {name: f.values[0, :, middle] for name, f in fields.items()}


# ------------------------------------------------------------------ predictors


def _predictor(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """Train a baseline, or resume its training, and score it on the test paths."""
    domain = data.equation.domain
    (dim,) = domain.dims
    train = thinned(data.train.isel(path=slice(run.n_train)), run.thin, dim)
    validation = thinned(data.validation.isel(path=slice(run.n_train)), run.thin, dim)
    system = Predictor.systems[run.entry.system](domain, **run.entry.settings)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    system.fit(
        train, noise=run.entry.noise or "hidden", validation=validation, seed=run.number,
        progress=_on_epoch(watch), checkpoint=checkpoint, epochs=run.epochs, **run.rules,
    )  # fmt: skip
    test, seed = data.test["field"].values, run.number
    draws = _draws_of(system, data, seed)
    task = "reconstruct" if system.sees_path else "predict"
    scores = {task: point_scores(system.predict(data.test, seed=seed).values, test)}
    if run.entry.noise in system.sampled:
        mean, std = draws.mean(0), draws.std(0, ddof=1)
        law = gaussian_scores(mean, np.maximum(std, LEAST_STD), test)
        point = scores.get("predict") if system.predicts_mean else None
        scores["predict"] = law | (point or {})
    of_law = scores.setdefault("predict", {})
    of_law["energy_score"] = energy_score(draws, test)
    scores |= _completion(run, system, data.test["field"])
    info, floor = system.info, {}
    if isinstance(system, FSPDENO):  # its fields are sums of few functions of time
        grid = Grid(*_axes(data.test["field"], domain), domain)
        floor = {"time_floor": point_scores(time_floor(test, grid, system.n_haar), test)}
    return {
        "parameters": system.n_parameters,
        "parameters_real": system.n_real_parameters,
        "scores": scores,
        "curves": _sampled_curves(draws, data),
        **floor,
        "epochs": info["epochs"],
        "best_epoch": info["best_epoch"],
        "stopped_early": info["stopped_early"],
        "seconds": info["seconds"],
    }


def _draws_of(system: Predictor, data: Data, seed: int) -> Array:
    """Draws from the law that a system implies, (n, T, M).

    Its own where it has one; with observed noise its fields for the noise of other paths, which
    are draws if the law of the noise is known; otherwise one path, twice: a law without spread.
    """
    noise, test = system.info["noise"], data.test["field"]
    if noise == "independent":  # on the grid of the test paths, which all have the same start
        starts = test.isel(path=np.arange(N_DRAWS) % test.sizes["path"])
        return system.predict(starts.assign_coords(path=np.arange(N_DRAWS)), seed=seed + 1).values
    if noise in system.sampled:
        return system.sample(N_DRAWS, seed=seed + 1).values
    if noise == "observed":
        return system.predict(data.validation).values
    return np.repeat(system.predict(test.isel(path=[0])).values, 2, axis=0)


def _sampled_curves(draws: Array, data: Data) -> dict[str, Any]:
    """Variance over time and energy of the modes at the end, from draws."""
    domain = data.equation.domain
    times, points = _axes(data.test["field"], domain)
    basis = domain.eigenfunctions(points, N_MODES)
    c = draws[:, -1] @ np.linalg.pinv(basis).T
    variance = draws.var(0, ddof=1) @ spatial_weights(domain, points)
    return {"time": times, "averaged_variance": variance, "energy_at_end": (c**2).mean(0)}


def _features(run: Run, data: Data, checkpoint: Path, watch: Watch | None) -> dict[str, Any]:
    """``I_c[u0] + I[xi]`` of DLR-Net, without training."""
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


# ------------------------------------------------------------------ memory

#: Linux: writing 5 to clear_refs resets the high-water mark to the present size.
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Peak:
    """Peak memory in bytes after the block; `was_reset` where it is of that block alone."""

    value: float = float("nan")
    was_reset: bool = False


@contextlib.contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the largest resident size of the process while the block runs.

    Where the system cannot reset its mark, the result is the largest size so far.

    Example:
        >>> with peak_memory() as peak:
        ...     _ = bytearray(10**6)
        >>> peak.value > 1e6
        True
    """
    peak = Peak()
    peak.was_reset = _reset()
    try:
        yield peak
    finally:
        peak.value = _high_water() if peak.was_reset else _largest_so_far()


def _reset() -> bool:
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return _STATUS.exists()


def _high_water() -> float:
    line = next(row for row in _STATUS.read_text().splitlines() if row.startswith("VmHWM:"))
    return 1024.0 * float(line.split()[1])


def _largest_so_far() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
