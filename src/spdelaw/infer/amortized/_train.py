"""Training: epochs of Adam steps, warm-up and cosine, the best parameters, and interruptions."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spdelaw.infer.amortized._assess import assess
from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._checkpoint import (
    Snapshot,
    find_checkpoint,
    optimiser_tensors,
    restore_optimiser,
    write_checkpoint,
)
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._diagnose import check_gradients, check_terms
from spdelaw.infer.amortized._elbo import elbo
from spdelaw.infer.amortized._paths import Paths
from spdelaw.infer.amortized._progress import Progress, Report

#: Names of the random streams of a run.
WEIGHTS, ORDER, NOISE = 0, 1, 2


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training; says what was saved and how to go on."""


class Trained(NamedTuple):
    """A finished run; the model holds its best parameters."""

    model: ChaosVAE
    snapshot: Snapshot


def rate_factor(epoch: int, config: AmortizedConfig) -> float:
    """Linear warm-up to 1, then half a cosine to 0; ``epoch`` counts from 0.

    Example:
        >>> config = AmortizedConfig(epochs=110, warmup_epochs=10)
        >>> [round(rate_factor(e, config), 3) for e in (0, 9, 10, 60, 109)]
        [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    warm = config.warmup_epochs
    if epoch < warm:
        return (epoch + 1) / warm
    return 0.5 * (1.0 + math.cos(math.pi * (epoch - warm) / (config.epochs - warm)))


def stream(seed: int, *name: int) -> int:
    """Seed of the random stream with this name, 64 bits."""
    return int(np.random.SeedSequence(seed, spawn_key=name).generate_state(1, np.uint64)[0])


def new_model(basis: np.ndarray, config: AmortizedConfig, seed: int) -> ChaosVAE:
    """Model with weights drawn from the seed; torch's own generator stays where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, WEIGHTS))
        return ChaosVAE(basis, config)


def train(
    model: ChaosVAE, paths: Paths, validation: Paths, config: AmortizedConfig, seed: int, *,
    identity: dict[str, Any], checkpoint: Path | None, report: Report,
) -> Trained:  # fmt: skip
    """Run, or go on with, the training.

    Args:
        model: from `new_model`; its parameters are changed.
        paths: what to learn from.
        validation: what chooses the best epoch.
        config: how.
        seed: of order and noise.
        identity: what a checkpoint has to agree on before it is gone on with.
        checkpoint: folder, or None.
        report: called after every epoch.

    Raises:
        ConvergenceError: something is not finite.
        TrainingInterrupted: Ctrl-C; the last whole epoch is saved.
    """
    run = _Run(model, config, seed)
    if checkpoint is not None and (found := find_checkpoint(checkpoint, identity)) is not None:
        run.restore(found)
    start, done = time.perf_counter(), run.snapshot.epoch
    before, saved = run.snapshot.seconds, run.snapshot.epoch
    try:
        for epoch in range(done, config.epochs):
            loss = run.epoch(paths, epoch)
            seconds = time.perf_counter() - start
            run.finish(epoch, loss, validation, before + seconds)
            if checkpoint is not None and (epoch + 1) % config.checkpoint_every == 0:
                write_checkpoint(checkpoint, run.snapshot, identity)
                saved = run.snapshot.epoch
            report(_progress(run.snapshot, config, epoch, seconds, epoch + 1 - done))
    except KeyboardInterrupt as error:
        raise interruption(run.snapshot, config.epochs, checkpoint, identity) from error
    if checkpoint is not None and saved < config.epochs:
        write_checkpoint(checkpoint, run.snapshot, identity)
    model.load_state_dict(run.snapshot.part("best"))
    return Trained(model, run.snapshot)


class _Run:
    """Model, optimiser and the state after the last whole epoch."""

    def __init__(self, model: ChaosVAE, config: AmortizedConfig, seed: int) -> None:
        self.model, self.config, self.seed = model, config, seed
        groups = model.groups(config)
        self.optimiser = torch.optim.Adam(groups, weight_decay=config.weight_decay, fused=True)
        self.rates = [group["lr"] for group in groups]
        by_identity = {id(p): name for name, p in model.named_parameters()}
        self.names = [by_identity[id(p)] for group in groups for p in group["params"]]
        self.snapshot = Snapshot(0, {}, 0, math.inf, (), 0.0)

    def epoch(self, paths: Paths, epoch: int) -> float:
        """One pass over the paths; mean loss."""
        factor = rate_factor(epoch, self.config)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        order = np.random.default_rng(stream(self.seed, ORDER, epoch)).permutation(len(paths))
        generator = torch.Generator().manual_seed(stream(self.seed, NOISE, epoch))
        total = 0.0
        for batch in paths.batches(self.config.batch_size, order):
            total += self.step(batch, generator, epoch) * len(batch)
        return total / len(paths)

    def step(self, batch: Paths, generator: torch.Generator, epoch: int) -> float:
        """One step of Adam; loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        terms = elbo(self.model, batch, self._noise(len(batch), generator))
        loss = terms.loss(self.config)
        if not math.isfinite(value := loss.item()):
            check_terms(terms, self.model, epoch)
        loss.backward()
        check_gradients(self.model, epoch)
        self.optimiser.step()
        return value

    def finish(self, epoch: int, loss: float, validation: Paths, seconds: float) -> None:
        """Score the epoch and replace the snapshot in one assignment, which Ctrl-C cannot split."""
        found, old = assess(self.model, validation, self.config), self.snapshot
        score = found.relative_l2 if self.config.select_by == "relative_l2" else found.loss
        weights = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        better = score < old.best_score or not old.tensors
        best = weights if better else old.part("best")
        moments = optimiser_tensors(self.optimiser, self.names)
        tensors = {f"model.{k}": v for k, v in weights.items()}
        tensors |= {f"best.{k}": v.clone() if better else v for k, v in best.items()}
        tensors |= {f"optimiser.{k}": v for k, v in moments.items()}
        self.snapshot = Snapshot(
            epoch + 1, tensors, epoch + 1 if better else old.best_epoch,
            score if better else old.best_score,
            (*old.history, (loss, found.loss, found.relative_l2)), seconds,
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self.model.load_state_dict(snapshot.part("model"))
        restore_optimiser(self.optimiser, self.names, snapshot.part("optimiser"))
        self.snapshot = snapshot

    def _noise(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        if self.config.expectation == "exact":
            return None
        encoder = self.model.encoder
        initial = torch.randn(n, encoder.n_modes, generator=generator)
        return initial, torch.randn(n, encoder.n_time, encoder.n_modes, generator=generator)


def _progress(
    snapshot: Snapshot, config: AmortizedConfig, epoch: int, seconds: float, done_now: int
) -> Progress:
    loss, _, relative_l2 = snapshot.history[-1]
    left = (config.epochs - epoch - 1) * seconds / done_now
    rate = rate_factor(epoch, config)
    return Progress(epoch + 1, config.epochs, loss, relative_l2, rate, seconds, left)


def interruption(
    snapshot: Snapshot, epochs: int, checkpoint: Path | None, identity: dict[str, Any]
) -> TrainingInterrupted:
    """Save what there is, and say how to go on."""
    where = f"stopped after epoch {snapshot.epoch} of {epochs}"
    if checkpoint is None:
        return TrainingInterrupted(f"{where}; nothing was saved: pass checkpoint='run' to keep it")
    if snapshot.epoch == 0:
        return TrainingInterrupted(f"{where}; there was nothing to save yet")
    write_checkpoint(checkpoint, snapshot, identity)
    return TrainingInterrupted(
        f"{where}; saved in {checkpoint}. To go on, repeat the call with the same checkpoint"
    )
