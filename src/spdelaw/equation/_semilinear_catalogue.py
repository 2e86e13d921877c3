"""Ready semilinear equations: fronts, populations, phases, flows, growing interfaces, two fields.

Those of one field are on a ring of length 2 pi, or its square, so that every term has a meaning and
no boundary is in the way. The defaults give fields of order one with reactions of rate about one.
Each takes ``noise``, ``initial`` and ``times`` as `spdelaw.SpectralSPDE` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Box, Fields, Interval
from spdelaw.equation._given import Gaussian
from spdelaw.equation._semilinear import Semilinear
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import OperatorFormula, PowerLaw, White
from spdelaw.errors import EquationError

Array = np.ndarray

RING = Interval(0.0, 2.0 * np.pi, "periodic")
TORUS = Box((0.0, 2.0 * np.pi), (0.0, 2.0 * np.pi), boundary="periodic")
#: A square of side 64 with opposite sides glued together, on which spots are some 10 wide.
DISH = Box((0.0, 64.0), (0.0, 64.0), boundary="periodic")
DISH_POINTS = 64
TIMES = np.linspace(0.0, 10.0, 101)
ROUGH, STRONG, ROUGHER = PowerLaw(1.5, 0.1), PowerLaw(1.5, 0.3), PowerLaw(1.0, 0.3)
FAINT, SMALL, SMALLER = PowerLaw(1.5, 0.02), PowerLaw(1.5, 0.01), PowerLaw(1.5, 0.0064)
SMALLEST = White(1e-4)


def band(x: Array) -> Array:
    """One on half of the ring and zero on the other, with two smooth fronts."""
    return 0.5 + 0.5 * np.tanh(4.0 * np.cos(x - np.pi))


def sparse(x: Array) -> Array:
    """A population below its capacity everywhere and extinct nowhere."""
    return 0.5 + 0.3 * np.cos(x)


def semilinear_on(
    label: str, domain: AbstractDomain, n_modes: int, terms: Mapping[str, float], *, nu: float,
    kappa: float = 0.0, noise: Any = STRONG, initial: Any = 0.0, times: Any = TIMES,
) -> Semilinear:  # fmt: skip
    """``dX = (-kappa X + nu Laplace X + f(X)) dt + dW`` on any domain."""
    # A grid, the same along each dim, on which the modes are told apart.
    per_dim = n_modes if len(domain.dims) == 1 else int(domain.indices(n_modes).max()) + 1  # type: ignore[attr-defined]
    drift, own = OperatorFormula(kappa, nu), {"initial": initial, "times": times, "label": label}
    linear = SpectralSPDE(domain, n_modes, drift, noise=noise, n_points=per_dim + 1, **own)
    return Semilinear(linear, terms)


def allen_cahn(
    n_modes: int = 31, *, nu: float = 0.05, a: float = 1.0, b: float = 1.0, noise: Any = ROUGH,
    domain: AbstractDomain = RING, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Allen-Cahn equation, or Phi^4 in one dimension: two phases and the fronts between them.

    ``dX = (nu X_xx + a X - b X^3) dt + dW``.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.allen_cahn(n_modes=5).terms
        {'u': 1.0, 'u^3': -1.0}
    """
    own = {"nu": nu, "noise": noise, **settings}
    return semilinear_on("Allen-Cahn equation", domain, n_modes, {"u": a, "u^3": -b}, **own)


def nagumo(
    n_modes: int = 31, *, nu: float = 0.05, threshold: float = 0.3, rate: float = 1.0,
    noise: Any = SMALL, initial: Any = band, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Nagumo equation: a pulse front that moves, ``f(u) = rate u (1 - u) (u - threshold)``.

    Written out, ``f(u) = rate (-alpha u + (1 + alpha) u^2 - u^3)`` with alpha the threshold.
    """
    terms = {"u": -rate * threshold, "u^2": rate * (1.0 + threshold), "u^3": -rate}
    own = {"nu": nu, "noise": noise, "initial": initial, **settings}
    return semilinear_on("Nagumo equation", RING, n_modes, terms, **own)


def fisher_kpp(
    n_modes: int = 31, *, nu: float = 0.05, r: float = 1.0, noise: Any = SMALLER,
    initial: Any = sparse, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Fisher-KPP equation: a population that spreads, ``f(u) = r u (1 - u)``.

    Below zero the field would fall without end: keep the noise small and the start positive.
    """
    own = {"nu": nu, "noise": noise, "initial": initial, **settings}
    return semilinear_on("Fisher-KPP equation", RING, n_modes, {"u": r, "u^2": -r}, **own)


def burgers(
    n_modes: int = 31, *, nu: float = 0.1, c: float = 1.0, kappa: float = 0.1, **settings: Any
) -> Semilinear:
    """Stochastic Burgers equation: ``dX = (-kappa X + nu X_xx - c X X_x) dt + dW``."""
    own = {"nu": nu, "kappa": kappa, **settings}
    return semilinear_on("Burgers equation", RING, n_modes, {"u u_x": -c}, **own)


def kpz(
    n_modes: int = 31, *, nu: float = 0.2, c: float = 0.5, kappa: float = 0.1, **settings: Any
) -> Semilinear:
    """KPZ equation, a growing interface: ``dX = (-kappa X + nu X_xx + c X_x^2) dt + dW``.

    With noise that is white in space its height per time grows with the number of modes; the
    damping holds the mean height.
    """
    own = {"nu": nu, "kappa": kappa, **settings}
    return semilinear_on("KPZ equation", RING, n_modes, {"u_x^2": c}, **own)


def allen_cahn_2d(
    n_modes: int = 37, *, nu: float = 0.05, a: float = 1.0, b: float = 1.0, noise: Any = ROUGHER,
    **settings: Any,
) -> Semilinear:  # fmt: skip
    """Allen-Cahn equation on a square with opposite sides glued together.

    In two dimensions the coefficient of ``u`` depends on the number of modes that are kept
    (renormalisation): it is the bare one at ``n_modes`` modes.
    """
    label, own = "Allen-Cahn equation in two dimensions", {"nu": nu, "noise": noise, **settings}
    return semilinear_on(label, TORUS, n_modes, {"u": a, "u^3": -b}, **own)


def fields_on(
    domain: AbstractDomain, n_modes: int, terms: Mapping[str, Mapping[str, float]], *,
    nu: Mapping[str, float], noise: Mapping[str, Any], initial: Mapping[str, Any], times: Any,
    label: str = "", n_points: int | None = None,
) -> Semilinear:  # fmt: skip
    """``dX_f = (nu_f Laplace X_f + f_f(X)) dt + dW_f`` for each field f of a domain.

    Args:
        domain: where each field lives.
        n_modes: modes of each field.
        terms: by field, the coefficient of each term in its equation.
        nu: diffusivity by field.
        noise: spectrum by field, or numbers; independent between fields.
        initial: function, coefficients or `spdelaw.Gaussian` by field.
        times: observation times used where none are given.
        label: a name for people.
        n_points: size of the grid used where none is given.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> ring = sl.Interval(0, 2 * np.pi, "periodic")
        >>> prey_and_predator = {"u": {"u": 1.0, "u v": -1.0}, "v": {"u v": 1.0, "v": -1.0}}
        >>> sl.catalogue.fields_on(
        ...     ring,
        ...     5,
        ...     prey_and_predator,
        ...     nu={"u": 0.1, "v": 0.1},
        ...     noise={"u": sl.White(0.01), "v": sl.White(0.01)},
        ...     initial={"u": lambda x: 1.0 + 0.0 * x, "v": lambda x: 1.0 + 0.0 * x},
        ...     times=[0.0, 0.1],
        ... ).terms
        {'u: u': 1.0, 'u: u v': -1.0, 'v: u v': 1.0, 'v: v': -1.0}
    """
    both = Fields(domain, tuple(terms))
    for what, given in (("nu", nu), ("noise", noise), ("initial", initial)):
        if not isinstance(given, Mapping) or set(given) != set(both.names):
            expected = f"one entry for each of {', '.join(both.names)}"
            fix = f"pass {what}={{{', '.join(f'{name!r}: ...' for name in both.names)}}}"
            raise EquationError(what, expected=expected, got=repr(given), fix=fix)
    each = [
        SpectralSPDE(domain, n_modes, OperatorFormula(nu=nu[f]), noise=noise[f], initial=initial[f])
        for f in both.names
    ]
    mean, spread = _woven(e.initial_mean for e in each), _woven(e.initial_variance for e in each)
    linear = SpectralSPDE(
        both, n_modes * both.n_fields, _woven(e.dynamics.drift for e in each),
        noise=_woven(e.dynamics.noise for e in each),
        initial=Gaussian(mean, spread) if spread.any() else mean, times=times,
        n_points=n_points or n_modes + 1, label=label,
    )  # fmt: skip
    return Semilinear(linear, terms)  # type: ignore[arg-type]


def _woven(parts: Iterable[Array]) -> Array:
    """Numbers per mode of each field in the order of all modes."""
    return np.stack(list(parts), axis=1).ravel()


def fitzhugh_nagumo(
    n_modes: int = 15, *, nu: float = 0.1, epsilon: float = 0.5, gamma: float = 0.5,
    beta: float = 0.1, noise: Any = ROUGH, recovery_noise: Any = FAINT,
    initial: Any = None, times: Any = TIMES, domain: AbstractDomain = RING,
) -> Semilinear:  # fmt: skip
    """FitzHugh-Nagumo equations: a voltage that fires, and its slow recovery.

    ``du = (nu u_xx + u - u^3 - v) dt + dW_u``, ``dv = epsilon (u - gamma v + beta) dt + dW_v``.

    Args:
        n_modes: modes of each field.
        nu: diffusivity of the voltage; the recovery does not diffuse.
        epsilon: rate of the recovery.
        gamma: its damping.
        beta: its threshold.
        noise: of the voltage.
        recovery_noise: of the recovery; ``sl.White(0.0)`` for none.
        initial: by field; by default random fields of both signs.
        times: observation times used where none are given.
        domain: where both live.

    Example:
        >>> import spdelaw as sl
        >>> fields = sl.simulate(sl.catalogue.fitzhugh_nagumo(5), 2, times=[0.0, 0.1])
        >>> fields.sel(variable="v").dims
        ('path', 'time', 'x')
    """
    if initial is None:
        spread = 1.0 / np.arange(1.0, n_modes + 1.0) ** 2
        initial = {"u": Gaussian(0.0, spread), "v": Gaussian(0.0, 0.3 * spread)}
    terms = {
        "u": {"u": 1.0, "u^3": -1.0, "v": -1.0},
        "v": {"1": epsilon * beta, "u": epsilon, "v": -epsilon * gamma},
    }
    return fields_on(
        domain, n_modes, terms, nu={"u": nu, "v": 0.0},
        noise={"u": noise, "v": recovery_noise}, initial=initial, times=times,
        label="FitzHugh-Nagumo equations",
    )  # fmt: skip


def seeds(x: Array, y: Array) -> Array:
    """Three spots of the autocatalyst."""
    centres = ((20.0, 20.0), (44.0, 28.0), (28.0, 46.0))
    return sum(np.exp(-((x - a) ** 2 + (y - b) ** 2) / 32.0) for a, b in centres)  # type: ignore[return-value]


def gray_scott(
    n_modes: int = 797, *, feed: float = 0.042, kill: float = 0.061, nu_u: float = 0.16,
    nu_v: float = 0.08, noise: Any = SMALLEST, initial: Any = None,
    times: Any = None, domain: AbstractDomain = DISH,
) -> Semilinear:  # fmt: skip
    """Gray-Scott equations: food u, and an autocatalyst v whose spots divide.

    ``du = (nu_u Laplace u - u v^2 + feed (1 - u)) dt + dW_u``,
    ``dv = (nu_v Laplace v + u v^2 - (feed + kill) v) dt + dW_v``.

    Args:
        n_modes: modes of each field; 797 are all waves up to 16 along a side.
        feed: rate at which food is fed.
        kill: rate at which the autocatalyst is removed.
        nu_u: diffusivity of the food.
        nu_v: diffusivity of the autocatalyst.
        noise: of each field.
        initial: by field; by default food everywhere and three spots.
        times: observation times used where none are given.
        domain: where both live.
    """
    if initial is None:
        initial = {
            "u": lambda x, y: 1.0 - 0.5 * np.minimum(seeds(x, y), 1.0),
            "v": lambda x, y: 0.3 * np.minimum(seeds(x, y), 1.0),
        }
    terms = {
        "u": {"1": feed, "u": -feed, "u v^2": -1.0},
        "v": {"v": -(feed + kill), "u v^2": 1.0},
    }
    return fields_on(
        domain, n_modes, terms, nu={"u": nu_u, "v": nu_v}, noise={"u": noise, "v": noise},
        initial=initial, times=np.arange(0.0, 100.5, 0.5) if times is None else times,
        label="Gray-Scott equations", n_points=DISH_POINTS if domain is DISH else None,
    )  # fmt: skip
