"""Maximum likelihood of the paper's truncated decoder, and what the truncation costs.

The observation variance has to carry what K functions of time cut off, so it is part of the
estimate also for data without noise.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import ConvergenceError, InputError
from spdelaw.infer import _starts
from spdelaw.infer._filter_route import first_states, n_states, starts_differ
from spdelaw.infer._fitted import Fitted, initial_kind, spectra
from spdelaw.infer._layout import Layout, fixed_values, prior_terms
from spdelaw.infer._observed import Observed
from spdelaw.infer._problem import (
    Problem,
    Solution,
    solve,
    starting_scale,
    starting_vector,
)
from spdelaw.infer._settings import Settings
from spdelaw.infer._statistics_route import fit_statistics, statistics_of
from spdelaw.infer._view import point_weights
from spdelaw.model import (
    ChaosModel,
    Collapsed,
    Evaluation,
    Parameters,
    collapse,
    evaluate_chaos,
    evaluate_likelihood,
    project_on_decoder,
)

Array = np.ndarray

#: Mean square outside the modes, relative to the field's, below which there is no noise.
NOISE_FREE = 1e-12
#: Paths whose projection gives the first guess of the observation variance.
SAMPLE = 24
BIASED = (
    "the tail beyond K = {} functions of time is dropped: the observation variance carries it and "
    "the spectra are biased; tail='modelled' is not"
)


class Loss(NamedTuple):
    """Log-likelihood per path that the truncation costs, and the density it is counted in."""

    per_path: float | None
    density: str


def check_truncated(settings: Settings) -> None:
    """Refuse what the truncated model has no place for."""
    refused = {
        "noise": (
            settings.noise in ("low_rank", "dense"), "'diagonal' or 'parametric'", settings.noise,
            "pass tail='modelled', or engine='exact'",
        ),
        "observation_noise": (
            settings.noise_word in ("none", "per_point"),
            "'auto', 'estimate' or a standard deviation", settings.noise_word,
            "the observation variance carries the dropped tail; or pass tail='modelled'",
        ),
        "nuisance": (
            settings.nuisance not in ("auto", 0), "no nuisance modes", settings.nuisance,
            "raise n_modes, or pass tail='modelled'",
        ),
        "bootstrap": (
            settings.bootstrap != 0, "0", settings.bootstrap,
            "a truncated fit is biased; pass tail='modelled' to bootstrap",
        ),
    }  # fmt: skip
    for what, (is_wrong, expected, got, fix) in refused.items():
        if is_wrong:
            raise InputError(
                what, expected=f"{expected} with tail='dropped'", got=repr(got), fix=fix
            )


def estimate_truncated(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings, model: ChaosModel
) -> tuple[Fitted, Loss]:
    clock = time.perf_counter()
    known, weights = settings.known_variance, None
    if isinstance(known, np.ndarray):
        weights, known = point_weights(known, len(observed.points)), 1.0
    basis = domain.eigenfunctions(observed.points, n_modes)
    collapsed = collapse(observed.load(), observed.times, basis, weights)
    seconds = {"read": time.perf_counter() - clock}
    clock = time.perf_counter()
    problem = _problem(collapsed, observed, domain, n_modes, settings, model, known)
    solution = _solve(problem)
    seconds["maximise"] = time.perf_counter() - clock
    fitted = Fitted(
        solution, problem.layout, n_modes, "chaos", collapsed.n_values, 0.0, None,
        (BIASED.format(model.n_time),), seconds,
    )  # fmt: skip
    return fitted, _loss(fitted, collapsed, problem, observed, domain, settings, model)


def _problem(
    collapsed: Collapsed, observed: Observed, domain: AbstractDomain, n_modes: int,
    settings: Settings, model: ChaosModel, known: float | None,
) -> Problem:  # fmt: skip
    """Maximisation of the truncated likelihood from moments and a projection."""
    parts = spectra(domain, n_modes, 0, settings, np.ones(n_modes))
    outside = _outside_variance(collapsed)
    rough = _starts.from_estimates(collapsed, outside)
    mean, spread = first_states(collapsed)
    rounding = NOISE_FREE * float((rough.energy * _starts.mean_gram(collapsed)).max())
    differ = starts_differ(collapsed, spread, max(outside, rounding))
    kind = initial_kind(settings, differ, collapsed.n_paths)
    layout = Layout(
        parts.drift, parts.noise, kind, n_modes, 0 if known is not None else 1,
        known_variance=known or 0.0,
    )  # fmt: skip
    variance = known or _projection_variance(collapsed, rough.eigenvalues, model)
    start = starting_vector(layout, rough, variance**0.5, mean, spread)
    n_steps = observed.times.shape[-1] - 1
    scale = starting_scale(
        layout, start, rough, collapsed.n_paths, n_steps, observed.span, collapsed.n_values
    )
    return Problem(
        layout, _guarded(lambda p: evaluate_chaos(collapsed, p, model)), start, scale,
        fixed_values(layout, settings.fixed), prior_terms(layout, settings.priors),
        np.zeros(n_modes),
    )  # fmt: skip


def _outside_variance(collapsed: Collapsed) -> float:
    """Mean square of what the modes leave over in each row."""
    spare = collapsed.n_values - n_states(collapsed)
    return collapsed.misfit / spare if spare > 0 else 0.0


def _projection_variance(collapsed: Collapsed, eigenvalues: Array, model: ChaosModel) -> float:
    """Mean square of what the decoder leaves over of the first paths."""
    first = collapsed.blocks[0]
    kept = slice(min(SAMPLE, len(first.paths)))
    own = {"vector", "estimate", "misfit", "count", "log_weight", "paths"}
    sample = first._replace(**{
        name: value[..., kept] for name, value in first._asdict().items()
        if name in own or value.shape[-1] > 1
    })  # fmt: skip
    part = Collapsed((sample,), len(sample.paths), collapsed.n_modes)
    found = project_on_decoder(part, eigenvalues, model.n_time, model.horizon)
    total = part.misfit + sum(float(p.residual.sum()) for p in found)
    energy = float(np.vdot(sample.vector, sample.estimate))
    return max(total, 1e-12 * energy) / max(part.n_values, 1.0)


def _guarded(evaluate: Callable[[Parameters], Evaluation]) -> Callable[[Parameters], Evaluation]:
    """The same, with the maximiser's own signal where a trial step has gone too far."""

    def guarded(p: Parameters) -> Evaluation:
        numbers = np.concatenate([p.eigenvalues, p.noise_variance, p.initial_variance])
        r = float(p.observation_variance)
        if not (np.isfinite(numbers).all() and np.isfinite(r) and r > 0):
            raise FloatingPointError("parameters out of range")
        try:
            return evaluate(p)
        except ConvergenceError as error:
            raise FloatingPointError(str(error)) from error

    return guarded


def _solve(problem: Problem, *, polish: bool = True) -> Solution:
    try:
        return solve(problem, polish=polish)
    except FloatingPointError as error:
        raise ConvergenceError(
            "fit", expected="a maximum of the truncated likelihood", got=str(error),
            fix="raise n_time, fit fewer modes, or pass tail='modelled'",
        ) from error  # fmt: skip


def _loss(
    fitted: Fitted, collapsed: Collapsed, problem: Problem, observed: Observed,
    domain: AbstractDomain, settings: Settings, model: ChaosModel,
) -> Loss:  # fmt: skip
    """Untruncated minus truncated log-likelihood, each model at its own maximum."""
    outside, layout = _outside_variance(collapsed), problem.layout
    known = layout.n_noise == 0
    energy = sum(float(np.vdot(b.vector, b.estimate)) for b in collapsed.blocks)
    if known or outside > NOISE_FREE * (energy + collapsed.misfit) / collapsed.n_values:
        start = problem.start.copy()
        if not known:
            start[layout.slices["observation"]] = 0.5 * np.log(outside)
        exact = problem._replace(
            evaluate=_guarded(lambda p: evaluate_likelihood(collapsed, p)), start=start
        )
        whole = _solve(exact, polish=False).log_likelihood
        return Loss((whole - fitted.solution.log_likelihood) / collapsed.n_paths, "fields")
    statistics = statistics_of(observed, domain, fitted.n_modes)
    if statistics is None:
        return Loss(None, "coefficients")
    same = dataclasses.replace(
        settings,
        initial=layout.initial_kind,
        fixed=_of_spectra(settings.fixed),
        priors=_of_spectra(settings.priors),
    )
    whole = fit_statistics(statistics, domain, fitted.n_modes, same, {}).solution.log_likelihood
    parameters: Any = fitted.solution.parameters
    cut = evaluate_chaos(collapsed, parameters, model, density="coefficients").log_likelihood
    return Loss((whole - float(cut.sum())) / collapsed.n_paths, "coefficients")


def _of_spectra(words: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is said of drift and noise alone: noise-free statistics know no other coordinates."""
    others = ("observation_std", "initial_")
    return {k: v for k, v in (words or {}).items() if not k.startswith(others)}
