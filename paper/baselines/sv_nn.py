"""SV&NN (Neufeld and Schmocker, 2024): chaos coordinates times small networks of (t, x)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from paper.baselines.inputs import Grid, noise_variable
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network
from spdelaw.chaos import CosineBasis
from spdelaw.errors import DataError

Array = np.ndarray


def graded_pairs(count: int) -> list[tuple[int, int]]:
    """The first pairs (k, n) by k + n, then by n.

    Example:
        >>> graded_pairs(4)
        [(1, 1), (2, 1), (1, 2), (3, 1)]
    """
    pairs = ((k + n, n, k) for k in range(1, count + 1) for n in range(1, count + 1))
    return [(k, n) for _, n, k in sorted(pairs)[:count]]


class SVNNNetwork(Network):
    """All propagators at once."""

    times: Tensor
    points: Tensor
    in_time: Tensor
    in_space: Tensor
    shift: Tensor
    outer: Tensor

    def __init__(self, system: SVNN, grid: Grid) -> None:
        super().__init__(system, grid)
        for name in ("in_time", "in_space", "shift", "outer"):
            weights = 1e-2 * torch.randn(system.n_indices, system.n_neurons)
            self.register_parameter(name, nn.Parameter(weights))
        for name, values in (("times", grid.times), ("points", grid.points)):
            self.constant(name, values)

    def propagators(self) -> Tensor:
        """``phi_alpha(t, x)`` after the first time; (A, T - 1, M)."""
        by_time = self.in_time[..., None] * self.times[1:] - self.shift[..., None]
        by_point = self.in_space[..., None] * self.points
        neurons = torch.tanh(by_time[..., :, None] + by_point[..., None, :])
        return torch.einsum("aj,ajtx->atx", self.outer, neurons)

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of coordinates ``drive`` (B, A)."""
        return torch.tensordot(drive, self.propagators(), dims=1)


@dataclasses.dataclass(eq=False)
class SVNN(Predictor):
    """``X(t, x) = sum_alpha xi_alpha phi_alpha(t, x)``, each propagator one layer of tanh.

    ``phi_alpha = sum_j Y_aj tanh(A0_aj t + A1_aj x - B_aj)``. The first index has ``xi = 1``; the
    others are the coordinates ``int m_k dw_n`` with the smallest k + n. With the defaults it has
    the paper's 1,408 weights.

    Args:
        domain: domain of the fields.
        n_indices: chaos indices, the constant included.
        n_neurons: neurons of each propagator.
    """

    n_indices: int = 11
    n_neurons: int = 32
    name: ClassVar[str] = "sv-nn"
    label: ClassVar[str] = "SV&NN"
    network_class: ClassVar[type[Network]] = SVNNNetwork
    protocol: ClassVar[Protocol] = Protocol(
        rate=2e-3, batch_size=40, loss="mse", schedule="constant", weight_decay=0.0, stop_after=1000
    )
    uses_every_point: ClassVar[bool] = True
    mesh_free: ClassVar[bool] = True

    def hidden_drive(self, grid: Grid) -> Array:
        """The constant alone."""
        return np.eye(1, self.n_indices)

    def independent_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """The constant and standard normals."""
        z = np.random.default_rng(seed).standard_normal((n_paths, self.n_indices))
        z[:, 0] = 1.0
        return z

    def observed_drive(self, data: Any, grid: Grid) -> Array:
        """The constant and ``sum_i m_k(midpoint_i) dW_n,i``, in the units of W."""
        increments = noise_variable(data, "noise_increment")
        pairs = graded_pairs(self.n_indices - 1)
        n_modes = max((n for _, n in pairs), default=0)
        if increments.shape[-1] < n_modes:
            expected, got = f"at least {n_modes} modes of noise", str(increments.shape[-1])
            fix = "pass a smaller n_indices"
            raise DataError("noise_increment", expected=expected, got=got, fix=fix)
        ages = grid.times - grid.times[0]
        m = CosineBasis(ages[-1]).values(0.5 * (ages[1:] + ages[:-1]), max(1, len(pairs)))
        xi = np.einsum("tk,ptn->pkn", m, increments[:, 1:, :n_modes])
        columns = [xi[:, k - 1, n - 1] for k, n in pairs]
        return np.stack([np.ones(len(xi)), *columns], axis=1)
