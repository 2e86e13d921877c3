"""Records with values hidden as they go missing in life: clouds, outages, whole stations."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import ndimage

import spdelaw as sl

Array = np.ndarray

#: Pacific region of the maps, and every how many points of it are taken.
LAT, LON, EVERY = (20.0, -20.0), (120.0, 290.0), 2
#: Length in months, rows and columns over which clouds hang together.
CLOUD = (1.0, 1.5, 2.0)
DAYS, OUTAGE, STATIONS = 731, 20, 14


class Case(NamedTuple):
    """A record with gaps, the hidden values, and where the points are.

    Attributes:
        name: of the case.
        data: raw, with names and dates, as it is handed to `spdelaw.fill`.
        values: the same flat, (T, M).
        truth: hidden values, NaN elsewhere; (T, M).
        points: (M, 2), longitude and latitude.
        days: times, (T,).
        domain: a box in degrees.
        everywhere: whether whole points are hidden.
    """

    name: str
    data: xr.DataArray
    values: Array
    truth: Array
    points: Array
    days: Array
    domain: sl.Box
    everywhere: bool


def cases(folder: Path) -> Iterator[Case]:
    """Six records: three shares of clouds over maps, three kinds of gaps at stations."""
    maps = _maps(folder)
    for share in (0.2, 0.5, 0.8):
        yield _map_case(maps, share)
    stations = _stations(folder)
    for kind in ("random", "outages", "unseen stations"):
        yield _station_case(stations, kind)


def _maps(folder: Path) -> xr.DataArray:
    with xr.open_dataset(folder / "ersstv5-2010-2020.nc") as opened:
        cut = opened["sst"].sel(lat=slice(*LAT), lon=slice(*LON)).load()
    return cut.isel(lat=slice(None, None, EVERY), lon=slice(None, None, EVERY))


def _map_case(maps: xr.DataArray, share: float) -> Case:
    rng = np.random.default_rng(round(100 * share))
    n, rows, columns = maps.shape
    noise = ndimage.gaussian_filter(rng.standard_normal((n, rows + 12, columns + 12)), CLOUD)
    thick = noise[:, 6:-6, 6:-6]
    hidden = thick > np.quantile(thick, 1 - share)
    gappy = maps.where(~hidden)
    lat, lon = np.meshgrid(maps["lat"].values, maps["lon"].values, indexing="ij")
    points = np.column_stack([lon.ravel(), lat.ravel()]).astype(float)
    sea = np.isfinite(maps.values).any(0).ravel()
    truth = np.where(hidden, maps.values, np.nan).reshape(n, -1)
    days = (maps["time"].values - maps["time"].values[0]) / np.timedelta64(1, "D")
    values = gappy.values.reshape(n, -1).astype(float)
    box = _box(points)
    name = f"sea-surface temperature, {share:.0%} clouds"
    return Case(
        name, gappy, values[:, sea], truth[:, sea].astype(float), points[sea], days, box, False
    )


def _stations(folder: Path) -> xr.DataArray:
    import pandas as pd

    with gzip.open(folder / "noaa-tmax-1990-1993.csv.gz", "rt") as file:
        table = pd.read_csv(file)
    wide = table.pivot(index="date", columns="station", values="tmax").iloc[:DAYS]
    where = table.groupby("station")[["lon", "lat"]].first().loc[wide.columns]
    return xr.DataArray(
        wide.to_numpy(float), dims=("time", "point"), name="tmax", attrs={"units": "degC"},
        coords={"time": wide.index.to_numpy().astype("datetime64[ns]"),
                "x": ("point", where["lon"].to_numpy(float)),
                "y": ("point", where["lat"].to_numpy(float))},
    )  # fmt: skip


def _station_case(full: xr.DataArray, kind: str) -> Case:
    rng = np.random.default_rng(len(kind))
    seen = np.isfinite(full.values)
    hidden = np.zeros_like(seen)
    if kind == "random":
        hidden = rng.uniform(size=seen.shape) < 0.2
    elif kind == "outages":
        for station in range(seen.shape[1]):
            for start in rng.integers(0, len(seen) - OUTAGE, 7):
                hidden[start : start + OUTAGE, station] = True
    else:
        hidden[:, rng.choice(seen.shape[1], STATIONS, replace=False)] = True
    points = np.column_stack([full["x"].values, full["y"].values])
    gappy = full.where(~hidden)
    days = (full["time"].values - full["time"].values[0]) / np.timedelta64(1, "D")
    truth = np.where(hidden, full.values, np.nan)
    box = _box(points)
    everywhere = kind == "unseen stations"
    return Case(f"stations, {kind}", gappy, gappy.values, truth, points, days, box, everywhere)


def _box(points: Array) -> sl.Box:
    low, high = points.min(0), points.max(0)
    return sl.Box((low[0], high[0]), (low[1], high[1]), boundary="neumann")
