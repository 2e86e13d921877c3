"""Neural SPDE (Salvi, Lemercier and Gerasimovics, NeurIPS 2022), as SPDEBench sets it up."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor, nn

from paper.baselines.fourier import ComplexWeight, Readout, mix, require_modes
from paper.baselines.inputs import Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network


class NSPDENetwork(Network):
    """Lift, Picard iterations, readout."""

    def __init__(self, system: NSPDE, grid: Grid) -> None:
        super().__init__(system, grid)
        width, (n_times, n_points) = system.width, grid.shape
        require_modes(system.label, (system.modes_x, system.modes_t), (n_points, n_times))
        self.n_times, self.n_iterations = n_times, system.n_iterations
        self.lift = nn.Linear(1, width)
        self.drift, self.diffusion = _coefficient(width), _coefficient(width)
        self.kernel = Kernel(width, system.modes_x, system.modes_t)
        self.readout = Readout(width, nn.ReLU())

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of initial states (B, M) and increments (B, T, M)."""
        start = self.lift(initial[..., None]).transpose(1, 2)  # (B, C, M)
        free = self.kernel.free(start, self.n_times)
        xi = drive.transpose(1, 2)[:, None]
        z = free
        for _ in range(self.n_iterations):
            z = free + self.kernel(self.drift(z) + self.diffusion(z) * xi)
        return self.readout(z.permute(0, 3, 2, 1)[:, 1:])


@dataclasses.dataclass(eq=False)
class NSPDE(Predictor):
    """Picard iterations of a mild solution with a learned kernel.

    ``z0 = L u0``, ``z <- S z0 + K * (F(z) + G(z) xi)``, ``u = R z``. With the defaults it has the
    paper's 3,283,457 weights (6,560,257 where a complex number counts as two).

    Args:
        domain: domain of the fields.
        width: channels of z.
        n_iterations: Picard iterations.
        modes_x, modes_t: frequencies of the kernel, centred at zero.
    """

    width: int = 32
    n_iterations: int = 1
    modes_x: int = 64
    modes_t: int = 50
    name: ClassVar[str] = "nspde"
    label: ClassVar[str] = "NSPDE"
    network_class: ClassVar[type[Network]] = NSPDENetwork
    needs_regular_grid: ClassVar[bool] = True
    protocol: ClassVar[Protocol] = Protocol(rate=2.5e-3, batch_size=20, delta=2e-4)
    uses_initial: ClassVar[bool] = True


class Kernel(nn.Module):
    """A convolution in space and time, given on a central band of frequencies."""

    def __init__(self, width: int, modes_x: int, modes_t: int) -> None:
        super().__init__()
        self.modes = modes_x, modes_t
        self.weight = ComplexWeight(width, width, modes_x, modes_t, scale=1.0 / width**2)

    def forward(self, v: Tensor) -> Tensor:
        """``K * v`` for v (B, C, M, T)."""
        f = torch.fft.fftshift(torch.fft.fft2(v), dim=(-2, -1))
        out = torch.zeros_like(f)
        band = (..., _centre(v.shape[-2], self.modes[0]), _centre(v.shape[-1], self.modes[1]))
        out[band] = mix(f[band], self.weight())
        return torch.fft.ifft2(torch.fft.ifftshift(out, dim=(-2, -1))).real

    def free(self, start: Tensor, n_times: int) -> Tensor:
        """``S z0``: the band of z0 in x times the kernel in time; (B, C, M, T).

        The kernel, padded with zeros at its end, is transformed to ``n_times`` times. That is
        linear, so it comes after the sum over channels, which leaves a 32nd of the work.
        """
        f = torch.fft.fftshift(torch.fft.fft(start), dim=-1)
        band = _centre(start.shape[-1], self.modes[0])
        mixed = mix(f[..., band, None], self.weight())
        out = f.new_zeros(*f.shape, n_times)
        out[:, :, band] = torch.fft.ifft(mixed, n=n_times)
        return torch.fft.ifft(torch.fft.ifftshift(out, dim=-2), dim=-2).real


def _centre(size: int, n_modes: int) -> slice:
    """The ``n_modes`` lowest frequencies of a shifted transform."""
    start = size // 2 - n_modes // 2
    return slice(start, start + n_modes)


def _coefficient(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 1), nn.BatchNorm2d(width), nn.Tanh())
