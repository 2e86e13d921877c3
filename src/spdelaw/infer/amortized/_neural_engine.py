"""``preset="paper"`` and ``"literal"``: a `Law` of observed fields by the paper's learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spdelaw.infer.amortized._assess import Assessment, assess, latent_use
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._gap import (
    truncated_log_likelihood,
    untruncated_log_likelihood,
    without_zeros,
    zeros_of,
)
from spdelaw.infer.amortized._job import Clock, Job, training_curve
from spdelaw.infer.amortized._neural_run import NeuralRun, new_model
from spdelaw.infer.amortized._paths import as_paths
from spdelaw.law import (
    Law,
    Numbers,
    Provenance,
    Quantity,
    density_entries,
    parameters_dataset,
    software,
    state_space_law,
)
from spdelaw.model import StateSpace, linear_state_space
from spdelaw.train import joined, train

Array = np.ndarray

NO_ERRORS = "no standard errors: the method has none; engine='exact' gives them"
TRUNCATED = (
    "eigenvalues and noise variances belong to the model truncated at K = {k} functions of time, "
    "whose observation variance carries the rest; engine='exact' has no truncation. law.sample "
    "draws the untruncated process with these numbers, amortized.sample_decoder the truncated "
    "decoder with its observation noise, as the paper does"
)
#: Noise variance of a mode that nothing drives, as a share of the largest: filters divide by it.
NOT_DRIVEN = 1e-12
AT_ZEROS = (
    "{} points where every mode is zero are left out of elbo, log_likelihood and the gaps: their "
    "variance goes to zero and their density has no upper bound"
)
NOT_KEPT = "the encoder's weights were not kept: pass checkpoint= for amortized_reconstruct"


def fit_neural(job: Job) -> Law:
    """Law of the observed fields by variational training (paper, sections 2.6 to 2.10)."""
    config, domain, clock = job.config, job.domain, job.clock
    observed, basis = job.observed, domain.eigenfunctions(job.observed.points, job.n_modes)
    paths, held_out = as_paths(observed, clock), as_paths(job.held_out, clock)
    seed = job.seed if config.initialisation is None else config.initialisation
    model = new_model(basis, config, seed)
    run = NeuralRun(model, paths, held_out, config, seed, joined())
    train(run, identity=job.identity(), checkpoint=job.folder, report=job.report)
    found = assess(run.best(), paths, config)
    state = _state(model, found, clock)
    exact = _log_likelihood(job, basis, state)
    info = Provenance.of(_info(job, run, found, exact))
    return state_space_law(observed, job.n_modes, state, _table(state, job.level), info=info)


def _log_likelihood(job: Job, basis: Array, state: StateSpace) -> float:
    """Of the truncated model, at the points where the bound is taken."""
    kept = ~zeros_of(basis)
    observed = without_zeros(job.observed, job.domain, job.n_modes)
    own = state.with_noise(state.observation_variance[kept])
    args = own, job.config.n_time, job.clock.horizon
    return float(truncated_log_likelihood(observed, basis[kept], *args).sum())


def _state(model: ChaosVAE, found: Assessment, clock: Clock) -> StateSpace:
    """Learned numbers in the data's unit of time."""
    with torch.no_grad():
        lam = model.dynamics.eigenvalues().numpy() / clock.horizon
        amplitude = model.dynamics.amplitudes().numpy()
        variance = torch.exp(model.log_observation_variance()).numpy()
    q = np.maximum(amplitude**2, NOT_DRIVEN * (amplitude**2).max()) / clock.horizon
    mean = found.initial_mean.numpy()
    return linear_state_space(lam, q, mean, np.zeros(len(lam)), variance)


def _table(state: StateSpace, level: float) -> Any:
    def unknown(values: Array, positive: bool) -> Quantity:
        return Quantity(values, np.full(np.shape(values), np.nan), positive)

    quantities = {
        "eigenvalue": unknown(state.linear.drift, True),
        "noise_variance": unknown(state.linear.noise, True),
        "initial_mean": unknown(state.initial.mean, False),
        "observation_std": unknown(np.sqrt(state.observation_variance), True),
    }
    return parameters_dataset(quantities, level, {"initial_state": state.initial.kind})


def _info(job: Job, run: NeuralRun, found: Assessment, exact: float) -> dict[str, Any]:
    observed, config, snapshot = job.observed, job.config, run.snapshot
    n_values = int(np.isfinite(observed.values).sum())
    elbo = found.elbo * observed.n_paths
    seen = without_zeros(observed, job.domain, job.n_modes)
    whole = untruncated_log_likelihood(seen, job.domain, job.n_modes)
    zeros = len(observed.points) - len(seen.points)
    notes = [NO_ERRORS, TRUNCATED.format(k=config.n_time), *([] if job.folder else [NOT_KEPT])]
    notes += [AT_ZEROS.format(zeros)] if zeros else []
    return {
        **job.facts(),
        "n_observed": float(n_values),
        "n_parameters": run.model.n_parameters,
        "n_law_parameters": 3 * len(found.initial_mean),
        "n_nuisance": 0,
        "epochs": snapshot.epoch,
        "elbo": elbo,
        **density_entries(exact, Numbers("values", n_values), observed),
        "amortization_gap": exact - elbo,
        "truncation_loss": None if whole is None else (whole - exact) / observed.n_paths,
        "training": {
            "relative_l2": found.relative_l2, "rmse": found.rmse, **training_curve(snapshot),
        },
        "latent_use": latent_use(found),
        "initial_state": "deterministic",
        "drift": "diagonal",
        "noise": "diagonal",
        "seconds": {"training": round(snapshot.seconds, 3)},
        "warnings": notes,
        **software(torch),
    }  # fmt: skip
