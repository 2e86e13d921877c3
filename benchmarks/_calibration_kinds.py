"""Kinds of data for the calibration: a true law, how it is observed, and what is fitted.

Data sets are small, so that thousands can be run. Those of the first group are of the fitted
model, and every statement about them must be true; those of the second are of another one, and
must be noticed.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

import spdelaw as sl

POINTS = np.linspace(0.0, np.pi, 17)
RING = sl.Interval(0.0, 2.0 * np.pi, "periodic")


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of data.

    Attributes:
        name: for the table.
        truth: equation behind the data.
        paths, times: numbers for training; (paths, times) of the test data, where they differ.
        step: between times.
        noise: standard deviation of the observation noise.
        gaps: pattern and share of what is missing; "own times" for clocks of each path's own.
        words: of the fit.
        wrong: where the fitted model is wrong, a word that the advice must have.
        right: words of the model that is right then, where there is one.
        make: data sets that no linear equation makes, from paths, times and a seed.
        scale: unit of the values.
        ladder: words of models each of which holds the one before it.
        terms: true nu and coefficients of a semilinear law, whose intervals alone are judged.
        draws: laws drawn around the one that was found, so that bands know how well it is known.
        turns: data sets in one round.
    """

    name: str
    truth: sl.SpectralSPDE
    paths: int = 20
    times: int = 41
    test: tuple[int, int] | None = None
    step: float = 0.05
    noise: float = 0.0
    gaps: tuple[str, float] | None = None
    words: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    wrong: str = ""
    right: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    make: Callable[[int, int, int], xr.DataArray] | None = None
    scale: float = 1.0
    ladder: tuple[Mapping[str, Any], ...] = ()
    terms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    draws: int = 0
    turns: int = 4

    @property
    def couples(self) -> bool:
        """Whether a law of coupled modes is fitted."""
        words = [self.words, *self.ladder]
        rich = ("dense", "normal", "low_rank")
        return any(own.get(key) in rich for own in words for key in ("drift", "noise"))

    def data(self, seed: int, test: bool = False) -> xr.DataArray:
        """A data set; every kind, training and test have seeds of their own."""
        paths, times = self.test if test and self.test else (self.paths, self.times)
        own = zlib.crc32(f"{self.name}, {seed}, {test}".encode())
        if self.make is not None:
            return self.make(paths, times, own)
        clock = self.step * np.arange(times)
        if self.gaps and self.gaps[0] == "own times":
            return self.scale * own_times(self.truth, paths, clock, self.noise, own)
        fields = sl.simulate(
            self.truth, paths, clock, self.grid, seed=own, observation_std=self.noise
        )
        if self.gaps:
            fields = sl.mask(fields, self.gaps[0], fraction=self.gaps[1], seed=own)
        return self.scale * fields

    @property
    def grid(self) -> Any:
        """Points of observation."""
        ring = self.truth.domain == RING
        return np.linspace(0, 2 * np.pi, 16, endpoint=False) if ring else POINTS


def own_times(
    truth: sl.SpectralSPDE, paths: int, clock: np.ndarray, noise: float, seed: int
) -> xr.DataArray:
    """Each path at times of its own."""
    generator, rows, times = np.random.default_rng(seed), [], []
    for path in range(paths):
        t = np.sort(generator.uniform(clock[0], clock[-1], len(clock)))
        t[0] = clock[0]
        one = sl.simulate(truth, 1, t, POINTS, seed=1000 * seed + path, observation_std=noise)
        rows.append(one.values[0])
        times.append(t)
    fields = sl.as_fields(np.array(rows), times=np.arange(len(clock)), points=POINTS)
    return fields.assign_coords(path_time=(("path", "time"), np.array(times)))


def heat(n: int = 3, initial: Any = "stationary", speed: float = 1.0) -> sl.SpectralSPDE:
    """Eigenvalues ``speed n^2``, noise ``1 / n``."""
    modes = np.arange(1, n + 1, dtype=float)
    interval = sl.Interval(0.0, np.pi)
    return sl.SpectralSPDE(interval, n, speed * modes**2, noise=1.0 / modes, initial=initial)


def slow_and_fast(mean: float = 0.0, initial: Any = "stationary") -> sl.SpectralSPDE:
    """Two modes with the rates 1 and 4; the slow one has a mean, in its deviations."""
    rates = np.array([1.0, 4.0])
    equation = sl.SpectralSPDE(sl.Interval(0.0, np.pi), 2, rates, noise=rates, initial=initial)
    return dataclasses.replace(equation, centre=np.array([mean * np.sqrt(0.5), 0.0]))


def around() -> sl.SpectralSPDE:
    """Fluctuations around ``2 sin(x) - sin(2 x) / 2``, up to a factor."""
    return dataclasses.replace(heat(), centre=np.array([2.0, -0.5, 0.0]))


def coupled(noise: bool = False, drift: bool = True) -> sl.SpectralSPDE:
    """Three modes, the first two of which turn into one another or are forced together."""
    matrix, q = np.diag([1.0, 3.0, 8.0]), np.diag([1.0, 0.5, 0.3])
    if drift:
        matrix[0, 1], matrix[1, 0] = 2.0, -2.0
    if noise:
        q[0, 1] = q[1, 0] = 0.4
    return sl.SpectralSPDE(sl.Interval(0, np.pi), 3, matrix, noise=q, initial="stationary")


def turning() -> sl.SpectralSPDE:
    """A wave that travels around a ring."""
    equation = sl.catalogue.advection_diffusion(3, speed=1.0)
    return dataclasses.replace(equation, initial="stationary")


def ring() -> sl.SpectralSPDE:
    """Eight modes on a ring, for data that a linear equation does not make."""
    return sl.SpectralSPDE(RING, 8, np.ones(8), noise=np.ones(8))


def shifted(paths: int, times: int, seed: int) -> xr.DataArray:
    """Fluctuations around sin(x)."""
    fields = sl.simulate(heat(), paths, 0.05 * np.arange(times), POINTS, seed=seed)
    return fields + np.sin(POINTS)


def bent(name: str) -> Callable[[int, int, int], xr.DataArray]:
    """Data of a semilinear equation of the catalogue, 8 modes on 17 points of a ring."""

    def make(paths: int, times: int, seed: int) -> xr.DataArray:
        equation = getattr(sl.catalogue, name)(8)
        points = np.linspace(0, 2 * np.pi, 17, endpoint=False)
        return sl.simulate(equation, paths, 0.05 * np.arange(times), points, seed=seed)

    return make


def bimodal(paths: int, times: int, seed: int) -> xr.DataArray:
    """Allen-Cahn ``du = (0.02 u_xx + 4 u - 4 u^3) dt + dW`` by small Euler steps."""
    generator, n, inner = np.random.default_rng(seed), 8, 20
    modes, domain = np.arange(1, n + 1), sl.Interval(0.0, np.pi)
    phi, weight, h = domain.eigenfunctions(POINTS, n), np.pi / (len(POINTS) - 1), 0.05 / inner
    c, rows = 0.1 * generator.standard_normal((paths, n)), []
    for _ in range(times):
        rows.append(c)
        for _ in range(inner):
            u = c @ phi.T
            drift = weight * (4.0 * (u - u**3)) @ phi - 0.02 * modes**2 * c
            shock = np.sqrt(0.15 / modes * h) * generator.standard_normal(c.shape)
            c = c + h * drift + shock
    values = np.stack(rows, 1) @ phi.T
    return sl.as_fields(values, times=0.05 * np.arange(times), points=POINTS)


def reacting(powers: Mapping[int, float], noise: Callable, first: float) -> Callable:
    """Data of ``du = (0.05 u_xx + sum_p a_p u^p) dt + dW`` by small exponential Heun steps.

    Nine modes on 21 points of a ring, plain NumPy; ``noise`` gives the variance of a wavenumber,
    ``first`` the mean of the first fields.
    """

    def make(paths: int, times: int, seed: int) -> xr.DataArray:
        generator, n, inner = np.random.default_rng(seed), 9, 20
        x, h, k = np.arange(42) * np.pi / 21, 0.1 / inner, (np.arange(n) + 1) // 2
        phi = np.stack([np.cos(j * x) if m % 2 else np.sin(j * x) for m, j in enumerate(k)], 1)
        phi[:, 0] = np.sqrt(0.5)
        phi, q, rate = phi / np.sqrt(np.pi), noise(k), 0.05 * k**2 + 1e-9
        decay, size = np.exp(-rate * h), np.sqrt(-q * np.expm1(-2 * rate * h) / (2 * rate))

        def push(c: np.ndarray) -> np.ndarray:
            u = c @ phi.T
            force = np.pi / 21 * sum(a * u**p for p, a in powers.items()) @ phi
            return -np.expm1(-rate * h) / rate * force

        c, rows = 0.2 * generator.standard_normal((paths, n)) / (1 + k), []
        c[:, 0] += np.sqrt(2 * np.pi) * first
        for _ in range(times):
            rows.append(c)
            for _ in range(inner):
                before = push(c)
                ahead = decay * c + before + size * generator.standard_normal(c.shape)
                c = ahead + 0.5 * (push(ahead) - before)
        values = (np.stack(rows, 1) @ phi.T)[..., ::2]
        return sl.as_fields(values, times=0.1 * np.arange(times), points=x[::2])

    return make


def uneven(paths: int, times: int, seed: int) -> xr.DataArray:
    """Noise of deviation ``sqrt(1 + c^2)``."""
    generator, truth = np.random.default_rng(seed), heat()
    c, rows, h = np.zeros((paths, 3)), [], 0.05
    a = np.exp(-truth.eigenvalues * h)
    size = np.sqrt(truth.noise_variance * (1 - a**2) / (2 * truth.eigenvalues))
    for _ in range(times):
        rows.append(c)
        c = a * c + size * np.sqrt(1.0 + 4.0 * c**2) * generator.standard_normal(c.shape)
    values = truth.domain.synthesise(np.stack(rows, 1), POINTS)
    return sl.as_fields(values, times=h * np.arange(times), points=POINTS)


STATIONARY = {"initial": "stationary"}
KNOWN = {"initial": "deterministic"}
#: Laws drawn where one or a few short paths leave the law poorly known.
DRAWS = 12
NOISY = {"observation_noise": "estimate", "nuisance": 0}

RIGHT = (
    Kind("1 path of 100 against 1 of 2,000", heat(), 1, 100, (1, 2000), words=STATIONARY,
         draws=DRAWS),
    Kind("1 path of 2,000 against 1 of 100", heat(), 1, 2000, (1, 100), words=STATIONARY),
    Kind("200 paths against 5 of 11", heat(), 200, 11, (5, 11), words=STATIONARY),
    Kind("5 paths of 11 against 200", heat(), 5, 11, (200, 11), words=STATIONARY, draws=DRAWS),
    Kind("1 path against 1", heat(), 1, 200, words=STATIONARY, draws=DRAWS),
    Kind("20 paths, default options", heat()),
    Kind("known start", heat(initial=[1.0, 0.5, 0.2]), words=KNOWN),
    Kind("Gaussian start", heat(), words={"initial": "gaussian"}),
    Kind("slow: lambda T from 0.2", heat(speed=0.1), words=STATIONARY),
    Kind("fast: lambda dt to 9", heat(speed=20.0), words=STATIONARY),
    Kind("small noise", heat(), noise=0.02, words=STATIONARY | NOISY),
    Kind("noise of half the signal", heat(), noise=0.3, words=STATIONARY | NOISY, turns=2),
    Kind("noise above the signal", heat(), noise=1.0, words=STATIONARY | NOISY, turns=2),
    Kind("noise, default options", heat(), noise=0.1, turns=2),
    Kind("around a mean", around(), words=STATIONARY | {"mean": "constant"}),
    Kind("around a mean, noisy, 30 % missing", around(), 10, 31, noise=0.1, gaps=("random", 0.3),
         words=STATIONARY | NOISY | {"mean": "constant"}, turns=1),
    Kind("units 1e9", heat(), noise=0.1, scale=1e9, words=STATIONARY | NOISY, turns=2),
    Kind("units 1e-9", heat(), scale=1e-9, words=STATIONARY),
    Kind("parametric", heat(4), words=STATIONARY | {"drift": "parametric"}),
    Kind("normal, on a ring", turning(), words=STATIONARY | {"drift": "normal"}),
    Kind("dense drift", coupled(), words=STATIONARY | {"drift": "dense"}),
    Kind("dense noise", coupled(True, False), words=STATIONARY | {"noise": "dense"}),
    Kind("dense drift and noise, noisy", coupled(True), 20, 41, noise=0.1,
         words=STATIONARY | NOISY | {"drift": "dense", "noise": "dense"}, turns=1),
    Kind("30 % missing at random", heat(), 10, 31, noise=0.1, gaps=("random", 0.3),
         words=STATIONARY | NOISY, turns=1),
    Kind("half missing, default options", heat(6), 5, 31, noise=0.1, gaps=("random", 0.5), turns=1),
    Kind("80 % missing at random", heat(), 10, 31, noise=0.1, gaps=("random", 0.8),
         words=STATIONARY | NOISY, turns=1),
    Kind("90 % missing at random", heat(), 20, 31, noise=0.1, gaps=("random", 0.9),
         words=STATIONARY | NOISY, turns=1),
    Kind("95 % missing at random", heat(), 20, 31, noise=0.1, gaps=("random", 0.95),
         words=STATIONARY | NOISY, turns=1),
    Kind("sensors, 60 % missing", heat(), 10, 31, noise=0.1, gaps=("sensors", 0.6),
         words=STATIONARY | NOISY, turns=1),
    Kind("clouds (blocks), 40 % missing", heat(), 10, 31, noise=0.1, gaps=("blocks", 0.4),
         words=STATIONARY | NOISY, turns=1),
    Kind("rows, 50 % missing", heat(), 10, 31, noise=0.1, gaps=("rows", 0.5),
         words=STATIONARY | NOISY, turns=1),
    Kind("own times", heat(), 10, 31, noise=0.1, gaps=("own times", 0.0),
         words=STATIONARY | NOISY, turns=1),
    Kind("dense, 30 % missing", coupled(), 6, 31, noise=0.1, gaps=("random", 0.3),
         words=STATIONARY | NOISY | {"drift": "dense"}, turns=1),
)  # fmt: skip

#: What people bring, with default options: a mean in a slow mode or none, few and sparse paths.
LAYOUTS = (
    ("1 path of 20 decay times", 1, 401, "stationary"),
    ("8 paths of 3 decay times", 8, 61, "stationary"),
    ("40 paths of 1 decay time, common start", 40, 21, [0.0, 0.0]),
)
DEFAULTS = (
    *(
        Kind(f"{layout}, {what}, defaults", slow_and_fast(mean, initial), paths, times, turns=2)
        for mean, what in ((1.4, "mean in the slow mode"), (0.0, "no mean"))
        for layout, paths, times, initial in LAYOUTS
    ),
    Kind("8 paths, 60 % missing, defaults", heat(), 8, 31, noise=0.1, gaps=("random", 0.6),
         turns=1),
    Kind("8 paths, 80 % missing, defaults", heat(), 8, 31, noise=0.1, gaps=("random", 0.8),
         turns=1),
    Kind("8 paths, 85 % missing, large noise, defaults", heat(), 8, 31, noise=0.3,
         gaps=("random", 0.85), turns=1),
    Kind("2 paths of 12 times, noisy, defaults", heat(), 2, 12, noise=0.1, draws=DRAWS, turns=1),
)  # fmt: skip

WRONG = (
    Kind("a mean: around sin(x)", heat(), make=shifted, wrong="mean=", turns=1,
         words={"initial": "gaussian", "mean": "zero"}, right={"mean": "constant"}),
    Kind("bimodal Allen-Cahn, 20 x 41", heat(4), make=bimodal, wrong="sl.discover", turns=1),
    Kind("noise that grows with the state", heat(), make=uneven, wrong="grows", turns=1),
    Kind("Burgers, fitted linearly", ring(), 1, 400, make=bent("burgers"), wrong="sl.discover",
         turns=1),
    Kind("Nagumo, fitted linearly", ring(), 1, 400, make=bent("nagumo"), wrong="sl.discover",
         turns=1),
    Kind("coupled, fitted diagonal", coupled(), words=STATIONARY, wrong="drift=", turns=1,
         right={"drift": "dense"}),
    Kind("correlated noise, fitted diagonal", coupled(True, False), words=STATIONARY,
         wrong="noise=", turns=1, right={"noise": "dense"}),
    Kind("noise, fitted without", heat(), noise=0.2, wrong="observation_noise=", turns=1,
         words=STATIONARY | {"observation_noise": "none"},
         right={"observation_noise": "estimate"}),
)  # fmt: skip

DECIDED = STATIONARY | {"nuisance": 0, "mean": "zero", "residual": "white"}
WHITE, NONE = DECIDED | {"observation_noise": "estimate"}, DECIDED | {"observation_noise": "none"}
DRIFTS = tuple({"drift": word} for word in ("parametric", "diagonal", "dense"))
NOISES = ({"noise": "diagonal"}, {"noise": "low_rank"}, {"noise": "dense"})
TURNS = ({"drift": "normal"}, {"drift": "dense"})

NESTED = (
    Kind("parametric, diagonal, dense", heat(4), words=NONE, ladder=DRIFTS, turns=1),
    Kind("the same, noisy", coupled(), noise=0.1, words=WHITE, ladder=DRIFTS, turns=1),
    Kind("the same, 60 % missing", coupled(), 10, 31, noise=0.1, gaps=("random", 0.6),
         words=WHITE, ladder=DRIFTS, turns=1),
    Kind("normal, dense", turning(), words=NONE, ladder=TURNS, turns=1),
    Kind("normal, dense, noisy", turning(), noise=0.1, words=WHITE, ladder=TURNS, turns=1),
    Kind("noise diagonal, low rank, dense", heat(4), words=NONE, ladder=NOISES, turns=1),
    Kind("the same, coupled and noisy", heat(4), noise=0.1, words=WHITE | {"drift": "dense"},
         ladder=NOISES, turns=1),
)  # fmt: skip

CUBIC = {"nu": 0.05, "u": 1.0, "u^3": -1.0}
FISHER = {"nu": 0.05, "u": 1.0, "u^2": -1.0, "u^3": 0.0}
NINE = sl.SpectralSPDE(RING, 9, np.ones(9), noise=np.ones(9))

REACTING = (
    Kind("smooth semilinear noise", NINE, 10, 61, terms=CUBIC, turns=1,
         make=reacting({1: 1.0, 3: -1.0}, lambda k: 0.09 * np.exp(-(k**2) / 8), 0.0)),
    Kind("semilinear, one long path", NINE, 1, 1001, terms=CUBIC, turns=1,
         make=reacting({1: 1.0, 3: -1.0}, lambda k: 0.09 / (1 + k**2), 0.0)),
    Kind("Fisher-KPP, one term too many", NINE, 10, 81, terms=FISHER, turns=1,
         make=reacting({1: 1.0, 2: -1.0}, lambda k: 0.004 / (1 + k**2), 0.4)),
)  # fmt: skip

KINDS = RIGHT + DEFAULTS + REACTING + WRONG + NESTED
