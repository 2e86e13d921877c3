"""Complex weights, stored as pairs of real numbers, and how many weights a network has.

Pairs go into safetensors and through the fused optimiser; Adam treats a complex number as such a
pair anyway.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ComplexWeight(nn.Module):
    """A complex array whose real and imaginary parts start uniform in ``[0, scale)``."""

    def __init__(self, *shape: int, scale: float) -> None:
        super().__init__()
        self.pairs = nn.Parameter(scale * torch.rand(*shape, 2))

    def forward(self) -> Tensor:
        """The complex array itself."""
        return torch.view_as_complex(self.pairs)


def count_parameters(network: nn.Module, *, complex_as: int = 1) -> int:
    """Weights of a network; a complex one counts as one number or as two.

    Example:
        >>> weight = ComplexWeight(3, 4, scale=1.0)
        >>> count_parameters(weight), count_parameters(weight, complex_as=2)
        (12, 24)
    """
    stored = sum(p.numel() for p in network.parameters())
    pairs = sum(m.pairs.numel() for m in network.modules() if isinstance(m, ComplexWeight))
    return stored - pairs + complex_as * pairs // 2
