"""Parameters of a law as a labelled table: estimate, standard error, interval.

For other packages the same as a pandas table, and as draws for ArviZ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr

from spdelaw.checks import optional

Array = np.ndarray
STATISTICS = ("estimate", "stderr", "lower", "upper")
#: Dims of vectors that do not run over modes.
OTHER_DIMS = {"observation_std": "point", "season": "part", "coefficient": "term"}
#: An interval wider than this factor to either side says nothing: it is from zero to infinity.
WIDEST = 1e12
#: Parameters that may have either sign.
SIGNED = ("initial_mean", "mean", "drift", "noise_covariance", "initial_covariance", "coefficient")


class Quantity(NamedTuple):
    """Numbers with standard errors; intervals on the log scale where they must be positive.

    ``ends`` (..., 2) are intervals found in another way, NaN where the standard error serves.
    """

    estimate: Array
    stderr: Array
    positive: bool | Array
    ends: Array | None = None


def interval_table(quantity: Quantity, level: float) -> Array:
    """(..., 4): estimate, standard error and the ends of the interval of the given level.

    Delta method: a positive number ``x`` with standard error ``s`` has the interval
    ``x exp(+- z s / x)``, which stays positive and is the interval of its logarithm; beyond
    `WIDEST` it is all of the half-line.
    """
    x, s = np.asarray(quantity.estimate, float), np.asarray(quantity.stderr, float)
    z = scipy.special.ndtri(0.5 * (1.0 + level))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        width = np.where(x > 0, z * s / np.where(x > 0, x, 1.0), 0.0)
        width = np.where(width > np.log(WIDEST), np.inf, width)
        lower = np.where(quantity.positive, x * np.exp(-width), x - z * s)
        upper = np.where(quantity.positive, x * np.exp(width), x + z * s)
    table = np.stack([x, s, lower, upper], axis=-1)
    if quantity.ends is not None:
        table[..., 2:] = np.where(np.isnan(quantity.ends), table[..., 2:], quantity.ends)
    return table


def parameters_dataset(
    quantities: dict[str, Quantity], level: float, attributes: dict[str, Any]
) -> xr.Dataset:
    """Dataset with dim ``statistic``; ``mode`` or ``point`` for vectors, two modes for matrices."""
    variables = {}
    for name, quantity in quantities.items():
        table = interval_table(quantity, level)
        dims = (*("mode", "mode_2")[: table.ndim - 1], "statistic")
        if table.ndim == 2 and name in OTHER_DIMS:
            dims = (OTHER_DIMS[name], "statistic")
        variables[name] = (dims, table)
    return with_modes(variables, {"interval_level": level, **attributes})


def with_modes(variables: dict, attributes: dict) -> xr.Dataset:
    """Dataset of tables with numbered modes, and terms by the names that attributes have."""
    data = xr.Dataset(variables, coords={"statistic": list(STATISTICS)}, attrs=attributes)
    axes = [dim for dim in ("mode", "mode_2", "part") if dim in data.sizes]
    data = data.assign_coords({dim: np.arange(1, data.sizes[dim] + 1) for dim in axes})
    return data.assign_coords(term=attributes["terms"]) if "term" in data.sizes else data


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
        draws[str(name)] = x + s * z if name in SIGNED else x * np.exp(relative * z)
    names = {str(n): [str(d) for d in t.dims[:-1]] for n, t in parameters.data_vars.items()}
    dims = {n: found for n, found in names.items() if found and found != ["point"]}
    coords = {d: parameters[d].values for found in dims.values() for d in found}
    return arviz.from_dict(posterior=draws, dims=dims, coords=coords)
