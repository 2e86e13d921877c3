"""A gated recurrent unit whose backward pass is written out.

``r = sigma(g_r)``, ``z = sigma(g_z)``, ``n = tanh(x_n + r * h_n)``, ``h <- (1 - z) n + z h`` with
``(g_r, g_z) = x_{r,z} + h_{r,z}``, ``x = W_x input + b_x`` and ``h_. = W_h h + b_h``. The
gradient with respect to the gates is ``dh`` times a factor that is known before the backward
recursion starts, so that each of its steps is one product with ``W_h``; the gradients of the
weights are one product for all steps instead of one for each.

Reference: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, EMNLP 2014.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


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
        """The same from ``W_x input + b_x``, (steps, paths, 3 n_hidden)."""
        return _Recursion.apply(gates, self.weight_state, self.bias_state)


class _Recursion(torch.autograd.Function):
    """Input gates (S, P, 3 H), recurrent weight and bias to the final state (P, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        steps, paths, width = gates.shape
        n_hidden, two = width // 3, 2 * (width // 3)
        states = gates.new_zeros(steps + 1, paths, n_hidden)
        own = torch.empty_like(gates)  # W_h h + b_h of every step
        opened, n = gates.new_empty(steps, paths, two), torch.empty_like(states[1:])
        own[0] = bias  # the first state is zero: no product
        transposed = weight.t()
        # Every result goes straight to where the backward pass reads it: no copies.
        for s in range(steps):
            if s:
                torch.addmm(bias, states[s], transposed, out=own[s])
            rz = torch.add(own[s, :, :two], gates[s, :, :two], out=opened[s]).sigmoid_()
            torch.addcmul(gates[s, :, two:], rz[:, :n_hidden], own[s, :, two:], out=n[s]).tanh_()
            torch.lerp(n[s], states[s], rz[:, n_hidden:], out=states[s + 1])
        ctx.save_for_backward(opened, n, own[:, :, two:], states, weight)
        return states[steps].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        opened, n, candidates, states, weight = ctx.saved_tensors
        steps, paths, n_hidden = n.shape
        width = 3 * n_hidden
        r, z = opened.split(n_hidden, -1)
        # Blocks h_n, r, z, x_n: the first three meet W_h, the last three are the input's gates.
        factor = opened.new_empty(steps, paths, 4, n_hidden)
        by_n, by_r, by_z = factor[:, :, 3], factor[:, :, 1], factor[:, :, 2]
        aten = torch.ops.aten  # g (1 - y^2) and g y (1 - y) in one pass each
        aten.tanh_backward.grad_input(1.0 - z, n, grad_input=by_n)
        torch.mul(by_n, r, out=factor[:, :, 0])
        aten.sigmoid_backward.grad_input(by_n * candidates, r, grad_input=by_r)
        aten.sigmoid_backward.grad_input(states[:-1] - n, z, grad_input=by_z)
        own, rows = torch.empty_like(factor), torch.roll(weight, n_hidden, 0)
        flat = own.view(steps, paths, 4 * n_hidden)
        dh = grad
        for s in range(steps - 1, -1, -1):
            torch.mul(factor[s], dh[:, None], out=own[s])
            if s:  # nobody asks for the gradient of the zero state
                dh = torch.addmm(dh * z[s], flat[s, :, :width], rows)
        at_state = flat.view(steps * paths, 4 * n_hidden)[:, :width]
        by_weight = at_state.t() @ states[:-1].view(steps * paths, n_hidden)
        by_bias = at_state.sum(0)
        by_gates = flat[:, :, n_hidden:]
        return by_gates, torch.roll(by_weight, -n_hidden, 0), torch.roll(by_bias, -n_hidden, 0)
