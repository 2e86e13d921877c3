"""Neural CDE (Kidger, Morrill, Foster and Lyons, NeurIPS 2020), driven by time and the noise."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor, nn

from paper.baselines.inputs import Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network


class NeuralCDENetwork(Network):
    """Lift of the initial state, vector field and readout."""

    steps: Tensor

    def __init__(self, system: NeuralCDE, grid: Grid) -> None:
        super().__init__(system, grid)
        width, n_hidden, n_points = system.width, system.n_hidden, grid.shape[1]
        self.lift, self.readout = nn.Linear(n_points, width), nn.Linear(width, n_points)
        self.inner = nn.Linear(width, n_hidden)
        self.outer = nn.Linear(n_hidden, width * (n_points + 1))
        self.constant("steps", torch.diff(grid.unit()[0]))

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of initial states (B, M) and increments ``drive`` (B, T, M)."""
        z, states = self.lift(initial), []
        for step, increment in zip(self.steps, drive[:, 1:].unbind(1), strict=True):
            control = torch.cat([step.expand(len(z), 1), increment], -1)
            field = torch.tanh(self.outer(torch.relu(self.inner(z))))
            z = z + torch.einsum("bwc,bc->bw", field.view(len(z), z.shape[1], -1), control)
            states.append(z)
        return self.readout(torch.stack(states, 1))


@dataclasses.dataclass(eq=False)
class NeuralCDE(Predictor):
    """``dz = f(z) dU`` with ``U = (t, W)``, ``z(0)`` a linear map of the initial state.

    ``f`` has one hidden layer of ReLU and tanh at its end; the field is a linear map of z. The
    control is linear between the times of the data, with one Euler step for each. With hidden
    noise only the time drives it. Written from the public description; sizes are ours.

    Args:
        domain: domain of the fields.
        width: entries of z.
        n_hidden: hidden units of f.
    """

    width: int = 32
    n_hidden: int = 128
    name: ClassVar[str] = "neural-cde"
    label: ClassVar[str] = "Neural CDE"
    network_class: ClassVar[type[Network]] = NeuralCDENetwork
    protocol: ClassVar[Protocol] = Protocol(rate=1e-3, batch_size=20, weight_decay=0.0)
    uses_initial: ClassVar[bool] = True
