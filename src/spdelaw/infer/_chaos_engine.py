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

from spdelaw.domain import AbstractDomain
from spdelaw.errors import InputError
from spdelaw.infer._assemble import assemble
from spdelaw.infer._chaos_truncated import Loss, check_truncated, estimate_truncated
from spdelaw.infer._exact import estimate
from spdelaw.infer._observed import Observed
from spdelaw.infer._per_point import estimate_per_point
from spdelaw.infer._settings import Settings
from spdelaw.law import Law
from spdelaw.model import ChaosModel


def fit_chaos(
    observed: Observed,
    domain: AbstractDomain,
    n_modes: int,
    settings: Settings,
    n_time: int,
    tail: Any,
) -> Law:
    """Maximum likelihood of the chaos model as a `Law`.

    ``info["truncation_loss"]`` is the log-likelihood per path that the truncation costs: that of
    the untruncated model of the same modes at its own maximum, minus that of this model at its
    own. It is 0 with the tail modelled. Both are densities of what ``info["truncation_loss_of"]``
    names: "fields", or, where the fields lie in the modes without any noise and so have no
    density, "coefficients" after a deterministic start, the parameters being those of the fit.
    """
    model = ChaosModel(n_time, observed.span, tail)
    if settings.drift in ("normal", "dense"):
        raise InputError(
            "drift", expected="'diagonal' or 'parametric' with engine='chaos'",
            got=repr(settings.drift), fix="pass engine='exact', which couples modes",
        )  # fmt: skip
    if tail == "modelled":
        find = estimate_per_point if settings.noise_word == "per_point" else estimate
        fitted, loss = find(observed, domain, n_modes, settings), Loss(0.0, "fields")
    else:
        check_truncated(settings)
        fitted, loss = estimate_truncated(observed, domain, n_modes, settings, model)
    law = assemble(fitted, observed, domain, settings)
    return dataclasses.replace(law, info={**law.info, **_facts(law, model, loss)})


def _facts(law: Law, model: ChaosModel, loss: Loss) -> dict[str, Any]:
    return {
        "engine": "chaos",
        "tail": model.tail,
        "n_time": model.n_time,
        "horizon": model.horizon,
        "latent_dimension": model.latent_dimension(law.state.n_modes),
        "truncation_loss": loss.per_path,
        "truncation_loss_of": loss.density,
    }
