"""A model on paths it need not have learned from: errors, bound, use of its latent variables."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from spdelaw.infer.amortized._chaos_vae import ChaosVAE
from spdelaw.infer.amortized._config import AmortizedConfig
from spdelaw.infer.amortized._elbo import exact_elbo
from spdelaw.infer.amortized._paths import Paths
from spdelaw.infer.amortized._structured import ACTIVE


class Assessment(NamedTuple):
    """Means over paths.

    Attributes:
        relative_l2, rmse: of the posterior mean's field, the first time left out; the first the
            mean over paths, the second pooled (paper, section 3.3).
        loss: as the config weighs and scales it.
        elbo: mean bound of a path, weights 1.
        kl_initial, kl_chaos: mean divergence of each mode, (N,), and of each noise, (L,).
        active: share of the K coordinates of each noise in use, (L,).
        initial_mean: mean of the posterior means of ``z0``, (N,).
    """

    relative_l2: float
    rmse: float
    loss: float
    elbo: float
    kl_initial: Tensor
    kl_chaos: Tensor
    active: Tensor
    initial_mean: Tensor


@torch.no_grad()
def assess(model: ChaosVAE, paths: Paths, config: AmortizedConfig) -> Assessment:
    """All numbers in one pass, without sampling."""
    parts = []
    for batch in paths.batches(config.batch_size):
        posterior, curves = model.encode(batch), model.curves(batch)
        mean = model.coefficients(curves, batch, posterior.initial_mean, posterior.chaos_mean)
        terms = exact_elbo(model, batch, posterior, curves, mean)
        parts.append(
            (
                *path_errors(mean @ model.basis.t(), batch),
                terms.objective(config), terms.bound(),
                terms.kl_initial, terms.kl_chaos.sum(1),
                posterior.chaos_mean.double(), posterior.initial_mean.double(),
            )
        )  # fmt: skip
    error, norm, count, objective, bound, kl_z, kl_xi, xi, z0 = map(
        torch.cat, zip(*parts, strict=True)
    )
    return Assessment(
        **mean_errors(error, norm, count),
        loss=-float(objective.mean()),
        elbo=float(bound.mean()),
        kl_initial=kl_z.mean(0),
        kl_chaos=kl_xi.mean(0),
        active=(xi.var(0, correction=0) > ACTIVE).double().mean(0),
        initial_mean=z0.mean(0),
    )


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


def latent_use(found: Assessment) -> dict[str, Any]:
    """Posterior-collapse diagnostics as plain numbers: a mode with KL near 0 carries nothing."""
    return {
        "kl_initial": [round(v, 6) for v in found.kl_initial.tolist()],
        "kl_chaos": [round(v, 6) for v in found.kl_chaos.tolist()],
        "active_share": [round(v, 6) for v in found.active.tolist()],
    }
