"""Polynomial drift in chaos coordinates: products of Hermite polynomials, and where they fail."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spdelaw.chaos.bases import Array
from spdelaw.chaos.indices import IndexSet
from spdelaw.processes.semilinear import Reacting, reaction_rate
from spdelaw.processes.terms import CONSTANT, Powers

# ---------- Products of expansions, projected on the index set
#
# With ``alpha = g + r``, ``beta = g + s``, ``gamma = r + s``,
#
#     E[xi_alpha xi_beta xi_gamma] = sqrt(alpha! beta! gamma!) / (g! r! s!),
#
# and zero for all other triples. A power is a repeated product that is projected after each factor:
# ``E[X P(X P(X^2))] = E[(P X^2)^2] >= 0``, so that ``-u^3`` takes energy from the truncated
# expansion as it does from the field.


#: Numbers of one piece of a product that are in memory.
PIECE = 4_000_000


class HermiteReaction:
    """Terms of degree two and more of a polynomial drift, projected on the indices.

    Those of lower degree belong to the generator, `spdelaw.chaos.chaos_equation`. States are those
    of `augment`, whose last number is a constant.

    Args:
        dynamics: whose terms and coefficients these are.
        indices: of the expansion.
    """

    def __init__(self, dynamics: Reacting, indices: IndexSet) -> None:
        """Tabulate the products."""
        self.reaction = dynamics.reaction
        self.total = {p: value for p, value in dynamics.closure.total.items() if sum(p) > 1}
        self.indices = indices
        first, second, target, self._weight = hermite_products(indices)
        ranked = np.argsort(target, kind="stable")
        self._first, self._second, self._weight = (x[ranked] for x in (first, second, self._weight))
        self._starts = np.searchsorted(target[ranked], np.arange(len(indices)))

    def __call__(self, states: Array) -> Array:
        """``F`` of states (n_indices, ..., N + 1) in the same shape."""
        points = self.reaction.at_points(states[..., :-1])
        shape = (*states.shape[:-1], len(self.reaction.analysis))
        out, cache = np.zeros(shape), dict[Powers, Array]()
        for powers, value in self.total.items():
            out += value * self._monomial(powers, points, cache)
        return np.concatenate([out @ self.reaction.analysis, 0.0 * states[..., -1:]], -1)

    def _monomial(
        self,
        powers: Powers,
        points: Mapping[int, Array],
        cache: dict[Powers, Array],
    ) -> Array:
        """Expansion of ``u^p u_x^q ...`` at the points."""
        j = next(k for k in range(len(powers)) if powers[k])
        lower = tuple(p - (k == j) for k, p in enumerate(powers))
        if lower == CONSTANT:
            return points[j]
        if powers not in cache:
            cache[powers] = self.multiply(points[j], self._monomial(lower, points, cache))
        return cache[powers]

    def multiply(self, x: Array, y: Array) -> Array:
        """Projected product of two expansions (n_indices, ...)."""
        flat, other = (np.ascontiguousarray(a.reshape(len(a), -1).T) for a in (x, y))
        out = np.empty_like(flat)
        size = max(1, PIECE // len(self._weight))
        for at in range(0, len(flat), size):
            rows = slice(at, at + size)
            terms = self._weight * flat[rows, self._first] * other[rows, self._second]
            out[rows] = np.add.reduceat(terms, self._starts, axis=1)
        return np.asarray(out.T.reshape(x.shape))


def hermite_products(indices: IndexSet) -> tuple[Array, Array, Array, Array]:
    """Triples ``alpha, beta, gamma`` with ``E[xi_alpha xi_beta xi_gamma]``, by position.

    Every ordered triple that is not zero is there once; its number grows fast with the set.

    Example:
        >>> from spdelaw.chaos import total_degree_set
        >>> a, b, c, weight = hermite_products(total_degree_set(1, 1, 2))
        >>> weight[(a == 1) & (b == 1)].round(4)  # xi^2 = 1 + sqrt(2) xi_2
        array([1.4142, 1.    ])
    """
    degrees = indices.degrees.reshape(len(indices), -1)
    factorial = _factorials(degrees)
    out = []
    for g, shared in enumerate(degrees):
        above = np.flatnonzero((degrees >= shared).all(1))  # alpha = g + r
        rest = indices.find(degrees[above] - shared)
        orders = indices.orders[rest]
        i, j = np.nonzero(orders[:, None] + orders <= indices.order)
        r, s = rest[i], rest[j]
        gamma = indices.find(degrees[r] + degrees[s])
        inside = gamma >= 0
        alpha, beta, gamma, r, s = (x[inside] for x in (above[i], above[j], gamma, r, s))
        top = np.sqrt(factorial[alpha] * factorial[beta] * factorial[gamma])
        out.append((alpha, beta, gamma, top / (factorial[g] * factorial[r] * factorial[s])))
    alpha, beta, gamma, weight = (np.concatenate(x) for x in zip(*out, strict=True))
    return alpha, beta, gamma, weight


def _factorials(degrees: Array) -> Array:
    table = np.cumprod(np.append(1.0, np.arange(1.0, degrees.max(initial=0) + 1)))
    return np.asarray(table[degrees].prod(1))


# ---------- A drift with two wells, which no chaos of low order describes
#
# The law of such an equation has two humps, but a chaos of low order has one: its error does not
# fall with the order, and no number of the expansion shows it. The criterion: without noise, states
# within two standard deviations of the mean end at different places, and the drift pushes apart
# what lies between them, for long enough to matter.


#: Standard deviations from the mean at which flows start, and along how many directions.
REACH, DIRECTIONS = 2.0, 4
#: Flows last this many times the time of the reaction.
RELAXED = 30.0
#: Distance of two ends, relative to that of the starts, which makes them two.
APART = 0.05
#: Drift at an end, relative to the rate of the reaction times the distance, which is none.
STILL = 0.01
#: Growth over the time interval below which wells do not matter yet, ``e^0.5``.
LEAST_GROWTH = 0.5


def growth_between_wells(
    dynamics: Reacting, mean: Array, covariance: Array, horizon: float
) -> float:
    """Growth rate between two wells that paths reach; 0 where there is one well.

    Args:
        dynamics: the equation.
        mean: of the state, (N,).
        covariance: of the state, (N, N).
        horizon: length of the time interval.
    """
    values, vectors = np.linalg.eigh(covariance)
    spread = REACH * vectors[:, -DIRECTIONS:] * np.sqrt(np.maximum(values[-DIRECTIONS:], 0.0))
    starts = np.concatenate([mean + spread.T, mean - spread.T])
    rate = float(reaction_rate(dynamics.closure, starts).max())
    if rate * horizon < LEAST_GROWTH:
        return 0.0
    ends = _relax(dynamics, starts, RELAXED / rate)
    if not np.isfinite(ends).all():
        return 0.0  # paths that run away: the propagators say so
    distance = np.linalg.norm(ends[:, None] - ends, axis=2)
    i, j = np.unravel_index(np.argmax(distance), distance.shape)
    if distance[i, j] <= APART * 2.0 * np.linalg.norm(spread, axis=0).max():
        return 0.0
    if np.linalg.norm(dynamics.drift(ends[[i, j]]), axis=1).max() > STILL * rate * distance[i, j]:
        return 0.0  # unstable, but without wells
    growth = _growth(dynamics, 0.5 * (ends[i] + ends[j]))
    return growth if growth * horizon >= LEAST_GROWTH else 0.0


def _relax(dynamics: Reacting, states: Array, time: float) -> Array:
    """States after a time without noise."""
    n_steps = int(4 * RELAXED)
    decay = np.exp(-0.5 * dynamics.rates * time / n_steps)
    with np.errstate(over="ignore", invalid="ignore"):
        return dynamics.strang(states, time, np.zeros((2 * n_steps, *states.shape)), decay)


def _growth(dynamics: Reacting, state: Array) -> float:
    """Largest growth rate of the drift at a state."""
    return float(np.linalg.eigvals(drift_slope(dynamics, state)).real.max())


def drift_slope(dynamics: Reacting, state: Array) -> Array:
    """Derivative of the drift at a state, by central differences; (N, N)."""
    h = 1e-5 * max(float(np.abs(state).max()), 1e-3)
    step = h * np.eye(len(state))
    slope = (dynamics.drift(state + step) - dynamics.drift(state - step)) / (2.0 * h)
    return np.asarray(slope.T)
