"""The parameters of a semilinear law: names, coordinates, what is held, and start values."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy

from spdelaw.checks import one_of, shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.errors import DataError, InputError
from spdelaw.infer.parameters import AbstractCoordinates, DynamicsParametrisation, Single
from spdelaw.processes.closure import Closure
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.semilinear import PARAMETERS, Reacting, reaction_rate
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import check_names, field_of, flat_terms
from spdelaw.statespace.collapse import Collapsed, some_paths
from spdelaw.statespace.filter import filter_scores, gram_roots, in_segments, smooth_block
from spdelaw.statespace.transitions import Transitions, gaussian, transitions

# ---------- Coordinates of a semilinear law
#
# For each field, with the modes of the domain numbered n = 1, 2, ...,
#
#     lambda_n = kappa + nu mu_n^s or one lambda_n per mode,
#     q_n = scale n^-exponent, one q_n per mode, or scale,   theta_t per term,   gamma.
#
# Noise that depends on the state has the spectrum q of W, which is white for a square root, and an
# affine one has the offset gamma.
#
# Parameters of several fields carry the name of their field, and there is no kappa: damping is a
# term there. ``nu``, ``kappa``, the exponent and theta are free as they are; scales and variances
# as logarithms.


Array = np.ndarray
SEMILINEAR_NOISES = ("parametric", "diagonal")
#: Logarithm of a noise of zero.
NO_NOISE = -1e3


@dataclasses.dataclass(frozen=True, eq=False)
class Tied(AbstractCoordinates):
    """Numbers ``A phi`` of coordinates with these names, or ``exp(A phi)`` of positive ones.

    Attributes:
        labels: of the coordinates.
        matrix: ``A``, (N, p).
        logs: labels of coordinates that are logarithms; the numbers are positive where any is.
    """

    labels: tuple[str, ...]
    matrix: Array
    logs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    @property
    def is_log(self) -> Array:
        """Which coordinates are logarithms; (p,)."""
        return np.array([label in self.logs for label in self.labels], bool)

    def values(self, phi: Array) -> Array:
        """``A phi`` or ``exp(A phi)``."""
        numbers = self.matrix @ phi
        return np.exp(numbers) if self.logs else numbers

    def jacobian(self, phi: Array) -> Array:
        """``A``, times the numbers where they are positive."""
        return self.values(phi)[:, None] * self.matrix if self.logs else self.matrix

    def start(self, operator: Array) -> Array:
        """Least squares."""
        numbers = np.log(operator) if self.logs else operator
        return np.asarray(np.linalg.lstsq(self.matrix, numbers, rcond=None)[0])


def rate_coordinates(mu: Array, fields: tuple[str, ...]) -> Tied:
    """``kappa + nu mu``; the modes of several fields take turns."""
    names, matrix = [f"nu {f}".strip() for f in fields], np.kron(mu[:, None], np.eye(len(fields)))
    if len(fields) == 1:
        names, matrix = [*names, "kappa"], np.hstack([matrix, np.ones((len(mu), 1))])
    return Tied(tuple(names), matrix)


def noise_coordinates(noise: str, n_modes: int, fields: tuple[str, ...]) -> Tied:
    """One variance per mode of each field, two numbers for each field, or one for all modes."""
    if noise == "white":
        return Tied(("scale",), np.ones((n_modes, 1)), ("scale",))
    names = [name for field in fields for name in noise_names(field, noise, n_modes)]
    own = np.eye(n_modes)
    if noise == "parametric":
        own = np.stack([np.ones(n_modes), -np.log(np.arange(1.0, n_modes + 1.0))], axis=1)
    blocks = np.kron(np.eye(len(fields)), own)  # one field after the other
    turns = np.arange(len(blocks)).reshape(len(fields), -1).T.ravel()
    logs = tuple(name for name in names if not name.startswith("exponent"))
    return Tied(tuple(names), blocks[turns], logs)


def noise_names(field: str, noise: str, n_modes: int) -> list[str]:
    """Names of the numbers of a field's noise."""
    if noise == "white":
        return ["scale"]
    if noise == "parametric":
        return [f"scale {field}".strip(), f"exponent {field}".strip()]
    return [f"q {field} {n}" if field else f"q_{n}" for n in range(1, n_modes + 1)]


@dataclasses.dataclass(frozen=True, eq=False)
class Layout(DynamicsParametrisation):
    """Coordinates of `Reacting` dynamics, and of the noise of observations where it is estimated.

    Attributes:
        mu: ``mu_n^s`` of the modes of one field.
        noise: "parametric", "diagonal" or "white".
        drift: "parametric" or "diagonal".
        fixed: values that are held, by name.
        fields: names of the fields, whose modes take turns; one alone has none.
    """

    mu: Array = dataclasses.field(default_factory=lambda: np.ones(1))
    noise: str = "parametric"
    drift: str = "parametric"
    fixed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    fields: tuple[str, ...] = ("",)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms."""
        return self.dynamics.reaction.names  # type: ignore[union-attr]

    @functools.cached_property
    def free(self) -> Array:
        """Positions of the parameters that are not held."""
        return np.array([i for i, name in enumerate(self.names) if name not in self.fixed], int)

    @property
    def free_names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.names[i] for i in self.free)

    @property
    def is_diffusivity(self) -> Array:
        """Which parameters are a ``nu``; (p,)."""
        return np.array([name.partition(" ")[0] == "nu" for name in self.names])

    def vector(self, values: Mapping[str, float]) -> Array:
        """The full vector of values by name; held ones are known."""
        numbers = np.array([float({**values, **self.fixed}[name]) for name in self.names])
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.where(self.is_log, numbers, 1.0)), NO_NOISE)
        return np.where(self.is_log, logs, numbers)

    def by_name(self, full: Array) -> dict[str, float]:
        """All parameters in their own units by name, held ones included."""
        numbers = np.where(self.is_log, np.exp(np.where(self.is_log, full, 0.0)), full)
        return dict(zip(self.names, map(float, numbers), strict=True))

    def closure(self, full: Array) -> Closure:
        """The equations at a full vector."""
        return self.state_space(full).dynamics.closure  # type: ignore[attr-defined]

    def directions(self, full: Array) -> Array:
        """Derivatives of the numbers of the equation by the free parameters, (K, n_free).

        The numbers are those of `Reacting.parameters`, one after the other.
        """
        closure, n = self.closure(full), len(full)
        sizes = len(closure.rates), len(closure.noise), len(closure.coefficients), 1
        rows = [np.zeros((size, n)) for size in sizes]
        for block, name in zip(rows, PARAMETERS, strict=True):
            if name in self.slices:
                where = self.slices[name]
                shape = len(block), where.stop - where.start
                block[:, where] = np.reshape(self.jacobian(name, full), shape)
        return np.concatenate(rows)[:, self.free]

    def rate(self, full: Array, states: Array) -> float:
        """Rate of the reaction at the usual one of these states."""
        return float(np.median(reaction_rate(self.closure(full), states)))

    def with_steps(self, n: int) -> Layout:
        """The same with so many sub-steps of the closure."""
        return dataclasses.replace(self, dynamics=dataclasses.replace(self.dynamics, n_steps=n))  # type: ignore[type-var]


def layout(
    domain: AbstractDomain,
    n_modes: int,
    terms: Any,
    *,
    noise: str = "parametric",
    drift: str = "parametric",
    state_noise: str = "none",
    fixed: Mapping[str, Any] | None = None,
    prior: InitialState | None = None,
    observation_variance: float | None = 0.0,
) -> Layout:
    """Parameters of a law with these terms, of one field or of several as the domain has them.

    ``fixed`` holds parameters by name, and may hold ``s``, which is not estimated; None frees one.
    ``kappa`` is held at 0 with the term ``u``, which is minus kappa; otherwise it is free. One of
    several fields whose scale is held at 0 has no noise of its own, whatever the kind of noise.
    ``prior`` is the law of first states; an ``observation_variance`` of None is estimated.
    A ``drift`` of "diagonal" has one rate per mode of one field, and no terms.

    Raises:
        InputError: an unknown option or name.
    """
    one_of("noise", noise, SEMILINEAR_NOISES)
    fields, base = (domain.names, domain.domain) if isinstance(domain, Fields) else (("",), domain)
    several, each = len(fields) > 1, n_modes // len(fields)
    held = dict(fixed or {})
    mu = base.eigenvalues(each) ** float(held.pop("s", 1.0))
    names, none = check_names(terms), np.zeros(n_modes)
    coefficients, noise = np.zeros(len(names)), "white" if state_noise == "square_root" else noise
    dynamics = Reacting(domain, names, coefficients, none, none, 1, state_noise)
    rates = rate_coordinates(mu, fields)
    if drift == "diagonal":
        rates = Tied(tuple(f"eigenvalue[{n + 1}]" for n in range(n_modes)), np.eye(n_modes))
    parts: dict[str, AbstractCoordinates] = {
        "eigenvalue": rates,
        "coefficient": Tied(names, np.eye(len(names))),
        "noise_variance": noise_coordinates(noise, each, fields),
    }
    if state_noise == "affine":
        parts["noise_offset"] = Single("noise_offset", None, 0)
    if observation_variance is None:
        parts["observation"] = Single("observation_std", None, 2)
    if "u" in names:
        held.setdefault("kappa", 0.0)
    elif several and held.get("kappa") == 0:
        del held["kappa"]
    noiseless = [f for f in fields if several and held.get(f"scale {f}") == 0]
    for field in noiseless:
        del held[f"scale {field}"]
    _check_held(held, [name for part in parts.values() for name in part.names])
    if "u" in names and held["kappa"] is None and held.get("u") is None:
        expected = "a fixed value together with the term 'u'"
        fix = "leave kappa at 0: the coefficient of u is minus kappa"
        raise InputError("kappa", expected=expected, got="both free", fix=fix)
    held = {name: float(value) for name, value in held.items() if value is not None}
    held |= {name: 0.0 for field in noiseless for name in noise_names(field, noise, each)}
    _check_driven(noiseless, fields, names)
    prior = prior or InitialState("gaussian", none, none)
    return Layout(
        parts,
        prior.kind,
        prior.mean,
        observation_variance or 0.0,
        dynamics=dynamics,
        initial_variance=prior.covariance,
        mu=mu,
        noise=noise,
        drift=drift,
        fixed=held,
        fields=fields,
    )


def check_amount(form: Layout, after: Array) -> None:
    """Refuse states (n, N) with fewer numbers than twice the free parameters."""
    n, what = after.size if len(after) > 1 else 0, "values after a first time,"
    if n < 2 * len(form.free):  # one pair alone tells of no spread
        expected = f"at least {2 * len(form.free)} {what} for {len(form.free)} parameters"
        fix = "use more paths or times, or fewer terms"
        raise InputError("fields", expected=expected, got=str(n), fix=fix)


def _check_held(held: Mapping[str, Any], names: list[str]) -> None:
    """Refuse names that are no parameters, and values that are no numbers."""
    for name, value in held.items():
        if name not in names:
            expected = f"names among {tuple(names)}"
            fix = "use one of these names; of several numbers each has a name of its own"
            raise InputError("fixed", expected=expected, got=repr(name), fix=fix)
        if value is not None and not (isinstance(value, Real) and math.isfinite(value)):
            fix = f"pass fixed={{{name!r}: 0.0}}"
            raise InputError("fixed", expected=f"a number for {name!r}", got=repr(value), fix=fix)


def _check_driven(noiseless: list[str], fields: tuple[str, ...], terms: tuple[str, ...]) -> None:
    """Refuse a field without noise whose terms contain no noisy field: it is deterministic."""
    noisy = [f for f in fields if f not in noiseless]
    for field in noiseless:
        field_terms = [t.partition(":")[2] for t in terms if field_of(t) == field]
        if not any(f in text for f in noisy for text in field_terms):
            raise InputError(
                "fixed",
                expected=f"a term of {' or '.join(noisy) or 'a field with noise'} in the "
                f"equation of {field}, which has no noise of its own",
                got=f"{field_terms}",
                fix=f"leave the scale of {field} free, or add such a term",
            )


# ---------- Terms by field: domain, modes and full names of several fields


def by_field(
    what: str, terms: Any, domain: AbstractDomain, n_modes: Any
) -> tuple[Any, AbstractDomain, Any]:
    """Names, domain and modes of all fields from terms by field, or from full names ``u: u v``.

    Other terms stay unchanged. ``n_modes`` are those of the given domain: of each field, where it
    is the domain of one.
    """
    if _have_field_names(terms) and not isinstance(domain, Fields):
        fields = dict.fromkeys(map(field_of, terms))
        terms = {
            f: [t.partition(":")[2].strip() for t in terms if field_of(t) == f] for f in fields
        }
    if not isinstance(terms, Mapping):
        return terms, domain, n_modes
    if not isinstance(domain, Fields):
        if len(terms) < 2:
            expected = "two fields or more, each with its terms"
            fix = f"pass {what}=('u', 'u^3') for one field"
            raise InputError(what, expected=expected, got=shown(dict(terms)), fix=fix)
        if n_modes == "auto":
            expected = f"a number together with {what} by field"
            fix = "pass the modes of each field, such as n_modes=15"
            raise InputError("n_modes", expected=expected, got="'auto'", fix=fix)
        domain = Fields(domain, tuple(terms))
        n_modes = domain.domain.check_modes(n_modes) * domain.n_fields
    return tuple(flat_terms(terms, domain.names)), domain, n_modes


def _have_field_names(terms: Any) -> bool:
    """Whether these are names such as ``u: u v^2``, with their field."""
    listed = isinstance(terms, Sequence) and not isinstance(terms, str)
    return listed and bool(terms) and all(isinstance(t, str) and ":" in t for t in terms)


# ---------- Start values from increments, in closed form but for one search
#
# With the reaction frozen over a step (exponential Euler),
#
#     y = e^(-lambda dt) x + dt phi(lambda dt) sum_t theta_t g_t(x) + e,   phi(z) = (1 - e^-z) / z,
#
# so for a given nu the coefficients are weighted least squares, the residuals give the noise, and
# a search along its profile gives nu, one field after the other. Freezing biases the result, so it
# only starts the likelihood.


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


def solve(matrix: Array, vector: Array) -> Array:
    """Solution of normal equations, the shortest where there are many."""
    scale = diagonal_roots(matrix)
    return np.linalg.lstsq(matrix / np.outer(scale, scale), vector / scale, rcond=1e-12)[0] / scale


def diagonal_roots(matrix: Array) -> Array:
    """Roots of the diagonal: coefficients of u and u^3 have units apart by those of the field."""
    return np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))


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
