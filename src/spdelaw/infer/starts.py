"""Several starts of a search, and the highest maximum that they lead to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer.moments import MomentEstimates, from_coefficient_pairs, from_coefficients
from spdelaw.infer.objective import LogPosterior, estimate
from spdelaw.infer.optimise import Estimate
from spdelaw.infer.parameters import (
    AbstractCoordinates,
    OperatorTied,
    PowerTied,
    Single,
    WithNuisance,
    starting_vector,
)
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Block, Collapsed
from spdelaw.statespace.filter import PathNormals, sample_states

if TYPE_CHECKING:
    from spdelaw.infer.engines.filter_route import FilterObjective


# ---------- Starts of spectra where moments mislead


Array = np.ndarray

#: Number of decay rates tried as starts of a smooth spectrum.
SMOOTH_STARTS = 4
#: Noise shares of the mean square tried where rows do not determine the modes.
NOISE_SHARES = (0.5, 0.1, 0.01, 1e-6)


def smooth_starts(problem: FilterObjective) -> Iterator[Array]:
    """Starts that share the energy of the data among the modes, slow to fast, and noise.

    Scattered points that barely separate the modes give least-squares coefficients, and so moment
    estimates, that are noise: from there a formula diverges to ``nu = 0`` and stays, and single
    modes diverge to white noise.
    """
    is_tied = isinstance(problem.parametrisation.parts["drift"], OperatorTied)
    if _is_scattered(problem) or is_tied:
        yield from _shared_energy_starts(problem, NOISE_SHARES if _has_noise(problem) else (0.0,))


def _is_scattered(problem: FilterObjective) -> bool:
    return problem.is_diagonal and not problem.design.rows_determine


def _has_noise(problem: FilterObjective) -> bool:
    return "observation" in problem.parametrisation.parts and not problem.design.rows_determine


def _shared_energy_starts(problem: FilterObjective, shares: tuple[float, ...]) -> Iterator[Array]:
    parts, slices = problem.parametrisation.parts, problem.parametrisation.slices
    drift, noise, design = parts["drift"], parts["noise"], problem.design
    mu, n = np.asarray(design.mu), np.arange(1, len(design.mu) + 1)
    span, step = design.observed.span, design.observed.step
    if not mu.any():
        return
    share, power = np.mean(design.basis**2, axis=0) / n, problem.mean_square
    for rate in np.geomspace(2.0 / span, max(0.5 / step, 4.0 / span), SMOOTH_STARTS):
        lam = rate * (0.2 + mu / np.median(mu[mu > 0]))
        for left in shares:
            level = (1.0 - left) * power / np.sum(share / (2.0 * lam))
            start = problem.start.copy()
            start[slices["drift"]] = drift.start(lam)
            start[slices["noise"]] = noise.start(level / n)
            if left:
                start[slices["observation"]] = parts["observation"].start(np.asarray(left * power))
            yield start


# ---------- The highest maximum of several starts
#
# Where rows do not determine all modes, or noise is strong, moments of least-squares coefficients
# are noise themselves, and a likelihood has lower maxima than the highest. So a search starts
# from wherever the likelihood is highest among starts that cost little: moments, spectra that share
# the energy of the data, the maximum of a simpler model, and from there a few rounds of
#
#     states ~ p(states | data, law),      law = lag covariances of these states,
#
# expectation-maximisation with one draw in place of the expectation.


#: Number of modes from which a formula has fewer parameters than free modes have.
FORMULA_MODES = 3
#: Rounds of drawn states, and the seed of the draws.
DRAWN_ROUNDS, DRAWN_SEED = 4, 0
#: Working variances, relative to the last, that a search without noise goes through.
ANNEALING_FACTORS = (1e8, 1e5, 1e2)
#: Errors of a start that has no maximum.
START_ERRORS = (ConvergenceError, ArithmeticError, ValueError)


def highest(problem: FilterObjective) -> Estimate:
    """The maximum that the highest of the starts leads to."""
    first = _usable_posteriors(problem, [problem.start])
    single = _usable_posteriors(problem, single_starts(problem))
    coupled = [*first, *single] if single or not problem.is_diagonal else []
    drawn = [one for start in coupled for one in _drawn_state_posteriors(problem, start)]
    posteriors = [*first, *single, *drawn]
    for more in (smooth_starts, formula_starts):
        posteriors += _usable_posteriors(problem, more(problem))
    if not posteriors:
        return estimate(problem.posterior(), polish=problem.polish)  # raises the error
    best = max(posteriors, key=LogPosterior.start_value)
    annealed = _usable_posteriors(problem, annealed_starts(problem, best))
    best = max([best, *annealed], key=LogPosterior.start_value)
    return estimate(best, polish=problem.polish, rough=problem.rough)


def _usable_posteriors(problem: FilterObjective, starts: Iterable[Array]) -> list[LogPosterior]:
    """Starts that have a likelihood."""
    posteriors = []
    for start in starts:
        try:
            posteriors.append(problem.posterior(start))
        except START_ERRORS:
            continue
    return posteriors


def formula_starts(problem: FilterObjective) -> Iterator[Array]:
    """The best law of a few numbers, ``kappa + nu mu^s`` and ``scale n^-exponent``, as a start.

    Rows that do not determine all modes have least-squares coefficients, and so moment estimates,
    that are noise; from there a spectrum of free numbers ends far below the truth. A formula
    never did, and its maximum is a point of the richer model.
    """
    parts, design = problem.parametrisation.parts, problem.design
    free = problem.is_diagonal and not isinstance(parts["drift"], OperatorTied)
    if not free or design.rows_determine or len(design.mu) < FORMULA_MODES:
        return
    yield from _simpler_model_start(
        problem, drift=OperatorTied(tuple(design.mu)), noise=PowerTied(len(design.mu))
    )


def annealed_starts(problem: FilterObjective, first: LogPosterior) -> Iterator[Array]:
    """A start from searches with less and less noise, where values do not determine the modes.

    A row that fixes some combinations of the modes to ten digits makes the likelihood a ridge that
    no search climbs from afar.
    """
    parametrisation, r = problem.parametrisation, problem.parametrisation.observation_variance
    held = "observation" in parametrisation.parts or bool(problem.design.known)
    if held or problem.design.rows_determine:
        return
    start = first.base
    for factor in ANNEALING_FACTORS:
        noisier = dataclasses.replace(parametrisation, observation_variance=factor * r)
        warmer = dataclasses.replace(problem, parametrisation=noisier, polish=False)
        try:
            start = estimate(warmer.posterior(start), polish=False).full
        except START_ERRORS:
            continue
    yield start


def single_starts(problem: FilterObjective) -> Iterator[Array]:
    """The best law of single modes as a start of coupled ones."""
    if problem.is_diagonal:
        return
    n, extra = problem.parametrisation.n_modes, problem.design.n_nuisance
    parts = problem.parametrisation.parts
    simple: dict[str, AbstractCoordinates] = {}
    for name, what in (("drift", "eigenvalue"), ("noise", "noise_variance")):
        coordinates, simple[name] = parts[name], Single(what, n - extra)
        if isinstance(coordinates, WithNuisance):
            simple[name] = WithNuisance(simple[name], coordinates.nuisance, n - extra)
    yield from _simpler_model_start(problem, **simple)


def _simpler_model_start(
    problem: FilterObjective, **simple: AbstractCoordinates
) -> Iterator[Array]:
    """The maximum of a simpler model of the same data as a point of this one."""
    parts, moments = problem.parametrisation.parts, problem.moments
    if "initial_variance" in parts:
        simple["initial_variance"] = Single("initial_variance", problem.parametrisation.n_modes)
    few = dataclasses.replace(problem.parametrisation, parts={**parts, **simple})
    model = dataclasses.replace(
        problem.model, fixed=None, priors=None, drift="diagonal", noise="diagonal"
    )
    if not problem.is_diagonal:  # the diagonal of a stable matrix need not be positive
        moments = from_coefficients(problem.collapsed, moments.observation_variance)
        moments = moments._replace(n_values=problem.count)
    quick = dataclasses.replace(
        problem, parametrisation=few, model=model, moments=moments, polish=False
    )
    try:
        simple_estimate = highest(quick)
    except START_ERRORS:
        return
    linear, initial = simple_estimate.state_space.linear, simple_estimate.state_space.initial
    near = {"drift": linear.drift, "noise": linear.noise, "initial_variance": initial.covariance}
    yield np.concatenate(
        [
            coordinates.start(near[name])
            if name in near
            else simple_estimate.full[few.slices[name]]
            for name, coordinates in parts.items()
        ]
    )


def _drawn_state_posteriors(problem: FilterObjective, start: LogPosterior) -> list[LogPosterior]:
    """Posteriors around laws of states drawn given the data, each under the law before it."""
    generator, posteriors = np.random.default_rng(DRAWN_SEED), [start]
    try:
        for _ in range(DRAWN_ROUNDS):
            full = posteriors[-1].base
            space, seed = problem.parametrisation.state_space(full), generator.integers(2**31)
            data = problem.collapsed.changed(_drawn_block, space, int(seed))
            plain = from_coefficients(data, 0.0)
            full = _with_lag_covariances(problem, data, plain, full, ("drift", "noise"))
            posteriors.append(problem.posterior(full))
    except START_ERRORS:
        pass
    return posteriors[1:]


def _with_lag_covariances(
    problem: FilterObjective,
    data: Collapsed,
    plain: MomentEstimates,
    full: Array,
    which: tuple[str, ...],
) -> Array:
    """Full vector with some parts replaced by those of the lag covariances of ``data``."""
    parametrisation, model = problem.parametrisation, problem.model
    plain = plain._replace(error=np.zeros(data.n_modes))
    apart = problem.is_diagonal
    moments = from_coefficient_pairs(data, plain, model.couples_drift or apart, apart=apart)
    near, out = starting_vector(parametrisation, moments), full.copy()
    for part in which:
        out[parametrisation.slices[part]] = near[parametrisation.slices[part]]
    return out


def _drawn_block(block: Block, space: StateSpace, seed: int) -> Block:
    """A block whose estimates are one draw of the states, every row of which determines them."""
    drawn = sample_states(block, space, 1, PathNormals(seed, block.paths))[0]
    ones = np.ones((*block.gram.shape[:2], 1))
    return block._replace(estimate=drawn, gram=ones, log_gram=np.zeros(1))
