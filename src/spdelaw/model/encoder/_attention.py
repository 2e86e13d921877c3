"""Multi-time attention: a path seen at any times, with gaps, on a few reference times.

For channel m of a path, reference time r and observation times t,

    y_m(r) = sum_t w_m(r, t) x_m(t),   w_m(r, t) = o_m(t) e^(s(r, t)) / sum_t' o_m(t') e^(s(r, t'))

with ``o`` = 1 where a value was observed and ``s(r, t) = <Q e(r), K e(t)> / sqrt(width)``: the
softmax runs over the observed times of each channel. Values and mask are both attended to, so the
output map sees 2 M channels, the last M telling whether a channel was observed at all.

The scores do not depend on the path when all paths share one clock. Without gaps the whole
attention is then one matrix for the batch.

Reference: Shukla and Marlin, Multi-Time Attention Networks for Irregularly Sampled Time Series,
ICLR 2021, section 3.1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

#: Sums of weights below this have lost precision in float32: such paths are done again, safely.
UNDERFLOW = 1e-30


class TimeEmbedding(nn.Module):
    """``e(t) = (w_0 t + b_0, sin(w_1 t + b_1), ..., sin(w_{d-1} t + b_{d-1}))``.

    Args:
        width: d.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.periodic = nn.Linear(1, width - 1)

    def forward(self, times: Tensor) -> Tensor:
        """Times (...) to embeddings (..., width)."""
        t = times[..., None]
        return torch.cat([self.linear(t), torch.sin(self.periodic(t))], -1)


class MultiTimeAttention(nn.Module):
    """One head of attention from reference times to observation times, channel by channel.

    Args:
        n_points: M, channels of values.
        n_out: width of the result.
        n_embedding: width of the time embedding.
        n_reference: number of reference times, spread over [0, 1].
    """

    reference: Tensor

    def __init__(self, n_points: int, n_out: int, n_embedding: int, n_reference: int) -> None:
        super().__init__()
        self.embedding = TimeEmbedding(n_embedding)
        self.query = nn.Linear(n_embedding, n_embedding)
        self.key = nn.Linear(n_embedding, n_embedding)
        self.output = nn.Linear(2 * n_points, n_out)
        self.register_buffer("reference", torch.linspace(0.0, 1.0, n_reference), persistent=False)

    def forward(
        self, values: Tensor, observed: Tensor | None, times: Tensor,
        through: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:  # fmt: skip
        """Path on the reference times, (R, paths, n_out).

        Args:
            values: (paths, T, M); what was not observed may hold any number but NaN.
            observed: (paths, T, M), 1 where observed; None where everything was.
            times: as a share of the horizon, (T,) or (paths, T).
            through: weight (n_more, n_out) and bias of a further map of the result. It is
                multiplied with the output map first, cheaper than applying the two in turn.
        """
        scores, m = self.scores(times), values.shape[-1]
        of_values, of_mask = self.output.weight[:, :m], self.output.weight[:, m:]
        bias: Tensor = self.output.bias
        if observed is None:
            # Every channel is seen: the mask's half of the map adds a constant.
            weight, bias = _then(through, of_values, of_mask.sum(1) + bias)
            shared = torch.softmax(scores, -1).expand(len(values), -1, -1)
            seen = torch.bmm(shared, values).transpose(0, 1)
            return nn.functional.linear(seen, weight, bias)
        seen, any_seen = attend_observed(scores, values * observed, observed)
        weight, bias = _then(through, of_values, bias)
        constant = any_seen[:, 0] @ _then(through, of_mask)[0].t()
        return nn.functional.linear(seen.transpose(0, 1), weight, bias) + constant

    def scores(self, times: Tensor) -> Tensor:
        """``s(r, t)``, shape (R, T) or (paths, R, T)."""
        query = self.query(self.embedding(self.reference))
        key = self.key(self.embedding(times))
        return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def _then(
    through: tuple[Tensor, Tensor] | None, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Weight and bias of a map followed by another."""
    own = weight.new_zeros(len(weight)) if bias is None else bias
    if through is None:
        return weight, own
    return through[0] @ weight, through[0] @ own + through[1]


def attend_observed(scores: Tensor, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over the observed times of each channel: two matrix products instead of M softmaxes.

    ``y = (E (o x)) / (E o)`` with ``E = e^(s - max_t s)``. Where all observed times have far
    smaller scores than the largest, the denominator underflows; those paths are done with a
    maximum over their observed times, channel by channel.

    Args:
        scores: (R, T) or (paths, R, T).
        values: (paths, T, M), zero where not observed.
        observed: (paths, T, M), 1 or 0.

    Returns:
        Weighted values (paths, R, M), zero for a channel without observation, and whether a
        channel has one, (paths, 1, M).
    """
    weights = torch.exp(scores - scores.detach().amax(-1, keepdim=True))
    total = torch.matmul(weights, observed)
    any_seen = observed.amax(1, keepdim=True)
    weak = (total < UNDERFLOW) & (any_seen > 0)
    attended = torch.matmul(weights, values) / total.clamp_min(UNDERFLOW)
    if weak.any():
        paths = weak.flatten(1).any(1)
        own = scores[paths] if scores.ndim == 3 else scores
        safe = torch.zeros_like(attended)
        safe[paths] = _attend_safely(own, values[paths], observed[paths])
        attended = torch.where(paths[:, None, None], safe, attended)
    return attended, any_seen


def _attend_safely(scores: Tensor, values: Tensor, observed: Tensor) -> Tensor:
    """The same with a softmax of its own for each channel; (paths, R, T, M) in memory."""
    hidden = (observed == 0)[:, None]
    expanded = scores[..., None].masked_fill(hidden, -torch.inf)
    none = hidden.all(2, keepdim=True)
    weights = torch.softmax(expanded.masked_fill(none, 0.0), 2)
    return (weights * values[:, None]).sum(2)
