"""``engine="amortized"``: from observed fields to a `Law`, by training the paper's learner."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spdelaw._version import __version__
from spdelaw.data import fingerprint
from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.infer._observed import Observed, observe
from spdelaw.infer._settings import Settings
from spdelaw.infer.amortized._assess import Assessment, assess, latent_use
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._checkpoint import Snapshot
from spdelaw.infer.amortized._config import AmortizedConfig, make_config
from spdelaw.infer.amortized._gap import truncated_log_likelihood
from spdelaw.infer.amortized._paths import Clock, as_paths
from spdelaw.infer.amortized._progress import reporter
from spdelaw.infer.amortized._train import Trained, new_model, stream, train
from spdelaw.law import Law, Quantity, parameters_dataset
from spdelaw.model import Parameters

Array = np.ndarray
#: Name of the random stream that holds out validation paths.
HOLD_OUT = 3

NO_ERRORS = "no standard errors: the method has none; engine='exact' gives them"
TRUNCATED = (
    "eigenvalues and noise variances belong to the model truncated at K = {k} functions of time, "
    "whose observation variance carries the rest; engine='exact' has no truncation"
)
NOT_KEPT = "the encoder's weights were not kept: pass checkpoint= for amortized_reconstruct"


def fit_amortized(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings, *,
    config: Any = None, validation: Any = None, progress: Any = None, checkpoint: Any = None,
    **values: Any,
) -> Law:  # fmt: skip
    """Law of the observed fields by variational training (paper, sections 2.6 to 2.10).

    Args:
        observed: training paths.
        domain: where they live.
        n_modes: N.
        settings: of every engine; the seed is that of weights, order, noise and held-out paths,
            and repeats a run on one machine.
        config: `AmortizedConfig`, a mapping or a YAML file.
        validation: fields that choose the best epoch; by default a share of the paths.
        progress: True, or a function of `Progress`.
        checkpoint: folder to save the run in, and to go on from where it holds one.
        values: single values of the config.
    """
    check_settings(settings)
    seed, chosen, report = settings.seed, make_config(config, **values), reporter(progress)
    folder = None if checkpoint is None else Path(checkpoint)
    observed, held_out = _hold_out(observed, domain, validation, chosen, seed)
    clock = Clock.of(observed.times)
    basis = domain.eigenfunctions(observed.points, n_modes)
    identity = {
        "config": chosen.model_dump(), "seed": seed, "domain": domain.to_dict(),
        "n_modes": n_modes, "points": observed.points.tolist(),
        "clock": [clock.start, clock.horizon], "data": fingerprint(observed.fields),
        "validation": fingerprint(held_out.fields),
    }  # fmt: skip
    paths = as_paths(observed, clock)
    trained = train(
        new_model(basis, chosen, seed), paths, as_paths(held_out, clock), chosen, seed,
        identity=identity, checkpoint=folder, report=report,
    )  # fmt: skip
    found = assess(trained.model, paths, chosen)
    state = _state(trained.model, found, clock)
    exact = truncated_log_likelihood(observed, basis, state, chosen.n_time, clock.horizon)
    return Law(
        domain=domain, n_modes=n_modes, parameters=_table(state, settings.level), state=state,
        times=np.unique(observed.times), points=observed.points, unresolved_variance=0.0,
        info=_info(trained, found, observed, held_out, chosen, seed, folder, float(exact.sum())),
    )  # fmt: skip


def _hold_out(
    observed: Observed, domain: AbstractDomain, validation: Any, config: AmortizedConfig, seed: int
) -> tuple[Observed, Observed]:
    """Training and validation paths."""
    if validation is not None:
        given = observe(validation, domain)
        if not np.array_equal(given.points, observed.points):
            raise DataError(
                "validation", expected="the points of the data", got=f"{len(given.points)} others",
                fix="split one set of fields: train, validation, test = sl.split(fields)",
            )  # fmt: skip
        return observed, given
    n = observed.n_paths
    if n < 2:
        raise DataError(
            "data", expected="at least two paths, one to validate with", got=str(n),
            fix="simulate or observe more paths, or use engine='exact'",
        )  # fmt: skip
    order = np.random.default_rng(stream(seed, HOLD_OUT)).permutation(n)
    last = n - min(max(1, round(config.validation_fraction * n)), n - 1)
    return _some(observed, np.sort(order[:last])), _some(observed, np.sort(order[last:]))


def _some(observed: Observed, which: Array) -> Observed:
    times = observed.times if observed.times.ndim == 1 else observed.times[which]
    return Observed(
        observed.load()[which], times, observed.points, observed.fields.isel(path=which)
    )


def _state(model: ChaosVAE, found: Assessment, clock: Clock) -> Parameters:
    """Learned numbers in the data's unit of time."""
    with torch.no_grad():
        lam = torch.exp(model.dynamics.log_eigenvalues).numpy() / clock.horizon
        amplitude = torch.exp(torch.diagonal(model.dynamics.log_factor)).numpy()
        variance = torch.exp(model.log_variance).numpy()
    mean = found.initial_mean.numpy()
    return Parameters(lam, amplitude**2 / clock.horizon, mean, np.zeros(len(lam)), variance)


def _table(state: Parameters, level: float) -> Any:
    def unknown(values: Array, positive: bool) -> Quantity:
        return Quantity(values, np.full(np.shape(values), np.nan), positive)

    quantities = {
        "eigenvalue": unknown(state.eigenvalues, True),
        "noise_variance": unknown(state.noise_variance, True),
        "initial_mean": unknown(state.initial_mean, False),
        "observation_std": unknown(np.sqrt(state.observation_variance), True),
    }
    return parameters_dataset(quantities, level, {"initial_state": state.initial_kind})


def _info(
    trained: Trained, found: Assessment, observed: Observed, held_out: Observed,
    config: AmortizedConfig, seed: int, folder: Path | None, exact: float,
) -> dict[str, Any]:  # fmt: skip
    snapshot, elbo = trained.snapshot, found.elbo * observed.n_paths
    notes = [NO_ERRORS, TRUNCATED.format(k=config.n_time), *([] if folder else [NOT_KEPT])]
    return {
        "engine": "amortized",
        "route": config.preset,
        "preset": config.preset,
        "config": config.model_dump(),
        "seed": seed,
        "n_paths": observed.n_paths,
        "n_validation": held_out.n_paths,
        "n_times": int(observed.times.shape[-1]),
        "n_points": len(observed.points),
        "n_observed": float(np.isfinite(observed.load()).sum()),
        "n_parameters": trained.model.n_parameters,
        "n_law_parameters": 3 * len(found.initial_mean),
        "n_nuisance": 0,
        "epochs": snapshot.epoch,
        "elbo": elbo,
        "log_likelihood": exact,
        "amortization_gap": exact - elbo,
        "training": {
            "relative_l2": found.relative_l2, "rmse": found.rmse, **_curve(snapshot),
        },
        "latent_use": latent_use(found),
        "initial_state": "deterministic",
        "drift": "diagonal",
        "noise": "diagonal",
        "seconds": {"training": round(snapshot.seconds, 3)},
        "checkpoint": None if folder is None else str(folder.absolute()),
        "warnings": notes,
        "version": __version__,
        "versions": {
            "python": platform.python_version(), "numpy": np.__version__,
            "torch": str(torch.__version__),
        },
    }  # fmt: skip


def _curve(snapshot: Snapshot, n_points: int = 20) -> dict[str, Any]:
    """The training curve at a few epochs, and the best one."""
    at = np.unique(np.linspace(1, snapshot.epoch, n_points).round().astype(int))
    rows = [snapshot.history[i - 1] for i in at]
    return {
        "best_epoch": snapshot.best_epoch,
        "best_score": snapshot.best_score,
        "curve": {
            "epoch": at.tolist(),
            "loss": [row[0] for row in rows],
            "validation_loss": [row[1] for row in rows],
            "validation_relative_l2": [row[2] for row in rows],
        },
    }


def check_settings(settings: Settings) -> None:
    """Raise `InputError` for a setting of the other engines that this one cannot honour."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        same = value is field.default or (isinstance(value, (str, int)) and value == field.default)
        if field.name not in ("level", "seed") and not same:
            raise InputError(
                field.name, expected="its default: engine='amortized' does not use it",
                got=repr(value), fix=f"leave {field.name} out, or use engine='exact'",
            )  # fmt: skip
