"""Start values from increments, in closed form but for one search.

With the reaction frozen over a step (exponential Euler),

    y = e^(-lambda dt) x + dt phi(lambda dt) sum_t theta_t g_t(x) + e,   phi(z) = (1 - e^-z) / z,

so for a given nu the coefficients are weighted least squares, the residuals give the noise, and nu
is found by a search along its profile. Biased by the freezing, so it only starts the likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import decay_mean, field_of
from spdelaw.infer.semilinear._fields_layout import alone, name_among_all
from spdelaw.infer.semilinear._layout import Layout
from spdelaw.infer.semilinear._optimise import solve
from spdelaw.model import Transitions

Array = np.ndarray

#: Products ``nu mu_max dt`` between which nu is searched, and how many on the first round.
RANGE, TRIALS = (1e-3, 1e3), 9
#: Rounds of least squares with weights from the residuals before.
ROUNDS = 3
#: Transitions that are enough for a start.
MOST = 800


class _Profile(NamedTuple):
    value: float
    coefficients: Array
    noise: Array


def start(layout: Layout, data: Transitions) -> Array:
    """The free vector of the exponential-Euler estimate."""
    data = data.draw(MOST)
    if layout.fields:
        return _fields_start(layout, data)
    return layout.vector(start_values(layout, data, layout.reaction.values(data.before)))


def _fields_start(layout: Layout, data: Transitions) -> Array:
    """The same of several fields, one after the other."""
    values: dict[str, float] = {}
    columns = layout.reaction.values(data.before)
    for f, field in enumerate(layout.fields):
        at = [k for k, name in enumerate(layout.reaction.names) if field_of(name) == field]
        rows = slice(f, None, len(layout.fields))
        own = data._replace(before=data.before[:, rows], after=data.after[:, rows])
        found = start_values(alone(layout, field, at), own, columns[at][..., rows])
        values |= {name_among_all(name, field): value for name, value in found.items()}
    return layout.vector(values)


def start_values(layout: Layout, data: Transitions, terms: Array) -> dict[str, float]:
    """The same by name, from values of the terms at the states before, (n_terms, n, N)."""
    nu = layout.fixed["nu"] if "nu" in layout.fixed else _search(layout, data, terms)
    found = _profile(layout, data, terms, nu)
    values = {
        "nu": nu,
        **dict(zip(("kappa", *layout.reaction.names), found.coefficients, strict=True)),
    }
    if layout.noise == "parametric":
        n = np.arange(1.0, len(found.noise) + 1.0)
        slope, level = np.polyfit(np.log(n), np.log(found.noise), 1) if len(n) > 1 else (0.0, 0.0)
        level = level if len(n) > 1 else float(np.log(found.noise[0]))
        values |= {"scale": float(np.exp(level)), "exponent": -float(slope)}
    else:
        values |= {f"q_{k}": float(q) for k, q in enumerate(found.noise, 1)}
    return {k: float(v) for k, v in values.items()}


def _search(layout: Layout, data: Transitions, terms: Array) -> float:
    """Nu with the best profile: a grid of logarithms, then a finer one around its best."""
    highest = max(float(layout.mu.max() * np.median(data.dt)), 1e-300)
    low, high = (np.log(edge / highest) for edge in RANGE)
    for _ in range(3):
        grid = np.linspace(low, high, TRIALS)
        values = [_profile(layout, data, terms, float(np.exp(g))).value for g in grid]
        best, width = grid[int(np.argmin(values))], grid[1] - grid[0]
        low, high = best - width, best + width
    return float(np.exp(best))


def _profile(layout: Layout, data: Transitions, terms: Array, nu: float) -> _Profile:
    """Least squares for kappa and the terms, and the noise, at one nu."""
    dt = data.dt[:, None]
    z = nu * layout.mu * dt
    freeze = dt * decay_mean(z)
    columns = np.concatenate([-data.before[None], terms]) * freeze
    target = data.after - np.exp(-z) * data.before
    names = ("kappa", *layout.reaction.names)
    held = np.array([layout.fixed.get(name, np.nan) for name in names])
    free = np.isnan(held)
    target = target - np.tensordot(np.where(free, 0.0, held), columns, 1)
    theta, noise = np.where(free, 0.0, held), _noise(target, z, dt)
    for _ in range(ROUNDS):
        if free.any():
            theta[free] = _weighted(columns[free], target, 1.0 / (noise * dt * decay_mean(2.0 * z)))
        noise = _noise(target - np.tensordot(theta * free, columns, 1), z, dt)
    variance = noise * dt * decay_mean(2.0 * z)
    return _Profile(float(np.log(variance).sum()), theta, noise)


def _noise(residual: Array, z: Array, dt: Array) -> Array:
    """``q_n`` whose noise over a step has the variance of the residuals."""
    q = (residual**2 / (dt * decay_mean(2.0 * z))).mean(0)
    return np.maximum(q, 1e-12 * max(float(q.max()), 1e-300))


def _weighted(columns: Array, target: Array, weight: Array) -> Array:
    normal = np.einsum("ink,jnk,nk->ij", columns, columns, weight, optimize=True)
    return solve(normal, np.einsum("ink,nk->i", columns, weight * target))
