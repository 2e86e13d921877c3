"""Noise, gaps, own clocks, mixed modes: maximum likelihood through the collapsed filter."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from spdelaw.data import Observed
from spdelaw.equation import Linear
from spdelaw.infer._design import Design, make_design
from spdelaw.infer._estimate import Fit
from spdelaw.infer._lag_covariances import centred, from_coefficient_pairs
from spdelaw.infer._mean import centred_fields, distance_of_fields
from spdelaw.infer._mean_decision import solve
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import (
    ALIKE,
    APART,
    MomentEstimates,
    energy_of,
    from_coefficients,
    initial_state,
    last_spread,
    mean_gram,
)
from spdelaw.infer._noise_decision import ALL, NONE, Candidate, noise_of
from spdelaw.infer._parametrise import parametrise
from spdelaw.infer._problem import Problem
from spdelaw.model import Collapsed, without_response

#: Misfit per value, relative to the energy, that is rounding and not noise.
NO_MISFIT = 1e-20
#: Observation variance of noise-free values with gaps, relative to the energy: far below any
#: increment, and large enough that rows which see only some modes keep their digits.
WORKING_VARIANCE = 1e-10
#: The same, that many times larger, where rows see fewer points than there are modes.
FEW_POINTS = 100.0
#: Share of the states that speak about a noise learned from the modes alone.
OWN_SHARE = 0.2
DECOUPLED = (
    "too many modes for gaps that differ from path to path: each mode has its marginal "
    "likelihood, without the correlation of errors between modes"
)


def by_filter(
    observed: Observed,
    n_modes: int,
    model: Model,
    *,
    threads: int = 1,
    polish: bool = True,
    quiet: Fit | None = None,
) -> Fit:
    """Estimate through the collapsed filter.

    Args:
        observed: the data.
        n_modes: reported modes.
        model: what is assumed.
        threads: of the likelihood.
        polish: False leaves out standard errors.
        quiet: a fit without noise, which stands where there is none.
    """
    clock, read = time.perf_counter(), [0.0]
    known: dict[tuple[str, str], Problem] = {}
    if observed.in_pieces:
        observed = observed.surveyed().at_seen_times()

    def posed(own: Model) -> Problem:
        begin, key = time.perf_counter(), (str(own.mean), own.initial)
        if key not in known:
            known[key] = pose(observed, n_modes, own, threads=threads, polish=polish)
        read[0] += time.perf_counter() - begin
        return known[key]

    if quiet is not None:
        mean = str(quiet.decisions["mean"].answer)
        decisions = posed(dataclasses.replace(model, mean=mean)).decisions
        noise = decisions.get("observation_noise")
        if noise is not None and noise.answer == NONE:
            own = {"observation_noise": noise, "nuisance": decisions["nuisance"]}
            return dataclasses.replace(quiet, decisions=quiet.decisions | own)
    away = distance_of_fields(observed, n_modes) if model.mean == "auto" else 0.0
    problem, found = solve(posed, model, away)
    seconds = {"read": read[0], "maximise": time.perf_counter() - clock - read[0]}
    return problem.fit(found, seconds)


def pose(
    observed: Observed, n_modes: int, model: Model, *, threads: int = 1, polish: bool = True
) -> Problem:
    """Collapse the fields and decide what is noise, what is a mode, and where to start.

    The mean is zero or constant; of a constant one the largest part is taken off the data first,
    so that none of these decisions sees it.
    """
    notes: list[str] = []
    centre, has_mean = np.zeros(0), model.mean == "constant"
    if has_mean:
        observed, centre = centred_fields(observed, n_modes)
    observed.check_change()
    design = make_design(observed, n_modes, model, notes)
    collapsed = design.collapsed()
    centre = np.pad(centre, (0, collapsed.n_modes - len(centre)))  # nuisance modes have none
    if collapsed.decoupled:
        notes.append(DECOUPLED)
    states = collapsed.n_states
    spare = collapsed.n_values - states
    moments, energy = _moments(collapsed, spare, design, model)
    working = WORKING_VARIANCE * energy * (FEW_POINTS if design.has_few_points else 1.0)

    def candidate(known: float | None) -> Problem:
        """The modes alone, with a known observation variance or one to estimate."""
        own = moments._replace(observation_variance=known or moments.observation_variance)
        noise = APART * own.observation_variance / mean_gram(collapsed)
        if model.initial == "auto" and spare <= 0 and collapsed.n_paths > 1:
            noise = np.minimum(noise, ALIKE * last_spread(collapsed))
        kind = initial_state(model, own.spread, noise, collapsed.n_paths)
        held = None if known is None else known or working
        parametrisation = parametrise(
            model, observed.domain, n_modes, kind, own, known_variance=held, origin=observed.origin
        )
        return Problem(
            design=design,
            collapsed=collapsed,
            parametrisation=parametrisation,
            moments=own,
            model=model,
            decisions={"initial_state": kind, "nuisance": design.nuisance},
            notes=tuple(notes),
            centre=centre,
            working=0.0 if design.rows_determine else working,
            threads=threads,
            polish=polish,
        )

    known, is_open = design.known, model.noise_word == "auto"
    beyond = spare if observed.in_pieces else design.n_beyond
    if is_open and known is None and 0 < beyond >= collapsed.misfit / (NO_MISFIT * energy):
        # The modes hold the fields to rounding: a variance to estimate would run off to zero.
        known = 0.0
    if known is not None or spare <= 0 or design.n_nuisance or not design.rows_determine:
        problem = dataclasses.replace(candidate(known), count=max(spare, states))
    else:
        problem = _with_noise(candidate, states, spare, is_open)
    return dataclasses.replace(problem, has_mean=has_mean)


def _with_noise(candidate: Candidate, states: float, spare: float, is_open: bool) -> Problem:
    """The problem with as much observation noise as the data show."""
    outside = candidate(None).collapsed.misfit / spare

    def inside(known: float | None) -> Problem:
        return dataclasses.replace(candidate(known), outside=outside, count=OWN_SHARE * states)

    noise = noise_of(inside, outside, is_open)
    if noise.answer == ALL:
        problem = dataclasses.replace(candidate(None), count=spare)
    else:
        problem = inside(0.0 if noise.answer == NONE else None)
    return problem.decided(observation_noise=noise)


def _moments(
    collapsed: Collapsed, spare: float, design: Design, model: Model
) -> tuple[MomentEstimates, float]:
    """Estimates to start from, and the energy of a value."""
    found, energy = _first_moments(collapsed, spare, design)
    if model.forcing is not None:  # the response at a first guess, then a better one
        driven = Linear(found.drift, found.noise, None, model.forcing, design.observed.origin)
        collapsed = collapsed.changed(without_response, driven)
        found, energy = _first_moments(collapsed, spare, design)
    if model.couples:
        collapsed = collapsed if model.forcing is None else collapsed.changed(centred)
        found = from_coefficient_pairs(collapsed, found, model.couples_drift)
    return found, energy


def _first_moments(
    collapsed: Collapsed, spare: float, design: Design
) -> tuple[MomentEstimates, float]:
    guess = max(collapsed.misfit / spare, 0.0) if spare > 0 else 0.0
    found, gram = from_coefficients(collapsed, guess), mean_gram(collapsed)
    energy = float(np.median(found.energy * gram))
    if not design.rows_determine:  # moments are noise, and a working variance rests on this
        energy = max(energy, sum(collapsed.over(energy_of)) / max(collapsed.n_values, 1.0))
    if design.first is not None:
        lam, q = design.first
        found = found._replace(drift=lam, noise=q, error=np.zeros(len(q)), energy=q / (2.0 * lam))
    guess = guess or float(np.median(found.error * gram))
    return found._replace(observation_variance=max(guess, 1e-14 * energy)), energy
