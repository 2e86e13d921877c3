"""A law from a file, held to what its methods rely on: a file of others is data, not trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spdelaw.law._parameters_table import STATISTICS
from spdelaw.model import CoupledParameters, Parameters

if TYPE_CHECKING:
    from spdelaw.law._law import Law

#: Entries of ``info`` that are used, with their types; the first three must be there.
NUMBER = (int, float)
INFO: dict[str, Any] = {
    "engine": str, "n_paths": int, "log_likelihood": NUMBER, "route": str, "n_times": int,
    "n_points": int, "n_parameters": NUMBER, "n_law_parameters": NUMBER, "n_nuisance": int,
    "version": str, "warnings": list, "preparation": list, "seconds": dict, "convergence": dict,
    "time": dict, "data": dict, "labels": dict, "n_time": int, "tail": str, "horizon": NUMBER,
}  # fmt: skip
NEEDED = ("engine", "n_paths", "log_likelihood")
#: Numbers of the state, and how many times over they run over the modes.
SHAPES: dict[type, dict[str, int]] = {
    Parameters: dict.fromkeys(Parameters._fields[:4], 1),
    CoupledParameters: dict(zip(CoupledParameters._fields[:4], (2, 2, 1, 2), strict=True)),
}
#: Tables of drift and noise, and the dims a table may have.
TABLES = {
    Parameters: ("eigenvalue", "noise_variance"),
    CoupledParameters: ("drift", "noise_covariance"),
}
TABLE_DIMS = (
    ("statistic",), ("mode", "statistic"), ("point", "statistic"), ("mode", "mode_2", "statistic"),
    ("part", "statistic"),
)  # fmt: skip


def check_law(law: Law) -> None:
    """Raise ValueError with the first thing that is wrong."""
    _check_arrays(law)
    _check_table(law)
    _check_info(law.info)
    _require(len(law.equation.eigenvalues) == law.state.n_modes, "an equation of its modes")


def _check_arrays(law: Law) -> None:
    n = law.n_modes
    _require(isinstance(n, int) and not isinstance(n, bool), "n_modes as an integer")
    state, total = law.state, len(np.atleast_1d(law.state.initial_mean))
    _require(1 <= n <= total, "n_modes of the stored spectra")
    for name, dims in SHAPES[type(state)].items():
        values = getattr(state, name)
        _require(np.shape(values) == (total,) * dims, f"{name} for each mode")
        _require(bool(np.isfinite(values).all()), f"finite {name}")
    _require(law.times.ndim == 1 and law.times.size > 0, "times as a vector")
    _require(bool(np.isfinite(law.times).all() and (np.diff(law.times) > 0).all()), "rising times")
    noise = np.shape(law.state.observation_variance)
    _require(noise in ((), law.points.shape[:1]), "observation noise of one number, or one a point")
    _require(_is_number(law.unresolved_variance), "the unresolved variance as a number")
    _require(0 <= law.unresolved_variance < np.inf, "an unresolved variance of zero or more")


def _check_table(law: Law) -> None:
    table = law.parameters
    spectra = TABLES[type(law.state)]
    for name in (*spectra, "initial_mean", "observation_std"):
        _require(name in table, f"a table of {name}")
    for each, values in table.data_vars.items():
        _require(values.dims in TABLE_DIMS, f"dims of {each}")
    _require(table.sizes["statistic"] == len(STATISTICS), "four statistics")
    for name in (*spectra, "initial_mean"):
        _require(table[name].sizes.get("mode") == law.n_modes, f"{name} for each mode")
    level = table.attrs.get("interval_level") if isinstance(table.attrs, dict) else None
    _require(_is_number(level) and 0 < float(level or 0) < 1, "a level of the intervals")


def _check_info(info: Any) -> None:
    _require(isinstance(info, dict), "info as an object")
    for name in NEEDED:
        _require(name in info, f"info about {name}")
    for name, kind in INFO.items():
        value = info.get(name)
        wrong = isinstance(value, bool) or not isinstance(value, kind)
        _require(name not in info or not wrong, f"info about {name} of another type")
    for name in ("warnings", "preparation"):
        _require(all(isinstance(x, str) for x in info.get(name, [])), f"{name} as text")
    for name in ("seconds", "convergence"):
        _require(all(_is_number(x) for x in info.get(name, {}).values()), f"{name} as numbers")
    _check_labels(info.get("labels", {}))
    for name in ("time", "data"):
        _require(all(isinstance(x, str) for x in info.get(name, {}).values()), f"{name} as text")


def _check_labels(labels: dict[str, Any]) -> None:
    _require(isinstance(labels.get("name", ""), str), "the name of the data as text")
    _require(isinstance(labels.get("attrs", {}), dict), "attributes as an object")
    coords = labels.get("coords", {})
    right = isinstance(coords, dict) and all(isinstance(v, dict) for v in coords.values())
    _require(right, "attributes of coordinates as objects")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"expected {what}")
