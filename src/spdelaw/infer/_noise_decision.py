"""Is there observation noise, and is what the modes leave over nothing else?

On a grid that keeps modes apart, noise can be learned from the reported modes alone, and
further modes do no harm. What lies outside the modes says much more about the noise, but only if
it is noise. These functions decide, on the first paths, and return what they compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer._estimate import Decision, Estimate
from spdelaw.infer._moment_estimates import unit_errors
from spdelaw.infer._nuisance import residual_correlation
from spdelaw.infer._problem import Problem

#: Log-likelihood that observation noise has to gain over none.
NOISE_GAIN = 3.0
#: Lag-one correlation below which what the modes leave over counts as white in time.
WHITE_RESIDUAL = 0.1
#: Twice the log-likelihood that may be lost at three standard deviations.
THREE_DEVIATIONS = 9.0
#: Answers: noise is all that the modes leave over, only part of it, or there is none.
ALL, INSIDE, NONE = "all that the modes leave over", "inside the modes", "none"

#: Makes a problem with a known observation variance, or with one to estimate for None.
Candidate = Callable[[float | None], Problem]


def noise_of(candidate: Candidate, outside: float, is_open: bool) -> Decision:
    """Which of `ALL`, `INSIDE` and `NONE` it is.

    Args:
        candidate: problem of the modes alone.
        outside: mean square of what the modes leave over.
        is_open: whether there may be no noise.
    """
    found = all_noise(candidate, outside, is_open)
    if found.answer == ALL or not is_open:
        return found
    inside = noise_inside(candidate)
    return inside._replace(compared={**found.compared, **inside.compared})


def all_noise(candidate: Candidate, outside: float, is_open: bool) -> Decision:
    """Whether what the modes leave over is noise and nothing else: `ALL` or `INSIDE`.

    Noise is white in time, an unresolved mode is not, and noise has the same variance inside
    the modes. Where the correlation leaves doubt, the modes alone decide, by a likelihood-ratio
    test at three standard deviations.
    """
    probe = candidate(None)
    design = probe.design
    correlation, error = residual_correlation(design.values, design.clock_of_values, design.basis)
    compared = {"residual_correlation": correlation, "its_standard_error": error}
    if outside <= 0.0 or correlation > WHITE_RESIDUAL:
        return Decision(INSIDE, compared)
    inside = float(np.median(probe.moments.error / unit_errors(probe.collapsed)))
    compared |= {"variance_outside": outside, "variance_inside": inside}
    if correlation < 3.0 * error and 0.5 * outside < inside < 2.0 * outside:
        return Decision(ALL, compared)
    tried = {"estimated": None, "as_outside": outside} | ({"none": 0.0} if is_open else {})
    heights = {name: _height(_probed(candidate(known))) for name, known in tried.items()}
    compared |= {f"log_likelihood_{name}": value for name, value in heights.items()}
    lost = 2.0 * (max(heights.values()) - heights["as_outside"])
    return Decision(ALL if lost < THREE_DEVIATIONS else INSIDE, compared)


def noise_inside(candidate: Candidate) -> Decision:
    """Whether the modes alone show noise: `INSIDE` or `NONE`.

    A deterministic initial state seen without noise makes the likelihood grow without bound as
    the variance falls, so a variance near the working one is none.
    """
    quiet = candidate(0.0)
    found, without = _probed(candidate(None)), _probed(quiet)
    gain = _height(found) - _height(without)
    compared = {"gain_of_noise": gain, "gain_needed": NOISE_GAIN}
    if found is None or without is None:
        return Decision(NONE if found is None else INSIDE, compared)
    variance = float(found.state_space.observation_variance)
    is_noise = variance >= 1e3 * quiet.parametrisation.observation_variance and gain > NOISE_GAIN
    return Decision(INSIDE if is_noise else NONE, compared)


def _height(found: Estimate | None) -> float:
    return -np.inf if found is None else found.log_likelihood


def _probed(problem: Problem) -> Estimate | None:
    """A quick fit of the first paths, without curvature; None where it fails."""
    quick = dataclasses.replace(problem.head(), polish=False, count=problem.count)
    try:
        return quick.run()
    except ConvergenceError:
        return None
