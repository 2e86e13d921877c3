"""Data with one oddity each: times, places, values, names and attributes that no program expects.

`ODDITIES` makes them in memory, `make_files` on disk; `make_verbs` has what takes data.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import cftime
import h5py
import numpy as np
import pandas as pd
import xarray as xr

import spdelaw as sl

GRID, STEPS = np.linspace(0.0, np.pi, 7), 0.1 * np.arange(24.0)
INTERVAL = sl.Interval(0, np.pi)
EQUATION = sl.catalogue.heat_on(INTERVAL, n_modes=2)
VALUES = sl.simulate(EQUATION, 1, STEPS, GRID, seed=1, observation_std=0.05).values[0]
RECORD = xr.DataArray(VALUES, {"time": STEPS, "x": GRID}, ("time", "x"), "u")
DATES = pd.date_range("2000-01-01", periods=24, freq="MS")
QUICK = {"mean": "zero", "nuisance": 0, "initial": "stationary", "residual": "white",
         "observation_noise": "estimate"}  # fmt: skip


def _dates(calendar: type, n: int = 24) -> list[Any]:
    return [calendar(2000 + i // 12, 1 + i % 12, 2) for i in range(n)]


#: Times in place of those of the record, with attributes.
ODD_TIMES: tuple[tuple[Any, dict[str, Any]], ...] = (
    (np.where(np.arange(24) == 3, np.datetime64("NaT"), DATES.values), {}),
    (np.full(24, np.datetime64("NaT"), "M8[ns]"), {}),
    (np.where(np.arange(24) == 3, np.nan, STEPS), {}),
    (np.where(np.arange(24) == 23, np.inf, STEPS), {}),
    (np.array([f"t{i}" for i in range(24)]), {}),
    (np.array([str(day.date()) for day in DATES]), {}),
    (np.array([None, *range(23)], dtype=object), {}),
    (np.array(_dates(cftime.Datetime360Day), dtype=object), {}),
    (np.array(_dates(cftime.Datetime360Day, 1) + _dates(cftime.DatetimeNoLeap, 23)), {}),
    (np.array([*_dates(cftime.DatetimeNoLeap, 23), None], dtype=object), {}),
    (np.array([np.nan, *_dates(cftime.DatetimeNoLeap, 23)], dtype=object), {}),
    (np.arange(24) % 2 == 0, {}), (STEPS + 1j, {}), (STEPS[::-1].copy(), {}),
    (np.repeat(STEPS[:12], 2), {}), (STEPS * 1e300, {}), (STEPS * 1e-320, {}),
    (np.arange(24) * 2**57, {}), (np.arange(24, dtype=np.uint64) + np.uint64(2**63), {}),
    ((STEPS * 1e12).astype("m8[ns]"), {}), (DATES.values, {"units": 7, "calendar": []}),
    (np.datetime64("9999-01-01", "D") + np.arange(24), {}),
    (np.datetime64("-20000-01-01", "D") + np.arange(24), {}),
    (STEPS, {"units": "days since 2000-01-01", "calendar": "klingon"}),
    (STEPS, {"units": "days since 2000-01-01", "calendar": 5}),
    *((STEPS, {"units": unit}) for unit in (
        "parsecs since 2000-01-01", "days since", "months since 2000-01-01", " since ", 5, ("a",),
        "days since 99999-01-01", "days since 2000-13-45", "days\0since", b"days since 2000", None,
        "days since 2000-01-01T00:00:00+99:00", "\u202edays since 2000-01-01", "x" * 100_000)),
)  # fmt: skip
ODD_PLACES: tuple[Any, ...] = (
    np.array(list("abcdefg")), np.where(np.arange(7) == 2, np.nan, GRID), GRID - np.inf,
    np.zeros(7), GRID[::-1].copy(), DATES.values[:7], np.arange(7) > 3, GRID + 1j, GRID * 1e307,
    np.array([None] * 7, dtype=object),
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    VALUES * np.nan, VALUES + np.inf, np.where(np.arange(7) == 2, np.inf, VALUES), VALUES > 0,
    (VALUES * 10).astype(np.int8), np.full((24, 7), 2**64 - 1, np.uint64), VALUES.astype(object),
    np.where(np.arange(7) == 2, None, VALUES), VALUES.astype(str), VALUES.astype("S8"),
    VALUES + 1j, np.tile(DATES.values[:, None], (1, 7)), VALUES * 0, VALUES * 0 + 3, VALUES * 1e308,
    VALUES * 1e200, VALUES * 1e-320, VALUES * 1e-200, VALUES.astype(np.float16),
    VALUES.astype(np.longdouble), np.full((24, 7), 10**400, dtype=object),
    np.where(np.arange(168).reshape(24, 7) == 5, VALUES, np.nan),
    np.where(np.arange(24)[:, None] == 5, VALUES, np.nan),
    np.where(np.arange(24)[:, None] == 23, np.nan, VALUES),
)  # fmt: skip
ODD_NAMES = (5, ("a", 1), "u" * 5000, "a/b", "a\0b", "u\x1b[31m\u202e\n<b>$x^$", "", " ")
ODD_ATTRIBUTES: tuple[dict[str, Any], ...] = (
    {"a": object(), "b": {1: 2}, "units": ["K"], "long_name": 3},
    {"units": "K" * 10_000 + "\x1b"},
    {"columns": "time=,value"},
    {"_FillValue": "x", "missing_value": [1, 2], "scale_factor": "a"},
)
TABLE = {"time": np.repeat(STEPS, 7), "x": np.tile(GRID, 24), "value": VALUES.ravel()}
#: Columns in place of those of a table.
ODD_COLUMNS: tuple[dict[str, Any], ...] = (
    {"value": VALUES.ravel() + 1j},
    {"value": [Decimal("1.5")] * 168},
    {"value": [10**400] * 168},
    {"value": [f"v{i}" for i in range(168)]},
    {"value": [[1]] * 168},
    {"value": [True, False] * 84},
    {"value": pd.array([1, None] * 84, dtype="Int64")},
    {"time": [None] * 168},
    {"time": np.repeat(pd.date_range("2000", periods=24, tz="UTC"), 7)},
    {"time": [[1]] * 168},
    {"time": np.repeat(pd.period_range("2000", periods=24, freq="M"), 7)},
    {"time": [1, "2000-01-01"] * 84},
    {"time": ["99999-01-01"] * 168},
    {"time": ["banana"] * 168},
    {"time": np.repeat(np.arange(24) * 10**17, 7)},
    {"x": np.inf},
    {"x": None},
    {"lat": -95.0},
    {"x": pd.Categorical(np.tile(list("abcdefg"), 24))},
    {"station": "a\x1b[2J\n\0"},
)
ODD_HEADERS: tuple[list[Any], ...] = (
    [0, 1, 2],
    ["time", None, "value"],
    ["time", "x", "x"],
    [("a", "t"), ("a", "x"), ("b", "v")],
    ["time", "x\x1b", "value"],
    ["", " ", "value"],
)


def _with(**coords: Any) -> Callable[[], xr.DataArray]:
    return lambda: RECORD.assign_coords(coords)


def _frame(columns: dict[str, Any]) -> Callable[[], pd.DataFrame]:
    return lambda: pd.DataFrame(TABLE | columns)


def _renamed(names: list[Any]) -> Callable[[], pd.DataFrame]:
    return lambda: pd.DataFrame(TABLE).set_axis(names, axis=1)


def _of_two_paths(times: Any) -> Callable[[], xr.DataArray]:
    both = RECORD.expand_dims(path=2)
    return lambda: both.assign_coords(path_time=(("path", "time"), np.tile(times, (2, 1))))


ODDITIES: tuple[Callable[[], Any], ...] = (
    *(_with(time=("time", *row)) for row in ODD_TIMES),
    *(_with(x=("x", places)) for places in ODD_PLACES),
    *((lambda v=values: RECORD.copy(data=v)) for values in ODD_VALUES),
    *((lambda n=name: RECORD.rename(n)) for name in ODD_NAMES),
    *((lambda a=attrs: RECORD.assign_attrs(a)) for attrs in ODD_ATTRIBUTES),
    *map(_frame, ODD_COLUMNS), *map(_renamed, ODD_HEADERS),
    *map(_of_two_paths, (np.full(24, np.nan), STEPS[::-1], np.full(24, "a"), STEPS)),
    lambda: RECORD[:0], lambda: RECORD[:, :0], lambda: RECORD[:1], lambda: RECORD[:2],
    lambda: RECORD[:, :1], lambda: RECORD.drop_vars(["time", "x"]), lambda: xr.DataArray(1.0),
    lambda: RECORD.drop_vars("time"), xr.Dataset, pd.DataFrame, lambda: np.ma.masked_all((24, 7)),
    lambda: xr.Dataset({"a": RECORD, "b": RECORD}), lambda: xr.Dataset({"a\x1b[2J\nb": RECORD}),
    lambda: xr.DataArray(VALUES, dims=("time", 5)), lambda: RECORD.rename(x="x\x1b[2J"),
    lambda: RECORD.expand_dims(member=3), lambda: RECORD.stack(z=("time", "x")),
    lambda: RECORD.rename(x="point").assign_coords(lat=("point", 99 * GRID), lon=("point", GRID)),
    lambda: RECORD.expand_dims(path=1)[:0], lambda: RECORD.expand_dims(path=["a\x1b"]),
    lambda: RECORD.chunk(), lambda: pd.DataFrame(TABLE).set_index(["time", "x"]),
    lambda: pd.concat([pd.DataFrame(TABLE)] * 2),
)  # fmt: skip


def make_files(folder: Path) -> list[Path]:
    """Files that are broken, of another kind, or no regular files at all."""
    rows = {"empty": "", "header": "time,x,value\n", "short": "time,x,value\n1,2\n",
            "ragged": "time,x,value\n1,2,3\n1,2,3,4,5\n", "quote": 'time,x,value\n1,2,"3\n',
            "text": "time,x,value\na,b,c\n", "infinite": "time,x,value\n0,0,inf\n1,1,1\n",
            "digits": f"time,x,value\n0,0,{'9' * 5000}\n1,1,1\n", "nothing": "\0" * 1000,
            "dates": "time,x,value\n2000-01-01,0,1\n01/02/2000,0,1\nyesterday,0,2\n",
            "twice": "time,time,x,value\n0,0,0,1\n", "huge": "time,x,value\n1e300,0,1\n1e308,0,2\n",
            "control": "time,x,value,a\x1b[2J\n0,0,1,a\n1,0,2,a\n"}  # fmt: skip
    for name, text in rows.items():
        (folder / f"{name}.csv").write_text(text)
        (folder / f"{name}.parquet").write_text(text)
        (folder / f"{name}.nc").write_text(text)
    for name in ("odd.nc", "odd.zarr", "odd.law"):
        (folder / name).mkdir()
    for name in ("pipe.nc", "pipe.csv", "pipe.law"):
        os.mkfifo(folder / name)
    for name, target in (("loop.nc", "loop.nc"), ("nowhere.csv", "none"), ("zero.csv", "/dev/zero"),
                         ("null.nc", "/dev/null")):  # fmt: skip
        (folder / name).symlink_to(target)
    shutil.copytree(folder / "good.law", folder / "linked.law")
    (folder / "linked.law/law.json").unlink()
    (folder / "linked.law/law.json").symlink_to("/etc/passwd")
    contents: dict[str, dict[str, Any]] = {
        "scalar": {"data": 1.0}, "words": {"data": ["a", "b"]},
        "complex": {"data": np.ones(3) * 1j},
        "compound": {"data": np.zeros(3, [("a", "f8"), ("b", "i4")])},
        "none": {"shape": (0, 5), "dtype": "f8"},
        "lengths": {"shape": (3,), "dtype": h5py.vlen_dtype("f8")},
        "references": {"shape": (2,), "dtype": h5py.ref_dtype},
        "declared": {"shape": (10**7, 10**6), "chunks": (1, 10**6), "dtype": "f8"},
    }  # fmt: skip
    for name, content in contents.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file.create_dataset("u", **content)
    made = [*rows, "odd", "pipe", "loop", "nowhere", "zero", "null", "linked", *contents]
    return [path for path in sorted(folder.iterdir()) if path.name.split(".")[0] in made]


def make_verbs(folder: Path) -> list[Callable[[Any], Any]]:
    """What takes data, or the path of a file."""
    law = sl.fit(RECORD, INTERVAL, 2, **QUICK)
    dated = sl.fit(RECORD.assign_coords(time=DATES), INTERVAL, 2, **QUICK)
    issued = law.forecast(RECORD, steps=3)
    prepare = sl.Preparation(anomalies="month", detrend=True, standardise="point")
    return [
        lambda data: sl.fit(data, INTERVAL, 2, **QUICK),
        lambda data: sl.fit(data, n_modes=2, **QUICK),
        lambda data: sl.fit(data, "eof", 2, **QUICK),
        lambda data: sl.fit(data, INTERVAL, 2, prepare=prepare, **QUICK),
        lambda data: law.forecast(data, steps=2), lambda data: dated.forecast(data, steps=2),
        lambda data: law.forecast(RECORD, data), lambda data: law.sample(1, grid=data),
        law.reconstruct, law.log_likelihood, law.plot.field, sl.to_table, sl.as_fields, sl.describe,
        lambda data: sl.evaluate(law, data, tiers=("predict",)),
        lambda data: sl.verify(data, RECORD, replicates=3),
        lambda data: sl.verify(issued, data, replicates=3),
        lambda data: sl.from_table(data, time="time", value="value", x="x"),
        lambda data: sl.split(data, along="time"), lambda data: sl.stack([data, data]), sl.mask,
        lambda data: sl.read(data), sl.load, lambda data: sl.Empirical(data, 2),
        lambda data: sl.read(sl.write(data, folder / "new.nc")),
        lambda data: sl.write(data, folder / "new.zarr"),
        lambda data: sl.write(data, folder / "new.csv"),
        lambda data: sl.skill(data, INTERVAL, 2, leads=(1,), refits=1, most_origins=3,
                              replicates=3, residual="white"),
        lambda data: sl.fill(data, INTERVAL, 2, seconds=2.0, drift="diagonal", basis="domain",
                             residual="white"),
    ]  # fmt: skip
