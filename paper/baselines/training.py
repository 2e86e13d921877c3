"""The training of all systems: Adam, the published rules, early stopping, the best weights."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from paper.baselines.inputs import Cases, Grid
from paper.baselines.protocol import Protocol, is_over, rate_factor
from spdelaw.amortized.neural import TorchRun
from spdelaw.amortized.training import Report, stream
from spdelaw.amortized.training import train as train_run
from spdelaw.errors import ConvergenceError


class Network(nn.Module):
    """A network of (initial, drive) with outputs (B, T - 1, M), of a system on a grid.

    ``done`` is the number of complete epochs, for losses that depend on it.
    """

    done: int = 0

    def __init__(self, system: Any, grid: Grid) -> None:
        super().__init__()

    def constant(self, name: str, values: Any) -> None:
        """Keep an array that follows from the grid; saved weights do not contain it."""
        tensor = torch.asarray(values, dtype=torch.float32, copy=True)
        self.register_buffer(name, tensor, persistent=False)

    def prepare(self, cases: Cases) -> None:
        """Take constants, such as means, from the training set."""

    def loss(self, batch: Cases, kind: str) -> Tensor:
        """Loss of a batch; a network with ``loss="own"`` returns a mean over paths."""
        return batch_loss(self(batch.initial, batch.drive), batch.target, kind)

    def generate(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields of a draw; ``drive`` is that of `Predictor.sample_drive`."""
        return self(initial, drive)


class Training(NamedTuple):
    """Course of a training; losses are means over paths, one per epoch."""

    epochs: int
    best_epoch: int
    best_loss: float
    losses: list[float]
    validation_losses: list[float]
    seconds: float

    def describe(
        self, protocol: Protocol, seed: int, n_paths: int, n_validation: int
    ) -> dict[str, Any]:
        """Seed, rules, sizes and training curve, in plain types."""
        return {
            "seed": seed, "protocol": dataclasses.asdict(protocol), "n_paths": n_paths,
            "n_validation": n_validation, "epochs": self.epochs,
            "best_epoch": self.best_epoch, "best_loss": self.best_loss,
            "stopped_early": self.epochs < protocol.epochs, "seconds": round(self.seconds, 3),
            "curve": {"loss": self.losses, "validation_loss": self.validation_losses},
        }  # fmt: skip


def relative_errors(output: Tensor, target: Tensor) -> Tensor:
    """``|u_hat - u| / |u|`` of each path; (P,)."""
    return (output - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)


def batch_loss(output: Tensor, target: Tensor, kind: str) -> Tensor:
    """Loss of a batch: the sum of relative errors, or the mean square error."""
    if kind == "mse":
        return ((output - target) ** 2).mean()
    return relative_errors(output, target).sum()


def train(
    network: Network, cases: Cases, validation: Cases, protocol: Protocol, seed: int, *,
    identity: dict[str, Any], checkpoint: Path | None, report: Report,
) -> Training:  # fmt: skip
    """Train, or resume a training; the network ends with its best weights.

    Raises:
        ConvergenceError: a loss is not finite.
        TrainingInterrupted: the user pressed Ctrl-C; the last complete epoch is saved.
    """
    run = PredictorRun(network, cases, validation, protocol, seed)
    s = train_run(run, identity=identity, checkpoint=checkpoint, report=report)
    run.best()
    losses, validation_losses, _ = map(list, zip(*s.history, strict=True))
    return Training(s.epoch, s.best_epoch, s.best_score, losses, validation_losses, s.seconds)


@contextlib.contextmanager
def _seeded(seed: int, epoch: int) -> Iterator[None]:
    """Draws of torch that depend on the seed and the epoch alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "noise", epoch))
        yield


class PredictorRun(TorchRun):
    """Adam on the loss of a system."""

    config: Protocol
    model: Network

    def __init__(
        self, network: Network, cases: Cases, validation: Cases, protocol: Protocol, seed: int
    ) -> None:
        group = {"params": list(network.parameters()), "lr": protocol.rate}
        super().__init__(network, [group], protocol.weight_decay)
        self.config, self.seed = protocol, seed
        self.cases, self.validation = cases, validation

    def rate(self, epoch: int) -> float:
        """Factor of the learning rate, from the validation losses so far."""
        return rate_factor(self._validation_losses(), self.config)

    def is_over(self) -> bool:
        """Whether training ends, from the validation losses so far."""
        return is_over(self._validation_losses(), self.config)

    def _validation_losses(self) -> list[float]:
        return [row[1] for row in self.snapshot.history]

    def epoch(self, epoch: int) -> float:
        """One pass over the paths; mean loss."""
        self.set_rates(self.rate(epoch))
        n = len(self.cases)
        order = np.random.default_rng(stream(self.seed, "order", epoch)).permutation(n)
        total, is_sum = 0.0, self.config.loss == "relative_l2"
        self.model.train()
        self.model.done = epoch
        with _seeded(self.seed, epoch):
            for batch in self.cases.batches(self.config.batch_size, order):
                loss = self.model.loss(batch, self.config.loss)
                self.optimiser.zero_grad(set_to_none=True)
                loss.backward()
                self.optimiser.step()
                total += loss.item() * (1 if is_sum else len(batch))
        if not math.isfinite(total):
            got, fix = f"{total} in epoch {epoch + 1}", f"pass a rate below {self.config.rate:g}"
            raise ConvergenceError("training", expected="a finite loss", got=got, fix=fix)
        return total / n

    def finish(self, epoch: int, loss: float, seconds: float) -> None:
        """Score the epoch in evaluation mode and replace the snapshot."""
        self.model.eval()
        total = error = 0.0
        kind = self.config.loss
        # Losses that draw or differentiate by inputs have the same draws in every epoch.
        with _seeded(self.seed, 0):
            for batch in self.validation.batches(self.config.batch_size):
                with torch.no_grad():
                    output = self.model(batch.initial, batch.drive)
                    errors = float(relative_errors(output, batch.target).sum())
                if kind == "mse":
                    total += float(batch_loss(output, batch.target, kind)) * len(batch)
                elif kind == "own":
                    total += self.model.loss(batch, kind).detach().item() * len(batch)
                else:
                    total += errors
                error += errors
        score, relative = total / len(self.validation), error / len(self.validation)
        self.keep(epoch, (loss, score, relative), score, seconds)
