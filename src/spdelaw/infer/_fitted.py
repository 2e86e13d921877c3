"""What every route of the exact engine shares: its result and its coordinates."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation import rotating_pairs
from spdelaw.errors import InputError
from spdelaw.infer._coordinates import AbstractCoordinates, Free, Joined, OperatorTied, PowerTied
from spdelaw.infer._coupled_layout import CoupledLayout
from spdelaw.infer._covariance_coordinates import (
    AbstractMatrixCoordinates,
    Covariance,
    LowRank,
    OnDiagonal,
)
from spdelaw.infer._layout import Layout
from spdelaw.infer._matrix_coordinates import Beside, Rotating, Stable
from spdelaw.infer._problem import Solution
from spdelaw.infer._settings import Settings
from spdelaw.model import InitialKind, Statistics

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What an estimation hands over to be turned into a `Law`."""

    solution: Solution
    layout: Layout
    n_modes: int
    route: str
    n_observed: float
    outside_variance: float
    statistics: Statistics | None
    notes: tuple[str, ...]
    seconds: dict[str, float]
    point_variance: Array | None = None
    point_error: Array | None = None


class Spectra(NamedTuple):
    """Coordinates of drift and noise for the reported and the nuisance modes."""

    drift: AbstractCoordinates
    noise: AbstractCoordinates
    n_total: int


def spectra(
    domain: AbstractDomain, n_modes: int, n_nuisance: int, settings: Settings, noise_scale: Array
) -> Spectra:
    """Coordinates of drift and noise: free, tied or matrices, with parametric nuisance modes.

    Args:
        domain: of the modes.
        n_modes: reported ones.
        n_nuisance: those after them.
        settings: what was asked for.
        noise_scale: rough standard deviations of the noise, (N,), the units of matrices.
    """
    if settings.is_coupled:
        return _matrices(domain, n_modes, n_nuisance, settings, noise_scale[:n_modes])
    total = n_modes + n_nuisance
    mu = domain.eigenvalues(total)
    drift: AbstractCoordinates = Free("eigenvalue", n_modes)
    noise: AbstractCoordinates = Free("noise_variance", n_modes)
    if settings.drift == "parametric":
        drift = OperatorTied(tuple(mu[:n_modes]))
    if settings.noise == "parametric":
        noise = PowerTied(n_modes)
    if n_nuisance:
        beyond = OperatorTied(tuple(mu[n_modes:]), "nuisance_")
        drift = Joined(drift, beyond, n_modes)
        noise = Joined(noise, PowerTied(n_nuisance, n_modes + 1, "nuisance_"), n_modes)
    return Spectra(drift, noise, total)


def _matrices(
    domain: AbstractDomain, n_modes: int, n_nuisance: int, settings: Settings, scale: Array
) -> Spectra:
    plain = dataclasses.replace(
        settings,
        drift="parametric" if settings.drift == "parametric" else "diagonal",
        noise="parametric" if settings.noise == "parametric" else "diagonal",
    )
    own = spectra(domain, n_modes, 0, plain, scale)
    units = tuple(map(float, scale))
    drift: AbstractMatrixCoordinates = OnDiagonal(own.drift)
    noise: AbstractMatrixCoordinates = OnDiagonal(own.noise)
    if settings.drift == "dense":
        drift = Stable(units)
    elif settings.drift == "normal":
        drift = Rotating(n_modes, rotating_pairs(domain, n_modes))
    if settings.noise == "dense":
        noise = Covariance("noise_root", units)
    elif settings.noise == "low_rank":
        noise = LowRank(units, _checked_rank(settings.noise_rank, n_modes))
    if n_nuisance:
        mu = domain.eigenvalues(n_modes + n_nuisance)[n_modes:]
        drift = Beside(drift, OperatorTied(tuple(mu), "nuisance_"), n_modes)
        noise = Beside(noise, PowerTied(n_nuisance, n_modes + 1, "nuisance_"), n_modes)
    return Spectra(drift, noise, n_modes + n_nuisance)


def _checked_rank(rank: int, n_modes: int) -> int:
    """A rank that leaves fewer numbers than a full covariance has (Ledermann's bound)."""
    if rank >= n_modes or (n_modes - rank) ** 2 < n_modes + rank:
        raise InputError(
            "noise_rank", expected=f"a rank that spares numbers with {n_modes} modes",
            got=str(rank), fix="pass a smaller noise_rank, or noise='dense'",
        )  # fmt: skip
    return rank


def make_layout(
    parts: Spectra, kind: InitialKind, n_paths: int, n_noise: int, **more: Any
) -> Layout:
    """Layout of the coordinates; coupled modes start with a full covariance.

    With hardly more paths than modes that covariance would have no maximum, and each mode gets a
    variance of its own.
    """
    if not isinstance(parts.drift, AbstractMatrixCoordinates):
        return Layout(parts.drift, parts.noise, kind, parts.n_total, n_noise, **more)
    initial: AbstractMatrixCoordinates | None = None
    if kind == "gaussian":
        n = parts.n_total
        initial = (
            Covariance("initial_root", (1.0,) * n)
            if n_paths >= 2 * n
            else OnDiagonal(Free("initial_variance", n))
        )
    return CoupledLayout(
        parts.drift, parts.noise, kind, parts.n_total, n_noise, **more, initial=initial
    )


def initial_kind(settings: Settings, differs: bool, n_paths: int) -> InitialKind:
    """Kind of the initial state: as asked for, or by whether paths start apart."""
    if settings.initial != "auto":
        return settings.initial  # type: ignore[return-value]
    return "gaussian" if differs and n_paths > 4 else "deterministic"
