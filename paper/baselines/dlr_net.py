"""DLR-Net (Gong et al., ICLR 2023): features of regularity structures and Fourier layers."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

import spdelaw as sl
from paper.baselines.fourier import FourierStack, Readout
from paper.baselines.inputs import Grid
from paper.baselines.predictor import Predictor
from paper.baselines.protocol import Protocol
from paper.baselines.training import Network
from spdelaw.errors import InputError

Array = np.ndarray
BOUNDARIES = ("dirichlet", "neumann", "periodic")


class DLRNetwork(Network):
    """Features of xi and u0, a first guess v, features of v, Fourier layers, readout."""

    at: Tensor
    step: Tensor
    free_step: Tensor

    def __init__(self, system: DLRNet, grid: Grid) -> None:
        super().__init__(system, grid)
        ends = start = getattr(grid.domain, "boundary", "neumann")
        if system.boundary != "domain":
            ends, start = system.boundary, "dirichlet"
        self.dt = grid.dt
        for name, boundary in (("step", ends), ("free_step", start)):
            self.constant(name, implicit_step(grid, boundary))
        times, points = grid.unit()
        at = torch.stack(torch.meshgrid(points, times, indexing="ij"), -1).transpose(0, 1)
        self.constant("at", at.contiguous())  # (T, M, 2): x, t
        self.guess = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 1))
        self.lift = nn.Linear(18, system.width)
        self.layers = FourierStack(system, grid)
        self.readout = Readout(system.width, nn.GELU())

    def forward(self, initial: Tensor, drive: Tensor) -> Tensor:
        """Fields (B, T - 1, M) of initial states (B, M) and increments (B, T, M)."""
        u, a = self.solve(initial, drive)
        fixed = self.integrate(torch.stack([a**2, a**3, a]))
        features = [u, a, *self._with(u, a), *fixed]
        v = self.guess(torch.stack(features, -1))[..., 0]
        at = self.at.expand(len(v), -1, -1, -1)
        everything = [torch.stack([*features, v, *self._with(v, a)], -1), at]
        lifted = self.lift(torch.cat(everything, -1)).permute(0, 3, 2, 1)
        return self.readout(self.layers(lifted).permute(0, 3, 2, 1)[:, 1:])

    def solve(self, initial: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
        """``u = I_c[u0]`` and ``a = I[xi]`` (B, T, M); their sum solves the heat equation."""
        states = [initial]
        for _ in range(drive.shape[1] - 1):
            states.append(states[-1] @ self.free_step.t())
        # xi are increments, and I multiplies by dt: noise per unit of time.
        return torch.stack(states, 1), self.integrate(drive / self.dt)

    def integrate(self, f: Tensor) -> Tensor:
        """``I[f]`` along the last two dims (T, M)."""
        return _Integrate.apply(f, self.step, self.dt)

    def _with(self, u: Tensor, a: Tensor) -> Tensor:
        """``I[a u], I[a u^2], I[a^2 u], I[u^2], I[u]``, the features that contain u."""
        return self.integrate(torch.stack([a * u, a * u**2, a**2 * u, u**2, u]))


@dataclasses.dataclass(eq=False)
class DLRNet(Predictor):
    """Iterated integrals against the heat semigroup as features of a small Fourier network.

    ``I[f]`` solves ``dv = v'' dt + f dt`` by implicit Euler on the grid, ``I_c[u0]`` the same from
    ``u0`` without forcing. With the defaults it has the paper's 133,178 weights (264,250 where a
    complex number counts as two).

    The published system integrates with periodic ends for every equation. By default this one uses
    the boundary of the domain (free ends on the line), with which ``I_c[u0] + I[xi]`` already
    solves the stochastic heat equation.

    Args:
        domain: domain of the fields.
        boundary: of the integration: "domain", "dirichlet", "neumann" or "periodic".
        width: channels of the Fourier layers.
        n_layers: number of Fourier layers.
        modes_x, modes_t: frequencies that a layer keeps.
        padding: zeros after the last time.
    """

    boundary: str = "domain"
    width: int = 8
    n_layers: int = 4
    modes_x: int = 16
    modes_t: int = 16
    padding: int = 6
    name: ClassVar[str] = "dlr-net"
    label: ClassVar[str] = "DLR-Net"
    network_class: ClassVar[type[Network]] = DLRNetwork
    needs_regular_grid: ClassVar[bool] = True
    protocol: ClassVar[Protocol] = Protocol(
        rate=1e-3, weight_decay=1e-5, batch_size=32, schedule="cosine"
    )
    uses_initial: ClassVar[bool] = True
    uses_every_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the boundary."""
        super().__post_init__()
        if self.boundary not in ("domain", *BOUNDARIES):
            expected = f"'domain' or one of {BOUNDARIES}"
            fix = "leave it out: the boundary of the domain is the default"
            raise InputError("boundary", expected=expected, got=repr(self.boundary), fix=fix)


class _Integrate(torch.autograd.Function):
    """``I[f]_0 = 0``, ``I[f]_t = (I[f]_{t-1} + dt f_t) M^T`` and its adjoint.

    Autograd through the recursion would keep every step; its adjoint is the same recursion
    backwards, with M in place of its transpose.
    """

    @staticmethod
    def forward(ctx: Any, f: Tensor, step: Tensor, dt: float) -> Tensor:
        ctx.save_for_backward(step)
        ctx.dt = dt
        out, state = torch.zeros_like(f), torch.zeros_like(f[..., 0, :])
        for t in range(1, f.shape[-2]):
            state = (state + dt * f[..., t, :]) @ step.t()
            out[..., t, :] = state
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (step,), (g,) = ctx.saved_tensors, gradients
        out, adjoint = torch.zeros_like(g), torch.zeros_like(g[..., 0, :])
        for t in range(g.shape[-2] - 1, 0, -1):
            adjoint = (adjoint + g[..., t, :]) @ step
            out[..., t, :] = ctx.dt * adjoint
        return out, None, None


def implicit_step(grid: Grid, boundary: str) -> Array:
    """``M = (Id - dt A / dx^2)^-1`` with the 3-point Laplacian A of a boundary; (M, M).

    A point on a Dirichlet end has the value 0; beyond other outermost points lies 0 (Dirichlet),
    the mirror image (Neumann), or the other end (periodic).
    """
    n = len(grid.points)
    A = -2.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    if boundary == "periodic":
        A[0, -1] += 1.0
        A[-1, 0] += 1.0
    elif boundary == "neumann":
        A[0, 1] = A[-1, -2] = 2.0
    inverse = np.eye(n) - (grid.dt / grid.dx**2) * A
    if boundary != "dirichlet":
        return np.linalg.inv(inverse)
    inside = np.flatnonzero(~_on_end(grid.domain, grid.points))
    M = np.zeros((n, n))
    M[np.ix_(inside, inside)] = np.linalg.inv(inverse[np.ix_(inside, inside)])
    return M


def _on_end(domain: sl.AbstractDomain, points: Array) -> Array:
    ends = [getattr(domain, "a", -np.inf), getattr(domain, "b", np.inf)]
    tolerance = 1e-6 * abs(points[1] - points[0])
    return (abs(points - ends[0]) < tolerance) | (abs(points - ends[1]) < tolerance)
