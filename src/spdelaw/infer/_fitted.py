"""What every route of the exact engine shares: its result and its coordinates."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.infer._coordinates import AbstractCoordinates, Free, Joined, OperatorTied, PowerTied
from spdelaw.infer._layout import Layout
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


def spectra(domain: AbstractDomain, n_modes: int, n_nuisance: int, settings: Settings) -> Spectra:
    """Coordinates of the spectra: free or tied, with parametric nuisance modes."""
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


def initial_kind(settings: Settings, differs: bool, n_paths: int) -> InitialKind:
    """Kind of the initial state: as asked for, or by whether paths start apart."""
    if settings.initial != "auto":
        return settings.initial  # type: ignore[return-value]
    return "gaussian" if differs and n_paths > 4 else "deterministic"
