"""Does the model fit? Innovations that should be independent standard normals.

Four tests per mode: variance (mean square against 1), whiteness (Ljung-Box, pooled over paths),
normality (D'Agostino's omnibus test) and independence of the other modes (Ljung-Box on
cross-correlations, which a coupling that the law leaves out makes large). All statistics are
scaled down by ``1 + n_test / n_train``, so that errors of the estimate alone do not set off an
alarm, and the p-values are joined by Holm's method: the chance of any false alarm stays below the
stated rate.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy
import xarray as xr

from spdelaw.equation import Linear
from spdelaw.infer import principal_components
from spdelaw.law import Law, Observations, batches, noisy_state_space, observe
from spdelaw.model import (
    Block,
    StateSpace,
    collapse,
    component_innovations,
    forward_filter,
    innovations,
)

Array = np.ndarray

#: Joint false-alarm rate of all tests.
FALSE_ALARM = 0.01
#: Lags of the whiteness test.
LAGS = 10
TESTS = ("variance", "whiteness", "normality", "independence")


@dataclasses.dataclass(frozen=True)
class ModelCheck:
    """Tests of the innovations.

    Attributes:
        p_values: Dataset over ``series`` with one variable per test.
        rejected: "mode 3 whiteness" and the like, after Holm's correction.
        innovations: (path, time, series), NaN where a row says nothing.
        unit: what one series is, "mode" or "component".
    """

    p_values: xr.Dataset
    rejected: list[str]
    innovations: Array
    unit: str

    @property
    def fits(self) -> bool:
        """Whether no test rejects."""
        return not self.rejected

    @property
    def verdict(self) -> str:
        """One line for people."""
        rate = f"joint false-alarm rate {100 * FALSE_ALARM:g} %"
        if not self.p_values["variance"].notnull().any():
            return "model not checked: no row of the data determines all modes"
        if self.fits:
            return f"the model fits: no departure found in the innovations ({rate})"
        shown = ", ".join(self.rejected[:4])
        more = f" and {len(self.rejected) - 4} more" if len(self.rejected) > 4 else ""
        return f"the model does not fit: {shown}{more} ({rate})"


def check_model(law: Law, fields: xr.DataArray) -> ModelCheck:
    """Test the innovations of data under a law."""
    z, unit = standard_innovations(law, fields)
    shrink = 1.0 + len(z) / max(law.info["n_paths"], 1)
    table = {test: np.full(z.shape[-1], np.nan) for test in TESTS}
    for n in range(z.shape[-1]):
        for test, p in _series_tests(z[..., n], shrink).items():
            table[test][n] = p
    table["independence"] = _independence(z, shrink)
    series = np.arange(1, z.shape[-1] + 1)
    p_values = xr.Dataset({k: ("series", v) for k, v in table.items()}, coords={"series": series})
    return ModelCheck(p_values, _holm(p_values, unit), z, unit)


def standard_innovations(law: Law, fields: xr.DataArray) -> tuple[Array, str]:
    """Standardised innovations (path, time, series) and what the series are."""
    own, space = observe(law, fields), law.bare.state_space
    complete = not np.isnan(own.values).any() and own.times.ndim == 1
    if complete and isinstance(law.dynamics, Linear) and not law.observation_variance.any():
        if space.n_modes == law.n_modes:
            return _transition_innovations(space, own), "mode"
        reduction = principal_components(own.values)
        if reduction is not None:
            keep, variance = reduction
            values, basis = own.values @ keep, keep.T @ own.basis
            block = collapse(values, own.times, basis).blocks[0]
            z = component_innovations(block, space.with_noise(variance), values, basis)
            return z, "component"
    one_step = innovations if isinstance(law.dynamics, Linear) else _filter_innovations
    out = np.full((*own.values.shape[:2], space.n_modes), np.nan)
    noisy = noisy_state_space(law, own)
    for block in batches(own.values, own.times, own.basis, own.weights):
        out[block.paths] = one_step(block, noisy).transpose(2, 0, 1)
    return out[..., : law.n_modes], "mode"


def _transition_innovations(space: StateSpace, own: Observations) -> Array:
    """``S^-1 (c_{t+1} - F c_t)`` with ``S S' = Omega``, of complete, noise-free coefficients.

    For coupled modes S is a Cholesky factor: mode 2 is what mode 1 leaves of it.
    """
    c = own.values @ np.linalg.pinv(own.basis).T
    step, which = space.linear.transitions(own.times)
    z = np.full(c.shape, np.nan)
    if step.factor.ndim == 2:
        error = c[:, 1:] - step.factor[which] * c[:, :-1]
        z[:, 1:] = error / np.sqrt(step.covariance[which])
        return z
    inverse = np.linalg.inv(np.linalg.cholesky(step.covariance))[which]
    error = c[:, 1:] - np.einsum("tij,ptj->pti", step.factor[which], c[:, :-1])
    z[:, 1:] = np.einsum("tij,ptj->pti", inverse, error)
    return z


def _filter_innovations(block: Block, space: StateSpace) -> Array:
    """`spdelaw.model.innovations` for any dynamics, through the forward filter; (T, N, P)."""
    r, out = float(space.observation_variance), np.full(block.estimate.shape, np.nan)
    for path in range(len(block.paths)):
        found = forward_filter(block, space, path)
        gram = block.gram[..., path % block.gram.shape[-1]]
        for t in np.flatnonzero(found.predicted_covariance.any((1, 2))):
            g = np.diag(gram[t]) if gram.ndim == 2 else gram[t]
            if np.linalg.matrix_rank(g) == len(g):
                total = found.predicted_covariance[t] + r * np.linalg.inv(g)
                error = block.estimate[t, :, path] - found.predicted_mean[t]
                out[t, :, path] = np.linalg.solve(np.linalg.cholesky(total), error)
    return out


def _series_tests(z: Array, shrink: float) -> dict[str, float]:
    """p-values of one series (path, time)."""
    seen = z[~np.isnan(z)]
    n = seen.size
    if n < 20:
        return {}
    gap = (np.mean(seen**2) - 1.0) / np.sqrt(2.0 / n * shrink)
    from scipy import stats  # slow to import, and needed here only

    # D'Agostino's transformed moments keep their level far out; Jarque-Bera's do not.
    omnibus = float(stats.normaltest(seen).statistic) / shrink
    box, lags = _ljung_box(z / np.sqrt(np.mean(seen**2)))
    return {
        "variance": float(2.0 * scipy.special.ndtr(-abs(gap))),
        "normality": float(scipy.special.chdtrc(2, omnibus)),
        "whiteness": float(scipy.special.chdtrc(lags, box / shrink)) if lags else np.nan,
    }


def _ljung_box(z: Array) -> tuple[float, int]:
    """``sum_k n_k r_k^2`` over lags, pooled over paths, and the number of lags."""
    total, used = 0.0, 0
    for lag in range(1, min(LAGS, z.shape[1] // 4) + 1):
        product = z[:, lag:] * z[:, :-lag]
        pairs = product[~np.isnan(product)]
        if pairs.size >= 20:
            total += pairs.size * float(pairs.mean()) ** 2
            used += 1
    return total, used


def _independence(z: Array, shrink: float) -> Array:
    """p-value of each series against all others at equal and earlier times; (series,)."""
    seen = ~np.isnan(z)
    filled = np.where(seen, z, 0.0)
    power = (filled**2).sum((0, 1)) / np.maximum(seen.sum((0, 1)), 1)
    filled = filled / np.sqrt(np.where(power > 0, power, 1.0))
    n = z.shape[-1]
    total, used = np.zeros(n), np.zeros(n)
    for lag in range(min(LAGS, z.shape[1] // 4) + 1):
        stop = z.shape[1] - lag
        product = filled[:, lag:].reshape(-1, n).T @ filled[:, :stop].reshape(-1, n)
        pairs = seen[:, lag:].reshape(-1, n).T.astype(float) @ seen[:, :stop].reshape(-1, n)
        enough = (pairs >= 20) & ~np.eye(n, dtype=bool)
        total += np.where(enough, product**2 / np.maximum(pairs, 1), 0.0).sum(1)
        used += enough.sum(1)
    return np.where(used > 0, scipy.special.chdtrc(np.maximum(used, 1), total / shrink), np.nan)


def _holm(p_values: xr.Dataset, unit: str) -> list[str]:
    named = [
        (float(p), f"{unit} {int(n)} {test}")
        for test in TESTS
        for n, p in zip(p_values["series"].values, p_values[test].values, strict=True)
        if np.isfinite(p)
    ]
    rejected = []
    for rank, (p, name) in enumerate(sorted(named)):
        if p > FALSE_ALARM / (len(named) - rank):
            break
        rejected.append(name)
    return rejected


def describe_check(check: ModelCheck) -> dict[str, Any]:
    """Plain description for JSON."""
    return {
        "fits": check.fits,
        "verdict": check.verdict,
        "rejected": check.rejected,
        "false_alarm_rate": FALSE_ALARM,
        "p_values": {k: check.p_values[k].values.tolist() for k in TESTS},
        "unit": check.unit,
    }
