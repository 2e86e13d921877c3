"""Ready equations: the paper's two regimes and their relatives.

The defaults follow the conventions that reproduce the paper's tables: ``q_n = n^-2.01`` with
amplitude ``sqrt(q_n)``, 201 times on [0, 1], 101 points on [0, pi] or 200 on [-3, 3].
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spdelaw.domain import AbstractDomain, Boundary, Box, Disk, Interval, Line, Plane, Sphere
from spdelaw.equation._rotation import advection_matrix
from spdelaw.equation._semilinear_catalogue import (
    allen_cahn,
    allen_cahn_2d,
    burgers,
    fields_on,
    fisher_kpp,
    fitzhugh_nagumo,
    gray_scott,
    kpz,
    nagumo,
)
from spdelaw.equation._spde import SpectralSPDE
from spdelaw.equation._spectra import OperatorFormula, PowerLaw

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
    "gray_scott",
    "heat",
    "heat_on",
    "kpz",
    "nagumo",
    "neumann_heat",
    "ornstein_uhlenbeck",
    "periodic_heat",
    "plane_ornstein_uhlenbeck",
    "rotating_sphere",
    "sphere_heat",
    "square_heat",
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


def fractional_heat(s: float = 0.5, n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """Heat equation with the fractional Laplacian: ``lambda_n = n^(2 s)``."""
    return heat(n_modes, s=s, **settings)


def damped_heat(kappa: float = 1.0, n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """Heat equation with linear damping: ``lambda_n = kappa + n^2``."""
    return heat(n_modes, kappa=kappa, **settings)


def neumann_heat(n_modes: int = 50, *, kappa: float = 1.0, **settings: Any) -> SpectralSPDE:
    """Damped heat equation with insulated ends: ``lambda_n = kappa + (n - 1)^2``."""
    return heat(n_modes, boundary="neumann", kappa=kappa, **settings)


def periodic_heat(n_modes: int = 50, *, kappa: float = 1.0, **settings: Any) -> SpectralSPDE:
    """Damped heat equation on a ring of length pi: ``lambda = kappa + (2 k)^2``."""
    return heat(n_modes, boundary="periodic", kappa=kappa, **settings)


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


def square_heat(n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """`heat_on` the square ``(0, pi)^2`` with cold sides."""
    return heat_on(Box((0.0, np.pi), (0.0, np.pi)), n_modes, **settings)


def disk_heat(n_modes: int = 50, **settings: Any) -> SpectralSPDE:
    """`heat_on` the unit disk with a cold rim."""
    return heat_on(Disk(), n_modes, **settings)


def sphere_heat(n_modes: int = 49, **settings: Any) -> SpectralSPDE:
    """`heat_on` the unit sphere."""
    return heat_on(Sphere(), n_modes, **settings)


def plane_ornstein_uhlenbeck(n_modes: int = 45, **settings: Any) -> SpectralSPDE:
    """`heat_on` the weighted plane: ``A u = Laplace u - x . grad u - u``."""
    return heat_on(Plane(), n_modes, **settings)


def advection_diffusion_on(
    domain: AbstractDomain, n_modes: int = 49, *, speed: float = 1.0, kappa: float = 1.0,
    nu: float = 1.0, noise: Any = PAPER_NOISE, initial: Any = "stationary",
) -> SpectralSPDE:  # fmt: skip
    """Heat carried around a domain: ``dX = (-kappa + nu Laplace X - speed X') dt + dW``.

    The derivative is along the periodic direction of an interval or a box, or by the angle, in
    radians, about the axis of a sphere or the centre of a disk. Cosine and sine of a wave turn
    into one another, so the drift is a matrix. A cosine whose sine is cut off is not carried.

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


def rotating_sphere(n_modes: int = 49, **settings: Any) -> SpectralSPDE:
    """`advection_diffusion_on` the unit sphere: fields drift east by ``speed`` radians per time.

    Harmonics of degree l and order m have ``lambda = kappa + nu l (l + 1) +- i m speed``.
    """
    return advection_diffusion_on(Sphere(), n_modes, **settings)


def advection_diffusion(
    n_modes: int = 49, *, initial: Any = heat_bump, **settings: Any
) -> SpectralSPDE:
    """Heat carried around a ring of length pi: ``dX = (-kappa + nu X_xx - speed X_x) dt + dW``.

    Cosine and sine of a wavenumber turn into one another, so the drift is a matrix, with
    eigenvalues ``kappa + nu k^2 +- i speed k``. With an even number of modes the last cosine
    lacks its sine and is not carried.

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
    *(allen_cahn, nagumo, fisher_kpp, burgers, kpz, allen_cahn_2d, fitzhugh_nagumo, gray_scott)
)
