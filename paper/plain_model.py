"""The paper's whole model and its ELBO in plain PyTorch, in the paper's letters.

It shares no code with `spdelaw.amortized`, which is several times faster and takes gaps, and serves
as its oracle: the tests demand the same ELBO and gradients in both regimes. Complete paths, times
in [0, 1], L = N, preset "paper".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class PlainModel(nn.Module):
    """``phi`` (encoder), ``theta = (lambda, q)`` and ``gamma`` (variances) of sections 2.2 to 2.10.

    Args:
        h: eigenfunctions ``h_n(x_m3)``, (M3, N).
        K: functions of time.
        R: reference times of the encoder.
    """

    def __init__(self, h: Tensor, K: int = 16, R: int = 32, width: int = 256, d: int = 128) -> None:
        super().__init__()
        (M3, N), self.h, self.K = h.shape, h, K
        self.line, self.waves = nn.Linear(1, 1), nn.Linear(1, d - 1)
        self.query, self.key = nn.Linear(d, d), nn.Linear(d, d)
        self.output, self.gru = nn.Linear(2 * M3, width), nn.GRU(width, width)
        self.head = nn.Linear(width, 2 * (N + K * N))
        self.log_lambda = nn.Parameter(torch.zeros(N))
        self.log_sqrt_q = nn.Parameter(torch.zeros(N, N))  # <Q^(1/2) h_l, h_n>, diagonal used
        self.sqrt_sigma = nn.Parameter(torch.ones(M3))
        self.r = torch.linspace(0.0, 1.0, R)

    def encode(self, X: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """2.8 and 2.10: mean and log-variance of ``(z_t0, xi)``, both (M1, N + K N)."""
        e_r, e_t = (
            torch.cat([self.line(s[:, None]), torch.sin(self.waves(s[:, None]))], 1)
            for s in (self.r.to(t), t)
        )
        scores = self.query(e_r) @ self.key(e_t).T / math.sqrt(e_t.shape[1])
        read = torch.softmax(scores, 1) @ X  # values at the reference times; the mask is 1
        _, state = self.gru(self.output(torch.cat([read, torch.ones_like(read)], 2)).swapdims(0, 1))
        mean, log_variance = self.head(state[0]).chunk(2, 1)
        return mean, log_variance

    def reconstruct(self, z0: Tensor, xi: Tensor, t: Tensor) -> Tensor:
        """2.4, 2.5 and 2.9: ``X_hat`` (M1, M2 + 1, M3) of ``z0`` (M1, N) and ``xi`` (M1, K, N)."""
        lam, decay = self.log_lambda.exp(), torch.exp(-t[:, None] * self.log_lambda.exp())
        w, s = math.pi * torch.arange(self.K).to(t)[:, None], t[:, None, None]
        # psi_k(t) = int_0^t e^(-lambda (t - s)) m_k(s) ds, m_1 = 1, m_k = sqrt(2) cos((k - 1) pi t)
        psi = lam * (torch.cos(w * s) - decay[:, None]) + w * torch.sin(w * s)
        psi = torch.where(w > 0, math.sqrt(2.0), 1.0) * psi / (lam**2 + w**2)
        sqrt_q = self.log_sqrt_q.diagonal().exp()
        c = decay * z0[:, None] + torch.einsum("tkn,pkn->ptn", psi * sqrt_q, xi)
        return c @ self.h.T

    def loss(self, X: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """2.6 to 2.9: minus the ELBO of each path with weights 0.07 and 1.3, one draw; (M1,)."""
        mean, log_variance = self.encode(X, t)
        z, N = mean + torch.exp(0.5 * log_variance) * noise, self.h.shape[1]
        X_hat = self.reconstruct(z[:, :N], z[:, N:].reshape(len(X), self.K, N), t)
        sigma = self.sqrt_sigma**2
        log_p = torch.distributions.Normal(X_hat, sigma).log_prob(X).sum((1, 2))
        kl = 0.5 * (mean**2 + log_variance.exp() - 1.0 - log_variance)
        return -log_p + 0.07 * kl[:, :N].sum(1) + 1.3 * kl[:, N:].sum(1)
