"""The fits that `benchmarks.regression` keeps: one line or one function a case."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks._regression_data import INTERVAL, Data, dated, gridded, make

import numpy as np  # isort: skip
import xarray as xr  # isort: skip
from scipy.spatial import Delaunay  # isort: skip

import spdelaw as sl  # isort: skip

Array = np.ndarray

#: Irregular points, which tell modes apart only together.
SCATTERED = np.array([0.21, 0.38, 0.77, 0.92, 1.31, 1.48, 1.83, 2.11, 2.39, 2.56, 2.84])
#: A drift that couples three modes, two of them turning; a noise that couples them.
DENSE_DRIFT = np.array([[1.0, 0.8, 0.0], [-0.8, 1.5, 0.4], [0.2, 0.0, 3.0]])
DENSE_NOISE = np.array([[1.0, 0.3, 0.1], [0.3, 0.6, -0.2], [0.1, -0.2, 0.4]])
#: The same for five modes of a ring: a constant and two pairs that decay and turn.
TURNING = np.array(
    [
        [0.5, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.5, 2.0, 0.0, 0.0],
        [0.0, -2.0, 1.5, 0.0, 0.0],
        [0.0, 0.0, 0.0, 4.5, 4.0],
        [0.0, 0.0, 0.0, -4.0, 4.5],
    ]
)
PAIRED = np.array([1.0, 0.5, 0.5, 0.3, 0.3])
#: One pattern in addition to noise of each mode.
PATTERN = np.array([0.8, -0.5, 0.4, 0.3])
LOW_RANK = np.diag([0.4, 0.3, 0.2, 0.2]) + np.outer(PATTERN, PATTERN)
NOISE = 0.1


@dataclasses.dataclass(frozen=True)
class Case:
    """A data set with the way to learn its law.

    Attributes:
        data: the fields.
        n_modes: as in `spdelaw.fit`.
        words: other keywords of `spdelaw.fit`.
        forecast: times to forecast the new fields at.
        grid: where, by default at the points of the data.
        is_training: whether the law comes from a training, which has a tolerance of its own.
        n_first: where not None, the paths of a first fit that the others are added to.
    """

    data: Data
    n_modes: int | str
    words: dict[str, Any]
    forecast: Any = (1.55, 1.9)
    grid: Any = None
    is_training: bool = False
    n_first: int | None = None

    def learn(self) -> sl.Law:
        """The law of the data."""
        train, domain = self.data.train, self.data.domain
        if self.n_first is None:
            return sl.fit(train, domain, self.n_modes, **self.words)
        first = sl.fit(train[: self.n_first], domain, self.n_modes, **self.words)
        return sl.update(first, train[self.n_first :])


def _interval(n_modes: int | str = 3, *, like: dict[str, Any] | None = None, **words: Any) -> Case:
    """A fit of fields on (0, pi) that are made ``like`` this."""
    return Case(make(**(like or {})), n_modes, words, grid=(0.5, 1.7))


def _on(domain: Any, n_modes: int = 3, *, like: dict[str, Any] | None = None, **words: Any) -> Case:
    """A fit of fields on another domain."""
    return Case(make(domain, **{"n_true": n_modes, **(like or {})}), n_modes, words)


def _noisy(**more: Any) -> dict[str, Any]:
    return {"error": NOISE, **more}


# -- the longer ones -----------------------------------------------------------------------


def _push(t: float) -> Array:
    return np.array([2.0 - t, 1.0, 0.0])


def _forcing() -> sl.Forcing:
    times = np.arange(22) / 10.0
    return sl.Forcing(times, np.stack([_push(t) for t in times]))


def _forcing_fields() -> xr.DataArray:
    """The same as fields."""
    forcing, x = _forcing(), INTERVAL.grid(17)
    modes = np.round(INTERVAL.eigenfunctions(x, 3), 11)
    values = (forcing.coefficients[:, None] * modes).sum(-1)
    return xr.DataArray(values, {"time": forcing.times, "x": x}, ["time", "x"])


def _season_at(t: float) -> float:
    return (1.6, 0.4)[int(np.floor(2.0 * t)) % 2]


def _scattered() -> Case:
    """Noise-free fields of many, ever weaker modes on points that mix them."""
    x = np.round(np.sort(np.random.default_rng(3).uniform(0.1, 3.04, 21)), 3)
    noise = np.round(1.0 / np.arange(1.0, 25.0) ** 8, 15)
    like = {"points": x, "n_true": 24, "noise": noise, "n_paths": 20, "n_times": 24}
    return dataclasses.replace(_interval(2, like=like), forecast=(2.35, 2.7))


def _prepared() -> Case:
    data = dated(make(n_paths=1, n_times=60, points=9, n_true=2, clock="even"))
    words = {"prepare": sl.Preparation(anomalies="month", detrend=True, standardise="point")}
    later = np.array(["2006-01-15", "2006-03-01"], dtype="M8[ns]")
    return Case(data, 2, words, forecast=later)


def _disk() -> Case:
    disk = sl.Disk(1.0)
    case = _on(disk, 3, like=_noisy(points=disk.grid(9)))
    return dataclasses.replace(case, data=gridded(case.data))


def _mesh() -> sl.Mesh:
    """A triangle without symmetry."""
    i, j = np.meshgrid(np.arange(6), np.arange(6))
    inside = i + j <= 5
    nodes = np.stack([0.5 * i[inside] + 0.07 * j[inside], 0.31 * j[inside]], axis=1)
    return sl.Mesh(nodes, Delaunay(nodes).simplices, n_modes=4)


def _graph() -> sl.Graph:
    """A path of nine vertices with weights that differ, and one chord."""
    w = np.diag(1.0 + 0.1 * np.arange(8), 1)
    w[1, 6] = 0.3
    return sl.Graph(w + w.T, n_modes=5)


def _empirical() -> Case:
    """Patterns of the data themselves."""
    data = make(n_true=5, spread=0.5, error=NOISE)
    domain = sl.Empirical(data.train, n_modes=3, weights=INTERVAL)
    return Case(dataclasses.replace(data, domain=domain), 3, {})


def _point_noise() -> Array:
    return 0.05 + 0.01 * np.arange(17)


def _trained(preset: str, like: dict[str, Any], **words: Any) -> Case:
    """A training; "literal" is what 0.1 called "paper"."""
    words = {"engine": "amortized", "preset": preset, "n_time": 4, "seed": 1, **words}
    return Case(make(**like), 2, words, is_training=True)


_TINY = {
    "epochs": 3, "batch_size": 8, "n_reference": 4, "n_hidden": 6, "n_embedding": 4,
}  # fmt: skip
_RING = sl.Interval(0, 2 * np.pi, "periodic")

CASES: dict[str, Callable[[], Case]] = {
    # data of every kind
    "complete": _interval,
    "complete_uneven_times": lambda: _interval(like={"clock": "uneven"}),
    "complete_further_modes": lambda: _interval(like={"n_true": 6}),
    "complete_scattered": _scattered,
    "one_path": lambda: _interval(like={"n_paths": 1, "n_times": 80}),
    "one_path_noisy_gaps": lambda: _interval(
        2, like=_noisy(n_paths=1, n_times=80, n_true=2, gaps="random")
    ),
    "noisy": lambda: _interval(like=_noisy()),
    "noisy_many_paths": lambda: _interval(like=_noisy(n_paths=40, n_times=12)),
    "noisy_further_modes": lambda: _interval(like=_noisy(n_true=6)),
    "noisy_scattered": lambda: _interval(2, like=_noisy(n_true=4, points=SCATTERED)),
    "gaps_random": lambda: _interval(like=_noisy(gaps="random")),
    "gaps_rows": lambda: _interval(like=_noisy(gaps="rows")),
    "gaps_sensors": lambda: _interval(like=_noisy(gaps="sensors")),
    "gaps_blocks": lambda: _interval(like=_noisy(gaps="blocks")),
    "gaps_many_paths": lambda: _interval(
        2, like=_noisy(n_true=2, n_paths=200, n_times=8, points=9, gaps="random")
    ),
    "gaps_noise_free": lambda: _interval(like={"gaps": "random"}),
    "own_times": lambda: _interval(like=_noisy(clock="own")),
    "own_times_gaps": lambda: _interval(like=_noisy(clock="own", gaps="random")),
    "own_times_ragged": lambda: _interval(like=_noisy(clock="ragged", spread=0.5)),
    # what is asked for
    "modes_auto": lambda: _interval("auto", like=_noisy(n_true=2, n_paths=8)),
    "modes_auto_noise_free": lambda: _interval("auto"),
    "nuisance_number": lambda: _interval(2, like=_noisy(n_true=4, gaps="random"), nuisance=2),
    "nuisance_number_noise_free": lambda: _interval(
        2, like={"n_true": 4, "points": SCATTERED}, nuisance=2
    ),
    "nuisance_none": lambda: _interval(2, like={"n_true": 4, "points": SCATTERED}, nuisance=0),
    "noise_none": lambda: _interval(like={"gaps": "rows"}, observation_noise="none"),
    "noise_estimate": lambda: _interval(
        like=_noisy(clock="uneven", spread=0.5), observation_noise="estimate"
    ),
    "noise_per_point": lambda: _interval(
        like={"error": _point_noise()}, observation_noise="per_point"
    ),
    "noise_known": lambda: _interval(like=_noisy(gaps="random"), observation_noise=NOISE),
    "noise_known_points": lambda: _interval(
        like={"error": _point_noise()}, observation_noise=_point_noise()
    ),
    "initial_deterministic": lambda: _interval(
        like=_noisy(spread=0.02, gaps="rows"), initial="deterministic"
    ),
    "initial_gaussian": lambda: _interval(like={"spread": 0.5}, initial="gaussian"),
    "initial_gaussian_noisy": lambda: _interval(like=_noisy(spread=0.5), initial="gaussian"),
    "initial_stationary": lambda: _interval(
        like={"start": 0.0, "spread": 0.4}, initial="stationary"
    ),
    "initial_stationary_gaps": lambda: _interval(
        like=_noisy(start=0.0, spread=0.4, gaps="random"), initial="stationary"
    ),
    "fixed": lambda: _interval(
        like=_noisy(), fixed={"eigenvalue": [1.5, np.nan, np.nan], "noise_variance[3]": 0.3}
    ),
    "priors": lambda: _interval(
        like={"n_paths": 4},
        priors={"eigenvalue": sl.LogNormal(4.0, 0.5), "noise_variance[1]": sl.Normal(1.0, 0.1)},
    ),
    "bootstrap": lambda: _interval(2, like={"n_true": 2, "n_paths": 6}, bootstrap=8, seed=3),
    "update": lambda: dataclasses.replace(_interval(), n_first=7),
    "update_dense": lambda: dataclasses.replace(
        _interval(like={"drift": DENSE_DRIFT, "noise": DENSE_NOISE}, drift="dense"), n_first=7
    ),
    "prepare": _prepared,
    # drift and noise in other words
    "drift_parametric": lambda: _interval(drift="parametric", noise="parametric"),
    "drift_parametric_many_paths": lambda: _interval(
        like={"n_paths": 60, "spread": 0.5}, drift="parametric"
    ),
    "drift_parametric_sensors": lambda: _interval(
        like=_noisy(points=SCATTERED, gaps="random"), drift="parametric", noise="parametric",
        fixed={"s": 1.0},
    ),
    "drift_normal": lambda: _on(
        _RING, 5, like={"drift": TURNING, "noise": PAIRED, "points": 12}, drift="normal"
    ),
    "drift_normal_gaps": lambda: _on(
        _RING, 3, like=_noisy(drift=TURNING[:3, :3], noise=PAIRED[:3], points=12, gaps="random"),
        drift="normal",
    ),
    "drift_dense": lambda: _interval(
        like={"drift": DENSE_DRIFT, "noise": [1.0, 0.6, 0.4], "n_paths": 20}, drift="dense"
    ),
    "drift_dense_noise_dense": lambda: _interval(
        like=_noisy(drift=DENSE_DRIFT, noise=DENSE_NOISE, n_paths=20), drift="dense", noise="dense"
    ),
    "noise_parametric_gaps": lambda: _interval(like=_noisy(gaps="random"), noise="parametric"),
    "noise_low_rank": lambda: _interval(
        4, like={"n_true": 4, "noise": LOW_RANK, "n_paths": 20}, noise="low_rank", noise_rank=1
    ),
    "noise_dense": lambda: _interval(like={"noise": DENSE_NOISE, "spread": 0.5}, noise="dense"),
    "noise_dense_own_times": lambda: _interval(
        like=_noisy(noise=DENSE_NOISE, clock="own", gaps="random"), noise="dense"
    ),
    # what changes in time
    "season": lambda: _interval(like={"season": _season_at}, season=sl.Season(1.0, 2)),
    "season_gaps": lambda: _interval(
        like=_noisy(season=_season_at, gaps="random"), season=sl.Season(1.0, 2)
    ),
    "forcing": lambda: _interval(like={"push": _push}, forcing=_forcing()),
    "forcing_own_times": lambda: _interval(
        like=_noisy(push=_push, clock="own"), forcing=_forcing()
    ),
    "forcing_fields_season_gaps": lambda: _interval(
        like=_noisy(push=_push, season=_season_at, gaps="random"), forcing=_forcing_fields(),
        season=sl.Season(1.0, 2),
    ),
    # domains
    "interval_neumann": lambda: _on(sl.Interval(0, np.pi, "neumann")),
    "interval_periodic": lambda: _on(_RING, like={"points": 12}),
    "line": lambda: _on(sl.Line(), like=_noisy(points=13)),
    "box": lambda: _on(
        sl.Box((0, np.pi), (0, 2.0)),
        like={"points": (np.linspace(0.4, 2.8, 6), np.linspace(0.2, 1.7, 5))},
    ),
    "box_three_sides": lambda: _on(
        sl.Box((0, np.pi), (0, 2.0), (0, 3.0), boundary=("periodic", "neumann", "dirichlet")),
        like=_noisy(points=(0.8 * np.arange(4), np.linspace(0, 2, 3), np.linspace(0.5, 2.5, 4))),
    ),
    "plane": lambda: _on(
        sl.Plane(), like=_noisy(points=np.round(np.random.default_rng(5).normal(size=(14, 2)), 3))
    ),
    "disk": _disk,
    "sphere": lambda: _on(
        sl.Sphere(), 4,
        like=_noisy(points=(np.arange(-60.0, 61.0, 30.0), np.arange(0.0, 360.0, 60.0))),
    ),
    "mesh": lambda: _on(_mesh(), like=_noisy(points=1)),
    "graph": lambda: _on(_graph(), like=_noisy(points=1)),
    "empirical": _empirical,
    # other engines
    "chaos_modelled": lambda: _interval(
        2, like=_noisy(n_true=2, gaps="random"), engine="chaos", n_time=6
    ),
    "chaos_dropped": lambda: _interval(
        2, like={"n_true": 2}, engine="chaos", n_time=6, tail="dropped"
    ),
    "chaos_dropped_gaps": lambda: _interval(
        2, like=_noisy(n_true=2, gaps="rows"), engine="chaos", n_time=6, tail="dropped"
    ),
    "amortized_paper": lambda: _trained("literal", {"n_true": 2, "n_paths": 20}, **_TINY),
    "amortized_paper_exact_rk4": lambda: _trained(
        "literal", _noisy(n_true=2, n_paths=20, gaps="rows"), **_TINY, expectation="exact",
        propagators="rk4", select_by="loss",
    ),
    "amortized_structured": lambda: _trained(
        "structured", _noisy(n_true=2, n_paths=20), epochs=4, batch_size=4
    ),
    "amortized_structured_gaps": lambda: _trained(
        "structured", _noisy(n_true=2, n_paths=20, gaps="random"), epochs=4, batch_size=4
    ),
}  # fmt: skip


# -- likelihoods and scores at given parameters --------------------------------------------


@dataclasses.dataclass(frozen=True)
class ScoreCase:
    """A likelihood with its score, at parameters near, not at, the truth.

    Attributes:
        data: the fields.
        way: "statistics" or "filter"; of the filter also "rotated", many paths as few, and
            "decoupled", each mode with its marginal; "chaos", the truncated model, and
            "latents", the posterior of its coordinates instead of a score.
        n_modes: of the parameters.
        initial: kind of the initial state.
        is_coupled: whether drift and noise couple the modes.
        is_forced, has_season, has_weights: known forcing, noise with seasons, noise a point.
        use_misfit: whether what lies outside the modes counts.
        tail: of the chaos model.
    """

    data: Data
    way: str
    n_modes: int = 3
    initial: str = "deterministic"
    is_coupled: bool = False
    is_forced: bool = False
    has_season: bool = False
    has_weights: bool = False
    use_misfit: bool = True
    tail: str = ""

    @property
    def spectra(self) -> tuple[Array, Array]:
        """Drift and noise: matrices where they couple modes, else diagonals."""
        if self.is_coupled:
            return 1.1 * DENSE_DRIFT, 0.9 * DENSE_NOISE
        n = np.arange(1, self.n_modes + 1)
        return 1.1 * (0.5 + n**2), 0.9 / n

    @property
    def forcing(self) -> sl.Forcing:
        """Where ``is_forced``."""
        return _forcing()

    @property
    def season(self) -> sl.Season | None:
        """Where ``has_season``."""
        return sl.Season(1.0, [1.5, 0.5]) if self.has_season else None


def _score(way: str, *, like: dict[str, Any] | None = None, **words: Any) -> ScoreCase:
    return ScoreCase(make(**(like or {})), way, **words)


_COUPLED = {"drift": DENSE_DRIFT, "noise": DENSE_NOISE}
_LARGE = {"n_paths": 64, "n_times": 46, "n_true": 6, "points": 61}

SCORES: dict[str, Callable[[], ScoreCase]] = {
    "score_statistics": lambda: _score("statistics", like={"spread": 0.5}, initial="gaussian"),
    "score_statistics_uneven": lambda: _score("statistics", like={"clock": "uneven"}),
    "score_statistics_forced": lambda: _score("statistics", like={"push": _push}, is_forced=True),
    "score_statistics_coupled": lambda: _score(
        "statistics", like={**_COUPLED, "spread": 0.5}, initial="gaussian", is_coupled=True
    ),
    "score_statistics_coupled_uneven": lambda: _score(
        "statistics", like={**_COUPLED, "clock": "uneven"}, is_coupled=True
    ),
    "score_filter": lambda: _score("filter", like=_noisy()),
    "score_filter_inside": lambda: _score("filter", like=_noisy(n_true=6), use_misfit=False),
    "score_filter_weights": lambda: _score(
        "filter", like={"error": _point_noise()}, has_weights=True
    ),
    "score_filter_gaps": lambda: _score("filter", like=_noisy(gaps="random")),
    "score_filter_gaps_gaussian": lambda: _score(
        "filter", like=_noisy(gaps="random", spread=0.5), initial="gaussian"
    ),
    "score_filter_gaps_inside": lambda: _score(
        "filter", like=_noisy(gaps="blocks"), use_misfit=False
    ),
    "score_filter_sensors": lambda: _score("filter", like=_noisy(gaps="sensors")),
    "score_filter_own_times": lambda: _score("filter", like=_noisy(clock="own")),
    "score_filter_own_times_gaps": lambda: _score(
        "filter", like=_noisy(clock="own", gaps="random", spread=0.5), initial="gaussian"
    ),
    "score_filter_forced_gaps": lambda: _score(
        "filter", like=_noisy(push=_push, gaps="random"), is_forced=True
    ),
    "score_filter_forced_own_times": lambda: _score(
        "filter", like=_noisy(push=_push, clock="own"), is_forced=True
    ),
    "score_filter_season": lambda: _score("filter", like=_noisy(), has_season=True),
    "score_filter_season_own_times_gaps": lambda: _score(
        "filter", like=_noisy(clock="own", gaps="random"), has_season=True
    ),
    "score_filter_forced_season_gaps": lambda: _score(
        "filter", like=_noisy(push=_push, gaps="random"), is_forced=True, has_season=True
    ),
    "score_filter_rotated": lambda: _score("rotated", like=_noisy(n_paths=60)),
    "score_filter_decoupled": lambda: _score("decoupled", like=_noisy(gaps="random")),
    # Large enough for the kernel that numba compiles, where it is installed.
    "score_filter_compiled": lambda: _score(
        "filter", like=_noisy(**_LARGE, gaps="random"), n_modes=20
    ),
    "score_filter_coupled": lambda: _score("filter", like=_noisy(**_COUPLED), is_coupled=True),
    "score_filter_coupled_inside": lambda: _score(
        "filter", like=_noisy(**_COUPLED), is_coupled=True, use_misfit=False
    ),
    "score_filter_coupled_gaps": lambda: _score(
        "filter", like=_noisy(**_COUPLED, gaps="random", spread=0.5), initial="gaussian",
        is_coupled=True,
    ),
    "score_filter_coupled_own_times": lambda: _score(
        "filter", like=_noisy(**_COUPLED, clock="own", gaps="random"), is_coupled=True
    ),
    "score_chaos_modelled_gaps": lambda: _score(
        "chaos", like=_noisy(gaps="random"), tail="modelled"
    ),
    "score_chaos_dropped": lambda: _score(
        "chaos", like=_noisy(spread=0.5), initial="gaussian", tail="dropped"
    ),
    "score_chaos_latents": lambda: _score(
        "latents", like=_noisy(spread=0.5), initial="gaussian", tail="modelled"
    ),
    "score_chaos_latents_dropped": lambda: _score("latents", like=_noisy(), tail="dropped"),
    "score_chaos_dropped_gaps": lambda: _score("chaos", like=_noisy(gaps="rows"), tail="dropped"),
}  # fmt: skip
