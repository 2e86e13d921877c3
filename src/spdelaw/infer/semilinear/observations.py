"""Observations of a semilinear fit: the states, or fields that depend on them.

Where every row that observes anything determines all modes, and shows no noise, the rows are the
states, on whatever clock, and their transitions have the likelihood of the closure
(`FullyObserved`). Otherwise the closure is the prediction of a filter (`PartlyObserved`). With more
modes of several fields than the closure can carry, fields have to be complete and free of noise,
and fits go by increments.

Noise in the rows makes successive prediction errors e negatively correlated. With ``F`` the factor
of a step and ``r / G`` the variance of noise in the modes,

    Cov(e_{t+1}, e_t) = -r F / G,    so    s_t = -sum_n e_{t+1,n} e_{t,n} F_n / (G_n Omega_n^2)

has mean zero without noise, whatever the weights, and ``sum s / sqrt(sum s^2)`` is a normal score.
Noise of the variance r that lies outside the modes would give it the mean ``r sqrt(n sum_n w_n^2)``
with ``w_n = F_n / (G_n Omega_n)``. A residual that is white in time is noise, unless that mean is
negligible.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np

from spdelaw.data.observed import Observed, check_change
from spdelaw.domains.fields import Fields
from spdelaw.errors import ConvergenceError, DataError
from spdelaw.infer.engines.candidates import residual_correlation
from spdelaw.infer.engines.design import fixed_noise
from spdelaw.infer.engines.exact import statistics_of
from spdelaw.infer.model import Model
from spdelaw.infer.moments import mean_gram
from spdelaw.infer.optimise import Estimate, Fit
from spdelaw.infer.semilinear.fits import SemilinearFit, fit_complete, fit_filtered
from spdelaw.infer.semilinear.layout import layout
from spdelaw.infer.semilinear.one_pass import fit_one_pass, residuals
from spdelaw.processes.closure import Closure
from spdelaw.processes.operators import decay_mean
from spdelaw.processes.semilinear import substeps
from spdelaw.processes.terms import MOST_DENSE, bound, field_of
from spdelaw.statespace.collapse import Collapsed, collapse
from spdelaw.statespace.statistics import Statistics
from spdelaw.statespace.transitions import (
    Transitions,
    scheme_innovations,
    transition_innovations,
    transitions,
)

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
        return fit_one_pass(form, self.transitions)

    def shows_noise(self, fit: SemilinearFit) -> bool:
        """Whether errors of predictions, or what lies outside the modes, are those of noise."""
        if self.is_held:
            return False
        closure, data = fit.layout.closure(fit.estimate.full), self.transitions
        data = data.take(np.arange(min(len(data.dt), TESTED_TRANSITIONS)))
        data = data._replace(steps=substeps(closure, data.before, data.dt))
        if self.one_pass:
            errors = residuals(fit, data)
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
