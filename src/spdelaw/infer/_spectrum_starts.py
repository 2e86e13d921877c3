"""Starts of spectra where moments of the coefficients mislead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from spdelaw.infer._coordinates import OperatorTied
from spdelaw.infer._estimate import Estimate

if TYPE_CHECKING:
    from spdelaw.infer._problem import Problem

Array = np.ndarray

#: Decay within a step, and standard error of a logarithm, that mark a mode as run away.
RUNAWAY_DECAY, RUNAWAY_ERROR = 3.0, 1.5
#: Decay rates that a tied drift is tried at before it is maximised.
SMOOTH_STARTS = 4
#: Shares of the mean square that are tried as noise where rows do not determine the modes, and the
#: share of hardly any.
NOISE_SHARES, QUIET = (0.5, 0.1, 0.01), (1e-6,)


def smooth_starts(problem: Problem) -> Iterator[Array]:
    """Starts that share the energy of the data among the modes, slow to fast, and noise.

    Scattered points that barely tell the modes apart give least-squares coefficients, and so
    moment estimates, that are noise: from there a formula runs off to ``nu = 0`` and stays, and
    single modes run off to white noise.
    """
    is_tied = isinstance(problem.parametrisation.parts["drift"], OperatorTied)
    if _is_scattered(problem) or is_tied:
        yield from _smooth(problem, NOISE_SHARES if _has_noise(problem) else (0.0,))


def quiet_starts(problem: Problem) -> Iterator[Array]:
    """The same with hardly any noise.

    Such a start is low, but where there is little noise a search from it finds the maximum; from
    more noise, modes that have to explain it become white noise themselves and stay there.
    """
    if _is_scattered(problem) and _has_noise(problem):
        yield from _smooth(problem, QUIET)


def _is_scattered(problem: Problem) -> bool:
    return problem.is_diagonal and not problem.design.rows_determine


def _has_noise(problem: Problem) -> bool:
    return "observation" in problem.parametrisation.parts and not problem.design.rows_determine


def _smooth(problem: Problem, shares: tuple[float, ...]) -> Iterator[Array]:
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


def second_start(problem: Problem, found: Estimate) -> Array | None:
    """A start in which modes that ran off to white noise follow the others' formulas.

    For a mode much faster than a step the likelihood is flat: a maximiser that gets there
    stays, although the maximum may be elsewhere. None where no mode of a spectrum is lost.
    """
    if not found.state_space.is_diagonal:
        return None
    parts, slices = found.parametrisation.parts, found.parametrisation.slices
    dynamics = found.state_space.linear
    n = dynamics.n_modes - problem.design.n_nuisance
    lost = dynamics.drift[:n] * problem.observed.step > RUNAWAY_DECAY
    if parts["drift"].names[0].startswith("eigenvalue["):
        lost |= found.errors("drift")[:n] > RUNAWAY_ERROR
    if not lost.any() or (~lost).sum() < 2:
        return None
    index, start = np.log(np.arange(1, n + 1)), found.full.copy()
    for part, values in (("drift", dynamics.drift), ("noise", dynamics.noise)):
        line = np.polyfit(index[~lost], np.log(values[:n][~lost]), 1)
        smooth = np.where(lost, np.exp(np.polyval(line, index)), values[:n])
        start[slices[part]] = parts[part].start(np.concatenate([smooth, values[n:]]))
    return start
