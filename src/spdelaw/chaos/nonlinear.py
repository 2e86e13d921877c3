"""Chaos of nonlinear laws: their expansion, its tail, and the posterior by Laplace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.chaos.higher_order import augment, propagate_chaos, second_moments
from spdelaw.chaos.indices import IndexSet, total_degree_set, weighted_set
from spdelaw.chaos.posterior import Rows, factored, one_thread, rows_of, single_patterns
from spdelaw.chaos.propagators import Array
from spdelaw.errors import DataError
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting, reaction_rate
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import CONSTANT, Powers
from spdelaw.statespace.collapse import Collapsed

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


# ---------- The equation of a law in the form of `propagate_chaos`
#
# The state is ``(c, s)``, with a constant s of the size of the field: its squares would be lost to
# rounding beside a 1. Terms of the drift up to degree one are part of the generator, which the
# integration takes exactly; terms of higher degree are projected on the indices.


class ChaosEquation(NamedTuple):
    """``A``, ``B_l`` and the initial state of ``(c, s)``, and the nonlinear part of the drift.

    Attributes:
        generator: (N + 1,) or (N + 1, N + 1).
        couplings: (L, N + 1, N + 1).
        mean: of the initial state, (N + 1,).
        root: ``R R'`` is its covariance, (N + 1, N + 1); None where it is known.
        nonlinear: dynamics with terms beyond degree one, None where there are none.
    """

    generator: Array
    couplings: Array
    mean: Array
    root: Array | None
    nonlinear: Reacting | None

    @property
    def moment(self) -> Array:
        """``E X X'`` at time 0."""
        spread = 0.0 if self.root is None else self.root @ self.root.T
        return np.asarray(np.outer(self.mean, self.mean) + spread)

    def linearised(self, state: Array) -> ChaosEquation:
        """With the slope of the drift at a state (N,) in place of the drift."""
        if self.nonlinear is None:
            return self
        slope, n = drift_slope(self.nonlinear, state), len(state)
        generator = np.zeros((n + 1, n + 1))
        constant = self.nonlinear.drift(state) - slope @ state
        generator[:n, :n], generator[:n, n] = slope, constant / self.mean[n]
        return self._replace(generator=generator, nonlinear=None)


def chaos_equation(dynamics: Linear | Reacting, initial: InitialState) -> ChaosEquation:
    """The equation of linear dynamics, or of semilinear ones whose noise is linear in the state.

    Linear dynamics are those of the deviation from their mean, without forcing and seasons. Noise
    that couples modes is driven through the symmetric root of its covariance.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> from spdelaw.processes import Reacting
        >>> heat = Reacting(
        ...     sl.Interval(0, np.pi),
        ...     (),
        ...     np.zeros(0),
        ...     np.ones(1),
        ...     np.ones(1),
        ...     state_noise="proportional",
        ... )
        >>> start = InitialState("deterministic", np.ones(1), np.zeros(1))
        >>> chaos_equation(heat, start).couplings.round(3)  # <h_1 h_1, h_1>
        array([[[0.677, 0.   ],
                [0.   , 0.   ]]])
    """
    root = None
    if np.any(initial.covariance):
        root = np.pad(operators.as_matrix(operators.root(initial.covariance)), (0, 1))
    if isinstance(dynamics, Linear):
        factor = operators.as_matrix(operators.root(dynamics.noise))
        mean = _with_size(initial.mean, root, factor)
        given = augment(-dynamics.drift, noise=factor / mean[-1])
        return ChaosEquation(*given, mean, root, None)
    matrices, constants, q = dynamics.noise_operators
    total, reaction = dynamics.closure.total, dynamics.reaction
    matrix, forcing = np.diag(-np.asarray(dynamics.rates, float)), np.zeros(dynamics.n_modes)
    for powers, value in total.items():
        if powers == CONSTANT:
            forcing = forcing + reaction.project(value, ())
        elif sum(powers) == 1:
            weighted = np.multiply(value, reaction.operators[powers.index(1)].T).T
            matrix = matrix + reaction.analysis.T @ weighted
    is_coupled = np.abs(matrix - np.diag(np.diag(matrix))).max() > ROUNDING * np.abs(matrix).max()
    amplitude = np.sqrt(q)[:, None]
    mean = _with_size(initial.mean, root, amplitude * constants)
    generator, couplings = augment(
        matrix if is_coupled else np.diag(matrix),
        amplitude[:, :, None] * matrices,
        amplitude * constants / mean[-1],
        forcing / mean[-1] if forcing.any() else None,
    )
    nonlinear = dynamics if any(sum(powers) > 1 for powers in total) else None
    return ChaosEquation(generator, couplings, mean, root, nonlinear)


def _with_size(mean: Array, *others: Array | None) -> Array:
    """The mean followed by the size of all numbers that have its unit."""
    parts = [np.ravel(x) for x in (mean, *others) if x is not None]
    return np.append(mean, np.linalg.norm(np.concatenate(parts)) or 1.0)


#: Entries off the diagonal of a generator, relative to the largest, that are rounding.
ROUNDING = 1e-9


# ---------- Its expansion on a clock, and the covariance of what the expansion cuts off
#
#     R(t, s) = E X(t) X(s)' - sum_alpha u_alpha(t) u_alpha(s)'
#
# with ``E X(t) X(s)' = e^(A (t - s)) M(s)`` for t >= s. It is positive semi-definite, as truncation
# is an orthogonal projection, and with it second moments stay those of the equation. What is cut
# off is uncorrelated with the coordinates, but neither independent of them nor Gaussian. With a
# nonlinear drift the tail is that of the equation linearised at the mean state.


#: More indices than these are chosen by their energies.
MOST_INDICES = 1000


class Expansion(NamedTuple):
    """A truncated expansion on a clock.

    Attributes:
        indices: its multi-indices.
        values: ``u_alpha(t)``, (T, n_indices, N).
        tail: ``R(t, s)``, (T, N, T, N); None where it is dropped.
        root: of the covariance of the initial state, (N, N), or None. Its coordinates are then the
            last of the set's functions of time.
    """

    indices: IndexSet
    values: Array
    tail: Array | None
    root: Array | None

    def states(self, coordinates: Array) -> Array:
        """``sum_alpha u_alpha(t) xi_alpha`` of coordinates (..., K, L); (..., T, N)."""
        return np.einsum(
            "...a,tan->...tn", self.indices.polynomials(coordinates), self.values, optimize=True
        )


def expand_equation(
    equation: ChaosEquation,
    ages: Array,
    n_time: int,
    order: int,
    horizon: float,
    tail: str = "modelled",
) -> Expansion:
    """Expansion up to an order and K cosines.

    Args:
        equation: from `chaos_equation`.
        ages: times since the initial state.
        n_time: K.
        order: largest order.
        horizon: T of the cosines.
        tail: "modelled" or "dropped".
    """
    n, has_start = len(equation.mean) - 1, equation.root is not None
    n_noise = max(len(equation.couplings), n if has_start else 0)
    silent = np.zeros((n_noise - len(equation.couplings), n + 1, n + 1))
    equation = equation._replace(couplings=np.concatenate([equation.couplings, silent]))
    indices = _choose_indices(equation, ages, n_time, n_noise, order, horizon)
    values = _values(equation, ages, indices, horizon)
    root = None if equation.root is None else equation.root[:n, :n]
    if tail == "dropped":
        return Expansion(indices, values[..., :n], None, root)
    linear, linear_values = equation, values
    if equation.nonlinear is not None:
        linear = equation.linearised(values[:, 0, :n].mean(0))
        linear_values = _values(linear, ages, indices, horizon)
    kept = linear_values[..., :n].transpose(0, 2, 1).reshape(len(ages) * n, -1)
    covariance = second_moment_kernel(linear, ages)
    covariance -= (kept @ kept.T).reshape(covariance.shape)
    return Expansion(indices, values[..., :n], covariance, root)


def _values(equation: ChaosEquation, ages: Array, indices: IndexSet, horizon: float) -> Array:
    given = equation.generator, equation.couplings, equation.mean, ages, indices
    nonlinear = equation.nonlinear
    reaction = None if nonlinear is None else HermiteReaction(nonlinear, indices)
    root = equation.root
    return np.asarray(
        propagate_chaos(*given, horizon=horizon, initial_root=root, reaction=reaction)
    )


def _choose_indices(
    equation: ChaosEquation, ages: Array, n_time: int, n_noise: int, order: int, horizon: float
) -> IndexSet:
    """All indices up to the order, or of many those of largest energy and all of order one."""
    n_rows = n_time + (equation.root is not None)
    first = total_degree_set(n_rows, n_noise, 1)
    if math.comb(first.n_variables + order, order) <= MOST_INDICES:
        return total_degree_set(n_rows, n_noise, order)
    values = _values(equation, ages, first, horizon)[..., :-1]
    energies = (values**2).sum((0, 2)) / (values**2).sum()
    by_variable = np.zeros(first.n_variables)
    by_variable[first.slots[0, 0, 1:]] = energies[1:]
    chosen = weighted_set(by_variable.reshape(n_rows, n_noise), MOST_INDICES, order)
    return IndexSet(np.unique(np.concatenate([first.degrees, chosen.degrees]), axis=0))


def second_moment_kernel(equation: ChaosEquation, ages: Array) -> Array:
    """``E X(t) X(s)'`` of a linear equation, (T, N, T, N)."""
    a = equation.generator
    matrix = np.diag(a) if a.ndim == 1 else a
    moments, n = second_moments(a, equation.couplings, equation.moment, ages), len(a) - 1
    steps, which = np.unique(np.round(np.diff(ages), 12), return_inverse=True)
    factors = scipy.linalg.expm(steps[:, None, None] * matrix)
    out = np.zeros((len(ages), n, len(ages), n))
    row = np.zeros((0, n + 1, n + 1))
    for i, moment in enumerate(moments):
        row = factors[which[i - 1]] @ row if i else row
        row = np.concatenate([row, moment[None]])
        out[i, :, : i + 1] = row[:, :n, :n].transpose(1, 0, 2)
        out[: i + 1, :, i] = row[:, :n, :n].transpose(0, 2, 1)
    return out


# ---------- Posterior of the coordinates by Gauss-Newton and Laplace
#
# With the tail as Gaussian noise, whitened observations w and the whitened design ``U``, the mode
# minimises ``|w - U h(xi)|^2 + |xi|^2``, h being the polynomials. Its Gaussian approximation has
# the precision ``I + J'J``, ``J = U dh/dxi``: exact for order one, where h is linear.


#: Most Gauss-Newton steps of a path; a change in posterior standard deviations that ends them.
MOST_STEPS, SMALL_STEP = 60, 1e-7
#: Halvings of a step.
MOST_HALVINGS = 30
#: Most rows of one covariance matrix: 3000 take 70 MB and seconds.
MOST_ROWS = 3000


class Laplace(NamedTuple):
    """Coordinates of the paths of one pattern, given their data.

    Attributes:
        paths: their indices, (P,).
        mean, std: of all coordinates, (P, K, L).
        start: covariance of the last of the functions of time, (P, L, L).
        states: of the expansion at the mode, without the tail, (P, T, N).
        converged: whether the search ended at the mode, (P,).
    """

    paths: Array
    mean: Array
    std: Array
    start: Array
    states: Array
    converged: Array


@one_thread
def laplace_posterior(collapsed: Collapsed, expansion: Expansion, variance: float) -> list[Laplace]:
    """Mode and Gaussian approximation for each set of paths with one pattern.

    Args:
        collapsed: data on the clock of the expansion.
        expansion: from `expand_equation`.
        variance: of the observation noise.
    """
    each = [one for block in collapsed.blocks for one in single_patterns(block)]
    out = []
    for block in each:
        design, w = _whitened(rows_of(block, couple=True), expansion, variance)
        searched = [_mode(design, one, expansion.indices) for one in w.T]
        mean, covariance, converged = (np.stack(x) for x in zip(*searched, strict=True))
        mean = mean.reshape(-1, *expansion.indices.degrees.shape[1:])
        std = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)).reshape(mean.shape)
        states = expansion.states(mean)
        start = covariance[:, -mean.shape[2] :, -mean.shape[2] :]
        out.append(Laplace(block.paths, mean, std, start, states, converged))
    return out


def _whitened(rows: Rows, expansion: Expansion, r: float) -> tuple[Array, Array]:
    """Design (R, n_indices) and data (R, P) whose errors are independent with variance 1."""
    design, w = rows.whiten(expansion.values.transpose(0, 2, 1))[0], rows.whiten(rows.estimate)[0]
    if expansion.tail is None:
        design, w = design / np.sqrt(r), w / np.sqrt(r)
    else:
        root = _tail_root(rows, expansion.tail, r)
        design, w = (scipy.linalg.solve_triangular(root, x, lower=True) for x in (design, w))
    if len(design) > design.shape[1]:  # what lies outside the design is the same for all xi
        turn, design = np.linalg.qr(design)
        w = turn.T @ w
    return design, w


def _tail_root(rows: Rows, tail: Array, r: float) -> Array:
    """Cholesky factor of the covariance of the rows: tail and observation noise."""
    size = rows.root.shape[0] * rows.root.shape[1]
    if size > MOST_ROWS:
        expected = f"at most {MOST_ROWS} times x modes with a modelled tail"
        fix = "pass tail='dropped', a shorter stretch of the data, or use law.reconstruct(data)"
        raise DataError("data", expected=expected, got=str(size), fix=fix)
    shape = (*rows.root.shape[:2], size)
    half = rows.whiten(tail.reshape(shape))[0]
    signal = rows.whiten(half.T.reshape(shape))[0]
    return factored((0.5 * (signal + signal.T) + r * np.eye(size))[None])[0][0]


def _mode(design: Array, w: Array, indices: IndexSet) -> tuple[Array, Array, bool]:
    """Mode (V,), covariance (V, V), and whether it was reached."""
    xi, converged = np.zeros(indices.n_variables), False
    objective, error, jacobian = _at(design, w, indices, xi)
    for _ in range(MOST_STEPS):
        precision = np.eye(len(xi)) + jacobian.T @ jacobian
        root = scipy.linalg.cho_factor(precision)
        gradient = jacobian.T @ error - xi
        step = scipy.linalg.cho_solve(root, gradient)
        gain = float(gradient @ step)
        for _ in range(MOST_HALVINGS):
            trial = _at(design, w, indices, xi + step)
            if trial[0] <= objective:
                break
            step = 0.5 * step
        else:
            break
        xi, (objective, error, jacobian) = xi + step, trial
        if gain < SMALL_STEP**2:
            converged = True
            break
    precision = np.eye(len(xi)) + jacobian.T @ jacobian
    return xi, np.linalg.inv(precision), converged or gain < SMALL_STEP


def _at(design: Array, w: Array, indices: IndexSet, xi: Array) -> tuple[float, Array, Array]:
    """``|w - U h|^2 + |xi|^2``, the error ``w - U h`` and the Jacobian."""
    h = indices.polynomials(xi.reshape(indices.degrees.shape[1:]))
    error = w - design @ h
    return float(error @ error + xi @ xi), error, design @ indices.derivatives(h).T
