"""Tables of parameters for other packages: pandas and ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from spdelaw.errors import MissingExtraError

Array = np.ndarray

#: Parameters that may have either sign.
SIGNED = (
    "initial_mean",
    "mean",
    "drift",
    "noise_covariance",
    "initial_covariance",
    "coefficient",
)


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
    try:
        import arviz
    except ImportError as error:
        raise MissingExtraError("to_arviz", "arviz") from error
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
