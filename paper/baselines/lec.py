"""LEC (Petursson and Oskarsdottir, 2025): the mean of an SPDE as a physics-informed network."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor, nn

import spdelaw as sl
from paper.baselines.inputs import Cases, Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network

#: Published: draws of the noise in a residual, and points of an epoch.
N_NOISE, N_POINTS = 15, 1000


class GatedLayer(nn.Module):
    """DGM layer: ``S' = (1 - G) H + Z S`` with gates of the input and two earlier states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(width, width) for _ in range(12))

    def forward(self, x: Tensor, s: Tensor, first: Tensor) -> Tensor:
        """Next state of input x, state s and first state."""
        u, w, b = self.maps[0:4], self.maps[4:8], self.maps[8:12]
        z = torch.sigmoid(u[0](x) + w[0](s) + b[0](first))
        g = torch.sigmoid(u[1](x) + w[1](first) + b[1](s))
        r = torch.sigmoid(u[2](x) + w[2](s) + b[2](first))
        h = torch.tanh(u[3](x) + w[3](s * r) + b[3](first))
        return (1.0 - g) * h + z * s


class LECNetwork(Network):
    """Input map, gated layers, output map, and the residual of the equation."""

    at: Tensor

    def __init__(self, system: LEC, grid: Grid) -> None:
        super().__init__(system, grid)
        self.inner, self.outer = nn.Linear(2, system.width), nn.Linear(system.width, 1)
        self.layers = nn.ModuleList(GatedLayer(system.width) for _ in range(system.n_layers))
        for name, p in self.named_parameters():
            if name.endswith("weight"):
                nn.init.xavier_normal_(p)
        self.weight, self.shape, d = system.weight, grid.shape, grid.domain
        self.on_line = isinstance(d, sl.Line)
        self.dirichlet = isinstance(d, sl.Interval) and d.boundary == "dirichlet"
        times, points = (torch.tensor(v - v[0] * (i == 0), dtype=torch.float32)
                         for i, v in enumerate((grid.times, grid.points)))  # fmt: skip
        self.ends = float(times[-1]), (float(points[0]), float(points[-1]))
        self.constant("at", torch.cartesian_prod(times, points))

    def field(self, at: Tensor) -> Tensor:
        """``u`` at rows (t, x)."""
        (a, b), x = self.ends[1], at
        scaled = torch.stack([x[:, 0] / self.ends[0], (2 * x[:, 1] - a - b) / (b - a)], -1)
        inputs = torch.tanh(self.inner(scaled))
        first = state = inputs
        for layer in self.layers:
            state = layer(inputs, state, first)
        return self.outer(state)[:, 0]

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """The same mean path for all."""
        u = self.field(self.at).view(self.shape)[1:]
        return u.expand(len(initial), *u.shape)

    def loss(self, batch: Cases, kind: str) -> Tensor:
        """Squared residuals inside, at the start and at the ends."""
        T, (a, b) = self.ends
        at = torch.rand(N_POINTS, 2) * torch.tensor([T, b - a]) + torch.tensor([0.0, a])
        at.requires_grad_()
        u = self.field(at)
        u_t, u_x = _derivative(u, at).unbind(1)
        u_xx = _derivative(u_x, at)[:, 1]
        drift = u_xx - at[:, 1] * u_x - u if self.on_line else u_xx
        noise = torch.randn(N_NOISE, N_POINTS)
        loss = (u_t - drift - noise).square().mean() - noise.square().mean()
        start = self.field(self.at[: self.shape[1]]) - batch.initial.mean(0)
        loss = loss + self.weight * start.square().mean()
        if self.dirichlet:
            times = T * torch.rand(100)
            sides = [torch.stack([times, torch.full_like(times, x)], 1) for x in (a, b)]
            loss = loss + self.weight * self.field(torch.cat(sides)).square().mean()
        return loss


@dataclasses.dataclass(eq=False)
class LEC(Predictor):
    """``u(t, x)`` that minimises ``E (u_t - A u - w)^2``, and the errors at t = 0 and the ends.

    It needs the operator A (that of the paper's regime with this kind of domain) and is
    given no path after t = 0. For a linear equation with additive noise the minimiser is the mean;
    `spdelaw` has it in closed form. Published with a multiplicative Brownian sheet in place of the
    additive noise, and with the diffusivity as an input; sizes are ours, the published ones come
    from a search.

    Args:
        domain: domain of the fields.
        width: of all layers.
        n_layers: gated layers.
        weight: of the errors at t = 0 and at the ends, relative to the residual.
    """

    width: int = 32
    n_layers: int = 2
    weight: int = 10
    name: ClassVar[str] = "lec"
    label: ClassVar[str] = "LEC"
    network_class: ClassVar[type[Network]] = LECNetwork
    protocol: ClassVar[Protocol] = Protocol(
        rate=2e-3, batch_size=700, weight_decay=0.0, loss="own", schedule="cosine", stop_after=1000
    )
    uses_every_point: ClassVar[bool] = True
    tiers: ClassVar[tuple[str, ...]] = ("hidden",)
    sampled: ClassVar[tuple[str, ...]] = ()


def _derivative(values: Tensor, at: Tensor) -> Tensor:
    return torch.autograd.grad(values.sum(), at, create_graph=True)[0]
