"""Inputs and targets of a system as tensors, and the errors of its outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Cases:
    """Paths as a network sees them.

    Attributes:
        initial: states at the first time, (P, M).
        drive: noise the system is told, (P, ...).
        target: fields after the first time, (P, T - 1, M).

    Where all paths have the same inputs those two have one row: one forward pass then serves
    the whole batch, exactly.
    """

    initial: Tensor
    drive: Tensor
    target: Tensor

    def __len__(self) -> int:
        return len(self.target)

    @property
    def shared(self) -> bool:
        """Whether one input stands for all paths."""
        return len(self.initial) == 1

    def take(self, where: Tensor | slice) -> Cases:
        """Some of the paths."""
        if self.shared:
            return Cases(self.initial, self.drive, self.target[where])
        return Cases(self.initial[where], self.drive[where], self.target[where])

    def batches(self, size: int, order: Array | None = None) -> Iterator[Cases]:
        """Consecutive batches in the given order; the last one may be short."""
        for start in range(0, len(self.target), size):
            part = slice(start, start + size)
            yield self.take(part if order is None else torch.from_numpy(order[part]))


def relative_errors(output: Tensor, target: Tensor) -> Tensor:
    """``|u_hat - u| / |u|`` of each path; (P,)."""
    return (output - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)


def batch_loss(output: Tensor, target: Tensor, kind: str) -> Tensor:
    """Loss of a batch: the sum of relative errors, or the mean square error."""
    if kind == "mse":
        return ((output - target) ** 2).mean()
    return relative_errors(output, target).sum()
