"""The engine of dynamics of your own: maximum likelihood by the filter of any dynamics."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, cast

import numpy as np

from spdelaw.data.observed import Observed
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import Model
from spdelaw.infer.objective import (
    DifferencedPosterior,
    LogPosterior,
    estimate,
    fixed_values,
    prior_terms,
)
from spdelaw.infer.optimise import watched
from spdelaw.infer.parameters import AbstractCoordinates, DynamicsParametrisation, Single
from spdelaw.infer.semilinear.engine import (
    PartlyObserved,
    filter_density,
    partly_observed_of,
    record_of,
)
from spdelaw.infer.semilinear.fits import FilterLikelihood
from spdelaw.infer.semilinear.layout import noise_guess, rough_states
from spdelaw.law.law import Law
from spdelaw.law.likelihood import density_entries
from spdelaw.processes.linear import Dynamics
from spdelaw.processes.specification import InitialKind, InitialState
from spdelaw.statespace.filter import gram_roots

# The likelihood is that of `spdelaw.statespace.filter` on collapsed observations: the filter takes
# gaps, noise, few sensors and different times of paths. Its score comes from the pull-back of the
# moments, or from differences of its value where the dynamics have none.


Array = np.ndarray

#: Rough standard error of a logarithm, and of a number relative to its size.
ROUGH_ERROR = 0.1
#: Paths from which on mean and variances of the first states are estimated.
FEWEST_PATHS = 4
#: Least variance of a first state to begin with, relative to that of all states.
LEAST_FIRST_SHARE = 1e-3
#: Names that other entries of the table of parameters have.
RESERVED = (
    *("initial_mean", "initial_variance", "observation", "observation_std"),
    *("drift", "mean", "season", "coefficient"),
)
ROUTE = "filter"


@dataclasses.dataclass(frozen=True)
class DynamicsEngine(Engine):
    """Maximum likelihood of dynamics of your own, through gaps and noise.

    The parameters of the dynamics, the noise of observations and the law of the first states are
    estimated together; see `spdelaw.processes.Dynamics`.

    Args:
        dynamics: whose numbers are where the search begins.
    """

    dynamics: Dynamics | None = None
    name = "dynamics"
    takes_few_points = True
    supports = frozenset({"initial", "observation_noise", "fixed", "priors"})

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse options that the engine does not support, and dynamics that cannot be fitted."""
        super().check(model, bootstrap)
        check_dynamics(self.dynamics)
        refused = {
            "bootstrap": (bootstrap != 0, "0", str(bootstrap)),
            "initial": (
                model.initial == "stationary",
                "'deterministic' or 'gaussian'",
                "stationary",
            ),
            "observation_noise": (
                model.noise_word == "per_point",
                "'auto', 'none', 'estimate' or known standard deviations",
                "'per_point'",
            ),
        }
        for word, (is_refused, expected, got) in refused.items():
            if is_refused:
                expected, fix = f"{expected} together with dynamics=", f"leave {word} out"
                raise InputError(word, expected=expected, got=got, fix=fix)

    def n_modes(self, requested: Any) -> int:
        """Number of modes of the dynamics; `InputError` where another one is requested."""
        n = self.dynamics.n_modes  # type: ignore[union-attr]
        if requested not in ("auto", n):
            expected = f"{n}, as the dynamics have it"
            raise InputError("n_modes", expected=expected, got=repr(requested), fix="leave it out")
        return n

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law of the fields with these dynamics."""
        clock = time.perf_counter()
        observations = partly_observed_of(observed, n_modes, model)
        with watched(run["progress"]):
            maximum = estimate(log_posterior_of(self.dynamics, observations, model))  # type: ignore[arg-type]
        observations = dataclasses.replace(observations, route=ROUTE)
        fit = record_of(observations, maximum, observations.notes(), clock, engine=self.name)
        law = assemble(fit, observed, model, run["level"])
        return law.with_info(**density_entries(*filter_density(law, observed), observed))


def log_posterior_of(
    dynamics: Dynamics, observations: PartlyObserved, model: Model
) -> LogPosterior:
    """Log-posterior around the numbers of the dynamics."""
    parametrisation, start, scale = _start(dynamics, observations, model)
    fixed = fixed_values(parametrisation, model.fixed)
    start[list(fixed)] = list(fixed.values())
    free = [i for i in range(len(start)) if i not in fixed]
    blocks = list(observations.collapsed.blocks)
    evaluate = FilterLikelihood(blocks, [gram_roots(block) for block in blocks], 0.0)
    posterior = DifferencedPosterior(
        parametrisation,
        evaluate,  # type: ignore[arg-type]
        prior_terms(parametrisation, model.priors),
        start,
        np.eye(len(start))[:, free],
        scale[free],
        len(free),
        np.zeros(len(start)),
    )
    with np.errstate(all="ignore"):
        value = posterior.start_value()
    if not np.isfinite(value):
        expected = "a finite log-likelihood at the initial values"
        fix = "pass dynamics with other values; check moments() with DynamicsContract"
        raise InputError("dynamics", expected=expected, got="an infinite one", fix=fix)
    posterior = posterior.rescaled()
    if not evaluate(parametrisation.state_space(start)).by:
        return posterior
    settings = (getattr(posterior, field.name) for field in dataclasses.fields(LogPosterior))
    return LogPosterior(*settings)


def _start(
    dynamics: Dynamics, observations: PartlyObserved, model: Model
) -> tuple[DynamicsParametrisation, Array, Array]:
    """Coordinates of what is estimated, where they start, and their rough standard errors."""
    collapsed, r = observations.collapsed, observations.fixed_variance
    r = noise_guess(collapsed) if r is None else r
    states, _, prior = rough_states(collapsed, r)
    n_paths, first = collapsed.n_paths, states[:, 0]
    variance = np.maximum(first.var(0), LEAST_FIRST_SHARE * prior.covariance)
    numbers = dynamics.parameters
    parts: dict[str, AbstractCoordinates] = {
        name: Single(name, np.size(x) if np.ndim(x) else None, float(name in dynamics.positive))
        for name, x in numbers.items()
    }
    near = {name: np.ravel(np.asarray(x, float)) for name, x in numbers.items()}
    if observations.fixed_variance is None:
        parts["observation"], near["observation"] = Single("observation_std", None, 2), np.array(r)
    kind = cast(InitialKind, "gaussian" if model.initial == "auto" else model.initial)
    is_estimated = n_paths >= FEWEST_PATHS or kind == "deterministic"
    if kind == "gaussian" and is_estimated:
        parts["initial_variance"] = Single("initial_variance", len(variance))
    if is_estimated:
        parts["initial_mean"] = Single("initial_mean", len(variance), power=0)
        prior = InitialState(kind, first.mean(0), variance * (kind == "gaussian"))
    near |= {"initial_variance": variance, "initial_mean": prior.mean}
    start = np.concatenate([part.start(near[name]) for name, part in parts.items()])
    form = DynamicsParametrisation(
        parts, prior.kind, prior.mean, r, dynamics=dynamics, initial_variance=prior.covariance
    )
    size = np.where(start != 0.0, np.abs(start), 1.0)
    scale = ROUGH_ERROR * np.where(form.is_log, 1.0, size)
    rough = {
        "observation": 1.0 / np.sqrt(2.0 * collapsed.n_values),
        "initial_variance": np.sqrt(2.0 / n_paths),
        "initial_mean": np.sqrt(variance / n_paths),
    }
    for name, error in rough.items():
        if name in parts:
            scale[form.slices[name]] = error
    return form, start, scale


def check_dynamics(dynamics: Any) -> None:
    """Refuse dynamics whose parameters or moments a fit cannot use."""
    what, example = "dynamics", "see 'Dynamics' in docs/extending.md"
    if not isinstance(dynamics, Dynamics):
        expected, got = "an instance of spdelaw.processes.Dynamics", type(dynamics).__name__
        raise InputError(what, expected=expected, got=got, fix=example)
    for name, value in dynamics.parameters.items():
        numbers, is_positive = np.asarray(value, float), name in dynamics.positive
        if not np.isfinite(numbers).all() or (is_positive and (numbers <= 0).any()):
            expected = f"finite initial values of {name!r} from" + ", positive" * is_positive
            raise InputError(what, expected=expected, got=repr(value), fix="pass other numbers")
        if name in RESERVED:
            expected = f"a parameter with another name than {RESERVED}"
            raise InputError(what, expected=expected, got=repr(name), fix="rename the parameter")
    n = dynamics.n_modes
    mean = np.random.default_rng(0).uniform(0.1, 0.2, (n + 1, n))
    covariance = np.tile(0.01 * np.eye(n), (n + 1, 1, 1))
    alone = dynamics.moments(mean[0], covariance[0], 0.0, 1e-3)
    try:
        together = dynamics.moments(mean, covariance, 0.0, 1e-3)
    except (ValueError, IndexError, TypeError):
        together = alone
    agree = all(
        np.shape(many) == (n + 1, *np.shape(one)) and np.allclose(many[0], one, rtol=1e-6)
        for one, many in zip(alone[:3], together[:3], strict=True)
    )
    if not agree:
        expected = "moments(mean, covariance, t, dt) of many states at once, (..., N), (..., N, N)"
        got = f"{type(dynamics).__name__}.moments of one state alone"
        fix = "write f @ mean as (f @ mean[..., None])[..., 0], and x.T as x.swapaxes(-1, -2)"
        raise InputError(what, expected=expected, got=got, fix=fix)
