"""Fourier neural operator in space and time (Li et al., ICLR 2021), as SPDEBench sets it up."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor, nn

from paper.baselines.fourier import FourierStack, Readout
from paper.baselines.inputs import Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network


class FNONetwork(Network):
    """Lift, Fourier layers, readout."""

    times: Tensor
    points: Tensor

    def __init__(self, system: FNO, grid: Grid) -> None:
        super().__init__(system, grid)
        self.lift = nn.Linear(grid.shape[0] + 2, system.width)
        self.layers = FourierStack(system, grid)
        self.readout = Readout(system.width, nn.GELU())
        for name, values in zip(("times", "points"), grid.unit(), strict=True):
            self.constant(name, values)

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of the increments ``drive`` (B, T, M)."""
        v = self.layers(self._lift(drive))  # (B, C, M, T)
        return self.readout(v.permute(0, 3, 2, 1)[:, 1:])

    def _lift(self, drive: Tensor) -> Tensor:
        """``W [xi(x, .), x, t] + b`` for every (x, t), without repeating xi over t.

        The map is linear, so its part in xi is computed once per x, its part in t once per time.
        """
        row, at_x, at_t = self.lift.weight.split([self.lift.in_features - 2, 1, 1], dim=1)
        by_point = drive.transpose(1, 2) @ row.t() + self.points[:, None] * at_x[:, 0]
        by_time = self.times[:, None] * at_t[:, 0] + self.lift.bias
        return by_point.transpose(1, 2)[..., None] + torch.t(by_time)[:, None, :]


@dataclasses.dataclass(eq=False)
class FNO(Predictor):
    """FNO-2d on (x, t): the input at a point is the whole noise at its x, and (x, t).

    With the defaults and the grid of Regime B it has the paper's 4,929,249 weights (9,844,449
    where a complex number counts as two).

    Args:
        domain: domain of the fields.
        width: channels.
        n_layers: Fourier layers.
        modes_x, modes_t: frequencies that a layer keeps.
        padding: zeros after the last time, against wrapping around.
    """

    width: int = 32
    n_layers: int = 3
    modes_x: int = 32
    modes_t: int = 25
    padding: int = 6
    name: ClassVar[str] = "fno"
    label: ClassVar[str] = "FNO"
    network_class: ClassVar[type[Network]] = FNONetwork
    needs_regular_grid: ClassVar[bool] = True
    protocol: ClassVar[Protocol] = Protocol(rate=2.5e-3, batch_size=20, delta=1e-4)
