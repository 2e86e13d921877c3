"""The paper's latent-variable model: encoder, latent dynamics, chaos decoder, observation noise.

``X(t, x) = sum_n c_n(t) h_n(x) + noise(x)`` with
``c_n(t) = z0_n e^(-lambda_n t) + sqrt(q_n) sum_k psi_k(t; lambda_n) xi_{k,n}`` (eq. 12, Q
diagonal),
``z0, xi ~ N(0, I)`` and a noise variance for each point (sections 2.6 to 2.9).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spdelaw.chaos import CosineBasis, Propagators, expand, propagate
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._paths import Paths
from spdelaw.model.encoder import Encoded, Encoder

#: Largest value of all modes at a point, as a share of that anywhere, to count as zero.
ZERO = 1e-10


class LatentDynamics(nn.Module):
    """Eigenvalues and noise factor of the latent equations, in float64.

    ``lambda = exp(log_eigenvalues)``; the noise factor ``<Q^(1/2) h_l, h_n>`` is N x L. Q is
    diagonal in the modes, so all but its diagonal ``sqrt(q_n) = exp(log_factor[n, n])`` is masked.
    Both start at 1 and stay positive. With L < N driving processes the modes beyond L are not
    driven at all.
    """

    def __init__(self, n_modes: int, n_noise: int) -> None:
        super().__init__()
        self.log_eigenvalues = nn.Parameter(torch.zeros(n_modes, dtype=torch.float64))
        self.log_factor = nn.Parameter(torch.zeros(n_modes, n_noise, dtype=torch.float64))

    def eigenvalues(self) -> Tensor:
        """``lambda_n``, (N,)."""
        return torch.exp(self.log_eigenvalues)

    def amplitudes(self) -> Tensor:
        """``sqrt(q_n)``, (N,), zero for a mode that nothing drives."""
        driven = torch.exp(torch.diagonal(self.log_factor))
        return nn.functional.pad(driven, (0, len(self.log_eigenvalues) - len(driven)))

    def curves(self, ages: np.ndarray, n_time: int, method: Any) -> Propagators:
        """Propagators at ages in [0, 1]."""
        n, l = self.log_factor.shape
        factor = self.amplitudes()
        if l != n:
            factor = nn.functional.pad(torch.diag(factor), (0, 0, 0, l - n))[:l]
        return propagate(CosineBasis(1.0), ages, self.eigenvalues(), factor, n_time, method=method)


class ChaosVAE(nn.Module):
    """All parameters of the learner: phi (encoder), theta (dynamics), gamma (variances).

    Args:
        basis: eigenfunctions at the points, (M, N).
        config: widths, K, kind of propagators.

    ``zeros`` are points that are zeros of every mode, such as Dirichlet ends, (M,).
    """

    basis: Tensor

    def __init__(self, basis: np.ndarray, config: AmortizedConfig) -> None:
        super().__init__()
        n_points, n_modes = basis.shape
        self.n_time, self.method = config.n_time, config.propagators
        widths = (config.n_hidden, config.n_embedding, config.n_reference, config.n_noise)
        self.encoder = Encoder(n_points, n_modes, config.n_time, *widths)
        self.dynamics = LatentDynamics(n_modes, self.encoder.n_noise)
        self.is_log, std = config.variance == "log", config.variance_start
        start = 2.0 * math.log(std) if self.is_log else math.sqrt(std)
        self.variance_name = "log_variance" if self.is_log else "root_std"
        variance = nn.Parameter(torch.full((n_points,), start, dtype=torch.float64))
        self.register_parameter(self.variance_name, variance)
        self.register_buffer("basis", torch.from_numpy(basis).float(), persistent=False)
        size = np.abs(basis).max(1)
        self.zeros = torch.from_numpy(size <= ZERO * size.max())

    @property
    def n_parameters(self) -> int:
        """Number of parameters, masked ones included, as the paper counts."""
        return sum(p.numel() for p in self.parameters())

    def groups(self, config: AmortizedConfig) -> list[dict[str, Any]]:
        """Parameters by learning rate and weight decay, for an optimiser."""
        free = {"weight_decay": 0.0} if config.decay_of == "encoder" else {}
        variance = self.get_parameter(self.variance_name)
        return [
            {"params": list(self.encoder.parameters()), "lr": config.encoder_rate},
            {"params": list(self.dynamics.parameters()), "lr": config.dynamics_rate, **free},
            {"params": [variance], "lr": config.variance_rate, **free},
        ]

    def log_observation_variance(self) -> Tensor:
        """``log r`` of every point, (M,): learned as such, or as ``r = s^4``."""
        value = self.get_parameter(self.variance_name)
        return value if self.is_log else 4.0 * torch.log(value.abs())

    def encode(self, paths: Paths) -> Encoded:
        """``q(z0, xi | X)`` of every path."""
        return self.encoder(paths.values, paths.observed, paths.times)

    def curves(self, paths: Paths) -> Propagators:
        """Propagators on the paths' clock, shared by all of them."""
        return self.dynamics.curves(paths.ages, self.n_time, self.method)

    def coefficients(
        self, curves: Propagators, paths: Paths, initial: Tensor, chaos: Tensor
    ) -> Tensor:
        """Coefficients (P, T, N) of latent ``z0`` (P, N) and ``xi`` (P, K, L)."""
        c = expand(curves, initial, chaos)
        return c if paths.index is None else torch.take_along_dim(c, paths.index[..., None], 1)

    def field_variance(self, curves: Propagators, paths: Paths, posterior: Encoded) -> Tensor:
        """Variance of the decoded field under independent normals, (P, T, M).

        The decoder is linear, so variances go through the squares of its coefficients.
        """
        squared = Propagators(*(curve**2 for curve in curves))
        initial, chaos = posterior.initial_log_variance, posterior.chaos_log_variance
        variance = self.coefficients(squared, paths, initial.exp(), chaos.exp())
        return variance @ (self.basis**2).t()
