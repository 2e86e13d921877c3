"""The semilinear engine: from observed fields to a `Law` with terms."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from spdelaw.checks import one_of, shown
from spdelaw.data.observed import Observed
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.errors import ConvergenceError, DataError, IdentifiabilityWarning, InputError
from spdelaw.infer.assemble import assemble
from spdelaw.infer.engines.registry import Engine
from spdelaw.infer.model import Model
from spdelaw.infer.moments import SAME_START
from spdelaw.infer.optimise import watched
from spdelaw.infer.semilinear.fits import ALLOWED_SHIFT, SCHEMES, SemilinearFit
from spdelaw.infer.semilinear.layout import SEMILINEAR_NOISES
from spdelaw.infer.semilinear.observations import (
    FullyObserved,
    Observations,
    PartlyObserved,
    classify_observations,
    record_of,
)
from spdelaw.infer.semilinear.scoring import FAST
from spdelaw.law.law import Law
from spdelaw.law.likelihood import Numbers, density_entries, log_density, statistics_density
from spdelaw.law.observations import batches
from spdelaw.processes.semilinear import substeps
from spdelaw.processes.specification import InitialState
from spdelaw.processes.terms import MOST_DENSE, field_of
from spdelaw.statespace.collapse import Block
from spdelaw.statespace.filter import smooth_block
from spdelaw.statespace.statistics import Statistics
from spdelaw.statespace.transitions import closure_log_likelihood, transitions

# ---------- Law of the first states of a semilinear field
#
# Observed states have a sample mean and variance. Behind gaps and noise each path has at its
# first time a likelihood of the Gaussian form with precision ``A_p`` and pull ``h_p``, which is the
# smoothed state N(m_p, S_p) without its wide start N(0, V):
#
#     A_p = S_p^-1 - V^-1,    h_p = S_p^-1 m_p,
#
# and expectation-maximisation finds the mean and the variances (modes independent) that they share.


Array = np.ndarray
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
        density = filter_density(law, observations)
    return law.with_info(**density_entries(*density, observations.observed))


def filter_density(law: Law, observations: Observations) -> tuple[Any, Numbers]:
    """By the filter, as `Law.log_likelihood` has it."""
    observed = observations.observed
    values, basis = np.asarray(observed.values), observed.basis(law.n_modes)
    space, unresolved, weights = law.state_space, law.unresolved_variance, None
    if observations.point_variance is not None:
        weights, space = 1.0 / observations.point_variance, space.with_noise(1.0)
    floor = 0.0 if weights is not None else 1e-10 * float(np.nanmean(values**2))
    blocks = batches(values, observed.times, basis, weights)
    return log_density(blocks, len(values), space, unresolved, floor)


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
