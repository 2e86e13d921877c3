"""F-SPDENO and SDENO (Shi et al., 2026): networks of Wick features of the noise.

Both take ``xi_{j,n} = int e_j dW_n`` with Haar functions ``e_j`` of time, standardised, and all
products ``He_a(xi) / sqrt(a!)`` up to order two. With hidden noise they are trained by matching
laws: fields of fresh ``xi`` are compared with the observed ones by the energy score on whole paths,
``mean |x - y| - mean |x - x'| / 2``. The published loss of that setting is not known here.
"""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from paper.baselines.fourier import ComplexWeight
from paper.baselines.inputs import Cases, Grid, noise_variable
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network
from spdelaw.chaos import HaarBasis
from spdelaw.errors import DataError

Array = np.ndarray


def haar(grid: Grid, n: int) -> Array:
    """Haar functions at the grid's times, orthonormal there by QR; (T, n).

    Example:
        >>> import spdelaw as sl
        >>> phi = haar(Grid(np.linspace(0, 1, 9), np.zeros(1), sl.Interval(0, 1)), 4)
        >>> bool(np.allclose(phi.T @ phi, np.eye(4)))
        True
    """
    ages = (grid.times - grid.times[0]) / np.ptp(grid.times)
    return np.linalg.qr(HaarBasis(1.0).values(ages, n))[0]


def time_floor(fields: Array, grid: Grid, n: int) -> Array:
    """Least-squares projection of fields (P, T, M) on n Haar functions of time.

    No system whose fields are sums of these functions can be closer to them.
    """
    phi = haar(grid, n)
    return np.einsum("ti,si,psm->ptm", phi, phi, fields)


def wick_features(xi: Tensor) -> Tensor:
    """``1``, ``xi_i``, ``(xi_i^2 - 1) / sqrt(2)`` and ``xi_i xi_j``; (B, (d + 1)(d + 2) / 2)."""
    i, j = torch.triu_indices(xi.shape[1], xi.shape[1], offset=1)
    square = (xi**2 - 1.0) / math.sqrt(2.0)
    return torch.cat([torch.ones_like(xi[:, :1]), xi, square, xi[:, i] * xi[:, j]], 1)


def energy_score(x: Tensor, y: Tensor) -> Tensor:
    """Energy score of draws x for paths y, (B, ...) each, per root of values."""
    x, y = x.flatten(1), y.flatten(1)
    n = len(x)
    within = torch.cdist(x, x).sum() / max(1, n * (n - 1))
    return (torch.cdist(x, y).mean() - 0.5 * within) / math.sqrt(x.shape[1])


class ChaosFeatures:
    """The input ``xi`` of both systems."""

    n_space: int
    n_time: int
    uses_every_point: ClassVar[bool] = True
    predicts_mean: ClassVar[bool] = False
    sampled: ClassVar[tuple[str, ...]] = ("hidden", "independent")
    protocol: ClassVar[Protocol] = Protocol(
        epochs=200, rate=1e-3, batch_size=64, weight_decay=0.0, loss="own"
    )

    @property
    def n_coordinates(self) -> int:
        """Number of ``xi``."""
        return self.n_space * self.n_time

    def hidden_drive(self, grid: Grid) -> Array:
        """Zeros: the prediction of a path is the field of the average noise."""
        return np.zeros((1, self.n_coordinates))

    def independent_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """Standard normals."""
        return np.random.default_rng(seed).standard_normal((n_paths, self.n_coordinates))

    def observed_drive(self, data: Any, grid: Grid) -> Array:
        """Left-point sums of ``e_j`` against the increments of each mode of W."""
        increments = noise_variable(data, "noise_increment")
        if increments.shape[-1] < self.n_space:
            expected, got = f"at least {self.n_space} modes of noise", str(increments.shape[-1])
            fix = "pass a smaller n_space"
            raise DataError("noise_increment", expected=expected, got=got, fix=fix)
        ages = (grid.times - grid.times[0]) / np.ptp(grid.times)
        e = HaarBasis(1.0).values(ages[:-1], self.n_time)
        xi = np.einsum("tj,ptn->pjn", e, increments[:, 1:, : self.n_space])
        return xi.reshape(len(xi), -1)


class FeatureNetwork(Network):
    """Standardisation of ``xi``, and the loss of a network that is given no noise."""

    scale: Tensor

    def __init__(self, system: ChaosFeatures, grid: Grid) -> None:
        super().__init__(system, grid)
        self.n_coordinates = system.n_coordinates
        self.register_buffer("scale", torch.ones(self.n_coordinates))

    def prepare(self, cases: Cases) -> None:
        """Take the standard deviations of the training set."""
        if len(cases.drive) > 1:
            self.scale = cases.drive.std(0).clamp_min(1e-8)

    def loss(self, batch: Cases, kind: str) -> Tensor:
        """Relative error, or with one shared input the energy score of fresh noise."""
        if not batch.shared:
            return super().loss(batch, "relative_l2") / len(batch)
        xi = torch.randn(len(batch), self.n_coordinates)
        return energy_score(self(batch.initial.expand(len(batch), -1), xi), batch.target)


class FSPDENONetwork(FeatureNetwork):
    """Fourier layers over x."""

    x: Tensor
    phi: Tensor

    def __init__(self, system: FSPDENO, grid: Grid) -> None:
        super().__init__(system, grid)
        d, width, self.modes = system.n_coordinates, system.width, system.modes_x
        self.lift = nn.Linear(2 + (d + 1) * (d + 2) // 2, width)
        layers = range(system.n_layers)
        shape = (width, width, self.modes)
        self.kernels = nn.ModuleList(ComplexWeight(*shape, scale=width**-2) for _ in layers)
        self.pointwise = nn.ModuleList(nn.Linear(width, width) for _ in layers)
        self.head = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, system.n_haar))
        self.constant("x", grid.unit()[1])
        # In units of a mean over times, so that C has the size of the field.
        self.constant("phi", haar(grid, system.n_haar)[1:] * np.sqrt(grid.shape[0]))

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of coordinates ``drive`` (B, d)."""
        n_points = len(self.x)
        features = wick_features(drive / self.scale)[:, None].expand(-1, n_points, -1)
        at = torch.stack([initial, self.x.expand_as(initial)], -1)
        v = self.lift(torch.cat([at, features], -1))
        for kernel, pointwise in zip(self.kernels, self.pointwise, strict=True):
            f = torch.fft.rfft(v, dim=1)
            low = torch.einsum("bxi,iox->bxo", f[:, : self.modes], kernel()[..., : f.shape[1]])
            f = functional.pad(low, (0, 0, 0, f.shape[1] - low.shape[1]))
            v = functional.gelu(torch.fft.irfft(f, n=n_points, dim=1) + pointwise(v))
        return torch.einsum("bmk,tk->btm", self.head(v), self.phi)


@dataclasses.dataclass(eq=False)
class FSPDENO(ChaosFeatures, Predictor):
    """``u(t, x) = sum_k C_k(x) phi_k(t)``: an FNO in space gives C, Haar functions are fixed.

    Its input channels are the initial state, x and the features, constant in x. With the defaults
    it has the 449,552 weights (842,768) of the public re-implementation on 1-D data. Published
    weight decay of 3e-4 makes the output collapse to zero, so there is none.

    Args:
        domain: domain of the fields.
        n_space, n_time: modes of W and functions of time behind the features.
        width, n_layers, modes_x: of the FNO.
        n_haar: functions of time of the field; see `time_floor`.
    """

    n_space: int = 8
    n_time: int = 3
    width: int = 64
    n_layers: int = 6
    modes_x: int = 16
    n_haar: int = 16
    name: ClassVar[str] = "f-spdeno"
    label: ClassVar[str] = "F-SPDENO"
    network_class: ClassVar[type[Network]] = FSPDENONetwork
    needs_regular_grid: ClassVar[bool] = True
    uses_initial: ClassVar[bool] = True


class SDENONetwork(FeatureNetwork):
    """Branch of the features, trunk of the time, eigenfunctions of the domain."""

    at: Tensor
    basis: Tensor

    def __init__(self, system: SDENO, grid: Grid) -> None:
        super().__init__(system, grid)
        d, self.n_space, self.rank = system.n_coordinates, system.n_space, system.rank
        sizes = system.width, system.n_layers
        self.branch = _mlp((d + 1) * (d + 2) // 2, *sizes, system.rank)
        self.trunk = _mlp(system.n_embedding, *sizes, system.rank * system.n_space)
        angle = math.pi * torch.arange(1, system.n_embedding // 2 + 1) * grid.unit()[0][1:, None]
        self.constant("at", torch.cat([angle.sin(), angle.cos()], 1))
        self.constant("basis", grid.domain.eigenfunctions(grid.points, system.n_space))

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of coordinates ``drive`` (B, d)."""
        b = self.branch(wick_features(drive / self.scale))
        trunk = self.trunk(self.at).view(-1, self.n_space, self.rank)
        return torch.einsum("br,tnr->btn", b, trunk) @ self.basis.t()


@dataclasses.dataclass(eq=False)
class SDENO(ChaosFeatures, Predictor):
    """``c_n(t) = <branch(features), trunk_n(t)>`` for the modes of the field.

    Published for single SDEs, with 64 coordinates and 2145 features; here 8 coordinates of each of
    8 modes. Branch and trunk are GELU networks; the trunk sees ``sin`` and ``cos`` of ``pi k t``.

    Args:
        domain: domain of the fields.
        n_space, n_time: modes of W and of the field, and functions of time behind the features.
        width, n_layers: of branch and trunk; layers are linear maps.
        rank: of the inner product.
        n_embedding: of the time, sines and cosines together.
    """

    n_space: int = 8
    n_time: int = 8
    width: int = 512
    n_layers: int = 4
    rank: int = 96
    n_embedding: int = 128
    name: ClassVar[str] = "sdeno"
    label: ClassVar[str] = "SDENO"
    network_class: ClassVar[type[Network]] = SDENONetwork


def _mlp(n_in: int, width: int, n_layers: int, n_out: int) -> nn.Sequential:
    """So many linear maps with GELU between."""
    sizes = [n_in, *[width] * (n_layers - 1), n_out]
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.GELU())]
    return nn.Sequential(*layers[:-1])
