"""Noise, gaps, own clocks, mixed modes: maximum likelihood through the collapsed filter."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import ConvergenceError
from spdelaw.infer import _starts
from spdelaw.infer._coordinates import OperatorTied, PowerTied
from spdelaw.infer._fitted import Fitted, initial_kind, spectra
from spdelaw.infer._layout import Layout, fixed_values, prior_terms
from spdelaw.infer._observed import Observed
from spdelaw.infer._problem import Problem, Solution, solve, starting_scale, starting_vector
from spdelaw.infer._settings import Settings
from spdelaw.infer._statistics_route import check_change_of
from spdelaw.infer._view import View, make_view
from spdelaw.model import Collapsed, Evaluation, Parameters, collapse, evaluate_likelihood

Array = np.ndarray

#: Misfit a value, relative to the energy, that is rounding and not noise.
NO_MISFIT = 1e-20
#: Observation variance of noise-free values with gaps, relative to the energy: far below any
#: increment, and large enough that rows which see only some modes keep their digits.
WORKING_VARIANCE = 1e-10
#: A fit of many paths starts from a fit of this many, which costs little and lands close.
WARM_PATHS = 100
#: Log-likelihood that observation noise has to gain where increments do not show it.
NOISE_GAIN = 3.0
#: Decay within a step, and standard error of a logarithm, that mark a mode as run away.
RUNAWAY_DECAY, RUNAWAY_ERROR = 3.0, 1.5


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
    check_change_of(observed.load())
    view = make_view(observed, domain, n_modes, settings, notes)
    collapsed = collapse(view.values, view.times, view.basis, view.weights)
    seconds = {"read": time.perf_counter() - clock}
    clock = time.perf_counter()
    solution, layout, outside = _fit(collapsed, view, domain, n_modes, settings, notes, polish)
    seconds["maximise"] = time.perf_counter() - clock
    return Fitted(
        solution,
        layout,
        n_modes,
        "filter",
        collapsed.n_values,
        outside,
        None,
        tuple(notes),
        seconds,
    )


@dataclasses.dataclass(frozen=True)
class Task:
    """One maximisation: the data, the coordinates and where to start.

    ``known`` is the observation variance where it is not estimated.
    """

    collapsed: Collapsed
    view: View
    layout: Layout
    start: Array
    rough: _starts.Rough
    settings: Settings
    polish: bool

    def run(self, *, use_misfit: bool, count: float) -> Solution:
        """Maximise; many paths start from a fit of the first ones, runaway modes start again."""
        if self.collapsed.n_paths < 2 * WARM_PATHS:
            return self._best(self.collapsed, use_misfit, count)
        view = self.view
        times = view.times if view.times.ndim == 1 else view.times[:WARM_PATHS]
        first = collapse(view.values[:WARM_PATHS], times, view.basis, view.weights)
        warm = self._best(first, use_misfit, count, polish=True)
        shrunk = warm.columns * np.sqrt(WARM_PATHS / self.collapsed.n_paths)
        problem = self._problem(self.collapsed, self.start, use_misfit, count)
        return solve(problem, warm._replace(columns=shrunk), polish=self.polish)

    def _best(
        self, some: Collapsed, use_misfit: bool, count: float, polish: bool | None = None
    ) -> Solution:
        polish = self.polish if polish is None else polish
        found = solve(self._problem(some, self.start, use_misfit, count), polish=polish)
        again = self._second_start(found) if polish else None
        if again is None:
            return found
        other = solve(self._problem(some, again, use_misfit, count), polish=polish)
        return max(found, other, key=lambda solution: solution.log_likelihood)

    def _problem(self, some: Collapsed, start: Array, use_misfit: bool, count: float) -> Problem:
        def evaluate(p: Parameters) -> Evaluation:
            return evaluate_likelihood(
                some, p, use_misfit=use_misfit, threads=self.settings.threads
            )

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
        return Problem(layout, evaluate, start, scale, fixed, priors, np.zeros(layout.n_modes))

    def _second_start(self, found: Solution) -> Array | None:
        """A start in which modes that ran off to white noise follow the others' formulas.

        For a mode much faster than a step the likelihood is flat: a maximiser that gets there
        stays, although the maximum may be elsewhere.
        """
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


def _fit(
    collapsed: Collapsed, view: View, domain: AbstractDomain, n_modes: int,
    settings: Settings, notes: list[str], polish: bool,
) -> tuple[Solution, Layout, float]:  # fmt: skip
    """Solution, its layout and the variance that the modes leave unresolved."""
    states = n_states(collapsed)
    spare = collapsed.n_values - states
    rough, guess, energy = _first_guess(collapsed, spare, view, domain)
    known = view.known
    if settings.noise_word == "auto" and known is None and spare > 0:
        # The modes hold the fields to rounding: a variance to estimate would run off to zero.
        known = 0.0 if collapsed.misfit <= NO_MISFIT * spare * energy else None

    def task(known: float | None) -> Task:
        parts = spectra(domain, n_modes, view.n_nuisance, settings)
        variance = known if known else guess
        mean, spread = first_states(collapsed)
        differ = starts_differ(collapsed, spread, variance)
        layout = Layout(
            parts.drift, parts.noise, initial_kind(settings, differ, collapsed.n_paths),
            parts.n_total, 0 if known is not None else 1,
            known_variance=known or WORKING_VARIANCE * energy,
        )  # fmt: skip
        start = starting_vector(layout, rough, variance**0.5, mean, spread)
        return Task(collapsed, view, layout, start, rough, settings, polish)

    if known is not None or spare <= 0 or view.n_nuisance or not _rows_determine(view):
        chosen = task(known)
        return chosen.run(use_misfit=True, count=max(spare, states)), chosen.layout, 0.0
    outside = collapsed.misfit / spare
    noisy, quiet = task(None), task(0.0)
    doubtful = float(np.median(rough.noise * _starts.mean_gram(collapsed))) < 0.1 * outside
    found = _with_noise(noisy, states, float(quiet.layout.known_variance), settings)
    if found is None or (settings.noise_word == "auto" and doubtful):
        # Squared increments show no noise, or it ran off to zero: it has to earn its place.
        without = quiet.run(use_misfit=False, count=states)
        if found is None or found.log_likelihood < without.log_likelihood + NOISE_GAIN:
            notes.append("no observation noise found in the modes")
            return without, quiet.layout, outside
    solution = found
    inside, error = _observation_variance(solution, noisy.layout)
    if abs(outside - inside) <= 3.0 * error or not polish:
        # What the modes leave over agrees with the noise inside them: it is noise too.
        start = solution.full.copy()
        start[noisy.layout.slices["observation"]] = 0.5 * np.log(outside)
        both = dataclasses.replace(noisy, start=start)
        return both.run(use_misfit=True, count=spare), noisy.layout, 0.0
    notes.append(
        f"variance outside the modes is {outside:.3g}, noise inside them {inside:.3g}: the rest is "
        "left out of the likelihood as unresolved"
    )
    return solution, noisy.layout, max(outside - inside, 0.0)


def _with_noise(noisy: Task, states: float, working: float, settings: Settings) -> Solution | None:
    """The fit with noise; None where "auto" may do without and the variance runs off to zero.

    A deterministic initial state seen without noise makes the likelihood grow without bound as
    the variance falls, so a variance near the working one is none.
    """
    if settings.noise_word != "auto":
        return noisy.run(use_misfit=False, count=0.2 * states)
    try:
        found = noisy.run(use_misfit=False, count=0.2 * states)
    except ConvergenceError:
        return None
    return found if float(found.parameters.observation_variance) > 1e3 * working else None


def _observation_variance(solution: Solution, layout: Layout) -> tuple[float, float]:
    """Estimate and standard error."""
    at = layout.slices["observation"].start
    variance = float(solution.parameters.observation_variance)
    return variance, 2.0 * variance * float(np.sqrt(solution.covariance[at, at]))


def _rows_determine(view: View) -> bool:
    """Whether every row that observes anything has points to spare for all modes."""
    seen = (~np.isnan(view.values)).sum(-1)
    return bool(((seen == 0) | (seen >= view.basis.shape[1] + 2)).all())


def n_states(collapsed: Collapsed) -> float:
    """Coefficients that the rows determine, over all paths and times."""
    total = 0.0
    for block in collapsed.blocks:
        gram = block.gram if block.is_diagonal else np.einsum("tiib->tib", block.gram)
        n = (gram > 0).sum((0, 1)).astype(float)
        total += float(n.sum() * (len(block.paths) if n.shape[0] == 1 else 1))
    return total


def first_states(collapsed: Collapsed) -> tuple[Array, Array]:
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
        return np.asarray((gram > 0).all(0))
    scale = np.einsum("iib->ib", gram)
    safe = np.where(scale > 0, scale, 1.0)
    unit = np.moveaxis(gram / np.sqrt(safe[:, None] * safe[None]), -1, 0)
    return (scale > 0).all(0) & (np.linalg.eigvalsh(unit)[:, 0] > 0.05)


def starts_differ(collapsed: Collapsed, spread: Array, variance: float) -> bool:
    """Whether first states spread more over paths than their noise."""
    noise = variance / _starts.mean_gram(collapsed)
    return bool((spread > 4.0 * noise).any())


def _first_guess(
    collapsed: Collapsed, spare: float, view: View, domain: AbstractDomain
) -> tuple[_starts.Rough, float, float]:
    """Rough spectra, observation variance and energy to start from."""
    total = view.basis.shape[1]
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
