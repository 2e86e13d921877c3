"""Chaos coordinates of simulated paths, from the noise that drove them."""

from __future__ import annotations

import numpy as np
import xarray as xr

from spdelaw.chaos.checks import SLACK
from spdelaw.chaos.time_basis import TimeBasis, check_basis
from spdelaw.checks import whole
from spdelaw.equation import SpectralSPDE
from spdelaw.errors import DataError


def chaos_coordinates(
    simulated: xr.Dataset, equation: SpectralSPDE, basis: TimeBasis, n_time: int
) -> xr.DataArray:
    """``xi_{k,l} = int_0^T m_k dw_l`` (paper, eq. 6) from the increments of the driving noise.

    ``xi_{k,l} ~ sum_i m_k(midpoint_i) dW_{i,l} / sqrt(q_l)``. For a smooth basis the error is of
    strong order 1: root mean square ``h ||m_k'|| / sqrt(12)`` for steps h. The law is better than
    that: on equal steps cosines at midpoints are orthonormal, so for K up to the number of steps
    the coordinates are exactly independent standard normals, and ``E[c_n(t) xi_{k,n}]`` differs
    from the propagator by order h^2.

    Args:
        simulated: ``simulate(..., return_noise=True)``; the times have to reach from the
            equation's initial time to T after it.
        equation: what was simulated; all its ``q_n`` have to be positive.
        basis: functions of time.
        n_time: K.

    Returns:
        Dims (path, k, l), both counted from 1; l is the mode whose noise it is.

    Example:
        >>> import spdelaw as sl
        >>> from spdelaw.chaos import CosineBasis
        >>> heat = sl.catalogue.heat(n_modes=3)
        >>> paths = sl.simulate(heat, n_paths=5, seed=0, return_noise=True)
        >>> dict(chaos_coordinates(paths, heat, CosineBasis(), n_time=4).sizes)
        {'path': 5, 'k': 4, 'l': 3}
    """
    increments, edges = _increments(simulated, equation, check_basis(basis))
    m = basis.values(0.5 * (edges[:-1] + edges[1:]), whole("n_time", n_time, 1))
    scaled = increments.values / np.sqrt(equation.noise_variance)
    xi = np.matmul(m.T, scaled)  # (K, steps) by (paths, steps, L)
    k, l = np.arange(1, n_time + 1), increments["mode"].values
    coords = {"path": increments["path"].values, "k": k, "l": l}
    return xr.DataArray(xi, dims=("path", "k", "l"), coords=coords, name="xi")


def _increments(
    simulated: xr.Dataset, equation: SpectralSPDE, basis: TimeBasis
) -> tuple[xr.DataArray, np.ndarray]:
    """Noise increments (path, time, mode) and the ends of their steps, counted from 0."""
    if not isinstance(simulated, xr.Dataset) or "noise_increment" not in simulated:
        expected = "a Dataset with the variable noise_increment"
        fix = "simulate(..., return_noise=True)"
        raise DataError("simulated", expected=expected, got=type(simulated).__name__, fix=fix)
    increments = simulated["noise_increment"].transpose("path", "time", "mode")
    if increments.sizes["mode"] != equation.n_modes or not (equation.noise_variance > 0).all():
        expected = f"positive q_n for {increments.sizes['mode']} modes"
        got, fix = f"q = {equation.noise_variance}", "pass the equation that was simulated"
        raise DataError("equation", expected=expected, got=got, fix=fix)
    edges = np.append(0.0, increments["time"].values - equation.initial_time)
    if abs(edges[-1] - basis.horizon) > SLACK * basis.horizon:
        expected = f"times up to T = {basis.horizon:g} after the initial one"
        fix = f"CosineBasis(horizon={edges[-1]:g})"
        raise DataError("simulated", expected=expected, got=f"up to {edges[-1]:g}", fix=fix)
    return increments, edges
