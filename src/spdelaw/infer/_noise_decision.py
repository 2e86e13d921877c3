"""Is there observation noise, and is what the modes leave over nothing else?

On a grid that keeps modes apart, noise can be learned from the reported modes alone, and
further modes do no harm. What lies outside the modes says much more about the noise, but only if
it is noise. These functions decide, on the first paths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from spdelaw.errors import ConvergenceError
from spdelaw.infer import _starts
from spdelaw.infer._nuisance import residual_correlation
from spdelaw.infer._problem import Solution
from spdelaw.infer._settings import Settings
from spdelaw.infer._task import WARM_PATHS, Task
from spdelaw.infer._view import View
from spdelaw.model import first_paths

#: Log-likelihood that observation noise has to gain over none.
NOISE_GAIN = 3.0
#: Lag-one correlation below which what the modes leave over counts as white in time.
WHITE_RESIDUAL = 0.1

#: Makes a task with a known observation variance, or with one to estimate for None.
MakeTask = Callable[[float | None], Task]


def all_noise(
    task: MakeTask, view: View, outside: float, states: float, settings: Settings
) -> bool:
    """Whether what the modes leave over is noise and nothing else.

    Noise is white in time, an unresolved mode is not, and noise has the same variance inside
    the modes. Where the correlation leaves doubt, the modes alone decide, by a likelihood-ratio
    test at three standard deviations.
    """
    correlation, error = residual_correlation(view.values, view.times, view.basis, view.products)
    if outside <= 0.0 or correlation > WHITE_RESIDUAL:
        return False
    probe = task(None)
    inside = float(np.median(probe.rough.noise * _starts.mean_gram(probe.collapsed)))
    if correlation < 3.0 * error and 0.5 * outside < inside < 2.0 * outside:
        return True
    free = _probed(probe, states)
    held = _probed(task(outside), states)
    if held is None:
        return False
    none = _probed(task(0.0), states) if settings.noise_word == "auto" else None
    best = max(s.log_likelihood for s in (free, held, none) if s is not None)
    return 2.0 * (best - held.log_likelihood) < 9.0


def noise_inside(task: MakeTask, states: float, settings: Settings) -> bool:
    """Whether the modes alone show noise; "auto" may do without.

    A deterministic initial state seen without noise makes the likelihood grow without bound as
    the variance falls, so a variance near the working one is none.
    """
    if settings.noise_word != "auto":
        return True
    quiet = task(0.0)
    found, without = _probed(task(None), states), _probed(quiet, states)
    if found is None or without is None:
        return found is not None
    if found.parameters.observation_variance < 1e3 * quiet.layout.known_variance:
        return False
    return found.log_likelihood > without.log_likelihood + NOISE_GAIN


def _probed(task: Task, states: float) -> Solution | None:
    """A quick fit of the modes of the first paths, without curvature; None where it fails."""
    view, n = task.view, WARM_PATHS
    times = view.times if view.times.ndim == 1 else view.times[:n]
    few = view._replace(values=view.values[:n], times=times)
    part = first_paths(task.collapsed, n)
    quick = dataclasses.replace(task, collapsed=part, view=few, polish=False)
    try:
        return quick.run(use_misfit=False, count=0.2 * states)
    except ConvergenceError:
        return None
