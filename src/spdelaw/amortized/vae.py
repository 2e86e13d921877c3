"""The paper's latent-variable model: its decoder and its evidence lower bound (eq. 13)."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spdelaw.amortized.encoder import (
    AbstractEncoder,
    Encoded,
    Encoder,
    GridEncoder,
    ModesEncoder,
    OdeRnnEncoder,
)
from spdelaw.amortized.structured import ACTIVE_VARIANCE, AmortizedConfig
from spdelaw.chaos.higher_order import augment, propagate_chaos
from spdelaw.chaos.indices import IndexSet, decoder_indices
from spdelaw.chaos.propagators import CosineBasis, Propagators, expand, propagate
from spdelaw.data.observed import Observed
from spdelaw.errors import DataError
from spdelaw.statespace.collapse import collapse

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


# ---------- Observed paths as tensors: values, mask, and times as a share of the horizon


@dataclasses.dataclass(frozen=True)
class Paths:
    """Paths in one batch or all of them.

    Attributes:
        values: (P, T, M) float32, zero where missing.
        observed: (P, T, M) float32, 1 or 0; None where nothing is missing.
        ages: distinct times as shares of the horizon, (U,) float64.
        index: position of each path's times among them, (P, T); None where all share one clock.
        modes: estimates of the modes and their weights, each (P, T, N), for encoders of modes.
    """

    values: Tensor
    observed: Tensor | None
    ages: Array
    index: Tensor | None
    modes: tuple[Tensor, Tensor | None] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def times(self) -> Tensor:
        """Times for the encoder, float32: (T,) or (P, T)."""
        shared = torch.from_numpy(self.ages).float()
        return shared if self.index is None else shared[self.index]

    def take(self, where: Array | slice) -> Paths:
        """Some of the paths."""
        at = where if isinstance(where, slice) else torch.from_numpy(where)

        def some(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[at]

        modes = None if self.modes is None else (self.modes[0][at], some(self.modes[1]))
        return Paths(self.values[at], some(self.observed), self.ages, some(self.index), modes)

    def batches(self, size: int, order: Array | None = None) -> Iterator[Paths]:
        """Consecutive batches, in the given order of the paths."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield self.take(rows if order is None else order[rows])


def as_paths(observed: Observed, start: float, horizon: float, basis: Array | None = None) -> Paths:
    """Tensors of observed fields, with times as ``(t - start) / horizon``.

    Args:
        observed: fields.
        start: first time of the training paths.
        horizon: their last time less the first.
        basis: eigenfunctions at the points, (M, N), for encoders of modes.

    Raises:
        DataError: something was observed before the start or past the horizon.
    """
    values = np.array(observed.values, dtype=np.float32)
    is_observed = ~np.isnan(values)
    ages = (observed.times - start) / horizon
    outside = (ages < -1e-9) | (ages > 1.0 + 1e-9)
    if (outside & (is_observed.any(2) if ages.ndim == 2 else is_observed.any((0, 2)))).any():
        expected = f"times within {start:g} and {start + horizon:g}, as in the fit"
        got = f"{observed.times.min():g} to {observed.times.max():g}"
        fix = "fit over the longer time, or use law.forecast"
        raise DataError("time", expected=expected, got=got, fix=fix)
    ages = np.clip(ages, 0.0, 1.0)
    index = None
    if ages.ndim == 2:
        ages, positions = np.unique(ages, return_inverse=True)
        index = torch.from_numpy(positions.reshape(observed.times.shape))
    mask = None if is_observed.all() else torch.from_numpy(is_observed.astype(np.float32))
    modes: tuple[Tensor, Tensor | None] | None = None
    if basis is not None:
        estimates, weights = _estimate_modes(observed, basis)
        modes = estimates, None if mask is None else weights
    return Paths(torch.from_numpy(np.nan_to_num(values)), mask, ages, index, modes)


def _estimate_modes(observed: Observed, basis: Array) -> tuple[Tensor, Tensor]:
    """Ridge estimates ``(G + r I)^-1 b`` of the modes at each time, and their weights.

    The weight of a mode is its entry in the diagonal of ``(G + r I)^-1 G``, relative to complete
    data: 1 where the points determine the mode, 0 where they do not show it. Both depend on
    neither the number of points nor the dimension.
    """
    n = basis.shape[1]
    whole = basis.T @ basis
    ridge = RIDGE_SHARE * np.trace(whole) / n * np.eye(n)
    largest = np.diagonal(np.linalg.solve(whole + ridge, whole))
    estimates, weights = np.empty((2, *observed.values.shape[:2], n), np.float32)
    for block in collapse(observed.values, observed.times, basis, fitted=False).blocks:
        inverse = np.linalg.inv(block.matrices + ridge)  # (T, 1 or P, N, N)
        vectors = np.moveaxis(block.vector, 2, 1)[..., None]  # (T, P, N, 1)
        estimate = np.swapaxes((inverse @ vectors)[..., 0], 0, 1)
        weight = np.einsum("tbij,tbji->bti", inverse, block.matrices) / largest
        estimates[block.paths], weights[block.paths] = estimate, np.clip(weight, 0.0, 1.0)
    return torch.from_numpy(estimates), torch.from_numpy(weights)


# ---------- The paper's latent-variable model: encoder, latent dynamics, decoder, noise
#
# ``X(t, x) = sum_n c_n(t) h_n(x) + noise(x)`` with
# ``c_n(t) = z0_n e^(-lambda_n t) + sqrt(q_n) sum_k psi_k(t; lambda_n) xi_{k,n}`` (eq. 12, diagonal
# Q), ``z0, xi ~ N(0, I)`` and a noise variance for each point (sections 2.6 to 2.9).


#: Ridge of the estimates of modes, as a share of the mean diagonal of ``G`` in complete data.
RIDGE_SHARE = 1e-2
#: Largest value of all modes at a point, as a share of that anywhere, to count as zero.
ZERO_SHARE = 1e-10


class ChaosVAE(nn.Module):
    """All parameters of the learner: phi (encoder), theta (dynamics), gamma (variances).

    Args:
        basis: eigenfunctions at the points, (M, N).
        config: widths, K, kind of encoder and propagators, order.
        points: (M, d), for ``encoder="grid"``.
        noise: noise that depends on the state; None for additive noise.

    With an encoder of modes one variance is shared by all points, so that the model can be used
    at other points. ``zeros`` are points where every mode is zero, such as Dirichlet ends, (M,).
    """

    basis: Tensor

    def __init__(
        self,
        basis: Array,
        config: AmortizedConfig,
        points: Array | None = None,
        noise: StateNoise | None = None,
    ) -> None:
        super().__init__()
        n_points, n_modes = basis.shape
        self.n_time, self.method = config.n_time, config.propagators
        self.encoder = make_encoder((n_points, n_modes), config, points)
        n_noise = self.encoder.n_noise
        if noise is None:
            self.dynamics = LatentDynamics(n_modes, n_noise)
        else:
            indices = decoder_indices(config.n_time, n_noise, config.order, config.n_indices)
            self.dynamics = PolynomialDynamics(noise, indices)
        self.is_log, std = config.variance == "log", config.variance_start
        start = 2.0 * math.log(std) if self.is_log else math.sqrt(std)
        self.variance_name = "log_variance" if self.is_log else "root_std"
        size = 1 if self.encoder.reads_modes else n_points
        variance = nn.Parameter(torch.full((size,), start, dtype=torch.float64))
        self.register_parameter(self.variance_name, variance)
        self.register_buffer("basis", torch.from_numpy(basis).float(), persistent=False)
        largest = np.abs(basis).max(1)
        self.zeros = torch.from_numpy(largest <= ZERO_SHARE * largest.max())

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

    @torch.no_grad()
    def rescale(self, moment: Tensor) -> None:
        """Divide ``xi_l`` by ``sqrt(s_l)`` and multiply ``sqrt(q_l)`` by it; the field stays.

        Args:
            moment: ``s_l = E xi_{k,l}^2`` over paths, k and posterior, (L,).
        """
        head, n, log_s = self.encoder.head, self.encoder.n_modes, torch.log(moment)
        by_row = log_s.float().repeat(self.n_time)  # rows of the head: z0, then xi with l fastest
        means, log_variances = head.bias.chunk(2)
        head.weight.chunk(2)[0][n:].mul_(torch.exp(-0.5 * by_row)[:, None])
        means[n:].mul_(torch.exp(-0.5 * by_row))
        log_variances[n:].sub_(by_row)
        torch.diagonal(self.dynamics.log_factor).add_(
            0.5 * log_s[: min(self.dynamics.log_factor.shape)]
        )

    def log_observation_variance(self) -> Tensor:
        """``log r`` of every point, (M,): learned as such, or as ``r = s^4``."""
        value = self.get_parameter(self.variance_name).expand(len(self.basis))
        return value if self.is_log else 4.0 * torch.log(value.abs())

    def encode(self, paths: Paths) -> Encoded:
        """``q(z0, xi | X)`` of every path."""
        values, weights = paths.modes or (paths.values, paths.observed)
        posterior: Encoded = self.encoder(values, weights, paths.times)
        return posterior

    def curves(self, paths: Paths) -> Any:
        """Propagators on the paths' clock, shared by all of them."""
        return self.dynamics.curves(paths.ages, self.n_time, self.method)

    def coefficients(self, curves: Any, paths: Paths, initial: Tensor, chaos: Tensor) -> Tensor:
        """Coefficients (P, T, N) of latent ``z0`` (P, N) and ``xi`` (P, K, L)."""
        return _at_times(self.dynamics.coefficients(curves, initial, chaos), paths)

    def moments(self, curves: Any, paths: Paths, posterior: Encoded) -> tuple[Tensor, Tensor]:
        """Mean of the coefficients (P, T, N) and variance of the field (P, T, M).

        Of the decoder under the independent normals of the posterior, in closed form.
        """
        mean, spread = (_at_times(x, paths) for x in self.dynamics.moments(curves, posterior))
        if spread.ndim == 3:
            return mean, spread @ (self.basis**2).t()
        return mean, ((spread @ self.basis.t()) * self.basis.t()).sum(2)


def _at_times(of_clock: Tensor, paths: Paths) -> Tensor:
    """Rows (P, U, ...) of the shared clock at the times of each path, (P, T, ...)."""
    if paths.index is None:
        return of_clock
    return of_clock[torch.arange(len(of_clock))[:, None], paths.index]


def make_encoder(
    shape: tuple[int, int], config: AmortizedConfig, points: Array | None = None
) -> AbstractEncoder:
    """The encoder that a config names, for a basis of shape (M, N)."""
    n_points, n_modes = shape
    words: dict[str, Any] = {"n_modes": n_modes, "n_time": config.n_time, "n_noise": config.n_noise}
    if config.encoder == "ode_rnn":
        return OdeRnnEncoder(n_points, **words)
    words |= {name: getattr(config, name) for name in ("n_hidden", "n_embedding", "n_reference")}
    if config.encoder == "modes":
        return ModesEncoder(**words)
    if config.encoder == "grid":
        return GridEncoder(np.arange(n_points) if points is None else points, **words)
    return Encoder(n_points, **words)


# ---------- The evidence lower bound (paper, eq. 13), term by term, and scores of a model
#
# Squared residuals ``S_m = sum_t o_tm (X_tm - sum_n c_tn h_nm)^2`` need no field: the residual is
# one product with the observation as its start, and the gradient ``dS_m / dc_tn = -2 o_tm r_tm
# h_nm`` one product for each path; no other array of the size of the fields is read or written.


LOG_2PI = math.log(2.0 * math.pi)


class Elbo(NamedTuple):
    """Terms of the bound for each path, in nats, float64.

    Attributes:
        log_likelihood: ``E_q log p(X | z0, xi)`` of the observed values, (P,).
        kl_initial: ``KL(q(z0_n) || N(0, 1))``, (P, N).
        kl_chaos: ``KL(q(xi_{k,l}) || N(0, 1))``, (P, K, L).
        at_zeros: part of the log-likelihood from points where every mode is zero, (P,) or (1,).
            The field there is known, so the variance runs to zero and this has no upper bound.
        paths: what was observed.
        posterior: of the latent variables.
        coefficients: of the field, (P, T, N): their means, or those of the draw.
    """

    log_likelihood: Tensor
    kl_initial: Tensor
    kl_chaos: Tensor
    at_zeros: Tensor
    paths: Paths
    posterior: Encoded
    coefficients: Tensor

    def bound(self) -> Tensor:
        """The bound itself, (P,): all weights 1, points where every mode is zero left out."""
        return self.weighted(1.0, 1.0) - self.at_zeros

    def weighted(self, initial: float, chaos: float) -> Tensor:
        """The bound with weights of the two divergences, (P,)."""
        kl_initial, kl_chaos = self.kl_initial.sum(1), self.kl_chaos.sum((1, 2))
        return self.log_likelihood - initial * kl_initial - chaos * kl_chaos

    def objective(self, config: AmortizedConfig, batch: Paths | None = None) -> Tensor:
        """The objective, (P,): the weighted bound at the scale of the config.

        ``l - w0 KL0 - w1 KL1``, or that divided by the number of values or times; with divergences
        that are means over their D0 and D1 coordinates, ``l / scale - w0 KL0 / D0 - w1 KL1 / D1``.
        ``batch`` are all paths that are scaled equally, where these are some of them.
        """
        w0, w1 = config.kl_initial, config.kl_chaos
        scale: Tensor | float = 1.0
        if config.loss_scale != "sum":
            n_points, whole = self.paths.values.shape[-1], self.paths if batch is None else batch
            n_values = _observation_counts(whole).expand(-1, n_points).sum(1).mean()
            scale = n_values / (n_points if config.loss_scale == "per_time" else 1)
        if config.kl_scale == "sum":
            return self.weighted(w0, w1) / scale
        kl_initial, kl_chaos = self.kl_initial.mean(1), self.kl_chaos.mean((1, 2))
        return self.log_likelihood / scale - w0 * kl_initial - w1 * kl_chaos


def elbo(model: ChaosVAE, paths: Paths, noise: tuple[Tensor, Tensor] | None = None) -> Elbo:
    """Bound of every path.

    Args:
        model: encoder, dynamics, variances.
        paths: what was observed.
        noise: standard normals (P, N) and (P, K, L) for one draw from the posterior; None for
            the exact expectation, ``E|X - X_hat|^2 = |X - E X_hat|^2 + Var X_hat``.
    """
    posterior, curves = model.encode(paths), model.curves(paths)
    initial, chaos = posterior.initial_mean, posterior.chaos_mean
    if noise is not None:
        initial = initial + torch.exp(0.5 * posterior.initial_log_variance) * noise[0]
        chaos = chaos + torch.exp(0.5 * posterior.chaos_log_variance) * noise[1]
    if noise is None:
        c, variance = model.moments(curves, paths, posterior)
        if paths.observed is not None:
            variance = variance * paths.observed
        squares = squared_residuals(c, model.basis, paths) + variance.sum(1).double()
    else:
        c = model.coefficients(curves, paths, initial, chaos)
        squares = squared_residuals(c, model.basis, paths)
    # Minus twice the log density of each point: ``S_m / r_m + n_m (log r_m + log 2 pi)``.
    log_r = model.log_observation_variance()
    density = squares * torch.exp(-log_r) + _observation_counts(paths) * (log_r + LOG_2PI)
    return Elbo(
        -0.5 * density.sum(1),
        _kl_divergence(posterior.initial_mean, posterior.initial_log_variance),
        _kl_divergence(posterior.chaos_mean, posterior.chaos_log_variance),
        -0.5 * density[:, model.zeros].sum(1),
        paths,
        posterior,
        c,
    )


def _observation_counts(paths: Paths) -> Tensor:
    """Observed times of each point, (P, M) or (1, 1)."""
    if paths.observed is None:
        return torch.full((1, 1), float(paths.values.shape[1]), dtype=torch.float64)
    return paths.observed.sum(1).double()


def _kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """``KL(N(m, v) || N(0, 1)) = (m^2 + v - 1 - log v) / 2``, entry by entry."""
    m, l = mean.double(), log_variance.double()
    # expm1(l) - l instead of v - 1 - log v: no difference of nearly equal numbers at v = 1.
    return 0.5 * (m**2 + torch.expm1(l) - l)


def squared_residuals(coefficients: Tensor, basis: Tensor, paths: Paths) -> Tensor:
    """``S`` of every path and point, (P, M), float64.

    Args:
        coefficients: (P, T, N).
        basis: eigenfunctions at the points, (M, N), constant.
        paths: what was observed.
    """
    return _SquaredResiduals.apply(coefficients, basis, paths.values, paths.observed).double()


class _SquaredResiduals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, basis: Tensor, values: Tensor, observed: Any) -> Tensor:
        start, rows = values.reshape(-1, len(basis)), c.reshape(-1, c.shape[-1])
        residual = torch.addmm(start, rows, basis.t(), alpha=-1).view_as(values)
        if observed is not None:
            residual.mul_(observed)
        ctx.save_for_backward(residual, basis)
        return residual.square().sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        residual, basis = ctx.saved_tensors
        return torch.bmm(residual, -2.0 * grad[..., None] * basis), None, None, None


# ---------- Evidence of the truncated model by Laplace's approximation
#
# With ``z = (z0, xi) ~ N(0, I)`` and the Jacobian J of the field, at the mode of ``p(z | X)``
#
#     log p(X) ~ log p(X | z) - |z|^2 / 2 - log |I + J' R^-1 J| / 2.
#
# It is exact where the decoder is linear. Gauss-Newton steps start from the encoder's means; a step
# that does not raise the density is shortened, path by path.

#: Gauss-Newton steps, and the smallest share of one that is tried.
NEWTON_STEPS, SHORTEST = 20, 1e-4


@torch.no_grad()
def laplace_log_likelihood(model: ChaosVAE, paths: Paths) -> Tensor:
    """``log p(X)`` of each path in the truncated model, (P,), float64."""
    dynamics: Any = model.dynamics
    posterior, curves = model.encode(paths), model.curves(paths).double()
    log_r, basis = model.log_observation_variance().double(), model.basis.double()
    shape = posterior.chaos_mean.shape[1:]
    n, values = posterior.initial_mean.shape[1], paths.values.double()
    mask = torch.ones_like(values) if paths.observed is None else paths.observed.double()
    weight = mask * torch.exp(-log_r)
    gram = torch.einsum("ptm,mi,mj->ptij", weight, basis, basis)

    def decode(z: Tensor) -> Tensor:
        return model.coefficients(curves, paths, z[:, :n], z[:, n:].unflatten(1, shape))

    def density(z: Tensor) -> tuple[Tensor, Tensor]:
        weighted = weight * (error := values - decode(z) @ basis.t())
        return -0.5 * ((weighted * error).sum((1, 2)) + z.square().sum(1)), weighted @ basis

    z = torch.cat([posterior.initial_mean, posterior.chaos_mean.flatten(1)], 1).double()
    share, (best, score) = torch.ones(len(z), 1).double(), density(z)
    for step in range(NEWTON_STEPS + 1):
        j = _at_times(dynamics.jacobian(curves, z[:, :n], z[:, n:].unflatten(1, shape)), paths)
        precision = torch.eye(z.shape[1]) + torch.einsum("ptni,ptnm,ptmj->pij", j, gram, j)
        if step == NEWTON_STEPS:
            break
        move = torch.linalg.solve(precision, torch.einsum("ptni,ptn->pi", j, score) - z)
        trial = z + share * move
        value, slope = density(trial)
        better = (value >= best)[:, None]
        z, best = torch.where(better, trial, z), torch.maximum(value, best)
        score = torch.where(better[..., None], slope, score)
        share = torch.where(better, (4.0 * share).clamp_max(1.0), (share / 4.0).clamp_min(SHORTEST))
    constant = (mask * (log_r + LOG_2PI)).sum((1, 2))
    return best - 0.5 * (constant + torch.logdet(precision))


# -- a model on paths it need not have learned from -----------------------------------------------
@torch.no_grad()
def assess(model: ChaosVAE, paths: Paths, config: AmortizedConfig) -> dict[str, Any]:
    """All numbers in one pass, without sampling; means over paths.

    ``relative_l2`` and ``rmse`` are of the posterior mean's field, the first time left out; the
    first the mean over paths, the second pooled (paper, section 3.3). ``loss`` is as the config
    weighs and scales it, ``elbo`` the bound of a path with weights 1, ``initial_mean`` the mean of
    the posterior means of ``z0``, (N,). ``latent_use`` shows posterior collapse: the divergence
    of each mode, of each noise, and the share of the K coordinates of each noise in use; one with
    KL near 0 carries nothing.
    """
    parts = []
    for batch in paths.batches(config.batch_size):
        terms = elbo(model, batch)
        errors = path_errors(terms.coefficients @ model.basis.t(), batch)
        kl = terms.kl_initial, terms.kl_chaos.sum(1)
        means = terms.posterior.chaos_mean.double(), terms.posterior.initial_mean.double()
        parts.append((*errors, terms.objective(config), terms.bound(), *kl, *means))
    *error_terms, objective, bound, kl_z, kl_xi, xi, z0 = map(torch.cat, zip(*parts, strict=True))
    active = (xi.var(0, correction=0) > ACTIVE_VARIANCE).double().mean(0)
    use = {"kl_initial": kl_z.mean(0), "kl_chaos": kl_xi.mean(0), "active_share": active}
    return {
        **mean_errors(*error_terms),
        "loss": -float(objective.mean()),
        "elbo": float(bound.mean()),
        "initial_mean": z0.mean(0),
        "latent_use": {k: [round(v, 6) for v in numbers.tolist()] for k, numbers in use.items()},
    }


def path_errors(field: Tensor, paths: Paths) -> tuple[Tensor, Tensor, Tensor]:
    """Squared error, squared norm and number of values of each path, without the first time."""
    later = (paths.times > 0).float()[..., None]  # (T, 1) or (P, T, 1)
    weight = later if paths.observed is None else later * paths.observed
    error = ((field - paths.values) ** 2 * weight).sum((1, 2))
    norm = (paths.values**2 * weight).sum((1, 2))
    count = weight.expand_as(paths.values).sum((1, 2))
    return error.double(), norm.double(), count.double()


def mean_errors(error: Tensor, norm: Tensor, count: Tensor) -> dict[str, float]:
    """Relative L2, the mean over paths, and pooled root mean square from `path_errors`."""
    kept = norm > 0
    return {
        "relative_l2": float(torch.sqrt(error[kept] / norm[kept]).mean()),
        "rmse": float(torch.sqrt(error.sum() / count.sum())),
    }
