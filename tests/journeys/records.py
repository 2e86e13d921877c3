"""Small records with the structure of data that people bring, simulated from simple statistics."""

import numpy as np
import pandas as pd
import xarray as xr


def smooth_noise(n_times, lat, lon, seed, memory=0.8, scale=6.0):
    """An autoregressive field over points (T, ...), correlated over ``scale`` degrees."""
    generator = np.random.default_rng(seed)
    y, x = np.ravel(lat), np.ravel(lon)
    squares = (y[:, None] - y) ** 2 + (x[:, None] - x) ** 2
    root = np.linalg.cholesky(np.exp(-0.5 * squares / scale**2) + 1e-6 * np.eye(y.size))
    shocks = generator.standard_normal((n_times, y.size)) @ root.T
    states = np.empty_like(shocks)
    states[0] = shocks[0]
    for t in range(1, n_times):
        states[t] = memory * states[t - 1] + np.sqrt(1 - memory**2) * shocks[t]
    return states.reshape(n_times, *np.shape(lat))


def tilted_grid(n_rows=6, n_columns=8):
    """Latitudes and longitudes of a curvilinear ocean grid."""
    j, i = np.meshgrid(np.arange(n_rows), np.arange(n_columns), indexing="ij")
    return -10.0 + 4.0 * j + 0.4 * i, 180.0 + 5.0 * i - 0.7 * j


def hindcast(n_starts=30, n_leads=8, members=None, seed=0):
    """Yearly forecasts of sea-surface temperature and what was observed, on a tilted grid.

    Forecasts start near the observed state and drift: their climatology depends on the lead. A
    corner of the grid is land.
    """
    generator = np.random.default_rng(seed)
    lat, lon = tilted_grid()
    n_years = n_starts + n_leads
    truth = smooth_noise(n_years, lat, lon, seed)
    shape = (n_starts, n_leads, *lat.shape) if members is None else (
        n_starts, members, n_leads, *lat.shape)  # fmt: skip
    values = np.empty(shape)
    for s in range(n_starts):
        for m in range(members or 1):
            chance = smooth_noise(n_leads, lat, lon, 1000 + 100 * s + m)
            decay = 0.8 ** np.arange(1, n_leads + 1)[:, None, None]
            run = decay * truth[s] + np.sqrt(1 - decay**2) * chance
            run = run + 0.3 * np.arange(n_leads)[:, None, None]
            values[(s,) if members is None else (s, m)] = run
    values = 20.0 + values + 0.05 * generator.standard_normal(shape)
    land = (lat < -5) & (lon < 190)
    dims = ("init", "lead", "nlat", "nlon") if members is None else (
        "init", "member", "lead", "nlat", "nlon")  # fmt: skip
    places = {
        "TLAT": (("nlat", "nlon"), lat, {"units": "degrees_north", "long_name": "latitude"}),
        "TLONG": (("nlat", "nlon"), lon, {"units": "degrees_east", "long_name": "longitude"}),
    }
    attrs = {"units": "degC", "long_name": "sea surface temperature"}
    forecasts = xr.Dataset(
        {"SST": (dims, np.where(land, np.nan, values).astype("float32"), attrs)},
        coords={
            **places,
            "init": ("init", 1960 + np.arange(n_starts)),
            "lead": ("lead", np.arange(1, n_leads + 1), {"units": "years"}),
        },
    )
    observed = 20.0 + np.where(land, np.nan, truth)
    observations = xr.Dataset(
        {"SST": (("time", "nlat", "nlon"), observed.astype("float32"), attrs)},
        coords={**places, "time": ("time", 1960 + np.arange(n_years), {"units": "years"})},
    )
    return forecasts, observations


def hourly_land(n_days=20, seed=0):
    """Hourly temperature over land; more than half of the grid cells are sea and missing."""
    lat, lon = np.arange(50.0, 57.0), np.arange(-8.0, 2.0)
    grid = np.meshgrid(lat, lon, indexing="ij")
    times = pd.date_range("2020-07-01", periods=24 * n_days, freq="h")
    hour = np.arange(len(times))[:, None, None]
    daily = 4.0 * np.cos(2 * np.pi * (hour - 14) / 24)
    field = 288.0 + daily + smooth_noise(len(times), *grid, seed, memory=0.97, scale=2.5)
    field += 0.1 * np.random.default_rng(seed).standard_normal(field.shape)
    sea = np.random.default_rng(3).random(grid[0].shape) < 0.55
    return xr.Dataset(
        {"t2m": (("time", "latitude", "longitude"), np.where(sea, np.nan, field),
                 {"units": "K", "long_name": "2 metre temperature"})},
        coords={
            "time": times,
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
        },
    )  # fmt: skip


def stations(n_stations=16, n_days=420, seed=0, gaps=0.1):
    """Daily rows of stations: id, lon, lat, date, tmax; missing days have no row."""
    generator = np.random.default_rng(seed)
    lat, lon = generator.uniform(38, 44, n_stations), generator.uniform(-96, -88, n_stations)
    dates = pd.date_range("1990-01-01", periods=n_days)
    season = 12.0 * np.sin(2 * np.pi * (np.arange(n_days) - 105) / 365.25)
    values = 15.0 - (lat - 41.0) + season[:, None]
    values = values + 4.0 * smooth_noise(n_days, lat, lon, seed, memory=0.6, scale=4.0)
    values += 0.5 * generator.standard_normal(values.shape)
    rows = pd.DataFrame(
        {
            "date": np.repeat(dates.strftime("%Y-%m-%d"), n_stations),
            "id": np.tile([f"S{i:02d}" for i in range(n_stations)], n_days),
            "lon": np.tile(lon.round(3), n_days),
            "lat": np.tile(lat.round(3), n_days),
            "tmax": values.round(2).ravel(),
        }
    )
    return rows[generator.random(len(rows)) >= gaps].reset_index(drop=True)


def monthly_map(calendar="standard", n_years=20, seed=0):
    """Monthly temperature of a map with a season, in a calendar."""
    lat, lon = np.arange(-12.0, 13.0, 4.0), np.arange(150.0, 190.0, 5.0)
    grid = np.meshgrid(lat, lon, indexing="ij")
    n = 12 * n_years
    times = xr.date_range("1980-01-15", periods=n, freq="MS", calendar=calendar, use_cftime=True)
    season = 3.0 * np.cos(2 * np.pi * np.arange(n) / 12)[:, None, None]
    field = 26.0 + season + smooth_noise(n, *grid, seed, memory=0.85, scale=8.0)
    return xr.Dataset(
        {"tos": (("time", "lat", "lon"), field, {"units": "degC"})},
        coords={"time": times, "lat": lat, "lon": lon},
    )


def curvilinear_months(n_months=180, seed=0):
    """Monthly temperature on a tilted grid whose latitudes and longitudes are tables."""
    lat, lon = tilted_grid()
    season = 3.0 * np.cos(2 * np.pi * np.arange(n_months) / 12)[:, None, None]
    field = 26.0 + season + smooth_noise(n_months, lat, lon, seed, memory=0.85)
    return xr.Dataset(
        {"thetao": (("time", "j", "i"), field, {"units": "degC"})},
        coords={
            "time": pd.date_range("1980-01-01", periods=n_months, freq="MS"),
            "latitude": (("j", "i"), lat, {"units": "degrees_north"}),
            "longitude": (("j", "i"), lon, {"units": "degrees_east"}),
        },
    )
