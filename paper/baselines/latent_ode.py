"""Latent ODE with an ODE-RNN encoder (Rubanova, Chen and Duvenaud, NeurIPS 2019)."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torchdiffeq import odeint

from paper.baselines.inputs import Cases, Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network
from spdelaw.amortized.encoder import N_HEAD, N_STATE, OdeRnn

Array = np.ndarray
#: Published: tolerances of the solver, draws of a loss, standard deviation of the observations.
RTOL, ATOL, N_DRAWS, OBSERVATION_STD = 1e-3, 1e-4, 3, 0.01
#: Published: epochs without a divergence in the loss, and the rate at which its weight grows.
FREE_EPOCHS, GROWTH = 10, 0.99


class LatentODENetwork(Network):
    """Encoder, latent dynamics and linear decoder."""

    times: Tensor

    def __init__(self, system: LatentODE, grid: Grid) -> None:
        super().__init__(system, grid)
        n_latent, n_units, n_points = system.n_latent, system.n_units, grid.shape[1]
        self.encoder = OdeRnn(n_points)
        layers = (nn.Linear(2 * N_STATE, N_HEAD), nn.Tanh(), nn.Linear(N_HEAD, 2 * n_latent))
        self.head = nn.Sequential(*layers)
        inner = (nn.Linear(n_latent, n_units), nn.Tanh(), nn.Linear(n_units, n_units), nn.Tanh())
        self.dynamics = nn.Sequential(*inner, nn.Linear(n_units, n_latent))
        self.decoder = nn.Linear(n_latent, n_points)
        self.constant("times", grid.unit()[0])

    def posterior(self, paths: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of ``z0``."""
        mean, std = self.head(self.encoder(paths, None, self.times)).chunk(2, -1)
        return mean, std.abs() + 1e-6

    def generate(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields after the first time of ``z0`` (..., z)."""
        z = odeint(lambda _, z: self.dynamics(z), drive, self.times, rtol=RTOL, atol=ATOL)
        return self.decoder(z[1:]).movedim(0, -2)

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Reconstruction of paths ``drive`` (B, T, M) by the mean of their ``z0``."""
        return self.generate(initial, self.posterior(drive)[0])

    def loss(self, batch: Cases, kind: str) -> Tensor:
        """``-log mean_s exp(log p(X | z_s) - w KL)`` over draws, a mean over paths."""
        mean, std = self.posterior(batch.drive)
        z0 = mean + std * torch.randn(N_DRAWS, *mean.shape)
        square = (self.generate(batch.initial, z0) - batch.target).square().sum((-1, -2))
        log_p = -0.5 * square / OBSERVATION_STD**2
        kl = 0.5 * (mean**2 + std**2 - 1.0).mean(-1) - std.log().mean(-1)
        weight = 0.0 if self.done < FREE_EPOCHS else 1.0 - GROWTH ** (self.done - FREE_EPOCHS)
        bound = torch.logsumexp(log_p - weight * kl, 0) - math.log(N_DRAWS)
        return -bound.mean() / batch.target[0].numel()


@dataclasses.dataclass(eq=False)
class LatentODE(Predictor):
    """Path -> posterior of ``z0`` -> ``z' = f(z)`` -> linear map to the field.

    It is given the path and reconstructs it. Its decoder is deterministic, so all that differs
    between paths has to be in ``z0``; its law of paths is that of ``z0 ~ N(0, I)``. With the
    defaults its encoder has the published sizes. Adam replaces Adamax.

    Args:
        domain: domain of the fields.
        n_latent: entries of z.
        n_units: hidden units of f.
    """

    n_latent: int = 6
    n_units: int = 100
    name: ClassVar[str] = "latent-ode"
    label: ClassVar[str] = "Latent ODE, ODE-RNN encoder"
    network_class: ClassVar[type[Network]] = LatentODENetwork
    protocol: ClassVar[Protocol] = Protocol(
        epochs=200, rate=1e-2, batch_size=50, weight_decay=0.0, loss="own", schedule="cosine",
        stop_after=1000,
    )  # fmt: skip
    uses_every_point: ClassVar[bool] = True
    sees_path: ClassVar[bool] = True
    tiers: ClassVar[tuple[str, ...]] = ("hidden",)
    sampled: ClassVar[tuple[str, ...]] = ("hidden",)

    def sample_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """``z0`` of the prior."""
        return np.random.default_rng(seed).standard_normal((n_paths, self.n_latent))
