"""The chaos engine: the paper's truncated model with exact inference, and its higher orders.

``tail="modelled"``: the tail beyond K functions of time is part of the model. The coefficients are
then Ornstein-Uhlenbeck processes again, their likelihood is that of the exact engine, and so is its
maximum. The chaos coordinates come after, from `chaos_posterior`.

``tail="dropped"``: maximum likelihood of the paper's decoder, and what the truncation costs. The
observation variance has to carry the tail beyond K functions of time, so it is part of the estimate
also for data without noise.

Laws with terms, or with noise that depends on the state, are learned from their conditional moments
by `SemilinearEngine`: the truncation biases no parameter. Their expansion has any order.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from spdelaw.chaos.higher_order import truncation_floor
from spdelaw.chaos.nonlinear import chaos_equation, expand_equation, growth_between_wells
from spdelaw.chaos.posterior import ChaosModel, evaluate_chaos, project_on_decoder
from spdelaw.checks import checked, one_of, whole
from spdelaw.data.observed import Observed
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import ConvergenceError, InputError, SpdeLawWarning
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.design import fixed_noise
from spdelaw.infer.engines.exact import fit_statistics, maximum_likelihood, statistics_of
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import WORDS, Model
from spdelaw.infer.moments import energy_of, from_coefficients, initial_state
from spdelaw.infer.objective import Evaluate, estimate, log_posterior
from spdelaw.infer.optimise import Estimate, Fit
from spdelaw.infer.parameters import parametrise
from spdelaw.infer.semilinear.engine import SemilinearEngine, check_term_names
from spdelaw.law.law import Law
from spdelaw.law.prediction import DEFAULT_N_TIME
from spdelaw.processes import operators
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.collapse import Collapsed, collapse, some_paths
from spdelaw.statespace.likelihood import Evaluation, evaluate_likelihood

TAILS = ("modelled", "dropped")
Array = np.ndarray
#: Mean square outside the modes, relative to the field's, below which there is no noise.
NOISE_FREE = 1e-12
#: Paths whose projection gives the first guess of the observation variance.
PROJECTED_PATHS = 24
#: Times at which an expansion is judged, and functions of time of its first look.
N_JUDGED, FEW_FUNCTIONS = 17, 4
NO_HIGHER_ORDER = (
    "order={} has no effect: a linear law with additive noise has no chaos beyond the first order"
)
BISTABLE = (
    "the drift has two wells that paths reach, and between them it grows at the rate {:.3g}: chaos "
    "coordinates of any order describe such a law wrongly; use law.sample and law.reconstruct, "
    "which do not need them"
)
BIASED_NOTE = (
    "the tail beyond K = {} functions of time is dropped: the observation variance absorbs it and "
    "the spectra are biased; tail='modelled' has no bias"
)


@checked()
@dataclasses.dataclass(frozen=True)
class Chaos(Engine):
    """The paper's expansion in chaos coordinates, with its exact posterior.

    ``info["truncation_loss"]`` is the log-likelihood per path that the truncation costs: that of
    the untruncated model of the same modes at its own maximum, minus that of this model at its
    own. It is 0 with the tail modelled. Both are densities of what ``info["truncation_loss_of"]``
    names: "fields", or, where the fields lie in the modes without any noise and so have no
    density, "coefficients" after a deterministic start, the parameters being those of the fit.

    A law with ``terms``, or with noise that depends on the state, has chaos of every order. Its
    parameters are learned from conditional moments, without truncation; ``order`` then concerns the
    posterior of the coordinates (`spdelaw.law.chaos_posterior`) and paths drawn from the expansion
    (`spdelaw.law.sample_chaos`). ``info["chaos_floor"]`` is the share of the variance above the
    order at the last time, for any number of functions of time (None with a nonlinear drift), and
    ``info["chaos_missing"]`` the share that the expansion leaves to its tail, on average over the
    times; with a nonlinear drift it is that of the equation linearised at its mean.

    Args:
        n_time: number K of basis functions of time.
        order: largest order of the Hermite polynomials. A linear equation with additive noise has
            no chaos beyond the first, so that every order gives the same law.
        tail: covariance of the time functions beyond K: "modelled" (unbiased) or "dropped" (the
            model of the paper).
        threads: number of threads for data with gaps.
        terms: terms of the equation beyond the linear drift, as in `SemilinearEngine`.

    Example:
        >>> Chaos(tail="dropped")
        Chaos(n_time=16, order=1, tail='dropped', threads=1, terms=())
    """

    n_time: int = DEFAULT_N_TIME
    order: int = 1
    tail: str = "modelled"
    threads: int = 1
    terms: Sequence[str] = ()
    name = "chaos"
    # First-order propagators are known in closed form where modes evolve alone and unforced.
    supports = frozenset(WORDS) - {"forcing", "season", "state_noise"}

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("tail", self.tail, TAILS)
        whole("n_time", self.n_time, 1)
        whole("order", self.order, 1)
        check_term_names("terms", self.terms)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse options that the expansion does not support."""
        if self._is_nonlinear(model):
            if model.state_noise == "square_root":
                expected = "noise that is linear in the field with engine='chaos'"
                fix = "leave engine out, or pass state_noise='affine'"
                raise InputError("state_noise", expected=expected, got="'square_root'", fix=fix)
            if self.tail == "dropped":
                expected = "'modelled' with terms or state_noise"
                fix = "leave tail out: the parameters come from moments without truncation"
                raise InputError("tail", expected=expected, got="'dropped'", fix=fix)
            SemilinearEngine(self.terms).check(self._completed(model), bootstrap)
            return
        super().check(model, bootstrap)
        if self.tail == "dropped":
            check_truncated(model, bootstrap)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Maximum likelihood of the chaos model."""
        if self._is_nonlinear(model):
            semilinear = SemilinearEngine(self.terms)
            law = semilinear.learn(observed, domain, n_modes, self._completed(model), **run)
            return self._with_expansion(law, observed.span)
        chaos = ChaosModel(self.n_time, observed.span, self.tail)  # type: ignore[arg-type]
        loss: dict[str, Any] = {"truncation_loss": 0.0, "truncation_loss_of": "fields"}
        if self.tail == "modelled":
            fit = maximum_likelihood(observed, n_modes, model, self.threads)
        else:
            fit, loss = fit_truncated(observed, n_modes, model, chaos)
        law = assemble(fit, observed, model, run["level"])
        if self.order > 1:
            loss["warnings"] = [*law.info.get("warnings", []), NO_HIGHER_ORDER.format(self.order)]
        return law.with_info(
            **self._facts(chaos.horizon, chaos.latent_dimension(law.dynamics.n_modes)), **loss
        )

    def _is_nonlinear(self, model: Model) -> bool:
        return bool(self.terms) or model.state_noise != "none"

    def _completed(self, model: Model) -> Model:
        """The model as `SemilinearEngine` has it where terms are given and nothing is stated."""
        states_nothing = model.drift == WORDS["drift"] and self.terms
        return dataclasses.replace(model, drift="parametric") if states_nothing else model

    def _facts(self, horizon: float, latent_dimension: int) -> dict[str, Any]:
        return {
            "engine": self.name,
            "tail": self.tail,
            "n_time": self.n_time,
            "order": self.order,
            "horizon": horizon,
            "latent_dimension": latent_dimension,
        }

    def _with_expansion(self, law: Law, horizon: float) -> Law:
        """The law with what its expansion leaves out, and a warning where it describes nothing."""
        dynamics: Any = law.dynamics
        equation = chaos_equation(dynamics, law.initial)
        ages = np.linspace(0.0, horizon, N_JUDGED)
        first = expand_equation(equation, ages, min(self.n_time, FEW_FUNCTIONS), 1, horizon)
        mean = first.values[:, 0]
        linear = equation.linearised(mean.mean(0))
        expansion = expand_equation(linear, ages, self.n_time, self.order, horizon)
        facts = self._facts(horizon, law.n_modes * len(expansion.indices))
        facts |= {"truncation_loss": 0.0, "truncation_loss_of": "fields", "chaos_floor": None}
        if equation.nonlinear is None:
            given = equation.generator, equation.couplings, equation.moment, ages[-1:]
            facts["chaos_floor"] = float(truncation_floor(*given, self.order)[-1, -1])
        tail = np.einsum("tntn->", expansion.tail)  # type: ignore[arg-type]
        energy = float((expansion.values[:, 1:] ** 2).sum())
        facts["chaos_missing"] = float(tail / max(tail + energy, np.finfo(float).tiny))
        if self.terms:
            last = first.values[-1, 1:]
            covariance = last.T @ last + first.tail[-1, :, -1]  # type: ignore[index]
            growth = growth_between_wells(dynamics, mean[-1], covariance, horizon)
            if growth > 0:
                note = BISTABLE.format(growth)
                warnings.warn(note, SpdeLawWarning, stacklevel=5)
                facts["warnings"] = [*law.info.get("warnings", []), note]
        return law.with_info(**facts)


# -- the paper's decoder, its tail dropped --------------------------------------------------------
def check_truncated(model: Model, bootstrap: int) -> None:
    """Refuse options that the truncated model does not support."""
    carries = "the observation variance absorbs the dropped tail; or pass tail='modelled'"
    spectra, words = "'diagonal' or 'parametric'", "'auto', 'estimate' or a standard deviation"
    exact = "pass tail='modelled', or engine='exact'"
    refused = {
        "drift": (model.couples_drift, spectra, exact),
        "noise": (model.noise in ("low_rank", "dense"), spectra, exact),
        "observation_noise": (model.noise_word in ("none", "per_point"), words, carries),
        "nuisance": (model.nuisance not in ("auto", 0), "no nuisance modes", exact),
        "bootstrap": (bootstrap != 0, "0, as a truncated fit is biased,", exact),
    }
    for what, (is_wrong, expected, fix) in refused.items():
        if is_wrong:
            got = repr(getattr(model, what, bootstrap))
            raise InputError(what, expected=f"{expected} with tail='dropped'", got=got, fix=fix)


def fit_truncated(
    observed: Observed, n_modes: int, model: Model, chaos: ChaosModel
) -> tuple[Fit, dict[str, Any]]:
    """Estimate, and the log-likelihood per path that the truncation costs."""
    clock = time.perf_counter()
    fixed_variance, weights = fixed_noise(model, len(observed.points))
    collapsed = collapse(observed.values, observed.times, observed.basis(n_modes), weights)
    read = time.perf_counter()
    maximum = _make_maximiser(collapsed, observed, model, chaos, fixed_variance)
    truncated = maximum(lambda p: evaluate_chaos(collapsed, p, chaos))
    seconds = {"read": read - clock, "maximise": time.perf_counter() - read}
    notes = (BIASED_NOTE.format(chaos.n_time),)
    fit = Fit(truncated, n_modes, "chaos", collapsed.n_values, 0.0, notes=notes, seconds=seconds)
    gain: float | None
    outside, energy = _outside_variance(collapsed), sum(collapsed.map(energy_of))
    if (
        fixed_variance is not None
        or outside > NOISE_FREE * (energy + collapsed.misfit) / collapsed.n_values
    ):
        exact = maximum(lambda p: evaluate_likelihood(collapsed, p), outside, polish=False)
        loss_of, gain = "fields", exact.log_likelihood - truncated.log_likelihood
    else:
        loss_of, gain = (
            "coefficients",
            _gain_of_coefficients(fit, collapsed, observed, model, chaos),
        )
    loss = None if gain is None else gain / collapsed.n_paths
    return fit, {"truncation_loss": loss, "truncation_loss_of": loss_of}


def _make_maximiser(
    collapsed: Collapsed,
    observed: Observed,
    model: Model,
    chaos: ChaosModel,
    fixed_variance: float | None,
) -> Callable[..., Estimate]:
    """Maximisation of a likelihood of the modes, from moments and a projection."""
    moments, domain = from_coefficients(collapsed, _outside_variance(collapsed)), observed.domain
    kind, n = initial_state(model, moments), collapsed.n_modes
    parametrisation = parametrise(model, domain, n, kind, moments, known_variance=fixed_variance)

    def maximum(evaluate: Evaluate, first: float = 0.0, *, polish: bool = True) -> Estimate:
        """From another observation variance than that of the projection, where one is given."""
        variance = fixed_variance or first or _projection_variance(collapsed, moments.drift, chaos)
        start_moments = moments._replace(observation_variance=variance)
        try:
            posterior = log_posterior(parametrisation, _guard_range(evaluate), start_moments, model)
            return estimate(posterior, polish=polish)
        except FloatingPointError as error:
            expected = "a maximum of the truncated likelihood"
            fix = "raise n_time, fit fewer modes, or pass tail='modelled'"
            raise ConvergenceError("fit", expected=expected, got=str(error), fix=fix) from error

    return maximum


def _outside_variance(collapsed: Collapsed) -> float:
    """Mean square of the residual of the modes in each row."""
    spare = collapsed.n_values - collapsed.n_states
    return collapsed.misfit / spare if spare > 0 else 0.0


def _projection_variance(collapsed: Collapsed, eigenvalues: Array, chaos: ChaosModel) -> float:
    """Mean square of the decoder's residual on the first paths."""
    first = collapsed.blocks[0]
    sample = some_paths(first, np.arange(len(first.paths)) < PROJECTED_PATHS)
    sampled = Collapsed((sample,), len(sample.paths), collapsed.n_modes)
    projections = project_on_decoder(sampled, eigenvalues, chaos.n_time, chaos.horizon)
    total = sampled.misfit + sum(float(p.residual.sum()) for p in projections)
    return max(total, 1e-12 * energy_of(sample)) / max(sampled.n_values, 1.0)


def _guard_range(evaluate: Evaluate) -> Evaluate:
    """Likelihood that raises `FloatingPointError`, for the maximiser, at a step out of range."""

    def guarded(p: StateSpace) -> Evaluation:
        state_operators = (p.linear.drift, p.linear.noise, p.initial.covariance)
        numbers = np.concatenate([operators.diagonal(operator) for operator in state_operators])
        r = float(p.observation_variance)
        if not (np.isfinite(numbers).all() and np.isfinite(r) and r > 0):
            raise FloatingPointError("parameters out of range")
        try:
            return evaluate(p)
        except ConvergenceError as error:
            raise FloatingPointError(str(error)) from error

    return guarded


def _gain_of_coefficients(
    fit: Fit, collapsed: Collapsed, observed: Observed, model: Model, chaos: ChaosModel
) -> float | None:
    """Untruncated minus truncated log density of coefficients of fields without noise."""
    statistics = statistics_of(observed, fit.n_modes)
    if statistics is None:
        return None
    state_space = fit.estimate.state_space
    fixed, priors = _operator_entries(model.fixed), _operator_entries(model.priors)
    same = dataclasses.replace(model, initial=state_space.initial.kind, fixed=fixed, priors=priors)
    untruncated = fit_statistics(statistics, observed.domain, same).estimate.log_likelihood
    truncated = evaluate_chaos(collapsed, state_space, chaos, density="coefficients").log_likelihood
    return untruncated - float(truncated.sum())


def _operator_entries(words: Mapping[str, Any] | None) -> dict[str, Any]:
    """Entries for drift and noise alone: noise-free statistics have no other coordinates."""
    others = ("observation_std", "initial_")
    return {k: v for k, v in (words or {}).items() if not k.startswith(others)}
