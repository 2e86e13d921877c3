"""Small fields to test with."""

from __future__ import annotations

import numpy as np
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import spdelaw as sl
from spdelaw.data.fields import as_fields

TIMES = np.array([0.0, 0.1, 0.25, 0.7, 1.5])
POINTS = np.array([-1.0, 0.0, 0.5, 2.0])
MONTHS = np.arange("2001-01", "2006-01", dtype="datetime64[M]").astype("datetime64[ns]")


def values(paths: int = 3, seed: int = 0) -> np.ndarray:
    """Values (path, time, x) without any symmetry that could hide a mistake."""
    return np.random.default_rng(seed).gamma(2.0, size=(paths, len(TIMES), len(POINTS)))


def fields(paths: int = 3, seed: int = 0) -> xr.DataArray:
    return as_fields(values(paths, seed), times=TIMES, points=POINTS)


def with_path_times(paths: int = 3, seed: int = 0) -> xr.DataArray:
    """Ragged paths: path i has lost its last i times."""
    data = values(paths, seed)
    times = np.cumsum(np.random.default_rng(seed).random(data.shape[:2]) + 0.1, axis=1)
    for path in range(1, paths):
        data[path, -path:], times[path, -path:] = np.nan, np.nan
    return as_fields(data, times=times, points=POINTS)


def globe(seed: int = 0, land: bool = True, n_paths: int | None = None) -> xr.DataArray:
    """Temperature in kelvin over (time, latitude, longitude): season, trend and a law."""
    sphere = sl.Sphere()
    days = (MONTHS - MONTHS[0]) / np.timedelta64(1, "D")
    equation = sl.SpectralSPDE(sphere, 4, np.array([0.01, 0.02, 0.02, 0.02]),
                               noise=np.full(4, 0.05), initial="stationary")  # fmt: skip
    made = sl.simulate(equation, n_paths or 1, days, sphere.grid(6), seed=seed, observation_std=0.3)
    month = MONTHS.astype("datetime64[M]").astype(int) % 12
    season = xr.DataArray(np.cos(2 * np.pi * month / 12), dims="time")
    field = 280.0 + made.drop_attrs() + season * made.lat / 20.0 + 0.01 * made.time / 30.0
    if land:
        field = field.where((field.lat < 0) | (field.lon > 100))
    field = field.transpose("path", "time", "lat", "lon").assign_coords(time=MONTHS)
    field = field.rename(lat="latitude", lon="longitude").rename("t2m")
    return field.isel(path=0, drop=True) if n_paths is None else field


def same_bits(one: xr.DataArray, other: xr.DataArray) -> bool:
    return one.shape == other.shape and one.values.tobytes() == other.values.tobytes()


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def any_fields(draw: st.DrawFn) -> xr.DataArray:
    """Fields with arbitrary sizes, gaps, coordinates and attributes."""
    shape = draw(st.tuples(*[st.integers(1, 4)] * 3))
    data = draw(hnp.arrays(float, shape, elements=st.one_of(FINITE, st.just(np.nan))))
    data[0, 0, 0] = draw(FINITE)
    times, points = (draw(_increasing(n)) for n in shape[1:])
    result = as_fields(data, times=times, points=points)
    result.attrs = draw(st.dictionaries(st.text(max_size=8), attribute_values, max_size=4))
    kind = draw(st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.text("abλ ", max_size=5)]))
    labels = st.lists(kind, min_size=shape[0], max_size=shape[0], unique=True)
    return result.assign_coords(path=draw(labels))


def _increasing(n: int) -> st.SearchStrategy[list[float]]:
    return st.lists(FINITE, min_size=n, max_size=n, unique=True).map(sorted)


attribute_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
