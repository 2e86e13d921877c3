"""The encoder: attention to reference times, a recurrent network over them, Gaussian heads."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from spdelaw.model.encoder._attention import MultiTimeAttention
from spdelaw.model.encoder._gru import FinalStateGRU


class Encoded(NamedTuple):
    """Means and log-variances of independent normals: ``z0`` (P, N) and ``xi`` (P, K, L)."""

    initial_mean: Tensor
    initial_log_variance: Tensor
    chaos_mean: Tensor
    chaos_log_variance: Tensor


class Encoder(nn.Module):
    """Amortised posterior ``q(z0, xi | X)`` of a path (paper, sections 2.8 and 2.10).

    Args:
        n_points: M3, spatial points.
        n_modes: N.
        n_time: K, functions of time.
        n_hidden: width of the recurrent state.
        n_embedding: width of the time embedding.
        n_reference: reference times of the attention.
        n_noise: L, driving Wiener processes; by default one for each mode.

    Example:
        >>> encoder = Encoder(n_points=101, n_modes=8, n_time=16)
        >>> sum(p.numel() for p in encoder.parameters()) + 8 + 8 * 8 + 101  # the paper's count
        550077
    """

    def __init__(
        self,
        n_points: int,
        n_modes: int,
        n_time: int,
        n_hidden: int = 256,
        n_embedding: int = 128,
        n_reference: int = 32,
        n_noise: int | None = None,
    ) -> None:
        super().__init__()
        self.n_modes, self.n_time = n_modes, n_time
        self.n_noise = n_modes if n_noise is None else n_noise
        self.attention = MultiTimeAttention(n_points, n_hidden, n_embedding, n_reference)
        self.recurrent = FinalStateGRU(n_hidden, n_hidden)
        self.head = nn.Linear(n_hidden, 2 * (n_modes + n_time * self.n_noise))

    def forward(self, values: Tensor, observed: Tensor | None, times: Tensor) -> Encoded:
        """Posterior of every path.

        Args:
            values: (paths, T, M); what was not observed may hold any number but NaN.
            observed: (paths, T, M), 1 where observed; None where everything was.
            times: as a share of the horizon, (T,) or (paths, T).
        """
        recurrent = self.recurrent
        through = recurrent.weight_input, recurrent.bias_input
        state = recurrent.recur(self.attention(values, observed, times, through))
        mean, log_variance = self.head(state).chunk(2, -1)
        n, shape = self.n_modes, (-1, self.n_time, self.n_noise)
        chaos = mean[:, n:].reshape(shape), log_variance[:, n:].reshape(shape)
        return Encoded(mean[:, :n], log_variance[:, :n], *chaos)
