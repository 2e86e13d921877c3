"""How much of each mode's chaos coordinates the data determine, from the exact posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.data import Observed
from spdelaw.law import Law, chaos_posterior

#: A coordinate whose posterior mean varies by less than this over paths is not in use: its prior
#: variance is 1. (Burda et al., Importance Weighted Autoencoders, ICLR 2016, use 0.01.)
ACTIVE = 0.01
#: Most times: the covariance of a mode over all of them is a matrix of that size.
MOST_TIMES = 2000


def latent_use(law: Law, own: Observed, n_time: int) -> dict[str, Any] | None:
    """Posterior-collapse diagnostics; None for very many times, or clocks of each path's own.

    ``KL(N(m, s^2) || N(0, 1)) = (m^2 + s^2 - 1 - log s^2) / 2`` of each coordinate's marginal,
    summed over k, its mean over paths: a mode with KL near 0 carries nothing.
    """
    if own.has_own_clocks or own.fields.sizes["time"] > MOST_TIMES:
        return None
    found = chaos_posterior(law, own, n_time=n_time, tail="modelled").sel(
        mode=slice(1, law.n_modes)
    )
    m, s = found["xi_mean"], np.maximum(found["xi_std"], 1e-12)
    divergence = (0.5 * (m**2 + s**2 - 1.0 - 2.0 * np.log(s))).sum("k").mean("path")
    active = (m.var("path") > ACTIVE).mean("k")
    return {
        "kl_chaos": [round(float(v), 6) for v in divergence],
        "active_share": [round(float(v), 6) for v in active],
    }
