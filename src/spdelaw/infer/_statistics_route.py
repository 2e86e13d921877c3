"""Complete, noise-free fields on one clock: one pass, then a maximum over a few sums."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from spdelaw.data import Observed, check_change
from spdelaw.domain import AbstractDomain
from spdelaw.infer._design import grid_mixes
from spdelaw.infer._estimate import Decision, Fit
from spdelaw.infer._mean_decision import solve
from spdelaw.infer._model import Model
from spdelaw.infer._nuisance import residual_correlation
from spdelaw.infer._statistics_problem import distance, pose_statistics
from spdelaw.model import Statistics, collect, statistics_of_pieces, white_noise_z

Array = np.ndarray

#: Energy outside the modes from which on it can bias them on a grid that mixes modes.
OUTSIDE_TOLERANCE = 1e-8
#: Score-test threshold for observation noise; false alarms, one in 700, cost only time.
NOISE_Z = 3.0
#: Lag-one correlation from which on what the modes leave over is further modes and not noise.
CORRELATED = 0.4
#: Below this many values the score test has little power, and a comparison of fits is cheap.
FEW_VALUES = 100_000


def statistics_of(observed: Observed, n_modes: int, *, pairs: bool = False) -> Statistics | None:
    """Sufficient statistics in one pass, or None where data are missing or paths differ.

    ``pairs`` adds the products of different modes that a law of coupled modes needs.
    """
    if observed.times.ndim == 2:
        return None
    phi = observed.basis(n_modes)
    if len(phi) < n_modes or np.linalg.matrix_rank(phi) < n_modes:
        return None
    if observed.in_pieces:
        if np.isnan(observed.first(1)).any() or (observed.survey and observed.survey.missing):
            return None
        pieces, place = observed.pieces(), observed.place
        return statistics_of_pieces(pieces, observed.times, phi, place, pairs=pairs)
    return collect(observed.chunks(), observed.times, np.linalg.pinv(phi), phi, pairs=pairs)


def by_statistics(observed: Observed, n_modes: int, model: Model) -> tuple[Fit | None, bool]:
    """Estimate from sufficient statistics, None where they are not enough; whether that is all.

    It is not where there may be noise.
    """
    clock = time.perf_counter()
    s = statistics_of(observed, n_modes, pairs=model.couples)
    if s is None:
        return None, False
    check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
    has_more = s.outside > OUTSIDE_TOLERANCE * s.energy
    if model.nuisance != 0:
        mixes = has_more and grid_mixes(observed, n_modes)
        if mixes or model.nuisance != "auto":
            return None, False
    read = time.perf_counter() - clock
    found, phi = fit_statistics(s, observed.domain, model), observed.basis(n_modes)
    z = white_noise_z(s, found.estimate.state_space, phi.T @ phi)  # a score test
    noise = Decision("some" if z > NOISE_Z else "none", {"score_z": z, "noise_above": NOISE_Z})
    may_be_noise = model.noise_word == "auto" and (
        noise.answer != "none" or (has_more and _may_be_noise(observed, s, phi))
    )
    decisions = {**found.decisions, "observation_noise": noise}
    seconds = {"read": read, **found.seconds}
    return dataclasses.replace(found, decisions=decisions, seconds=seconds), not may_be_noise


def _may_be_noise(observed: Observed, s: Statistics, phi: Array) -> bool:
    """Whether what the modes leave over may be noise, so that fits have to be compared.

    Further modes are correlated from one time to the next, noise is not. The score test looks
    inside the modes alone, where an estimate without noise has taken it for fast decay.
    """
    if s.n_values < FEW_VALUES:
        return True
    return residual_correlation(observed, phi)[0] < CORRELATED


def fit_statistics(s: Statistics, domain: AbstractDomain, model: Model) -> Fit:
    """Estimate from sufficient statistics."""
    clock = time.perf_counter()
    problem, found = solve(lambda own: pose_statistics(s, domain, own), model, distance(s))
    degrees = s.n_values - s.n_paths * len(s.times) * s.n_modes
    has_more = degrees > 0 and s.outside > 1e-14 * s.energy
    outside = s.outside / degrees if has_more else 0.0
    seconds = {"maximise": time.perf_counter() - clock}
    known = (found, s.n_modes, "statistics", s.n_values, outside)
    return Fit(*known, statistics=s, decisions=problem.decisions, seconds=seconds)
