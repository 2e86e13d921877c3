"""A law from its directory, held to what its methods rely on: a file of others is not trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spdelaw.equation import Linear
from spdelaw.errors import FileError, SpdeLawError
from spdelaw.law._law import Law
from spdelaw.law._parameters_table import STATISTICS
from spdelaw.law._store import read_law

#: Dims that a table may have before its statistics.
TABLE_DIMS = ((), ("mode",), ("point",), ("mode", "mode_2"), ("part",), ("term",))
#: Tables of a linear law: of modes on their own, or of coupled ones.
LINEAR_TABLES = (("eigenvalue", "noise_variance"), ("drift", "noise_covariance"))
KINDS = ("deterministic", "gaussian", "stationary")


def load(path: str | Path) -> Law:
    """Load a law that `Law.save` wrote.

    Example:
        >>> import numpy as np, spdelaw as sl, tempfile, pathlib
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
        >>> law = sl.fit(data, domain=sl.Interval(0, np.pi), n_modes=2)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> law.save(folder / "heat.law")
        >>> bool(load(folder / "heat.law").parameters.equals(law.parameters))
        True
    """
    try:
        law = Law(**read_law(Path(path)))
        check_law(law)
        return law
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, SpdeLawError):
            raise
        got, fix = f"{type(error).__name__}: {error}", "fit again; the directory is damaged"
        raise FileError(str(path), expected="a complete law", got=got, fix=fix) from error


# -- what the methods of a law rely on ------------------------------------------------------------


def check_law(law: Law) -> None:
    """Raise ValueError with the first thing that is wrong."""
    _check_modes(law)
    _check_numbers(law)
    _check_table(law)


def _check_modes(law: Law) -> None:
    n, total, start = law.n_modes, law.dynamics.n_modes, law.initial
    operator = ((total,), (total, total))
    _require(isinstance(n, int) and not isinstance(n, bool), "n_modes as an integer")
    _require(1 <= n <= total, "n_modes of the stored dynamics")
    for name, values in law.dynamics.parameters.items():
        _require(bool(np.isfinite(values).all()), f"finite numbers of {name}")
    if isinstance(law.dynamics, Linear):
        for values in (law.dynamics.drift, law.dynamics.noise):
            _require(_is_finite(values, *operator), "drift and noise of all modes")
        _require(len(law.equation.eigenvalues) == total, "an equation of its modes")
    _require(start.kind in KINDS, f"an initial state of a kind in {KINDS}")
    _require(_is_finite(start.mean, (total,)), "a finite initial mean per mode")
    _require(_is_finite(start.covariance, *operator), "a finite initial covariance of all modes")


def _check_numbers(law: Law) -> None:
    n_points = law.points.shape[:1]
    _require(law.times.ndim == 1 and law.times.size > 0, "times as a vector")
    _require(bool(np.isfinite(law.times).all() and (np.diff(law.times) > 0).all()), "rising times")
    shape = law.observation_variance.shape
    _require(shape in ((), n_points), "one observation noise, or one per point")
    _require(law.offset is None or _is_finite(law.offset, n_points), "an offset of each point")
    _require(_is_number(law.unresolved_variance), "the unresolved variance as a number")
    _require(0 <= law.unresolved_variance < np.inf, "an unresolved variance of zero or more")
    for part in law.rest or ():
        right = _is_finite(part, n_points) and bool((part >= 0).all())
        _require(right, "a rest of zero or more at the points of the data")


def _check_table(law: Law) -> None:
    table = law.parameters
    for name, values in table.data_vars.items():
        *dims, last = values.dims
        _require(tuple(dims) in TABLE_DIMS and last == "statistic", f"dims of {name}")
    _require(table.sizes["statistic"] == len(STATISTICS), "four statistics")
    _require("observation_std" in table, "a table of observation_std")
    if isinstance(law.dynamics, Linear):
        found = [names for names in LINEAR_TABLES if all(name in table for name in names)]
        _require(bool(found) and "initial_mean" in table, "tables of drift, noise, initial mean")
    _require(table.sizes.get("mode", law.n_modes) == law.n_modes, "tables of the reported modes")
    level = table.attrs.get("interval_level") if isinstance(table.attrs, dict) else None
    _require(_is_number(level) and 0 < float(level or 0) < 1, "a level of the intervals")


def _is_finite(values: Any, *shapes: tuple[int, ...]) -> bool:
    return np.shape(values) in shapes and bool(np.isfinite(values).all())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"expected {what}")
