"""The chaos engine: the paper's truncated model with exact Gaussian inference.

``tail="modelled"``: what K functions of time cut off is part of the model. The coefficients are
then Ornstein-Uhlenbeck processes again, their likelihood is that of the exact engine
(`evaluate_chaos` equals `evaluate_likelihood`), and so is its maximum, which the exact engine's
recursions find at less cost. The chaos coordinates come after, from `chaos_posterior`.

``tail="dropped"``: the paper's decoder, see `spdelaw.infer._chaos_truncated`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from spdelaw.checks import one_of, whole
from spdelaw.data import Observed
from spdelaw.domain import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._chaos_truncated import check_truncated, fit_truncated
from spdelaw.infer._engine import Engine
from spdelaw.infer._exact import maximum_likelihood
from spdelaw.infer._model import WORDS, Model
from spdelaw.law import N_TIME, Law
from spdelaw.model import ChaosModel

TAILS = ("modelled", "dropped")


@dataclasses.dataclass(frozen=True)
class Chaos(Engine):
    """The paper's expansion in chaos coordinates, with its exact posterior.

    ``info["truncation_loss"]`` is the log-likelihood per path that the truncation costs: that of
    the untruncated model of the same modes at its own maximum, minus that of this model at its
    own. It is 0 with the tail modelled. Both are densities of what ``info["truncation_loss_of"]``
    names: "fields", or, where the fields lie in the modes without any noise and so have no
    density, "coefficients" after a deterministic start, the parameters being those of the fit.

    Args:
        n_time: K, the number of functions of time.
        order: largest order of the Hermite polynomials. A linear equation with additive noise has
            no chaos beyond the first, so that every order gives the same law.
        tail: "modelled" adds the covariance of what lies beyond K and is unbiased, "dropped" is
            the paper's model.
        threads: for data with gaps.

    Example:
        >>> Chaos(tail="dropped")
        Chaos(n_time=16, order=1, tail='dropped', threads=1)
    """

    n_time: int = N_TIME
    order: int = 1
    tail: str = "modelled"
    threads: int = 1
    name = "chaos"
    # First-order propagators are known in closed form where modes evolve alone and unforced.
    honours = frozenset(WORDS) - {"forcing", "season"}

    def __post_init__(self) -> None:
        """Check the options."""
        whole("n_time", self.n_time, 1)
        whole("order", self.order, 1)
        one_of("tail", self.tail, TAILS)
        whole("threads", self.threads, 1)

    def check(self, model: Model, bootstrap: int) -> None:
        """Refuse what the expansion has no place for."""
        super().check(model, bootstrap)
        if model.couples_drift:
            expected = "'diagonal' or 'parametric' with engine='chaos'"
            fix = "pass engine='exact', which couples modes"
            raise InputError("drift", expected=expected, got=repr(model.drift), fix=fix)
        if self.tail == "dropped":
            check_truncated(model, bootstrap)

    def learn(
        self, observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, **run: Any
    ) -> Law:
        """Maximum likelihood of the chaos model."""
        chaos = ChaosModel(self.n_time, observed.span, self.tail)  # type: ignore[arg-type]
        loss: dict[str, Any] = {"truncation_loss": 0.0, "truncation_loss_of": "fields"}
        if self.tail == "modelled":
            found = maximum_likelihood(observed, n_modes, model, self.threads)
        else:
            found, loss = fit_truncated(observed, n_modes, model, chaos)
        law = assemble(found, observed, model, run["level"])
        facts = {
            "engine": self.name,
            "tail": self.tail,
            "n_time": self.n_time,
            "horizon": chaos.horizon,
            "latent_dimension": chaos.latent_dimension(law.dynamics.n_modes),
        }
        return law.with_info(**facts, **loss)
