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
from spdelaw.processes.linear import Linear

Array = np.ndarray

#: Level of the test of "auto", and the least correlation of neighbours that is worth a memory:
#: below, errors of one step fall by less than half a percent.
FALSE_ALARM, LEAST_CORRELATION = 1e-4, 0.1
#: Share of the mean square of the values below which a residual counts as rounding.
ROUNDING_SHARE = 1e-8
#: Values that the test looks at.
TESTED_VALUES = 500_000


def with_residual(law: Law, observed: Observed, model: Model) -> Law:
    """The law with the memory of its residual: for "memory", or for "auto" where significant.

    "auto" tests the first values of data in memory by a linear smoother. It reads no lazy data
    again, and leaves out nonlinear dynamics, whose smoother takes longer than their fit.
    """
    tests = isinstance(law.dynamics, Linear) and not observed.is_lazy
    if model.rest == "white" or (model.rest == "auto" and not tests):
        return law
    n_paths, n_times = _tested(observed.n_paths, observed.times.shape[-1], len(observed.points))
    residuals, share = _residuals(law, observed.paths(slice(n_paths)).at_times(slice(n_times)))
    decision = {"word": model.rest, **memory_test(residuals), "share": share}
    if model.rest == "auto" and not (decision["found"] and share > ROUNDING_SHARE):
        return law.with_info(rest=decision | {"answer": "white"})
    if residuals.shape[:2] != (observed.n_paths, observed.times.shape[-1]):
        residuals, _ = _residuals(law, observed)
    residual = AR1.fit(residuals, observed.times, model.known_variance)
    law = law.with_info(rest=decision | {"answer": "memory"})
    return dataclasses.replace(law, rest=residual)


def _tested(n_paths: int, n_times: int, n_points: int) -> tuple[int, int]:
    """How many paths and times the test looks at."""
    paths = min(n_paths, max(1, TESTED_VALUES // (n_times * n_points)))
    return paths, min(n_times, max(3, TESTED_VALUES // (paths * n_points)))


def _residuals(law: Law, observed: Observed) -> tuple[Array, float]:
    """What smoothed modes do not explain, and its share of the mean square of the values."""
    law_observed = observed_for_law(law, observed)
    space, basis = noisy_state_space(law, law_observed), law_observed.basis(law.dynamics.n_modes)
    values, times = law_observed.values, law_observed.times
    weights = weights_of(law, law_observed)
    residuals = values - smooth_fields(values, times, basis, space, basis, weights).mean
    total = float(np.nansum(values**2))
    return residuals, float(np.nansum(residuals**2)) / total if total > 0 else 0.0


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
