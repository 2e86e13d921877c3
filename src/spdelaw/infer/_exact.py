"""The exact engine: maximum likelihood of the untruncated law.

Complete, noise-free data on a common grid need one pass for their sufficient statistics.
Everything else goes through the filter. Which way was taken, and why, is in ``law.info``.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError
from spdelaw.infer import _starts
from spdelaw.infer._coordinates import AbstractCoordinates, Free, Joined, OperatorTied, PowerTied
from spdelaw.infer._layout import Layout, fixed_values, prior_terms
from spdelaw.infer._nuisance import (
    MOST_SHARED,
    likeliest_total,
    needed_nuisance,
    principal_components,
)
from spdelaw.infer._observed import Observed
from spdelaw.infer._problem import (
    Problem,
    Solution,
    solve,
    starting_scale,
    starting_vector,
)
from spdelaw.infer._settings import Settings
from spdelaw.model import (
    Collapsed,
    Evaluation,
    InitialKind,
    Parameters,
    Statistics,
    collapse,
    collect,
    evaluate_likelihood,
    evaluate_statistics,
    white_noise_z,
)

Array = np.ndarray

#: Energy outside the modes from which on it can bias them on a grid that mixes modes.
OUTSIDE_TOLERANCE = 1e-8
#: Squared increments below this share of the squares are rounding.
UNCHANGED = 1e-14
#: Misfit a value, relative to the energy, that is rounding and not noise.
NO_MISFIT = 1e-20
#: Observation variance of noise-free values with gaps, relative to the energy: far below any
#: increment, and large enough that rows which see only some modes keep their digits.
WORKING_VARIANCE = 1e-10
#: Score-test threshold for observation noise; false alarms, one in 700, cost only time.
NOISE_Z = 3.0
#: Paths, and every how many-th time, that the choice of nuisance modes looks at.
SAMPLE_PATHS, THIN = 40, 4
#: A fit of many paths starts from a fit of this many, which costs little and lands close.
WARM_PATHS = 100


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


def estimate(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings
) -> Fitted:
    """Maximum-likelihood estimate by whichever way the data allow."""
    if not np.any(settings.known_variance) and settings.noise_word != "estimate":
        fitted = _by_statistics(observed, domain, n_modes, settings)
        if fitted is not None:
            return fitted
    return by_filter(observed, domain, n_modes, settings)


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


# -- complete and noise-free -------------------------------------------------------------


def statistics_of(observed: Observed, domain: AbstractDomain, n_modes: int) -> Statistics | None:
    """Sufficient statistics in one pass, or None where data are missing or paths differ."""
    if observed.times.ndim == 2:
        return None
    phi = domain.eigenfunctions(observed.points, n_modes)
    if len(phi) < n_modes or np.linalg.matrix_rank(phi) < n_modes:
        return None
    return collect(observed.chunks(), observed.times, np.linalg.pinv(phi), phi)


def _by_statistics(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings
) -> Fitted | None:
    clock = time.perf_counter()
    s = statistics_of(observed, domain, n_modes)
    if s is None:
        return None
    check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
    gram = _gram(observed, domain, n_modes)
    if settings.nuisance not in ("auto", 0):
        return None
    mixes = _grid_mixes(observed.points, domain, n_modes)
    if mixes and s.outside > OUTSIDE_TOLERANCE * s.energy and settings.nuisance != 0:
        return None
    seconds = {"read": time.perf_counter() - clock}
    fitted = fit_statistics(s, domain, n_modes, settings, seconds)
    z = white_noise_z(s, fitted.solution.parameters, np.diag(gram))
    if settings.noise_word == "auto" and z > NOISE_Z:
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
    mean, spread = s.first[0] / s.n_paths, s.start_spread / s.n_paths
    kind = _initial_kind(settings, bool((spread > 1e-12 * rough.energy).any()), s.n_paths)
    parts = spectra(domain, n_modes, 0, settings)
    layout = Layout(parts.drift, parts.noise, kind, n_modes, 0, has_mean=kind == "gaussian")
    start = starting_vector(layout, rough, 0.0, mean, spread)
    problem = Problem(
        layout,
        lambda p: evaluate_statistics(s, p),
        start,
        starting_scale(
            layout, start, rough, s.n_paths, len(s.times) - 1, float(np.ptp(s.times)), s.count
        ),
        fixed_values(layout, settings.fixed),
        prior_terms(layout, settings.priors),
        np.zeros(n_modes) if kind == "stationary" else mean,
    )
    solution = solve(problem)
    degrees = s.count - s.n_paths * len(s.times) * n_modes
    return Fitted(
        solution, layout, n_modes, "statistics", s.count,
        s.outside / degrees if degrees > 0 and s.outside > 1e-14 * s.energy else 0.0, s, (),
        {**seconds, "maximise": time.perf_counter() - clock},
    )  # fmt: skip


def check_change(increment: float, square: float) -> None:
    """Refuse fields that never change: squared increments against squares, up to rounding."""
    if not increment > UNCHANGED * square:
        raise DataError(
            "fields", expected="fields that change over time", got="constant fields",
            fix="check the variable; a constant carries no law",
        )  # fmt: skip


def _check_change_of(values: Array) -> None:
    """The same for values with gaps: the widest range over time, path by path."""
    most, least = np.fmax.reduce(values, axis=1), np.fmin.reduce(values, axis=1)
    size = np.fmax(np.abs(most), np.abs(least))
    check_change(float(np.nanmax(most - least)) ** 2, float(np.nanmax(size)) ** 2)


# -- everything else ---------------------------------------------------------------------


def by_filter(
    observed: Observed,
    domain: AbstractDomain,
    n_modes: int,
    settings: Settings,
    *,
    polish: bool = True,
) -> Fitted:
    """Estimate through the collapsed filter; ``polish=False`` leaves out standard errors."""
    clock = time.perf_counter()
    notes: list[str] = []
    _check_change_of(observed.load())
    view = _view(observed, domain, n_modes, settings, notes)
    collapsed = collapse(view.values, view.times, view.basis, view.weights)
    seconds = {"read": time.perf_counter() - clock}
    clock = time.perf_counter()
    fitted = _fit_collapsed(collapsed, view, domain, n_modes, settings, notes, polish)
    seconds["maximise"] = time.perf_counter() - clock
    return dataclasses.replace(fitted, seconds=seconds, notes=tuple(notes))


class View(NamedTuple):
    """What the filter is shown.

    Attributes:
        values: fields (P, T, M), or their principal components.
        times: (T,) or (P, T).
        basis: eigenfunctions as the values see them, (M, N + nuisance).
        n_nuisance: modes that are modelled and not reported.
        known: observation variance where it is not estimated.
        weights: relative precision of each point.
        start: full starting vector of spectra, where a first fit has been made.
    """

    values: Array
    times: Array
    basis: Array
    n_nuisance: int
    known: float | None
    weights: Array | None
    start: Array | None


def _view(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings, notes: list[str]
) -> View:
    values, times, points = observed.load(), observed.times, observed.points
    known, weights = settings.known_variance, None
    if isinstance(known, np.ndarray):
        weights, known = _point_weights(known, len(points)), 1.0
    if _mixes(values, points, domain, n_modes) and settings.nuisance != 0:
        reduced = _reduced_view(values, times, points, domain, n_modes, settings, notes)
        if reduced is not None:
            return reduced
        extra = _n_nuisance(values, times, points, domain, n_modes, settings, notes)
    else:
        extra = 0 if settings.nuisance == "auto" else int(settings.nuisance)
    basis = domain.eigenfunctions(points, n_modes + extra)
    return View(values, times, basis, extra, known, weights, None)


def _mixes(values: Array, points: Array, domain: AbstractDomain, n_modes: int) -> bool:
    """Whether points or gaps let modes beyond the reported ones into their estimates."""
    return _grid_mixes(points, domain, n_modes) or _has_partial_rows(values)


def _grid_mixes(points: Array, domain: AbstractDomain, n_modes: int) -> bool:
    """Whether reported modes overlap on the points with one another or with the next ones.

    Two more, because an even and an odd mode never overlap on a symmetric grid, but no more
    than the points can tell apart.
    """
    phi = domain.eigenfunctions(points, min(n_modes + 2, len(points)))
    phi = phi[:, : max(n_modes, int(np.linalg.matrix_rank(phi)))]
    gram = phi.T @ phi
    off = np.abs(gram - np.diag(np.diag(gram)))[:n_modes].max()
    return bool(off > 1e-9 * np.diag(gram)[:n_modes].max())


def _reduced_view(
    values: Array, times: Array, points: Array, domain: AbstractDomain, n_modes: int,
    settings: Settings, notes: list[str],
) -> View | None:  # fmt: skip
    """Principal components of complete, noise-free fields, with the modes behind them."""
    quiet = settings.noise_word in ("auto", "none")
    if times.ndim == 2 or not quiet or np.isnan(values).any():
        return None
    reduction = principal_components(values)
    if reduction is None:
        return None
    keep, variance = reduction
    components = values @ keep
    total, start = _total_modes(
        components, times, points, domain, n_modes, keep, variance, settings
    )
    if total == n_modes:
        return None
    notes.append(
        f"the grid mixes modes: {keep.shape[1]} principal components of the fields are explained "
        f"by {n_modes} reported and {total - n_modes} nuisance modes"
    )
    basis = keep.T @ domain.eigenfunctions(points, total)
    return View(components, times, basis, total - n_modes, variance, None, start)


def _total_modes(
    components: Array, times: Array, points: Array, domain: AbstractDomain, n_modes: int,
    keep: Array, variance: float, settings: Settings,
) -> tuple[int, Array]:  # fmt: skip
    """Number of modes by likelihood of a four-number law, and that law's coordinates."""
    sample, thin = components[:SAMPLE_PATHS, ::THIN], times[::THIN]
    rough = _starts.of_components(sample, thin)
    found: dict[int, Solution] = {}

    def score(total: int) -> float:
        basis = keep.T @ domain.eigenfunctions(points, total)
        found[total] = _tied_solution(
            collapse(sample, thin, basis), thin, domain, total, variance, rough
        )
        return found[total].log_likelihood

    if settings.nuisance == "auto":
        total = likeliest_total(score, max(n_modes, keep.shape[1]), MOST_SHARED)
    else:
        total = n_modes + int(settings.nuisance)
        score(total)
    return total, found[total].full


def _tied_solution(
    collapsed: Collapsed, times: Array, domain: AbstractDomain, total: int, variance: float,
    rough: tuple[float, float],
) -> Solution:  # fmt: skip
    mu = domain.eigenvalues(total)
    layout = Layout(
        OperatorTied(tuple(mu)), PowerTied(total), "deterministic", total, 0,
        known_variance=variance,
    )  # fmt: skip
    rate, power = rough
    start = np.zeros(len(layout.names))
    start[:3] = np.log([0.5 * rate, 0.5 * rate / max(mu[1], 1e-12), 1.0])
    start[3:5] = [np.log(power), 2.0]
    guess = _starts.Rough(
        layout.drift.values(start[:3]), layout.noise.values(start[3:5]), np.zeros(total),
        layout.noise.values(start[3:5]) / (2 * layout.drift.values(start[:3])),
    )  # fmt: skip
    scale = starting_scale(
        layout, start, guess, collapsed.n_paths, len(times) - 1, float(np.ptp(times)), 1.0
    )
    problem = Problem(
        layout, lambda p: evaluate_likelihood(collapsed, p), start, scale,
        {layout.names.index("s"): 0.0}, [], np.zeros(total),
    )  # fmt: skip
    return solve(problem, polish=False)


def _fit_collapsed(
    collapsed: Collapsed, view: View, domain: AbstractDomain, n_modes: int,
    settings: Settings, notes: list[str], polish: bool,
) -> Fitted:  # fmt: skip
    parts = spectra(domain, n_modes, view.n_nuisance, settings)
    states = _n_states(collapsed)
    spare = collapsed.count - states
    rough, guess, energy = _first_guess(collapsed, spare, view, domain, parts.n_total)
    known = view.known
    if settings.noise_word == "auto" and known is None and spare > 0:
        # The modes hold the fields to rounding: a variance to estimate would run off to zero.
        known = 0.0 if collapsed.misfit <= NO_MISFIT * spare * energy else None
    variance = known if known else guess
    mean, spread = _first_states(collapsed)
    kind = _initial_kind(settings, _starts_differ(collapsed, spread, variance), collapsed.n_paths)
    layout = Layout(
        parts.drift, parts.noise, kind, parts.n_total, 0 if known is not None else 1,
        known_variance=known or WORKING_VARIANCE * energy,
    )  # fmt: skip
    start = starting_vector(layout, rough, variance**0.5, mean, spread)
    fixed = fixed_values(layout, settings.fixed)
    if view.n_nuisance:
        fixed[layout.names.index("nuisance_s")] = 0.0
    priors = prior_terms(layout, settings.priors)
    n_steps, span = view.times.shape[-1] - 1, float(np.ptp(view.times, axis=-1).max())

    def run(use_misfit: bool, start: Array, count: float) -> Solution:
        def problem(some: Collapsed) -> Problem:
            def evaluate(p: Parameters) -> Evaluation:
                return evaluate_likelihood(some, p, use_misfit=use_misfit, threads=settings.threads)

            share = some.n_paths / collapsed.n_paths
            scale = starting_scale(layout, start, rough, some.n_paths, n_steps, span, share * count)
            zero = np.zeros(parts.n_total)
            return Problem(layout, evaluate, start, scale, fixed, priors, zero)

        if collapsed.n_paths < 2 * WARM_PATHS:
            return solve(problem(collapsed), polish=polish)
        first = collapse(view.values[:WARM_PATHS], _first(view.times), view.basis, view.weights)
        warm = _shrunk(solve(problem(first)), collapsed.n_paths)
        return solve(problem(collapsed), warm, polish=polish)

    robust = collapsed.is_diagonal and view.n_nuisance == 0 and known is None and spare > 0
    outside = 0.0
    if not robust:
        solution = run(True, start, max(spare, states))
    else:
        solution = run(False, start, 0.2 * states)
        solution, outside = _with_or_without_misfit(
            solution, layout, collapsed.misfit / spare, lambda s: run(True, s, spare), notes
        )
    return Fitted(solution, layout, n_modes, "filter", collapsed.count, outside, None, (), {})


def _first(times: Array) -> Array:
    return times if times.ndim == 1 else times[:WARM_PATHS]


def _shrunk(solution: Solution, n_paths: int) -> Solution:
    """The solution of the first paths, with the covariance that all paths will have."""
    return solution._replace(columns=solution.columns * np.sqrt(WARM_PATHS / n_paths))


def _first_guess(
    collapsed: Collapsed, spare: float, view: View, domain: AbstractDomain, total: int
) -> tuple[_starts.Rough, float, float]:
    """Rough spectra, observation variance and energy to start from."""
    guess = max(collapsed.misfit / spare, 0.0) if spare > 0 else 0.0
    rough = _starts.from_estimates(collapsed, guess)
    gram = _starts.mean_gram(collapsed)
    energy = float(np.median(rough.energy * gram))
    if view.start is not None:
        lam = OperatorTied(tuple(domain.eigenvalues(total))).values(view.start[:3])
        q = PowerTied(total).values(view.start[3:5])
        rough = _starts.Rough(lam, q, np.zeros(total), q / (2.0 * lam))
    if guess == 0.0:
        guess = float(np.median(rough.noise * gram))
    return rough, max(guess, 1e-14 * energy), energy


def _with_or_without_misfit(
    solution: Solution, layout: Layout, outside: float, again: Any, notes: list[str]
) -> tuple[Solution, float]:
    """Use what lies outside the modes as noise only if it agrees with the noise inside.

    Where modes are not mixed by the grid, the noise can be learned from the reported modes
    alone. What is left over is noise too, unless it holds further modes; then it is larger.
    """
    at = layout.slices["observation"].start
    inside = float(solution.parameters.observation_variance)
    error = 2.0 * inside * float(np.sqrt(solution.covariance[at, at]))
    if abs(outside - inside) <= 3.0 * error:
        start = solution.full.copy()
        start[at] = 0.5 * np.log(outside)
        return again(start), 0.0
    notes.append(
        f"variance outside the modes is {outside:.3g}, noise inside them {inside:.3g}: the rest is "
        "left out of the likelihood as unresolved"
    )
    return solution, max(outside - inside, 0.0)


def _n_nuisance(
    values: Array, times: Array, points: Array, domain: AbstractDomain, n_modes: int,
    settings: Settings, notes: list[str],
) -> int:  # fmt: skip
    if settings.nuisance != "auto":
        return int(settings.nuisance)
    extra, correlation = needed_nuisance(values, times, points, domain, n_modes)
    if extra:
        notes.append(f"{extra} nuisance modes beyond the {n_modes} reported ones")
    if correlation > 0.2:
        notes.append(
            f"what {n_modes + extra} modes leave over is correlated over time ({correlation:.2f}): "
            "finer modes are treated as noise"
        )
    return extra


def _has_partial_rows(values: Array) -> bool:
    missing = np.isnan(values).sum(-1)
    return bool(((missing > 0) & (missing < values.shape[-1])).any())


def _gram(observed: Observed, domain: AbstractDomain, n_modes: int) -> Array:
    phi = domain.eigenfunctions(observed.points, n_modes)
    return phi.T @ phi


def _point_weights(variance: Array, n_points: int) -> Array:
    if len(variance) != n_points:
        raise DataError(
            "observation_noise", expected=f"one standard deviation a point ({n_points})",
            got=str(len(variance)), fix="pass one number, or one a point of the grid",
        )  # fmt: skip
    return 1.0 / variance


def _n_states(collapsed: Collapsed) -> float:
    total = 0.0
    for block in collapsed.blocks:
        gram = block.gram if block.is_diagonal else np.einsum("tiib->tib", block.gram)
        n = (gram > 0).sum((0, 1)).astype(float)
        total += float(n.sum() * (len(block.paths) if n.shape[0] == 1 else 1))
    return total


def _first_states(collapsed: Collapsed) -> tuple[Array, Array]:
    """Mean and spread over paths of the first estimate, where its row determines all modes."""
    found = []
    for block in collapsed.blocks:
        whole = np.broadcast_to(_determines(block.gram[0]), len(block.paths))
        found.append(block.estimate[0][:, whole])
    first = np.concatenate(found, axis=1)
    if first.shape[1] < 2:
        return (first[:, 0] if first.size else np.zeros(len(first))), np.zeros(len(first))
    return first.mean(1), first.var(1)


def _determines(gram: Array) -> Array:
    """Whether a row's Gram matrix (N, N, B), or its diagonal (N, B), is well conditioned."""
    if gram.ndim == 2:
        return (gram > 0).all(0)
    scale = np.einsum("iib->ib", gram)
    safe = np.where(scale > 0, scale, 1.0)
    unit = np.moveaxis(gram / np.sqrt(safe[:, None] * safe[None]), -1, 0)
    return (scale > 0).all(0) & (np.linalg.eigvalsh(unit)[:, 0] > 0.05)


def _starts_differ(collapsed: Collapsed, spread: Array, variance: float) -> bool:
    noise = variance / _starts.mean_gram(collapsed)
    return bool((spread > 4.0 * noise).any())


def _initial_kind(settings: Settings, differs: bool, n_paths: int) -> InitialKind:
    if settings.initial != "auto":
        return settings.initial  # type: ignore[return-value]
    return "gaussian" if differs and n_paths > 4 else "deterministic"
