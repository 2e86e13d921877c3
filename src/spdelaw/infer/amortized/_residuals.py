"""Squared residuals of fields that are linear in their coefficients, without forming the field.

``S_m = sum_t o_tm (X_tm - sum_n c_tn h_nm)^2``. The residual is one product with the observation
as its start, and the gradient ``dS_m / dc_tn = -2 o_tm r_tm h_nm`` one product for each path; no
other array of the size of the fields is read or written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spdelaw.infer.amortized._paths import Paths


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
        flat = torch.addmm(values.reshape(-1, len(basis)), c.reshape(-1, c.shape[-1]), basis.t(),
                           alpha=-1)  # fmt: skip
        residual = flat.view_as(values)
        if observed is not None:
            residual.mul_(observed)
        ctx.save_for_backward(residual, basis)
        return residual.square().sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        residual, basis = ctx.saved_tensors
        return torch.bmm(residual, -2.0 * grad[..., None] * basis), None, None, None
