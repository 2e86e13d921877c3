"""One maximisation through the filter, with its starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from spdelaw.infer import _starts
from spdelaw.infer._coordinates import OperatorTied
from spdelaw.infer._coupled_layout import CoupledLayout
from spdelaw.infer._layout import Layout, fixed_values, prior_terms
from spdelaw.infer._problem import (
    Problem,
    Solution,
    free_vector,
    log_posterior,
    solve,
    starting_scale,
)
from spdelaw.infer._settings import Settings
from spdelaw.infer._view import View
from spdelaw.model import (
    AnyEvaluation,
    Collapsed,
    Parameters,
    evaluate_forced,
    evaluate_likelihood,
    first_paths,
    rotate,
)

Array = np.ndarray

#: A fit of many paths starts from a fit of this many, which costs little and lands close.
WARM_PATHS = 100
#: Decay within a step, and standard error of a logarithm, that mark a mode as run away.
RUNAWAY_DECAY, RUNAWAY_ERROR = 3.0, 1.5
#: Decay rates that a tied drift is tried at before it is maximised.
SMOOTH_STARTS = 4


@dataclasses.dataclass(frozen=True)
class Task:
    """The data, the coordinates and where to start."""

    collapsed: Collapsed
    view: View
    layout: Layout
    start: Array
    rough: _starts.Rough
    settings: Settings
    polish: bool

    def run(self, *, use_misfit: bool, count: float) -> Solution:
        """Maximise; many paths start from a fit of the first ones, runaway modes start again."""
        if self.collapsed.n_paths < 2 * WARM_PATHS or self.collapsed.decoupled:
            return self._best(self.collapsed, use_misfit, count)
        first = first_paths(self.collapsed, WARM_PATHS)
        warm = self._best(first, use_misfit, count, polish=True)
        shrunk = warm.columns * np.sqrt(WARM_PATHS / self.collapsed.n_paths)
        problem = self.problem(use_misfit, count)
        return solve(problem, warm._replace(columns=shrunk), polish=self.polish)

    def problem(self, use_misfit: bool, count: float) -> Problem:
        """The maximisation over all paths."""
        return self._problem(self.collapsed, self.start, use_misfit, count)

    def _best(
        self, some: Collapsed, use_misfit: bool, count: float, polish: bool | None = None
    ) -> Solution:
        polish = self.polish if polish is None else polish
        starts = [self.start, *self._smooth_starts()]
        problems = [self._problem(some, start, use_misfit, count) for start in starts]
        found = solve(max(problems, key=_height) if len(starts) > 1 else problems[0], polish=polish)
        again = self._second_start(found) if polish else None
        if again is None:
            return found
        other = solve(self._problem(some, again, use_misfit, count), polish=polish)
        return max(found, other, key=lambda solution: solution.log_likelihood)

    def _problem(self, some: Collapsed, start: Array, use_misfit: bool, count: float) -> Problem:
        data = some if isinstance(self.layout, CoupledLayout) else rotate(some)
        options: dict[str, Any] = {"use_misfit": use_misfit, "threads": self.settings.threads}
        forcing, start_time = self.settings.forcing, float(self.view.times.min())

        def evaluate(p: Any) -> AnyEvaluation:
            if forcing is not None:
                return evaluate_forced(data, p, forcing, start_time, **options)
            return evaluate_likelihood(data, p, **options)

        layout, times = self.layout, self.view.times
        n_steps, span = times.shape[-1] - 1, float(np.ptp(times, axis=-1).max())
        share = some.n_paths / self.collapsed.n_paths
        scale = starting_scale(
            layout, start, self.rough, some.n_paths, n_steps, span, share * count
        )
        fixed = fixed_values(layout, self.settings.fixed)
        if self.view.n_nuisance:
            fixed[layout.names.index("nuisance_s")] = 0.0
        priors = prior_terms(layout, self.settings.priors)
        return Problem(
            layout, evaluate, start, scale, fixed, priors, np.zeros(layout.n_modes),
            separable=data.is_diagonal and not isinstance(layout, CoupledLayout),
        )  # fmt: skip

    def _smooth_starts(self) -> Iterator[Array]:
        """Starts of a tied drift that share the energy of the data, slow to fast.

        Scattered points that barely tell the modes apart give least-squares coefficients, and so
        rough estimates, that are noise: from there a formula runs off to ``nu = 0`` and stays.
        """
        drift = self.layout.drift
        coupled = isinstance(self.layout, CoupledLayout)
        if coupled or not isinstance(drift, OperatorTied) or not np.any(drift.mu):
            return
        view, mu = self.view, np.asarray(drift.mu)
        span = float(np.ptp(view.times, axis=-1).max())
        step = float(np.median(np.diff(view.times, axis=-1)))
        share = np.mean(view.basis**2, axis=0) / np.arange(1, len(mu) + 1)
        for rate in np.geomspace(2.0 / span, max(0.5 / step, 4.0 / span), SMOOTH_STARTS):
            lam = rate * (0.2 + mu / np.median(mu[mu > 0]))
            level = np.nanmean(view.values**2) / np.sum(share / (2.0 * lam))
            start = self.start.copy()
            start[self.layout.slices["drift"]] = drift.start(lam)
            noise = level / np.arange(1, len(mu) + 1)
            start[self.layout.slices["noise"]] = self.layout.noise.start(noise)
            yield start

    def _second_start(self, found: Solution) -> Array | None:
        """A start in which modes that ran off to white noise follow the others' formulas.

        For a mode much faster than a step the likelihood is flat: a maximiser that gets there
        stays, although the maximum may be elsewhere.
        """
        if not isinstance(found.parameters, Parameters):
            return None
        step = float(np.median(np.diff(self.view.times, axis=-1)))
        lam, q = found.parameters.eigenvalues, found.parameters.noise_variance
        n = self.layout.n_modes - self.view.n_nuisance
        error = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
        lost = lam[:n] * step > RUNAWAY_DECAY
        if self.layout.drift.names[0].startswith("eigenvalue["):
            lost |= error[:n] > RUNAWAY_ERROR
        if not lost.any() or (~lost).sum() < 2:
            return None
        index = np.log(np.arange(1, n + 1))
        start = found.full.copy()
        for part, values in (("drift", lam[:n]), ("noise", q[:n])):
            line = np.polyfit(index[~lost], np.log(values[~lost]), 1)
            smooth = np.where(lost, np.exp(np.polyval(line, index)), values)
            rest = (lam if part == "drift" else q)[n:]
            coordinates = getattr(self.layout, part)
            start[self.layout.slices[part]] = coordinates.start(np.concatenate([smooth, rest]))
        return start


def _height(problem: Problem) -> float:
    """Log posterior at the start; minus infinity where it has none."""
    free = free_vector(problem)
    value = log_posterior(problem, free, np.zeros(free.columns.shape[1]))[0]
    return value if np.isfinite(value) else -np.inf
