"""Ready equations of two fields: excitable media and self-replicating spots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Box, Fields, Interval
from spdelaw.equation._given import resolve_noise
from spdelaw.equation._initial import Gaussian, InitialState, resolve_initial
from spdelaw.equation._semilinear import Semilinear
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import OperatorFormula, PowerLaw, White
from spdelaw.errors import EquationError

Array = np.ndarray

RING = Interval(0.0, 2.0 * np.pi, "periodic")
#: A square of side 64 with opposite sides glued together, on which spots are some 10 wide.
DISH = Box((0.0, 64.0), (0.0, 64.0), boundary="periodic")
DISH_POINTS = 64
TIMES = np.linspace(0.0, 10.0, 101)


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
    mu = domain.eigenvalues(n_modes)
    rates = {f: OperatorFormula(nu=nu[f]).values(mu) for f in both.names}
    levels = {f: resolve_noise(noise[f], mu) for f in both.names}
    starts = {f: resolve_initial(initial[f], domain, rates[f], levels[f]) for f in both.names}
    linear = SpectralSPDE(
        both, n_modes * both.n_fields, _woven(rates), noise=_woven(levels),
        initial=_initial(starts), times=times, n_points=n_points or n_modes + 1, label=label,
    )  # fmt: skip
    return Semilinear(linear, terms)  # type: ignore[arg-type]


def _woven(parts: Mapping[str, Array]) -> Array:
    """Numbers per mode of each field in the order of all modes."""
    return np.stack(list(parts.values()), axis=1).ravel()


def _initial(starts: Mapping[str, InitialState]) -> Any:
    mean = _woven({name: s.mean for name, s in starts.items()})
    spread = _woven(
        {name: np.broadcast_to(s.covariance, s.mean.shape) for name, s in starts.items()}
    )
    return Gaussian(mean, spread) if spread.any() else mean


def fitzhugh_nagumo(
    n_modes: int = 15, *, nu: float = 0.1, epsilon: float = 0.5, gamma: float = 0.5,
    beta: float = 0.1, noise: Any = PowerLaw(1.5, 0.1),  # noqa: B008 (frozen)
    recovery_noise: Any = PowerLaw(1.5, 0.02),  # noqa: B008
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
    nu_v: float = 0.08, noise: Any = White(1e-4), initial: Any = None,  # noqa: B008 (frozen)
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
