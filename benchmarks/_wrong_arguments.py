"""Calls of public names with one wrong argument: what is refused, accepted, or breaks a library.

`CALLS` has a valid call for each name; `wrong_calls` replaces one argument at a time by a value
that is of another type, out of range, or malformed.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import spdelaw as sl

TIMES, GRID = np.linspace(0.0, 1.0, 6), np.linspace(0.0, np.pi, 7)
QUICK = {"mean": "zero", "nuisance": 0, "initial": "deterministic", "observation_noise": "none",
         "residual": "white"}  # fmt: skip


class Odd:
    """An object that no function knows."""


#: Values that are wrong for most arguments; each is made anew.
WRONG: tuple[Callable[[], Any], ...] = tuple(
    functools.partial(lambda v: v, value)
    for value in (
        None, True, -1, 0, 1.5, -0.5, 10**30, float("nan"), float("inf"), 1e30, 1e200, 2 + 3j,
        "", "word", "a\0b", b"bytes", (), [], {}, [1, "a"], ["word"], [None], {"word": 1}, {1: 2},
        set(), range(0), object(), Odd, len, lambda: 1, datetime(2000, 1, 1), Path("no/such/file"),
        np.array([]), np.array(np.nan), np.full((2, 2), np.nan), np.zeros((2, 3, 4, 5)),
        np.array(["a", "b"]), np.array([1, None], dtype=object), np.array([2.0, 1.0]),
        xr.DataArray(0.0), xr.DataArray(["a"], dims="word"), xr.Dataset(), pd.DataFrame(),
        np.datetime64("2000-01-01"), np.int8(-3), np.float32("nan"),
    )
)  # fmt: skip


class Call(NamedTuple):
    """A function with arguments that it takes."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def make_calls(folder: Path) -> list[Call]:
    """A valid call of every public name."""
    heat = sl.catalogue.heat(n_modes=2)
    data = sl.simulate(heat, 6, TIMES, GRID, seed=0)
    law = sl.fit(data, heat.domain, 2, **QUICK)
    law.save(folder / "a.law", overwrite=True)
    sl.write(data, folder / "a.nc")
    reaction = sl.catalogue.allen_cahn(n_modes=3)
    rows = pd.DataFrame({"t": [0, 0, 1, 1], "v": [1.0, 2.0, 3.0, 4.0], "x": [0.1, 0.9] * 2})
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    table: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("Interval", sl.Interval, {"a": 0.0, "b": 1.0, "boundary": "dirichlet"}),
        ("Disk", sl.Disk, {"radius": 1.0, "centre": (0.0, 0.0), "boundary": "neumann"}),
        ("Sphere", sl.Sphere, {"radius": 1.0}),
        ("Line", sl.Line, {"extent": 3.0}),
        ("Plane", sl.Plane, {"extent": 3.0}),
        ("Fields", sl.Fields, {"domain": heat.domain, "names": ("u", "v")}),
        ("Graph", sl.Graph, {"adjacency": np.ones((4, 4)), "n_modes": 2, "positions": None}),
        ("Mesh", sl.Mesh, {"nodes": square, "triangles": np.array([[0, 1, 2], [0, 2, 3]]),
                           "n_modes": 2, "boundary": "neumann", "diffusion": 1.0,
                           "potential": 0.0}),
        ("Empirical", sl.Empirical, {"fields": data, "n_modes": 2, "weights": None, "dims": None,
                                     "seed": 0}),
        ("White", sl.White, {"scale": 1.0}),
        ("PowerLaw", sl.PowerLaw, {"exponent": 2.0, "scale": 1.0}),
        ("Matern", sl.Matern, {"length": 1.0, "smoothness": 1.5, "scale": 1.0}),
        ("OperatorFormula", sl.OperatorFormula, {"kappa": 0.0, "nu": 1.0, "s": 1.0}),
        ("Gaussian", sl.Gaussian, {"mean": 0.0, "variance": 1.0}),
        ("Normal", sl.Normal, {"mean": 0.0, "std": 1.0}),
        ("LogNormal", sl.LogNormal, {"median": 1.0, "sigma": 1.0}),
        ("LowRank", sl.LowRank, {"rank": 1}),
        ("Season", sl.Season, {"period": 1.0, "weights": 2, "origin": 0.0}),
        ("Forcing", sl.Forcing, {"times": [0.0, 1.0], "coefficients": [[1.0], [2.0]]}),
        ("SpectralSPDE", sl.SpectralSPDE, {"domain": heat.domain, "n_modes": 2, "drift": [1.0, 2.0],
         "noise": [1.0, 1.0], "initial": 0.0, "times": TIMES, "n_points": 9, "initial_time": 0.0,
         "label": "", "forcing": None, "season": None, "centre": None}),
        ("Semilinear", sl.Semilinear, {"linear": reaction.linear, "terms": {"u": 1.0}}),
        ("Model", sl.Model, {"drift": "diagonal", "noise": "diagonal", "noise_rank": 1,
         "initial": "auto", "observation_noise": "auto", "nuisance": 0, "fixed": None,
         "priors": None, "forcing": None, "season": None, "mean": "auto", "residual": "auto"}),
        ("Preparation", sl.Preparation, {"variable": None, "select": {}, "average": (),
         "rename": {}, "coarsen": {}, "anomalies": None, "detrend": False, "standardise": None,
         "time_unit": None, "area_weights": False, "missing": ()}),
        ("Exact", sl.Exact, {"threads": 1, "profile": True}),
        ("Chaos", sl.Chaos, {"n_time": 4, "order": 1, "tail": "modelled", "threads": 1}),
        ("Amortized", sl.Amortized, {"config": None, "validation": None, "checkpoint": None,
                                     "tensorboard": None, "threads": 1, "epochs": 2}),
        ("Learner", sl.Learner, {"domain": heat.domain, "n_modes": 2, "level": 0.9}),
        ("as_fields", sl.as_fields, {"data": np.ones((2, 2, 3)), "times": [0, 1],
         "points": [0, 1, 2], "variable": None, "dims": ("x",), "time_unit": None}),
        ("stack", sl.stack, {"paths": [data[0], data[1]], "dims": ("x",), "time_unit": None}),
        ("describe", sl.describe, {"fields": data}),
        ("split", sl.split, {"fields": data, "fractions": (0.5, 0.5), "seed": 0, "along": "path"}),
        ("mask", sl.mask, {"fields": data, "pattern": "random", "fraction": 0.3, "seed": 0}),
        ("read", sl.read, {"path": folder / "a.nc", "variable": None, "dims": ("x",),
         "time_unit": None, "lazy": False, "verify": True, "check": True}),
        ("write", sl.write, {"fields": data, "path": folder / "b.nc", "overwrite": True}),
        ("from_table", sl.from_table, {"table": rows, "time": "t", "value": "v", "x": "x"}),
        ("load", sl.load, {"path": folder / "a.law"}),
        ("simulate", sl.simulate, {"equation": heat, "n_paths": 2, "times": TIMES, "grid": GRID,
         "seed": 0, "scheme": "exact", "observation_std": 0.1, "return_noise": False,
         "out": None, "chunks": None, "progress": None}),
        ("fit", sl.fit, {"data": data, "domain": heat.domain, "n_modes": 2, "model": None,
         "engine": "exact", "prepare": None, "level": 0.9, "bootstrap": 0, "seed": 0,
         "executor": None, "progress": None, **QUICK}),
        ("update", sl.update, {"law": law, "data": data, "fixed": None, "priors": None}),
        ("fit_many", sl.fit_many, {"data": {"a": data}, "domain": heat.domain, "n_modes": 2,
         "over": None, "directory": None, "batch": 2, "executor": None, "progress": None, **QUICK}),
        ("evaluate", sl.evaluate, {"law": law, "data": data, "truth": None, "tiers": ("predict",),
         "max_paths": 3, "seed": 0, "level": 0.9}),
        ("compare", lambda one, two, **w: sl.compare(one, two, **w), {"one": law, "two": law,
         "data": None, "names": ("a", "b"), "tiers": ("predict",), "level": 0.9, "replicates": 9,
         "seed": 0}),
        ("leave_future_out", sl.leave_future_out, {"data": data[:1], "domain": heat.domain,
         "n_modes": 1, "prepare": None, "first": 4, "leads": 1, "refit": 2, "level": 0.9,
         "replicates": 9, "seed": 0}),
        ("law.sample", law.sample, {"n_paths": 2, "times": TIMES, "grid": GRID, "seed": 0,
                                    "observation_noise": False, "chunks": None}),
        ("law.log_likelihood", law.log_likelihood, {"data": data}),
        ("law.reconstruct", law.reconstruct, {"data": data, "grid": GRID, "parameter_draws": 0,
                                              "seed": 0}),
        ("law.forecast", law.forecast, {"history": data, "times": [1.5], "n_samples": 1, "seed": 0,
                                        "grid": GRID, "parameter_draws": 0}),
        ("law.kl_divergence", law.kl_divergence, {"other": heat, "times": TIMES}),
        ("law.optimal_growth", law.optimal_growth, {"times": [0.5]}),
        ("law.power_spectrum", law.power_spectrum, {"frequencies": [0.5]}),
        ("law.predictability", law.predictability, {"times": [0.5]}),
        ("law.save", law.save, {"path": folder / "b.law", "overwrite": True}),
        ("equation.mean", heat.mean, {"times": TIMES, "grid": GRID}),
        ("equation.variance", heat.variance, {"times": TIMES, "grid": GRID}),
        ("equation.covariance", heat.covariance, {"times": TIMES}),
        ("equation.energy_spectrum", heat.energy_spectrum, {"times": TIMES}),
        ("equation.stationary_covariance", heat.stationary_covariance, {"grid": GRID}),
        ("equation.with_modes", heat.with_modes, {"n_modes": 3}),
        ("domain.eigenvalues", heat.domain.eigenvalues, {"n_modes": 3}),
        ("domain.eigenfunctions", heat.domain.eigenfunctions, {"points": GRID, "n_modes": 3}),
        ("domain.grid", heat.domain.grid, {"n_points": 3}),
        ("domain.analyse", heat.domain.analyse, {"fields": data, "n_modes": 2, "method": "auto"}),
        ("domain.synthesise", heat.domain.synthesise, {"coefficients": np.ones((2, 2)),
                                                       "points": GRID}),
        ("domain.project", heat.domain.project, {"function": np.sin, "n_modes": 2}),
        ("catalogue.heat", sl.catalogue.heat, {"n_modes": 2, "noise": sl.White(), "initial": 0.0,
         "boundary": "dirichlet", "kappa": 0.0, "nu": 1.0, "s": 1.0}),
        ("catalogue.damped_heat", sl.catalogue.damped_heat, {"kappa": 1.0, "n_modes": 2}),
        ("catalogue.allen_cahn", sl.catalogue.allen_cahn, {"n_modes": 3, "nu": 0.1, "a": 1.0,
         "b": 1.0, "noise": sl.White(), "domain": heat.domain}),
        ("catalogue.fields_on", sl.catalogue.heat_on, {"domain": heat.domain, "n_modes": 2,
         "kappa": 1.0, "nu": 1.0, "s": 1.0, "noise": sl.White(), "initial": "stationary"}),
        ("datasets.about", sl.datasets.about, {"name": "pacific-sst"}),
    ]  # fmt: skip
    return [Call(*row) for row in table]


def wrong_calls(calls: list[Call], rng: random.Random) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Endlessly: a call with one argument replaced, with its text."""
    while True:
        call = rng.choice(calls)
        argument = rng.choice(list(call.arguments))
        value = rng.choice(WRONG)()
        text = f"{call.name}({argument}={str(value)[:40]!r})"
        yield text, functools.partial(call.function, **call.arguments | {argument: value})


def all_wrong_calls(calls: list[Call]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every argument of every call with every wrong value."""
    for call in calls:
        for argument in call.arguments:
            for make in WRONG:
                value = make()
                text = f"{call.name}({argument}={str(value)[:40]!r})"
                yield text, functools.partial(call.function, **call.arguments | {argument: value})
