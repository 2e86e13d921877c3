"""DeepONet (Lu et al., Nature Machine Intelligence 2021), as SPDEBench sets it up."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from paper.baselines.inputs import Cases, Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network

#: Added to standard deviations, so that constant values standardise to zero.
EPSILON = 1e-5


class DeepONetNetwork(Network):
    """Branch, trunk and pointwise standardisation of inputs and outputs."""

    def __init__(self, system: DeepONet, grid: Grid) -> None:
        super().__init__(system, grid)
        width, (n_times, n_points) = system.width, grid.shape
        shape = n_times - 1, n_points
        self.branch = _layers(shape[0] * shape[1], width)
        self.trunk = _layers(2, width)
        for name in ("drive_mean", "drive_std", "field_mean", "field_std"):
            self.register_buffer(name, torch.zeros(shape))
        times, points = grid.unit()
        self.constant("at", torch.cartesian_prod(times[1:], points).flip(-1))  # rows (x, t)

    def prepare(self, cases: Cases) -> None:
        """Take means and standard deviations from the training set."""
        later = cases.drive[:, 1:]
        self.drive_mean, self.drive_std = later.mean(0), later.std(0, correction=0)
        self.field_mean = cases.target.mean(0)
        self.field_std = cases.target.std(0, correction=0)

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of the increments ``drive`` (B, T, M)."""
        z = (drive[:, 1:] - self.drive_mean) / (self.drive_std + EPSILON)
        product = self.branch(z.flatten(1)) @ self.trunk(self.at).t()
        field = product.view(-1, *self.field_mean.shape)
        return field * (self.field_std + EPSILON) + self.field_mean


@dataclasses.dataclass(eq=False)
class DeepONet(Predictor):
    """Inner product of a branch network of the noise and a trunk network of (x, t).

    With the defaults and the grid of Regime B it has the paper's 11,292,672 weights.

    Args:
        domain: domain of the fields.
        width: of all hidden layers and of the inner product.
    """

    width: int = 512
    name: ClassVar[str] = "deeponet"
    label: ClassVar[str] = "DeepONet"
    network_class: ClassVar[type[Network]] = DeepONetNetwork
    protocol: ClassVar[Protocol] = Protocol(rate=1e-3, batch_size=20, delta=1e-4)


def _layers(n_inputs: int, width: int) -> nn.Sequential:
    """Three linear maps, ReLU between, Tanh at the end."""
    linear = [nn.Linear(a, b) for a, b in pairwise((n_inputs, width, width, width))]
    return nn.Sequential(linear[0], nn.ReLU(), linear[1], nn.ReLU(), linear[2], nn.Tanh())
