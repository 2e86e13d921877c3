"""The training of all systems: Adam, the published rules, the best weights, an early end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from spdelaw.errors import ConvergenceError
from spdelaw.paper.baselines._cases import Cases, batch_loss, relative_errors
from spdelaw.paper.baselines._protocol import Protocol, is_over, rate_factor
from spdelaw.train import Report, stream
from spdelaw.train import train as train_run
from spdelaw.train.torch_run import TorchRun


class Training(NamedTuple):
    """How a training went; losses are means over paths, one per epoch."""

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
    run = PredictorRun(network, cases, validation, protocol, seed)
    s = train_run(run, identity=identity, checkpoint=checkpoint, report=report)
    run.best()
    losses, validation_losses, _ = map(list, zip(*s.history, strict=True))
    return Training(s.epoch, s.best_epoch, s.best_score, losses, validation_losses, s.seconds)


class PredictorRun(TorchRun):
    """Adam on the loss of a system."""

    config: Protocol

    def __init__(
        self, network: nn.Module, cases: Cases, validation: Cases, protocol: Protocol, seed: int
    ) -> None:
        group = {"params": list(network.parameters()), "lr": protocol.rate}
        super().__init__(network, [group], protocol.weight_decay)
        self.config, self.seed = protocol, seed
        self.cases, self.validation = cases, validation

    def rate(self, epoch: int) -> float:
        """By the validation losses so far."""
        return rate_factor(self._validation_losses(), self.config)

    def is_over(self) -> bool:
        """By the validation losses so far."""
        return is_over(self._validation_losses(), self.config)

    def _validation_losses(self) -> list[float]:
        return [row[1] for row in self.snapshot.history]

    def epoch(self, epoch: int) -> float:
        """One pass over the paths; mean loss."""
        self.set_rates(self.rate(epoch))
        n = len(self.cases)
        order = np.random.default_rng(stream(self.seed, "order", epoch)).permutation(n)
        total = 0.0
        self.model.train()
        for batch in self.cases.batches(self.config.batch_size, order):
            output = self.model(batch.initial, batch.drive)
            loss = batch_loss(output, batch.target, self.config.loss)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            total += loss.item() * (len(batch) if self.config.loss == "mse" else 1)
        if not math.isfinite(total):
            got, fix = f"{total} in epoch {epoch + 1}", f"pass a rate below {self.config.rate:g}"
            raise ConvergenceError("training", expected="a finite loss", got=got, fix=fix)
        return total / n

    @torch.no_grad()
    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch in evaluation mode and replace the snapshot."""
        self.model.eval()
        total = error = 0.0
        for batch in self.validation.batches(self.config.batch_size):
            output = self.model(batch.initial, batch.drive)
            part = float(relative_errors(output, batch.target).sum())
            mse = self.config.loss == "mse"
            total += float(batch_loss(output, batch.target, "mse")) * len(batch) if mse else part
            error += part
        score, relative = total / len(self.validation), error / len(self.validation)
        self.keep(epoch, (loss, score, relative), score, seconds)
