"""Parameters people know, with delta-method standard errors.

A number ``f(phi)`` of coordinates with covariance ``C C'`` has the variance ``|J C|^2``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spdelaw.equation import operators
from spdelaw.infer._estimate import Estimate, Fit
from spdelaw.law import Quantity

Array = np.ndarray

#: Names of the operators: of spectra, and of matrices.
NAMES = {
    "drift": ("eigenvalue", "drift"),
    "noise": ("noise_variance", "noise_covariance"),
    "initial_variance": ("initial_variance", "initial_covariance"),
}


def quantities(
    fit: Fit, observation_variance: Array, ends: Mapping[str, Array]
) -> dict[str, Quantity]:
    """Every reported parameter by name.

    Variances and eigenvalues have intervals on the log scale, everything else symmetric ones,
    unless ``ends`` by name say otherwise. Where drift or noise couple the modes, all operators
    are matrices.
    """
    found, n = fit.estimate, fit.n_modes
    coupled = not found.state_space.linear.is_diagonal
    values = found.parametrisation.values(found.full)
    parts = [part for part in NAMES if part in values]
    out = {NAMES[part][coupled]: _operator(found, part, n, coupled) for part in parts}
    if "season" in values:
        out["season"] = Quantity(values["season"], _norm(found.roots("season")), True)
    out["initial_mean"] = Quantity(found.state_space.initial.mean[:n], _start(found, n), False)
    if found.mean is not None:
        out["mean"] = Quantity(found.mean.value[:n], found.mean.errors[:n], False)
    std = np.sqrt(observation_variance)
    error = fit.point_error
    if error is None:
        error = std * _errors(found, "observation", 1)[0]
    out["observation_std"] = Quantity(std, error, True)
    out |= _tied(found)
    return {name: own._replace(ends=ends.get(name)) for name, own in out.items()}


def _operator(found: Estimate, part: str, n: int, coupled: bool) -> Quantity:
    """Operator of n modes; of matrices only variances are positive, no entries of a drift."""
    both = found.parametrisation.values(found.full)[part], _norm(found.roots(part))
    value, error = (operators.leading(x, n) for x in both)
    if not coupled:
        return Quantity(value, error, True)
    is_positive = np.eye(n, dtype=bool) & (part != "drift")
    return Quantity(operators.as_matrix(value), operators.as_matrix(error), is_positive)


def _norm(roots: Array) -> Array:
    return np.sqrt((roots**2).sum(-1))


def _errors(found: Estimate, part: str, n: int) -> Array:
    """Standard errors of a part's coordinates; zero where it has none."""
    if part not in found.parametrisation.parts:
        return np.zeros(n)
    return found.errors(part)[:n]


def _start(found: Estimate, n: int) -> Array:
    """Standard errors of the initial mean, which is that of the deviation from the mean."""
    if found.mean is None or not found.mean.anchored:
        return _errors(found, "initial_mean", n)
    own, slopes = found.parametrisation.slices.get("initial_mean"), found.mean.slopes
    roots = -slopes if own is None else found.columns[own] - slopes
    return np.sqrt((roots**2).sum(-1) + np.diag(found.mean.given))[:n]


def _tied(found: Estimate) -> dict[str, Quantity]:
    """The few numbers of a parametric law, nuisance modes included."""
    names, is_log = found.parametrisation.names, found.parametrisation.is_log
    errors, out = _norm(found.columns), {}
    for i, name in enumerate(names):
        if "[" in name or name == "observation_std":
            continue
        value = np.exp(found.full[i]) if is_log[i] else found.full[i]
        error = errors[i] * (value if is_log[i] else 1.0)
        out[name] = Quantity(np.asarray(value), np.asarray(error), bool(is_log[i]))
    return out


def operators_jacobian(found: Estimate) -> Array:
    """Derivative of drift and noise, each flattened, by the coordinates; (K, p)."""
    parts = [found.parametrisation.jacobian(part, found.full) for part in ("drift", "noise")]
    sizes = [int(np.prod(part.shape[:-1])) for part in parts]
    out, first = np.zeros((sum(sizes), len(found.full))), 0
    for name, part, size in zip(("drift", "noise"), parts, sizes, strict=True):
        own = out[first : first + size, found.parametrisation.slices[name]]
        own[:] = part.reshape(size, -1)
        first += size
    return np.nan_to_num(out, copy=False)
