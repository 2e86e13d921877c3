"""Is there observation noise, and is what the modes leave over nothing else?

On a grid that keeps modes apart, noise can be learned from the reported modes alone, and
further modes do no harm. What lies outside the modes says much more about the noise, but only if
it is noise. These functions decide, on the first paths, and return what they compared.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer._estimate import Decision, Estimate
from spdelaw.infer._moment_estimates import unit_errors
from spdelaw.infer._nuisance import residual_correlation
from spdelaw.infer._posterior import estimate
from spdelaw.infer._problem import Problem

Array = np.ndarray

#: Log-likelihood that observation noise has to gain over none.
NOISE_GAIN = 3.0
#: Lag-one correlation below which what the modes leave over counts as white in time.
WHITE_RESIDUAL = 0.1
#: Twice the log-likelihood that may be lost at three standard deviations.
THREE_DEVIATIONS = 9.0
#: Directions of the first state with less than this share of the largest information are not seen.
UNSEEN = 1e-9
#: Answers: noise is all that the modes leave over, only part of it, or there is none.
ALL, INSIDE, NONE = "all that the modes leave over", "inside the modes", "none"

#: Makes a problem with a known observation variance, or with one to estimate for None.
Candidate = Callable[[float | None], Problem]
#: A quick fit by name.
Probe = Callable[[str], Estimate | None]


def noise_of(candidate: Candidate, outside: float, is_open: bool) -> Decision:
    """Which of `ALL`, `INSIDE` and `NONE` it is.

    Args:
        candidate: problem of the modes alone.
        outside: mean square of what the modes leave over.
        is_open: whether there may be no noise.
    """
    free = candidate(None)
    probe = _probes(candidate, free, outside)
    found = _all_noise(free, outside, probe, is_open)
    if found.answer == ALL:
        return found
    inside = _noise_inside(probe) if is_open else found
    compared = found.compared | inside.compared
    own = probe("estimated") if inside.answer == INSIDE and outside > 0.0 else None
    if own is not None:
        # Noise is everywhere: there cannot be more of it in the modes than outside them.
        variance = float(own.state_space.observation_variance)
        compared |= {"variance_outside": outside, "variance_estimated": variance}
        return Decision(ALL if variance > outside else INSIDE, compared)
    return inside._replace(compared=compared)


def _probes(candidate: Candidate, free: Problem, outside: float) -> Probe:
    """Quick fits of the first paths, without curvature, each made once.

    "none" is without noise, "as_outside" with the variance of what the modes leave over, and
    "estimated" with a variance of its own, from the one outside where there is a fit with it.
    """

    @functools.cache
    def probe(name: str) -> Estimate | None:
        if name == "none":
            return _probed(candidate(0.0))
        if name == "as_outside":
            return _probed(candidate(outside)) if outside > 0.0 else None
        near, own = probe("as_outside"), free.parametrisation
        if near is None:
            return _probed(free)
        parts = {name: near.full[where] for name, where in near.parametrisation.slices.items()}
        parts["observation"] = own.parts["observation"].start(np.asarray(outside))
        return _probed(free, np.concatenate([parts[name] for name in own.parts]))

    return probe


def _all_noise(free: Problem, outside: float, probe: Probe, is_open: bool) -> Decision:
    """Whether what the modes leave over is noise and nothing else: `ALL` or `INSIDE`.

    Noise is white in time, an unresolved mode is not, and noise has the same variance inside
    the modes. Where the correlation leaves doubt, the modes alone decide, by a likelihood-ratio
    test at three standard deviations.
    """
    design = free.design
    correlation, error = residual_correlation(design.observed, design.basis, design.products)
    compared = {"residual_correlation": correlation, "its_standard_error": error}
    if outside <= 0.0 or correlation > WHITE_RESIDUAL:
        return Decision(INSIDE, compared)
    inside = float(np.median(free.moments.error / unit_errors(free.collapsed)))
    compared |= {"variance_outside": outside, "variance_inside": inside}
    if correlation < 3.0 * error and 0.5 * outside < inside < 2.0 * outside:
        return Decision(ALL, compared)
    tried = ("estimated", "as_outside", *(("none",) if is_open else ()))
    heights = {name: _height(probe(name)) for name in tried}
    compared |= {f"log_likelihood_{name}": value for name, value in heights.items()}
    lost = 2.0 * (max(heights.values()) - heights["as_outside"])
    return Decision(ALL if lost < THREE_DEVIATIONS else INSIDE, compared)


def _noise_inside(probe: Probe) -> Decision:
    """Whether the modes alone show noise: `INSIDE` or `NONE`.

    A variance near the working one is none.
    """
    found, without = probe("estimated"), probe("none")
    gain = _height(found) - _height(without)
    compared = {"gain_of_noise": gain, "gain_needed": NOISE_GAIN}
    if found is None or without is None:
        return Decision(NONE if found is None else INSIDE, compared)
    variance = float(found.state_space.observation_variance)
    working = without.parametrisation.observation_variance
    is_noise = variance >= 1e3 * working and gain > NOISE_GAIN
    return Decision(INSIDE if is_noise else NONE, compared)


def _height(found: Estimate | None) -> float:
    """Log-likelihood with the mean of the first states integrated out."""
    if found is None:
        return -np.inf
    if "initial_mean" not in found.parametrisation.parts:
        return found.log_likelihood
    values = np.linalg.eigvalsh(found.posterior.at(found.optimum.x)[2])
    seen = values[values > UNSEEN * values[-1]]
    return found.log_likelihood - 0.5 * float(np.log(seen / (2.0 * np.pi)).sum())


def _probed(problem: Problem, start: Array | None = None) -> Estimate | None:
    """A quick fit of the first paths, without curvature; None where it fails."""
    quick = dataclasses.replace(problem.head(), polish=False, count=problem.count)
    try:
        if start is None:
            return quick.run()
        posterior, own = quick.posterior(start), problem.parametrisation
        if own.initial_kind == "deterministic":
            # Its mean is taken from the first row, whose density ``std^-N`` grows without bound as
            # the noise falls, and says nothing: to integrate it out adds ``N log std``.
            tilt = np.zeros(len(start))
            tilt[own.slices["observation"]] = len(posterior.scale) - posterior.n_plain
            posterior = dataclasses.replace(posterior, tilt=tilt)
        return estimate(posterior, polish=False)
    except ConvergenceError:
        return None
