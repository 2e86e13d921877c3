"""Encoders: from the observed values of a path to a Gaussian posterior of its coordinates."""

from __future__ import annotations

import abc
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spdelaw.errors import InputError

# ---------- What every encoder is: values, weights and times in, Gaussian heads out


class Encoded(NamedTuple):
    """Means and log-variances of independent normals: ``z0`` (P, N) and ``xi`` (P, K, L)."""

    initial_mean: Tensor
    initial_log_variance: Tensor
    chaos_mean: Tensor
    chaos_log_variance: Tensor


class AbstractEncoder(nn.Module, abc.ABC):
    """Amortised posterior ``q(z0, xi | X)`` of a path (paper, sections 2.8 and 2.10).

    Args:
        n_modes: N.
        n_time: K, functions of time.
        n_noise: L, driving Wiener processes; by default one for each mode.

    Attributes:
        head: linear map to means, then log-variances; in each ``z0`` (N) before ``xi`` (K, L).
        reads_modes: whether the values are estimates of the modes instead of fields at points.
    """

    head: nn.Linear
    reads_modes = False

    def __init__(self, n_modes: int, n_time: int, n_noise: int | None = None) -> None:
        super().__init__()
        self.n_modes, self.n_time = n_modes, n_time
        self.n_noise = n_modes if n_noise is None else n_noise

    @property
    def n_outputs(self) -> int:
        """Means and log-variances of all coordinates."""
        return 2 * (self.n_modes + self.n_time * self.n_noise)

    @abc.abstractmethod
    def summarise(self, values: Tensor, weights: Tensor | None, times: Tensor) -> Tensor:
        """Numbers that the head reads, (paths, width); arguments as those of `forward`."""

    def forward(self, values: Tensor, weights: Tensor | None, times: Tensor) -> Encoded:
        """Posterior of every path.

        Args:
            values: (paths, T, C); what was not observed may hold any number but NaN.
            weights: (paths, T, C), 0 where not observed, else up to 1; None where all are 1.
            times: as a share of the horizon, (T,) or (paths, T).
        """
        mean, log_variance = self.head(self.summarise(values, weights, times)).chunk(2, -1)
        n, shape = self.n_modes, (-1, self.n_time, self.n_noise)
        xi = (part[:, n:].reshape(shape) for part in (mean, log_variance))
        return Encoded(mean[:, :n], log_variance[:, :n], *xi)


# ---------- Multi-time attention: a path observed at any times, read at a few reference times
#
# For channel m of a path, reference time r and observation times t,
#
#     y_m(r) = sum_t w_m(r, t) x_m(t),
#     w_m(r, t) = o_m(t) e^(s(r, t)) / sum_t' o_m(t') e^(s(r, t'))
#
# with ``o`` = 1 where a value was observed and ``s(r, t) = <Q e(r), K e(t)> / sqrt(width)``: the
# softmax runs over the observed times of each channel. Attention reads both values and mask, so the
# output map has 2 M inputs; the last M mark the channels with any observation.
#
# The scores do not depend on the path when all paths share one clock. Without gaps the whole
# attention is then one matrix for the batch.
#
# Reference: Shukla and Marlin, Multi-Time Attention Networks for Irregularly Sampled Time Series,
# ICLR 2021, section 3.1.


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


class TimeAttention(nn.Module):
    """Scores of observation times for reference times.

    Args:
        n_embedding: width of the time embedding.
        n_reference: number of reference times, spread over [0, 1].
    """

    reference: Tensor

    def __init__(self, n_embedding: int, n_reference: int) -> None:
        super().__init__()
        self.embedding = TimeEmbedding(n_embedding)
        self.query = nn.Linear(n_embedding, n_embedding)
        self.key = nn.Linear(n_embedding, n_embedding)
        self.register_buffer("reference", torch.linspace(0.0, 1.0, n_reference), persistent=False)

    def scores(self, times: Tensor) -> Tensor:
        """``s(r, t)``, shape (R, T) or (paths, R, T)."""
        query = self.query(self.embedding(self.reference))
        key = self.key(self.embedding(times))
        return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


class MultiTimeAttention(TimeAttention):
    """One head of attention from reference times to observation times, channel by channel.

    Args:
        n_points: M, channels of values.
        n_out: width of the result.
        n_embedding, n_reference: as for `TimeAttention`.
    """

    def __init__(self, n_points: int, n_out: int, n_embedding: int, n_reference: int) -> None:
        super().__init__(n_embedding, n_reference)
        self.output = nn.Linear(2 * n_points, n_out)

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
            # Every channel is observed: the mask's half of the map adds a constant.
            weight, bias = _compose(through, of_values, of_mask.sum(1) + bias)
            shared = torch.softmax(scores, -1).expand(len(values), -1, -1)
            attended = torch.bmm(shared, values).transpose(0, 1)
            return nn.functional.linear(attended, weight, bias)
        attended, any_observed = attend_observed(scores, values * observed, observed)
        weight, bias = _compose(through, of_values, bias)
        constant = any_observed[:, 0] @ _compose(through, of_mask)[0].t()
        return nn.functional.linear(attended.transpose(0, 1), weight, bias) + constant


def _compose(
    through: tuple[Tensor, Tensor] | None, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Weight and bias of a map followed by another."""
    inner_bias = weight.new_zeros(len(weight)) if bias is None else bias
    if through is None:
        return weight, inner_bias
    return through[0] @ weight, through[0] @ inner_bias + through[1]


def attend_observed(scores: Tensor, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over the observed times of each channel: two matrix products instead of M softmaxes.

    ``y = (E (o x)) / (E o)`` with ``E = e^(s - max_t s)``. Where all observed times have far
    smaller scores than the largest, the denominator underflows; `_attend_safely` recomputes those
    paths with a maximum over their observed times, channel by channel.

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
    any_observed = observed.amax(1, keepdim=True)
    weak = (total < UNDERFLOW) & (any_observed > 0)
    attended = torch.matmul(weights, values) / total.clamp_min(UNDERFLOW)
    if weak.any():
        paths = weak.flatten(1).any(1)
        path_scores = scores[paths] if scores.ndim == 3 else scores
        safe = torch.zeros_like(attended)
        safe[paths] = _attend_safely(path_scores, values[paths], observed[paths])
        attended = torch.where(paths[:, None, None], safe, attended)
    return attended, any_observed


def _attend_safely(scores: Tensor, values: Tensor, observed: Tensor) -> Tensor:
    """`attend_observed` with one softmax per channel; holds (paths, R, T, M) in memory."""
    hidden = (observed == 0)[:, None]
    expanded = scores[..., None].masked_fill(hidden, -torch.inf)
    none = hidden.all(2, keepdim=True)
    weights = torch.softmax(expanded.masked_fill(none, 0.0), 2)
    return (weights * values[:, None]).sum(2)


# ---------- A gated recurrent unit whose backward pass is written out
#
# ``r = sigma(g_r)``, ``z = sigma(g_z)``, ``n = tanh(x_n + r * h_n)``, ``h <- (1 - z) n + z h`` with
# ``(g_r, g_z) = x_{r,z} + h_{r,z}``, ``x = W_x input + b_x`` and ``h_. = W_h h + b_h``. The
# gradient with respect to the gates is ``dh`` times a factor that is known before the backward
# recursion starts, so that each of its steps is one product with ``W_h``; the gradients of the
# weights are one product for all steps instead of one for each.
#
# Reference: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, EMNLP 2014.


class FinalStateGRU(nn.Module):
    """One-directional GRU; the state after the last step, from zero.

    Args:
        n_in: width of the input.
        n_hidden: width of the state.
    """

    weight_input: Tensor
    weight_state: Tensor
    bias_input: Tensor
    bias_state: Tensor

    def __init__(self, n_in: int, n_hidden: int) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(n_hidden)
        shapes = {
            "weight_input": (3 * n_hidden, n_in),
            "weight_state": (3 * n_hidden, n_hidden),
            "bias_input": (3 * n_hidden,),
            "bias_state": (3 * n_hidden,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs (steps, paths, n_in) to the final state (paths, n_hidden)."""
        return self.recur(nn.functional.linear(inputs, self.weight_input, self.bias_input))

    def recur(self, gates: Tensor) -> Tensor:
        """Final state from ``W_x input + b_x``, (steps, paths, 3 n_hidden)."""
        return _Recursion.apply(gates, self.weight_state, self.bias_state)


class _Recursion(torch.autograd.Function):
    """Input gates (S, P, 3 H), recurrent weight and bias to the final state (P, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        steps, paths, width = gates.shape
        n_hidden, two = width // 3, 2 * (width // 3)
        states = gates.new_zeros(steps + 1, paths, n_hidden)
        state_gates = torch.empty_like(gates)  # W_h h + b_h of every step
        gate_values, n = gates.new_empty(steps, paths, two), torch.empty_like(states[1:])
        state_gates[0] = bias  # the first state is zero: no product
        transposed = weight.t()
        # Every result goes straight to where the backward pass reads it: no copies.
        for s in range(steps):
            if s:
                torch.addmm(bias, states[s], transposed, out=state_gates[s])
            rz = torch.add(
                state_gates[s, :, :two], gates[s, :, :two], out=gate_values[s]
            ).sigmoid_()
            torch.addcmul(
                gates[s, :, two:], rz[:, :n_hidden], state_gates[s, :, two:], out=n[s]
            ).tanh_()
            torch.lerp(n[s], states[s], rz[:, n_hidden:], out=states[s + 1])
        ctx.save_for_backward(gate_values, n, state_gates[:, :, two:], states, weight)
        return states[steps].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gate_values, n, candidates, states, weight = ctx.saved_tensors
        steps, paths, n_hidden = n.shape
        width = 3 * n_hidden
        r, z = gate_values.split(n_hidden, -1)
        # Blocks h_n, r, z, x_n: the first three meet W_h, the last three are the input's gates.
        factor = gate_values.new_empty(steps, paths, 4, n_hidden)
        by_n, by_r, by_z = factor[:, :, 3], factor[:, :, 1], factor[:, :, 2]
        aten = torch.ops.aten  # g (1 - y^2) and g y (1 - y) in one pass each
        aten.tanh_backward.grad_input(1.0 - z, n, grad_input=by_n)
        torch.mul(by_n, r, out=factor[:, :, 0])
        aten.sigmoid_backward.grad_input(by_n * candidates, r, grad_input=by_r)
        aten.sigmoid_backward.grad_input(states[:-1] - n, z, grad_input=by_z)
        gate_gradient, rows = torch.empty_like(factor), torch.roll(weight, n_hidden, 0)
        flat = gate_gradient.view(steps, paths, 4 * n_hidden)
        dh = grad
        for s in range(steps - 1, -1, -1):
            torch.mul(factor[s], dh[:, None], out=gate_gradient[s])
            if s:  # the zero state needs no gradient
                dh = torch.addmm(dh * z[s], flat[s, :, :width], rows)
        at_state = flat.view(steps * paths, 4 * n_hidden)[:, :width]
        by_weight = at_state.t() @ states[:-1].view(steps * paths, n_hidden)
        by_bias = at_state.sum(0)
        by_gates = flat[:, :, n_hidden:]
        return by_gates, torch.roll(by_weight, -n_hidden, 0), torch.roll(by_bias, -n_hidden, 0)


# ---------- The paper's encoder: attention to reference times and a recurrent network


class Encoder(AbstractEncoder):
    """The paper's encoder.

    Args:
        n_points: M3, spatial points.
        n_modes, n_time, n_noise: as for `AbstractEncoder`.
        n_hidden: width of the recurrent state.
        n_embedding: width of the time embedding.
        n_reference: reference times of the attention.

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
        super().__init__(n_modes, n_time, n_noise)
        self.attention = MultiTimeAttention(n_points, n_hidden, n_embedding, n_reference)
        self.recurrent = FinalStateGRU(n_hidden, n_hidden)
        self.head = nn.Linear(n_hidden, self.n_outputs)

    def summarise(self, values: Tensor, weights: Tensor | None, times: Tensor) -> Tensor:
        """Final state of the recurrent network."""
        through = self.recurrent.weight_input, self.recurrent.bias_input
        return self.recurrent.recur(self.attention(values, weights, times, through))


# ---------- The encoder of latent ODEs: a recurrent unit between whose steps an ODE runs
#
# From the last time to the first: ``h' = f(h)`` between observations, by Euler steps of at most
# 1/50 of the horizon; at an observation ``x`` (values and mask) a gated unit updates (h, s), the
# state and its spread:
# ``u = sigma(U(h, s, x))``, ``r = sigma(R(h, s, x))``, ``(h~, s~) = C(r h, r s, x)``,
# ``h <- (1 - u) h~ + u h`` and ``s <- (1 - u) |s~| + u s``; rows without a value change nothing.
#
# Reference: Rubanova, Chen and Duvenaud, Latent Ordinary Differential Equations for Irregularly-
# Sampled Time Series, NeurIPS 2019, section 3.1 and supplement.


#: Published widths: state, gates, ODE, head; and the largest Euler step, a share of the horizon.
N_STATE, N_GATE, N_ODE, N_HEAD = 20, 100, 100, 100
LARGEST_STEP = 1.0 / 50.0


class Gate(nn.Module):
    """Two layers of (state, observation), tanh between."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(n_in, N_GATE), nn.Linear(N_GATE, n_out)

    def forward(self, state: Tensor, of_row: Tensor) -> Tensor:
        """Gate of a state, given the share of the observation in the first layer."""
        of_state = nn.functional.linear(state, self.inner.weight[:, : state.shape[1]])
        return self.outer(torch.tanh(of_row + of_state))


class OdeRnn(nn.Module):
    """State and spread (P, 2 r) of paths after all observations, latest first.

    Args:
        n_points: M, channels of values.
    """

    def __init__(self, n_points: int) -> None:
        super().__init__()
        layers = (nn.Linear(N_STATE, N_ODE), nn.Tanh(), nn.Linear(N_ODE, N_ODE), nn.Tanh())
        self.drift = nn.Sequential(*layers, nn.Linear(N_ODE, N_STATE))
        n_in = 2 * N_STATE + 2 * n_points
        self.update, self.reset, self.candidate = (
            Gate(n_in, n_out) for n_out in (N_STATE, N_STATE, 2 * N_STATE)
        )

    def forward(self, values: Tensor, observed: Tensor | None, times: Tensor) -> Tensor:
        """Arguments as those of `Encoder`."""
        mask = torch.ones_like(values) if observed is None else observed
        rows, n_state = torch.cat([values * mask, mask], -1), 2 * N_STATE
        # The share of x in the first layer of each gate: one product for all times.
        update, reset, candidate = (
            nn.functional.linear(rows, gate.inner.weight[:, n_state:], gate.inner.bias).unbind(1)
            for gate in (self.update, self.reset, self.candidate)
        )
        gaps = torch.diff(times).expand(len(values), -1).unbind(1)
        seen = mask.amax(2).unbind(1) if observed is not None else None
        state = values.new_zeros(len(values), n_state)
        for i in range(len(update) - 1, -1, -1):
            if i < len(gaps):
                state = self._flow(state, gaps[i])
            u = torch.sigmoid(self.update(state, update[i])).repeat(1, 2)
            r = torch.sigmoid(self.reset(state, reset[i])).repeat(1, 2)
            h, spread = self.candidate(r * state, candidate[i]).chunk(2, -1)
            new = torch.lerp(torch.cat([h, spread.abs()], -1), state, u)
            state = new if seen is None else torch.where(seen[i][:, None] > 0, new, state)
        return state

    def _flow(self, state: Tensor, gap: Tensor) -> Tensor:
        h, spread = state.chunk(2, -1)
        n_steps = max(1, math.ceil(float(gap.max()) / LARGEST_STEP - 1e-6))
        for _ in range(n_steps):
            h = h - gap[:, None] / n_steps * self.drift(h)
        return torch.cat([h, spread], -1)


class OdeRnnEncoder(AbstractEncoder):
    """`Encoder` with an ODE-RNN in place of attention and GRU.

    Args:
        n_points, n_modes, n_time, n_noise: as for `Encoder`.

    Example:
        >>> encoder = OdeRnnEncoder(n_points=101, n_modes=8, n_time=16)
        >>> sum(p.numel() for p in encoder.recurrent.parameters())  # 80,980 + 14,220, as published
        95200
    """

    def __init__(
        self, n_points: int, n_modes: int, n_time: int, n_noise: int | None = None
    ) -> None:
        super().__init__(n_modes, n_time, n_noise)
        self.recurrent = OdeRnn(n_points)
        self.hidden = nn.Linear(2 * N_STATE, N_HEAD)
        self.head = nn.Linear(N_HEAD, self.n_outputs)

    def summarise(self, values: Tensor, weights: Tensor | None, times: Tensor) -> Tensor:
        """Hidden layer over the last state."""
        return torch.tanh(self.hidden(self.recurrent(values, weights, times)))


# ---------- Encoders for any domain: modes or grids, read by attention over irregular times
#
# Features of each time, estimates of the modes or the output of a convolution in space, go to R
# reference times by weighted attention whose kernel starts out local,
#
#     y_c(r) = sum_t w_c(r, t) x_c(t),   w_c(r, t) ~ o_c(t) e^(s(r, t) - ((r - t) / h)^2),
#
# with weights ``0 <= o <= 1`` and h = 1 / R at the start. The head reads y itself and a perceptron
# of it: the posterior mean is linear in the modes where the law is linear.


class ModesEncoder(AbstractEncoder):
    """Attention over the times of estimated modes; no grid and no dimension enters its weights.

    Args:
        n_modes, n_time, n_noise: as for `AbstractEncoder`.
        n_hidden: width of the perceptron.
        n_embedding: width of the time embedding.
        n_reference: R, reference times.
        n_features: C, features of each time; by default one for each mode.
    """

    reads_modes = True

    def __init__(
        self,
        n_modes: int,
        n_time: int,
        n_hidden: int = 256,
        n_embedding: int = 128,
        n_reference: int = 32,
        n_noise: int | None = None,
        n_features: int | None = None,
    ) -> None:
        super().__init__(n_modes, n_time, n_noise)
        width = n_reference * (n_modes if n_features is None else n_features)
        self.attention = TimeAttention(n_embedding, n_reference)
        self.log_width = nn.Parameter(torch.tensor(-math.log(n_reference)))
        self.perceptron = nn.Sequential(
            nn.Linear(2 * width, n_hidden), nn.GELU(), nn.Linear(n_hidden, n_hidden), nn.GELU()
        )
        self.head = nn.Linear(n_hidden + width, self.n_outputs)

    def summarise(self, values: Tensor, weights: Tensor | None, times: Tensor) -> Tensor:
        """Features at the reference times, after a perceptron of them and of their weights."""
        distance = self.attention.reference[:, None] - times[..., None, :]
        scores = self.attention.scores(times) - (distance * torch.exp(-self.log_width)) ** 2
        if weights is None:
            features = torch.matmul(torch.softmax(scores, -1), values)
            mean_weight = torch.ones_like(features)
        else:
            features, _ = attend_observed(scores, values * weights, weights)
            mean_weight, _ = attend_observed(scores, weights * weights, weights)
        flat = features.flatten(1)
        return torch.cat([self.perceptron(torch.cat([flat, mean_weight.flatten(1)], 1)), flat], 1)


#: Channels and kernel of the convolutions, and the longest side of a grid that is not halved again.
N_CHANNELS, KERNEL, LONGEST_SIDE = 16, 5, 8


class GridEncoder(ModesEncoder):
    """`ModesEncoder` whose features are convolutions of the field on a grid, in one or two dims.

    Args:
        points: (M, d), on a tensor grid of which some cells may have no point.
        n_modes, n_time, widths: as for `ModesEncoder`.
    """

    reads_modes = False
    cells: Tensor

    def __init__(self, points: np.ndarray, n_modes: int, n_time: int, **widths: Any) -> None:
        super().__init__(n_modes, n_time, n_features=2 * n_modes, **widths)
        cells, self.shape = grid_cells(points)
        self.register_buffer("cells", torch.from_numpy(cells), persistent=False)
        convolution = nn.Conv1d if len(self.shape) == 1 else nn.Conv2d
        layers: list[nn.Module] = []
        n_in, side = 2, self.shape
        while not layers or max(side) > LONGEST_SIDE:
            stride = 2 if max(side) > LONGEST_SIDE else 1
            layers += [convolution(n_in, N_CHANNELS, KERNEL, stride, KERNEL // 2), nn.GELU()]
            n_in, side = N_CHANNELS, tuple(-(-n // stride) for n in side)
        width = N_CHANNELS * math.prod(side)
        self.space = nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, 2 * n_modes))

    def summarise(self, values: Tensor, weights: Tensor | None, times: Tensor) -> Tensor:
        """The convolved fields, each time weighted by the share of its points that is observed."""
        n_paths, n_times, _ = values.shape
        mask = torch.ones_like(values) if weights is None else weights
        image = values.new_zeros(n_paths * n_times, 2, math.prod(self.shape))
        image[:, 0, self.cells] = (values * mask).flatten(0, 1)
        image[:, 1, self.cells] = mask.flatten(0, 1)
        features = self.space(image.view(-1, 2, *self.shape)).view(n_paths, n_times, -1)
        share = None if weights is None else mask.mean(2, keepdim=True).expand_as(features)
        return super().summarise(features, share, times)


def grid_cells(points: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Cell of each point in the grid of all coordinates, (M,), and the grid's shape.

    Raises:
        InputError: three dims or more, or points that fill less than half of their grid.

    Example:
        >>> grid_cells(np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 1.0]]))
        (array([0, 1, 3]), (2, 2))
    """
    columns = points.reshape(len(points), -1).T
    levels = [np.unique(column, return_inverse=True) for column in columns]
    shape = tuple(len(values) for values, _ in levels)
    if len(shape) > 2 or 2 * len(points) < math.prod(shape):
        expected = "fields on a grid of one or two dims for 'grid'"
        got = f"{len(points)} points with {' x '.join(map(str, shape))} distinct coordinates"
        raise InputError("encoder", expected=expected, got=got, fix="pass encoder='modes'")
    return np.ravel_multi_index([index for _, index in levels], shape), shape
