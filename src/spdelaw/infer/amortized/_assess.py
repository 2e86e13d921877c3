"""A model on paths it need not have learned from: errors, bound, use of its latent variables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._elbo import elbo
from spdelaw.infer.amortized._paths import Paths
from spdelaw.infer.amortized._structured import ACTIVE


@torch.no_grad()
def assess(model: ChaosVAE, paths: Paths, config: AmortizedConfig) -> dict[str, Any]:
    """All numbers in one pass, without sampling; means over paths.

    ``relative_l2`` and ``rmse`` are of the posterior mean's field, the first time left out; the
    first the mean over paths, the second pooled (paper, section 3.3). ``loss`` is as the config
    weighs and scales it, ``elbo`` the bound of a path with weights 1, ``initial_mean`` the mean of
    the posterior means of ``z0``, (N,). ``latent_use`` tells of posterior collapse: the divergence
    of each mode, of each noise, and the share of the K coordinates of each noise in use; one with
    KL near 0 carries nothing.
    """
    parts = []
    for batch in paths.batches(config.batch_size):
        terms = elbo(model, batch)
        parts.append(
            (
                *path_errors(terms.coefficients @ model.basis.t(), batch),
                terms.objective(config), terms.bound(),
                terms.kl_initial, terms.kl_chaos.sum(1),
                terms.posterior.chaos_mean.double(), terms.posterior.initial_mean.double(),
            )
        )  # fmt: skip
    *errors, objective, bound, kl_z, kl_xi, xi, z0 = map(torch.cat, zip(*parts, strict=True))
    active = (xi.var(0, correction=0) > ACTIVE).double().mean(0)
    use = {"kl_initial": kl_z.mean(0), "kl_chaos": kl_xi.mean(0), "active_share": active}
    return {
        **mean_errors(*errors),
        "loss": -float(objective.mean()),
        "elbo": float(bound.mean()),
        "initial_mean": z0.mean(0),
        "latent_use": {k: [round(v, 6) for v in part.tolist()] for k, part in use.items()},
    }


def path_errors(field: Tensor, paths: Paths) -> tuple[Tensor, Tensor, Tensor]:
    """Squared error, squared norm and number of values of each path, without the first time."""
    later = (paths.times > 0).float()[..., None]  # (T, 1) or (P, T, 1)
    weight = later if paths.observed is None else later * paths.observed
    error = ((field - paths.values) ** 2 * weight).sum((1, 2))
    norm = (paths.values**2 * weight).sum((1, 2))
    count = weight.expand_as(paths.values).sum((1, 2))
    return error.double(), norm.double(), count.double()


def mean_errors(error: Tensor, norm: Tensor, count: Tensor) -> dict[str, float]:
    """Relative L2, the mean over paths, and pooled root mean square from `path_errors`."""
    kept = norm > 0
    return {
        "relative_l2": float(torch.sqrt(error[kept] / norm[kept]).mean()),
        "rmse": float(torch.sqrt(error.sum() / count.sum())),
    }
