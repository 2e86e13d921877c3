"""The paper's learner: training of the network, its law and its reconstructions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from spdelaw.amortized.structured import (
    AmortizedConfig,
    Job,
    training_curve,
    truncated_log_likelihood,
    untruncated_log_likelihood,
)
from spdelaw.amortized.training import (
    ALONE,
    Processes,
    Run,
    Snapshot,
    join_processes,
    parsing_checkpoint,
    read_checkpoint,
    stream,
)
from spdelaw.amortized.vae import (
    ChaosVAE,
    Elbo,
    Paths,
    StateNoise,
    as_paths,
    assess,
    elbo,
    laplace_log_likelihood,
    mean_errors,
    path_errors,
)
from spdelaw.data.observed import Observed, observe
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.registry import from_dict as domain_from_dict
from spdelaw.errors import ConvergenceError, DataError
from spdelaw.law.law import Law, state_space_law
from spdelaw.law.likelihood import Numbers, density_entries
from spdelaw.law.parameters import Quantity, parameters_dataset
from spdelaw.law.prediction import latents_dataset
from spdelaw.law.provenance import Provenance, software
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.specification import InitialState
from spdelaw.processes.state_noise import bind_state_noise
from spdelaw.statespace.chain import StateSpace, linear_state_space

Array = np.ndarray


class TorchRun(Run):
    """A model, its optimiser and the state after the last whole epoch.

    Args:
        model: its parameters are changed.
        groups: parameters by learning rate, for Adam.
        weight_decay: of all groups that have none of their own.
        processes: that share every batch; this one alone by default.
    """

    def __init__(
        self,
        model: nn.Module,
        groups: list[dict[str, Any]],
        weight_decay: float,
        processes: Processes = ALONE,
    ) -> None:
        self.model, self.processes = model, processes
        self.optimiser = torch.optim.Adam(groups, weight_decay=weight_decay, fused=True)
        self.rates = [group["lr"] for group in groups]
        by_identity = {id(p): name for name, p in model.named_parameters()}
        self.names = [by_identity[id(p)] for p in self._flat()]
        self.snapshot = Snapshot()

    def set_rates(self, factor: float) -> None:
        """Learning rates of an epoch, as a factor of those at the start."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    def add_gradients(self, loss: float) -> float:
        """Gradients and the loss summed over the processes that share a batch."""
        if self.processes.size == 1:
            return loss
        flat = self._flat()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in flat]
        numbers = [gradient.double().ravel() for gradient in gradients]
        summed = self.processes.total(torch.cat([*numbers, torch.tensor([loss]).double()]))
        for p, gradient in zip(flat, summed[:-1].split([p.numel() for p in flat]), strict=True):
            p.grad = gradient.reshape(p.shape).to(p.dtype)
        return float(summed[-1])

    def keep(
        self, epoch: int, row: tuple[float, float, float], score: float, seconds: float
    ) -> None:
        """Replace the snapshot in one assignment, which Ctrl-C cannot split.

        Args:
            epoch: counted from 0.
            row: training loss, validation loss and validation rel L2.
            score: the epoch with the least is the best.
            seconds: spent so far.
        """
        old = self.snapshot
        weights = {k: v.numpy().copy() for k, v in self.model.state_dict().items()}
        better = score < old.best_score or not old.arrays
        best = weights if better else old.part("best")
        arrays = {f"model.{k}": v for k, v in weights.items()}
        arrays |= {f"best.{k}": v for k, v in best.items()}
        arrays |= {f"optimiser.{k}": v for k, v in self._moments().items()}
        best_of = (epoch + 1, score) if better else (old.best_epoch, old.best_score)
        self.snapshot = Snapshot(epoch + 1, arrays, *best_of, (*old.history, row), seconds)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        load_weights(self.model, snapshot, "model")
        moments = snapshot.part("optimiser")
        for name, p in zip(self.names, self._flat(), strict=True):
            parameter_moments = {k: v for k, v in moments.items() if k.rpartition(".")[0] == name}
            if parameter_moments:
                state = {
                    k.rpartition(".")[2]: torch.from_numpy(v.copy())
                    for k, v in parameter_moments.items()
                }
                self.optimiser.state[p] = state
        self.snapshot = snapshot

    def best(self) -> Any:
        """The model with its best parameters."""
        load_weights(self.model, self.snapshot, "best")
        return self.model

    def _flat(self) -> list[Tensor]:
        return [p for group in self.optimiser.param_groups for p in group["params"]]

    def _moments(self) -> dict[str, Array]:
        """Adam's step and moments by parameter name; copies."""
        return {
            f"{name}.{key}": value.detach().numpy().copy()
            for name, p in zip(self.names, self._flat(), strict=True)
            for key, value in self.optimiser.state[p].items()
        }


def load_weights(model: nn.Module, snapshot: Snapshot, kind: str) -> None:
    """Put the weights of a snapshot, ``model`` or ``best``, into a model."""
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in snapshot.part(kind).items()})


# ---------- A run of the neural learner: model, optimiser and the state after the last whole epoch
#
# A training that diverges stops with an error that names the group of parameters.


#: Paths in one pass of the encoder for a moment.
AT_ONCE = 100
#: Logarithms beyond this overflow in float32.
LARGEST_LOG = 85.0
#: Groups of parameters in user messages, by the start of a parameter's name.
PARAMETER_GROUPS = {
    "encoder": "the encoder (encoder_rate)",
    "dynamics": "lambda and q (dynamics_rate)",
    "log_variance": "the observation variances (variance_rate)",
    "root_std": "the observation variances (variance_rate)",
}


def new_model(
    basis: np.ndarray,
    config: AmortizedConfig,
    seed: int,
    points: np.ndarray | None = None,
    noise: StateNoise | None = None,
) -> ChaosVAE:
    """Model with weights drawn from the seed; torch's own generator stays where it was.

    Args:
        basis: eigenfunctions at the points, (M, N).
        config: settings.
        seed: of the weights.
        points: (M, d), for ``encoder="grid"``; by default a line of M points.
        noise: noise that depends on the state; None for additive noise.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "weights"))
        return ChaosVAE(basis, config, points, noise)


class NeuralRun(TorchRun):
    """Adam on the evidence lower bound; the epoch with the best validation score is kept.

    Args:
        model: from `new_model`; its parameters are changed.
        paths: what to learn from.
        validation: what chooses the best epoch.
        config: how.
        seed: of order and noise.
        processes: that share every batch.
    """

    model: ChaosVAE

    def __init__(
        self,
        model: ChaosVAE,
        paths: Paths,
        validation: Paths,
        config: AmortizedConfig,
        seed: int,
        processes: Processes = ALONE,
    ) -> None:
        super().__init__(model, model.groups(config), config.weight_decay, processes)
        self.config, self.seed = config, seed
        self.paths, self.validation = paths, validation

    def epoch(self, epoch: int) -> float:
        """One pass over the paths; mean loss."""
        paths = self.paths
        self.set_rates(self.rate(epoch))
        order = np.random.default_rng(stream(self.seed, "order", epoch)).permutation(len(paths))
        generator = torch.Generator().manual_seed(stream(self.seed, "noise", epoch))
        total = 0.0
        for batch in paths.batches(self.config.batch_size, order):
            total += self.step(batch, generator, epoch) * len(batch)
        if self.config.rescale:
            self.model.rescale(self._chaos_moment())
        return total / len(paths)

    def step(self, batch: Paths, generator: torch.Generator, epoch: int) -> float:
        """One step of Adam; loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        share, noise = self.processes.share(len(batch)), self._noise(len(batch), generator)
        local_batch = batch.take(share)
        value = 0.0
        if len(local_batch):
            noise = None if noise is None else (noise[0][share], noise[1][share])
            terms = elbo(self.model, local_batch, noise)
            loss = -terms.objective(self.config, batch).mean() * (len(local_batch) / len(batch))
            if not math.isfinite(value := loss.item()):
                check_terms(terms, self.model, epoch)
            loss.backward()
        value = self.add_gradients(value)
        check_gradients(self.model, epoch)
        self.optimiser.step()
        return value

    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch and replace the snapshot."""
        numbers = torch.zeros(2, dtype=torch.float64)
        if self.processes.rank == 0:
            assessment = assess(self.model, self.validation, self.config)
            numbers = torch.tensor(
                [assessment["loss"], assessment["relative_l2"]], dtype=torch.float64
            )
        validation_loss, relative_l2 = self.processes.first(numbers).tolist()
        score = relative_l2 if self.config.select_by == "relative_l2" else validation_loss
        self.keep(epoch, (loss, validation_loss, relative_l2), score, seconds)

    @torch.no_grad()
    def _chaos_moment(self) -> Tensor:
        """``E xi^2`` of each driving process over training paths, k and posterior, (L,)."""
        total = torch.zeros(self.model.encoder.n_noise, dtype=torch.float64)
        # Each process takes a share, and all get the same sum: their parameters stay equal.
        for batch in self.paths.take(self.processes.share(len(self.paths))).batches(AT_ONCE):
            q = self.model.encode(batch)
            square = q.chaos_mean.double() ** 2 + torch.exp(q.chaos_log_variance.double())
            total += square.sum((0, 1))
        return self.processes.total(total) / (len(self.paths) * self.model.n_time)

    def _noise(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        if self.config.expectation == "exact":
            return None
        encoder = self.model.encoder
        initial = torch.randn(n, encoder.n_modes, generator=generator)
        return initial, torch.randn(n, encoder.n_time, encoder.n_noise, generator=generator)


def check_terms(terms: Elbo, model: nn.Module, epoch: int) -> None:
    """Raise `ConvergenceError` where a term of the bound is not finite."""
    names = ("log_likelihood", "kl_initial", "kl_chaos", "at_zeros")
    broken = [n.replace("_", " ") for n in names if not getattr(terms, n).isfinite().all()]
    if broken:
        weights = _parameter_groups([n for n, p in model.named_parameters() if not _in_range(n, p)])
        cause = f", because of {weights}" if weights else ""
        raise _divergence_error(f"{', '.join(broken)} that is not finite{cause}", epoch)


def check_gradients(model: nn.Module, epoch: int) -> None:
    """Raise `ConvergenceError` where a gradient is not finite, before it enters a parameter."""
    named = model.named_parameters()
    broken = [n for n, p in named if p.grad is not None and not _finite(p.grad)]
    if broken:
        raise _divergence_error(
            f"a gradient that is not finite in {_parameter_groups(broken)}", epoch
        )


def _finite(tensor: torch.Tensor) -> bool:
    # A sum is not finite when an entry is not, and costs one pass without a mask in memory.
    total = tensor.detach().sum()
    return bool(torch.isfinite(total)) or bool(torch.isfinite(tensor).all())


def _in_range(name: str, parameter: torch.Tensor) -> bool:
    """Finite, and within float32 after the exponential where it is a logarithm."""
    is_log = name.rpartition(".")[2].startswith("log_")
    return _finite(parameter) and not (
        is_log and bool(parameter.detach().abs().max() > LARGEST_LOG)
    )


def _parameter_groups(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(PARAMETER_GROUPS.get(n.split(".")[0], n) for n in names))


def _divergence_error(got: str, epoch: int) -> ConvergenceError:
    what, expected = f"training, epoch {epoch + 1}", "a finite loss and gradients"
    fix = (
        "lower the rate of that part by 10, scale the fields to a size of about 1, or lengthen "
        "warmup_epochs; the last checkpoint is complete"
    )
    return ConvergenceError(what, expected=expected, got=got, fix=fix)


# ---------- ``preset="paper"`` and its variants: a `Law` of observed fields by the paper's learner


NO_ERRORS_NOTE = "this engine computes no standard errors; engine='exact' does"
TRUNCATED_NOTE = (
    "eigenvalues and noise variances belong to the model truncated at K = {k} functions of time, "
    "whose observation variance absorbs the truncated part; engine='exact' has no truncation. "
    "law.sample draws the untruncated process with these numbers, amortized.sample_decoder the "
    "truncated decoder with its observation noise, as the paper does"
)
#: Noise variance of a mode that nothing drives, as a share of the largest: filters divide by it.
UNDRIVEN_SHARE = 1e-12
ZEROS_NOTE = (
    "{} points where every mode is zero are left out of elbo, log_likelihood and the gaps: their "
    "variance goes to zero and their density has no upper bound"
)
ONE_ORDER_NOTE = (
    "order={} has no effect: a linear law with additive noise has no chaos beyond the first order"
)
LAPLACE_NOTE = (
    "log_likelihood of the truncated model, and with it the amortization gap and the truncation "
    "loss, by Laplace's approximation at the mode of each path's coordinates"
)
#: Parameters that may be negative.
SIGNED = ("initial_mean", "noise_offset")
NO_WEIGHTS_NOTE = "the encoder's weights were not kept: pass checkpoint= for amortized_reconstruct"


def fit_neural(job: Job) -> Law:
    """Law of the observed fields by variational training (paper, sections 2.6 to 2.10)."""
    config, observed = job.engine.config, job.observed
    seed = job.seed if config.initialisation is None else config.initialisation
    basis = observed.basis(job.n_modes)
    noise = state_noise(job.state_noise, observed.domain, job.n_modes)
    model = new_model(basis, config, seed, observed.points, noise)
    paths, held_out = (
        as_paths(fields, *job.clock, basis if model.encoder.reads_modes else None)
        for fields in (observed, job.held_out)
    )
    run = NeuralRun(model, paths, held_out, config, seed, join_processes())
    job.train(run, state_noise=job.state_noise if noise else None)
    assessment = assess(run.best(), paths, config)
    state = _learned_state_space(model, assessment["initial_mean"].numpy(), job)
    info = Provenance.of(_info(job, run, paths, assessment, state))
    return state_space_law(
        observed, job.n_modes, state, _parameter_table(state, job.level), info=info
    )


def state_noise(kind: str, domain: AbstractDomain, n_modes: int) -> StateNoise | None:
    """Noise of a decoder by the word of a model; None for additive noise."""
    noise = bind_state_noise(kind, domain, n_modes)
    if noise is None:
        return None
    return StateNoise(noise.operators, noise.constants if kind == "affine" else None)


def _learned_state_space(model: ChaosVAE, initial_mean: Array, job: Job) -> StateSpace:
    """Learned numbers in the data's unit of time."""
    horizon, domain, kind = job.clock[1], job.observed.domain, job.state_noise
    with torch.no_grad():
        lam = model.dynamics.eigenvalues().numpy() / horizon
        amplitude = model.dynamics.amplitudes().numpy()
        variance = torch.exp(model.log_observation_variance()).numpy()
    q = np.maximum(amplitude**2, UNDRIVEN_SHARE * (amplitude**2).max()) / horizon
    if kind == "none":
        return linear_state_space(lam, q, initial_mean, np.zeros(len(lam)), variance)
    gamma = model.dynamics.noise_offset()
    dynamics = Reacting(domain, (), np.zeros(0), lam, q, state_noise=kind, noise_offset=gamma)
    return StateSpace(
        dynamics, InitialState("deterministic", initial_mean, np.zeros(len(lam))), variance
    )


def _parameter_table(state: StateSpace, level: float) -> Any:
    numbers = state.dynamics.parameters
    if isinstance(state.dynamics, Linear):
        numbers = {"eigenvalue": numbers["drift"], "noise_variance": numbers["noise"]}
    values = {name: np.asarray(value) for name, value in numbers.items() if name != "coefficient"}
    values |= {
        "initial_mean": state.initial.mean,
        "observation_std": np.sqrt(state.observation_variance),
    }
    quantities = {
        name: Quantity(value, np.full(value.shape, np.nan), name not in SIGNED)
        for name, value in values.items()
    }
    return parameters_dataset(quantities, level, {"initial_state": state.initial.kind})


def _info(
    job: Job, run: NeuralRun, paths: Paths, assessment: dict[str, Any], state: StateSpace
) -> dict[str, Any]:
    observed, snapshot, config = job.observed, run.snapshot, job.engine.config
    n_time, order, kind = config.n_time, run.model.dynamics.order, job.state_noise
    kept, n_zeros = ~run.model.zeros.numpy(), int(run.model.zeros.sum())
    # At the points where the bound is taken.
    kept_fields = observed.at_points(kept) if n_zeros else observed
    kept_state = state.with_noise(state.observation_variance[kept])
    if kind == "none":
        given = (kept_fields, observed.basis(job.n_modes)[kept], kept_state, n_time, job.clock[1])
        exact = float(truncated_log_likelihood(*given).sum())
    else:
        batches = paths.batches(AT_ONCE)
        exact = float(sum(laplace_log_likelihood(run.model, batch).sum() for batch in batches))
    elbo, loss = assessment["elbo"] * observed.n_paths, None
    if (untruncated := untruncated_log_likelihood(kept_fields, job.n_modes, kind)) is not None:
        loss = (untruncated - exact) / observed.n_paths
    n_values = int(np.isfinite(observed.values).sum())
    notes = [NO_ERRORS_NOTE, TRUNCATED_NOTE.format(k=n_time)]
    notes += [LAPLACE_NOTE] if kind != "none" else []
    notes += [ONE_ORDER_NOTE.format(config.order)] if config.order > order else []
    notes += [] if job.engine.checkpoint else [NO_WEIGHTS_NOTE]
    notes += [ZEROS_NOTE.format(n_zeros)] if n_zeros else []
    errors = {name: assessment[name] for name in ("relative_l2", "rmse")}
    return {
        **job.facts(),
        "n_observed": float(n_values),
        "n_parameters": run.model.n_parameters,
        "n_law_parameters": 3 * job.n_modes + (job.state_noise == "affine"),
        "order": order,
        "n_nuisance": 0,
        "epochs": snapshot.epoch,
        "elbo": elbo,
        **density_entries(exact, Numbers("values", n_values), observed),
        "amortization_gap": exact - elbo,
        "truncation_loss": loss,
        "training": {**errors, **training_curve(snapshot)},
        "latent_use": assessment["latent_use"],
        "initial_state": "deterministic",
        "drift": "diagonal",
        "noise": "diagonal",
        "state_noise": kind,
        "seconds": {"training": round(snapshot.seconds, 3)},
        "warnings": notes,
        **software(torch),
    }


# ---------- Reconstruction by the network


@torch.no_grad()
def neural_reconstruct(folder: Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Field of the encoder's posterior; see `amortized_reconstruct`."""
    model, observed, batches = _load_model_and_paths(folder, data, adapter)
    parts = []
    for batch in batches:
        posterior, curves = model.encode(batch), model.curves(batch)
        c, variance = model.moments(curves, batch, posterior)
        mean, std_field = c @ model.basis.t(), torch.sqrt(variance).double()
        std = torch.sqrt(std_field**2 + torch.exp(model.log_observation_variance()))
        parts.append((mean, std, std_field, *path_errors(mean, batch)))
    mean, std, std_field, *errors = map(torch.cat, zip(*parts, strict=True))
    places, rows = observed.domain.places(observed.points), observed.rows[:, :, None]
    variables = {}
    for name, field in (("mean", mean), ("std", std), ("std_field", std_field)):
        values = np.take_along_axis(field.double().numpy(), rows, axis=1)
        variables[name] = (("path", "time", *places.dims), places.unflatten(values))
    given = observed.fields.coords.items()
    coords = {k: v for k, v in given if set(v.dims) <= {"path", "time"}}
    return xr.Dataset(variables, {**coords, **places.coords}, mean_errors(*errors))


@torch.no_grad()
def neural_posterior(folder: Path, data: Any, **adapter: Any) -> xr.Dataset:
    """Posterior of the encoder for each path; see `amortized_posterior`."""
    model, observed, batches = _load_model_and_paths(folder, data, adapter)
    parts = [model.encode(batch) for batch in batches]
    z0, z0_log, xi, xi_log = (
        torch.cat(tensors).double().numpy() for tensors in zip(*parts, strict=True)
    )
    z0_std, xi_std = np.exp(0.5 * z0_log), np.exp(0.5 * xi_log)
    return latents_dataset(observed.fields["path"].values, z0, z0_std, xi, xi_std, "noise")


def _load_model_and_paths(
    folder: Path, data: Any, adapter: dict[str, Any]
) -> tuple[ChaosVAE, Observed, Iterator[Paths]]:
    """The network, and batches of paths on its points and within its times."""
    snapshot, identity = read_checkpoint(folder)
    with parsing_checkpoint(folder):
        config, n_modes = AmortizedConfig(**identity["config"]), identity["n_modes"]
        domain, points = domain_from_dict(identity["domain"]), np.asarray(identity["points"])
    observed = observe(data, domain, **adapter).in_memory()
    if config.encoder == "modes":
        points = observed.points
    elif len(observed.points) != len(points) or not np.allclose(observed.points, points):
        expected = f"the {len(points)} points the encoder was trained on"
        fix = "use law.reconstruct, or train with encoder='modes': both take any points"
        raise DataError("points", expected=expected, got=f"{len(observed.points)} points", fix=fix)
    basis = domain.eigenfunctions(points, n_modes)
    with parsing_checkpoint(folder):
        noise = state_noise(identity.get("state_noise") or "none", domain, n_modes)
        model = new_model(basis, config, 0, points, noise)  # its weights are replaced at once
        load_weights(model, snapshot, "best")
    start, horizon = identity["clock"]
    paths = as_paths(observed, start, horizon, basis if model.encoder.reads_modes else None)
    return model, observed, paths.batches(config.batch_size)
