"""Wiener chaos of any order: propagators of coupled modes, and second moments."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy

from spdelaw.chaos.indices import IndexSet, total_degree_set
from spdelaw.chaos.propagators import (
    Array,
    CosineBasis,
    TimeBasis,
    as_floating,
    check_ages,
    check_basis,
    constant,
    namespace,
    to_numpy,
)
from spdelaw.errors import ConvergenceError, InputError

# ---------- Propagators of any order
#
# The coefficients of ``dX = A X dt + sum_l B_l X dw_l`` (Ito) are
#
#     X(t) = sum_alpha u_alpha(t) xi_alpha,
#     u_alpha' = A u_alpha + sum_kl sqrt(alpha_kl) m_k(t) B_l u_(alpha - e_kl),
#
# with ``u_0(0) = X(0)`` and all others zero at time 0. Indices of order n need those of order n - 1
# alone: a downward-closed set has no error but that of the integration in time.
#
# Noise and forcing that do not depend on the state are the same equation for (X, 1), `augment`.


def augment(
    generator: Any, couplings: Any = None, noise: Any = None, forcing: Any = None
) -> tuple[Array, Array]:
    """``A`` and ``B_l`` for the state ``(X, 1)`` of ``dX = (A X + f) dt + sum (B_l X + b_l) dw_l``.

    Args:
        generator: ``A``, (N,) or (N, N).
        couplings: ``B_l``, (L, N, N); none by default.
        noise: ``b_l``, (L, N); none by default.
        forcing: ``f``, (N,); none by default.

    Example:
        >>> a, b = augment([-1.0], noise=[[2.0]])
        >>> a, b[0]
        (array([-1.,  0.]), array([[0., 2.],
               [0., 0.]]))
    """
    given = [x for x in (generator, couplings, noise, forcing) if x is not None]
    xp = namespace(*given)
    a, first = as_floating(generator, xp), as_floating(given[1], xp)
    n, n_noise = a.shape[0], first.shape[0]
    zero = constant(np.zeros((n_noise, n, n)), a, xp)
    b = zero if couplings is None else as_floating(couplings, xp)
    column = zero[..., :1] if noise is None else as_floating(noise, xp)[..., None]
    b = xp.concatenate(
        [xp.concatenate([b, column], 2), constant(np.zeros((n_noise, 1, n + 1)), a, xp)], 1
    )
    if forcing is None and a.ndim == 1:
        return xp.concatenate([a, zero[0, 0, :1]]), b
    column = zero[0, :, :1] if forcing is None else as_floating(forcing, xp)[:, None]
    top = xp.concatenate([xp.diag(a) if a.ndim == 1 else a, column], 1)
    return xp.concatenate([top, constant(np.zeros((1, n + 1)), a, xp)]), b


def propagate_chaos(
    generator: Any,
    couplings: Any,
    initial: Any,
    times: Any,
    indices: IndexSet,
    *,
    horizon: float | None = None,
    basis: TimeBasis | None = None,
    initial_root: Any = None,
    reaction: Callable[[Array], Array] | None = None,
    xp: Any = None,
) -> Array:
    """``u_alpha(t)`` of every index, shape (T, n_indices, N).

    Collocation at Radau points on pieces of [0, T], which are short near time 0 where the
    generator is stiff. Errors are near rounding: below 1e-10 of the largest value.

    Args:
        generator: ``A``, (N,) where modes are not coupled, or (N, N); ``-eigenvalues`` of a heat
            equation. Tensors carry gradients.
        couplings: ``B_l``, (L, N, N).
        initial: ``X(0)``, (N,), or C initial states as columns, (N, C); the result then is
            (T, n_indices, N, C).
        times: increasing, counted from the initial state.
        indices: from `total_degree_set` or `weighted_set`.
        horizon: T of the cosines, by default the last time.
        basis: other functions of time.
        initial_root: ``R`` with ``Cov X(0) = R R'``, (N, N), of a Gaussian initial state about
            ``X(0)``. The last of the set's K functions of time then stands for it: ``xi_Kn`` is the
            coordinate of column n.
        reaction: nonlinear drift, `spdelaw.chaos.HermiteReaction`; not for tensors.
        xp: numpy or torch; by default that of the arguments.

    Example:
        >>> u = propagate_chaos(
        ...     [0.0], [[[0.5]]], [1.0], [1.0], total_degree_set(1, 1, 2)
        ... )  # dX = X dw / 2
        >>> u[0, :, 0].round(6)  # E X, then 0.5^n / sqrt(n!)
        array([1.      , 0.5     , 0.176777])
    """
    xp = namespace(generator, couplings, initial, xp=xp)
    a, b, start = (as_floating(x, xp) for x in (generator, couplings, initial))
    t = check_ages(times, math.inf)
    basis = check_basis(basis or CosineBasis(horizon or float(t[-1])))
    check_ages(t, basis.horizon)
    n = _check_shapes(a, b, start, indices)
    if a.ndim == 1 and n <= FEW_MODES:  # one large product is then faster than many small ones
        a = xp.diag(a)
    u = _start(xp.swapaxes(start.reshape(n, -1), 0, 1), initial_root, indices, xp)
    n_functions = indices.n_time - (initial_root is not None)
    pieces = _integrate(a, b, u, t, basis, n_functions, indices, reaction, xp)
    values = xp.concatenate(list(pieces), 0)  # (T, n_indices, C, N)
    return values[:, :, 0] if start.ndim == 1 else xp.swapaxes(values, 2, 3)


def _start(states: Array, initial_root: Any, indices: IndexSet, xp: Any) -> Array:
    """``u_alpha(0)`` of initial states (C, N); (n_indices, C, N)."""
    above = xp.zeros_like(states) + constant(np.zeros((len(indices) - 1, 1, 1)), states, xp)
    if initial_root is not None:
        k, mode = np.divmod(indices.slots[0, 0, indices.rows(1)], indices.n_noise)
        one = (k == indices.n_time - 1)[:, None] & (mode[:, None] == np.arange(states.shape[1]))
        first = xp.matmul(constant(one, states, xp), as_floating(initial_root, xp).T)
        above = xp.concatenate([above[: len(one)] + first[:, None], above[len(one) :]])
    return xp.concatenate([states[None], above])


def _check_shapes(a: Array, b: Array, start: Array, indices: IndexSet) -> int:
    n = int(a.shape[0]) if a.ndim else 0
    shapes = {
        "generator": (a, ((n,), (n, n))),
        "couplings": (b, ((indices.n_noise, n, n),)),
        "initial": (start, ((n,), (n, start.shape[-1] if start.ndim else 0))),
    }
    for what, (value, accepted) in shapes.items():
        if tuple(value.shape) not in accepted or 0 in value.shape:
            expected = "shape " + " or ".join(map(str, accepted))
            fix = "one matrix for each of the L driving processes of the index set"
            raise InputError(what, expected=expected, got=f"shape {tuple(value.shape)}", fix=fix)
        if not np.isfinite(to_numpy(value)).all():
            fix = "remove NaN and infinity"
            raise InputError(what, expected="finite numbers", got="NaN or infinity", fix=fix)
    return n


# -- integration in time ----------------------------------------------------------------------
#: Radau points on a piece.
N_POINTS = 12
#: Pieces for each function of time.
PIECES_PER_FUNCTION = 2
#: Largest ``|A| h`` of the first piece.
FIRST_PIECE = 1.0
#: Modes up to which a diagonal generator is treated as a matrix.
FEW_MODES = 12


#: Sweeps after which the states at the points of a piece agree, or the piece is cut in two.
MOST_SWEEPS, AGREEMENT = 20, 1e-10
#: A piece shorter than this share of T shows a drift that runs away.
SHORTEST_PIECE = 1e-6


@functools.cache
def _radau() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points c in (0, 1], and two matrices for values there.

    The integrals ``int_0^c_i l_j`` of their Lagrange polynomials, and the map from values at
    (0, c) to Legendre coefficients.
    """
    legendre = np.polynomial.legendre
    c = 0.5 * (np.append(scipy.special.roots_jacobi(N_POINTS - 1, 1, 0)[0], 1.0) + 1.0)
    table = legendre.legvander(2 * c - 1, N_POINTS - 1)
    integrals = np.stack(
        [0.5 * legendre.legval(2 * c - 1, legendre.legint(e, lbnd=-1)) for e in np.eye(N_POINTS)], 1
    )
    ends = legendre.legvander(2 * np.append(0.0, c) - 1, N_POINTS)
    return c, integrals @ np.linalg.inv(table), np.linalg.inv(ends)


def _integrate(
    a: Array,
    b: Array,
    u: Array,
    times: np.ndarray,
    basis: TimeBasis,
    n_functions: int,
    indices: IndexSet,
    reaction: Callable[[Array], Array] | None,
    xp: Any,
) -> Iterator[Array]:
    """Values at the times of each piece in turn, (times, n_indices, C, N)."""
    c, _, to_legendre = _radau()
    fixed = a if xp is np else a.detach()  # may be complex
    rate = float(xp.abs(fixed).reshape(len(a), -1).sum(1).max())
    knots = _knots(basis, n_functions, float(times[-1]), rate)
    steps: dict[float, tuple[Array, Array]] = {}
    first = int(np.searchsorted(times, 0.0, side="right"))
    if first:
        yield u[None]
    pieces = list(itertools.pairwise(knots))[::-1]
    while pieces:
        left, right = pieces.pop()
        h = right - left
        key = round(h / basis.horizon, 12)
        if key not in steps:
            steps[key] = _step(a, h, xp)
        inside = np.minimum(left + h * c, right - 1e-12 * h)  # a jump belongs to the next piece
        m = np.zeros((N_POINTS, indices.n_time))
        m[:, :n_functions] = basis.values(inside, n_functions)
        stages = _settle(u, steps[key], constant(m, b, xp), b, indices, reaction, xp)
        if stages is None:
            _check_length(h, basis.horizon)
            pieces += [(left + h / 2, right), (left, left + h / 2)]
            continue
        last = int(np.searchsorted(times, right + 1e-12 * basis.horizon, side="right"))
        if last > first:
            at = np.polynomial.legendre.legvander(2 * (times[first:last] - left) / h - 1, N_POINTS)
            weights = constant(at @ to_legendre, b, xp)
            points = xp.concatenate([u[:, :, None], stages], 2)
            yield xp.moveaxis(xp.matmul(weights, points), 2, 0)
            first = last
        u = stages[:, :, -1]


def _settle(
    u: Array,
    step: tuple[Array, Array],
    m: Array,
    b: Array,
    indices: IndexSet,
    reaction: Callable[[Array], Array] | None,
    xp: Any,
) -> Array | None:
    """States at the points of a piece, (n_indices, C, J, N); None where sweeps do not agree."""
    stages = _collocate(u, step, m, b, indices, None, xp)
    for _ in range(MOST_SWEEPS if reaction else 0):
        before = stages
        with np.errstate(over="ignore", invalid="ignore"):
            stages = _collocate(u, step, m, b, indices, reaction(before), xp)  # type: ignore[misc]
            change = np.abs(stages - before).max()
        if not np.isfinite(change):
            return None
        if change <= AGREEMENT * np.abs(stages).max():
            return stages
    return None if reaction else stages


def _check_length(h: float, horizon: float) -> None:
    if h < SHORTEST_PIECE * horizon:
        expected, got = "coefficients that stay finite", "a truncated expansion that diverges"
        fix = "take a shorter time interval, or a drift that pulls back, such as -u^3"
        raise ConvergenceError("chaos", expected=expected, got=got, fix=fix)


def _knots(basis: TimeBasis, n_functions: int, end: float, rate: float) -> np.ndarray:
    """Ends of the pieces: equal ones, but shorter towards the points where layers begin."""
    jumps = basis.breakpoints(n_functions)
    ends = np.concatenate([[0.0], jumps[(jumps > 0) & (jumps < basis.horizon)], [basis.horizon]])
    longest = basis.horizon / (PIECES_PER_FUNCTION * n_functions)
    out = []
    for left, right in itertools.pairwise(ends):
        count = math.ceil((right - left) / longest * (1 - 1e-9))
        h = (right - left) / count
        halvings = max(0, math.ceil(math.log2(max(rate * h / FIRST_PIECE, 1.0))))
        out += [[left], left + h * 2.0 ** np.arange(-halvings, 0), left + h * np.arange(1, count)]
    knots = np.append(np.concatenate(out), basis.horizon)
    return knots[: np.searchsorted(knots, end * (1 - 1e-12)) + 1]


def _step(a: Array, h: float, xp: Any) -> tuple[Array, Array]:
    """Weights of the start and of sources at the points in the states there.

    ``U_i = u + h sum_j a_ij (A U_j + f_j)``: (N, 1, J) and (N, J, J) where A is diagonal, else
    (N, J N) and (J N, J N).
    """
    integrals = constant(h * _radau()[1], a, xp)
    n, j = a.shape[0], N_POINTS
    if a.ndim == 1:
        system = constant(np.eye(j), a, xp) - integrals * a[:, None, None]
        sides = xp.concatenate([xp.ones_like(integrals[:, :1]), integrals], 1)
        solved = xp.swapaxes(xp.linalg.solve(system, sides + xp.zeros_like(system[:, :, :1])), 1, 2)
        return solved[:, :1], solved[:, 1:]
    system = constant(np.eye(n * j), a, xp) - xp.kron(integrals, a)
    eye = constant(np.eye(n), a, xp)
    sides = xp.concatenate([xp.concatenate([eye] * j), xp.kron(integrals, eye)], 1)
    solved = xp.swapaxes(xp.linalg.solve(system, sides), 0, 1)
    return solved[:n], solved[n:]


def _apply(x: Array, weights: Array, xp: Any) -> Array:
    """Rows (n, C, X, N), of the start (X = 1) or of all points, to the states (n, C, J, N)."""
    if weights.ndim == 2:
        return xp.matmul(x.reshape(*x.shape[:2], -1), weights).reshape(
            *x.shape[:2], -1, x.shape[-1]
        )
    rows = xp.moveaxis(x, 3, 0).reshape(x.shape[3], -1, x.shape[2])
    out = xp.matmul(rows, weights).reshape(x.shape[3], *x.shape[:2], -1)
    return xp.moveaxis(out, 0, 3)


def _collocate(
    u: Array,
    step: tuple[Array, Array],
    m: Array,
    b: Array,
    indices: IndexSet,
    reaction: Array | None,
    xp: Any,
) -> Array:
    """States at the points of a piece, (n_indices, C, J, N), order by order."""
    from_start, from_source = step
    orders: list[Array] = []
    for order in range(indices.order + 1):
        out = _apply(u[indices.rows(order), :, None], from_start, xp)
        if order:
            out = out + _apply(_source(orders[-1], m, b, indices, order, xp), from_source, xp)
        if reaction is not None:
            out = out + _apply(reaction[indices.rows(order)], from_source, xp)
        orders.append(out)
    return xp.concatenate(orders)


def _source(lower: Array, m: Array, b: Array, indices: IndexSet, order: int, xp: Any) -> Array:
    """``sum_kl sqrt(alpha_kl) m_k B_l u_(alpha - e_kl)`` at the points, (n, C, J, N)."""
    rows, before = indices.rows(order), indices.rows(order - 1).start
    n_noise = indices.n_noise
    flat = lower.reshape(len(lower), 1, -1, lower.shape[-1])
    pushed = xp.matmul(flat, xp.swapaxes(b, 1, 2)).reshape(len(lower), n_noise, *lower.shape[1:])
    out: Any = 0.0
    for variable, degree, previous in zip(*indices.slots[:, :, rows], strict=True):
        used = np.minimum(variable, indices.n_variables - 1)
        k, l = used // n_noise, used % n_noise
        weight = constant(np.sqrt(degree), m, xp)[:, None] * m.T[k]  # (n, J)
        given = pushed[np.maximum(previous - before, 0), l]
        out = out + weight[:, None, :, None] * given
    return out


# ---------- Second moments, order by order and in all
#
# With K = infinity the part of order n has the second moment ``M_n = sum u_alpha u_alpha'`` over
# ``|alpha| = n``:
#
#     M_0 = m m',    M_n' = A M_n + M_n A' + sum_l B_l M_(n-1) B_l',
#
# which is the chain of `propagate_chaos` for vec(M) with one variable and ``m_1 = 1``. Their sum
# over n is E X X'. What lies above an order is the least error of a chaos of this order, for any K.


#: Orders that are summed, and the largest ``|sum B B'| t`` for which they are enough: 2^24 / 24! is
#: below 1e-16. Longer times are cut into pieces.
MOST_ORDERS, LONGEST_STEP = 24, 2.0
#: Condition of eigenvectors beyond which a coupled generator is not diagonalised.
WORST_CONDITION = 1e5


def order_moments(
    generator: Any, couplings: Any, moment: Any, times: Any, order: int
) -> np.ndarray:
    """``M_0, ..., M_order`` at the times, (T, order + 1, N, N).

    Args:
        generator: ``A``, (N,) or (N, N).
        couplings: ``B_l``, (L, N, N).
        moment: ``E X(0) X(0)'``, (N, N).
        times: increasing, counted from the initial state.
        order: largest order.

    Example:
        >>> m = order_moments([0.0], [[[0.5]]], [[1.0]], [1.0], 2)  # dX = X dw / 2
        >>> m[0, :, 0, 0]  # (1/4)^n / n!
        array([1.     , 0.25   , 0.03125])
    """
    a, b, m = (np.asarray(to_numpy(x), float) for x in (generator, couplings, moment))
    t, n = check_ages(times, math.inf), len(a)
    turn, back = np.eye(n), np.eye(n)
    if a.ndim == 2:
        values, vectors = np.linalg.eig(a)
        if np.linalg.cond(vectors) < WORST_CONDITION:
            a, turn, back = values, vectors, np.linalg.inv(vectors)
    b, m = back @ b @ turn, back @ m @ back.conj().T
    if a.ndim == 1:
        lifted = (a[:, None] + a.conj()).ravel()
    else:
        lifted = np.kron(a, np.eye(n)) + np.kron(np.eye(n), a)
    coupling = np.einsum("lij,lkm->ikjm", b, b.conj()).reshape(n * n, n * n)
    indices = total_degree_set(1, 1, order)
    horizon = max(float(t[-1]), 1e-300)
    u = _start(m.reshape(1, -1), None, indices, np)
    basis = CosineBasis(horizon)
    pieces = _integrate(lifted, coupling[None], u, t, basis, 1, indices, None, np)
    chain = np.concatenate(list(pieces))[:, :, 0].reshape(len(t), order + 1, n, n)
    # u_n = M_n sqrt(n! / T^n), from m_1 = 1 / sqrt(T) and the weights sqrt(n).
    scale = np.cumprod(np.append(1.0, np.sqrt(horizon / np.arange(1, order + 1))))
    return np.asarray((turn @ (scale[:, None, None] * chain) @ turn.conj().T).real)


def second_moments(generator: Any, couplings: Any, moment: Any, times: Any) -> np.ndarray:
    """``E X X'`` at the times, (T, N, N), to rounding: all orders of `order_moments`."""
    b, t = np.asarray(to_numpy(couplings), float), check_ages(times, math.inf)
    strength = float(np.linalg.norm(np.einsum("lij,lkj->ik", b, b), 2))
    m, start, out = np.asarray(moment, float), 0.0, []
    n_pieces = max(1, math.ceil(strength * float(t[-1]) / LONGEST_STEP))
    for end in np.linspace(0.0, float(t[-1]), n_pieces + 1)[1:]:
        inside = t[(t > start) & (t <= end)] if start else t[t <= end]
        at = np.unique(np.append(inside, end)) - start
        every = order_moments(generator, b, m, at, MOST_ORDERS).sum(1)
        out.append(every[: len(inside)])
        m, start = every[-1], end
    return np.concatenate(out)


def truncation_floor(
    generator: Any, couplings: Any, moment: Any, times: Any, order: int
) -> np.ndarray:
    """Share of the variance above each order, (T, order + 1): the least error of any K.

    It is 1 for order 0, and falls as ``(|B|^2 t)^(p + 1) / (p + 1)!``.

    Example:
        >>> floor = truncation_floor([0.0], [[[0.5]]], [[1.0]], [1.0], 2)  # dX = X dw / 2
        >>> floor.round(4)  # of the variance e^(1/4) - 1
        array([[1.    , 0.1198, 0.0098]])
    """
    parts = order_moments(generator, couplings, moment, times, order)
    total = second_moments(generator, couplings, moment, times)
    parts, total = (np.trace(x, axis1=-2, axis2=-1) for x in (parts, total))
    missing = total[:, None] - np.cumsum(parts, 1)
    return np.asarray(missing / np.maximum(missing[:, :1], np.finfo(float).tiny))
