"""What a fit leaves behind."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from spdelaw.paper.baselines._cases import Cases
from spdelaw.paper.baselines._grid import Grid
from spdelaw.paper.baselines._protocol import Protocol
from spdelaw.paper.baselines._training import Training

Array = np.ndarray


class Network(nn.Module):
    """A network of (initial, drive) with outputs (B, T - 1, M)."""

    def prepare(self, cases: Cases) -> None:
        """Take constants, such as means, from the training set."""


class Fitted(NamedTuple):
    """A trained system.

    Attributes:
        network: with its best weights.
        grid: of the training data, all points.
        noise: tier.
        initial: mean initial state, (M,).
        info: seed, protocol, training curve, timings.
    """

    network: Network
    grid: Grid
    noise: str
    initial: Array
    info: dict[str, Any]


def describe_training(
    training: Training, rules: Protocol, seed: int, n_paths: int, n_validation: int
) -> dict[str, Any]:
    """How a training went, in plain types."""
    return {
        "seed": seed, "protocol": dataclasses.asdict(rules), "n_paths": n_paths,
        "n_validation": n_validation, "epochs": training.epochs,
        "best_epoch": training.best_epoch, "best_loss": training.best_loss,
        "stopped_early": training.epochs < rules.epochs, "seconds": round(training.seconds, 3),
        "curve": {"loss": training.losses, "validation_loss": training.validation_losses},
    }  # fmt: skip
