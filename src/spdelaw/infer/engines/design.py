"""Design of the filter: fields, or their principal components, and the modes behind them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from spdelaw.data.executors import LocalExecutor
from spdelaw.data.observed import Observed
from spdelaw.domains.products import Products
from spdelaw.errors import DataError
from spdelaw.infer.engines.candidates import (
    MOST_SAMPLED,
    MOST_SHARED,
    STEADY_SHARE,
    likeliest_total,
    needed_nuisance,
    with_head,
)
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.moments import MomentEstimates, of_components
from spdelaw.infer.objective import estimate, log_posterior
from spdelaw.infer.optimise import Estimate
from spdelaw.infer.parameters import OperatorTied, Parametrisation, PowerTied, Single
from spdelaw.processes.linear import Linear
from spdelaw.statespace.chain import without_response
from spdelaw.statespace.collapse import Collapsed, collapse
from spdelaw.statespace.condense import collapsed_rows, condensed
from spdelaw.statespace.likelihood import evaluate_likelihood

# ---------- Passes over observed fields for a design, piece by piece
#
# Each pass reduces all values to a few numbers, so that lazy data are never whole in the memory of
# one process.


Array = np.ndarray

#: Number of rows, about, that the principal components are computed from.
COMPONENT_ROWS = 4000
#: Principal components with less than this share of the first one's variance are dropped.
COMPONENT_TOLERANCE = 1e-6
#: Most components for each row: a few rows span few directions, whatever the fields are.
MOST_COMPONENT_SHARE = 1 / 3
#: Working noise variance of the components, relative to their least increment.
COMPONENT_NOISE = 1e-5
#: Energy outside the modes, relative to that of the fields, that is rounding.
ROUNDING = 1e-20


def principal_components(observed: Observed) -> tuple[Array, float] | None:
    """Directions (M, r) that hold complete, noise-free fields, and a working noise variance.

    None where the spectrum has no gap to rounding, that is, where there is noise, and where there
    are too few rows to tell.
    """
    pieces, shape = observed.pieces(), observed.values.shape
    head = observed.first(MOST_SAMPLED).reshape(-1, shape[-1])
    if (
        observed.is_lazy
        and len(head) >= shape[-1]
        and _is_noisy(np.linalg.svd(head, compute_uv=False))
    ):
        return None  # without a pass over all
    step = max(1, shape[0] * shape[1] // COMPONENT_ROWS)
    blocks = [
        [piece, path.start, time.start]
        for block, path in zip(pieces.blocks, pieces.paths, strict=True)
        for piece, time in zip(block, pieces.times, strict=True)
    ]
    rows = np.concatenate(observed.executor.map(_every_nth_row, blocks, shape[1], step))
    _, s, directions = np.linalg.svd(rows, full_matrices=False)
    n = int(((s / s[0]) ** 2 > COMPONENT_TOLERANCE).sum())
    if _is_noisy(s) or n > MOST_COMPONENT_SHARE * len(rows):
        return None
    keep = directions[:n].T
    increments = np.diff(np.asarray(observed.first(MOST_SAMPLED) @ keep), axis=1).var((0, 1))
    return keep, float(COMPONENT_NOISE * increments.min())


def _is_noisy(singular_values: Array) -> bool:
    """Whether the spectrum of fields has no gap to rounding."""
    return bool(
        (singular_values[int(0.7 * len(singular_values))] / singular_values[0]) ** 2 > 1e-10
    )


def _every_nth_row(piece: list, n_times: int, step: int) -> Array:
    """Every ``step``-th row of the whole data set that lies in a piece; (R, M)."""
    values, path, time = piece
    index = n_times * (path + np.arange(len(values)))[:, None] + time + np.arange(values.shape[1])
    return values[index % step == 0]


def modes_suffice(observed: Observed, phi: Array) -> bool:
    """Whether modes hold complete fields to rounding, on more points than modes."""
    if len(phi) <= phi.shape[1]:
        return False
    parts = observed.executor.map(
        _residual_fields, observed.pieces().flat, phi, np.linalg.pinv(phi)
    )
    left, energy = np.sum(parts, axis=0)
    return bool(left <= ROUNDING * energy)


def _residual_fields(values: Array, phi: Array, inverse: Array) -> tuple[float, float]:
    left = values - values @ inverse.T @ phi.T
    return float((left**2).sum()), float((values**2).sum())


def projected(observed: Observed, keep: Array) -> Array:
    """Principal components of all fields, (P, T, r): few enough to be in memory."""
    pieces = observed.pieces()
    parts = pieces.by_block(observed.executor.map(np.matmul, pieces.flat, keep))
    return np.concatenate([np.concatenate(block, axis=1) for block in parts])


# ---------- The design: observations as a regression on the modes


#: Paths, and stride in time, of the data that choose the number of nuisance modes.
SAMPLE_PATHS, TIME_STRIDE = 40, 4
#: Of data that are taken as they are.
NO_CENTRE = np.zeros(0)


class Design(NamedTuple):
    """Observations as a regression on the modes.

    Attributes:
        observed: the data; ``values`` are fields, or their principal components.
        basis: eigenfunctions at the points, or their components, (M, N + nuisance).
        n_nuisance: modes that are modelled and not reported.
        known: observation variance where it is not estimated.
        weights: relative precision of each point, (M,), or of each value, (P, T, M).
        nuisance: how their number was decided.
        first: drift and noise of all modes, where a first fit has been made.
        keep: principal directions of the fields, (points, M), where the values are components.
        products: of the modes at the points, where the values are fields.
        mu: eigenvalues of the domain's operator, (N + nuisance,).
        centre: coefficients that are subtracted once the data are on the modes, (N,) or none.
    """

    observed: Observed
    basis: Array
    n_nuisance: int
    known: float | None
    weights: Array | None
    nuisance: Decision
    first: tuple[Array, Array] | None = None
    keep: Array | None = None
    products: Products | None = None
    mu: Array = np.zeros(0)
    centre: Array = NO_CENTRE

    def of(self, values: Array) -> Array:
        """Other fields at the same points, in the form of the design's values."""
        return values if self.keep is None else values @ self.keep

    def collapsed(self) -> Collapsed:
        """The data on the modes."""
        observed, how = self.observed, (self.weights, self.products)
        if observed.in_pieces:
            rows = collapsed_rows(observed, self.basis, *how)
        else:
            rows = collapse(observed.values, observed.times, self.basis, *how)
        if not self.centre.any():
            return rows
        n_modes = self.basis.shape[1]
        mean = np.pad(self.centre, (0, n_modes - len(self.centre)))  # nuisance modes have none
        around = Linear(np.ones(n_modes), np.ones(n_modes), mean=mean)
        return rows.changed(without_response, around)

    @property
    def rows_determine(self) -> bool:
        """Whether every row that observes anything has points to spare for all modes."""
        return self.observed.least_observed >= self.basis.shape[1] + 2

    @property
    def n_beyond(self) -> float:
        """Values of data in memory beyond those that determine the modes of their row."""
        n_observed = (~np.isnan(self.observed.values)).sum(-1)
        return float(np.maximum(n_observed - self.basis.shape[1], 0).sum())

    @property
    def has_few_points(self) -> bool:
        """Whether some row observes fewer points than there are modes."""
        return self.observed.least_observed < self.basis.shape[1]

    def paths(self, which: slice | Array) -> Design:
        """Some paths alone, with the survey of all."""
        some = self.observed.paths(which)._replace(survey=self.observed.survey)
        weights = self.weights
        if weights is not None and weights.ndim > 1:
            weights = weights[which]
        return self._replace(observed=some, weights=weights)


def condensed_once(observed: Observed, n_modes: int, model: Model) -> Observed:
    """Data in pieces on all modes that their design may need, from one pass.

    The number of nuisance modes is decided by the head of the data, which is read first.
    """
    if observed.collapsed:
        return observed
    observed = with_head(observed) if observed.head is None else observed
    if model.nuisance != "auto":
        total = n_modes + int(model.nuisance)
    elif np.isnan(np.asarray(observed.head)).any() or grid_mixes(observed, n_modes):
        total = n_modes + int(needed_nuisance(observed, n_modes).answer)
    else:
        total = n_modes
    has_gaps = observed.survey is not None and observed.survey.missing > 0
    return condensed(observed, *([total] if has_gaps else sorted({n_modes, total})))


def make_design(
    observed: Observed, n_modes: int, model: Model, notes: list[str], centre: Array = NO_CENTRE
) -> Design:
    """Choose fields or components, and the number of modes; reasons go to ``notes``.

    ``centre``: coefficients to subtract from the data, (n_modes,) or none.
    """
    fixed_variance, weights = fixed_noise(model, len(observed.points))
    extra = Decision(0 if model.nuisance == "auto" else int(model.nuisance), {})
    partial = observed.least_observed < len(observed.points)
    if model.nuisance != 0 and (partial or grid_mixes(observed, n_modes)):
        reduced = _reduced_design(observed, n_modes, model, notes, centre)
        if reduced is not None:
            return reduced
        if model.nuisance == "auto":
            extra = needed_nuisance(observed, n_modes)
            notes.extend(_nuisance_notes(extra, n_modes))
    n = int(extra.answer)
    basis, products = observed.basis(n_modes + n), observed.products(n_modes + n)
    mu = observed.domain.eigenvalues(n_modes + n)
    given = observed, basis, n, fixed_variance, weights, extra
    return Design(*given, products=products, mu=mu, centre=centre)


def _nuisance_notes(extra: Decision, n_modes: int) -> list[str]:
    out, correlation = [], extra.compared["residual_correlation"]
    if extra.answer:
        out.append(f"{extra.answer} nuisance modes beyond the {n_modes} reported ones")
    if correlation > 0.2 and "rough_residual" not in extra.compared:
        out.append(
            f"the residual of {n_modes + int(extra.answer)} modes is correlated over time "
            f"({correlation:.2f}): finer modes are treated as noise"
        )
    steady = extra.compared.get("residual_mean", 0.0)
    if steady > STEADY_SHARE:
        out.append(
            f"{100 * steady:.0f} % of the residual of the modes is a constant mean at each point, "
            "which the law treats as noise: subtract it with --anomalies mean (or month), in "
            "Python prepare=sl.Preparation(anomalies='mean')"
        )
    return out


def grid_mixes(observed: Observed, n_modes: int) -> bool:
    """Whether reported modes overlap on the points with one another or with the next ones.

    Two more, because an even and an odd mode never overlap on a symmetric grid, but no more
    than are linearly independent at the points.
    """
    phi = observed.basis(observed.domain.available(min(n_modes + 2, len(observed.points))))
    phi = phi[:, : max(n_modes, int(np.linalg.matrix_rank(phi)))]
    gram = phi.T @ phi
    off = np.abs(gram - np.diag(np.diag(gram)))[:n_modes].max()
    return bool(off > 1e-9 * np.diag(gram)[:n_modes].max())


def _reduced_design(
    observed: Observed, n_modes: int, model: Model, notes: list[str], centre: Array
) -> Design | None:
    """Principal components of complete, noise-free fields, with the modes behind them."""
    if observed.times.ndim == 2 or model.noise_word not in ("auto", "none") or observed.has_gaps:
        return None
    if centre.any():
        values = observed.values - observed.basis(n_modes) @ centre
        observed = observed._replace(values=values, collapsed=(), head=None)
    reduction, is_open = principal_components(observed), model.nuisance == "auto"
    if reduction is None or (is_open and modes_suffice(observed, observed.basis(n_modes))):
        return None
    keep, variance = reduction
    components = observed._replace(
        values=projected(observed, keep),
        executor=LocalExecutor(),
        survey=None,
        collapsed=(),
        head=None,
    )
    decision, first = _total_modes(components, keep, variance, n_modes, model)
    extra = int(decision.answer)
    if extra == 0:
        return None
    notes.append(
        f"the grid mixes modes: {keep.shape[1]} principal components of the fields are explained "
        f"by {n_modes} reported and {extra} nuisance modes"
    )
    basis = keep.T @ observed.basis(n_modes + extra)
    return Design(components, basis, extra, variance, None, decision, first, keep)


def _total_modes(
    components: Observed, keep: Array, variance: float, n_modes: int, model: Model
) -> tuple[Decision, tuple[Array, Array]]:
    """Number of nuisance modes by likelihood of a four-number law, and that law of all modes."""
    domain, sample, times = (
        components.domain,
        components.values[:SAMPLE_PATHS, ::TIME_STRIDE],
        components.times[::TIME_STRIDE],
    )
    rough = of_components(sample, times)
    estimates: dict[int, Estimate] = {}

    def log_likelihood_of(total: int) -> float:
        collapsed = collapse(sample, times, keep.T @ components.basis(total))
        estimates[total] = _fit_tied_law(
            collapsed, times, domain.eigenvalues(total), variance, rough
        )
        return estimates[total].log_likelihood

    if model.nuisance == "auto":
        least = domain.available(max(n_modes, sample.shape[-1]))
        total = likeliest_total(log_likelihood_of, least, domain.available(max(least, MOST_SHARED)))
    else:
        total = n_modes + int(model.nuisance)
        log_likelihood_of(total)
    compared = {
        f"log_likelihood of {n} modes": estimates[n].log_likelihood for n in sorted(estimates)
    }
    law = estimates[total].state_space.linear
    return Decision(total - n_modes, compared), (law.drift, law.noise)


def _fit_tied_law(
    collapsed: Collapsed, times: Array, mu: Array, variance: float, rough: tuple[float, float]
) -> Estimate:
    """Likeliest ``kappa + nu mu`` with ``scale n^-exponent``, without standard errors."""
    n, (rate, power) = len(mu), rough
    parts = {
        "drift": OperatorTied(tuple(mu)),
        "noise": PowerTied(n),
        "initial_mean": Single("initial_mean", n, power=0),
    }
    tied = Parametrisation(parts, "deterministic", np.zeros(n), variance)
    start = np.zeros(len(tied.names))
    start[:3] = np.log([0.5 * rate, 0.5 * rate / max(mu[1], 1e-12), 1.0])
    start[3:5] = [np.log(power), 2.0]
    at, none = tied.values(start), np.zeros(n)
    lam, q = at["drift"], at["noise"]
    size = collapsed.n_paths, len(times) - 1, float(np.ptp(times))
    guess = MomentEstimates(lam, q, none, q / (2.0 * lam), none, none, *size)
    evaluate, held = functools.partial(evaluate_likelihood, collapsed), Model(fixed={"s": 1.0})
    return estimate(log_posterior(tied, evaluate, guess, held, start), polish=False)


def fixed_noise(model: Model, n_points: int) -> tuple[float | None, Array | None]:
    """Observation variance where it is known, and the relative precision of points or values.

    Where a value is missing so is its variance, and any precision does.
    """
    variance = model.known_variance
    if not isinstance(variance, np.ndarray):
        return variance, None
    if variance.ndim > 1:
        return 1.0, np.nan_to_num(1.0 / variance, nan=1.0)
    if len(variance) != n_points:
        expected = f"one standard deviation per point ({n_points})"
        fix = "pass one number, or one per point of the grid"
        raise DataError("observation_noise", expected=expected, got=str(len(variance)), fix=fix)
    return 1.0, 1.0 / variance
