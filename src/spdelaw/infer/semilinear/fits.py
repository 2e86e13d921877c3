"""Fits of a semilinear law: complete coefficients, or fields with gaps and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spdelaw.checks import one_of
from spdelaw.domains.base import AbstractDomain
from spdelaw.infer.semilinear.layout import OBSERVATION, Layout, SemilinearFit, check_amount, layout
from spdelaw.infer.semilinear.starts import (
    Maximum,
    ScoredFunction,
    filter_start,
    information,
    invert_information,
    maximise,
    noise_guess,
    positive,
    pseudo_inverse,
    refine,
    rough_states,
    start,
)
from spdelaw.processes.closure import advance
from spdelaw.processes.semilinear import substeps
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.collapse import Block, Collapsed, some_paths
from spdelaw.statespace.semilinear import (
    Transitions,
    closure_scores,
    filter_scores,
    in_segments,
    scheme_scores,
    transitions,
)

# ---------- Fit of a semilinear law to coefficients that are observed completely
#
# Exponential-Euler start, scoring on a part of the transitions, then on all; observed information;
# and the closure with twice the sub-steps, whose score at the estimate, times the inverse
# information, gives the change by finer sub-steps. A sample of the transitions is enough for both.


Array = np.ndarray

#: Dynamics of the fields: the equation itself, or a scheme from one time to the next.
SCHEMES = ("exact", "semi_implicit")
#: The warm-up uses this many transitions per parameter.
WARM_PER_PARAMETER = 50
#: Transitions from which curvature and change by finer steps are computed.
CURVATURE_TRANSITIONS = {"exact": 500, "semi_implicit": 4000}
#: Transitions whose states determine the rate of the reaction.
RATE_TRANSITIONS = 2000
#: Warm-up ends this near its maximum, in squared standard errors.
WARM_NEAR = 0.05
#: The search on all transitions ends this near; one Newton step goes the rest of the way.
FULL_NEAR = 0.02


def fit_complete(
    coefficients: Array,
    times: Array,
    domain: AbstractDomain,
    terms: Sequence[str],
    *,
    noise: str = "parametric",
    fixed: Mapping[str, float] | None = None,
    scheme: str = "exact",
) -> SemilinearFit:
    """Learn ``nu``, the coefficients of the terms and the noise from coefficients (P, T, N).

    Args:
        coefficients: modes of complete fields, (paths, times, modes); NaN breaks a path in two.
        times: (T,), or (P, T).
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        noise: "parametric", ``scale n^-exponent``, or "diagonal", one variance per mode.
        fixed: parameters to hold; ``kappa`` is held at 0 beside ``u``.
        scheme: "exact", or "semi_implicit" for fields that this scheme made, step by step.

    Returns:
        `SemilinearFit`.
    """
    c = np.asarray(coefficients, float)
    form = layout(domain, c.shape[-1], terms, noise=noise, fixed=fixed)
    return fit_transitions(form, transitions(c, np.asarray(times, float)), scheme=scheme)


def fit_transitions(form: Layout, data: Transitions, *, scheme: str = "exact") -> SemilinearFit:
    """Fit of a layout to pairs of successive states.

    Args:
        form: parameters and terms.
        data: pairs, by `spdelaw.statespace.semilinear.transitions`.
        scheme: "exact" or "semi_implicit".
    """
    one_of("scheme", scheme, SCHEMES)
    n_values = data.after.size if len(data.dt) > 1 else 0  # one pair alone tells of no spread
    check_amount(form, n_values, "values after a first time,")
    like, x = _TransitionLikelihood(form, scheme, len(data.dt)), start(form, data)
    data = _with_substeps(form, data, x)
    some = data.draw(WARM_PER_PARAMETER * max(len(x), 4))
    if len(some.dt) < len(data.dt):
        x = maximise(like.of(some), x, WARM_NEAR).x
        data = _with_substeps(form, data, x)  # a start from increments is far too slow

    def climb(x: Array, n: int, covariance: Array | None) -> tuple[Maximum, Array]:
        best = maximise(like.of(data, n), x, FULL_NEAR)
        if covariance is None:
            rows, weight = _sample_by_leverage(best.scores, CURVATURE_TRANSITIONS[scheme])
            sampled = like.of(data.take(rows), n, weight)
            curvature = information(sampled, best._replace(scores=weight * best.scores[rows]))
            rate = form.rate(best.x, data.before[:RATE_TRANSITIONS]) * float(np.median(data.dt))
            covariance = invert_information(curvature, rate)
        return best, covariance

    def finer(best: Maximum, n: int) -> Array:
        # Both closures on the same transitions: their difference hardly varies.
        rows, weight = _sample_by_leverage(best.scores, CURVATURE_TRANSITIONS[scheme])
        fine = like.of(data.take(rows), 2 * n, weight)(best.x)[1]
        return (fine - weight * best.scores[rows]).sum(0)

    best, covariance, step, refinement = refine(climb, finer, x)
    # One Newton step for the remaining score and for the change by finer sub-steps.
    end = best.x + covariance @ best.scores.sum(0) + step
    meat = best.scores.T @ best.scores
    return SemilinearFit(
        form, end, covariance, covariance @ meat @ covariance, best.value, data.after.size,
        best.scores, data.path,
        {
            **refinement, "converged": best.expected_gain < FULL_NEAR, "n_evaluations": like.spent,
            "rate_dt": form.rate(end, data.before[:RATE_TRANSITIONS]) * float(np.median(data.dt)),
            "n_transitions": len(data.dt), "remaining_gain": 0.5 * abs(best.expected_gain),
            "scheme": scheme,
        },
    )  # fmt: skip


def _with_substeps(form: Layout, data: Transitions, x: Array) -> Transitions:
    """The transitions with as many sub-steps as the rate of the reaction at x needs."""
    return data._replace(steps=substeps(form.closure(x), data.before, data.dt))


class _TransitionLikelihood:
    """Log-likelihood of pairs; ``spent`` counts how often that of all n was computed."""

    def __init__(self, form: Layout, scheme: str, n: int) -> None:
        self.form, self.scheme, self.n, self.spent = form, scheme, n, 0.0

    def of(
        self, data: Transitions, n_steps: int = 1, weight: Array | float = 1.0
    ) -> ScoredFunction:
        """Value at a free vector, and scores times weights, of these pairs."""
        form = self.form
        values = None if self.scheme == "exact" else form.reaction.values(data.before)

        def objective(x: Array) -> tuple[float, Array]:
            self.spent += len(data.dt) / self.n
            closure = form.closure(x)
            if values is None:
                scores = closure_scores(closure, data, n_steps)
            else:
                scores = scheme_scores(closure, data, values)
            return float(scores.value.sum()), weight * form.pull(x, *scores[1:])

        return objective


def _sample_by_leverage(scores: Array, n: int) -> tuple[Array, Array]:
    """About n rows drawn by their leverage, and weights (rows, 1) that keep sums unbiased.

    The first steps of a path can carry most of the information about a term.
    """
    if n >= len(scores):
        return np.arange(len(scores)), np.ones((len(scores), 1))
    factor = pseudo_inverse(scores.T @ scores)
    leverage = ((scores @ factor) * scores).sum(1)
    chance = np.minimum(1.0, n * (0.5 / len(scores) + 0.5 * leverage / leverage.sum()))
    rows = np.flatnonzero(np.random.default_rng(0).random(len(scores)) < chance)
    return rows, 1.0 / chance[rows, None]


# ---------- Fit of a semilinear law to fields with gaps, noise, different times or few sensors
#
# The closure predicts, collapsed observations correct (`spdelaw.statespace.semilinear`). The search
# starts from rough states with the information that complete data would carry as its metric.


#: Terms count from this many times the time scale of the reaction on, ``1 / rate``.
BURN_TIME_SCALES = 2.0
#: Largest share of a record within the burn-in.
LARGEST_BURN_SHARE = 0.5
#: Records on which the search begins.
FIRST_RECORDS = 8
#: A search ends this near, in squared standard errors; Newton steps follow and end nearer.
NEAR, NEAR_NEWTON, MOST_NEWTON = 0.3, 0.01, 5
#: Most evaluations of the search.
MOST_EVALUATIONS = 60
#: Records on which finer sub-steps are tried, and paths that determine the rate of the reaction.
TRIAL_RECORDS, RATE_PATHS = 6, 6


def fit_filtered(
    collapsed: Collapsed,
    domain: AbstractDomain,
    terms: Sequence[str],
    *,
    noise: str = "parametric",
    fixed: Mapping[str, float] | None = None,
    observation_variance: float | None = None,
    burn: float | None = None,
) -> SemilinearFit:
    """Learn a semilinear law from observations collapsed onto its modes.

    Args:
        collapsed: observations, by `spdelaw.statespace.collapse.collapse`.
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        noise: "parametric" or "diagonal".
        fixed: parameters to hold; ``kappa`` is held at 0 beside ``u``.
        observation_variance: where it is known; otherwise estimated.
        burn: time within which terms do not count; by default `BURN_TIME_SCALES` time
            scales of the reaction.

    Returns:
        `SemilinearFit`; the noise of observations is the parameter ``observation_variance``.
    """
    held = {**(fixed or {}), OBSERVATION: observation_variance}
    form = layout(domain, collapsed.n_modes, terms, noise=noise, fixed=held, observed=True)
    r = noise_guess(collapsed) if observation_variance is None else observation_variance
    states, times, prior = rough_states(collapsed, r)
    x, smooth, spent = filter_start(form, collapsed, r, transitions(states, times), prior)
    metric = _complete_information(form, x, smooth, collapsed)
    longest = LARGEST_BURN_SHARE * float((times[:, -1] - times[:, 0]).min())

    def burn_at(x: Array) -> float:
        if burn is not None:
            return burn
        return min(
            BURN_TIME_SCALES / max(form.rate(x, states.reshape(-1, states.shape[-1])), 1e-300),
            longest,
        )

    # Rough states are too lively; the time scale of the reaction is that of a first estimate.
    some = _FilterLikelihood(form, collapsed, prior, burn_at(x), FIRST_RECORDS)
    first = maximise(some.of(1), x, NEAR, MOST_EVALUATIONS, some.share * metric)
    metric = positive(information(some.of(1), first), first.metric) / some.share
    whole = _FilterLikelihood(form, collapsed, prior, burn_at(first.x))
    return _fit_all_records(whole, first.x, metric, spent + some.spent)


def _complete_information(form: Layout, x: Array, data: Transitions, collapsed: Collapsed) -> Array:
    """Information of complete data like these, by squared scores of simulated next states."""
    closure, data = form.closure(x), data.draw(500)
    rows = []
    generator = np.random.default_rng(0)
    for k in range(len(data.dt)):
        ahead, _ = advance(closure, data.before[k : k + 1], None, float(data.dt[k]))
        root = np.linalg.cholesky(ahead.covariance[0])
        rows.append(ahead.mean[0] + root @ generator.standard_normal(len(root)))
    closure_gradient = closure_scores(closure, data._replace(after=np.array(rows)), 1)
    scores = form.pull(x, *closure_gradient[1:])
    n_times = collapsed.blocks[0].vector.shape[0]
    out = collapsed.n_paths * (n_times - 1) / len(scores) * scores.T @ scores
    if OBSERVATION in form.free_names:
        out[-1, -1] = 0.5 * collapsed.n_values
    return out


class _FilterLikelihood:
    """Log-likelihood of records, of all of them or of about ``most`` spread over all.

    Attributes:
        share: of the records that it contains.
        spent: how often that of all of them was computed.
    """

    def __init__(
        self,
        form: Layout,
        collapsed: Collapsed,
        prior: InitialState,
        burn: float,
        most: float = np.inf,
    ) -> None:
        self.form, self.collapsed, self.prior, self.burn = form, collapsed, prior, burn
        self.blocks, self.share, self.spent = *_select_records(collapsed, burn, most), 0.0

    def of(self, n_steps: int) -> ScoredFunction:
        """Value and scores of each record at a free vector; -inf where they overflow."""
        form = self.form

        def objective(x: Array) -> tuple[float, Array]:
            self.spent += self.share
            given = (form.observation_variance(x), self.prior, n_steps, self.burn)
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    closure = form.closure(x)
                    evaluations = [filter_scores(closure, block, *given) for block in self.blocks]
            except np.linalg.LinAlgError:
                return -np.inf, np.zeros((1, len(x)))
            if not all(
                np.isfinite(entry).all() for evaluation in evaluations for entry in evaluation
            ):
                return -np.inf, np.zeros((1, len(x)))
            scores = [form.pull(x, *evaluation[1:]) for evaluation in evaluations]
            return sum(float(evaluation.value.sum()) for evaluation in evaluations), np.concatenate(
                scores
            )

        return objective

    def rate_dt(self, x: Array) -> float:
        """Rate of the reaction times the usual step, at what was observed of the first paths."""
        block = self.collapsed.blocks[0]
        states = block.estimate[..., :RATE_PATHS].transpose(0, 2, 1)
        rate = self.form.rate(x, states.reshape(-1, states.shape[-1]))
        return rate * float(np.median(np.diff(block.times, axis=0)))


def _select_records(collapsed: Collapsed, burn: float, most: float) -> tuple[list[Block], float]:
    """Blocks in segments, or about ``most`` of these spread over all, and their share."""
    blocks = [in_segments(block, burn) for block in collapsed.blocks]
    counts = np.array([len(block.paths) for block in blocks])
    if counts.sum() <= most:
        return blocks, 1.0
    chosen = np.zeros(counts.sum(), bool)
    chosen[np.linspace(0, counts.sum() - 1, int(most)).astype(int)] = True
    parts = np.split(chosen, np.cumsum(counts)[:-1])
    kept = [some_paths(b, keep) for b, keep in zip(blocks, parts, strict=True) if keep.any()]
    return kept, float(chosen.mean())


def _fit_all_records(
    like: _FilterLikelihood, x: Array, metric: Array, spent: float
) -> SemilinearFit:
    """Maximum over all records, its curvature, and as many sub-steps as it needs."""
    form, collapsed = like.form, like.collapsed
    few = _FilterLikelihood(form, collapsed, like.prior, like.burn, TRIAL_RECORDS)

    def climb(x: Array, n: int, covariance: Array | None) -> tuple[Maximum, Array]:
        """Newton steps go the last part of the way."""
        objective = like.of(n)
        start_metric = metric if covariance is None else np.linalg.inv(covariance)
        best = maximise(objective, x, NEAR, MOST_EVALUATIONS, start_metric)
        if covariance is None:
            curvature = information(objective, best)
            covariance = invert_information(curvature, like.rate_dt(best.x))
        for _ in range(MOST_NEWTON):
            step = covariance @ best.scores.sum(0)
            best = best._replace(expected_gain=float(best.scores.sum(0) @ step))
            if best.expected_gain < NEAR_NEWTON:
                break
            value, scores = objective(best.x + step)
            if not value >= best.value:
                break
            best = best._replace(x=best.x + step, value=value, scores=scores)
        return best, covariance

    def finer(best: Maximum, n: int) -> Array:
        coarse, fine = (few.of(k)(best.x)[1].sum(0) for k in (n, 2 * n))
        return (fine - coarse) / few.share

    best, covariance, step, refinement = refine(climb, finer, x)
    end = best.x + step
    return SemilinearFit(
        form, end, covariance, _sandwich(best.scores, covariance), best.value,
        int(collapsed.n_values), best.scores, np.arange(len(best.scores)),
        {
            **refinement, "converged": best.expected_gain < NEAR, "rate_dt": like.rate_dt(end),
            "n_evaluations": spent + like.spent + few.spent, "burn": like.burn,
            "n_transitions": _n_transitions(collapsed), "prior": like.prior,
            "remaining_gain": 0.5 * abs(best.expected_gain),
        },
    )  # fmt: skip


def _sandwich(scores: Array, covariance: Array) -> Array:
    """Covariance from the spread of the scores; as it is where the records are too few.

    At the maximum k parameters have turned the n scores towards zero: ``n / (n - k)`` makes up.
    """
    n, k = scores.shape
    if n < 2 * k:
        return covariance
    return n / (n - k) * covariance @ scores.T @ scores @ covariance


def _n_transitions(collapsed: Collapsed) -> int:
    """Number of rows with observations, without the first of each path."""
    rows = 0
    for block in collapsed.blocks:
        n_times, n_paths = len(block.gram), len(block.paths)
        is_observed = block.gram.reshape(n_times, -1, block.gram.shape[-1]).any(1)
        rows += int(np.broadcast_to(is_observed, (n_times, n_paths)).sum())
    return max(rows - collapsed.n_paths, 1)
