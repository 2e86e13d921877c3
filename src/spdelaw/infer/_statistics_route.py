"""Complete, noise-free fields on one clock: one pass, then a maximum over a few sums."""

from __future__ import annotations

import time

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError
from spdelaw.infer import _starts
from spdelaw.infer._coupled_starts import coupled_from_statistics
from spdelaw.infer._fitted import Fitted, initial_kind, make_layout, spectra
from spdelaw.infer._layout import fixed_values, prior_terms
from spdelaw.infer._observed import Observed
from spdelaw.infer._problem import Evaluate, Problem, solve, starting_scale, starting_vector
from spdelaw.infer._settings import Settings
from spdelaw.infer._view import grid_mixes
from spdelaw.model import (
    CoupledParameters,
    Statistics,
    collect,
    evaluate_forced_statistics,
    evaluate_statistics,
    unforced_statistics,
    white_noise_z,
)

Array = np.ndarray

#: Energy outside the modes from which on it can bias them on a grid that mixes modes.
OUTSIDE_TOLERANCE = 1e-8
#: Squared increments below this share of the squares are rounding.
UNCHANGED = 1e-14
#: Score-test threshold for observation noise; false alarms, one in 700, cost only time.
NOISE_Z = 3.0
#: Below this many values the score test has little power, and a comparison of fits is cheap.
FEW_VALUES = 100_000


def statistics_of(
    observed: Observed, domain: AbstractDomain, n_modes: int, *, pairs: bool = False
) -> Statistics | None:
    """Sufficient statistics in one pass, or None where data are missing or paths differ.

    ``pairs`` adds the products of different modes that a law of coupled modes needs.
    """
    if observed.times.ndim == 2:
        return None
    phi = domain.eigenfunctions(observed.points, n_modes)
    if len(phi) < n_modes or np.linalg.matrix_rank(phi) < n_modes:
        return None
    return collect(observed.chunks(), observed.times, np.linalg.pinv(phi), phi, pairs=pairs)


def by_statistics(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings
) -> Fitted | None:
    clock = time.perf_counter()
    s = statistics_of(observed, domain, n_modes, pairs=settings.is_coupled)
    if s is None:
        return None
    check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
    gram = _gram(observed, domain, n_modes)
    if settings.nuisance not in ("auto", 0):
        return None
    mixes = grid_mixes(observed.points, domain, n_modes)
    if mixes and s.outside > OUTSIDE_TOLERANCE * s.energy and settings.nuisance != 0:
        return None
    seconds = {"read": time.perf_counter() - clock}
    fitted = fit_statistics(s, domain, n_modes, settings, seconds)
    found = fitted.solution.parameters
    bare = s if isinstance(found, CoupledParameters) else _unforced(s, settings, found.eigenvalues)
    z = white_noise_z(bare, found, gram if settings.is_coupled else np.diag(gram))
    if settings.noise_word == "auto" and (z > NOISE_Z or _is_doubtful(s)):
        return None
    return fitted


def fit_statistics(
    s: Statistics,
    domain: AbstractDomain,
    n_modes: int,
    settings: Settings,
    seconds: dict[str, float],
) -> Fitted:
    """Estimate from sufficient statistics."""
    clock = time.perf_counter()
    rough = _starts.from_statistics(s)
    if settings.forcing is not None:  # the response at a first guess, then a better one
        rough = _starts.from_statistics(_unforced(s, settings, rough.eigenvalues))
    mean, spread = s.first[0] / s.n_paths, s.start_spread / s.n_paths
    kind = initial_kind(settings, bool((spread > 1e-12 * rough.energy).any()), s.n_paths)
    parts = spectra(domain, n_modes, 0, settings, np.sqrt(rough.noise_variance))
    layout = make_layout(parts, kind, s.n_paths, 0, has_mean=kind == "gaussian")
    if settings.is_coupled:
        rough = coupled_from_statistics(s, rough, settings.drift not in ("normal", "dense"))
        spread = s.pairs.first / s.n_paths if s.pairs is not None else np.diag(spread)
    start = starting_vector(layout, rough, 0.0, mean, spread)
    problem = Problem(
        layout,
        _evaluation(s, settings),
        start,
        starting_scale(
            layout, start, rough, s.n_paths, len(s.times) - 1, float(np.ptp(s.times)), s.n_values
        ),
        fixed_values(layout, settings.fixed),
        prior_terms(layout, settings.priors),
        np.zeros(n_modes) if kind == "stationary" else mean,
        separable=not settings.is_coupled,
    )
    solution = solve(problem)
    degrees = s.n_values - s.n_paths * len(s.times) * n_modes
    return Fitted(
        solution, layout, n_modes, "statistics", s.n_values,
        s.outside / degrees if degrees > 0 and s.outside > 1e-14 * s.energy else 0.0, s, (),
        {**seconds, "maximise": time.perf_counter() - clock},
    )  # fmt: skip


def _evaluation(s: Statistics, settings: Settings) -> Evaluate:
    forcing = settings.forcing
    if forcing is None:
        return lambda p: evaluate_statistics(s, p)
    return lambda p: evaluate_forced_statistics(s, p, forcing)


def _unforced(s: Statistics, settings: Settings, eigenvalues: Array) -> Statistics:
    if settings.forcing is None:
        return s
    return unforced_statistics(s, settings.forcing.response(eigenvalues, s.times, s.times[0]))


def check_change(increment: float, square: float) -> None:
    """Refuse fields that never change: squared increments against squares, up to rounding."""
    if not increment > UNCHANGED * square:
        raise DataError(
            "fields", expected="fields that change over time", got="constant fields",
            fix="check the variable; a constant carries no law",
        )  # fmt: skip


def check_change_of(values: Array) -> None:
    """The same for values with gaps: the widest range over time, path by path."""
    most, least = np.fmax.reduce(values, axis=1), np.fmin.reduce(values, axis=1)
    size = np.fmax(np.abs(most), np.abs(least))
    check_change(float(np.nanmax(most - least)) ** 2, float(np.nanmax(size)) ** 2)


def _is_doubtful(s: Statistics) -> bool:
    """Whether something is left over that may be noise, in data too few for the score test."""
    return s.outside > OUTSIDE_TOLERANCE * s.energy and s.n_values < FEW_VALUES


def _gram(observed: Observed, domain: AbstractDomain, n_modes: int) -> Array:
    phi = domain.eigenfunctions(observed.points, n_modes)
    return phi.T @ phi
