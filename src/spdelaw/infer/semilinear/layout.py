"""The parameters of a semilinear law: names, coordinates, and what is held."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from spdelaw.checks import one_of, shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.errors import InputError
from spdelaw.infer.parameters import AbstractCoordinates, DynamicsParametrisation, Single
from spdelaw.processes.closure import Closure
from spdelaw.processes.semilinear import PARAMETERS, Reacting, reaction_rate
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import check_names, field_of, flat_terms

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
