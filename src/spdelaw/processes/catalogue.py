"""Predefined equations: the two regimes of the paper, variants, and semilinear equations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from spdelaw.checks import POSITIVE, checked, shown
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.box import Box
from spdelaw.domains.disk import Disk
from spdelaw.domains.fields import Fields
from spdelaw.domains.hermite import Line, Plane
from spdelaw.domains.interval import Boundary, Interval
from spdelaw.domains.sphere import Sphere
from spdelaw.errors import EquationError
from spdelaw.processes.operators import advection_matrix
from spdelaw.processes.semilinear import Semilinear
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.specification import Gaussian, OperatorFormula, PowerLaw, White

# ---------- Semilinear equations: fronts, populations, phases, flows, interfaces, two fields
#
# Those of one field are on a ring of length 2 pi, or its square, so that every term is defined
# and there is no boundary. The defaults give fields of order one with reactions of rate about
# one. Each takes ``noise``, ``initial`` and ``times`` as `spdelaw.SpectralSPDE` does.


Array = np.ndarray

RING = Interval(0.0, 2.0 * np.pi, "periodic")
TORUS = Box((0.0, 2.0 * np.pi), (0.0, 2.0 * np.pi), boundary="periodic")
#: A square of side 64 with opposite sides glued together, on which spots are some 10 wide.
DISH = Box((0.0, 64.0), (0.0, 64.0), boundary="periodic")
DISH_POINTS = 64
TIMES = np.linspace(0.0, 10.0, 101)
#: Noise of the equations where none is given.
DEFAULT_NOISE = PowerLaw(1.5, 0.3)
ALLEN_CAHN_NOISE = PowerLaw(1.5, 0.1)
ALLEN_CAHN_2D_NOISE = PowerLaw(1.0, 0.3)
RECOVERY_NOISE = PowerLaw(1.5, 0.02)
NAGUMO_NOISE = PowerLaw(1.5, 0.01)
FISHER_KPP_NOISE = PowerLaw(1.5, 0.0064)
GRAY_SCOTT_NOISE = White(1e-4)


def band(x: Array) -> Array:
    """One on half of the ring and zero on the other, with two smooth fronts."""
    return 0.5 + 0.5 * np.tanh(4.0 * np.cos(x - np.pi))


def sparse(x: Array) -> Array:
    """A population below its capacity everywhere and extinct nowhere."""
    return 0.5 + 0.3 * np.cos(x)


def semilinear_on(
    label: str, domain: AbstractDomain, n_modes: int, terms: Mapping[str, float], *, nu: float,
    kappa: float = 0.0, noise: Any = DEFAULT_NOISE, initial: Any = 0.0, times: Any = TIMES,
    state_noise: str = "none", noise_offset: float = 0.0,
) -> Semilinear:  # fmt: skip
    """``dX = (-kappa X + nu Laplace X + f(X)) dt + B(X) dW`` on any domain."""
    # A grid, the same along each dim, on which the modes are linearly independent.
    per_dim = n_modes if len(domain.dims) == 1 else int(domain.indices(n_modes).max()) + 1  # type: ignore[attr-defined]
    drift, options = (
        OperatorFormula(kappa, nu),
        {"initial": initial, "times": times, "label": label},
    )
    linear = SpectralSPDE(domain, n_modes, drift, noise=noise, n_points=per_dim + 1, **options)
    return Semilinear(linear, terms, state_noise, noise_offset)


@checked(EquationError)
def allen_cahn(
    n_modes: int = 31, *, nu: float = 0.05, a: float = 1.0, b: float = 1.0,
    noise: Any = ALLEN_CAHN_NOISE, domain: AbstractDomain = RING, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Allen-Cahn equation, or Phi^4 in one dimension: two phases and the fronts between them.

    ``dX = (nu X_xx + a X - b X^3) dt + dW``.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.allen_cahn(n_modes=5).terms
        {'u': 1.0, 'u^3': -1.0}
    """
    options = {"nu": nu, "noise": noise, **settings}
    return semilinear_on("Allen-Cahn equation", domain, n_modes, {"u": a, "u^3": -b}, **options)


@checked(EquationError)
def nagumo(
    n_modes: int = 31, *, nu: float = 0.05, threshold: float = 0.3, rate: float = 1.0,
    noise: Any = NAGUMO_NOISE, initial: Any = band, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Nagumo equation: a moving front, ``f(u) = rate u (1 - u) (u - threshold)``.

    Written out, ``f(u) = rate (-alpha u + (1 + alpha) u^2 - u^3)`` with alpha the threshold.
    """
    terms = {"u": -rate * threshold, "u^2": rate * (1.0 + threshold), "u^3": -rate}
    options = {"nu": nu, "noise": noise, "initial": initial, **settings}
    return semilinear_on("Nagumo equation", RING, n_modes, terms, **options)


@checked(EquationError)
def fisher_kpp(
    n_modes: int = 31, *, nu: float = 0.05, r: float = 1.0, noise: Any = FISHER_KPP_NOISE,
    initial: Any = sparse, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Fisher-KPP equation: a population that spreads, ``f(u) = r u (1 - u)``.

    The field diverges below zero: keep the noise small and the initial state positive.
    """
    options = {"nu": nu, "noise": noise, "initial": initial, **settings}
    return semilinear_on("Fisher-KPP equation", RING, n_modes, {"u": r, "u^2": -r}, **options)


@checked(EquationError)
def burgers(
    n_modes: int = 31, *, nu: float = 0.1, c: float = 1.0, kappa: float = 0.1, **settings: Any
) -> Semilinear:
    """Stochastic Burgers equation: ``dX = (-kappa X + nu X_xx - c X X_x) dt + dW``."""
    options = {"nu": nu, "kappa": kappa, **settings}
    return semilinear_on("Burgers equation", RING, n_modes, {"u u_x": -c}, **options)


@checked(EquationError)
def kpz(
    n_modes: int = 31, *, nu: float = 0.2, c: float = 0.5, kappa: float = 0.1, **settings: Any
) -> Semilinear:
    """KPZ equation, a growing interface: ``dX = (-kappa X + nu X_xx + c X_x^2) dt + dW``.

    With noise that is white in space its height per time grows with the number of modes; the
    damping holds the mean height.
    """
    options = {"nu": nu, "kappa": kappa, **settings}
    return semilinear_on("KPZ equation", RING, n_modes, {"u_x^2": c}, **options)


@checked(EquationError)
def allen_cahn_2d(
    n_modes: int = 37, *, nu: float = 0.05, a: float = 1.0, b: float = 1.0,
    noise: Any = ALLEN_CAHN_2D_NOISE, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Allen-Cahn equation on a periodic square.

    In two dimensions the coefficient of ``u`` depends on the number of modes that are kept
    (renormalisation): it is the bare one at ``n_modes`` modes.
    """
    label, options = "Allen-Cahn equation in two dimensions", {"nu": nu, "noise": noise, **settings}
    return semilinear_on(label, TORUS, n_modes, {"u": a, "u^3": -b}, **options)


# ---------- Noise that depends on the state, in the sense of Ito


GEOMETRIC_NOISE = PowerLaw(1.5, 0.5)
ANDERSON_NOISE = White(0.1)
SQUARE_ROOT_NOISE = White(0.05)


def positive(x: Array, *further: Array) -> Array:
    """A positive field, of mean one."""
    return 1.0 + 0.5 * np.cos(x)


@checked(EquationError)
def geometric_heat(
    n_modes: int = 15, *, nu: float = 0.2, noise: Any = GEOMETRIC_NOISE, initial: Any = positive,
    noise_offset: float = 0.0, domain: AbstractDomain = RING, **settings: Any,
) -> Semilinear:  # fmt: skip
    """Heat under noise in proportion to the field, ``dX = nu X_xx dt + (offset + X) dW`` (Ito).

    The noise grows with the field. With ``noise_offset`` it is affine and does not vanish with it.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.geometric_heat(n_modes=5).state_noise
        'proportional'
    """
    kind = "affine" if noise_offset else "proportional"
    options = {"nu": nu, "noise": noise, "initial": initial, **settings}
    options |= {"state_noise": kind, "noise_offset": noise_offset}
    return semilinear_on("geometric heat equation", domain, n_modes, {}, **options)


@checked(EquationError)
def parabolic_anderson(
    n_modes: int = 15, *, nu: float = 0.2, noise: Any = ANDERSON_NOISE, **settings: Any
) -> Semilinear:
    """Parabolic Anderson model, ``dX = nu X_xx dt + X dW`` (Ito), with W white in space.

    High and narrow peaks grow out of a flat field. W has the modes that are kept.
    """
    equation = geometric_heat(n_modes, nu=nu, noise=noise, **settings)
    linear = dataclasses.replace(equation.linear, label="parabolic Anderson model")
    return dataclasses.replace(equation, linear=linear)


@checked(EquationError)
def square_root_heat(
    n_modes: int = 15, *, nu: float = 0.2, rate: float = 1.0,
    level: Annotated[float, POSITIVE] = 1.0,
    noise: Any = SQUARE_ROOT_NOISE, initial: Any = positive, domain: AbstractDomain = RING,
    **settings: Any,
) -> Semilinear:  # fmt: skip
    """A density with immigration: ``dX = (nu X_xx + rate (level - X)) dt + sqrt(X) dW`` (Ito).

    W is white in space; the noise is that of births and deaths. Keep it small: where the field of
    finitely many modes is negative, there is no noise.
    """
    terms = {"1": rate * level, "u": -rate}
    options = {"nu": nu, "noise": noise, "initial": initial, **settings}
    label, kind = "square-root heat equation", "square_root"
    return semilinear_on(label, domain, n_modes, terms, state_noise=kind, **options)


@checked(EquationError)
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
            raise EquationError(what, expected=expected, got=shown(given), fix=fix)
    each = [
        SpectralSPDE(domain, n_modes, OperatorFormula(nu=nu[f]), noise=noise[f], initial=initial[f])
        for f in both.names
    ]
    mean, spread = (
        _interleave(e.initial_mean for e in each),
        _interleave(e.initial_variance for e in each),
    )
    linear = SpectralSPDE(
        both, n_modes * both.n_fields, _interleave(e.dynamics.drift for e in each),
        noise=_interleave(e.dynamics.noise for e in each),
        initial=Gaussian(mean, spread) if spread.any() else mean, times=times,
        n_points=n_points or n_modes + 1, label=label,
    )  # fmt: skip
    return Semilinear(linear, terms)


def _interleave(parts: Iterable[Array]) -> Array:
    """Numbers per mode of each field in the order of all modes."""
    return np.stack(list(parts), axis=1).ravel()


@checked(EquationError)
def fitzhugh_nagumo(
    n_modes: int = 15, *, nu: float = 0.1, epsilon: float = 0.5, gamma: float = 0.5,
    beta: float = 0.1, noise: Any = ALLEN_CAHN_NOISE, recovery_noise: Any = RECOVERY_NOISE,
    initial: Any = None, times: Any = TIMES, domain: AbstractDomain = RING,
) -> Semilinear:  # fmt: skip
    """FitzHugh-Nagumo equations: a voltage with spikes, and its slow recovery.

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


@checked(EquationError)
def gray_scott(
    n_modes: int = 797, *, feed: float = 0.042, kill: float = 0.061, nu_u: float = 0.16,
    nu_v: float = 0.08, noise: Any = GRAY_SCOTT_NOISE, initial: Any = None,
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


# ---------- Linear equations: the paper's two regimes and their relatives
#
# The defaults follow the conventions that reproduce the paper's tables: ``q_n = n^-2.01`` with
# amplitude ``sqrt(q_n)``, 201 times on [0, 1], 101 points on [0, pi] or 200 on [-3, 3].


__all__ = [
    "EQUATIONS",
    "SEMILINEAR",
    "advection_diffusion",
    "advection_diffusion_on",
    "allen_cahn",
    "allen_cahn_2d",
    "burgers",
    "damped_heat",
    "disk_heat",
    "fields_on",
    "fisher_kpp",
    "fitzhugh_nagumo",
    "fractional_heat",
    "geometric_heat",
    "gray_scott",
    "heat",
    "heat_on",
    "kpz",
    "nagumo",
    "neumann_heat",
    "ornstein_uhlenbeck",
    "parabolic_anderson",
    "periodic_heat",
    "plane_ornstein_uhlenbeck",
    "rotating_sphere",
    "sphere_heat",
    "square_heat",
    "square_root_heat",
]


def __dir__() -> list[str]:
    return __all__


#: ``q_n = n^-(2 r + 1 + eps)`` with r = 0.5 and eps = 0.01 (paper, section 3.2).
PAPER_NOISE = PowerLaw(2.01)


def heat_bump(x: np.ndarray) -> np.ndarray:
    """``u0(x) = x (pi - x) exp(-(x - pi/2)^2 / sigma^2)``, sigma = 0.5 (Regime B)."""
    return x * (np.pi - x) * np.exp(-(((x - 0.5 * np.pi) / 0.5) ** 2))


def line_bump(x: np.ndarray) -> np.ndarray:
    """``u0(x) = 10 exp(-x^2 / (2 sigma^2))``, sigma = 0.8 (Regime A)."""
    return 10.0 * np.exp(-0.5 * (x / 0.8) ** 2)


@checked(EquationError)
def heat(
    n_modes: int = 50,
    *,
    noise: Any = PAPER_NOISE,
    initial: Any = heat_bump,
    boundary: Boundary = "dirichlet",
    kappa: float = 0.0,
    nu: float = 1.0,
    s: float = 1.0,
) -> SpectralSPDE:
    """Stochastic heat equation on (0, pi); with the defaults the paper's Regime B.

    ``dX = (-kappa - nu (-Laplace)^s) X dt + dW``, so ``lambda_n = n^2``.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.heat(n_modes=3).eigenvalues
        array([1., 4., 9.])
    """
    return SpectralSPDE(
        Interval(0.0, np.pi, boundary),
        n_modes,
        OperatorFormula(kappa, nu, s),
        noise=noise,
        initial=initial,
        n_points=100 if boundary == "periodic" else 101,
        label=f"stochastic heat equation, {boundary}",
    )


@checked(EquationError)
def ornstein_uhlenbeck(
    n_modes: int = 50, *, noise: Any = PAPER_NOISE, initial: Any = line_bump, kappa: float = 1.0
) -> SpectralSPDE:
    """Ornstein-Uhlenbeck equation on the weighted line: the paper's Regime A.

    ``A u = u'' - x u' - kappa u`` with Hermite degrees 0, 1, ..., so ``lambda_n = 1, 2, ...``.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.ornstein_uhlenbeck(n_modes=3).eigenvalues
        array([1., 2., 3.])
    """
    return SpectralSPDE(
        Line(),
        n_modes,
        OperatorFormula(kappa),
        noise=noise,
        initial=initial,
        n_points=200,
        label="Ornstein-Uhlenbeck equation on the weighted line",
    )


@checked(EquationError)
def fractional_heat(s: float = 0.5, n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """Heat equation with the fractional Laplacian: ``lambda_n = n^(2 s)``."""
    return heat(n_modes, s=s, **settings)


@checked(EquationError)
def damped_heat(kappa: float = 1.0, n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """Heat equation with linear damping: ``lambda_n = kappa + n^2``."""
    return heat(n_modes, kappa=kappa, **settings)


@checked(EquationError)
def neumann_heat(n_modes: int = 50, *, kappa: float = 1.0, **settings: Any) -> SpectralSPDE:
    """Damped heat equation with insulated ends: ``lambda_n = kappa + (n - 1)^2``."""
    return heat(n_modes, boundary="neumann", kappa=kappa, **settings)


@checked(EquationError)
def periodic_heat(n_modes: int = 50, *, kappa: float = 1.0, **settings: Any) -> SpectralSPDE:
    """Damped heat equation on a ring of length pi: ``lambda = kappa + (2 k)^2``."""
    return heat(n_modes, boundary="periodic", kappa=kappa, **settings)


@checked(EquationError)
def heat_on(
    domain: AbstractDomain,
    n_modes: int = 50,
    *,
    kappa: float = 1.0,
    nu: float = 1.0,
    s: float = 1.0,
    noise: Any = PAPER_NOISE,
    initial: Any = "stationary",
) -> SpectralSPDE:
    """Damped heat equation on any domain: ``lambda_n = kappa + nu mu_n^s``.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.heat_on(sl.Sphere(), n_modes=4).eigenvalues
        array([1., 3., 3., 3.])
    """
    return SpectralSPDE(
        domain, n_modes, OperatorFormula(kappa, nu, s), noise=noise, initial=initial,
        label=f"damped heat equation, {domain.name}",
    )  # fmt: skip


@checked(EquationError)
def square_heat(n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """`heat_on` the square ``(0, pi)^2`` with cold sides."""
    return heat_on(Box((0.0, np.pi), (0.0, np.pi)), n_modes, **settings)


@checked(EquationError)
def disk_heat(n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """`heat_on` the unit disk with a cold rim."""
    return heat_on(Disk(), n_modes, **settings)


@checked(EquationError)
def sphere_heat(n_modes: int = 49, **settings: Any) -> SpectralSPDE:
    """`heat_on` the unit sphere."""
    return heat_on(Sphere(), n_modes, **settings)


@checked(EquationError)
def plane_ornstein_uhlenbeck(n_modes: int = 45, **settings: Any) -> SpectralSPDE:
    """`heat_on` the weighted plane: ``A u = Laplace u - x . grad u - u``."""
    return heat_on(Plane(), n_modes, **settings)


@checked(EquationError)
def advection_diffusion_on(
    domain: AbstractDomain, n_modes: int = 49, *, speed: float = 1.0, kappa: float = 1.0,
    nu: float = 1.0, noise: Any = PAPER_NOISE, initial: Any = "stationary",
) -> SpectralSPDE:  # fmt: skip
    """Heat transported around a domain: ``dX = (-kappa + nu Laplace X - speed X') dt + dW``.

    The derivative is along the periodic direction of an interval or a box, or by the angle, in
    radians, about the axis of a sphere or the centre of a disk. Cosine and sine of a wave rotate
    into each other, so the drift is a matrix. A cosine without its sine is not transported.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.advection_diffusion_on(sl.Disk(), n_modes=3, speed=2.0).eigenvalues
        array([ 6.78318596+0.j, 15.68197064-2.j, 15.68197064+2.j])
    """
    decay = OperatorFormula(kappa, nu).values(domain.eigenvalues(n_modes))
    return SpectralSPDE(
        domain, n_modes, np.diag(decay) + advection_matrix(domain, n_modes, speed), noise=noise,
        initial=initial, label=f"stochastic advection-diffusion equation, {domain.name}",
    )  # fmt: skip


@checked(EquationError)
def rotating_sphere(n_modes: int = 49, **settings: Any) -> SpectralSPDE:
    """`advection_diffusion_on` the unit sphere: fields drift east by ``speed`` radians per time.

    Harmonics of degree l and order m have ``lambda = kappa + nu l (l + 1) +- i m speed``.
    """
    return advection_diffusion_on(Sphere(), n_modes, **settings)


@checked(EquationError)
def advection_diffusion(
    n_modes: int = 49, *, initial: Any = heat_bump, **settings: Any
) -> SpectralSPDE:
    """Heat transported around a ring of length pi: ``dX = (-kappa + nu X_xx - speed X_x) dt + dW``.

    Cosine and sine of a wavenumber rotate into each other, so the drift is a matrix, with
    eigenvalues ``kappa + nu k^2 +- i speed k``. With an even number of modes the last cosine lacks
    its sine and is not transported.

    Example:
        >>> import spdelaw as sl
        >>> sl.catalogue.advection_diffusion(n_modes=3, speed=2.0).eigenvalues
        array([1.+0.j, 5.-4.j, 5.+4.j])
    """
    ring = Interval(0.0, np.pi, "periodic")
    equation = advection_diffusion_on(ring, n_modes, initial=initial, **settings)
    return dataclasses.replace(equation, n_points=100)


def _by_name(*equations: Any) -> dict[str, Any]:
    return {equation.__name__.replace("_", "-"): equation for equation in equations}


#: The catalogue by name, as the shell knows it.
EQUATIONS = _by_name(
    *(heat, ornstein_uhlenbeck, fractional_heat, damped_heat, neumann_heat, periodic_heat),
    *(square_heat, disk_heat, sphere_heat, plane_ornstein_uhlenbeck),
    *(advection_diffusion, rotating_sphere),
)
#: The semilinear ones by name.
SEMILINEAR = _by_name(
    *(allen_cahn, nagumo, fisher_kpp, burgers, kpz, allen_cahn_2d, fitzhugh_nagumo, gray_scott),
    *(geometric_heat, parabolic_anderson, square_root_heat),
)
