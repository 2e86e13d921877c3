"""The free vector of a semilinear law and its parameters."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from spdelaw.checks import one_of
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.errors import InputError
from spdelaw.processes.closure import Closure
from spdelaw.processes.semilinear import reaction_rate
from spdelaw.processes.terms import Reaction, bound, field_of, flat_terms

# ---------- The free vector of a semilinear law and its parameters
#
# For each field, with the modes of the domain numbered n = 1, 2, ...,
#
#     lambda_n = kappa + nu mu_n^s,
#     q_n = scale n^-exponent or one q_n per mode,   theta_t per term.
#
# Parameters of several fields carry the name of their field, and there is no kappa: damping is a
# term there. ``nu``, ``kappa``, the exponent and theta are free as they are; scales and variances
# as logarithms.


Array = np.ndarray
SEMILINEAR_NOISES = ("parametric", "diagonal")
#: Name of the variance of the noise of observations.
OBSERVATION = "observation_variance"


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Which numbers are free, in which order, and how they make a `Closure`.

    Attributes:
        mu: ``mu_n^s`` of the modes of one field.
        reaction: terms on the modes.
        noise: "parametric" or "diagonal".
        names: of all parameters, free or not.
        fixed: values that are held, by name.
        fields: names of the fields, whose modes take turns; one alone has none.
    """

    mu: Array
    reaction: Reaction
    noise: str
    names: tuple[str, ...]
    fixed: Mapping[str, float]
    fields: tuple[str, ...] = ("",)

    @functools.cached_property
    def free(self) -> Array:
        """Positions of the free parameters."""
        return np.array([i for i, name in enumerate(self.names) if name not in self.fixed], int)

    @property
    def free_names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.names[i] for i in self.free)

    @functools.cached_property
    def is_log(self) -> Array:
        """Which free parameters are logarithms; (n_free,)."""
        start, terms = ("scale", "q", OBSERVATION), self.reaction.names
        return np.array([n.startswith(start) and n not in terms for n in self.free_names], bool)

    def whole(self, x: Array) -> Array:
        """All parameters in their own units from the free vector."""
        out = np.array([float(self.fixed.get(name, 0.0)) for name in self.names])
        out[self.free] = x
        out[self.free[self.is_log]] = np.exp(x[self.is_log])
        return out

    def vector(self, values: Mapping[str, float]) -> Array:
        """The free vector of given values by name."""
        out = np.array([values[name] for name in self.free_names], float)
        out[self.is_log] = np.log(out[self.is_log])
        return out

    def values(self, x: Array) -> dict[str, float]:
        """All parameters by name."""
        return dict(zip(self.names, map(float, self.whole(x)), strict=True))

    def units(self, x: Array) -> Array:
        """Derivative of each free parameter in its own units by its entry of the vector."""
        return np.where(self.is_log, self.whole(x)[self.free], 1.0)

    def closure(self, x: Array) -> Closure:
        """The equations at x."""
        p, n = self.whole(x), len(self.fields)
        first = n + ("kappa" in self.names)
        after = first + len(self.reaction.names)
        noise = p[after : len(p) - (OBSERVATION in self.names)].reshape(n, -1)
        if self.noise == "parametric":
            noise = noise[:, :1] * np.exp(noise[:, 1:] * self.spectrum[1])
        rates = np.outer(p[:n], self.mu) + p[n:first].sum()
        return Closure(self.reaction, p[first:after], rates.T.ravel(), noise.T.ravel())

    @property
    def spectrum(self) -> Array:
        """Derivatives of ``log q_n`` by the logarithm of the scale and by the exponent; (2, n)."""
        n = np.arange(1.0, len(self.mu) + 1.0)
        return np.stack([np.ones_like(n), -np.log(n)])

    def observation_variance(self, x: Array) -> float:
        """Variance of the noise of observations."""
        return float(self.values(x)[OBSERVATION])

    def rate(self, x: Array, states: Array) -> float:
        """Rate of the reaction at the usual one of these states."""
        return float(np.median(reaction_rate(self.closure(x), states)))

    def pull(
        self, x: Array, rate: Array, noise: Array, coefficient: Array, observation: Any = None
    ) -> Array:
        """Scores by the free vector, (n, n_free), from those by the numbers of the closure."""
        n = len(rate)
        woven = (n, len(self.mu), len(self.fields))
        parts = [self.mu @ rate.reshape(woven)]
        if "kappa" in self.names:
            parts.append(rate.sum(1, keepdims=True))
        by_log = (noise * self.closure(x).noise).reshape(woven).transpose(0, 2, 1)
        if self.noise == "parametric":
            by_log = by_log @ self.spectrum.T
        parts += [coefficient, by_log.reshape(n, -1)]
        if OBSERVATION in self.names:
            by_r = np.zeros(n) if observation is None else observation
            parts.append((by_r * self.observation_variance(x))[:, None])
        return np.concatenate(parts, axis=1)[:, self.free]


def layout(
    domain: AbstractDomain,
    n_modes: int,
    terms: Any,
    *,
    noise: str = "parametric",
    fixed: Mapping[str, Any] | None = None,
    observed: bool = False,
) -> Layout:
    """Layout of a law with these terms, of one field or of several as the domain has them.

    ``fixed`` holds parameters by name, and may hold ``s``, which is not estimated; None frees one.
    ``kappa`` is held at 0 beside the term ``u``, which is minus kappa; otherwise it is free. One of
    several fields whose scale is held at 0 has no noise of its own, and no exponent. With
    ``observed`` the noise of observations is one more parameter.

    Raises:
        InputError: an unknown option or name.
    """
    one_of("noise", noise, SEMILINEAR_NOISES)
    fields, base = (domain.names, domain.domain) if isinstance(domain, Fields) else (("",), domain)
    several = len(fields) > 1
    reaction, each = bound(terms, domain, n_modes), n_modes // len(fields)
    names = [f"nu {field}".strip() for field in fields]
    names += [*([] if several else ["kappa"]), *reaction.names]
    names += [name for field in fields for name in noise_names(field, noise, each)]
    names += [OBSERVATION] if observed else []
    held = dict(fixed or {})
    mu = base.eigenvalues(each) ** float(held.pop("s", 1.0))
    if "u" in reaction.names:
        held.setdefault("kappa", 0.0)
    elif several and held.get("kappa") == 0:
        del held["kappa"]
    _check_held(held, names)
    if "u" in reaction.names and held["kappa"] is None and held.get("u") is None:
        expected = "a value to hold beside the term 'u'"
        fix = "leave kappa at 0: the coefficient of u is minus kappa"
        raise InputError("kappa", expected=expected, got="both free", fix=fix)
    held = {name: float(value) for name, value in held.items() if value is not None}
    noiseless = [f for f in fields if several and held.get(f"scale {f}") == 0.0]
    held |= {f"exponent {f}": 0.0 for f in noiseless}
    _check_driven(noiseless, fields, reaction.names)
    return Layout(mu, reaction, noise, tuple(names), held, fields)


def noise_names(field: str, noise: str, n_modes: int) -> list[str]:
    """Names of the numbers of a field's noise."""
    if noise == "parametric":
        return [f"scale {field}".strip(), f"exponent {field}".strip()]
    return [f"q {field} {n}" if field else f"q_{n}" for n in range(1, n_modes + 1)]


def check_amount(form: Layout, n: int, what: str) -> None:
    """Refuse data that are fewer than twice the free parameters."""
    if n < 2 * len(form.free):
        expected = f"at least {2 * len(form.free)} {what} for {len(form.free)} parameters"
        fix = "bring more paths or times, or fewer terms"
        raise InputError("fields", expected=expected, got=str(n), fix=fix)


def _check_held(held: Mapping[str, Any], names: list[str]) -> None:
    """Refuse names that are no parameters, and values that are no numbers."""
    for name, value in held.items():
        if name not in names:
            expected = f"names among {tuple(names)}"
            fix = "fix 'nu', 'kappa', 's', 'scale', 'exponent' or the coefficient of a term"
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


# ---------- Result of a semilinear fit


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SemilinearFit:
    """Estimate of a semilinear law with its uncertainty.

    Attributes:
        layout: names and order of the parameters.
        x: free vector at the maximum.
        covariance: of the free vector, by the observed information; (n_free, n_free).
        sandwich: of the free vector, robust against a wrong model; (n_free, n_free).
        log_likelihood: at the estimate.
        n_values: how many numbers it is the log density of.
        scores: of each transition, or of each path behind gaps and noise, (n, n_free).
        groups: path of each score, (n,).
        diagnostics: ``n_steps`` (sub-steps of the closure), ``step_shift`` (what twice as many
            would change, in standard errors), ``rate_dt``, ``converged`` and more.
    """

    layout: Layout
    x: Array
    covariance: Array
    sandwich: Array
    log_likelihood: float
    n_values: int
    scores: Array
    groups: Array
    diagnostics: dict[str, Any]

    @property
    def values(self) -> dict[str, float]:
        """Every parameter by name, held ones included."""
        return self.layout.values(self.x)

    @property
    def standard_errors(self) -> dict[str, float]:
        """Of each free parameter in its own units, by the observed information."""
        return self._errors(self.covariance)

    @property
    def robust_errors(self) -> dict[str, float]:
        """Of each free parameter in its own units, by the sandwich."""
        return self._errors(self.sandwich)

    def _errors(self, covariance: Array) -> dict[str, float]:
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0)) * self.layout.units(self.x)
        return dict(zip(self.layout.free_names, map(float, spread), strict=True))

    def __repr__(self) -> str:
        """One line per parameter."""
        errors = self.standard_errors
        lines = [f"SemilinearFit: log-likelihood {self.log_likelihood:.2f}"]
        for name, value in self.values.items():
            error = f"+- {errors[name]:.3g}" if name in errors else "held"
            lines.append(f"  {name:<10} {value:>10.4g} {error}")
        return "\n".join(lines)


# ---------- Terms by field: domain, modes and full names of several fields


#: Standard errors above zero from which on a noise counts as present.
CLEAR_DEVIATIONS = 3.0


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
            raise InputError(what, expected=expected, got=repr(dict(terms)), fix=fix)
        if n_modes == "auto":
            expected = f"a number beside {what} by field"
            fix = "pass the modes of each field, such as n_modes=15"
            raise InputError("n_modes", expected=expected, got="'auto'", fix=fix)
        domain = Fields(domain, tuple(terms))
        n_modes = domain.domain.check_modes(n_modes) * domain.n_fields
    return tuple(flat_terms(terms, domain.names)), domain, n_modes


def _have_field_names(terms: Any) -> bool:
    """Whether these are names such as ``u: u v^2``, with their field."""
    listed = isinstance(terms, Sequence) and not isinstance(terms, str)
    return listed and bool(terms) and all(isinstance(t, str) and ":" in t for t in terms)


def field_notes(fit: SemilinearFit) -> list[str]:
    """Warnings about the estimates of several fields."""
    out, values, errors = [], fit.values, fit.standard_errors
    for field in filter(None, fit.layout.fields):
        nu, scale = f"nu {field}", f"scale {field}"
        if values[nu] < -CLEAR_DEVIATIONS * errors.get(nu, np.inf):
            out.append(
                f"nu of {field} is negative beyond its error: fine waves grow; use more modes"
            )
        if scale in errors and values[scale] < CLEAR_DEVIATIONS * errors[scale]:
            out.append(
                f"{field} shows hardly any noise of its own: what moves it comes from other "
                f"fields; fixed={{'{scale}': 0}} says so"
            )
        if not any(field_of(name) == field for name in fit.layout.reaction.names):
            out.append(f"no term stands in the equation of {field}: it only diffuses")
    return out
