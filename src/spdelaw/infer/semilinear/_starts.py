"""Start values from increments, in closed form but for one search.

With the reaction frozen over a step (exponential Euler),

    y = e^(-lambda dt) x + dt phi(lambda dt) sum_t theta_t g_t(x) + e,   phi(z) = (1 - e^-z) / z,

so for a given nu the coefficients are weighted least squares, the residuals give the noise, and nu
is found by a search along its profile, of one field after the other. Biased by the freezing, so it
only starts the likelihood.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import decay_mean, field_of
from spdelaw.infer.semilinear._layout import Layout, noise_names
from spdelaw.infer.semilinear._optimise import solve
from spdelaw.model import Transitions

Array = np.ndarray

#: Products ``nu mu_max dt`` between which nu is searched, and how many on the first round.
RANGE, TRIALS = (1e-3, 1e3), 9
#: Rounds of least squares with weights from the residuals before.
ROUNDS = 3
#: Transitions that are enough for a start.
MOST = 800


def start(form: Layout, data: Transitions, **known: float) -> Array:
    """The free vector of the exponential-Euler estimate, beside values that are known by name."""
    data, values = data.draw(MOST), dict(known)
    terms = form.reaction.values(data.before)
    for f, field in enumerate(form.fields):
        at = [k for k, name in enumerate(form.reaction.names) if field_of(name) == field]
        modes = slice(f, None, len(form.fields))
        own = data._replace(before=data.before[:, modes], after=data.after[:, modes])
        names = ["kappa", *(form.reaction.names[k] for k in at)]
        values |= _of_field(form, field, own, names, terms[at][..., modes])
    return form.vector(values)


def _of_field(
    form: Layout, field: str, data: Transitions, names: list[str], terms: Array
) -> dict[str, float]:
    """Values of one field by name, from its terms at the states before, (n_terms, n, N)."""
    dt, columns = data.dt[:, None], np.concatenate([-data.before[None], terms])
    held = [form.fixed.get(name, np.nan if name in form.names else 0.0) for name in names]
    free, known = np.isnan(held), np.nan_to_num(held)

    def profile(nu: float) -> tuple[float, Array, Array]:
        """Minus the log-likelihood at one nu, the coefficients and the noise."""
        z = nu * form.mu * dt
        made, unit = columns * (dt * decay_mean(z)), dt * decay_mean(2.0 * z)
        target = data.after - np.exp(-z) * data.before - np.tensordot(known, made, 1)
        theta, noise = known.copy(), _noise(target, unit)
        for _ in range(ROUNDS):
            if free.any():
                theta[free] = _weighted(made[free], target, 1.0 / (noise * unit))
            noise = _noise(target - np.tensordot(theta * free, made, 1), unit)
        return float(np.log(noise * unit).sum()), theta, noise

    nu = form.fixed.get(f"nu {field}".strip())
    if nu is None:
        highest = max(float(form.mu.max() * np.median(data.dt)), 1e-300)
        low, high = (np.log(edge / highest) for edge in RANGE)
        for _ in range(3):  # a grid of logarithms, then finer ones around its best
            grid = np.linspace(low, high, TRIALS)
            best = grid[int(np.argmin([profile(float(np.exp(g)))[0] for g in grid]))]
            low, high = best - (grid[1] - grid[0]), best + (grid[1] - grid[0])
        nu = float(np.exp(best))
    _, theta, noise = profile(nu)
    values = {f"nu {field}".strip(): nu, **dict(zip(names, theta, strict=True))}
    if form.noise == "parametric":
        n = np.log(np.arange(1.0, len(noise) + 1.0))
        line = np.polyfit(n, np.log(noise), 1) if len(n) > 1 else (0.0, np.log(noise[0]))
        noise = np.array([np.exp(line[1]), -line[0]])
    return values | dict(zip(noise_names(field, form.noise, len(noise)), noise, strict=True))


def _noise(residual: Array, unit: Array) -> Array:
    """``q_n`` whose noise over a step has the variance of the residuals."""
    q = (residual**2 / unit).mean(0)
    return np.maximum(q, 1e-12 * max(float(q.max()), 1e-300))


def _weighted(columns: Array, target: Array, weight: Array) -> Array:
    normal = np.einsum("ink,jnk,nk->ij", columns, columns, weight, optimize=True)
    return solve(normal, np.einsum("ink,nk->i", columns, weight * target))
