"""Whether the residual of a law has memory, and the law with it (`spdelaw.law.residuals`)."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy

from spdelaw.data.observed import Observed
from spdelaw.infer.model import Model
from spdelaw.law.law import Law
from spdelaw.law.observations import noisy_state_space, observed_for_law, smooth_fields, weights_of
from spdelaw.law.residuals import AR1

Array = np.ndarray

#: Level of the test of "auto", and the least correlation of neighbours that is worth a memory:
#: below, errors of one step fall by less than half a percent.
FALSE_ALARM, LEAST_CORRELATION = 1e-4, 0.1


def with_residual(law: Law, observed: Observed, model: Model) -> Law:
    """The law with the memory of its residual: for "memory", or for "auto" where significant."""
    if model.rest == "white":
        return law
    law_observed = observed_for_law(law, observed)
    space, basis = noisy_state_space(law, law_observed), law_observed.basis(law.dynamics.n_modes)
    mean = smooth_fields(
        law_observed.values, law_observed.times, basis, space, basis, weights_of(law, law_observed)
    ).mean
    residuals = law_observed.values - mean
    tested = memory_test(residuals)
    decision = {"word": model.rest, **tested}
    if model.rest == "auto" and not tested["found"]:
        return law.with_info(rest=decision | {"answer": "white"})
    residual = AR1.fit(residuals, law_observed.times, model.known_variance)
    law = law.with_info(rest=decision | {"answer": "memory"})
    return dataclasses.replace(law, rest=residual)


def memory_test(residuals: Array) -> dict[str, float | bool]:
    """Whether neighbours in time are alike: mean of ``s_t = sum_j r_j(t) r_j(t+1)`` over its error.

    Of a residual that is white in time the sums s_t are uncorrelated, however alike the points are.
    """
    count = np.maximum(np.isfinite(residuals).sum((0, 1)), 1)
    scale = np.nansum(residuals**2, axis=(0, 1)) / count
    r = residuals / np.sqrt(np.where(scale > 0, scale, np.nan))
    products = r[:, 1:] * r[:, :-1]
    is_pair = np.isfinite(products)
    sums = np.where(is_pair, products, 0.0).sum(-1)[is_pair.any(-1)]
    n, pairs = len(sums), int(is_pair.sum())
    correlation = float(sums.sum() / pairs) if pairs else 0.0
    spread = float(sums.std(ddof=1)) if n > 1 else 0.0
    z = float(sums.mean() / spread * np.sqrt(n)) if spread > 0 else 0.0
    p = float(scipy.special.stdtr(max(n - 1, 1), -z))
    has_memory = bool(p < FALSE_ALARM and correlation > LEAST_CORRELATION)
    return {"correlation": correlation, "p_value": p, "found": has_memory}
