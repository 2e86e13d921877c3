"""Files that a shell user may have: complete, gappy, irregular, raw, tables, and broken ones."""

import os

import numpy as np
import pandas as pd
import xarray as xr
from tests.data.builders import MONTHS
from tests.data.builders import globe as raw_globe

import spdelaw as sl
from spdelaw.data.io.files import write

EQUATION = sl.catalogue.heat(n_modes=3)
TIMES = np.linspace(0.0, 1.0, 21)
GRID = np.linspace(0.0, np.pi, 17)
CALM = sl.catalogue.heat(n_modes=2, initial="stationary")


def complete(n_paths=12, seed=0, times=TIMES):
    return sl.simulate(EQUATION, n_paths, times=times, grid=GRID, seed=seed)


def masked():
    noisy = complete() + 0.05 * np.random.default_rng(0).standard_normal((12, 21, 17))
    return sl.mask(noisy.assign_attrs(complete(1).attrs), "random", 0.3, seed=0)


def irregular():
    """Times of each path's own, all from zero on, of different number."""
    rng = np.random.default_rng(0)
    times = [np.r_[0.0, np.sort(rng.uniform(0.02, 1.0, 12 + i % 3))] for i in range(12)]
    return sl.stack([complete(1, i, t)[0] for i, t in enumerate(times)])


def single():
    return complete(1, times=np.linspace(0.0, 4.0, 201))


KINDS = {"complete": complete, "masked": masked, "irregular": irregular, "single": single}


def square():
    box = sl.Box((0, np.pi), (0, np.pi))
    return sl.simulate(sl.catalogue.square_heat(n_modes=3), 12, TIMES, grid=box.grid(6), seed=0)


def calm():
    return sl.simulate(CALM, 1, 0.2 * np.arange(80), np.linspace(0, np.pi, 9), seed=0)


def raw_map(lat=(-1.0, 0.0, 1.0)):
    """A red field over (time, lat, lon) with a season, in kelvin."""
    lon = np.linspace(150.0, 210.0, 13)
    lam, q = np.array([0.005, 0.01, 0.02]), np.full(3, 2.0)
    equation = sl.SpectralSPDE(sl.Interval(150, 210, "neumann"), 3, lam, noise=q,
                               initial="stationary")  # fmt: skip
    days = (MONTHS - MONTHS[0]) / np.timedelta64(1, "D")
    values = sl.simulate(equation, 1, days, lon, seed=0, observation_std=0.1).values[0]
    month = MONTHS.astype("datetime64[M]").astype(int) % 12
    values = 300 + values + np.cos(2 * np.pi * month / 12)[:, None]
    coords = {"time": MONTHS, "lat": np.array(lat), "lon": lon}
    field = np.repeat(values[:, None], len(lat), 1)
    return xr.DataArray(field, coords, ("time", "lat", "lon"), "sst", {"units": "K"})


def globe():
    """Kelvin with a season and land, dims in another's order and latitudes from the north."""
    field = raw_globe().transpose("longitude", "latitude", "time")
    return field.isel(latitude=slice(None, None, -1))


def sea():
    """A map with land and clouds."""
    lat, lon = np.arange(15.0, -16.0, -5.0), np.arange(160.0, 200.0, 5.0)
    rng, state = np.random.default_rng(0), np.zeros(2)
    values = np.empty((48, 7, 8))
    wave = np.cos(np.pi * (lon - 160) / 35)
    for t in range(48):
        state = 0.8 * state + 0.4 * rng.standard_normal(2)
        values[t] = 300 + state[0] + state[1] * wave + 0.05 * rng.standard_normal((7, 8))
    values[:, 1:3, 2:4] = np.nan
    coords = {"time": MONTHS[:48], "lat": lat, "lon": lon}
    full = xr.DataArray(values, coords, ("time", "lat", "lon"), "sst", {"units": "K"})
    clouds = rng.uniform(size=(48, 1, 8)) < 0.25
    return full, full.where(~np.broadcast_to(clouds, values.shape))


def station_rows(n_times=120, n_stations=9):
    """Long table of a red field with a warm mean, a fifth of its rows gone."""
    rng = np.random.default_rng(3)
    places = rng.uniform([-100, 32], [-80, 46], (n_stations, 2)).round(3)
    box = sl.Box((-100, -80), (32, 46), boundary="neumann")
    equation = sl.SpectralSPDE(box, 3, [0.1, 0.2, 0.3], noise=[90.0, 50.0, 50.0],
                               initial="stationary")  # fmt: skip
    made = sl.simulate(equation, 1, np.arange(n_times), places, seed=0, observation_std=0.3)
    when, which = np.nonzero(rng.random((n_times, n_stations)) > 0.2)
    days = pd.date_range("1990-01-01", periods=n_times)
    return pd.DataFrame({
        "id": which + 7000, "lon": places[which, 0], "lat": places[which, 1],
        "date": days[when].strftime("%Y-%m-%d"), "tmax": made.values[0][when, which] + 20,
    }).sample(frac=1, random_state=0)  # fmt: skip


def sensors():
    coords = {"time": np.arange(6.0), "x": ("point", [0.2, 0.5, 4.0]),
              "y": ("point", [0.3, 0.5, 0.5])}  # fmt: skip
    values = np.random.default_rng(0).standard_normal((4, 6, 3))
    return xr.DataArray(values, coords, ("path", "time", "point"))


def write_files(folder):
    """Everything above under the names that the tests use, and what no command can read."""
    made = {f"{kind}.nc": make() for kind, make in KINDS.items()}
    made |= {"plain.nc": complete().drop_attrs(), "square.nc": square().drop_attrs(),
             "calm.nc": calm(), "sensors.nc": sensors()}  # fmt: skip
    made |= {
        "test.nc": complete(6, seed=9),
        "beyond.nc": complete().drop_attrs().assign_coords(x=GRID + 1),
    }
    neumann = sl.SpectralSPDE(sl.Interval(0, np.pi, "neumann"), 3, noise=sl.White(), initial=1.0)
    made |= {"other.nc": sl.simulate(neumann, 2, seed=0),
             "few_modes.nc": sl.simulate(sl.catalogue.heat(n_modes=2), 3, seed=0)}  # fmt: skip
    fronts = sl.catalogue.allen_cahn(5)
    made["fronts.nc"] = sl.simulate(
        fronts, 8, np.linspace(0, 4, 41), fronts.domain.grid(10), seed=1
    )
    for name, data in made.items():
        write(data, folder / name)
    full, gappy = sea()
    ice = xr.DataArray(np.ones((60, 3, 13)), dims=("time", "lat", "lon"))
    sst = raw_map().to_dataset()
    raw = {"sst.nc": sst, "two.nc": sst.assign(ice=ice), "wide.nc": raw_map((-60, -1, 1, 60)),
           "globe.nc": globe(), "sea.nc": gappy, "seen.nc": full, "missing.nc": complete() * np.nan,
           "dims.nc": complete().rename(x="depth")}  # fmt: skip
    for name, data in raw.items():
        data.to_netcdf(folder / name, engine="h5netcdf")
    whole = (folder / "complete.nc").read_bytes()
    (folder / "truncated.nc").write_bytes(whole[: len(whole) // 2])
    for name, text in {"empty.nc": "", "text.nc": "time,x\n", "a.unknown": "1", "a": "1"}.items():
        (folder / name).write_text(text)
    os.mkfifo(folder / "pipe.json")
    for name in ("folder.nc", "empty.law", "broken.law"):
        (folder / name).mkdir()
    (folder / "broken.law" / "law.json").write_text("{}")
    rows, few = station_rows(), station_rows(20, 4)
    tables = {"stations.csv.gz": rows, "tmin.csv": rows.assign(tmin=0.0), "plain.csv": few,
              "gone.csv": few.assign(tmax=np.nan), "one.csv": few[few.id == 7000],
              "contradict.csv": pd.concat([few, few[:2].assign(tmax=99.0)]),
              "again.csv": pd.concat([few, few[:9], few[:3].assign(tmax=np.nan)]),
              "fill.csv": few.assign(tmax=few.tmax.where(few.id != 7001, -9999))}  # fmt: skip
    for name, table in tables.items():
        table.to_csv(folder / name, index=False)
    few.to_csv(folder / "comma.csv", index=False, sep=";", decimal=",")
    (folder / "empty.csv").write_text("")
    plain = {"nuisance": 0, "observation_noise": "none"}
    for name, n, data in (("a", 3, complete(40)), ("m1", 1, complete()), ("b", 1, complete(6, 9))):
        sl.fit(data, EQUATION.domain, n, **plain).save(folder / f"{name}.law")
    return folder
