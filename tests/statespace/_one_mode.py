"""Brute force for one mode: densities on a fine grid, moved by short Gaussian steps."""

from functools import cache

import numpy as np

import spdelaw as sl

GRID = np.linspace(-2.6, 2.6, 1041)


def equation(q: float = 0.2) -> sl.Semilinear:
    """``dx = (x - x^3) dt + sqrt(q) dw``: the constant mode of an interval of length one."""
    linear = sl.SpectralSPDE(
        sl.Interval(0, 1, "neumann"), 1, sl.OperatorFormula(0.0), noise=[q], initial=[1.0]
    )
    return sl.Semilinear(linear, {"u": 1.0, "u^3": -1.0})


@cache
def kernel(q: float, dt: float, doublings: int = 5) -> np.ndarray:
    """``p(y | x)`` on the grid, rows x, from 2^doublings steps with local errors of order three."""
    h, x = dt / 2**doublings, GRID
    f, slope, bend = x - x**3, 1.0 - 3.0 * x**2, -6.0 * x
    mean = x + h * f + 0.5 * h**2 * (f * slope + 0.5 * q * bend)
    variance = q * h * (1.0 + h * slope)
    step = np.exp(-0.5 * (x[None] - mean[:, None]) ** 2 / variance[:, None])
    step /= np.sqrt(2 * np.pi * variance)[:, None]
    out = step * (x[1] - x[0])
    for _ in range(doublings):
        out = out @ out
    return out / (x[1] - x[0])
