"""Fit of a semilinear law to fields with gaps, noise, own times or few sensors.

The closure predicts, collapsed observations correct (`model._semilinear_filter`). The search starts
from rough states with the information that complete data would carry as its metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.equation import advance, reaction_rate
from spdelaw.errors import ConvergenceError
from spdelaw.infer.semilinear._fields_layout import layout
from spdelaw.infer.semilinear._filter_starts import (
    filter_start,
    noise_guess,
    rough_states,
)
from spdelaw.infer.semilinear._layout import Layout
from spdelaw.infer.semilinear._optimise import (
    ALLOWED_SHIFT,
    Maximum,
    Objective,
    information,
    invert_information,
    maximise_bfgs,
    warn_if_coarse,
)
from spdelaw.infer.semilinear._result import SemilinearFit
from spdelaw.model import (
    Collapsed,
    Prior,
    closure_scores,
    filter_scores,
    in_segments,
    smooth_semilinear,
    some_paths,
    transitions,
)

Array = np.ndarray

#: Terms count from this many times the time scale of the reaction on, ``1 / rate``.
BURN = 2.0
#: At most this part of a record is left out.
MOST_BURN = 0.5
#: The search ends this near, in squared standard errors of its metric; Newton steps follow.
NEAR = 0.05
#: Most evaluations of the search.
MOST = 60
#: Beyond this many standard errors the change is too large for one Newton step.
LARGEST_SHIFT = 2.0
#: Most sub-steps.
MOST_STEPS = 16
#: Paths on which finer sub-steps are tried.
FEW_PATHS = 6


def fit_filtered(
    collapsed: Collapsed,
    domain: AbstractDomain,
    terms: Sequence[str],
    *,
    noise: str = "parametric",
    fixed: Mapping[str, float] | None = None,
    observation_variance: float | None = None,
    prior: Prior | None = None,
    burn: float | None = None,
    n_steps: int = 1,
) -> SemilinearFit:
    """Learn a semilinear law from observations collapsed onto its modes.

    Args:
        collapsed: observations, by `spdelaw.model.collapse`.
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        noise: "parametric" or "diagonal".
        fixed: parameters to hold; ``kappa`` is held at 0 beside ``u``.
        observation_variance: where it is known; otherwise estimated.
        prior: Gaussian state at the first time; by default wide.
        burn: time within which terms do not count; by default `BURN` time scales of the reaction.
        n_steps: sub-steps of the closure between observations to begin with.

    Returns:
        `SemilinearFit`; the noise of observations is the parameter ``observation_variance``.
    """
    form = layout(
        domain, collapsed.n_modes, terms, noise=noise, fixed=fixed, observed=True,
        observation_variance=observation_variance,
    )  # fmt: skip
    r = noise_guess(collapsed) if observation_variance is None else observation_variance
    states, times, _, wide = rough_states(collapsed, r)
    x, _, spent = filter_start(form.unobserved, collapsed, r)
    prior = wide if prior is None else prior
    burn_given = burn is not None
    burn = burn if burn is not None else _burn(form.unobserved, x, states, times)
    block = collapsed.blocks[0]
    few = some_paths(block, np.arange(len(block.paths)) < len(states))
    smooth = smooth_semilinear(form.unobserved.closure(x), few, r, prior)
    metric = _complete_information(form, x, smooth.mean.transpose(1, 0, 2), times, collapsed)
    x = x if observation_variance is not None else np.append(x, np.log(r))
    if burn_given:
        return _finish(form, collapsed, prior, burn, n_steps, x, metric, spent / 4.0)
    # Rough states are too lively; the time scale of the reaction is that of a first estimate.
    first = maximise_bfgs(_objective(form, collapsed, prior, burn, n_steps), x, metric, 1.0, MOST)
    _check(first)
    better = _burn(form, first.x, states, times)
    return _finish(
        form, collapsed, prior, max(burn, better), n_steps, first.x, metric,
        spent / 4.0 + first.n_evaluations,
    )  # fmt: skip


def _burn(form: Layout, x: Array, states: Array, times: Array) -> float:
    """`BURN` over the rate of the reaction, but no more than `MOST_BURN` of the shortest record."""
    rate = float(np.median(reaction_rate(form.closure(x), states.reshape(-1, states.shape[-1]))))
    longest = MOST_BURN * float((times[:, -1] - times[:, 0]).min())
    return min(BURN / max(rate, 1e-300), longest)


def _complete_information(
    form: Layout, x: Array, states: Array, times: Array, collapsed: Collapsed
) -> Array:
    """Information of complete data like these, by squared scores of simulated next states."""
    plain = form.unobserved
    closure = plain.closure(x)
    data = transitions(states, times)
    data = data.draw(500)
    rows = []
    generator = np.random.default_rng(0)
    for k in range(len(data.dt)):
        ahead, _ = advance(closure, data.before[k : k + 1], None, float(data.dt[k]))
        root = np.linalg.cholesky(ahead.covariance[0])
        rows.append(ahead.mean[0] + root @ generator.standard_normal(len(root)))
    drawn = data._replace(after=np.array(rows))
    found = closure_scores(closure, drawn, 1)
    scores = plain.pull(x, found.rate, found.noise, found.coefficient)
    n_times = collapsed.blocks[0].vector.shape[0]
    share = collapsed.n_paths * (n_times - 1) / len(scores)
    out = share * scores.T @ scores
    if len(form.free) > len(x):
        full = np.zeros((len(x) + 1, len(x) + 1))
        full[:-1, :-1], full[-1, -1] = out, 0.5 * collapsed.n_values
        return full
    return out


def _objective(
    form: Layout, collapsed: Collapsed, prior: Prior, burn: float, n_steps: int
) -> Objective:
    blocks = [in_segments(block, burn) for block in collapsed.blocks]

    def objective(x: Array) -> tuple[float, Array]:
        closure, r = form.closure(x), form.observation_variance(x)
        value, scores = 0.0, []
        for block in blocks:
            with np.errstate(over="ignore", invalid="ignore"):
                found = _safe(closure, block, r, prior, n_steps, burn)
            if found is None:
                return -np.inf, np.zeros((1, len(x)))
            value += float(found.value.sum())
            scores.append(form.pull(x, *found[1:]))
        return value, np.concatenate(scores)

    return objective


def _safe(closure, block, r, prior, n_steps, burn):  # type: ignore[no-untyped-def]
    """Scores of a block, or None where a step of the search led out of what can be computed."""
    try:
        found = filter_scores(closure, block, r, prior, n_steps, burn)
    except np.linalg.LinAlgError:
        return None
    return found if all(np.isfinite(part).all() for part in found) else None


def _finish(
    form: Layout, collapsed: Collapsed, prior: Prior, burn: float, n: int, x: Array, metric: Array,
    spent: float,
) -> SemilinearFit:  # fmt: skip
    covariance = None
    while True:
        objective = _objective(form, collapsed, prior, burn, n)
        best = maximise_bfgs(objective, x, metric, NEAR, MOST)
        _check(best)
        spent += best.n_evaluations
        if covariance is None:
            rate_dt = _rate_dt(form, collapsed, best.x)
            best, covariance, more = _newton(objective, best, metric, rate_dt)
            spent += more
        metric = np.linalg.inv(covariance)
        change = covariance @ _finer(form, collapsed, prior, burn, n, best.x)
        shift = float(np.abs(change / np.sqrt(np.diag(covariance))).max())
        if shift <= ALLOWED_SHIFT or n >= MOST_STEPS:
            break
        x, n = best.x + change, 2 * n
    warn_if_coarse(shift)
    end = best.x + (change if shift < LARGEST_SHIFT else 0.0)
    meat = best.scores.T @ best.scores
    robust = covariance @ meat @ covariance if len(best.scores) >= 2 * len(x) else covariance
    return SemilinearFit(
        form, end, covariance, robust, best.value, int(collapsed.n_values),
        best.scores, np.arange(len(best.scores)),
        {
            "n_steps": n, "step_shift": shift, "converged": bool(best.converged), "burn": burn,
            "n_evaluations": spent, "rate_dt": _rate_dt(form, collapsed, end),
            "n_paths": collapsed.n_paths, "n_transitions": _n_transitions(collapsed),
            "prior": prior, "remaining_gain": 0.5 * best.distance**2,
        },
    )  # fmt: skip


def _n_transitions(collapsed: Collapsed) -> int:
    """Rows that tell of the state, but the first of each path."""
    rows = 0
    for block in collapsed.blocks:
        n_times, n_paths = len(block.gram), len(block.paths)
        seen = block.gram.reshape(n_times, -1, block.gram.shape[-1]).any(1)
        rows += int(np.broadcast_to(seen, (n_times, n_paths)).sum())
    return max(rows - collapsed.n_paths, 1)


def _rate_dt(form: Layout, collapsed: Collapsed, x: Array) -> float:
    """Rate of the reaction times the usual step, at what was observed of the first paths."""
    block = collapsed.blocks[0]
    states = block.estimate[..., :FEW_PATHS].transpose(0, 2, 1).reshape(-1, collapsed.n_modes)
    rate = np.median(reaction_rate(form.closure(x), states))
    return float(rate * np.median(np.diff(block.times, axis=0)))


def _newton(
    objective: Objective, best: Maximum, metric: Array, rate_dt: float
) -> tuple[Maximum, Array, float]:
    """Observed information, and Newton steps with it until the maximum is near."""
    covariance = invert_information(information(objective, best, metric), rate_dt)
    spent = float(len(best.x))
    for _ in range(4):
        step = covariance @ best.scores.sum(0)
        promise = float(step @ best.scores.sum(0))
        if promise < 0.01:
            break
        value, scores = objective(best.x + step)
        spent += 1
        if value < best.value:
            break
        best = best._replace(x=best.x + step, value=value, scores=scores)
    done = promise < 0.05
    return best._replace(converged=done, distance=float(np.sqrt(abs(promise)))), covariance, spent


def _finer(
    form: Layout, collapsed: Collapsed, prior: Prior, burn: float, n: int, x: Array
) -> Array:
    """What twice the sub-steps change in the score, from a few paths."""
    block = collapsed.blocks[0]
    some = some_paths(block, np.arange(len(block.paths)) < FEW_PATHS)
    part = Collapsed((some,), some.vector.shape[2], collapsed.n_modes)
    coarse = _objective(form, part, prior, burn, n)(x)[1].sum(0)
    fine = _objective(form, part, prior, burn, 2 * n)(x)[1].sum(0)
    return (fine - coarse) * collapsed.n_paths / part.n_paths


def _check(best: Maximum) -> None:
    if not np.isfinite(best.value):
        raise ConvergenceError(
            "fit", expected="a finite likelihood at the start",
            got="a filter that runs away", fix="observe more often, or use fewer modes",
        )  # fmt: skip
