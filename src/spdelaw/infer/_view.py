"""What the filter is shown: fields, or their principal components, and the modes behind them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain, Products
from spdelaw.errors import DataError
from spdelaw.infer import _starts
from spdelaw.infer._coordinates import OperatorTied, PowerTied
from spdelaw.infer._layout import Layout
from spdelaw.infer._nuisance import (
    MOST_SHARED,
    likeliest_total,
    modes_hold,
    needed_nuisance,
    principal_components,
)
from spdelaw.infer._observed import Observed
from spdelaw.infer._problem import Problem, Solution, solve, starting_scale
from spdelaw.infer._settings import Settings
from spdelaw.model import Collapsed, collapse, evaluate_likelihood

Array = np.ndarray

#: Paths, and every how many-th time, that the choice of nuisance modes looks at.
SAMPLE_PATHS, THIN = 40, 4


class View(NamedTuple):
    """What the filter is shown.

    Attributes:
        values: fields (P, T, M), or their principal components.
        times: (T,) or (P, T).
        basis: eigenfunctions as the values see them, (M, N + nuisance).
        n_nuisance: modes that are modelled and not reported.
        known: observation variance where it is not estimated.
        weights: relative precision of each point.
        start: full starting vector of spectra, where a first fit has been made.
        keep: principal directions of the fields, (points, M), where the values are components.
        products: of the modes at the points, where the values are fields.
    """

    values: Array
    times: Array
    basis: Array
    n_nuisance: int
    known: float | None
    weights: Array | None
    start: Array | None
    keep: Array | None = None
    products: Products | None = None

    def of(self, values: Array) -> Array:
        """Other fields of the same points, as the filter sees them."""
        return values if self.keep is None else values @ self.keep


def make_view(
    observed: Observed, domain: AbstractDomain, n_modes: int, settings: Settings, notes: list[str]
) -> View:
    """Decide what the filter sees; reasons go to ``notes``."""
    values, times, points = observed.load(), observed.times, observed.points
    known, weights = settings.known_variance, None
    if isinstance(known, np.ndarray):
        weights, known = point_weights(known, len(points)), 1.0
    if _mixes(values, points, domain, n_modes) and settings.nuisance != 0:
        reduced = _reduced_view(values, times, points, domain, n_modes, settings, notes)
        if reduced is not None:
            return reduced
        extra = _n_nuisance(values, times, points, domain, n_modes, settings, notes)
    else:
        extra = 0 if settings.nuisance == "auto" else int(settings.nuisance)
    basis = domain.eigenfunctions(points, n_modes + extra)
    products = domain.products(points, n_modes + extra)
    return View(values, times, basis, extra, known, weights, None, products=products)


def _mixes(values: Array, points: Array, domain: AbstractDomain, n_modes: int) -> bool:
    """Whether points or gaps let modes beyond the reported ones into their estimates."""
    return grid_mixes(points, domain, n_modes) or _has_partial_rows(values)


def grid_mixes(points: Array, domain: AbstractDomain, n_modes: int) -> bool:
    """Whether reported modes overlap on the points with one another or with the next ones.

    Two more, because an even and an odd mode never overlap on a symmetric grid, but no more
    than the points can tell apart.
    """
    phi = domain.eigenfunctions(points, domain.available(min(n_modes + 2, len(points))))
    phi = phi[:, : max(n_modes, int(np.linalg.matrix_rank(phi)))]
    gram = phi.T @ phi
    off = np.abs(gram - np.diag(np.diag(gram)))[:n_modes].max()
    return bool(off > 1e-9 * np.diag(gram)[:n_modes].max())


def _reduced_view(
    values: Array, times: Array, points: Array, domain: AbstractDomain, n_modes: int,
    settings: Settings, notes: list[str],
) -> View | None:  # fmt: skip
    """Principal components of complete, noise-free fields, with the modes behind them."""
    quiet = settings.noise_word in ("auto", "none")
    if times.ndim == 2 or not quiet or np.isnan(values).any():
        return None
    reduction = principal_components(values)
    if reduction is None:
        return None
    if settings.nuisance == "auto" and modes_hold(values, domain.eigenfunctions(points, n_modes)):
        return None
    keep, variance = reduction
    components = values @ keep
    total, start = _total_modes(
        components, times, points, domain, n_modes, keep, variance, settings
    )
    if total == n_modes:
        return None
    notes.append(
        f"the grid mixes modes: {keep.shape[1]} principal components of the fields are explained "
        f"by {n_modes} reported and {total - n_modes} nuisance modes"
    )
    basis = keep.T @ domain.eigenfunctions(points, total)
    return View(components, times, basis, total - n_modes, variance, None, start, keep)


def _total_modes(
    components: Array, times: Array, points: Array, domain: AbstractDomain, n_modes: int,
    keep: Array, variance: float, settings: Settings,
) -> tuple[int, Array]:  # fmt: skip
    """Number of modes by likelihood of a four-number law, and that law's coordinates."""
    sample, thin = components[:SAMPLE_PATHS, ::THIN], times[::THIN]
    rough = _starts.of_components(sample, thin)
    found: dict[int, Solution] = {}

    def score(total: int) -> float:
        basis = keep.T @ domain.eigenfunctions(points, total)
        found[total] = _tied_solution(
            collapse(sample, thin, basis), thin, domain, total, variance, rough
        )
        return found[total].log_likelihood

    if settings.nuisance == "auto":
        least = domain.available(max(n_modes, keep.shape[1]))
        most = domain.available(max(least, MOST_SHARED))
        total = likeliest_total(score, least, most)
    else:
        total = n_modes + int(settings.nuisance)
        score(total)
    return total, found[total].full


def _tied_solution(
    collapsed: Collapsed, times: Array, domain: AbstractDomain, total: int, variance: float,
    rough: tuple[float, float],
) -> Solution:  # fmt: skip
    mu = domain.eigenvalues(total)
    layout = Layout(
        OperatorTied(tuple(mu)), PowerTied(total), "deterministic", total, 0,
        known_variance=variance,
    )  # fmt: skip
    rate, power = rough
    start = np.zeros(len(layout.names))
    start[:3] = np.log([0.5 * rate, 0.5 * rate / max(mu[1], 1e-12), 1.0])
    start[3:5] = [np.log(power), 2.0]
    guess = _starts.Rough(
        layout.drift.values(start[:3]), layout.noise.values(start[3:5]), np.zeros(total),
        layout.noise.values(start[3:5]) / (2 * layout.drift.values(start[:3])),
    )  # fmt: skip
    scale = starting_scale(
        layout, start, guess, collapsed.n_paths, len(times) - 1, float(np.ptp(times)), 1.0
    )
    problem = Problem(
        layout, lambda p: evaluate_likelihood(collapsed, p), start, scale,
        {layout.names.index("s"): 0.0}, [], np.zeros(total),
    )  # fmt: skip
    return solve(problem, polish=False)


def _n_nuisance(
    values: Array, times: Array, points: Array, domain: AbstractDomain, n_modes: int,
    settings: Settings, notes: list[str],
) -> int:  # fmt: skip
    if settings.nuisance != "auto":
        return int(settings.nuisance)
    extra, correlation = needed_nuisance(values, times, points, domain, n_modes)
    if extra:
        notes.append(f"{extra} nuisance modes beyond the {n_modes} reported ones")
    if correlation > 0.2:
        notes.append(
            f"what {n_modes + extra} modes leave over is correlated over time ({correlation:.2f}): "
            "finer modes are treated as noise"
        )
    return extra


def _has_partial_rows(values: Array) -> bool:
    missing = np.isnan(values).sum(-1)
    return bool(((missing > 0) & (missing < values.shape[-1])).any())


def point_weights(variance: Array, n_points: int) -> Array:
    """Relative precision of each point from known variances."""
    if len(variance) != n_points:
        raise DataError(
            "observation_noise", expected=f"one standard deviation a point ({n_points})",
            got=str(len(variance)), fix="pass one number, or one a point of the grid",
        )  # fmt: skip
    return 1.0 / variance
