"""Start values of a semilinear fit."""

from __future__ import annotations

import numpy as np
import scipy

from spdelaw.errors import DataError
from spdelaw.infer.semilinear.layout import Layout, noise_names
from spdelaw.infer.semilinear.scoring import solve
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import field_of
from spdelaw.statespace.collapse import Collapsed, some_paths
from spdelaw.statespace.filter import filter_scores, gram_roots, in_segments, smooth_block
from spdelaw.statespace.transitions import Transitions, gaussian, transitions

# ---------- Start values from increments, in closed form but for one search
#
# With the reaction frozen over a step (exponential Euler),
#
#     y = e^(-lambda dt) x + dt phi(lambda dt) sum_t theta_t g_t(x) + e,   phi(z) = (1 - e^-z) / z,
#
# so for a given nu the coefficients are weighted least squares, the residuals give the noise, and
# a search along its profile gives nu, one field after the other. Freezing biases the result, so it
# only starts the likelihood.


Array = np.ndarray

#: Products ``nu mu_max dt`` between which nu is searched, and how many on the first round.
NU_RANGE, NU_TRIALS = (1e-3, 1e3), 9
#: Rounds of least squares with weights from the residuals before.
REWEIGHTING_ROUNDS = 3
#: Rate times the step of a field that is never observed, to begin with.
HIDDEN_RATE = 0.05
#: Transitions that are enough for a start, and for that of noise that depends on the state.
START_TRANSITIONS, START_STATES = 800, 200
#: Offsets of affine noise that a start tries, in sizes of the field, the least part of a variance,
#: and rounds around the best offset.
START_OFFSETS, LEAST_RATE_SHARE, OFFSET_ROUNDS = (0.1, 0.32, 1.0, 3.2), 1e-2, 3
#: Correlations of a mode with itself a step later between which a start is searched.
CORRELATIONS = (0.02, 1.0 - 1e-6)


def start(form: Layout, data: Transitions, **given: float) -> Array:
    """The full vector of the exponential-Euler estimate, with given values by name."""
    data, values = data.draw(START_TRANSITIONS), dict(given)
    if not data.before.any():
        expected, got = "noise smaller than the fields", "noise that hides them"
        fix = "pass observation_noise='estimate'"
        raise DataError("observation_noise", expected=expected, got=got, fix=fix)
    terms = form.dynamics.reaction.values(data.before)  # type: ignore[union-attr]
    for f, field in enumerate(form.fields):
        at = [k for k, name in enumerate(form.terms) if field_of(name) == field]
        modes = slice(f, None, len(form.fields))
        field_data = data._replace(before=data.before[:, modes], after=data.after[:, modes])
        names = ["kappa", *(form.terms[k] for k in at)]
        if not field_data.before.any():
            values |= _start_of_hidden(form, field, data, names)
            continue
        values |= _start_of_field(form, field, field_data, names, terms[at][..., modes])
    if form.dynamics.amplitude is not None:  # type: ignore[union-attr]
        values |= _start_of_state_noise(form, data, values)
    return form.vector(values)


def _start_of_state_noise(
    form: Layout, data: Transitions, values: dict[str, float]
) -> dict[str, float]:
    """Spectrum of W and offset, with the rate of the covariance frozen at the state before.

    The variances of the residuals r at a state x are then linear in the spectrum: non-negative
    least squares, each row in units of its own size. The offset is the likeliest of a grid, refined
    around its best; far from it the search crawls, as transitions where the noise vanishes have
    huge scores. ``values`` are those of additive noise.
    """
    data = data.draw(START_STATES)
    x, dynamics = data.before, form.dynamics
    amplitude, n = dynamics.amplitude, dynamics.n_modes  # type: ignore[union-attr]
    closure = form.closure(form.vector({"noise_offset": 0.0} | values))
    dt, rates = data.dt[:, None], closure.rates
    drift = closure.reaction.drift(closure.total, x) * dt * decay_mean(rates * dt)
    residual = data.after - np.exp(-rates * dt) * x - drift
    exposure = decay_mean((rates[:, None] + rates) * dt[..., None]) * dt[..., None]
    variance_exposure = np.einsum("bnn->bn", exposure)
    size = float(np.sqrt((x**2).sum(1).mean() / dynamics.domain.volume))  # type: ignore[union-attr]

    def variances(offset: float) -> Array:
        """Of each mode by each number of the spectrum, (n, N, N)."""
        each = (amplitude.rate(e, offset, x, None) for e in np.eye(n))
        rows = np.stack([np.einsum("bnn->bn", rate) for rate in each], -1)
        return rows * variance_exposure[..., None]

    # A rate is quadratic in the offset.
    constant = variances(0.0)
    if "noise_offset" in form.names:
        above, below = variances(size) - constant, variances(-size) - constant
        linear, square = (above - below) / (2.0 * size), (above + below) / (2.0 * size**2)

    def candidate(offset: float) -> tuple[float, float, Array]:
        """Log-likelihood, offset and spectrum."""
        rows = constant if not offset else constant + offset * linear + offset**2 * square
        weight = 1.0 / np.maximum(rows.mean(-1), LEAST_RATE_SHARE * rows.mean())
        matrix, target = weight[..., None] * rows, weight * residual**2
        q = scipy.optimize.nnls(matrix.reshape(-1, n), target.ravel())[0]
        q = np.maximum(q, LEAST_RATE_SHARE * q.mean()) + 1e-300
        covariance = amplitude.rate(q, offset, x, None) * exposure
        value = float(gaussian(residual, covariance)[0].sum())
        return (value if np.isfinite(value) else -np.inf), offset, q

    if "noise_offset" not in form.free_names:
        _, offset, q = candidate(form.fixed.get("noise_offset", 0.0))
        return _noise_values(form, "", q) | {"noise_offset": offset}
    tried = [sign * k * size for k in START_OFFSETS for sign in (-1.0, 1.0)]
    best = max((candidate(offset) for offset in tried), key=lambda one: one[0])
    ratio = START_OFFSETS[1] / START_OFFSETS[0]
    for _ in range(OFFSET_ROUNDS):
        near = (candidate(best[1] * ratio**power) for power in (-2 / 3, -1 / 3, 1 / 3, 2 / 3))
        best = max((best, *near), key=lambda one: one[0])
        ratio **= 1 / 3
    return _noise_values(form, "", best[2]) | {"noise_offset": best[1]}


def _start_of_hidden(
    form: Layout, field: str, data: Transitions, names: list[str]
) -> dict[str, float]:
    """Values of a field that is never observed: alone, it decays with a noise like the others'."""
    rate = HIDDEN_RATE / float(np.median(data.dt))
    noise = ((data.after - data.before) ** 2 / data.dt[:, None]).mean() * len(form.fields)
    q = np.full(len(form.mu), noise)
    if form.noise == "parametric":
        q = np.array([noise, 0.0])
    damped = {f"nu {field}": 0.0} | {name: -rate * (name == f"{field}: {field}") for name in names}
    return damped | dict(zip(noise_names(field, form.noise, len(form.mu)), q, strict=True))


def _start_of_field(
    form: Layout, field: str, data: Transitions, names: list[str], terms: Array
) -> dict[str, float]:
    """Values of one field by name, from its terms at the states before, (n_terms, n, N)."""
    dt, columns = data.dt[:, None], np.concatenate([-data.before[None], terms])
    held = [form.fixed.get(name, np.nan if name in form.names else 0.0) for name in names]
    free, held_values = np.isnan(held), np.nan_to_num(held)

    def profile(nu: float) -> tuple[float, Array, Array]:
        """Minus the log-likelihood at one nu, the coefficients and the noise."""
        z = nu * form.mu * dt
        made, unit = columns * (dt * decay_mean(z)), dt * decay_mean(2.0 * z)
        target = data.after - np.exp(-z) * data.before - np.tensordot(held_values, made, 1)
        theta, noise = held_values.copy(), _residual_noise(target, unit)
        for _ in range(REWEIGHTING_ROUNDS):
            if free.any():
                theta[free] = _weighted_least_squares(made[free], target, 1.0 / (noise * unit))
            noise = _residual_noise(target - np.tensordot(theta * free, made, 1), unit)
        return float(np.log(noise * unit).sum()), theta, noise

    nu = form.fixed.get(f"nu {field}".strip())
    if nu is None:
        highest = max(float(form.mu.max() * np.median(data.dt)), 1e-300)
        low, high = (np.log(edge / highest) for edge in NU_RANGE)
        for _ in range(3):  # a grid of logarithms, then finer ones around its best
            grid = np.linspace(low, high, NU_TRIALS)
            best = grid[int(np.argmin([profile(float(np.exp(g)))[0] for g in grid]))]
            low, high = best - (grid[1] - grid[0]), best + (grid[1] - grid[0])
        nu = float(np.exp(best))
    _, theta, noise = profile(nu)
    values = {f"nu {field}".strip(): nu, **dict(zip(names, theta, strict=True))}
    if form.drift == "diagonal":
        values = _start_of_rates(form, data)
    return values | _noise_values(form, field, noise)


def _start_of_rates(form: Layout, data: Transitions) -> dict[str, float]:
    """One rate per mode by regression of states on those before, in units of the field's size."""
    weight = 1.0 / np.maximum((data.before**2).sum(1), 1e-300)
    cross, square = (weight @ (data.before * x) for x in (data.after, data.before))
    correlation = np.clip(cross / np.maximum(square, 1e-300), *CORRELATIONS)
    rates = -np.log(correlation) / np.median(data.dt)
    return dict(zip(form.parts["eigenvalue"].names, rates, strict=True))


def _noise_values(form: Layout, field: str, noise: Array) -> dict[str, float]:
    """Values by name of variances of the modes of a field."""
    names = noise_names(field, form.noise, len(noise))
    if form.noise == "parametric":
        n = np.log(np.arange(1.0, len(noise) + 1.0))
        line = np.polyfit(n, np.log(noise), 1) if len(n) > 1 else (0.0, np.log(noise[0]))
        noise = np.array([np.exp(line[1]), -line[0]])
    if form.noise == "white":
        noise = noise.mean(keepdims=True)
    return dict(zip(names, noise, strict=True))


def _residual_noise(residual: Array, unit: Array) -> Array:
    """``q_n`` whose noise over a step has the variance of the residuals."""
    q = (residual**2 / unit).mean(0)
    return np.maximum(q, 1e-12 * max(float(q.max()), 1e-300))


def _weighted_least_squares(columns: Array, target: Array, weight: Array) -> Array:
    normal = np.einsum("ink,jnk,nk->ij", columns, columns, weight, optimize=True)
    return solve(normal, np.einsum("ink,nk->i", columns, weight * target))


# ---------- Start values where fields have gaps or noise: rough states, then increments of them
#
# 1. Each time on its own: ``c ~ N(0, v)`` and the observations, v by expectation-maximisation.
# 2. Exponential-Euler estimate from the increments of these states (`start`).
# 3. The filter's likelihood chooses among smaller noises: rough states move too much.
# 4. Steps 2 and 3 again with the states of the smoother.


#: Rounds of expectation-maximisation for the variances of the modes.
EM_ROUNDS = 8
#: Paths that are enough for rough states, and records that choose among starts.
ROUGH_PATHS, TRIAL_RECORDS = 12, 6
#: Factors tried on the noise.
NOISE_FACTORS = np.exp([-4.0, -3.0, -2.0, -1.0, 0.0])
#: Noise of observations is no smaller than this part of their variance to begin with.
LEAST_NOISE_SHARE = 1e-6


def noise_guess(collapsed: Collapsed) -> float:
    """Residual variance of the modes; 1 % of the variance where there is no residual."""
    spent = 0
    for b in collapsed.blocks:
        ranks = np.linalg.matrix_rank(b.matrices, hermitian=True)
        spent += np.broadcast_to(ranks, (len(ranks), len(b.paths))).sum()
    power = sum(float((b.vector * b.estimate).sum()) for b in collapsed.blocks)
    total = (power + collapsed.misfit) / max(collapsed.n_values, 1.0)
    free = collapsed.n_values - spent
    if free > 0.02 * collapsed.n_values:
        return max(collapsed.misfit / free, LEAST_NOISE_SHARE * total)
    return 0.01 * total


def rough_states(collapsed: Collapsed, r: float) -> tuple[Array, Array, InitialState]:
    """States (P, T, N) of the first paths, each time on its own, times (P, T), and their law."""
    block = collapsed.blocks[0]
    n_times, n, n_paths = block.vector.shape
    few = min(n_paths, ROUGH_PATHS)
    grams = np.broadcast_to(block.matrices, (n_times, n_paths, n, n))[:, :few].reshape(-1, n, n)
    vectors = block.vector[..., :few].transpose(0, 2, 1).reshape(-1, n)
    v = np.full(n, max(float((block.estimate**2).mean()), 1e-300))
    for _ in range(EM_ROUNDS):
        spread = np.linalg.inv(grams / r + np.diag(1.0 / v))
        c = np.einsum("bij,bj->bi", spread, vectors / r)
        v = np.maximum((c**2 + np.einsum("bii->bi", spread)).mean(0), 1e-12 * v.max())
    states = c.reshape(n_times, few, n).transpose(1, 0, 2)
    times = np.broadcast_to(block.times, (n_times, n_paths))[:, :few].T
    return states, times, InitialState("gaussian", np.zeros(n), v)


def filter_start(
    form: Layout, collapsed: Collapsed, r: float, pairs: Transitions
) -> tuple[Array, Transitions]:
    """Full vector from pairs of rough states, and pairs of smoothed ones."""
    block = in_segments(collapsed.blocks[0], 0.0)
    records = some_paths(block, np.arange(len(block.paths)) < TRIAL_RECORDS)
    times = np.broadcast_to(records.times, (len(records.times), records.vector.shape[2])).T
    is_noise, roots = np.zeros(len(form.names)), gram_roots(records)
    is_noise[form.free] = form.is_log[form.free]
    is_noise[form.slices.get("observation", slice(0))] = 0.0

    def best_noise(pairs: Transitions) -> tuple[float, Array]:
        """Value and start by increments, its noise times the factor that the filter prefers."""
        full, candidates = start(form, pairs, observation_std=np.sqrt(r)), []
        for trial in full + np.outer(np.log(NOISE_FACTORS), is_noise):
            scores = filter_scores(records, form.state_space(trial), roots, value_only=True)
            value = float(scores.log_likelihood.sum())
            candidates.append((value if np.isfinite(value) else -np.inf, trial))
        return max(candidates, key=lambda pair: pair[0])

    def smooth(full: Array) -> Transitions:
        mean = smooth_block(records, form.state_space(full)).mean
        return transitions(mean.transpose(2, 0, 1), times)

    value, full = best_noise(pairs)
    for _ in range(2):
        trial_value, trial = best_noise(smooth(full))
        if trial_value <= value:
            break
        value, full = trial_value, trial
    return full, smooth(full)
