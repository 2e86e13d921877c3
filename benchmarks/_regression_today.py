"""The second net of `benchmarks.regression`: what version 0.2 does, one short function a case.

Only public names are used, so that the cases outlive any change of the inside. A case returns a
flat record (`benchmarks._regression_records`): numbers and texts by name.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._regression_data import INTERVAL, Data, dated, make
from benchmarks._regression_records import (
    Flat,
    array,
    dataset,
    document,
    fitted,
    page,
    predicted,
    scored,
    searched,
    shell,
)

import numpy as np  # isort: skip
import pandas as pd  # isort: skip
import xarray as xr  # isort: skip
from scipy.spatial import Delaunay  # isort: skip

import spdelaw as sl  # isort: skip

TODAY: dict[str, Callable[[], Flat]] = {}

#: A drift that couples three modes, two of them turning.
DENSE_DRIFT = np.array([[1.0, 0.8, 0.0], [-0.8, 1.5, 0.4], [0.2, 0.0, 3.0]])
#: Two pairs of a ring that decay and rotate, and a constant.
TURNING = np.array([[0.5, 0.0, 0.0], [0.0, 1.5, 2.0], [0.0, -2.0, 1.5]])
RING = sl.Interval(0, 2 * np.pi, "periodic")
WALLS = sl.Interval(0, 2 * np.pi, "neumann")
#: Names of p-values, which follow a fit to fewer digits than other numbers.
P_VALUES = ("p_values", "overall")
#: A fill that tries one kind of law.
ONE_KIND = {"basis": "domain", "drift": "diagonal", "seconds": None}


def fit(data: Any, *how: Any, **words: Any) -> sl.Law:
    """`spdelaw.fit` with the answers that version 0.2 had for what is selected otherwise now."""
    if "terms" in words:
        words = {"noise": "parametric"} | words
    else:
        defaults = {"initial": "deterministic"}
        if isinstance(words.get("engine", "exact"), str):
            defaults["mean"] = "zero"
            if not {"rest", "residual"} & set(words):
                defaults["residual"] = "white"
        words = defaults | words
    return sl.fit(data, *how, **words)


def case(function: Callable[[], Flat]) -> Callable[[], Flat]:
    """Register a case under the name of its function."""
    TODAY[function.__name__] = function
    return function


def noisy(**more: Any) -> Data:
    """Fields of two modes with observation noise."""
    return make(**{"n_true": 2, "points": 9, "n_paths": 8, "error": 0.1, **more})


def record(**more: Any) -> Data:
    """One long path of two modes that starts anywhere."""
    settings = {"n_paths": 1, "n_times": 60, "start": 0.0, "spread": 0.5, **more}
    return noisy(**settings)


@functools.cache
def plain_data() -> Data:
    """Noisy fields with gaps that several cases share."""
    return noisy(gaps="random")


@functools.cache
def plain_law() -> sl.Law:
    """Law of `plain_data`."""
    return fit(plain_data().train, INTERVAL, 2)


@functools.cache
def one_mode_law() -> sl.Law:
    """Law of the first mode alone, which leaves much over."""
    return fit(plain_data().train, INTERVAL, 1, nuisance=0)


@functools.cache
def dense_law() -> sl.Law:
    """Law of complete fields whose modes are coupled."""
    return fit(make(drift=DENSE_DRIFT, n_paths=20, points=9).train, INTERVAL, 3, drift="dense")


@contextlib.contextmanager
def empty_folder() -> Any:
    """A folder to work in; it is removed afterwards."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        yield Path()


# -- a mean that the field returns to ------------------------------------------------------


def constant_push(t: float) -> np.ndarray:
    """Forcing that holds the field away from zero."""
    del t
    return np.array([4.0, -1.0])


def fields_with_mean(**more: Any) -> Data:
    """Fields of two modes that fluctuate around a mean."""
    return noisy(**{"push": constant_push, "n_times": 24, "spread": 0.5, **more})


@case
def mean_auto() -> Flat:
    data = fields_with_mean()
    law = fit(data.train, INTERVAL, 2, mean="auto")
    return fitted(law) | predicted(law, data.new)


@case
def mean_constant_complete() -> Flat:
    data = fields_with_mean(error=0.0)
    law = fit(data.train, INTERVAL, 2, mean="constant")
    return fitted(law) | predicted(law, data.new)


@case
def mean_constant_gaps() -> Flat:
    data = fields_with_mean(gaps="random")
    law = fit(data.train, INTERVAL, 2, mean="constant", initial="stationary")
    return fitted(law) | predicted(law, data.new)


@case
def mean_constant_dense() -> Flat:
    law = fit(fields_with_mean().train, INTERVAL, 2, mean="constant", drift="dense", initial="auto")
    return fitted(law)


@case
def mean_constant_one_path() -> Flat:
    law = fit(record(push=constant_push).train, INTERVAL, 2, mean="constant")
    return fitted(law)


@case
def mean_given() -> Flat:
    data = fields_with_mean()
    law = fit(data.train, INTERVAL, 2, mean=data.train.mean(("path", "time")).round(3))
    return fitted(law) | predicted(law, data.new)


# -- intervals, noise, residual ------------------------------------------------------------


@case
def profiles() -> Flat:
    data = noisy(n_paths=3)
    wide = fit(data.train, INTERVAL, 2, level=0.9)
    narrow = fit(data.train, INTERVAL, 2, engine=sl.Exact(profile=False))
    profiled = {"profiled": list(wide.info.get("profiled", []))}
    return fitted(wide, "profile") | fitted(narrow, "curvature") | profiled


@case
def profiles_complete() -> Flat:
    data = make(n_true=2, points=9, n_paths=2)
    law = fit(data.train, INTERVAL, 2, drift="parametric", fixed={"s": 1.0})
    return fitted(law)


def value_noise(data: Data) -> xr.DataArray:
    """One standard deviation for each value, two kinds of instruments."""
    deviation = 0.05 + 0.1 * (np.arange(data.train.size) % 3 == 0).reshape(data.train.shape)
    return data.train.copy(data=deviation)


@case
def noise_per_value() -> Flat:
    data = plain_data()
    law = fit(data.train, INTERVAL, 2, observation_noise=value_noise(data))
    return fitted(law) | dataset("reconstruct", law.reconstruct(data.new))


@case
def noise_coordinate() -> Flat:
    data = plain_data()
    known = data.train.assign_coords(observation_std=value_noise(data))
    law = fit(known, INTERVAL, 2)
    return fitted(law) | predicted(law, known)


@case
def noise_per_point_gaps() -> Flat:
    data = noisy(error=0.05 + 0.02 * np.arange(9), gaps="random")
    law = fit(data.train, INTERVAL, 2, observation_noise="per_point")
    return fitted(law) | predicted(law, data.new)


def fields_with_residual() -> Data:
    """One path of six modes, of which a law takes two."""
    return record(n_true=6, error=0.02, n_times=80)


@case
def residual_memory() -> Flat:
    data = fields_with_residual()
    law = fit(data.train, INTERVAL, 2, residual="memory", nuisance=0)
    return fitted(law) | predicted(law, data.new)


@case
def residual_auto() -> Flat:
    law = fit(fields_with_residual().train, INTERVAL, 2, residual="auto")
    return fitted(law) | predicted(law, fields_with_residual().new)


# -- what a law says of itself -------------------------------------------------------------


@case
def law_derived() -> Flat:
    law = dense_law()
    other = fit(make(n_paths=20, points=9).train, INTERVAL, 3)
    return {
        **fitted(law),
        **dataset("eigenmodes", law.eigenmodes()),
        **dataset("covariance", law.stationary_covariance()),
        **dataset("spectrum", law.power_spectrum(np.array([0.1, 0.5, 2.0]))),
        **dataset("predictability", law.predictability(np.array([0.1, 0.5]))),
        **dataset("growth", law.optimal_growth(np.array([0.2, 0.6]))),
        **array("divergence", [law.kl_divergence(other)]),
    }


@case
def law_texts() -> Flat:
    law = plain_law()
    table = law.to_pandas()
    texts = {"text": repr(law).splitlines(), "columns": [str(name) for name in table.columns]}
    return texts | {"rows": [str(name) for name in table.parameter]}


@case
def law_samples() -> Flat:
    law, grid = plain_law(), np.array([0.5, 1.2, 2.0])
    times = np.array([0.0, 0.05, 0.4])
    draws = law.sample(3, times, grid, seed=2, observation_noise=True)
    lazy = law.sample(7, seed=2, chunks=3)
    return dataset("draws", draws) | dataset("lazy", lazy) | dataset("all", law.sample(2, seed=4))


@case
def law_parameter_draws() -> Flat:
    law, new = plain_law(), plain_data().new
    smooth = law.reconstruct(new, parameter_draws=4, seed=1)
    ahead = law.forecast(new, steps=2, parameter_draws=4, n_samples=3, seed=1)
    return dataset("reconstruct", smooth) | dataset("forecast", ahead)


@case
def law_parameter_draws_dense() -> Flat:
    data = make(drift=DENSE_DRIFT, n_paths=2, points=9)
    return dataset("forecast", dense_law().forecast(data.new, steps=2, parameter_draws=4, seed=1))


@case
def law_saved() -> Flat:
    data = fields_with_residual()
    law = fit(data.train, INTERVAL, 2, residual="memory", mean="constant", nuisance=0)
    with empty_folder() as folder:
        law.save(folder / "law", overwrite=True)
        names = sorted(file.name for file in (folder / "law").iterdir())
        return {"files": names} | predicted(sl.load(folder / "law"), data.new)


@case
def chaos_coordinates() -> Flat:
    from spdelaw.law.prediction import chaos_posterior  # the documented name; `sl` has none

    data = noisy(n_paths=4)
    law = fit(data.train, INTERVAL, 2, engine=sl.Chaos(n_time=4, tail="dropped"))
    exact = chaos_posterior(plain_law(), plain_data().new, n_time=5)
    chaos = chaos_posterior(law, data.new)
    return fitted(law) | dataset("chaos", chaos) | dataset("exact", exact)


# -- semilinear laws -----------------------------------------------------------------------


@functools.cache
def fronts(n_paths: int = 4) -> xr.DataArray:
    """Paths of the Allen-Cahn equation on five modes."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    equation = sl.catalogue.allen_cahn(5, initial=start, times=0.1 * np.arange(41))
    return sl.simulate(equation, n_paths, seed=3)


@functools.cache
def fronts_law() -> sl.Law:
    """Law of complete fronts."""
    return fit(fronts(), RING, 5, terms=("u", "u^3"))


@case
def semilinear_complete() -> Flat:
    return fitted(fronts_law()) | predicted(fronts_law(), fronts()[:2])


@functools.cache
def gappy_fronts() -> xr.DataArray:
    """Fronts between two walls with observation noise and gaps."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    settings = {"initial": start, "times": 0.1 * np.arange(41), "domain": WALLS}
    fields = sl.simulate(sl.catalogue.allen_cahn(5, **settings), 8, seed=3)
    rng = np.random.default_rng(4)
    noisy_fields = fields + 0.05 * rng.standard_normal(fields.shape)
    return noisy_fields.where(rng.random(fields.shape) > 0.2)


@functools.cache
def gappy_fronts_law() -> sl.Law:
    """Law of fronts with gaps, by the filter."""
    return fit(gappy_fronts(), WALLS, 5, terms=("u", "u^3"))


@case
def semilinear_gaps() -> Flat:
    return fitted(gappy_fronts_law()) | predicted(gappy_fronts_law(), gappy_fronts()[:2])


@case
def semilinear_evaluate() -> Flat:
    return scored(sl.evaluate(gappy_fronts_law(), gappy_fronts()[:2]))


@case
def semilinear_evaluate_ring() -> Flat:
    # On a ring u u_x has no part in the constant mode. The check scales this column of rounding
    # to length one, so that p-values hang on the last digits: the verdict is kept alone.
    card = sl.evaluate(fronts_law(), fronts()[:2], tiers=("predict", "forecast"))
    tiers = {tier: score._asdict() for tier, score in card.tiers.items()}
    return {"verdict": card.verdict} | document("tiers", tiers)


@case
def semilinear_saved() -> Flat:
    with empty_folder() as folder:
        fronts_law().save(folder / "law")
        law = sl.load(folder / "law")
        samples = law.sample(2, np.array([0.0, 0.2]), seed=3)
        return {"text": repr(law).splitlines()} | dataset("samples", samples)


@case
def semilinear_scheme() -> Flat:
    equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(31))
    fields = sl.simulate(equation, 4, seed=1, scheme="semi_implicit")
    law = fit(fields, RING, 5, terms=("u", "u^3"), scheme="semi_implicit")
    return fitted(law) | dataset("fields", fields)


def catalogue_case(name: str, n_times: int, terms: tuple[str, ...]) -> Flat:
    """Simulate an equation of the catalogue, learn it and forecast it."""
    equation = getattr(sl.catalogue, name)(5, times=0.1 * np.arange(n_times))
    fields = sl.simulate(equation, 3, seed=2)
    law = fit(fields, equation.domain, 5, terms=terms)
    ahead = law.forecast(fields, steps=2)
    return dataset("fields", fields) | fitted(law) | dataset("forecast", ahead)


CATALOGUE = {
    "nagumo": (101, ("u", "u^2", "u^3")),
    "fisher_kpp": (31, ("u", "u^2")),
    "burgers": (31, ("u u_x",)),
    "kpz": (31, ("u_x^2",)),
    "allen_cahn_2d": (31, ("u", "u^3")),
}
for _name, (_n_times, _terms) in CATALOGUE.items():
    TODAY[f"semilinear_{_name}"] = functools.partial(catalogue_case, _name, _n_times, _terms)


@case
def discover_fronts() -> Flat:
    words = {"noise": "parametric", "bootstrap": 20, "seed": 1}
    choice = sl.discover(fronts(), RING, 5, ("u", "u^2", "u^3"), **words)
    return fitted(choice.law) | discovered(choice)


@case
def discover_linear() -> Flat:
    data = make(RING, n_true=3, points=9, n_paths=6, spread=0.5)
    choice = sl.discover(data.train, RING, 3, ("u^2", "u^3"), noise="parametric", bootstrap=20)
    return discovered(choice)


def discovered(choice: sl.Discovery) -> Flat:
    """Terms, candidates and how often each term is chosen."""
    texts: Flat = {"terms": list(choice.terms), "sentence": choice.sentence}
    return texts | dataset("table", choice.table) | dataset("inclusion", choice.inclusion)


# -- several fields ------------------------------------------------------------------------

VOLTAGE = {"u": ("u", "u^3", "v"), "v": ("1", "u", "v")}


@functools.cache
def two_fields() -> xr.DataArray:
    """Paths of the FitzHugh-Nagumo equations on three modes of each field."""
    equation = sl.catalogue.fitzhugh_nagumo(3, times=0.1 * np.arange(41))
    return sl.simulate(equation, 4, seed=0)


@functools.cache
def two_fields_law() -> sl.Law:
    """Law of both fields."""
    return fit(two_fields(), RING, 3, terms=VOLTAGE, fixed={"nu v": 0})


@case
def fields_semilinear() -> Flat:
    law = two_fields_law()
    return fitted(law) | predicted(law, two_fields()[:2])


@case
def fields_semilinear_evaluate() -> Flat:
    tiers = ("reconstruct", "forecast")
    return scored(sl.evaluate(two_fields_law(), two_fields()[:2], tiers=tiers))


@case
def fields_semilinear_gaps() -> Flat:
    rng = np.random.default_rng(6)
    gappy = two_fields().where(rng.random(two_fields().shape) > 0.2)[:2]
    law = two_fields_law()
    return array("log_likelihood", law.log_likelihood(gappy)) | dataset(
        "reconstruct", law.reconstruct(gappy)
    )


@case
def fields_linear() -> Flat:
    like = {"points": 7, "n_true": 1, "n_paths": 12, "n_times": 40, "error": 0.1, "spread": 0.5}
    parts = [make(RING, seed=seed, **like).train for seed in (1, 2)]
    both = xr.concat(parts, pd.Index(["u", "v"], name="variable"))
    data = both.transpose("path", "time", "variable", "x")
    law = fit(data, sl.Fields(RING), 2, drift="dense", initial="auto")
    return fitted(law) | predicted(law, data[:2])


@case
def fields_gray_scott() -> Flat:
    dish = sl.catalogue.gray_scott(81, times=np.arange(0.0, 45.5, 0.5))
    point_slider = sl.simulate(dish, 1, grid=dish.domain.grid(16), seed=1)
    library = {"u": ("1", "u", "v", "u v^2"), "v": ("1", "u", "v", "u v^2")}
    words = {"bootstrap": 20, "noise": "parametric"}
    choice = sl.discover(point_slider, dish.domain.domain, 81, library, **words)
    return fitted(choice.law) | discovered(choice)


# -- filling gaps --------------------------------------------------------------------------


def gappy_record() -> xr.DataArray:
    """One path with clouds."""
    return sl.mask(record(n_times=30).train, "blocks", 0.3, seed=2)


def filled(result: xr.Dataset) -> Flat:
    """Means, deviations and candidates of a fill; a search calibrates the deviations."""
    return searched(dataset("filled", result.compute()), "filled std", "held_out_crps")


@case
def fill_domain() -> Flat:
    return filled(sl.fill(gappy_record(), INTERVAL, 2, **ONE_KIND))


@case
def fill_modes() -> Flat:
    data = noisy(n_paths=4, gaps="blocks").train
    return filled(sl.fill(data, INTERVAL, residual="white", **ONE_KIND))


@case
def fill_patterns() -> Flat:
    words = {**ONE_KIND, "basis": "patterns"}
    return filled(sl.fill(gappy_record(), INTERVAL, 2, residual="white", **words))


@case
def fill_dense() -> Flat:
    words = {**ONE_KIND, "drift": "dense"}
    return filled(sl.fill(gappy_record(), INTERVAL, 2, residual="shared", **words))


@case
def fill_memory_smooth() -> Flat:
    words = {"residual": "memory", "smooth": True, **ONE_KIND}
    return filled(sl.fill(gappy_record(), INTERVAL, 2, **words))


@case
def fill_everywhere() -> Flat:
    data = gappy_record().copy(deep=True)
    data[..., 4] = np.nan
    words = {"residual": "local", "everywhere": True, **ONE_KIND}
    return filled(sl.fill(data, INTERVAL, 2, **words))


@case
def fill_dates() -> Flat:
    data = monthly().train
    data = data.where(np.random.default_rng(1).random(data.shape) > 0.2)
    how = sl.Preparation(anomalies="month")
    return filled(sl.fill(data, INTERVAL, 2, prepare=how, residual="white", **ONE_KIND))


@case
def fill_lazy_paths() -> Flat:
    data = noisy(n_paths=6, gaps="blocks").train.chunk(path=2)
    return filled(sl.fill(data, INTERVAL, 2, residual="white", **ONE_KIND))


# -- forecasts of the past, comparisons, checks --------------------------------------------


@case
def skill_modes() -> Flat:
    data = record(n_times=50).train
    scores = sl.skill(data, INTERVAL, [1, 2], leads=(1, 3), refits=2, replicates=100)
    chosen = document("tried", {str(key): value for key, value in scores.tried.items()})
    return document("skill", scores.to_dict()) | chosen | {"text": repr(scores).splitlines()}


@case
def skill_dates() -> Flat:
    how = sl.Preparation(anomalies="month")
    words = {"leads": (1, 2), "refits": 1, "origins": "rolling", "replicates": 100}
    scores = sl.skill(monthly().train, INTERVAL, 2, prepare=how, **words)
    return dataset("forecasts", scores.forecasts) | dataset("table", scores.table)


@case
def skill_patterns() -> Flat:
    words = {"leads": (1, 2), "refits": 1, "replicates": 100, "drift": "dense"}
    scores = sl.skill(record(n_times=50).train, "eof", 2, **words)
    return {"verdict": scores.verdict, "facts": list(scores.facts)} | dataset("table", scores.table)


@case
def leave_future_out() -> Flat:
    data = record(n_times=40).train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scores = sl.leave_future_out(data, INTERVAL, 2, leads=2, replicates=100)
    return dataset("scores", scores)


@functools.cache
def formula_law() -> sl.Law:
    """Law whose decay is a multiple of the Laplacian, with one number less."""
    words = {"drift": "parametric", "fixed": {"s": 1.0, "kappa": 0.0}}
    return fit(plain_data().train, INTERVAL, 2, **words)


@case
def compare_nested() -> Flat:
    words = {"names": ("two", "one", "formula"), "replicates": 100}
    choice = sl.compare(plain_law(), one_mode_law(), formula_law(), data=plain_data().new, **words)
    return document("comparison", choice.to_dict()) | {"sentence": choice.sentence}


@case
def compare_without_data() -> Flat:
    choice = sl.compare(plain_law(), formula_law())
    return document("comparison", choice.to_dict()) | {"text": repr(choice).splitlines()}


@case
def check_fits() -> Flat:
    return scored(sl.evaluate(plain_law(), plain_data().new))


@case
def check_training_data() -> Flat:
    card = sl.evaluate(plain_law(), plain_data().train, tiers=("reconstruct", "gaps"), level=0.8)
    return scored(card) | {"text": repr(card).splitlines()}


@case
def check_truth() -> Flat:
    truth = sl.catalogue.heat_on(INTERVAL, 2, kappa=0.5)
    fields = sl.simulate(truth, 6, 0.1 * np.arange(12), np.linspace(0.2, 3.0, 9), seed=2)
    law = fit(fields, INTERVAL, 2, initial="auto")
    return scored(sl.evaluate(law, fields, truth, tiers=("predict", "forecast")))


@case
def check_coupled() -> Flat:
    data = make(drift=DENSE_DRIFT, noise=[1.0, 0.6, 0.4], n_paths=20, n_times=30, points=9)
    law = fit(data.train, INTERVAL, 3)
    return scored(sl.evaluate(law, data.train, tiers=()))


@case
def check_mean() -> Flat:
    data = fields_with_mean(n_paths=16)
    law = fit(data.train, INTERVAL, 2, mean="zero", initial="gaussian")
    return searched(scored(sl.evaluate(law, data.train, tiers=())), *P_VALUES)


@case
def check_cubic() -> Flat:
    law = fit(fronts(8), RING, 5, initial="auto")
    return scored(sl.evaluate(law, fronts(8), tiers=()))


# -- lazy data and many fits ---------------------------------------------------------------


@case
def lazy_fit_complete() -> Flat:
    data = make(n_true=2, points=9)
    return fitted(fit(data.train.chunk(path=5), INTERVAL, 2))


@case
def lazy_fit_gaps() -> Flat:
    return fitted(fit(plain_data().train.chunk(path=3), INTERVAL, 2))


@case
def lazy_fit_times() -> Flat:
    return fitted(fit(record().train.chunk(time=20), INTERVAL, 2))


@case
def lazy_predictions() -> Flat:
    return predicted(plain_law(), plain_data().new.chunk(path=2))


@case
def lazy_times() -> Flat:
    return predicted(plain_law(), record().new[:1].chunk(time=20))


@case
def lazy_evaluate() -> Flat:
    return scored(sl.evaluate(plain_law(), plain_data().new.chunk(path=2), max_paths=3))


@case
def fits_of_members() -> Flat:
    data = noisy(n_paths=8).train
    members = {"first": data[:4], "second": data[4:]}
    laws = sl.fit_many(members, INTERVAL, 2, mean="zero", initial="deterministic")
    return fitted(laws["first"], "first") | fitted(laws["second"], "second")


@case
def fits_over_dim() -> Flat:
    data = make(n_true=2, points=9, n_paths=8).train
    parts = [data[:4].drop_vars("path"), data[4:].drop_vars("path")]
    laws = sl.fit_many(xr.concat(parts, "member"), INTERVAL, 2, over="member")
    return document("names", [str(name) for name in laws]) | fitted(laws[1], "second")


@case
def update_with_mean() -> Flat:
    data = fields_with_mean(error=0.0)
    law = fit(data.train[:4], INTERVAL, 2, mean="constant")
    return fitted(law, "first") | fitted(sl.update(law, data.train[4:]), "updated")


@case
def learner() -> Flat:
    data = noisy()
    model = sl.Learner(
        INTERVAL, 2, mean="zero", initial="deterministic", observation_noise="estimate"
    )
    score = model.fit(data.train).score(data.new)
    settings = [str(name) for name in model.get_params()]
    return {"settings": settings, "score": [float(score)]} | fitted(model.law_)


# -- user units, dates, tables and files ---------------------------------------------------


@functools.cache
def monthly() -> Data:
    """Four years of months with a cycle of the year."""
    return dated(record(n_times=48))


def prepared(**how: Any) -> Flat:
    """Fit of prepared months and a forecast in their units and dates."""
    data = monthly()
    train = data.train.assign_attrs(units="K").rename("sst")
    law = fit(train, INTERVAL, 2, prepare=sl.Preparation(**how), mean="zero")
    dates = ["2005-01-15", "2005-04-01"]
    ahead = law.forecast(train, times=dates, n_samples=2, seed=3)
    words = {"prepared by": list(law.info["preparation"])}
    return words | fitted(law) | predicted(law, train) | dataset("dates", ahead)


PREPARED: dict[str, dict[str, Any]] = {
    "mean": {"anomalies": "mean"},
    "month": {"anomalies": "month", "standardise": "point"},
    "trend": {"anomalies": "month", "detrend": True, "standardise": "whole"},
    "waves": {"anomalies": "dayofyear", "time_unit": "hours", "select": {"x": (0.3, 2.9)}},
}
for _name, _how in PREPARED.items():
    TODAY[f"prepared_{_name}"] = functools.partial(prepared, **_how)


@case
def prepared_leads() -> Flat:
    leads = np.arange(16.0)
    starts = pd.date_range("2001-01-01", periods=8, freq="MS")
    values = noisy().train.values + np.round(np.exp(-leads / 3.0), 11)[:, None]
    coordinates = {"init": starts, "lead": leads, "x": INTERVAL.grid(9)}
    data = xr.DataArray(values, coordinates, ("init", "lead", "x"), "t2m", {"units": "K"})
    law = fit(data, INTERVAL, 2, prepare=sl.Preparation(anomalies="lead"))
    return fitted(law) | dataset("reconstruct", law.reconstruct(data))


def station_rows() -> pd.DataFrame:
    """A table of eight stations in which rows are missing."""
    rng = np.random.default_rng(5)
    places = np.round(rng.uniform([0.2, 0.2], [2.8, 1.8], (8, 2)), 3)
    region = sl.Box((0, 3), (0, 2), boundary="neumann")
    values = make(region, points=places, n_true=2, n_paths=1, n_times=60, error=0.1).train[0]
    days = pd.date_range("1990-01-01", periods=60)
    rows = pd.DataFrame(
        {
            "date": np.repeat(days, 8),
            "station": np.tile([f"S{k}" for k in range(8)], 60),
            "px": np.tile(places[:, 0], 60),
            "py": np.tile(places[:, 1], 60),
            "tmax": 15.0 + values.values.ravel(),
        }
    )
    return rows[rng.random(len(rows)) > 0.2]


@case
def table_of_stations() -> Flat:
    columns = {"time": "date", "value": "tmax", "station": "station", "x": "px", "y": "py"}
    data = sl.from_table(station_rows(), **columns)
    region = sl.Box((0, 3), (0, 2), boundary="neumann")
    how = sl.Preparation(anomalies="mean", time_unit="days")
    law = fit(data, region, 2, prepare=how, initial="stationary", nuisance=0)
    return dataset("table", data) | fitted(law) | predicted(law, data)


@case
def real_map() -> Flat:
    raw = sl.datasets.pacific_sst().isel(time=slice(0, 60))
    how = sl.Preparation(coarsen={"lat": 3, "lon": 4}, anomalies="month", area_weights=True)
    region = sl.Box((118, 292), (-32, 32), boundary="neumann")
    law = fit(raw, region, 3, prepare=how, initial="stationary", nuisance=0, mean="zero")
    return fitted(law) | predicted(law, raw, steps=2)


@case
def files() -> Flat:
    fields = monthly().train.assign_attrs(units="K").rename("sst")
    with empty_folder() as folder:
        sl.write(fields, folder / "a.nc")
        sl.write(fields, folder / "b.zarr")
        first = sl.read(folder / "a.nc")
        second = sl.read(folder / "b.zarr", lazy=True).compute()
        return {
            **dataset("netcdf", first),
            **dataset("zarr", second),
            **document("describe", sl.describe(first)),
        }


@case
def splits() -> Flat:
    fields = plain_data().train
    parts = sl.split(fields, (0.5, 0.5), seed=1)
    late = sl.split(fields, (0.7, 0.3), along="time")[1]
    stacked = sl.stack([fields[0, :5], fields[1, :7]])
    masks = {kind: sl.mask(fields, kind, 0.3, seed=2) for kind in ("random", "blocks")}
    every = {"part": parts[0], "late": late, "stacked": stacked, **masks}
    return {key: value for name, f in every.items() for key, value in dataset(name, f).items()}


@case
def simulations() -> Flat:
    names = ("heat", "ornstein_uhlenbeck", "damped_heat", "neumann_heat", "advection_diffusion")
    times = np.array([0.0, 0.1, 0.3])
    equations = {name: getattr(sl.catalogue, name)(n_modes=5) for name in names}
    fields = {name: sl.simulate(e, 2, times, seed=1) for name, e in equations.items()}
    return {key: value for name, f in fields.items() for key, value in dataset(name, f).items()}


# -- other domains -------------------------------------------------------------------------


@case
def sphere_turning() -> Flat:
    grid = (np.arange(-60.0, 61.0, 30.0), np.arange(0.0, 360.0, 60.0))
    data = make(sl.Sphere(), points=grid, n_true=4, n_paths=6, error=0.1, spread=0.5)
    law = fit(data.train, sl.Sphere(), 4, drift="normal", initial="auto")
    results = predicted(law, data.new) | dataset("modes", law.eigenmodes())
    return fitted(law) | searched(results, "law forecast", "modes ")


@case
def ring_turning_mean() -> Flat:
    settings = {"drift": TURNING, "points": 8, "error": 0.1, "spread": 0.5}
    data = make(RING, noise=np.array([1.0, 0.5, 0.5]), **settings)
    law = fit(data.train, RING, 3, drift="normal", mean="constant", initial="auto")
    return fitted(law) | predicted(law, data.new)


@case
def mesh_elsewhere() -> Flat:
    i, j = np.meshgrid(np.arange(5), np.arange(5))
    inside = i + j <= 4
    nodes = np.stack([0.5 * i[inside] + 0.07 * j[inside], 0.31 * j[inside]], axis=1)
    mesh = sl.Mesh(nodes, Delaunay(nodes).simplices, n_modes=3)
    data = make(mesh, points=1, n_true=2, error=0.1, gaps="random")
    law = fit(data.train, mesh, 2)
    inner = law.reconstruct(data.new, grid=np.array([[0.4, 0.2], [0.8, 0.3]]))
    return fitted(law) | dataset("inner", inner) | scored(sl.evaluate(law, data.new, tiers=()))


@case
def patterns_dense() -> Flat:
    data = record(n_true=4, n_times=80, error=0.05)
    domain = sl.Empirical(data.train, n_modes=2, weights=INTERVAL)
    law = fit(data.train, domain, 2, drift="dense", noise="dense")
    return fitted(law) | predicted(law, data.train)


# -- the page and the shell ----------------------------------------------------------------


@case
def report_linear() -> Flat:
    laws = {"two": plain_law(), "one": one_mode_law()}
    scores = sl.skill(record(n_times=50).train, INTERVAL, 2, leads=(1,), refits=1, replicates=50)
    with empty_folder() as folder:
        file = sl.report.write_report(folder / "a.html", laws, plain_data().new, skill=scores)
        return page(file)


@case
def report_semilinear() -> Flat:
    with empty_folder() as folder:
        return page(
            sl.report.write_report(folder / "a.html", gappy_fronts_law(), gappy_fronts()[:2])
        )


@case
def report_dates() -> Flat:
    data = monthly()
    how = sl.Preparation(anomalies="month")
    law = fit(data.train, INTERVAL, 2, prepare=how, mean="zero")
    with empty_folder() as folder:
        return page(sl.report.write_report(folder / "a.html", law, data.train, title="Months"))


@case
def shell_linear() -> Flat:
    lines = (
        "simulate heat --modes 2 --paths 6 --steps 12 --points 9 --observation-std 0.05 "
        "--seed 1 --out a.nc",
        "info a.nc",
        "fit a.nc --modes 2 --initial deterministic --mean zero --out a.law",
        "show a.law",
        "evaluate a.law a.nc",
        "forecast a.law a.nc --steps 2 --out ahead.nc",
        "reconstruct a.law a.nc --out smooth.nc",
        "sample a.law --paths 2 --seed 3 --out draws.nc",
    )
    with empty_folder() as folder:
        documents = shell_documents(lines)
        draws, ahead = sl.read(folder / "draws.nc"), xr.load_dataset(folder / "ahead.nc")
        return documents | dataset("draws", draws) | dataset("ahead", ahead)


@case
def shell_record() -> Flat:
    lines = (
        "fit a.nc --anomalies month --modes 1 --boundary neumann --dry-run",
        "fit a.nc --anomalies month --modes 1 --boundary neumann --mean zero --out a.law",
        "forecast a.law a.nc --until 2005-03-15 --out ahead.nc",
        "skill a.nc --anomalies month --modes 1 --domain interval --leads 1,2 --refits 1",
        "fill a.nc --anomalies month --modes 2 --basis domain --drift diagonal --residual white "
        "--seconds 100000 --out filled.nc",
    )
    fields = monthly().train[0].where(np.random.default_rng(1).random((48, 9)) > 0.1)
    with empty_folder() as folder:
        fields.rename("sst").assign_attrs(units="K").to_netcdf(folder / "a.nc")
        documents = shell_documents(lines)
        return documents | dataset("ahead", xr.load_dataset(folder / "ahead.nc"))


@case
def shell_semilinear() -> Flat:
    lines = (
        "discover a.nc --modes 5 --library u,u^3 --bootstrap 20 --out a.law",
        "fit a.nc --modes 5 --out b.law",
        "compare a.law b.law --data a.nc",
    )
    with empty_folder() as folder:
        sl.write(fronts(), folder / "a.nc")
        return shell_documents(lines)


@case
def shell_table() -> Flat:
    columns = "--time date --value tmax --station station --x px --y py"
    lines = (
        f"info a.csv {columns}",
        f"fit a.csv {columns} --anomalies mean --modes 1 --nuisance 0 --initial stationary "
        "--out a.law",
        "forecast a.law a.csv --steps 2 --out ahead.nc",
    )
    with empty_folder() as folder:
        station_rows().to_csv(folder / "a.csv", index=False)
        return shell_documents(lines)


@case
def shell_errors() -> Flat:
    lines = ("fit nothing.nc --out a.law", "show nothing.law")
    with empty_folder():
        return shell_documents(lines, fails=True)


def shell_documents(lines: tuple[str, ...], *, fails: bool = False) -> Flat:
    """JSON documents of commands in order, flat."""
    documents: Flat = {}
    for line in lines:
        words, answer = line.split(), shell(line)
        if ("error" in answer) != fails:
            raise RuntimeError(f"{line}: {answer.get('error')}")
        documents |= document(words[0] + " --dry-run" * ("--dry-run" in words), answer)
    return searched(documents, *P_VALUES)
