"""Chaos coordinates of nonlinear laws given data: expansion, tail, and posterior by Laplace."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from spdelaw.chaos.bases import Array
from spdelaw.chaos.higher_order import augment, propagate_chaos, second_moments
from spdelaw.chaos.indices import IndexSet, total_degree_set, weighted_set
from spdelaw.chaos.posterior import Rows, factored, one_thread, rows_of, single_patterns
from spdelaw.chaos.products import HermiteReaction, drift_slope
from spdelaw.errors import DataError
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import CONSTANT
from spdelaw.statespace.collapse import Collapsed

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
