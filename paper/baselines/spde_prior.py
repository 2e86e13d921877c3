"""Reconstruction with a learned SPDE prior (Beauchamp, Georgenthum and Fablet, 2023)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import xarray as xr
from scipy.sparse.linalg import splu
from torch import Tensor, nn

import spdelaw as sl
from paper.baselines.inputs import Cases, Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network

Array = np.ndarray


class Prior(NamedTuple):
    """``W (B x_t - x_{t-1}) = N(0, I)`` with matrices B and W, (M, M) at inner points."""

    B: Array
    W: Array


class _Solver:
    """Precision of one path given what is observed of it, factorised once."""

    def __init__(self, prior: Prior, start: Array, observed: Array, std: float) -> None:
        self.prior, self.start, self.observed, self.std = prior, start, observed, std
        n_times, n = observed.shape
        lag = sp.diags([np.ones(n_times - 1)], [-1])
        D = sp.kron(sp.eye(n_times), prior.B) - sp.kron(lag, sp.eye(n))
        self.weighted = D.T @ sp.kron(sp.eye(n_times), sp.csr_matrix(prior.W.T @ prior.W))
        self.factor = splu((self.weighted @ D + sp.diags(observed.ravel() / std**2)).tocsc())

    def condition(self, y: Array) -> Array:
        """``x*``, (T - 1, M)."""
        first = np.zeros(y.shape)
        first[0] = self.start
        right = self.weighted @ first.ravel() + (self.observed * y).ravel() / self.std**2
        return self.factor.solve(right).reshape(y.shape)

    def draw(self, best: Array, rng: np.random.Generator) -> Array:
        """A draw of the posterior with mean ``best``."""
        x = _roll(self.prior, self.start, rng.standard_normal(best.shape))
        return best + x - self.condition(x + self.std * rng.standard_normal(best.shape))


def _roll(prior: Prior, start: Array, noise: Array) -> Array:
    states, x = [], start
    step = np.linalg.inv(prior.B).T
    for z in noise @ np.linalg.inv(prior.W).T:
        x = (x + z) @ step
        states.append(x)
    return np.stack(states)


class PriorNetwork(Network):
    """Logarithms of kappa, gamma, tau and l, and the advection m, on pieces.

    At the start diffusion and noise are 1, and there is no advection.
    """

    theta: Tensor

    def __init__(self, system: SPDEPrior, grid: Grid) -> None:
        super().__init__(system, grid)
        d, n_pieces = grid.domain, system.n_pieces
        self.dirichlet = isinstance(d, sl.Interval) and d.boundary == "dirichlet"
        self.inner = slice(1, -1) if self.dirichlet else slice(None)
        self.n_points, self.dt, self.dx = grid.shape[1], grid.dt, grid.dx
        start = torch.zeros(5, n_pieces, dtype=torch.float64)
        start[0] = start[3] = -2.0
        self.theta = nn.Parameter(start)
        n = len(grid.points[self.inner])
        self.piece = torch.arange(n) * n_pieces // n

    def matrices(self) -> tuple[Tensor, Tensor]:
        """B and W, with gradients."""
        log_kappa, log_gamma, log_tau, log_length, m = self.theta[:, self.piece]
        n, dx = len(self.piece), self.dx
        eye = torch.eye(n, dtype=torch.float64)
        left = torch.diag(torch.ones(n - 1, dtype=torch.float64), -1)
        right = left.t().clone()
        if not self.dirichlet:  # reflecting ends
            left[0, 0] = right[-1, -1] = 1.0
        forward, backward = (right - eye) / dx, (eye - left) / dx
        laplacian, up = (forward - backward) / dx, m[:, None]
        A = torch.diag(torch.exp(2.0 * log_kappa)) - log_gamma.exp()[:, None] * laplacian
        A = A + up.clamp_min(0.0) * backward + up.clamp_max(0.0) * forward
        colour = eye - torch.exp(2.0 * log_length)[:, None] * laplacian
        return eye + self.dt * A, torch.exp(-log_tau)[:, None] * colour / self.dt**0.5

    def prior(self) -> Prior:
        """Both as arrays."""
        return Prior(*(matrix.detach().numpy() for matrix in self.matrices()))

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Mean path of each initial state."""
        step = torch.linalg.inv(self.matrices()[0]).t()
        x, states = initial[:, self.inner].double(), []
        for _ in range(drive.shape[1] - 1):
            x = x @ step
            states.append(x)
        return self._whole(torch.stack(states, 1))

    def generate(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Draws of the prior."""
        step, colour = (torch.linalg.inv(matrix).t() for matrix in self.matrices())
        noise = drive[:, 1:, self.inner].double() @ colour
        x, states = initial[:, self.inner].double(), []
        for z in noise.unbind(1):
            x = (x + z) @ step
            states.append(x)
        return self._whole(torch.stack(states, 1))

    def loss(self, batch: Cases, kind: str) -> Tensor:
        """Negative log-likelihood per value: a product of transitions."""
        B, W = self.matrices()
        later = batch.target[..., self.inner].double()
        start = batch.initial[:, None, self.inner].double().expand(len(later), -1, -1)
        residual = (later @ B.t() - torch.cat([start, later[:, :-1]], 1)) @ W.t()
        log_det = torch.linalg.slogdet(B)[1] + torch.linalg.slogdet(W)[1]
        return 0.5 * residual.square().mean() - log_det / len(W)

    def _whole(self, inner: Tensor) -> Tensor:
        return nn.functional.pad(inner, (1, 1)) if self.dirichlet else inner


@dataclasses.dataclass(eq=False)
class SPDEPrior(Predictor):
    """``dx + (kappa^2 + m d/dx - d/dx gamma d/dx) x dt = (1 - l^2 Lap)^-1 tau dW``.

    Finite differences and implicit Euler steps make paths a Gaussian Markov field whose precision
    is block tridiagonal. The parameters are constant, or constant on pieces of the domain. They
    maximise the likelihood of complete training paths; the published encoder of ``theta`` and the
    unrolled solver are not needed, since the minimiser of the variational cost is a sparse solve.
    The published colour of the noise is the operator of the drift; here it has a length of its
    own, ``l``, since the drift would otherwise have to absorb the smoothness of the noise. The
    bias is O(dt).

    Args:
        domain: domain of the fields.
        n_pieces: pieces of the domain with parameters of their own.
    """

    n_pieces: int = 1
    name: ClassVar[str] = "spde-prior"
    label: ClassVar[str] = "SPDE prior"
    network_class: ClassVar[type[Network]] = PriorNetwork
    needs_regular_grid: ClassVar[bool] = True
    protocol: ClassVar[Protocol] = Protocol(
        epochs=60, rate=1e-1, batch_size=100, weight_decay=0.0, loss="own", schedule="cosine"
    )
    uses_initial: ClassVar[bool] = True
    uses_every_point: ClassVar[bool] = True
    tiers: ClassVar[tuple[str, ...]] = ("hidden",)
    sampled: ClassVar[tuple[str, ...]] = ("hidden",)

    def sample_drive(self, n_paths: int, grid: Grid, seed: int) -> Array:
        """White noise."""
        return np.random.default_rng(seed).standard_normal((n_paths, *grid.shape))

    def reconstruct(
        self, fields: xr.DataArray, *, observation_std: float = 1e-3, n_draws: int = 100,
        seed: int = 0,
    ) -> xr.Dataset:  # fmt: skip
        """Complete gappy paths of known start: mean, and deviations over conditioned draws.

        The mean minimises ``|y - H x|^2 / r + x' Q x``, a sparse solve. A draw of the prior
        ``x_i`` becomes one of the posterior as ``x* + x_i - x*(H x_i + e_i)``.

        Args:
            fields: (path, time, x), NaN where missing; complete at the first time.
            observation_std: square root of r.
            n_draws: draws behind a standard deviation.
            seed: of the draws.
        """
        network = self._require_fit().network
        if not isinstance(network, PriorNetwork):
            raise TypeError("SPDEPrior builds a PriorNetwork")
        prior, inner, rng = network.prior(), network.inner, np.random.default_rng(seed)
        values = np.asarray(fields.values, float)
        mean, std = np.array(values), np.zeros(values.shape)
        for path, y in enumerate(values[:, :, inner]):
            solver = _Solver(prior, y[0], ~np.isnan(y[1:]), observation_std)
            best = solver.condition(np.nan_to_num(y[1:]))
            draws = np.stack([solver.draw(best, rng) for _ in range(n_draws)])
            mean[path, 1:, inner], std[path, 1:, inner] = best, draws.std(0, ddof=1)
        mean[:, 1:] = np.where(np.isnan(mean[:, 1:]), 0.0, mean[:, 1:])  # Dirichlet ends
        return xr.Dataset({"mean": fields.copy(data=mean), "std": fields.copy(data=std)})
