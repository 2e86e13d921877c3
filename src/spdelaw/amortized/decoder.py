"""Decoders: from the posterior of ``z0`` and ``xi`` to the coefficients of the field."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from spdelaw.amortized.encoder import Encoded
from spdelaw.chaos.bases import CosineBasis
from spdelaw.chaos.higher_order import augment, propagate_chaos
from spdelaw.chaos.indices import IndexSet
from spdelaw.chaos.propagators import Propagators, expand, propagate

Array = np.ndarray

# ---------- Order 1: linear equations with additive noise
#
# ``c_n(t) = z0_n e^(-lambda_n t) + sqrt(q_n) sum_k psi_k(t; lambda_n) xi_{k,n}`` (eq. 12, diagonal
# Q). There is no chaos of higher order.


class LatentDynamics(nn.Module):
    """Eigenvalues and noise factor of the latent equations, in float64.

    ``lambda = exp(log_eigenvalues)``; the noise factor ``<Q^(1/2) h_l, h_n>`` is N x L. Q is
    diagonal in the modes, so all but its diagonal ``sqrt(q_n) = exp(log_factor[n, n])`` is masked.
    Both start at 1 and stay positive. With L < N driving processes the modes beyond L are not
    driven at all.
    """

    order = 1

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

    def noise_offset(self) -> float:
        """``gamma``, the constant part of affine noise."""
        return 0.0

    def curves(self, ages: Array, n_time: int, method: Any) -> Any:
        """Propagators at ages in [0, 1]."""
        n, l = self.log_factor.shape
        factor = self.amplitudes()
        if l != n:
            factor = nn.functional.pad(torch.diag(factor), (0, 0, 0, l - n))[:l]
        return propagate(CosineBasis(1.0), ages, self.eigenvalues(), factor, n_time, method=method)

    def coefficients(self, curves: Any, initial: Tensor, chaos: Tensor) -> Tensor:
        """Coefficients (P, T, N) of latent ``z0`` (P, N) and ``xi`` (P, K, L)."""
        return expand(curves, initial, chaos)

    def moments(self, curves: Any, posterior: Encoded) -> tuple[Tensor, Tensor]:
        """Means (P, T, N) and variances (P, T, N), or covariances (P, T, N, N), of coefficients.

        The decoder is linear, so variances go through the squares of its propagators.
        """
        squared = Propagators(*(curve**2 for curve in curves))
        variances = posterior.initial_log_variance.exp(), posterior.chaos_log_variance.exp()
        mean = self.coefficients(curves, posterior.initial_mean, posterior.chaos_mean)
        return mean, expand(squared, *variances)


# ---------- Any order: noise that is linear in the state
#
# ``dc = -Lambda c dt + sum_l sqrt(q_l) (B_l c + gamma b_l) dw_l`` (Ito) has
#
#     c(t) = sum_alpha Phi_alpha(t) z0 xi_alpha,   xi_alpha = prod H_a(xi_kl) / sqrt(a!),
#
# a polynomial in xi with propagators ``Phi_alpha`` from unit vectors. Under independent normals
# ``xi = m + s eps`` the same field is a polynomial in eps, variable by variable
#
#     He_a(m + s eps) = sum_j C(a, j) s^j h_{a-j} He_j(eps),
#     h_{a+1} = m h_a - a (1 - s^2) h_{a-1},
#
# whose coefficients give mean and covariance: Hermite polynomials of eps are orthogonal.


class StateNoise(NamedTuple):
    """Noise ``sum_l sqrt(q_l) (B_l c + gamma b_l) dw_l`` of a decoder.

    Attributes:
        operators: ``B_l``, (L, N, N).
        constants: ``b_l``, (L, N), where gamma is learned; None where it is zero.
    """

    operators: Array
    constants: Array | None = None


class PolynomialDynamics(LatentDynamics):
    """Latent equations with noise that is linear in the state, expanded to any order.

    ``log_factor`` holds ``log sqrt(q_l)``, the spectrum of the driving noise.

    Args:
        noise: operators and constants of all driving processes.
        indices: of the expansion.
    """

    operators: Tensor
    constants: Tensor | None

    def __init__(self, noise: StateNoise, indices: IndexSet) -> None:
        n_modes, n_noise = noise.operators.shape[1], indices.n_noise
        super().__init__(n_modes, n_noise)
        self.indices, self.order = indices, indices.order
        operators = torch.from_numpy(noise.operators[:n_noise].copy())
        self.register_buffer("operators", operators, persistent=False)
        constants = None
        if noise.constants is not None:
            constants = torch.from_numpy(noise.constants[:n_noise].copy())
            self.offset = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.register_buffer("constants", constants, persistent=False)

    def noise_offset(self) -> float:
        """``gamma``."""
        return 0.0 if self.constants is None else float(self.offset.detach())

    def curves(self, ages: Array, n_time: int, method: Any) -> Tensor:
        """`propagators`, in float32: errors of 1e-6, and a third of the time saved."""
        return self.propagators(ages, torch.float32)

    def propagators(self, ages: Array, dtype: torch.dtype = torch.float64) -> Tensor:
        """``Phi_alpha(t)``, (T, n_indices, N, N), or (..., N, N + 1) with a last column for 1."""
        factor = torch.exp(torch.diagonal(self.log_factor))
        generator, couplings = -self.eigenvalues(), factor[:, None, None] * self.operators
        if self.constants is not None:
            noise = factor[:, None] * self.offset * self.constants
            generator, couplings = augment(generator, couplings, noise)
        start = torch.eye(len(generator), dtype=dtype)
        generator, couplings = generator.to(dtype), couplings.to(dtype)
        phi: Tensor = propagate_chaos(
            generator, couplings, start, ages, self.indices, horizon=1.0, xp=torch
        )
        return phi[:, :, : len(self.log_eigenvalues)]

    def coefficients(self, curves: Tensor, initial: Tensor, chaos: Tensor) -> Tensor:
        """Coefficients (P, T, N) of latent ``z0`` (P, N) and ``xi`` (P, K, L)."""
        return self._contract(curves, self._state(initial), self.indices.polynomials(chaos, torch))

    def moments(self, curves: Tensor, posterior: Encoded) -> tuple[Tensor, Tensor]:
        """Means (P, T, N) and covariances (P, T, N, N) of coefficients."""
        weights = self._weights(posterior.chaos_mean, posterior.chaos_log_variance.exp())
        z0, std = posterior.initial_mean, torch.exp(0.5 * posterior.initial_log_variance)
        mean, covariance = self._of_noise(curves, self._state(z0), weights)
        for n in range(z0.shape[1]):
            along = torch.zeros(len(z0), curves.shape[3])
            along[:, n] = std[:, n]
            at_zero, spread = self._of_noise(curves, along, weights)
            covariance += spread + at_zero[..., :, None] * at_zero[..., None, :]
        return mean, covariance

    def jacobian(self, curves: Tensor, initial: Tensor, chaos: Tensor) -> Tensor:
        """Derivatives of the coefficients by ``z0``, then by ``xi``, (P, T, N, N + K L)."""
        h = self.indices.polynomials(chaos, torch)
        slopes = torch.from_numpy(self.indices.derivatives(h.numpy()))
        along = torch.einsum("tanc,pc->patn", curves, self._state(initial))
        by_chaos = torch.einsum("pva,patn->ptnv", slopes, along)
        by_initial = torch.einsum("pa,tanc->ptnc", h, curves[..., : initial.shape[1]])
        return torch.cat([by_initial, by_chaos], -1)

    def _state(self, initial: Tensor) -> Tensor:
        """``z0``, with a 1 for the constant part of the noise."""
        return initial if self.constants is None else nn.functional.pad(initial, (0, 1), value=1.0)

    def _contract(self, curves: Tensor, state: Tensor, polynomials: Tensor) -> Tensor:
        """``sum_alpha Phi_alpha(t) z xi_alpha``, one product over indices for all paths."""
        t, i, n, c = curves.shape
        flat = curves.permute(1, 0, 2, 3).reshape(i, t * n * c)
        return ((polynomials @ flat).view(-1, t, n, c) @ state[:, None, :, None])[..., 0]

    def _of_noise(self, curves: Tensor, state: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (P, T, N) and covariance (P, T, N, N) over eps, of states (P, C)."""
        alpha, beta = self._pairs[:2]
        n_low, n = self.indices.rows(self.order).start, len(self.indices)
        each = torch.einsum("tanc,pc->patn", curves, state)
        # Indices of the largest order have no others above them: all their weights are diagonal.
        low, high = (
            torch.zeros(len(state), n_low * n),
            weights[:, (beta == alpha) & (beta >= n_low)],
        )
        low.index_add_(1, (beta * n + alpha)[beta < n_low], weights[:, beta < n_low])
        lower = torch.bmm(low.view(-1, n_low, n), each.flatten(2)).view(-1, n_low, *each.shape[2:])
        tails = lower[:, 1:], each[:, n_low:] * high[:, :, None, None]
        rows = [tail.permute(0, 2, 3, 1) for tail in tails]
        return lower[:, 0], rows[0] @ rows[0].mT + rows[1] @ rows[1].mT

    def _weights(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Coefficient of ``eps_beta`` in ``xi_alpha`` for each pair, (P, n_pairs)."""
        _, _, variable, degree, power = self._pairs
        m, v = (torch.nn.functional.pad(x.flatten(1), (0, 1)) for x in (mean, variance))
        h = [torch.ones_like(m), m]
        for a in range(1, self.order):
            h.append(m * h[a] - a * (1.0 - v) * h[a - 1])
        zero, s = torch.zeros_like(m), torch.sqrt(v)
        rows = [
            [
                math.sqrt(math.comb(a, j) / math.factorial(a - j)) * s**j * h[a - j]
                if j <= a
                else zero
                for j in range(self.order + 1)
            ]
            for a in range(self.order + 1)
        ]
        table = torch.stack([torch.stack(row, -1) for row in rows], -2)  # (P, V + 1, a, j)
        return table[:, variable, degree, power].prod(1)

    @functools.cached_property
    def _pairs(self) -> tuple[Tensor, ...]:
        """Indices alpha and ``beta <= alpha``, and variables, degrees and powers in each slot."""
        slots, flat = self.indices.slots, self.indices.degrees.reshape(len(self.indices), -1)
        number = {row.tobytes(): i for i, row in enumerate(flat)}
        rows = []
        for alpha, (variables, degrees) in enumerate(zip(*slots[:2].swapaxes(1, 2), strict=True)):
            for powers in itertools.product(*(range(a + 1) for a in degrees)):
                beta = flat[alpha].copy()
                used = degrees > 0
                beta[variables[used]] = np.array(powers)[used]
                rows.append((alpha, number[beta.tobytes()], *variables, *degrees, *powers))
        table = torch.tensor(rows).T
        return table[0], table[1], *table[2:].chunk(3)
