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
from spdelaw.infer.semilinear._filter_starts import Rough, filter_start, noise_guess, rough_states
from spdelaw.infer.semilinear._layout import Layout
from spdelaw.infer.semilinear._optimise import (
    ALLOWED_SHIFT,
    Maximum,
    Objective,
    information,
    invert_information,
    maximise,
    positive,
    warn_if_coarse,
)
from spdelaw.infer.semilinear._result import SemilinearFit
from spdelaw.model import (
    Block,
    Collapsed,
    Prior,
    Transitions,
    closure_scores,
    filter_scores,
    in_segments,
    some_paths,
)

Array = np.ndarray

#: Terms count from this many times the time scale of the reaction on, ``1 / rate``.
BURN = 2.0
#: At most this part of a record is left out.
MOST_BURN = 0.5
#: Records on which the search begins.
SOME = 8
#: A search ends this near, in squared standard errors; Newton steps follow and end nearer.
NEAR, NEAR_NEWTON, MOST_NEWTON = 0.3, 0.01, 5
#: Most evaluations of the search.
MOST = 60
#: Beyond this many standard errors the change is too large for one Newton step.
LARGEST_SHIFT = 2.0
#: Most sub-steps.
MOST_STEPS = 16
#: Records on which finer sub-steps are tried, and paths that show how fast the reaction is.
FEW, FEW_PATHS = 6, 6


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
        collapsed: observations, by `spdelaw.model.collapse`.
        domain: where the modes live.
        terms: names, such as ("u", "u^3").
        noise: "parametric" or "diagonal".
        fixed: parameters to hold; ``kappa`` is held at 0 beside ``u``.
        observation_variance: where it is known; otherwise estimated.
        burn: time within which terms do not count; by default `BURN` time scales of the reaction.

    Returns:
        `SemilinearFit`; the noise of observations is the parameter ``observation_variance``.
    """
    form = layout(
        domain, collapsed.n_modes, terms, noise=noise, fixed=fixed, observed=True,
        observation_variance=observation_variance,
    )  # fmt: skip
    r = noise_guess(collapsed) if observation_variance is None else observation_variance
    rough = rough_states(collapsed, r)
    x, smooth, spent = filter_start(form.unobserved, collapsed, r, rough)
    metric = _complete_information(form, x, smooth, collapsed)
    x = x if observation_variance is not None else np.append(x, np.log(r))
    # Rough states are too lively; the time scale of the reaction is that of a first estimate.
    early = _burn(form, x, rough) if burn is None else burn
    some = _Likelihood(form, collapsed, rough.prior, early, SOME)
    objective = some.objective(1)
    first = maximise(objective, x, NEAR, MOST, some.share * metric)
    _check(first)
    metric = positive(information(objective, first), first.metric) / some.share
    burn = _burn(form, first.x, rough) if burn is None else burn
    whole = _Likelihood(form, collapsed, rough.prior, burn)
    spent += some.share * (first.n_evaluations + len(x))
    return _finish(whole, first.x, metric, spent)


def _burn(form: Layout, x: Array, rough: Rough) -> float:
    """`BURN` over the rate of the reaction, but no more than `MOST_BURN` of the shortest record."""
    states, times = rough.states, rough.times
    rate = float(np.median(reaction_rate(form.closure(x), states.reshape(-1, states.shape[-1]))))
    longest = MOST_BURN * float((times[:, -1] - times[:, 0]).min())
    return min(BURN / max(rate, 1e-300), longest)


def _complete_information(form: Layout, x: Array, data: Transitions, collapsed: Collapsed) -> Array:
    """Information of complete data like these, by squared scores of simulated next states."""
    plain = form.unobserved
    closure = plain.closure(x)
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


class _Likelihood:
    """Likelihood of some of the records, by free vector and number of sub-steps.

    Attributes:
        share: part of the values that it sees.
    """

    def __init__(
        self, form: Layout, collapsed: Collapsed, prior: Prior, burn: float, most: int | None = None
    ) -> None:
        self.form, self.collapsed, self.prior, self.burn = form, collapsed, prior, burn
        self.blocks, self.share = _records(collapsed, burn, most)

    def few(self, most: int) -> _Likelihood:
        """The same of fewer records."""
        return _Likelihood(self.form, self.collapsed, self.prior, self.burn, most)

    def objective(self, n_steps: int) -> Objective:
        """Value and scores of each record at a free vector."""
        form = self.form

        def objective(x: Array) -> tuple[float, Array]:
            closure, r = form.closure(x), form.observation_variance(x)
            value, scores = 0.0, []
            for block in self.blocks:
                with np.errstate(over="ignore", invalid="ignore"):
                    found = _safe(closure, block, r, self.prior, n_steps, self.burn)
                if found is None:
                    return -np.inf, np.zeros((1, len(x)))
                value += float(found.value.sum())
                scores.append(form.pull(x, *found[1:]))
            return value, np.concatenate(scores)

        return objective


def _records(collapsed: Collapsed, burn: float, most: int | None) -> tuple[list[Block], float]:
    """Blocks in segments, or about ``most`` of these spread over all, and their share."""
    blocks = [in_segments(block, burn) for block in collapsed.blocks]
    counts = np.array([len(block.paths) for block in blocks])
    if most is None or counts.sum() <= most:
        return blocks, 1.0
    chosen = np.zeros(counts.sum(), bool)
    chosen[np.linspace(0, counts.sum() - 1, most).astype(int)] = True
    parts = np.split(chosen, np.cumsum(counts)[:-1])
    kept = [some_paths(b, keep) for b, keep in zip(blocks, parts, strict=True) if keep.any()]
    return kept, float(chosen.mean())


def _safe(closure, block, r, prior, n_steps, burn):  # type: ignore[no-untyped-def]
    """Scores of a block, or None where a step of the search led out of what can be computed."""
    try:
        found = filter_scores(closure, block, r, prior, n_steps, burn)
    except np.linalg.LinAlgError:
        return None
    return found if all(np.isfinite(part).all() for part in found) else None


def _finish(like: _Likelihood, x: Array, metric: Array, spent: float) -> SemilinearFit:
    """Maximum of all records, its curvature, and as many sub-steps as it needs."""
    form, collapsed = like.form, like.collapsed
    few, covariance, n = like.few(FEW), None, 1
    while True:
        best, covariance, more = _climb(like.objective(n), x, metric, covariance, like)
        metric = np.linalg.inv(covariance)
        change = covariance @ _finer(few, n, best.x)
        shift = float(np.abs(change / np.sqrt(np.diag(covariance))).max())
        spent += more + 3.0 * few.share
        if shift <= ALLOWED_SHIFT or n >= MOST_STEPS:
            break
        x, n = best.x + change, 2 * n
    warn_if_coarse(shift)
    end = best.x + (change if shift < LARGEST_SHIFT else 0.0)
    robust = _sandwich(best.scores, covariance)
    return SemilinearFit(
        form, end, covariance, robust, best.value, int(collapsed.n_values),
        best.scores, np.arange(len(best.scores)),
        {
            "n_steps": n, "step_shift": shift, "converged": bool(best.converged),
            "burn": like.burn, "n_evaluations": spent, "rate_dt": _rate_dt(form, collapsed, end),
            "n_paths": collapsed.n_paths, "n_transitions": _n_transitions(collapsed),
            "prior": like.prior, "remaining_gain": 0.5 * best.distance**2,
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


def _climb(
    objective: Objective, x: Array, metric: Array, covariance: Array | None, like: _Likelihood
) -> tuple[Maximum, Array, float]:
    """The maximum, and the inverse of its curvature: Newton steps go the last part of the way."""
    best = maximise(objective, x, NEAR, MOST, metric)
    _check(best)
    spent = float(best.n_evaluations)
    if covariance is None:
        curvature = information(objective, best)
        covariance = invert_information(curvature, _rate_dt(like.form, like.collapsed, best.x))
        spent += len(x)
    for _ in range(MOST_NEWTON):
        promise = _promise(best, covariance)
        if promise < NEAR_NEWTON:
            break
        trial = best.x + covariance @ best.scores.sum(0)
        value, scores = objective(trial)
        spent += 1
        if not value >= best.value:
            break
        best = best._replace(x=trial, value=value, scores=scores)
    best = best._replace(converged=promise < NEAR, distance=float(np.sqrt(abs(promise))))
    return best, covariance, spent


def _promise(best: Maximum, covariance: Array) -> float:
    """Squared distance to the maximum in standard errors."""
    score = best.scores.sum(0)
    return float(score @ covariance @ score)


def _finer(few: _Likelihood, n: int, x: Array) -> Array:
    """What twice the sub-steps change in the score, from a few records."""
    coarse, fine = (few.objective(k)(x)[1].sum(0) for k in (n, 2 * n))
    return (fine - coarse) / few.share


def _check(best: Maximum) -> None:
    if not np.isfinite(best.value):
        expected, fix = "a finite likelihood at the start", "observe more often, or use fewer modes"
        raise ConvergenceError("fit", expected=expected, got="a filter that runs away", fix=fix)
