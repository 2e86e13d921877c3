"""Semilinear laws from complete fields on one clock, and the choice of their terms.

The coefficients of the modes count as seen without noise: their transitions have the likelihood of
the Gaussian closure (`spdelaw.infer.semilinear`). Fields with gaps or noise go through
`spdelaw.infer.semilinear.fit_filtered`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spdelaw._version import __version__
from spdelaw.checks import probability, whole
from spdelaw.data import fingerprint
from spdelaw.domain import AbstractDomain
from spdelaw.equation import InitialState, Reacting
from spdelaw.errors import DataError, InputError
from spdelaw.infer._engine import Engine
from spdelaw.infer._model import Model
from spdelaw.infer._observed import Observed, check_change, observe
from spdelaw.infer._statistics_problem import SAME_START
from spdelaw.infer._statistics_route import statistics_of
from spdelaw.infer.semilinear import Discovery, SemilinearFit, discover_complete, fit_complete
from spdelaw.law import Law, Quantity, parameters_dataset, statistics_density
from spdelaw.model import Statistics

Array = np.ndarray
#: Share of the energy outside the modes that is rounding.
ROUNDING = 1e-14


@dataclasses.dataclass(frozen=True)
class SemilinearEngine(Engine):
    """Likelihood of the Gaussian closure, with terms beyond the linear drift.

    The drift is ``lambda_n = kappa + nu mu_n``, kappa held at 0 unless ``fixed={"kappa": None}``.

    Args:
        terms: names such as ("u", "u^3"); see `spdelaw.Semilinear`.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41))
        >>> law = sl.fit(sl.simulate(equation, 10), equation.domain, 5, terms=("u", "u^3"))
        >>> row = law.parameters.coefficient.sel(term="u^3")
        >>> bool(row.sel(statistic="lower") < -1.0 < row.sel(statistic="upper"))
        True
    """

    terms: Sequence[str] = ("u", "u^3")
    name = "semilinear"
    honours = frozenset({"noise", "fixed"})

    def __post_init__(self) -> None:
        """A single name would be taken letter by letter."""
        _check_names("terms", self.terms)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse what is not there: other words of the model, replicates."""
        super().check(model, bootstrap)
        if bootstrap:
            raise InputError(
                "bootstrap",
                expected="0 beside terms",
                got=str(bootstrap),
                fix="leave it out: the intervals are those of the observed information",
            )

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Law of complete fields."""
        c, statistics = _coefficients(observed, n_modes)
        found = fit_complete(
            c, observed.times, domain, self.terms, noise=str(model.noise), fixed=model.fixed
        )
        return _law(found, c, statistics, observed, run["level"])


def discover(
    data: Any,
    domain: AbstractDomain,
    n_modes: int,
    library: Sequence[str] | None = None,
    *,
    noise: str = "diagonal",
    fixed: Mapping[str, Any] | None = None,
    level: float = 0.95,
    bootstrap: int = 200,
    seed: int = 0,
    **words: Any,
) -> Law:
    """Learn which terms a field obeys, and its law with them, from complete fields on one clock.

    Args:
        data: fields, as `spdelaw.fit` takes them.
        domain: where they live.
        n_modes: modes of the law.
        library: names of terms to choose from, such as ("u", "u^2", "u^3"); by default powers up
            to 3, and products of first derivatives where the domain has them.
        noise: "diagonal", one variance per mode, or "parametric", ``scale n^-exponent``.
        fixed: values to hold, such as ``{"nu": 0.05}``.
        level: of the intervals; they do not include that the terms were chosen.
        bootstrap: resampled records that say how sure the choice is.
        seed: of these.
        words: of the data (`spdelaw.as_fields`).

    Returns:
        A `Law`; ``law.info["discovery"]`` has the ``sentence``, the chosen ``terms``, how often
        each term of the library was chosen (``inclusion``), and the best ``candidates`` with their
        ``bic`` above the best.
    """
    probability("level", level)
    whole("bootstrap", bootstrap, 0)
    whole("seed", seed, 0)
    if library is not None:
        _check_names("library", library)
    observed = observe(data, domain, **words)
    c, statistics = _coefficients(observed, domain.check_modes(n_modes))
    found = discover_complete(
        c, observed.times, domain, library, bootstrap=bootstrap, seed=seed, noise=noise, fixed=fixed
    )
    law = _law(found.fit, c, statistics, observed, level)
    return law.with_info(discovery=_in_plain_types(found))


def _check_names(what: str, names: Any) -> None:
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not (listed and all(isinstance(name, str) for name in names)):
        raise InputError(
            what, expected="names in a tuple", got=repr(names), fix=f"pass {what}=('u', 'u^3')"
        )


def _coefficients(observed: Observed, n_modes: int) -> tuple[Array, Statistics]:
    """Coefficients (P, T, N) of complete fields, and their sums; or `DataError`."""
    statistics = statistics_of(observed, n_modes)
    if statistics is None:
        raise DataError(
            "data",
            expected=f"complete fields on one clock that determine {n_modes} modes",
            got="missing values, clocks of their own, or too few points",
            fix="use paths without gaps and fewer modes, or infer.semilinear.fit_filtered",
        )
    s = statistics
    check_change((s.square[1:] - 2.0 * s.cross + s.square[:-1]).max(), s.square.max())
    operator = np.linalg.pinv(observed.basis(n_modes)).T
    return np.concatenate([chunk @ operator for chunk in observed.chunks()]), statistics


def _law(
    fit: SemilinearFit, c: Array, statistics: Statistics, observed: Observed, level: float
) -> Law:
    closure, names, domain = fit.layout.closure(fit.x), fit.layout.reaction.names, observed.domain
    n_modes, first = c.shape[2], c[:, 0]
    initial = _initial(first)
    outside = int(statistics.n_values) - c.size
    has_more = outside > 0 and statistics.outside > ROUNDING * statistics.energy
    unresolved = statistics.outside / outside if has_more else 0.0
    kind = {"initial_state": initial.kind, "terms": list(names)}
    return Law(
        domain=domain,
        n_modes=n_modes,
        parameters=parameters_dataset(_quantities(fit, first), level, kind),
        dynamics=Reacting(domain, names, closure.coefficients, closure.rates, closure.noise),
        initial=initial,
        observation_variance=np.zeros(()),
        times=observed.times,
        points=observed.points,
        unresolved_variance=float(unresolved),
        info=_info(fit, observed, statistics, initial, float(unresolved)),  # type: ignore[arg-type]
    )


def _initial(first: Array) -> InitialState:
    """Gaussian of the first states (P, N), modes independent; one known state where all agree."""
    mean, spread = first.mean(0), np.zeros(first.shape[1])
    if len(first) > 1:
        spread = first.var(0, ddof=1)
    if spread.sum() <= SAME_START * float((first**2).sum(1).mean()):
        return InitialState("deterministic", mean, np.zeros_like(spread))
    return InitialState("gaussian", mean, spread)


def _quantities(fit: SemilinearFit, first: Array) -> dict[str, Quantity]:
    """Numbers of the law with standard errors by the delta method."""
    form, x, closure = fit.layout, fit.x, fit.layout.closure(fit.x)
    n, n_terms = len(closure.rates), len(closure.coefficients)
    sizes = {"eigenvalue": n, "noise_variance": n, "coefficient": n_terms}
    values = dict(zip(sizes, (closure.rates, closure.noise, closure.coefficients), strict=True))
    out = {}
    for name, size in sizes.items():
        rows = [np.eye(size) if key == name else np.zeros((size, k)) for key, k in sizes.items()]
        slope = form.pull(x, *rows)
        variance = np.einsum("ij,jk,ik->i", slope, fit.covariance, slope)
        error = np.sqrt(np.maximum(variance, 0.0))
        out[name] = Quantity(values[name], error, name == "noise_variance")
    spread = first.std(0, ddof=1) if len(first) > 1 else np.full(n, np.nan)
    zero = np.zeros(())
    return {
        **out,
        "initial_mean": Quantity(first.mean(0), spread / np.sqrt(len(first)), False),
        "observation_std": Quantity(zero, zero, True),
    }


def _info(
    fit: SemilinearFit, observed: Observed, s: Statistics, initial: InitialState, unresolved: float
) -> dict[str, Any]:
    of_coefficients, phi = fit.log_likelihood, observed.basis(s.n_modes)
    if initial.kind == "gaussian":
        of_coefficients += _start_density(s, initial)
    value, of = statistics_density(s, of_coefficients, initial, phi.T @ phi, unresolved)
    if isinstance(observed.values, np.ndarray):
        of = dataclasses.replace(of, fingerprint=fingerprint(observed.fields))
    d = fit.diagnostics
    return {
        "engine": SemilinearEngine.name,
        "route": "closure of transitions",
        "n_paths": observed.n_paths,
        "n_times": int(observed.times.shape[-1]),
        "n_points": len(observed.points),
        "n_observed": float(s.n_values),
        "n_parameters": len(fit.x),
        "initial_state": initial.kind,
        "drift": "parametric",
        "noise": fit.layout.noise,
        "log_likelihood": float(value),
        "log_likelihood_of": dataclasses.asdict(of),
        "convergence": {"evaluations": float(d["n_evaluations"])},
        "closure": {key: d[key] for key in ("n_steps", "step_shift", "rate_dt", "converged")},
        "estimates": fit.values,
        "standard_errors": fit.standard_errors,
        "version": __version__,
    }


def _start_density(s: Statistics, initial: InitialState) -> float:
    """``sum_p log N(c_p(0); m, V)`` from sums over paths."""
    mean, variance = initial.mean, initial.covariance
    squares = s.square[0] - 2.0 * mean * s.first[0] + s.n_paths * mean**2
    return float(-0.5 * (squares / variance + s.n_paths * np.log(2.0 * np.pi * variance)).sum())


def _in_plain_types(found: Discovery) -> dict[str, Any]:
    table = found.table
    return {
        "sentence": found.sentence,
        "terms": list(found.terms),
        "inclusion": {str(k): float(v) for k, v in found.inclusion.to_series().items()},
        "candidates": [str(name) for name in table["terms"].values],
        "bic": [float(value) for value in table["bic"].values],
    }
