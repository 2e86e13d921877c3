"""Noise, gaps, own clocks, mixed modes: maximum likelihood through the collapsed filter."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.infer import _starts
from spdelaw.infer._coordinates import OperatorTied, PowerTied
from spdelaw.infer._coupled_starts import coupled_from_estimates
from spdelaw.infer._fitted import Fitted, initial_kind, make_layout, spectra
from spdelaw.infer._noise_decision import all_noise, noise_inside
from spdelaw.infer._observed import Observed
from spdelaw.infer._problem import Solution, starting_vector
from spdelaw.infer._settings import Settings
from spdelaw.infer._statistics_route import check_change_of
from spdelaw.infer._task import Task
from spdelaw.infer._view import View, make_view
from spdelaw.model import Collapsed, collapse, unforced

Array = np.ndarray

#: Misfit a value, relative to the energy, that is rounding and not noise.
NO_MISFIT = 1e-20
#: Observation variance of noise-free values with gaps, relative to the energy: far below any
#: increment, and large enough that rows which see only some modes keep their digits.
WORKING_VARIANCE = 1e-10


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
    plan = prepare(observed, domain, n_modes, settings, polish=polish)
    seconds = {"read": time.perf_counter() - clock}
    clock = time.perf_counter()
    solution = plan.task.run(use_misfit=plan.use_misfit, count=plan.count)
    seconds["maximise"] = time.perf_counter() - clock
    return plan.fitted(solution, n_modes, seconds)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What will be maximised, all decisions taken.

    Attributes:
        task: data, coordinates, start.
        use_misfit: whether what lies outside the modes is part of the likelihood.
        count: values that speak about the observation noise.
        outside: mean square outside the modes where it is not, else None.
        notes: reasons.
    """

    task: Task
    use_misfit: bool
    count: float
    outside: float | None
    notes: tuple[str, ...]

    def fitted(self, solution: Solution, n_modes: int, seconds: dict[str, float]) -> Fitted:
        """The estimate with what it rests on."""
        layout, n_values = self.task.layout, self.task.collapsed.n_values
        unresolved, notes = 0.0, self.notes
        if self.outside is not None:
            inside = float(solution.parameters.observation_variance) if layout.n_noise else 0.0
            unresolved = max(self.outside - inside, 0.0)
            notes += (
                f"variance outside the modes is {self.outside:.3g}, noise inside them "
                f"{inside:.3g}: the rest is left out of the likelihood as unresolved",
            )
        return Fitted(
            solution, layout, n_modes, "filter", n_values, unresolved, None, notes, seconds
        )


def prepare(
    observed: Observed,
    domain: AbstractDomain,
    n_modes: int,
    settings: Settings,
    *,
    polish: bool = True,
) -> Plan:
    """Collapse the fields and decide what is noise, what is a mode, and where to start."""
    notes: list[str] = []
    check_change_of(observed.load())
    view = make_view(observed, domain, n_modes, settings, notes)
    collapsed = collapse(view.values, view.times, view.basis, view.weights, view.products)
    if collapsed.decoupled:
        notes.append(
            "too many modes for gaps that differ from path to path: each mode has its marginal "
            "likelihood, without the correlation of errors between modes"
        )
    states = n_states(collapsed)
    spare = collapsed.n_values - states
    rough, guess, energy = _first_guess(collapsed, spare, view, domain)
    if settings.forcing is not None:  # the response at a first guess, then a better one
        start = float(view.times.min())
        bare = unforced(collapsed, rough.eigenvalues, settings.forcing, start)
        rough, guess, energy = _first_guess(bare, spare, view, domain)
    if settings.is_coupled:
        rough = coupled_from_estimates(collapsed, rough, settings.drift not in ("normal", "dense"))
    known = view.known
    if settings.noise_word == "auto" and known is None and spare > 0:
        # The modes hold the fields to rounding: a variance to estimate would run off to zero.
        known = 0.0 if collapsed.misfit <= NO_MISFIT * spare * energy else None

    def task(known: float | None) -> Task:
        parts = spectra(domain, n_modes, view.n_nuisance, settings, np.sqrt(rough.noise_variance))
        variance = known if known else guess
        mean, spread = first_states(collapsed)
        differ = starts_differ(collapsed, spread, variance)
        layout = make_layout(
            parts, initial_kind(settings, differ, collapsed.n_paths), collapsed.n_paths,
            0 if known is not None else 1, known_variance=known or WORKING_VARIANCE * energy,
            **({} if settings.season is None else {"season": settings.season}),
        )  # fmt: skip
        if settings.is_coupled:
            spread = np.diag(spread)
        start = starting_vector(layout, rough, variance**0.5, mean, spread)
        return Task(collapsed, view, layout, start, rough, settings, polish)

    def plan(known: float | None, count: float, outside: float | None = None) -> Plan:
        return Plan(task(known), outside is None, count, outside, tuple(notes))

    if known is not None or spare <= 0 or view.n_nuisance or not _rows_determine(view):
        return plan(known, max(spare, states))
    outside = collapsed.misfit / spare
    if all_noise(task, view, outside, states, settings):
        return plan(None, spare)
    is_noisy = noise_inside(task, states, settings)
    return plan(None if is_noisy else 0.0, 0.2 * states, outside)


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
