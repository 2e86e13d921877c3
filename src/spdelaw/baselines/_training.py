"""One training loop for all systems: Adam, best weights, early end, exact resume."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from spdelaw.baselines._cases import Cases, batch_loss, relative_errors
from spdelaw.baselines._protocol import Protocol, is_over, rate_factor
from spdelaw.errors import ConvergenceError
from spdelaw.infer.amortized._checkpoint import Snapshot, find_checkpoint, write_checkpoint
from spdelaw.infer.amortized._progress import Progress, Report
from spdelaw.infer.amortized._torch_state import (
    load_moments,
    load_weights,
    moments_of,
    weights_of,
)
from spdelaw.infer.amortized._train import ORDER, interruption, stream


class Training(NamedTuple):
    """How a training went; losses are means over paths, one an epoch."""

    epochs: int
    best_epoch: int
    best_loss: float
    losses: list[float]
    validation_losses: list[float]
    seconds: float


def train(
    network: nn.Module, cases: Cases, validation: Cases, protocol: Protocol, seed: int, *,
    identity: dict[str, Any], checkpoint: Path | None, report: Report,
) -> Training:  # fmt: skip
    """Train, or go on training; the network ends with its best weights.

    Raises:
        ConvergenceError: a loss is not finite.
        TrainingInterrupted: Ctrl-C; the last whole epoch is saved.
    """
    run = _Run(network, protocol, seed)
    if checkpoint is not None and (found := find_checkpoint(checkpoint, identity)) is not None:
        run.restore(found)
    start, before = time.perf_counter(), run.snapshot.seconds
    first = saved = run.snapshot.epoch
    try:
        while not is_over(run.validation_losses(), protocol):
            loss = run.epoch(cases)
            seconds = time.perf_counter() - start
            run.finish(loss, validation, before + seconds)
            done = run.snapshot.epoch
            if checkpoint is not None and done % protocol.checkpoint_every == 0:
                write_checkpoint(checkpoint, run.snapshot, identity)
                saved = done
            left = (protocol.epochs - done) * seconds / (done - first)
            report(run.progress(seconds, left))
    except KeyboardInterrupt as error:
        raise interruption(run.snapshot, protocol.epochs, checkpoint, identity) from error
    if checkpoint is not None and saved < run.snapshot.epoch:
        write_checkpoint(checkpoint, run.snapshot, identity)
    s = run.snapshot
    load_weights(network, s.part("best"))
    return Training(
        s.epoch, s.best_epoch, s.best_score, [row[0] for row in s.history],
        run.validation_losses(), s.seconds,
    )  # fmt: skip


class _Run:
    """Network, optimiser and the state after the last whole epoch."""

    def __init__(self, network: nn.Module, protocol: Protocol, seed: int) -> None:
        self.network, self.protocol, self.seed = network, protocol, seed
        self.names, parameters = zip(*network.named_parameters(), strict=True)
        self.optimiser = torch.optim.Adam(
            parameters, lr=protocol.rate, weight_decay=protocol.weight_decay, fused=True
        )
        self.snapshot = Snapshot(0, {}, 0, math.inf, (), 0.0)

    def validation_losses(self) -> list[float]:
        """One an epoch."""
        return [row[1] for row in self.snapshot.history]

    def epoch(self, cases: Cases) -> float:
        """One pass over the paths; mean loss."""
        number = self.snapshot.epoch
        rate = self.protocol.rate * rate_factor(self.validation_losses(), self.protocol)
        self.optimiser.param_groups[0]["lr"] = rate
        order = np.random.default_rng(stream(self.seed, ORDER, number)).permutation(len(cases))
        total = 0.0
        self.network.train()
        for batch in cases.batches(self.protocol.batch_size, order):
            loss = batch_loss(
                self.network(batch.initial, batch.drive), batch.target, self.protocol.loss
            )
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            total += loss.item() * (len(batch) if self.protocol.loss == "mse" else 1)
        if not math.isfinite(total):
            raise ConvergenceError(
                "training", expected="a finite loss", got=f"{total} in epoch {number + 1}",
                fix=f"pass a rate below {self.protocol.rate:g}",
            )  # fmt: skip
        return total / len(cases)

    @torch.no_grad()
    def finish(self, loss: float, validation: Cases, seconds: float) -> None:
        """Score the epoch and replace the snapshot in one assignment, which Ctrl-C cannot split."""
        old, (score, error) = self.snapshot, self._score(validation)
        weights, moments = weights_of(self.network), moments_of(self.optimiser, self.names)
        better = score < old.best_score or not old.arrays
        best = weights if better else old.part("best")
        arrays = {f"model.{k}": v for k, v in weights.items()}
        arrays |= {f"best.{k}": v for k, v in best.items()}
        arrays |= {f"optimiser.{k}": v for k, v in moments.items()}
        self.snapshot = Snapshot(
            old.epoch + 1, arrays, old.epoch + 1 if better else old.best_epoch,
            score if better else old.best_score, (*old.history, (loss, score, error)), seconds,
        )  # fmt: skip

    def _score(self, cases: Cases) -> tuple[float, float]:
        """Mean loss and mean relative error of paths, in evaluation mode."""
        self.network.eval()
        total = error = 0.0
        for batch in cases.batches(self.protocol.batch_size):
            output = self.network(batch.initial, batch.drive)
            part = float(relative_errors(output, batch.target).sum())
            mse = self.protocol.loss == "mse"
            total += float(batch_loss(output, batch.target, "mse")) * len(batch) if mse else part
            error += part
        return total / len(cases), error / len(cases)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        load_weights(self.network, snapshot.part("model"))
        load_moments(self.optimiser, self.names, snapshot.part("optimiser"))
        self.snapshot = snapshot

    def progress(self, seconds: float, left: float) -> Progress:
        """State for people."""
        loss, _, error = self.snapshot.history[-1]
        rate = self.optimiser.param_groups[0]["lr"] / self.protocol.rate
        return Progress(self.snapshot.epoch, self.protocol.epochs, loss, error, rate, seconds, left)
