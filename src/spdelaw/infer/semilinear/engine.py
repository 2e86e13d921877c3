"""The semilinear engine: from observed fields to a `Law` with terms."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from spdelaw.checks import one_of, shown
from spdelaw.data.observed import Observed, check_change
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.errors import ConvergenceError, DataError, IdentifiabilityWarning, InputError
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.candidates import residual_correlation
from spdelaw.infer.engines.design import fixed_noise
from spdelaw.infer.engines.exact import statistics_of
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import Model
from spdelaw.infer.moments import SAME_START, mean_gram
from spdelaw.infer.optimise import Estimate, Fit, watched
from spdelaw.infer.semilinear.fits import (
    ALLOWED_SHIFT,
    FAST,
    SCHEMES,
    SemilinearFit,
    fit_complete,
    fit_filtered,
    fit_increments,
)
from spdelaw.infer.semilinear.increments import standardised_increments
from spdelaw.infer.semilinear.layout import SEMILINEAR_NOISES, layout
from spdelaw.law.law import Law
from spdelaw.law.likelihood import Numbers, density_entries, statistics_density
from spdelaw.processes.closure import Closure
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.semilinear import substeps
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import MOST_DENSE, bound, field_of
from spdelaw.statespace.collapse import Block, Collapsed, collapse
from spdelaw.statespace.filter import smooth_block
from spdelaw.statespace.statistics import Statistics
from spdelaw.statespace.transitions import (
    Transitions,
    closure_log_likelihood,
    scheme_innovations,
    transition_innovations,
    transitions,
)

# ---------- Observations of a semilinear fit: the states, or fields that depend on them
#
# Where every row that observes anything determines all modes, and shows no noise, the rows are the
# states, on whatever clock, and their transitions have the likelihood of the closure
# (`FullyObserved`). Otherwise the closure is the prediction of a filter (`PartlyObserved`). With
# more modes of several fields than the closure can carry, fields have to be complete and free of
# noise, and fits go by increments.
#
# Noise in the rows makes successive prediction errors e negatively correlated. With ``F`` the
# factor of a step and ``r / G`` the variance of noise in the modes,
#
#     Cov(e_{t+1}, e_t) = -r F / G,    so    s_t = -sum_n e_{t+1,n} e_{t,n} F_n / (G_n Omega_n^2)
#
# has mean zero without noise, whatever the weights, and ``sum s / sqrt(sum s^2)`` is a normal
# score. Noise of the variance r that lies outside the modes would give it the mean
# ``r sqrt(n sum_n w_n^2)`` with ``w_n = F_n / (G_n Omega_n)``. A residual that is white in time is
# noise, unless that mean is negligible.


Array = np.ndarray
#: Share of the energy outside the modes that is rounding.
ROUNDING = 1e-14
#: Normal score from which on the rows show noise; one in 4,000 false alarms costs only time.
NOISE_Z = 3.5
#: Score of noise that moves no estimate by more than about this many standard errors.
NEGLIGIBLE = 0.5
#: Least eigenvalue of a row's Gram matrix, relative to its largest, that determines all modes.
LEAST_GRAM_RATIO = 1e-6
#: Transitions that the test for noise uses.
TESTED_TRANSITIONS = 4000
#: States whose noise stands for that of all.
RATE_STATES = 400
#: Variance that stands for none in the filter, relative to the energy of a value.
WORKING_VARIANCE = 1e-8
#: Lag-one correlation from which on the residual of the modes is finer modes and not noise.
CORRELATED = 0.1
#: Shift, in standard errors, by which cut modes may move an estimate, rows that determine it, and
#: modes that show it, relative to those of the law.
CUT_SHIFT, CUT_ROWS, CUT_MODES = 0.5, 400, 3
CUT_NOTE = (
    "the modes beyond these act on them, which shifts {} by about {:.1f} standard errors: "
    "coefficients are those at this number of modes; use more modes, or add the term '1' for "
    "their effect on the mean"
)
FINER_NOTE = (
    "the residual of the modes is correlated over time ({:.2f}): it contains finer modes, and the "
    "noise is estimated inside the modes alone; coefficients are those at this number of modes"
)


@dataclasses.dataclass(frozen=True, eq=False)
class FullyObserved:
    """Rows that are states.

    Attributes:
        observed: the fields.
        c: coefficients (P, T, N), NaN where a row observes nothing.
        gram: mean diagonal of ``Phi' Phi``, (N,).
        outside: variance of the residual of the modes, 0 where it is rounding.
        is_held: whether the modes hold the fields to rounding, on more points than modes.
        statistics: sums over complete fields on one clock, else None.
        one_pass: whether fits go by increments.
    """

    observed: Observed
    c: Array
    gram: Array
    outside: float
    is_held: bool
    statistics: Statistics | None
    one_pass: bool
    #: As `PartlyObserved` has them: rows that are states have no noise.
    point_variance: ClassVar[None] = None
    is_noise_free: ClassVar[bool] = True

    @property
    def route(self) -> str:
        """How it is fitted."""
        return "one pass over the increments" if self.one_pass else "closure of transitions"

    def notes(self, fit: SemilinearFit) -> list[str]:
        """Warning about the push of modes beyond those of the law."""
        shift = self.cut_shift(fit)
        name = max(shift, key=lambda name: abs(shift[name]), default="")
        is_large = bool(name) and abs(shift[name]) > CUT_SHIFT
        return [CUT_NOTE.format(name, shift[name])] if is_large else []

    def cut_shift(self, fit: SemilinearFit) -> dict[str, float]:
        """Shift of each estimate by the modes that are cut off, in standard errors.

        With ``D_n = F_n(c, finer modes) - F_n(c)`` the drift that they add, the score changes by
        ``sum_t dt sum_n D_n / q_n d drift_n / d theta``, and the estimate by this times its
        covariance.
        """
        form, domain, n = fit.layout, self.observed.domain, self.c.shape[2]
        n_fields = len(form.fields)
        n_fine = min(len(self.observed.points), CUT_MODES * n) // n_fields * n_fields
        if not self.outside or n_fine <= n or max(n_fine, n) > MOST_DENSE or not form.terms:
            return {}
        basis = self.observed.basis(n_fine)
        values, times = np.asarray(self.observed.values), np.asarray(self.observed.times, float)
        whole = np.isfinite(values).all(2)
        whole[:, -1] = False
        dt = np.diff(np.broadcast_to(times, whole.shape), axis=1, append=np.nan)[whole]
        rows = np.linspace(0, len(dt) - 1, min(len(dt), CUT_ROWS)).astype(int)
        fine = values[whole][rows] @ np.linalg.pinv(basis, rcond=LEAST_GRAM_RATIO).T
        c, closure = self.c[whole][rows], form.closure(fit.estimate.full)
        kept = closure.reaction.values(c)
        added = bound(form.terms, domain, n_fine).values(fine)[..., :n] - kept
        push = np.tensordot(closure.coefficients, added, 1) * dt[rows, None]
        push = push / _mean_noise(closure, c)
        by = {"eigenvalue": -c * push, "coefficient": np.einsum("tin,in->it", kept, push)}
        by |= {"noise_variance": np.zeros_like(c), "noise_offset": np.zeros(len(c))}
        scores = form.scores(fit.estimate.full, by)
        covariance = fit.estimate.covariance
        shift = covariance @ scores.sum(0) * len(dt) / len(rows)
        errors = np.sqrt(np.diag(covariance))
        return {form.names[k]: float(shift[k] / errors[k]) for k in form.free}

    def fit(self, terms: Any, words: Mapping[str, Any]) -> SemilinearFit:
        """Fit of these terms."""
        times, domain = self.observed.times, self.observed.domain
        if not self.one_pass:
            return fit_complete(self.c, times, domain, terms, **words)
        form = layout(domain, self.c.shape[2], terms, **words)
        return fit_increments(form, self.transitions)

    def shows_noise(self, fit: SemilinearFit) -> bool:
        """Whether errors of predictions, or what lies outside the modes, are those of noise."""
        if self.is_held:
            return False
        closure, data = fit.layout.closure(fit.estimate.full), self.transitions
        data = data.take(np.arange(min(len(data.dt), TESTED_TRANSITIONS)))
        data = data._replace(steps=substeps(closure, data.before, data.dt))
        if self.one_pass:
            errors = standardised_increments(closure, data, fit.diagnostics["n_steps"])
        elif fit.diagnostics["scheme"] != "exact":
            errors = scheme_innovations(closure, data)
        else:
            try:
                errors = transition_innovations(closure, data, fit.diagnostics["n_steps"])
            except np.linalg.LinAlgError:  # from such a row no state can be predicted
                return True
        score, expected = noise_scores(closure, data, errors, self.gram, self.outside)
        if score > NOISE_Z or self.one_pass or expected < NEGLIGIBLE:
            return score > NOISE_Z
        basis = self.observed.basis(self.c.shape[2])
        return residual_correlation(self.observed, basis)[0] <= CORRELATED

    @property
    def transitions(self) -> Transitions:
        """Pairs of successive states."""
        return transitions(self.c, self.observed.times)


@dataclasses.dataclass(frozen=True, eq=False)
class PartlyObserved:
    """States behind gaps or noise.

    Attributes:
        observed: the fields.
        collapsed: observations on the modes.
        fixed_variance: of their noise where it is held, relative to the weights of points.
        point_variance: known variance of each point, else None.
        outside: variance of the residual with finer modes, 0 where all of it is noise.
        is_noise_free: whether the known variance only conditions the filter.
    """

    observed: Observed
    collapsed: Collapsed
    fixed_variance: float | None
    point_variance: Array | None = None
    outside: float = 0.0
    finer: tuple[str, ...] = ()
    is_noise_free: bool = False
    route: str = "closure filter"

    def notes(self, fit: SemilinearFit | None = None) -> list[str]:
        """Warning about finer modes in the residual."""
        return list(self.finer)

    def fit(self, terms: Any, words: Mapping[str, Any]) -> SemilinearFit:
        """Fit of these terms."""
        words = {"observation_variance": self.fixed_variance, **words}
        return fit_filtered(self.collapsed, self.observed.domain, terms, **words)


Observations = FullyObserved | PartlyObserved


def record_of(
    observations: Observations, maximum: Estimate, notes: list[str], clock: float, **more: Any
) -> Fit:
    """What `assemble` needs of an estimate; ``clock`` is when the fit began."""
    space, variance = maximum.state_space, observations.point_variance
    r = float(np.mean(space.observation_variance if variance is None else variance))
    return Fit(
        maximum,
        space.n_modes,
        observations.route,
        float(np.isfinite(np.asarray(observations.observed.values)).sum()),
        max(observations.outside - (0.0 if observations.is_noise_free else r), 0.0),
        notes=tuple(notes),
        seconds={"maximise": time.perf_counter() - clock},
        point_variance=variance,
        point_error=None if variance is None else 0.0,
        **more,
    )


def classify_observations(
    observed: Observed,
    n_modes: int,
    model: Model,
    terms: Any,
    words: Mapping[str, Any],
    one_pass: bool = False,
) -> tuple[Observations, SemilinearFit]:
    """Observations, complete or partial, and the fit of the terms that decided it."""
    observed.check_change()
    if isinstance(domain := observed.domain, Fields):
        observed_fields = set(domain.split(observed.points)[0].tolist())
        for f in set(range(domain.n_fields)) - observed_fields:
            _check_unit(domain.names[f], terms, words.get("fixed") or {})
    if one_pass:
        _check_complete(observed, model)
    states = None
    if model.noise_word in ("auto", "none"):
        states = states_of(observed, n_modes, one_pass)
    complete = None if states is None else _fit_as_states(states, model, terms, words)
    is_clean = complete is not None and (
        model.noise_word == "none" or not complete[0].shows_noise(complete[1])
    )
    if "scheme" in words:  # it has no steps between its observed times
        if complete is None or not is_clean or np.isnan(np.asarray(observed.values)).any():
            expected = f"complete fields without noise for scheme={words['scheme']!r}, one for each"
            fix = "leave scheme out: the fields then follow the equation"
            got = "gaps, noise or few points"
            raise DataError("data", expected=f"{expected} of its steps", got=got, fix=fix)
        return complete
    if complete is not None and is_clean:
        return complete
    if one_pass:
        got = "errors of predictions that noise causes"
        raise _one_pass_error("fields without noise of observations", got)
    partly_observed = partly_observed_of(observed, n_modes, model)
    try:
        return partly_observed, partly_observed.fit(terms, words)
    except ConvergenceError:
        if complete is None:
            raise
        return complete  # so little noise that its variance ran off to zero


def _fit_as_states(
    states: FullyObserved, model: Model, terms: Any, words: Mapping[str, Any]
) -> tuple[FullyObserved, SemilinearFit] | None:
    """Fit of rows as states; None where it fails, perhaps because of noise."""
    try:
        return states, states.fit(terms, words)
    except ConvergenceError:
        if model.noise_word == "none" or states.is_held or states.one_pass:
            raise
        return None


def states_of(observed: Observed, n_modes: int, one_pass: bool = False) -> FullyObserved | None:
    """Rows as states, or None where some row does not determine all modes."""
    values = np.asarray(observed.values)
    statistics = None if one_pass else statistics_of(observed, n_modes)
    if one_pass:
        c, gram, misfit = _project_by_field(observed, n_modes)
    elif statistics is not None:
        s, phi = statistics, observed.basis(n_modes)
        check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
        c, gram, misfit = values @ np.linalg.pinv(phi).T, (phi**2).sum(0), s.outside
    else:
        collapsed = collapse(values, observed.times, observed.basis(n_modes))
        c = np.empty((*values.shape[:2], n_modes))
        gram, misfit = mean_gram(collapsed), collapsed.misfit
        for block in collapsed.blocks:
            is_observed, is_determined = _row_coverage(block.gram)
            if (is_observed & ~is_determined).any():
                return None
            c[block.paths] = np.where(is_determined[:, None], block.estimate, np.nan).transpose(
                2, 0, 1
            )
    energy, spare = float(np.nansum(values**2)), np.isfinite(values).sum() - np.isfinite(c).sum()
    outside = float(misfit / spare) if spare > 0 and misfit > ROUNDING * energy else 0.0
    is_held = not outside and (spare > 0 or one_pass)
    return FullyObserved(observed, c, gram, outside, is_held, statistics, one_pass)


def _project_by_field(observed: Observed, n_modes: int) -> tuple[Array, Array, float]:
    """Coefficients, diagonal of ``Phi' Phi`` and misfit of complete fields, one after the other."""
    domain, values = cast("Fields", observed.domain), np.asarray(observed.values)
    which, x = domain.split(observed.points)
    c, gram, misfit = np.empty((*values.shape[:2], n_modes)), np.empty(n_modes), 0.0
    for f in range(domain.n_fields):
        modes, rows = slice(f, None, domain.n_fields), values[..., which == f]
        phi = domain.domain.eigenfunctions(x[which == f], n_modes // domain.n_fields)
        c[..., modes] = rows @ phi @ np.linalg.inv(phi.T @ phi)
        gram[modes] = (phi**2).sum(0)
        misfit += float(((rows - c[..., modes] @ phi.T) ** 2).sum())
    return c, gram, misfit


def _check_complete(observed: Observed, model: Model) -> None:
    """Refuse gaps and noise, which a fit by increments does not support."""
    missing = int(np.isnan(np.asarray(observed.values)).sum())
    if missing:
        raise _one_pass_error("complete fields", f"{missing} missing values")
    if model.noise_word not in ("auto", "none"):
        raise _one_pass_error("no noise of observations", repr(model.observation_noise))


def _one_pass_error(expected: str, got: str) -> DataError:
    expected = f"{expected} for more than {MOST_DENSE} modes of all fields"
    fix = f"fit at most {MOST_DENSE // 2} modes of each of two fields, which the filter does"
    return DataError("data", expected=expected, got=got, fix=fix)


def _row_coverage(gram: Array) -> tuple[Array, Array]:
    """Which rows observe anything, and which determine all modes; (T, B) each."""
    if gram.ndim == 3:
        return np.any(gram > 0, axis=1), np.all(gram > 0, axis=1)
    values = np.linalg.eigvalsh(np.moveaxis(gram, -1, 1))
    largest = values[..., -1]
    return largest > 0, values[..., 0] > LEAST_GRAM_RATIO * np.maximum(largest, 1e-300)


def noise_scores(
    closure: Closure, data: Transitions, errors: Array, gram: Array, r: float
) -> tuple[float, float]:
    """Normal score for noise in the rows, and the one that noise of variance r would give.

    ``errors`` are those of predictions without any noise, standardised.
    """
    follows = (data.before[1:] == data.after[:-1]).all(1)
    decay = closure.rates * float(np.median(data.dt))
    omega = (
        _mean_noise(closure, data.before[:RATE_STATES])
        * np.median(data.dt)
        * decay_mean(2.0 * decay)
    )
    weight = np.exp(-np.clip(decay, -1.0, 50.0)) / (gram * omega)
    s = -(errors[1:] * errors[:-1] * weight).sum(1)[follows]
    score = float(s.sum() / np.sqrt((s**2).sum())) if s.any() else 0.0
    return score, float(r * np.sqrt(len(s) * (weight**2).sum()))


def _mean_noise(closure: Closure, states: Array) -> Array:
    """Rate of the variance of each mode, (N,); of noise that depends on the state its mean."""
    if closure.state_noise is None:
        return closure.noise
    rate = closure.state_noise.rate(closure.noise, closure.offset, states, None)
    return np.asarray(np.einsum("bnn->n", rate) / len(rate))


def _check_unit(field: str, terms: Any, fixed: Mapping[str, Any]) -> None:
    """Refuse a field that is never observed unless another equation holds its unit."""
    acting = [t for t in terms if field_of(t) != field and field in t.partition(":")[2]]
    if any(fixed.get(term) is not None for term in acting):
        return
    expected = f"values of {field}, or a held coefficient of {field} in another equation"
    fix = f"fit the other fields without {field}, which acts on none of them"
    if acting:
        fix = f"pass fixed={{{acting[0]!r}: 1.0}}, which sets the unit of {field}"
    raise DataError("data", expected=expected, got="neither, so it has no unit", fix=fix)


def partly_observed_of(observed: Observed, n_modes: int, model: Model) -> PartlyObserved:
    """Observations on the modes, with what is known of their noise."""
    values, (fixed_variance, weights) = (
        np.asarray(observed.values),
        fixed_noise(model, len(observed.points)),
    )
    variance = None if weights is None else np.asarray(model.known_variance)
    basis, products = observed.basis(n_modes), observed.products(n_modes)
    collapsed = collapse(values, observed.times, basis, weights, products)
    if collapsed.decoupled:
        expected = "few enough modes for gaps that differ from path to path"
        got = f"{n_modes} modes and {len(values)} paths"
        fix = "use fewer modes, or fewer paths"
        raise DataError("n_modes", expected=expected, got=got, fix=fix)
    energy = float(np.nanmean(values**2))
    if fixed_variance == 0.0:
        return PartlyObserved(observed, collapsed, WORKING_VARIANCE * energy, is_noise_free=True)
    spare = collapsed.n_values - collapsed.n_states
    if fixed_variance is not None or spare <= 0:
        return PartlyObserved(observed, collapsed, fixed_variance, variance)
    if model.noise_word == "auto" and collapsed.misfit <= ROUNDING * energy * collapsed.n_values:
        return PartlyObserved(observed, collapsed, WORKING_VARIANCE * energy, is_noise_free=True)
    correlation, _ = residual_correlation(observed, basis)
    if correlation <= CORRELATED:
        return PartlyObserved(observed, collapsed, None)
    outside = collapsed.misfit / spare
    return PartlyObserved(
        observed,
        _without_residual(collapsed),
        None,
        None,
        outside,
        (FINER_NOTE.format(correlation),),
    )


def _without_residual(collapsed: Collapsed) -> Collapsed:
    """The observations without the residual of the modes: only values that determine states."""
    blocks = []
    for block in collapsed.blocks:
        none = np.zeros(len(block.paths))
        blocks.append(block._replace(misfit=none, n_values=block.n_states))
    return collapsed._replace(blocks=tuple(blocks))


# ---------- Law of the first states of a semilinear field
#
# Observed states have a sample mean and variance. Behind gaps and noise each path has at its
# first time a likelihood of the Gaussian form with precision ``A_p`` and pull ``h_p``, which is the
# smoothed state N(m_p, S_p) without its wide start N(0, V):
#
#     A_p = S_p^-1 - V^-1,    h_p = S_p^-1 m_p,
#
# and expectation-maximisation finds the mean and the variances (modes independent) that they share.


#: Law of the first states, and standard errors of its mean (N,).
FirstStates = tuple[InitialState, Array]

#: Rounds of expectation-maximisation.
EM_ROUNDS = 60
#: Times, in units of the burn-in, whose observations determine the first state.
FIRST_STATE_REACH = 3.0
#: Least variance of a first state, relative to the mean one: a filter needs one above zero.
LEAST_VARIANCE = 1e-8


def first_states(fit: SemilinearFit, observations: Observations) -> FirstStates:
    """Law of the states at the first time."""
    if isinstance(observations, PartlyObserved):
        return _first_states_by_smoother(fit, observations)
    first = observations.c[:, 0]
    return _gaussian_of_states(first[np.isfinite(first).all(1)], observations.c)


def _gaussian_of_states(first: Array, c: Array) -> FirstStates:
    """Gaussian of the first states (P, N), modes independent; one known state where all agree."""
    n = c.shape[2]
    if not len(first):  # no first state is observed: take the law of all states
        complete = c[np.isfinite(c).all(2)]
        return InitialState("gaussian", complete.mean(0), complete.var(0)), np.full(n, np.nan)
    mean, spread, error = first.mean(0), np.zeros(n), np.full(n, np.nan)
    if len(first) > 1:
        spread = first.var(0, ddof=1)
        error = np.sqrt(spread / len(first))
    if spread.sum() <= SAME_START * float((first**2).sum(1).mean()):
        return InitialState("deterministic", mean, np.zeros(n)), error
    return InitialState("gaussian", mean, spread), error


def _first_states_by_smoother(fit: SemilinearFit, observations: PartlyObserved) -> FirstStates:
    space, means, spreads = fit.estimate.state_space, [], []
    for block in observations.collapsed.blocks:
        early = _first_times(block, FIRST_STATE_REACH * fit.diagnostics["burn"])
        smoothed = smooth_block(early, space)
        means.append(smoothed.mean[0].T)
        spreads.append(np.moveaxis(smoothed.covariance[0], -1, 0))
    wide = space.initial.covariance
    inverse = np.linalg.inv(np.concatenate(spreads))
    pull = np.einsum("pij,pj->pi", inverse, np.concatenate(means))
    return _shared_gaussian(inverse - np.diag(1.0 / wide), pull, wide)


def _shared_gaussian(precision: Array, pull: Array, variance: Array) -> FirstStates:
    """Mean and variances of states with these likelihoods, and errors of the mean."""
    n_paths, n = pull.shape
    mean = np.zeros(n)
    for _ in range(EM_ROUNDS if n_paths > 1 else 1):
        spread = np.linalg.inv(precision + np.diag(1.0 / variance))
        states = np.einsum("pij,pj->pi", spread, pull + mean / variance)
        mean = states.mean(0)
        variances = np.einsum("pii->pi", spread)
        variance = ((states - mean) ** 2 + variances).mean(0)
        variance = np.maximum(variance, LEAST_VARIANCE * variance.mean())
    error = np.sqrt(variance / n_paths) if n_paths > 1 else np.full(n, np.nan)
    return InitialState("gaussian", mean, variance), error


def _first_times(block: Block, reach: float) -> Block:
    """The first times of a block, at least five."""
    age = (block.times - block.times[:1]).min(1)
    n = max(int((age <= reach).sum()), min(5, len(age)))
    parts = {name: getattr(block, name)[:n] for name in ("times", "gram", "vector", "estimate")}
    return block._replace(**parts)


# ---------- From a semilinear fit to a `Law`: intervals, initial state, density and notes


ENGINE = "semilinear"
#: Standard errors above zero from which on a noise counts as present.
CLEAR_DEVIATIONS = 3.0
#: Standard deviations from zero at which values have an offset; in a well they have fewer.
FAR_FROM_ZERO = 100.0
SUBTRACT = (
    "subtract their mean: --anomalies mean, in Python prepare=sl.Preparation(anomalies='mean')"
)


def law_of(
    fit: SemilinearFit, observations: Observations, model: Model, level: float, clock: float
) -> Law:
    """Law with its parameters, standard errors, notes and log density."""
    initial, error = first_states(fit, observations)
    messages, observed = [*observations.notes(fit), *notes(fit)], observations.observed
    if fit.layout.terms and (offset := offset_of(observed)):
        messages.append(f"{offset}; where their zero has no meaning, {SUBTRACT}")
    if messages:
        warnings.warn("; ".join(messages), IdentifiabilityWarning, stacklevel=4)
    maximum = fit.estimate
    dynamics = dataclasses.replace(maximum.state_space.dynamics, n_steps=None)  # type: ignore[type-var]
    space = maximum.state_space._replace(dynamics=dynamics, initial=initial)
    maximum = maximum._replace(state_space=space)
    more = {"initial_error": error, "engine": ENGINE}
    record = record_of(observations, maximum, messages, clock, **more)
    law = assemble(record, observed, model, level)
    slope = maximum.roots("coefficient")
    law = law.with_info(
        closure=fit.diagnostics,
        estimates=fit.values,
        standard_errors=fit.standard_errors,
        robust_errors=fit.robust_errors,
        term_covariance=(slope @ slope.T).tolist(),
    )
    return _with_density(law, fit, observations)


def notes(fit: SemilinearFit) -> list[str]:
    """Warnings about the estimates."""
    out = []
    if fit.diagnostics["rate_dt"] > FAST:
        out.append(
            f"the reaction changes the field by {fit.diagnostics['rate_dt']:.1f} times its size "
            "between observations: intervals may be too narrow; observe more often"
        )
    if fit.diagnostics["step_shift"] > ALLOWED_SHIFT:
        out.append(
            "twice the sub-steps of the closure would move an estimate by "
            f"{fit.diagnostics['step_shift']:.2g} standard errors: the reaction is fast for these "
            "time steps; observe more often"
        )
    closure, errors = fit.layout.closure(fit.estimate.full), fit.standard_errors
    out += field_notes(fit)
    if fit.values.get("nu", 0.0) < -2.0 * errors.get("nu", 0.0):
        out.append(
            "nu is negative beyond its error: fine waves grow; use more modes or fewer terms"
        )
    power, weight = _highest_power(fit)
    if power % 2 and weight > (closure.rates.min() if power == 1 else 0.0):
        out.append(
            f"the drift is unstable: no term balances {weight:.3g} u^{power}, and paths of this "
            "law diverge; add a higher power, or forecast short times only"
        )
    return out


def offset_of(observed: Observed) -> str:
    """What is wrong with one field that lies far from zero; empty where it does not."""
    values = np.asarray(observed.values)
    deviations = abs(np.nanmean(values)) / max(np.nanstd(values), 1e-300)
    if deviations < FAR_FROM_ZERO or isinstance(observed.domain, Fields):
        return ""
    return (
        f"the values are around {np.nanmean(values):.4g}, {deviations:.0f} of their standard "
        "deviations from zero, from which powers of u count"
    )


def field_notes(fit: SemilinearFit) -> list[str]:
    """Warnings about the estimates of several fields."""
    out, values, errors = [], fit.values, fit.standard_errors
    for field in filter(None, fit.layout.fields):
        nu, scale = f"nu {field}", f"scale {field}"
        if values[nu] < -CLEAR_DEVIATIONS * errors.get(nu, np.inf):
            out.append(
                f"nu of {field} is negative beyond its error: fine waves grow; use more modes"
            )
        if scale in errors and values[scale] < CLEAR_DEVIATIONS * errors[scale]:
            out.append(f"{field} has almost no noise of its own; pass fixed={{'{scale}': 0}}")
        if not any(field_of(name) == field for name in fit.layout.terms):
            out.append(f"no term is in the equation of {field}: it only diffuses")
    return out


def _highest_power(fit: SemilinearFit) -> tuple[int, float]:
    """Degree and coefficient of the highest power of u alone; (0, 0) where there is none."""
    if len(fit.layout.fields) > 1:
        return 0, 0.0  # another field may stabilise this one
    total = fit.layout.closure(fit.estimate.full).total
    powers = {
        key[0]: value for key, value in total.items() if value and not any(key[1:]) and key[0]
    }
    return max(powers.items(), default=(0, 0.0))


def _with_density(law: Law, fit: SemilinearFit, observations: Observations) -> Law:
    """The law with the log density of the data, and of which numbers."""
    if isinstance(observations, FullyObserved) and observations.one_pass:
        return law.with_info(log_likelihood_of=None)
    if isinstance(observations, FullyObserved) and observations.statistics is not None:
        density = _transition_density(law, fit, observations, observations.statistics)
    else:
        density = filter_density(law, observations.observed)
    return law.with_info(**density_entries(*density, observations.observed))


def filter_density(law: Law, observed: Observed) -> tuple[Any, Numbers]:
    """By the filter: that of `Law.log_likelihood`."""
    values = law.log_likelihood(observed)
    return values, Numbers(values.attrs["of"], values.attrs["count"])


def _transition_density(
    law: Law, fit: SemilinearFit, observations: FullyObserved, s: Statistics
) -> tuple[Any, Numbers]:
    """From the transitions, with the steps of the law's own dynamics, or of a scheme."""
    data, closure = transitions(observations.c, observations.observed.times), law.dynamics.closure  # type: ignore[attr-defined]
    data = data._replace(steps=substeps(closure, data.before, data.dt))
    of_coefficients = fit.log_likelihood
    if fit.diagnostics["scheme"] == "exact":
        of_coefficients = float(closure_log_likelihood(closure, data).sum())
    phi = law.domain.eigenfunctions(law.points, law.n_modes)
    if law.initial.kind == "gaussian":
        of_coefficients += _start_density(s, law.initial)
    return statistics_density(s, of_coefficients, law.initial, phi.T @ phi, law.unresolved_variance)


def _start_density(s: Statistics, initial: InitialState) -> float:
    """``sum_p log N(c_p(0); m, V)`` from sums over paths."""
    mean, variance = initial.mean, initial.covariance
    squares = s.square[0] - 2.0 * mean * s.first[0] + s.n_paths * mean**2
    return float(-0.5 * (squares / variance + s.n_paths * np.log(2.0 * np.pi * variance)).sum())


# ---------- The semilinear engine


METHODS = ("auto", "closure", "one_pass")
#: Largest share of negative values with square-root noise; errors of observations make some.
MOST_NEGATIVE = 0.1
#: Options of a model where ``terms`` are given and the user passes nothing else.
ASSUMED = {"drift": "parametric", "noise": "diagonal"}


@dataclasses.dataclass(frozen=True)
class SemilinearEngine(Engine):
    """Likelihood of the Gaussian closure, with terms beyond the linear drift.

    Complete fields go through their transitions; gaps, noise, different clocks and few sensors
    through a filter. The drift is ``lambda_n = kappa + nu mu_n``, kappa held at 0 with term ``u``.

    Args:
        terms: terms of the equation beyond the linear drift, such as u^3. A tuple such as
            ("u", "u^3"); see `spdelaw.Semilinear`.
        method: likelihood of complete fields: "closure", "one_pass" (several variables with many
            modes), or "auto" (the first up to 160 modes).
        scheme: time stepping that produced the data: "exact", or "semi_implicit" for complete
            fields simulated with one step of this scheme from time to time. Their coefficients are
            then those of the scheme.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41))
        >>> law = sl.fit(sl.simulate(equation, 10), equation.domain, 5, terms=("u", "u^3"))
        >>> row = law.parameters.coefficient.sel(term="u^3")
        >>> bool(row.sel(statistic="lower") < -1.0 < row.sel(statistic="upper"))
        True
    """

    terms: Sequence[str] = ("u", "u^3")
    method: str = "auto"
    scheme: str = "exact"
    name = ENGINE
    takes_few_points = True
    supports = frozenset({"drift", "noise", "fixed", "observation_noise", "state_noise"})

    def __post_init__(self) -> None:
        """Check the options; a single name would be read letter by letter."""
        check_term_names("terms", self.terms)
        one_of("scheme", self.scheme, SCHEMES)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse options of the model that the engine does not support, and replicates."""
        super().check(model, bootstrap)
        check_semilinear(model, self.terms, self.scheme)
        if bootstrap:
            fix = "leave it out: the intervals are those of the observed information"
            raise InputError("bootstrap", expected="0 with terms", got=str(bootstrap), fix=fix)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law of the fields with these terms."""
        clock = time.perf_counter()
        if model.state_noise == "square_root":
            _check_positive(observed)
        try:
            with watched(run["progress"]):
                observations, fit = self.seen(observed, domain, n_modes, model)
        except ConvergenceError as error:
            if model.state_noise != "none":
                expected = f"fields whose noise is of the kind {model.state_noise!r}"
                other = "none" if model.state_noise == "affine" else "affine"
                fix = f"compare the kinds of noise with sl.discover, or pass state_noise={other!r}"
                got = "none for which the search finds a maximum"
                raise ConvergenceError("fit", expected=expected, got=got, fix=fix) from error
            if not (offset := offset_of(observed)):
                raise
            expected = "values around zero, where the powers of u differ"
            raise ConvergenceError("fit", expected=expected, got=offset, fix=SUBTRACT) from error
        return law_of(fit, observations, model, run["level"], clock)

    def words(self, model: Model) -> dict[str, Any]:
        """Keyword arguments of a fit."""
        scheme = {} if self.scheme == "exact" else {"scheme": self.scheme}
        words = {name: getattr(model, name) for name in ("drift", "noise", "state_noise", "fixed")}
        return {**words, **scheme}

    def seen(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model
    ) -> tuple[Observations, SemilinearFit]:
        """Observations, complete or partial, and the fit of all terms to them."""
        one_pass = takes_one_pass(self.method, domain, n_modes) and self.scheme == "exact"
        return classify_observations(
            observed, n_modes, model, self.terms, self.words(model), one_pass
        )


def _check_positive(observed: Observed) -> None:
    """Refuse square-root noise of fields that are often negative, where it has no meaning."""
    values = np.asarray(observed.values)
    share = float((values < 0.0).sum() / max(np.isfinite(values).sum(), 1))
    if share > MOST_NEGATIVE:
        expected = "values above zero, as sqrt(X) dW needs"
        got = f"{100 * share:.0f} % below zero"
        fix = "pass the field itself, no anomalies of it; else use state_noise='affine'"
        raise DataError("data", expected=expected, got=got, fix=fix)


def takes_one_pass(method: str, domain: AbstractDomain, n_modes: int) -> bool:
    """Whether a fit of so many modes goes by increments."""
    one_of("method", method, METHODS)
    several = isinstance(domain, Fields)
    if method == "one_pass" and not several:
        expected = "'closure' for one field"
        raise InputError("method", expected=expected, got="'one_pass'", fix="leave method out")
    return method == "one_pass" or (method == "auto" and several and n_modes > MOST_DENSE)


def check_term_names(what: str, names: Any) -> None:
    """Refuse anything but a sequence of names."""
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not (listed and all(isinstance(name, str) for name in names)):
        fix = f"pass {what}=('u', 'u^3')"
        raise InputError(what, expected="names in a tuple", got=shown(names), fix=fix)


def check_semilinear(model: Model, terms: Sequence[str], scheme: str = "exact") -> None:
    """Refuse options that a semilinear law does not have."""
    has_state_noise = model.state_noise != "none"
    if has_state_noise and scheme != "exact":
        expected, fix = "'exact' with state_noise", "leave scheme out"
        raise InputError("scheme", expected=expected, got=repr(scheme), fix=fix)
    if model.state_noise == "square_root" and model.noise != "diagonal":
        expected = "white noise, one number, with state_noise='square_root'"
        fix = "leave noise out: for other spectra the covariance is no moment of the field"
        raise InputError("noise", expected=expected, got=repr(model.noise), fix=fix)
    has_rates = has_state_noise and not terms and model.drift == "diagonal"
    if model.drift != "parametric" and not has_rates:
        same = "u" in terms and model.drift in ("diagonal", "dense")
        expected = "'parametric' (kappa + nu mu) with terms"
        got = f"{model.drift!r}" + (", of which the term 'u' is already a part" if same else "")
        fix = "leave drift out: it is then nu times the Laplacian"
        raise InputError("drift", expected=expected, got=got, fix=fix)
    if model.noise not in SEMILINEAR_NOISES:
        expected = f"one of {SEMILINEAR_NOISES} with terms"
        fix = "leave noise out: each mode then has a variance of its own"
        raise InputError("noise", expected=expected, got=repr(model.noise), fix=fix)
    if model.noise_word == "per_point":
        expected = "'auto', 'none', 'estimate' or known standard deviations with terms"
        fix = "pass the standard deviation of each point, or observation_noise='estimate'"
        raise InputError("observation_noise", expected=expected, got="'per_point'", fix=fix)
