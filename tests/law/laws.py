"""Small laws of every kind, made from their numbers: no estimation stands between test and law."""

from functools import cache

import numpy as np
import xarray as xr
from tests.statespace.numbers import Numbers

import spdelaw as sl
from spdelaw.law.io import coordinates_dataset
from spdelaw.law.law import Law
from spdelaw.law.parameters import Quantity, parameters_dataset
from spdelaw.processes import operators
from spdelaw.processes.linear import Dynamics, Linear
from spdelaw.processes.specification import InitialState
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.statistics import collect

INTERVAL = sl.Interval(0.0, np.pi)
TIMES = np.linspace(0.0, 1.0, 21)
POINTS = INTERVAL.grid(10)
NOISE = 0.05
#: Relative standard error of every number of drift and noise.
RELATIVE = 0.1
#: By how much the laws differ from the equation behind the data.
OFF = np.array([1.07, 0.95, 1.1, 0.9, 1.05])


def heat(initial: str = "bump", n_modes: int = 3) -> sl.SpectralSPDE:
    if initial == "gaussian":
        return sl.catalogue.heat(n_modes, initial=sl.Gaussian([1.5, 0.6, -0.8], [0.5, 0.3, 0.1]))
    return sl.catalogue.heat(n_modes, **({"initial": initial} if initial != "bump" else {}))


def fields(
    initial: str = "bump",
    noise: float = 0.0,
    n_paths: int = 60,
    seed: int = 0,
    times: np.ndarray = TIMES,
) -> xr.DataArray:
    return sl.simulate(heat(initial), n_paths, times, POINTS, seed=seed, observation_std=noise)


def table(space: StateSpace, n: int) -> xr.Dataset:
    """Parameters of the first modes with their standard errors."""
    d, start = space.dynamics, space.initial.leading(n)
    names = ("eigenvalue", "noise_variance") if d.is_diagonal else ("drift", "noise_covariance")
    numbers = [operators.leading(a, n) for a in (d.drift, d.noise)]
    if not d.is_diagonal:
        numbers = [operators.as_matrix(a) for a in numbers]
    std = np.sqrt(space.observation_variance)
    quantities = {
        **{
            name: Quantity(a, RELATIVE * np.abs(a), a.ndim == 1 or np.eye(n, dtype=bool))
            for name, a in zip(names, numbers, strict=True)
        },
        "initial_mean": Quantity(start.mean, RELATIVE * np.abs(start.mean), False),
        "observation_std": Quantity(std, RELATIVE * std, True),
    }
    if start.kind == "gaussian":
        v = operators.diagonal(start.covariance)
        quantities["initial_variance"] = Quantity(v, RELATIVE * v, True)
    if d.season is not None:
        w = d.season.weights
        quantities["season"] = Quantity(w, RELATIVE * w, True)
    return parameters_dataset(quantities, 0.95, {"initial_state": start.kind})


def coordinates(dynamics: Linear) -> xr.Dataset:
    """Logarithms of all numbers, each with the same standard error."""
    numbers = np.concatenate([dynamics.drift.ravel(), dynamics.noise.ravel()])
    n = len(numbers)
    names = [f"number[{i + 1}]" for i in range(n)]
    logs = np.log(np.abs(numbers) + (numbers == 0))
    return coordinates_dataset(names, logs, RELATIVE**2 * np.eye(n), np.diag(numbers))


def make(
    dynamics: Dynamics,
    initial: InitialState,
    variance: float | np.ndarray,
    domain: sl.AbstractDomain = INTERVAL,
    points: np.ndarray = POINTS,
    times: np.ndarray = TIMES,
    n_modes: int | None = None,
    **more,
) -> Law:
    """A law of given numbers."""
    n = dynamics.n_modes if n_modes is None else n_modes
    space = StateSpace(dynamics, initial, np.asarray(variance, float))
    given = {
        "parameters": table(space, n) if "parameters" not in more else None,
        "coordinates": coordinates(dynamics) if isinstance(dynamics, Linear) else None,
        "unresolved_variance": 0.0,
    }
    info = {
        "engine": "exact",
        "route": "by hand",
        "n_paths": 60,
        "n_times": len(times),
        "n_points": len(points),
        "n_parameters": 6,
        "n_nuisance": dynamics.n_modes - n,
        "log_likelihood": -12.5,
        **dict.fromkeys(("drift", "noise"), "diagonal" if space.is_diagonal else "dense"),
        "warnings": [],
        "version": sl.__version__,
        "seconds": {"maximise": 0.5},
    }
    return Law(
        domain=domain,
        n_modes=n,
        dynamics=dynamics,
        initial=initial,
        observation_variance=space.observation_variance,
        times=times,
        points=points,
        info={**info, **more.pop("info", {})},
        **{**given, **more},
    )


def near(equation: sl.SpectralSPDE) -> tuple[Linear, InitialState]:
    """Dynamics and start close to those of an equation; a start that is one point stays it."""
    d, start = equation.dynamics, equation.initial_state
    off = OFF[: d.n_modes]
    drift = d.drift * (off if d.drift.ndim == 1 else 1.07)
    noise = d.noise * (off[::-1] if d.noise.ndim == 1 else np.sqrt(np.outer(off, off)))
    own = Linear(drift, noise, d.season, d.forcing, d.origin)
    if start.kind == "stationary":
        return own, start._replace(covariance=operators.stationary_covariance(drift, noise))
    return own, start if start.kind == "deterministic" else start._replace(mean=start.mean * off)


@cache
def law(initial: str = "bump", noise: float = 0.0) -> Law:
    dynamics, start = near(heat(initial))
    phi = INTERVAL.eigenfunctions(POINTS, 3)
    data = fields(initial)
    statistics = None if noise else collect([data.values], TIMES, np.linalg.pinv(phi), phi)
    return make(dynamics, start, noise**2, statistics=statistics)


@cache
def point_noise_law() -> Law:
    return make(*near(heat()), np.linspace(0.02, 0.2, len(POINTS)) ** 2)


@cache
def nuisance_law() -> Law:
    equation = sl.catalogue.ornstein_uhlenbeck(n_modes=4)
    grid = equation.domain.grid(20)
    return make(*near(equation), 1e-4, equation.domain, grid, n_modes=2)


def numbers(some: Law, variance: float | None = None) -> Numbers:
    """The law for the oracle, with the noise that acts."""
    d, start = some.dynamics, some.initial
    r = some.observation_variance if variance is None else np.asarray(variance)
    return Numbers(
        d.drift, d.noise, start.mean, start.covariance, r, start.kind, d.season, d.forcing, d.origin
    )


def basis(some: Law, points: np.ndarray = POINTS) -> np.ndarray:
    return some.domain.eigenfunctions(points, some.dynamics.n_modes)
