"""What the filter is shown: fields, or their principal components, and the modes behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spdelaw.domain import AbstractDomain
from spdelaw.errors import DataError
from spdelaw.infer._coordinates import OperatorTied, PowerTied, Unbounded
from spdelaw.infer._estimate import Decision
from spdelaw.infer._model import Model
from spdelaw.infer._moment_estimates import MomentEstimates, of_components
from spdelaw.infer._nuisance import (
    MOST_SHARED,
    likeliest_total,
    modes_hold,
    needed_nuisance,
    principal_components,
)
from spdelaw.infer._observed import Observed
from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.infer._posterior import estimate, log_posterior
from spdelaw.infer._start import starting_scale
from spdelaw.model import Collapsed, collapse, evaluate_likelihood

Array = np.ndarray

#: Paths, and every how many-th time, that the choice of nuisance modes looks at.
SAMPLE_PATHS, THIN = 40, 4


class Design(NamedTuple):
    """Observations as a regression on the modes.

    Attributes:
        values: fields (P, T, M), or their principal components.
        times: (T,) or (P, T).
        basis: eigenfunctions as the values see them, (M, N + nuisance).
        n_nuisance: modes that are modelled and not reported.
        known: observation variance where it is not estimated.
        weights: relative precision of each point.
        nuisance: how their number was decided.
        first: estimates of all modes, where a first fit has been made.
        keep: principal directions of the fields, (points, M), where the values are components.
    """

    values: Array
    times: Array
    basis: Array
    n_nuisance: int
    known: float | None
    weights: Array | None
    nuisance: Decision
    first: MomentEstimates | None = None
    keep: Array | None = None

    def of(self, values: Array) -> Array:
        """Other fields of the same points, as the filter sees them."""
        return values if self.keep is None else values @ self.keep

    def collapsed(self, paths: slice | Array = slice(None)) -> Collapsed:
        """Some paths on the modes."""
        return collapse(self.values[paths], self.clock(paths), self.basis, self.weights)

    def clock(self, paths: slice | Array) -> Array:
        """Times of some paths."""
        return self.times if self.times.ndim == 1 else self.times[paths]

    def head(self, n_paths: int) -> Design:
        """The first paths alone."""
        some = slice(n_paths)
        return self._replace(values=self.values[some], times=self.clock(some))

    @property
    def origin(self) -> float:
        """First time of all."""
        return float(self.times.min())

    @property
    def span(self) -> float:
        """Longest time between the first and the last observation of a path."""
        return float(np.ptp(self.times, axis=-1).max())

    @property
    def step(self) -> float:
        """Typical time from one observation to the next."""
        return float(np.median(np.diff(self.times, axis=-1)))


def make_design(
    observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, notes: list[str]
) -> Design:
    """Decide what the filter sees; reasons go to ``notes``."""
    values, points = observed.load(), observed.points
    known, weights = model.known_variance, None
    if isinstance(known, np.ndarray):
        weights, known = point_weights(known, len(points)), 1.0
    mixes = grid_mixes(points, domain, n_modes) or _has_partial_rows(values)
    extra = Decision(0, {})
    if mixes and model.nuisance != 0:
        reduced = _reduced(observed, domain, n_modes, model, notes)
        if reduced is not None:
            return reduced
        if model.nuisance == "auto":
            extra = needed_nuisance(values, observed.times, points, domain, n_modes)
            notes.extend(_in_words(extra, n_modes))
    if model.nuisance != "auto":
        extra = Decision(int(model.nuisance), {})
    basis = domain.eigenfunctions(points, n_modes + int(extra.answer))
    return Design(values, observed.times, basis, int(extra.answer), known, weights, extra)


def _in_words(extra: Decision, n_modes: int) -> list[str]:
    out, correlation = [], extra.compared["residual_correlation"]
    if extra.answer:
        out.append(f"{extra.answer} nuisance modes beyond the {n_modes} reported ones")
    if correlation > 0.2:
        out.append(
            f"what {n_modes + int(extra.answer)} modes leave over is correlated over time "
            f"({correlation:.2f}): finer modes are treated as noise"
        )
    return out


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


def _reduced(
    observed: Observed, domain: AbstractDomain, n_modes: int, model: Model, notes: list[str]
) -> Design | None:
    """Principal components of complete, noise-free fields, with the modes behind them."""
    values, times, points = observed.load(), observed.times, observed.points
    quiet = model.noise_word in ("auto", "none")
    if times.ndim == 2 or not quiet or np.isnan(values).any():
        return None
    reduction = principal_components(values)
    if reduction is None:
        return None
    if model.nuisance == "auto" and modes_hold(values, domain.eigenfunctions(points, n_modes)):
        return None
    keep, variance = reduction

    def basis(total: int) -> Array:
        return keep.T @ domain.eigenfunctions(points, total)

    components = values @ keep
    total, first = _total_modes(components, times, basis, domain, n_modes, variance, model)
    extra = int(total.answer) - n_modes
    if extra == 0:
        return None
    notes.append(
        f"the grid mixes modes: {keep.shape[1]} principal components of the fields are explained "
        f"by {n_modes} reported and {extra} nuisance modes"
    )
    decision = Decision(extra, total.compared)
    seen = basis(n_modes + extra)
    return Design(components, times, seen, extra, variance, None, decision, first, keep)


def _total_modes(
    components: Array,
    times: Array,
    basis: Callable[[int], Array],
    domain: AbstractDomain,
    n_modes: int,
    variance: float,
    model: Model,
) -> tuple[Decision, MomentEstimates]:
    """Number of modes by likelihood of a four-number law, and that law of all modes."""
    sample, thin = components[:SAMPLE_PATHS, ::THIN], times[::THIN]
    rate, power = of_components(sample, thin)
    found: dict[int, MomentEstimates] = {}
    heights: dict[int, float] = {}

    def height(total: int) -> float:
        collapsed = collapse(sample, thin, basis(total))
        heights[total], found[total] = _tied(collapsed, thin, domain, variance, rate, power)
        return heights[total]

    if model.nuisance == "auto":
        least = domain.available(max(n_modes, components.shape[-1]))
        total = likeliest_total(height, least, domain.available(max(least, MOST_SHARED)))
    else:
        total = n_modes + int(model.nuisance)
        height(total)
    compared = {f"log_likelihood of {n} modes": value for n, value in sorted(heights.items())}
    return Decision(total, compared), found[total]


def _tied(
    collapsed: Collapsed,
    times: Array,
    domain: AbstractDomain,
    variance: float,
    rate: float,
    power: float,
) -> tuple[float, MomentEstimates]:
    """Largest likelihood of ``kappa + nu mu`` with ``scale n^-exponent``, and where it is."""
    total = collapsed.n_modes
    mu = domain.eigenvalues(total)
    parts = {
        "drift": OperatorTied(tuple(mu)),
        "noise": PowerTied(total),
        "initial_mean": Unbounded("initial_mean", total),
    }
    tied = Parametrisation(parts, "deterministic", np.zeros(total), variance)
    start = np.zeros(len(tied.names))
    start[:3] = np.log([0.5 * rate, 0.5 * rate / max(mu[1], 1e-12), 1.0])
    start[3:5] = [np.log(power), 2.0]
    guess = _all_modes(tied, start)
    n_steps, span = len(times) - 1, float(np.ptp(times))
    scale = starting_scale(tied, start, guess, collapsed.n_paths, n_steps, span, 1.0)
    posterior = log_posterior(
        tied, lambda p: evaluate_likelihood(collapsed, p), start, scale, {2: 0.0}, []
    )
    found = estimate(posterior, polish=False)
    return found.log_likelihood, _all_modes(tied, found.full)


def _all_modes(tied: Parametrisation, full: Array) -> MomentEstimates:
    """The law of a full vector, in balance."""
    values = tied.values(full)
    lam, q = values["drift"], values["noise"]
    return MomentEstimates(lam, q, np.zeros(len(lam)), q / (2.0 * lam))


def _has_partial_rows(values: Array) -> bool:
    missing = np.isnan(values).sum(-1)
    return bool(((missing > 0) & (missing < values.shape[-1])).any())


def point_weights(variance: Array, n_points: int) -> Array:
    """Relative precision of each point from known variances."""
    if len(variance) != n_points:
        raise DataError(
            "observation_noise",
            expected=f"one standard deviation per point ({n_points})",
            got=str(len(variance)),
            fix="pass one number, or one per point of the grid",
        )
    return 1.0 / variance
