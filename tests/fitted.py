"""Small data and the laws fitted to them: each law is fitted once and asked by many tests.

``fitted("gaps")`` gives the data, the equation that made them and the law; ``case("gaps")`` the
same with the words of the fit in place of the law, for another fit of the same data,
``refit("gaps", level=0.5)``. Data and laws are shared: change copies only.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from tests.infer import coupled

import spdelaw as sl
from spdelaw.errors import IdentifiabilityWarning

INTERVAL = sl.Interval(0.0, np.pi)
TIMES = np.linspace(0.0, 1.0, 41)
POINTS = INTERVAL.grid(16)
#: Standard deviation of the observation noise of "noisy" and "gaps".
NOISE = 0.05
#: Centre of the fields of "mean", and the noise by season of "seasonal".
MEAN = np.array([1.5, -0.4])
WEIGHTS = np.array([2.2, 1.0, 0.3, 0.5])
TERMS = {"u": ("u", "u^3", "v"), "v": ("1", "u", "v")}


class Fitted(NamedTuple):
    """Data, the equation behind them, and the law fitted to the data."""

    data: xr.DataArray
    equation: Any
    law: sl.Law


class Case(NamedTuple):
    """Data, the equation behind them, and the words of the fit."""

    data: xr.DataArray
    equation: Any
    words: dict[str, Any]

    def fit(self, **more: Any) -> sl.Law:
        """Law of the data, without the warnings of what they do not determine."""
        domain, n_modes = self.equation.domain, self.equation.n_modes
        words = {"domain": domain, "n_modes": n_modes, **self.words, **more}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            return sl.fit(self.data, **words)


RECIPES: dict[str, Callable[[], Case]] = {}


@functools.cache
def case(name: str) -> Case:
    """Data of a recipe, see the functions below."""
    return RECIPES[name]()


@functools.cache
def fitted(name: str) -> Fitted:
    """Law of a recipe, fitted at the first call."""
    data, equation, _ = case(name)
    return Fitted(data, equation, case(name).fit())


def refit(name: str, **words: Any) -> sl.Law:
    """Another law of the data of a recipe."""
    return case(name).fit(**words)


def recipe(function: Callable[[], Case]) -> Callable[[], Case]:
    RECIPES[function.__name__] = function
    return function


# -- fields ------------------------------------------------------------------------------------


@functools.cache
def heat(n_modes: int = 3, initial: str = "bump") -> sl.SpectralSPDE:
    """Heat equation that starts as a bump, at "stationary" states or at "gaussian" ones."""
    if initial == "stationary":
        return sl.catalogue.heat(n_modes, initial="stationary")
    if initial == "gaussian":
        state = sl.Gaussian([1.5, 0.6, -0.8][:n_modes], [0.5, 0.3, 0.1][:n_modes])
        return sl.catalogue.heat(n_modes, initial=state)
    return sl.catalogue.heat(n_modes)


def small(n_paths: int = 40, *, initial: str = "bump", noise: float = 0.0, seed: int = 0,
          times: np.ndarray = TIMES, scheme: str = "exact") -> xr.DataArray:  # fmt: skip
    """Heat of three modes at 41 times and 16 points."""
    return sl.simulate(
        heat(3, initial), n_paths, times, POINTS, seed=seed, observation_std=noise, scheme=scheme
    )


def two_modes(centre: Any = MEAN, initial: Any = "stationary", n_times: int = 41,
              span: float = 4.0, domain: sl.AbstractDomain = INTERVAL,
              **more: Any) -> sl.SpectralSPDE:  # fmt: skip
    """Two modes around a mean."""
    return sl.SpectralSPDE(
        domain, 2, [1.0, 4.0], noise=[1.0, 0.5], initial=initial, centre=centre,
        times=np.linspace(0.0, span, n_times), n_points=17, **more,
    )  # fmt: skip


# -- recipes -----------------------------------------------------------------------------------


@recipe
def complete() -> Case:
    """40 complete paths of three modes, without noise: sufficient statistics."""
    return Case(small(40, seed=1), heat(), {})


@recipe
def noisy() -> Case:
    """30 complete paths with noise."""
    return Case(small(30, noise=NOISE, seed=2), heat(), {"observation_noise": "estimate"})


@recipe
def gaps() -> Case:
    """60 paths with noise, of which 30 % are missing at random: the filter."""
    return Case(sl.mask(small(60, noise=NOISE, seed=4), "random", 0.3, seed=1), heat(), {})


@recipe
def mean() -> Case:
    """Two modes around `MEAN`."""
    return Case(sl.simulate(two_modes(), 20, seed=0), two_modes(), {"mean": "constant"})


@recipe
def forced() -> Case:
    """Four modes under a forcing that is known."""
    knots = np.array([0.0, 0.2, 0.5, 0.8, 1.5])
    push = sl.Forcing(knots, 6.0 * np.random.default_rng(3).standard_normal((5, 4)))
    equation = dataclasses.replace(heat(4), forcing=push)
    return Case(sl.simulate(equation, 150, seed=1), equation, {"forcing": push, "mean": "zero"})


@recipe
def seasonal() -> Case:
    """Three modes with noise of four seasons, over four years."""
    season, times = sl.Season(1.0, WEIGHTS), np.linspace(0.0, 4.0, 161)
    equation = dataclasses.replace(heat(), season=season, times=times)
    return Case(sl.simulate(equation, 40, seed=0), equation, {"season": sl.Season(1.0, 4)})


@recipe
def dense() -> Case:
    """Five modes of a ring that are coupled by drift and noise."""
    equation = coupled.equation("dense", "dense")
    words = {"drift": "dense", "noise": "dense", "initial": "stationary"}
    return Case(coupled.fields(equation), equation, words)


@recipe
def chaos() -> Case:
    """Eight modes of heat, the chaos with all of its tail."""
    equation = heat(8)
    return Case(sl.simulate(equation, 100, seed=1), equation, {"engine": "chaos"})


@recipe
def chaos_dropped() -> Case:
    """The same without the tail."""
    data, equation, words = case("chaos")
    return Case(data, equation, {**words, "tail": "dropped"})


@recipe
def reaction() -> Case:
    """Allen-Cahn, complete and without noise: closure of transitions."""
    start = sl.Gaussian(0.0, 1.0 / np.arange(1.0, 6.0) ** 2)
    equation = sl.catalogue.allen_cahn(5, times=0.1 * np.arange(41), initial=start)
    data = sl.simulate(equation, 8, grid=equation.domain.grid(16), seed=0)
    return Case(data, equation, {"terms": ("u", "u^3")})


@recipe
def reaction_gaps() -> Case:
    """Ten paths of it with noise of 0.1 and 30 % missing: the closure filter."""
    _, equation, words = case("reaction")
    grid = equation.domain.grid(16)
    data = sl.simulate(equation, 10, grid=grid, seed=0, observation_std=0.1)
    return Case(sl.mask(data, "random", 0.3, seed=0), equation, words)


@recipe
def two_fields() -> Case:
    """FitzHugh-Nagumo: two fields that drive one another."""
    equation = sl.catalogue.fitzhugh_nagumo(3, times=0.1 * np.arange(81))
    words = {"terms": TERMS, "fixed": {"nu v": 0.0}}
    words |= {"domain": equation.domain.domain, "n_modes": 3}
    return Case(sl.simulate(equation, 8, seed=5), equation, words)
