"""Parameters of a law: their table, and laws drawn from their uncertainty."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import optional, whole
from spdelaw.errors import InputError
from spdelaw.processes import operators
from spdelaw.processes.linear import Linear

if TYPE_CHECKING:
    from spdelaw.law.law import Law


# ---------- Root of the covariance of the coordinates


Array = np.ndarray

#: Ratio of standard errors from which on the root is computed from correlations.
SCALE_RATIO = 1e6


def coordinate_root(covariance: Array) -> Array:
    """Columns R with ``R R'`` the covariance, by way of correlations where units lie far apart.

    Eigenvectors of the covariance itself lose logarithms of rates next to initial means of 1e12.

    Example:
        >>> import numpy as np
        >>> from spdelaw.law.parameters import coordinate_root
        >>> covariance = np.diag([1e24, 0.01]) + np.array([[0.0, 1e10], [1e10, 0.0]])
        >>> r = coordinate_root(covariance)
        >>> bool(np.allclose(r @ r.T, covariance, rtol=1e-12, atol=0.0))
        True
    """
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    positive = scale[scale > 0]
    is_far = positive.max(initial=0.0) > SCALE_RATIO * positive.min(initial=np.inf)
    unit = np.where(scale > 0, scale, 1.0) if is_far else np.ones(len(scale))
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    return np.asarray(unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)))


# ---------- Parameters as a labelled table, for pandas and for ArviZ


STATISTICS = ("estimate", "stderr", "lower", "upper")
#: Dims of vectors that do not run over modes.
OTHER_DIMS = {"observation_std": "point", "season": "part", "coefficient": "term"}
#: An interval wider than this factor to either side becomes the half-line from zero on.
WIDEST_FACTOR = 1e12
#: Parameters that may have either sign.
SIGNED_PARAMETERS = (
    "initial_mean",
    "mean",
    "drift",
    "noise_covariance",
    "initial_covariance",
    "coefficient",
    "noise_offset",
)


#: Powers of the unit of the field and of the unit of time in the units of parameters. Coordinates
#: are plain numbers, so that coefficients of the modes have the unit of the field.
UNIT_POWERS = {
    **dict.fromkeys(("initial_mean", "mean", "observation_std", "noise_offset"), (1, 0)),
    **dict.fromkeys(("initial_variance", "initial_covariance"), (2, 0)),
    **dict.fromkeys(("eigenvalue", "drift", "kappa"), (0, -1)),
    **dict.fromkeys(("noise_variance", "noise_covariance", "scale"), (2, -1)),
}


#: Power of the unit of the field in the noise variance of each kind of state noise.
NOISE_POWERS = {"proportional": 0, "affine": 0, "square_root": 1}


class Quantity(NamedTuple):
    """Numbers with standard errors; intervals on the log scale where they must be positive.

    ``ends`` (..., 2) are intervals by other methods, NaN where the standard error gives them.
    """

    estimate: Array
    stderr: Array
    positive: bool | Array
    ends: Array | None = None


def interval_table(quantity: Quantity, level: float) -> Array:
    """(..., 4): estimate, standard error and the ends of the interval of the given level.

    Delta method: a positive number ``x`` with standard error ``s`` has the interval
    ``x exp(+- z s / x)``, which stays positive and is the interval of its logarithm; beyond
    `WIDEST_FACTOR` it is all of the half-line.
    """
    x, s = np.asarray(quantity.estimate, float), np.asarray(quantity.stderr, float)
    z = scipy.special.ndtri(0.5 * (1.0 + level))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        width = np.where(x > 0, z * s / np.where(x > 0, x, 1.0), 0.0)
        width = np.where(width > np.log(WIDEST_FACTOR), np.inf, width)
        lower = np.where(quantity.positive, x * np.exp(-width), x - z * s)
        upper = np.where(quantity.positive, x * np.exp(width), x + z * s)
    table = np.stack([x, s, lower, upper], axis=-1)
    if quantity.ends is not None:
        table[..., 2:] = np.where(np.isnan(quantity.ends), table[..., 2:], quantity.ends)
    return table


def parameters_dataset(
    quantities: dict[str, Quantity], level: float, attributes: dict[str, Any]
) -> xr.Dataset:
    """Dataset with dim ``statistic``; ``mode`` or ``point`` for vectors, two modes for matrices.

    Where there is an initial mean, arrays of another size than its own have dims of their own.
    """
    variables = {}
    n_modes = np.shape(quantities["initial_mean"].estimate) if "initial_mean" in quantities else ()
    for name, quantity in quantities.items():
        table = interval_table(quantity, level)
        dims = (*("mode", "mode_2")[: table.ndim - 1], "statistic")
        if table.ndim == 2 and name in OTHER_DIMS:
            dims = (OTHER_DIMS[name], "statistic")
        elif n_modes and {*table.shape[:-1]} - {*n_modes}:
            dims = (*(f"{name}_{i + 1}" for i in range(table.ndim - 1)), "statistic")
        variables[name] = (dims, table)
    return with_modes(variables, {"interval_level": level, **attributes})


def with_modes(variables: dict, attributes: dict) -> xr.Dataset:
    """Dataset of tables with numbered modes, and terms by the names that attributes have."""
    data = xr.Dataset(variables, coords={"statistic": list(STATISTICS)}, attrs=attributes)
    axes = [dim for dim in ("mode", "mode_2", "part") if dim in data.sizes]
    data = data.assign_coords({dim: np.arange(1, data.sizes[dim] + 1) for dim in axes})
    return data.assign_coords(term=attributes["terms"]) if "term" in data.sizes else data


def with_units(
    parameters: xr.Dataset, field: str, time: str, state_noise: str = "none"
) -> xr.Dataset:
    """The tables with the attribute ``units``, such as ``K^2/days``, as far as units are known.

    Args:
        parameters: of a law.
        field: unit of the field that the law describes, "1" after standardising, or empty.
        time: unit of time, or empty.
        state_noise: kind of the noise; that of W has another unit where the field multiplies it.
    """
    units, powers = dict[str, str](), UNIT_POWERS
    if state_noise in NOISE_POWERS:
        powers = powers | {"noise_variance": (NOISE_POWERS[state_noise], -1)}
    for name in parameters.variables.keys() & UNIT_POWERS.keys():
        of_field, of_time = powers[str(name)]
        if (of_field and not field) or (of_time and not time):
            continue
        power = "" if of_field < 2 else "^2"
        unit = field if field.isalpha() or not power else f"({field})"
        text = "1" if not of_field or field == "1" else f"{unit}{power}"
        units[str(name)] = f"{text}/{time}" if of_time else text
    if all(parameters.variables[name].attrs.get("units") == text for name, text in units.items()):
        return parameters
    out = parameters.copy()
    for name, text in units.items():
        out[name].attrs["units"] = text
    return out


def to_pandas(parameters: xr.Dataset) -> Any:
    """One row per number; see `spdelaw.Law.to_pandas`."""
    import pandas as pd  # type: ignore[import-untyped]

    labels = ["mode", *(["mode_2"] if "mode_2" in parameters.sizes else [])]
    has_terms = "term" in parameters.sizes
    rows = []
    for name, table in parameters.data_vars.items():
        of_term = table.dims[0] == "term"
        for index in np.ndindex(table.shape[:-1]):
            numbers = () if of_term else index
            where: list[Any] = [*(i + 1 for i in numbers), *[None] * (len(labels) - len(numbers))]
            if has_terms:
                where.append(str(table["term"].values[index[0]]) if of_term else None)
            rows.append([str(name), *where, *table.values[index].tolist()])
    columns = ["parameter", *labels, *(["term"] if has_terms else [])]
    columns += [str(s) for s in parameters["statistic"].values]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(labels, "Int64"))


def to_arviz(parameters: xr.Dataset, n_draws: int, seed: int) -> Any:
    """Draws from the asymptotic law of each number, on the log scale where it is positive."""
    arviz = optional("arviz", "to_arviz", "arviz")
    generator = np.random.default_rng(seed)
    draws: dict[str, Array] = {}
    for name, table in parameters.data_vars.items():
        x = table.sel(statistic="estimate").values
        s = np.nan_to_num(table.sel(statistic="stderr").values, posinf=0.0)
        z = generator.standard_normal((1, n_draws, *np.shape(x)))
        relative = np.divide(s, x, out=np.zeros_like(s), where=x != 0)
        draws[str(name)] = x + s * z if name in SIGNED_PARAMETERS else x * np.exp(relative * z)
    names = {str(n): [str(d) for d in t.dims[:-1]] for n, t in parameters.data_vars.items()}
    dims = {n: axes for n, axes in names.items() if axes and axes != ["point"]}
    coords = {d: parameters[d].values for axes in dims.values() for d in axes}
    return arviz.from_dict(posterior=draws, dims=dims, coords=coords)


# ---------- Predictions that include the uncertainty of the parameters
#
# Coordinates of a fit are about normal around their estimate, ``theta ~ N(theta_hat, C)``, and
# drift and noise follow them by their Jacobian: eigenvalues and covariances on a logarithmic scale,
# which keeps them positive, other drifts as they are, as far as they stay stable. Over K such laws
#
#     mean = mean of m_k,      variance = mean of v_k + variance of m_k.
#
# An estimated mean follows the parameters; its error given these is in every prediction.


#: Largest change of a logarithm that the data do not determine: a factor of 20.
LARGEST_LOG_CHANGE = 3.0
#: How often a change of a drift is halved until it is stable.
MAX_HALVINGS = 20


def over_parameters(
    law: Law, n_draws: int, seed: int, n_samples: int, predict: Callable[[Law, int], xr.Dataset]
) -> xr.Dataset:
    """Moments over laws drawn around this one, and samples of each of them in turn.

    Args:
        law: the learned one.
        n_draws: how many laws; they come in pairs, one on each side of it. 0 for it alone.
        seed: of the draws.
        n_samples: samples in all.
        predict: ``mean``, ``std``, ``std_field`` and so many samples under a law.
    """
    if not whole("parameter_draws", n_draws, 0):
        return predict(law, n_samples)
    laws = list(_draw_laws(law, n_draws, seed))
    shares = np.diff(np.linspace(0, n_samples, len(laws) + 1).round()).astype(int)
    predictions = [predict(one, int(n)) for one, n in zip(laws, shares, strict=True)]
    first, n = predictions[0]["mean"], len(predictions)
    mean = sum((prediction["mean"] - first for prediction in predictions), 0.0 * first) / n
    spread = (
        sum(((prediction["mean"] - first - mean) ** 2 for prediction in predictions), 0.0 * first)
        / n
    )
    out = predictions[0].drop_vars("sample", errors="ignore").assign(mean=first + mean)
    for name in ("std", "std_field"):
        variance = sum((prediction[name] ** 2 for prediction in predictions), 0.0 * first) / n
        out[name] = np.sqrt(variance + spread)
    drawn = [prediction["sample"] for prediction in predictions if "sample" in prediction]
    return out.assign(sample=xr.concat(drawn, "draw")) if drawn else out


def _draw_laws(law: Law, n_draws: int, seed: int) -> Iterator[Law]:
    """Laws on both sides of the learned one."""
    table = law.coordinates
    if not isinstance(law.dynamics, Linear) or table is None or "jacobian" not in table:
        expected = "a linear law with the covariance of its parameters"
        got = f"a law of the engine {law.info.engine!r}"
        fix = "fit with engine='exact', or leave parameter_draws out"
        raise InputError("parameter_draws", expected=expected, got=got, fix=fix)
    generator = np.random.default_rng([seed, 2])
    columns = coordinate_root(table["covariance"].values)
    for k in range(n_draws):
        side = (-1.0) ** k
        if side > 0:
            change = columns @ generator.standard_normal(columns.shape[1])
        yield _perturbed_law(law, side * change)


def _perturbed_law(law: Law, change: Array) -> Law:
    linear, table = law.linear, cast("xr.Dataset", law.coordinates)
    rows = table["jacobian"].values @ change
    drift = _perturbed_drift(linear.drift, rows[: linear.drift.size].reshape(linear.drift.shape))
    noise = _perturbed_covariance(
        linear.noise, rows[linear.drift.size :].reshape(linear.noise.shape)
    )
    initial, names = law.initial, list(table["coordinate"].values)
    if initial.kind == "stationary":
        initial = initial._replace(covariance=operators.stationary_covariance(drift, noise))
    r = law.observation_variance
    if "observation_std" in names:
        r = r * np.exp(2.0 * _clip_log_change(change[names.index("observation_std")]))
    mean = linear.mean
    if mean is not None and "mean_slopes" in table:
        mean = mean + table["mean_slopes"].values @ change
        table = table.drop_vars("mean_slopes")  # it follows the other parameters here
    dynamics = dataclasses.replace(linear, drift=drift, noise=noise, mean=mean)
    law = dataclasses.replace(law, coordinates=table)
    return dataclasses.replace(law, dynamics=dynamics, initial=initial, observation_variance=r)


def _clip_log_change(change: Array) -> Array:
    return np.clip(change, -LARGEST_LOG_CHANGE, LARGEST_LOG_CHANGE)


def _perturbed_drift(drift: Array, change: Array) -> Array:
    if drift.ndim == 1:
        safe = np.where(drift > 0, drift, 1.0)
        return np.where(drift > 0, drift * np.exp(_clip_log_change(change / safe)), drift + change)
    for _ in range(MAX_HALVINGS):
        if operators.decay_rates(drift + change).min() > 0:
            return drift + change
        change = 0.5 * change
    return drift


def _perturbed_covariance(noise: Array, change: Array) -> Array:
    """``R exp(R^-1 dQ R^-1') R'`` with ``R R' = Q``."""
    if noise.ndim == 1:
        safe = np.where(noise > 0, noise, 1.0)
        return noise * np.exp(_clip_log_change(change / safe))
    values, vectors = np.linalg.eigh(0.5 * (noise + noise.T))
    size = np.sqrt(np.maximum(values, 1e-12 * values.max()))
    relative = (vectors / size).T @ change @ (vectors / size)
    logs, turned = np.linalg.eigh(0.5 * (relative + relative.T))
    root = (vectors * size) @ turned
    return (root * np.exp(_clip_log_change(logs))) @ root.T
