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
from spdelaw.checks import shown
from spdelaw.law.prediction import chaos_posterior, sample_chaos

TIMES, GRID = np.linspace(0.0, 1.0, 6), np.linspace(0.0, np.pi, 7)
QUICK = {"mean": "zero", "nuisance": 0, "initial": "deterministic", "observation_noise": "none",
         "residual": "white"}  # fmt: skip


class Odd:
    """An object that no function knows."""


#: Values that are wrong for most arguments; each is made again.
WRONG: tuple[Callable[[], Any], ...] = tuple(
    functools.partial(lambda v: v, value)
    for value in (
        None, True, -1, 0, 1.5, -0.5, 10**30, 10**5000, float("nan"), float("inf"), 1e30,
        1e200, 2 + 3j,
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
    return [*(Call(*row) for row in table), *_calls_of_records(), *_calls_of_terms()]


def _calls_of_records() -> list[Call]:
    """Forecasts, tables, gaps, skill and figures of one record."""
    interval = sl.Interval(0, np.pi)
    heat = sl.catalogue.heat_on(interval, n_modes=2)
    record = sl.simulate(heat, 1, 0.1 * np.arange(40), GRID, seed=1, observation_std=0.05)
    gappy = sl.mask(record, "random", 0.2, seed=0)
    noisy = QUICK | {"observation_noise": "estimate", "initial": "stationary"}
    law = sl.fit(record, interval, 2, **noisy)
    later, filled = law.forecast(record, steps=3, n_samples=2), law.reconstruct(gappy)
    values = np.random.default_rng(0).normal(size=(3, 4, 2, 7))
    coords = {"start": [2.0, 2.5, 3.0], "member": range(4), "lead": [0.1, 0.2], "x": GRID}
    members = xr.DataArray(values, coords, ("start", "member", "lead", "x"), "u")
    members["start"].attrs["standard_name"] = "forecast_reference_time"
    members["lead"].attrs["standard_name"] = "forecast_period"
    rows = sl.to_table(record)
    skill = sl.skill(record, interval, 2, leads=(1,), refits=1, most_origins=3, replicates=9)

    def fit_prepared(**words: Any) -> sl.Law:
        return sl.fit(record, interval, 2, prepare=sl.Preparation(**words), **noisy)

    table: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("verify", sl.verify, {"forecasts": members, "observations": record[0], "variable": None,
         "anomalies": "mean", "adjust": True, "level": 0.9, "replicates": 9, "seed": 0}),
        ("to_table", sl.to_table, {"fields": record, "time": "t", "value": "v", "x": "x"}),
        ("to_table", sl.to_table, {"fields": later, "time": "t", "station": "s", "lon": "l"}),
        ("from_table", sl.from_table, {"table": rows, "time": "time", "value": rows.columns[-1],
         "x": "x", "y": None, "station": None, "quantity": None}),
        ("law.forecast", law.forecast, {"history": record, "at": [4.5], "seed": 0, "grid": GRID,
                                        "n_samples": 1, "parameter_draws": 2}),
        ("law.forecast", law.forecast, {"history": record, "steps": 2, "times": None}),
        ("law.reconstruct", law.reconstruct, {"data": gappy, "grid": GRID, "parameter_draws": 2}),
        ("law.observe", law.observe, {"data": record}),
        ("law.prepared", law.prepared, {"data": record}),
        ("fit on EOFs", sl.fit, {"data": record, "domain": "eof", "n_modes": 2, **noisy}),
        ("fit of an array", sl.fit, {"data": record.values, "times": record.time.values,
         "points": GRID, "domain": interval, "n_modes": 2, "variable": None, "time_unit": None,
         **noisy}),
        ("fit, prepared", fit_prepared, {"variable": None, "select": {"x": (0.0, 2.0)},
         "average": (), "rename": {}, "coarsen": {"time": 2}, "anomalies": "mean",
         "detrend": True, "standardise": "point", "time_unit": None, "missing": (-9.0,)}),
        ("fill", sl.fill, {"data": gappy, "domain": interval, "n_modes": 2, "prepare": None,
         "basis": "domain", "drift": "diagonal", "residual": "white", "smooth": False,
         "everywhere": False, "seconds": 5.0, "seed": 0, "return_law": True}),
        ("skill", sl.skill, {"data": record, "domain": interval, "n_modes": 2, "prepare": None,
         "leads": (1,), "origins": "expanding", "first": 0.8, "refits": 1, "most_origins": 2,
         "residual": "white", "level": 0.9, "replicates": 9, "seed": 0}),
        ("Skill.score", skill.score, {"name": "rmse"}),
        ("Learner", sl.Learner(interval, 2, **noisy).fit, {"data": record}),
        ("write", sl.write, {"fields": later, "path": "c.csv", "overwrite": True}),
        ("law.plot.energy", law.plot.energy, {"time": 1.0}),
        ("law.plot.field", law.plot.field, {"data": record, "path": 0}),
        ("law.plot.forecast", law.plot.forecast, {"history": record, "at": None, "truth": record,
         "steps": 2, "point": None, "path": 0, "ax": None}),
        ("law.plot.innovations", law.plot.innovations, {"data": record}),
        ("law.plot.spectrum", law.plot.spectrum, {"truth": heat}),
        ("write_report", sl.report.write_report, {"path": "r.html", "laws": law, "data": record,
         "truth": None, "title": "t", "source": None, "skill": None, "max_paths": 3, "seed": 0}),
        ("plot_fields", sl.report.plot_fields, {"fields": record, "equation": heat, "n_paths": 1}),
        ("plot_forecast", sl.report.plot_forecast, {"history": record, "forecast": later,
         "truth": None, "point": None, "path": 0, "ax": None}),
        ("plot_modes", sl.report.plot_modes, {"domain": interval, "n_modes": 2, "n_points": 9}),
        ("plot_operator", sl.report.plot_operator, {"law": law, "truth": None}),
        ("plot_ratios", sl.report.plot_ratios, {"laws": {"a": law}, "truth": heat}),
        ("plot_skill", sl.report.plot_skill, {"found": skill, "score": "rmse"}),
        ("plot_reconstruction", sl.report.plot_reconstruction, {"observed": gappy,
         "reconstruction": filled, "path": 0, "time": 1.0}),
        ("save_figure", sl.report.save_figure, {"figure": sl.report.plot_modes(interval, 2),
                                                "path": "f.png"}),
    ]  # fmt: skip
    return [Call(*row) for row in table]


def _calls_of_terms() -> list[Call]:
    """Laws with terms or state noise, their chaos coordinates, and networks."""
    front = sl.catalogue.allen_cahn(n_modes=3)
    domain = front.linear.domain
    data = sl.simulate(front, 6, 0.1 * np.arange(11), np.linspace(0, 2 * np.pi, 8), seed=0)
    law = sl.fit(data, domain, 3, terms=("u", "u^3"), observation_noise="none")
    noise = sl.White(0.1)
    table: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("fit with terms", sl.fit, {"data": data, "domain": domain, "n_modes": 3, "terms": ("u",),
         "state_noise": "none", "observation_noise": "none", "noise": "diagonal", "fixed": None,
         "scheme": "exact", "method": "auto"}),
        ("discover", sl.discover, {"data": data, "domain": domain, "n_modes": 3, "library": ("u",),
         "noise": "diagonal", "observation_noise": "none", "fixed": None, "prepare": None,
         "level": 0.9, "bootstrap": 5, "seed": 0, "method": "auto", "scheme": "exact"}),
        ("Semilinear", sl.Semilinear, {"linear": front.linear, "terms": {"u": 1.0},
         "state_noise": "affine", "noise_offset": 0.1}),
        ("Semilinear", sl.Semilinear, {"linear": front.linear, "state_noise": np.ones((3, 3, 3))}),
        ("geometric_heat", sl.catalogue.geometric_heat, {"n_modes": 3, "nu": 0.2, "noise": noise,
         "noise_offset": 0.1, "domain": domain}),
        ("square_root_heat", sl.catalogue.square_root_heat, {"n_modes": 3, "nu": 0.2, "rate": 1.0,
         "level": 2.0, "noise": noise, "domain": domain}),
        ("fitzhugh_nagumo", sl.catalogue.fitzhugh_nagumo, {"n_modes": 3, "nu": 0.1, "gamma": 0.5,
         "epsilon": 0.5, "noise": noise, "initial": None, "times": TIMES, "domain": domain}),
        ("law.sample", law.sample, {"n_paths": 2, "times": TIMES, "grid": GRID, "seed": 0}),
        ("law.forecast", law.forecast, {"history": data, "steps": 2, "n_samples": 1, "seed": 0}),
        ("evaluate", sl.evaluate, {"law": law, "data": data, "truth": front,
                                   "tiers": ("predict",), "max_paths": 3}),
        ("Chaos", sl.Chaos, {"n_time": 4, "order": 2, "tail": "modelled", "terms": ("u", "u^3")}),
        ("chaos_posterior", chaos_posterior, {"law": law, "data": data, "n_time": 2, "order": 2,
                                              "tail": "modelled"}),
        ("sample_chaos", sample_chaos, {"law": law, "n_paths": 2, "times": TIMES, "n_time": 2,
                                        "order": 2, "tail": "modelled", "seed": 0}),
        ("Amortized", sl.Amortized, {"epochs": 1, "encoder": "modes", "order": 1, "n_time": 3,
         "n_hidden": 4, "batch_size": 10, "preset": "paper"}),
    ]  # fmt: skip
    return [Call(*row) for row in table]


def wrong_calls(calls: list[Call], rng: random.Random) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Endlessly: a call with one argument replaced, with its text."""
    while True:
        call = rng.choice(calls)
        argument = rng.choice(list(call.arguments))
        value = rng.choice(WRONG)()
        text = f"{call.name}({argument}={shown(value)})"
        yield text, functools.partial(call.function, **call.arguments | {argument: value})


def all_wrong_calls(calls: list[Call]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every argument of every call with every wrong value."""
    for call in calls:
        for argument in call.arguments:
            for make in WRONG:
                value = make()
                text = f"{call.name}({argument}={shown(value)})"
                yield text, functools.partial(call.function, **call.arguments | {argument: value})
