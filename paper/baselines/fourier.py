"""Fourier layers over space and time with complex weights, which FNO, NSPDE and DLR-Net share.

Complex weights are stored as pairs of real numbers. Pairs fit into safetensors and into the fused
optimiser; Adam treats a complex number as such a pair anyway.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from paper.baselines.inputs import Grid
from spdelaw.errors import DataError


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


class SpectralConvolution(nn.Module):
    """``K(v)``: complex weights on the lowest frequencies of ``v`` (B, C, X, T).

    ``rfft2`` over (x, t); one weight for the non-negative and one for the negative frequencies of
    x; all other frequencies become zero.
    """

    def __init__(self, width: int, modes_x: int, modes_t: int) -> None:
        super().__init__()
        shape, scale = (width, width, modes_x, modes_t), 1.0 / width**2
        self.modes = modes_x, modes_t
        self.low = ComplexWeight(*shape, scale=scale)
        self.high = ComplexWeight(*shape, scale=scale)

    def forward(self, v: Tensor) -> Tensor:
        """Convolve."""
        mx, mt = self.modes
        f = torch.fft.rfft2(v)
        out = torch.zeros_like(f)
        out[:, :, :mx, :mt] = mix(f[:, :, :mx, :mt], self.low())
        out[:, :, -mx:, :mt] = mix(f[:, :, -mx:, :mt], self.high())
        return torch.fft.irfft2(out, s=v.shape[-2:])


def mix(f: Tensor, weight: Tensor) -> Tensor:
    """``sum_i f[b, i, ...] w[i, o, ...]``, one small matrix product a frequency."""
    return torch.einsum("bixt,ioxt->boxt", f, weight)


class FourierStack(nn.Module):
    """``v <- K(v) + W v`` with GELU after all but the last, on time padded at the end.

    The system has ``width``, ``n_layers``, ``modes_x``, ``modes_t`` and ``padding``.
    """

    def __init__(self, system: Any, grid: Grid) -> None:
        super().__init__()
        width, modes, layers = system.width, (system.modes_x, system.modes_t), system.n_layers
        self.padding = system.padding
        available = grid.shape[1] // 2, (grid.shape[0] + self.padding) // 2 + 1
        require_modes(system.label, modes, available)
        self.kernels = nn.ModuleList(SpectralConvolution(width, *modes) for _ in range(layers))
        self.pointwise = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))

    def forward(self, v: Tensor) -> Tensor:
        """Transform (B, C, X, T)."""
        n_times, last = v.shape[-1], len(self.kernels) - 1
        v = functional.pad(v, (0, self.padding))
        for i, (kernel, pointwise) in enumerate(zip(self.kernels, self.pointwise, strict=True)):
            v = kernel(v) + pointwise(v)
            if i < last:
                v = functional.gelu(v)
        return v[..., :n_times]


class Readout(nn.Module):
    """Linear to 128, an activation, linear to 1, at every point; (..., C) to (...)."""

    def __init__(self, width: int, activation: nn.Module, n_hidden: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, n_hidden), activation, nn.Linear(n_hidden, 1))

    def forward(self, v: Tensor) -> Tensor:
        """Map channels to values of the field."""
        return self.layers(v)[..., 0]


def require_modes(what: str, modes: tuple[int, int], available: tuple[int, int]) -> None:
    """Raise `DataError` where a grid has fewer frequencies in x and t than a network uses."""
    if modes[0] > available[0] or modes[1] > available[1]:
        largest = tuple(min(pair) for pair in zip(modes, available, strict=True))
        expected = f"a grid for the {modes[0]} x {modes[1]} modes of {what}"
        got = f"one that resolves {available[0]} x {available[1]}"
        fix = f"pass modes_x={largest[0]}, modes_t={largest[1]} to the system"
        raise DataError("fields", expected=expected, got=got, fix=fix)
