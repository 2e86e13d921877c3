"""From what an equation is given to the numbers it is made of: spectra, or matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation._initial import Gaussian, resolve_initial
from spdelaw.equation._matrices import (
    Coupling,
    check_covariance,
    check_drift,
    initial_coupling,
    is_matrix,
)
from spdelaw.equation._spectra import AbstractSpectrum
from spdelaw.errors import EquationError

Array = np.ndarray


class Resolved(NamedTuple):
    """Numbers of an equation; ``coupling`` is None where each mode is on its own.

    The ``eigenvalues`` of coupled modes are those of the drift matrix, slowest first.
    """

    eigenvalues: Array
    noise_variance: Array
    initial_kind: str
    initial_mean: Array
    initial_variance: Array
    coupling: Coupling | None


def resolve(domain: AbstractDomain, n_modes: int, drift: Any, noise: Any, initial: Any) -> Resolved:
    """Check drift, noise and initial state and turn formulas into numbers."""
    mu = domain.eigenvalues(n_modes)
    if is_matrix(drift) or is_matrix(noise) or is_matrix(getattr(initial, "variance", None)):
        return _coupled(domain, mu, drift, noise, initial)
    lam, q = _spectrum("drift", drift, mu), _spectrum("noise", noise, mu)
    state = resolve_initial(initial, domain, lam, q)
    return Resolved(
        frozen(lam), frozen(q), state.kind, frozen(state.mean), frozen(state.variance), None
    )


def _coupled(domain: AbstractDomain, mu: Array, drift: Any, noise: Any, initial: Any) -> Resolved:
    n = len(mu)
    a = check_drift(drift, n) if is_matrix(drift) else np.diag(_spectrum("drift", drift, mu))
    q = (
        check_covariance("noise", noise, n)
        if is_matrix(noise)
        else np.diag(_spectrum("noise", noise, mu))
    )
    spread = None
    if isinstance(initial, Gaussian) and is_matrix(initial.variance):
        spread = check_covariance("initial variance", initial.variance, n)
        initial = Gaussian(initial.mean, np.diag(spread))
    # Ones stand in for the spectra, which only a stationary state would read.
    state = resolve_initial(initial, domain, np.ones(n), np.ones(n))
    own = np.diag(state.variance) if spread is None else spread
    coupling = Coupling(*map(frozen, initial_coupling(a, q, state.kind, own)))
    lam = np.linalg.eigvals(a)
    return Resolved(
        frozen(lam[np.lexsort([lam.imag, lam.real])]),
        frozen(np.diag(q)),
        state.kind,
        frozen(state.mean),
        frozen(np.diag(coupling.initial)),
        coupling,
    )


def _spectrum(what: str, given: Any, mu: Array) -> Array:
    try:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            raw = given.values(mu) if isinstance(given, AbstractSpectrum) else given
            v = np.array(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise EquationError(
            what, expected="a spectrum or numbers", got=repr(given), fix="pass sl.PowerLaw(2.0)"
        ) from error
    if v.shape != mu.shape or not np.isfinite(v).all() or (v < 0).any():
        got = f"shape {v.shape}" if v.shape != mu.shape else f"values from {v.min()} to {v.max()}"
        raise EquationError(
            what, expected=f"{len(mu)} finite, non-negative numbers", got=got,
            fix="give one number a mode; lambda_n and q_n enter as -lambda_n and sqrt(q_n)",
        )  # fmt: skip
    return v


def frozen(values: Array) -> Array:
    """A copy that nobody can write to."""
    values = np.array(values)
    if np.isrealobj(values):
        values = values.astype(float)
    values.setflags(write=False)
    return values
