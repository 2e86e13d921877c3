"""``preset="paper"`` and ``"literal"``: a `Law` of observed fields by the paper's learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._elbo import assess
from spdelaw.infer.amortized._gap import truncated_log_likelihood, untruncated_log_likelihood
from spdelaw.infer.amortized._job import Job, training_curve
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
from spdelaw.train import joined

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
    config, observed = job.engine.config, job.observed
    paths, held_out = (as_paths(part, *job.clock) for part in (observed, job.held_out))
    seed = job.seed if config.initialisation is None else config.initialisation
    model = new_model(observed.basis(job.n_modes), config, seed)
    run = NeuralRun(model, paths, held_out, config, seed, joined())
    job.train(run)
    found = assess(run.best(), paths, config)
    state = _state(model, found["initial_mean"].numpy(), job.clock[1])
    info = Provenance.of(_info(job, run, found, state))
    return state_space_law(observed, job.n_modes, state, _table(state, job.level), info=info)


def _state(model: ChaosVAE, initial_mean: Array, horizon: float) -> StateSpace:
    """Learned numbers in the data's unit of time."""
    with torch.no_grad():
        lam = model.dynamics.eigenvalues().numpy() / horizon
        amplitude = model.dynamics.amplitudes().numpy()
        variance = torch.exp(model.log_observation_variance()).numpy()
    q = np.maximum(amplitude**2, NOT_DRIVEN * (amplitude**2).max()) / horizon
    return linear_state_space(lam, q, initial_mean, np.zeros(len(lam)), variance)


def _table(state: StateSpace, level: float) -> Any:
    values = {
        "eigenvalue": state.linear.drift,
        "noise_variance": state.linear.noise,
        "initial_mean": state.initial.mean,
        "observation_std": np.sqrt(state.observation_variance),
    }
    quantities = {
        name: Quantity(value, np.full(value.shape, np.nan), name != "initial_mean")
        for name, value in values.items()
    }
    return parameters_dataset(quantities, level, {"initial_state": state.initial.kind})


def _info(job: Job, run: NeuralRun, found: dict[str, Any], state: StateSpace) -> dict[str, Any]:
    observed, snapshot, n_time = job.observed, run.snapshot, job.engine.config.n_time
    kept, n_zeros = ~run.model.zeros.numpy(), int(run.model.zeros.sum())
    # At the points where the bound is taken.
    seen, basis = observed.at_points(kept) if n_zeros else observed, observed.basis(job.n_modes)
    own = state.with_noise(state.observation_variance[kept])
    each = truncated_log_likelihood(seen, basis[kept], own, n_time, job.clock[1])
    exact, elbo = float(each.sum()), found["elbo"] * observed.n_paths
    whole = untruncated_log_likelihood(seen, job.n_modes)
    n_values = int(np.isfinite(observed.values).sum())
    notes = [NO_ERRORS, TRUNCATED.format(k=n_time)]
    notes += [] if job.engine.checkpoint else [NOT_KEPT]
    notes += [AT_ZEROS.format(n_zeros)] if n_zeros else []
    errors = {name: found[name] for name in ("relative_l2", "rmse")}
    return {
        **job.facts(),
        "n_observed": float(n_values),
        "n_parameters": run.model.n_parameters,
        "n_law_parameters": 3 * job.n_modes,
        "n_nuisance": 0,
        "epochs": snapshot.epoch,
        "elbo": elbo,
        **density_entries(exact, Numbers("values", n_values), observed),
        "amortization_gap": exact - elbo,
        "truncation_loss": None if whole is None else (whole - exact) / observed.n_paths,
        "training": {**errors, **training_curve(snapshot)},
        "latent_use": found["latent_use"],
        "initial_state": "deterministic",
        "drift": "diagonal",
        "noise": "diagonal",
        "seconds": {"training": round(snapshot.seconds, 3)},
        "warnings": notes,
        **software(torch),
    }
