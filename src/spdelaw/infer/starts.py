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

#: Decay within a step, and standard error of a logarithm, above which a mode has diverged.
RUNAWAY_DECAY, RUNAWAY_ERROR = 3.0, 1.5
#: Number of decay rates tried as starts of a smooth spectrum.
SMOOTH_STARTS = 4
#: Noise shares of the mean square tried where rows do not determine the modes; a negligible one.
NOISE_SHARES, LOW_NOISE_SHARES = (0.5, 0.1, 0.01), (1e-6,)


def smooth_starts(problem: FilterObjective) -> Iterator[Array]:
    """Starts that share the energy of the data among the modes, slow to fast, and noise.

    Scattered points that barely separate the modes give least-squares coefficients, and so moment
    estimates, that are noise: from there a formula diverges to ``nu = 0`` and stays, and single
    modes diverge to white noise.
    """
    is_tied = isinstance(problem.parametrisation.parts["drift"], OperatorTied)
    if _is_scattered(problem) or is_tied:
        yield from _shared_energy_starts(problem, NOISE_SHARES if _has_noise(problem) else (0.0,))


def low_noise_starts(problem: FilterObjective) -> Iterator[Array]:
    """Starts of `smooth_starts` with negligible noise.

    Such a start is low, but where there is little noise a search from it finds the maximum; from
    more noise, modes that have to explain it become white noise themselves and stay there.
    """
    if _is_scattered(problem) and _has_noise(problem):
        yield from _shared_energy_starts(problem, LOW_NOISE_SHARES)


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


def second_start(problem: FilterObjective, estimate: Estimate) -> Array | None:
    """A start in which modes that diverged to white noise follow the formulas of the others.

    For a mode much faster than a step the likelihood is flat: a maximiser that gets there
    stays, although the maximum may be elsewhere. None where no mode of a spectrum is lost.
    """
    if not estimate.state_space.is_diagonal:
        return None
    parts, slices = estimate.parametrisation.parts, estimate.parametrisation.slices
    dynamics = estimate.state_space.linear
    n = dynamics.n_modes - problem.design.n_nuisance
    lost = dynamics.drift[:n] * problem.observed.step > RUNAWAY_DECAY
    if parts["drift"].names[0].startswith("eigenvalue["):
        lost |= estimate.errors("drift")[:n] > RUNAWAY_ERROR
    if not lost.any() or (~lost).sum() < 2:
        return None
    index, start = np.log(np.arange(1, n + 1)), estimate.full.copy()
    for part, values in (("drift", dynamics.drift), ("noise", dynamics.noise)):
        line = np.polyfit(index[~lost], np.log(values[:n][~lost]), 1)
        smooth = np.where(lost, np.exp(np.polyval(line, index)), values[:n])
        start[slices[part]] = parts[part].start(np.concatenate([smooth, values[n:]]))
    return start


# ---------- The highest maximum of several starts
#
# Where rows do not determine all modes, or noise is strong, moments of least-squares coefficients
# are noise themselves, and a likelihood has lower maxima beside the highest. So a search starts
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
#: Share of the mean square that is as good as no noise.
NEGLIGIBLE_NOISE_SHARE = 1e-8
#: Errors of a start that has no maximum.
START_ERRORS = (ConvergenceError, ArithmeticError, ValueError)


def highest(problem: FilterObjective) -> Estimate:
    """The highest of the maxima that the starts lead to."""
    first = _usable_posteriors(problem, [problem.start])
    cheap = _usable_posteriors(problem, smooth_starts(problem))
    single = _usable_posteriors(problem, single_starts(problem))
    coupled = [*first, *single] if single or not problem.is_diagonal else []
    drawn = [one for start in coupled for one in _drawn_state_posteriors(problem, start)]
    tried = (
        [*first, *cheap, *single, *drawn],
        _usable_posteriors(problem, low_noise_starts(problem)),
    )
    posteriors = [max(some, key=LogPosterior.start_value) for some in tried if some]
    if not posteriors:
        return estimate(problem.posterior(), polish=problem.polish)  # raises the error
    posteriors += _usable_posteriors(problem, formula_starts(problem))
    posteriors += _usable_posteriors(problem, annealed_starts(problem, posteriors[0]))
    best = _highest_estimate(posteriors, problem.polish)
    for noise_free in _usable_posteriors(problem, without_noise(problem)):
        if noise_free.start_value() > best.optimum.value:  # the best so far was no maximum
            best = _highest_estimate([noise_free], problem.polish, best)
    again = second_start(problem, best) if problem.polish else None
    if again is None:
        return best
    return _highest_estimate([problem.posterior(again)], problem.polish, best)


def _usable_posteriors(problem: FilterObjective, starts: Iterable[Array]) -> list[LogPosterior]:
    """Starts that have a likelihood."""
    posteriors = []
    for start in starts:
        try:
            posteriors.append(problem.posterior(start))
        except START_ERRORS:
            continue
    return posteriors


def _highest_estimate(posteriors: list[LogPosterior], polish: bool, *earlier: Estimate) -> Estimate:
    """The highest of their maxima; an error of a start is raised only if all fail.

    Of several estimates only the highest after a search is polished, the next ones only where its
    likelihood rises without bound, so that its value means nothing.
    """
    quick = polish and len(posteriors) > 1
    estimates, wrong = [], None
    for posterior in posteriors:
        try:
            estimates.append(estimate(posterior, polish=polish and not quick))
        except ConvergenceError as error:
            wrong = error
    if quick:
        estimates = _polished_estimates(estimates)
    estimates += earlier
    if not estimates and wrong is not None:
        raise wrong
    return max(estimates, key=lambda one: (one.optimum.is_bounded, one.log_likelihood))


def _polished_estimates(rough: list[Estimate]) -> list[Estimate]:
    """Estimates with curvature, from the highest on down to the first maximum."""
    out: list[Estimate] = []
    for one in sorted(rough, key=lambda one: -one.log_likelihood):
        if not out or not out[-1].optimum.is_bounded:
            out.append(estimate(one.posterior.moved(one.optimum.x)))
    return out


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


def without_noise(problem: FilterObjective) -> Iterator[Array]:
    """The best law of known coefficients, with negligible noise.

    With equal steps and complete rows that is the maximum of the law without noise; a lower one
    with noise may exist too.
    """
    parts = problem.parametrisation.parts
    if "observation" in parts and problem.design.rows_determine:
        plain = from_coefficients(problem.collapsed, NEGLIGIBLE_NOISE_SHARE * problem.mean_square)
        start = problem.start.copy()
        yield _with_lag_covariances(
            problem, problem.collapsed, plain, start, ("drift", "noise", "observation")
        )


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
