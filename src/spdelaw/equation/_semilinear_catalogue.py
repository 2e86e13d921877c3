"""Ready semilinear equations: fronts, populations, phases, flows and growing interfaces.

All are on a ring of length 2 pi, or its square, so that every term has a meaning and no boundary
is in the way. The defaults give fields of order one with reactions of rate about one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Box, Interval
from spdelaw.equation._semilinear import Semilinear
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import OperatorFormula, PowerLaw

RING = Interval(0.0, 2.0 * np.pi, "periodic")
TORUS = Box((0.0, 2.0 * np.pi), (0.0, 2.0 * np.pi), boundary="periodic")
TIMES = np.linspace(0.0, 10.0, 101)
ROUGH, STRONG, ROUGHER = PowerLaw(1.5, 0.1), PowerLaw(1.5, 0.3), PowerLaw(1.0, 0.3)
SMALL, SMALLER = PowerLaw(1.5, 0.01), PowerLaw(1.5, 0.0064)


def band(x: np.ndarray) -> np.ndarray:
    """One on half of the ring and zero on the other, with two smooth fronts."""
    return 0.5 + 0.5 * np.tanh(4.0 * np.cos(x - np.pi))


def sparse(x: np.ndarray) -> np.ndarray:
    """A population below its capacity everywhere and extinct nowhere."""
    return 0.5 + 0.3 * np.cos(x)


def semilinear_on(
    domain: AbstractDomain, n_modes: int, terms: Mapping[str, float], *, nu: float,
    kappa: float = 0.0, noise: Any, initial: Any, times: Any, label: str,
) -> Semilinear:  # fmt: skip
    """``dX = (-kappa X + nu Laplace X + f(X)) dt + dW`` on any domain."""
    linear = SpectralSPDE(
        domain, n_modes, OperatorFormula(kappa, nu), noise=noise, initial=initial, times=times,
        n_points=_points(domain, n_modes), label=label,
    )  # fmt: skip
    return Semilinear(linear, terms)


def _points(domain: AbstractDomain, n_modes: int) -> int:
    """A grid, the same along each dim, on which the modes are told apart."""
    per_dim = n_modes if len(domain.dims) == 1 else int(domain.indices(n_modes).max()) + 1  # type: ignore[attr-defined]
    return int(per_dim + 1)


def allen_cahn(
    n_modes: int = 31, *, nu: float = 0.05, a: float = 1.0, b: float = 1.0,
    noise: Any = ROUGH, initial: Any = 0.0, times: Any = TIMES,
    domain: AbstractDomain = RING,
) -> Semilinear:  # fmt: skip
    """Allen-Cahn equation, or Phi^4 in one dimension: two phases and the fronts between them.

    ``dX = (nu X_xx + a X - b X^3) dt + dW``.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.allen_cahn(n_modes=5).terms
        {'u': 1.0, 'u^3': -1.0}
    """
    return semilinear_on(
        domain, n_modes, {"u": a, "u^3": -b}, nu=nu, noise=noise, initial=initial, times=times,
        label="Allen-Cahn equation",
    )  # fmt: skip


def nagumo(
    n_modes: int = 31, *, nu: float = 0.05, threshold: float = 0.3, rate: float = 1.0,
    noise: Any = SMALL, initial: Any = band, times: Any = TIMES,
) -> Semilinear:  # fmt: skip
    """Nagumo equation: a pulse front that moves, ``f(u) = rate u (1 - u) (u - threshold)``.

    Written out, ``f(u) = rate (-alpha u + (1 + alpha) u^2 - u^3)`` with alpha the threshold.
    """
    terms = {"u": -rate * threshold, "u^2": rate * (1.0 + threshold), "u^3": -rate}
    return semilinear_on(
        RING, n_modes, terms, nu=nu, noise=noise, initial=initial, times=times,
        label="Nagumo equation",
    )  # fmt: skip


def fisher_kpp(
    n_modes: int = 31, *, nu: float = 0.05, r: float = 1.0, noise: Any = SMALLER,
    initial: Any = sparse, times: Any = TIMES,
) -> Semilinear:  # fmt: skip
    """Fisher-KPP equation: a population that spreads, ``f(u) = r u (1 - u)``.

    Below zero the field would fall without end: keep the noise small and the start positive.
    """
    return semilinear_on(
        RING, n_modes, {"u": r, "u^2": -r}, nu=nu, noise=noise, initial=initial,
        times=times, label="Fisher-KPP equation",
    )  # fmt: skip


def burgers(
    n_modes: int = 31, *, nu: float = 0.1, c: float = 1.0, kappa: float = 0.1,
    noise: Any = STRONG, initial: Any = 0.0, times: Any = TIMES,
) -> Semilinear:  # fmt: skip
    """Stochastic Burgers equation: ``dX = (-kappa X + nu X_xx - c X X_x) dt + dW``."""
    return semilinear_on(
        RING, n_modes, {"u u_x": -c}, nu=nu, kappa=kappa, noise=noise, initial=initial,
        times=times, label="Burgers equation",
    )  # fmt: skip


def kpz(
    n_modes: int = 31, *, nu: float = 0.2, c: float = 0.5, kappa: float = 0.1,
    noise: Any = STRONG, initial: Any = 0.0, times: Any = TIMES,
) -> Semilinear:  # fmt: skip
    """KPZ equation, a growing interface: ``dX = (-kappa X + nu X_xx + c X_x^2) dt + dW``.

    With noise that is white in space its height per time grows with the number of modes; the
    damping holds the mean height.
    """
    return semilinear_on(
        RING, n_modes, {"u_x^2": c}, nu=nu, kappa=kappa, noise=noise, initial=initial,
        times=times, label="KPZ equation",
    )  # fmt: skip


def allen_cahn_2d(
    n_modes: int = 37, *, nu: float = 0.05, a: float = 1.0, b: float = 1.0,
    noise: Any = ROUGHER, initial: Any = 0.0, times: Any = TIMES,
) -> Semilinear:  # fmt: skip
    """Allen-Cahn equation on a square with opposite sides glued together.

    In two dimensions the coefficient of ``u`` depends on the number of modes that are kept
    (renormalisation): it is the bare one at ``n_modes`` modes.
    """
    return semilinear_on(
        TORUS, n_modes, {"u": a, "u^3": -b}, nu=nu, noise=noise, initial=initial, times=times,
        label="Allen-Cahn equation in two dimensions",
    )  # fmt: skip
