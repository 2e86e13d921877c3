"""How many modes a fit has, and how many nuisance modes beyond them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from spdelaw.data.observed import Observed
from spdelaw.domains.products import Products
from spdelaw.errors import ConvergenceError
from spdelaw.infer.model import Decision, Model
from spdelaw.infer.moments import from_coefficients
from spdelaw.infer.objective import estimate, log_posterior
from spdelaw.infer.parameters import Parametrisation, parametrise, starting_vector
from spdelaw.statespace.collapse import Collapsed, collapse
from spdelaw.statespace.likelihood import evaluate_likelihood

# ---------- Nuisance modes, where the grid cannot separate them from the reported ones
#
# Noisy or gappy data: as many nuisance modes as leave a residual that is white in time.
#
# Complete, noise-free data are unforgiving, because every value counts and a model with too
# few modes is simply wrong. There the fields are first reduced to their leading principal
# components: the residual is below rounding for any practical purpose, the likelihood of the
# components is exact, and its conditioning is benign. Likelihood then chooses the number of modes
# behind them, with a law of four numbers on a sample of the paths.


Array = np.ndarray

#: Residuals less correlated than this from one time to the next count as white noise.
WHITE_CORRELATION = 0.05
#: Standard errors that a correlation of white residuals may have: at most 1 % have more.
CHANCE_DEVIATIONS = 2.6
#: Residual energy below this share of the field's counts as noise.
NEGLIGIBLE = 1e-8
#: Further modes that show whether a residual is rough, unless there are more already.
FURTHER_MODES = 16
#: Largest F-value of the next modes, against all that are finer, of errors of single sensors.
ROUGH = 1.4
#: Share of the residual's energy in a constant mean from which on it is no noise.
STEADY_SHARE = 0.3
#: Most and fewest paths of the sample, the values that it may have together, and those of a record.
MOST_SAMPLED, FEWEST_SAMPLED, SAMPLED_VALUES, RECORD_VALUES = 24, 4, 2_000_000, 1_000_000
#: Most modes in all: with one pattern for all paths, and with one per path or where even the first
#: number leaves more than white noise.
MOST_SHARED, MOST_PER_PATTERN = 64, 20


def needed_nuisance(observed: Observed, n_modes: int) -> Decision:
    """Number of nuisance modes, by the lag-one correlation of the residual.

    Noise is white in time, an unresolved mode is not: as long as the least-squares residual is
    correlated over one step, there are modes in it. Modes that hold the fields to rounding are
    the fewest that do: the law of one more, without energy, has no maximum. Where no number makes
    it white, as in raw fields whose mean lies outside the modes, many cost more than they gain.
    """
    sample, t = _sample_values(observed)
    missing = np.isnan(sample)
    energy = float(np.nansum(sample**2))
    most = min(
        MOST_PER_PATTERN if missing.any() else MOST_SHARED, int((~missing).sum(-1).max()) - 1
    )
    most = observed.domain.available(most)

    def residual_of(total: int) -> tuple[Array, float]:
        return _residual(sample, t, observed.basis(total), observed.products(total))

    total, correlation, limit, below = n_modes, 0.0, WHITE_CORRELATION, n_modes
    few = max(min(most, MOST_PER_PATTERN), n_modes)
    for total in [*_ladder(n_modes, max(most, n_modes)), few]:
        residual, left = residual_of(total)
        if left <= NEGLIGIBLE * energy:
            between = (n for n in range(below, total) if residual_of(n)[1] <= NEGLIGIBLE * energy)
            total, correlation = next(between, total), 0.0
            break
        correlation, below = _lag_one(residual), total + 1
        limit = max(WHITE_CORRELATION, CHANCE_DEVIATIONS / np.sqrt(_free_pairs(residual, total)))
        if correlation < limit:
            break
        if total == n_modes and is_rough(observed, n_modes):
            # Errors of sensors that last: further modes do not make them white.
            return Decision(0, {"residual_correlation": correlation, "rough_residual": 1.0})
    compared = {"residual_correlation": correlation, "white_below": limit}
    if correlation > WHITE_CORRELATION:
        compared["residual_mean"] = _share_of_mean(residual)
    return Decision(total - n_modes, compared)


def likeliest_total(score: Callable[[int], float], least: int, most: int) -> int:
    """Integer in [least, most] with the largest score, by a ladder and then by bisection.

    A rung above both its neighbours is the answer at once: the scores have one summit.
    """
    scores: dict[int, float] = {}

    def cached_score(n: int) -> float:
        if n not in scores:
            scores[n] = score(n)
        return scores[n]

    rungs = _ladder(least, most)
    best = max(rungs, key=cached_score)
    i = rungs.index(best)
    low, high = rungs[max(i - 1, 0)], rungs[min(i + 1, len(rungs) - 1)]
    if (
        cached_score(max(best - 1, least))
        <= cached_score(best)
        >= cached_score(min(best + 1, most))
    ):
        return best
    while high - low > 2:
        a, b = low + (high - low) // 3, high - (high - low) // 3
        low, high = (low, b) if cached_score(a) >= cached_score(b) else (a, high)
    return max(range(low, high + 1), key=cached_score)


def _sample_values(observed: Observed) -> tuple[Array, Array]:
    """Values of some paths, and their times."""
    of_one = int(np.prod(observed.values.shape[1:]))
    n_paths = min(MOST_SAMPLED, max(FEWEST_SAMPLED, SAMPLED_VALUES // of_one))
    return first_paths(observed, n_paths, RECORD_VALUES if observed.n_paths == 1 else np.inf)


def with_head(observed: Observed) -> Observed:
    """The data with the sample in memory, so that it is read once."""
    return observed._replace(head=_sample_values(observed)[0])


def first_paths(observed: Observed, n_paths: int, n_values: float = np.inf) -> tuple[Array, Array]:
    """Values of the first paths, of long ones those of their head, and their times."""
    values, times = observed.first(n_paths, n_values), observed.times
    times = times if times.ndim == 1 else times[:n_paths]
    return values, times[..., : values.shape[1]]


def residual_correlation(
    observed: Observed, basis: Array, products: Products | None = None
) -> tuple[float, float]:
    """Lag-one correlation over time of the least-squares residual, and its standard error."""
    residual, _ = _residual(*_sample_values(observed), basis, products)
    pairs = (~np.isnan(residual[:, 1:] + residual[:, :-1])).sum()
    return _lag_one(residual), 1.0 / np.sqrt(max(pairs, 1))


def is_rough(observed: Observed, n_modes: int) -> bool:
    """Whether the residual is that of single sensors, no smoother in space than white noise.

    Unresolved modes have more energy in the next modes than in all that are finer,

        F = (RSS_N - RSS_{N+k}) / k  /  (RSS_{N+k} / (M - N - k)),

    where errors of sensors have F near one, whatever their correlation in time.
    """
    sample, t = _sample_values(observed)
    n_observed = (~np.isnan(sample)).sum(-1)
    spare = int(np.median(n_observed[n_observed > 0])) - n_modes
    total = observed.domain.available(n_modes + min(spare // 4, max(n_modes, FURTHER_MODES)))
    if total <= n_modes:
        return False
    enough = n_observed >= total + 2  # other rows determine nothing
    sample = np.where(enough[..., None], sample, np.nan)
    counts = np.where(enough, n_observed, 0).sum(), enough.sum()
    if not counts[1]:
        return False
    residual, coarse = _residual(sample, t, observed.basis(n_modes))
    if _share_of_mean(residual) > STEADY_SHARE:  # a mean outside the modes
        return False
    fine = _residual(sample, t, observed.basis(total))[1]
    degrees = counts[0] - total * counts[1]
    step = (coarse - fine) / (counts[1] * (total - n_modes))
    return bool(fine > 0 and step < ROUGH * fine / degrees)


def _free_pairs(residual: Array, n_modes: int) -> float:
    """Observed pairs of neighbouring times, less the degrees of freedom of least squares."""
    pairs = ~np.isnan(residual[:, 1:] + residual[:, :-1])
    n_observed = (~np.isnan(residual)).sum(-1)
    free = np.maximum(n_observed - n_modes, 0).sum() / max(n_observed.sum(), 1)
    return max(float(pairs.sum() * free), 1.0)


def _ladder(n_modes: int, most: int) -> list[int]:
    steps = [n_modes]
    while steps[-1] < most:
        steps.append(min(most, steps[-1] + max(4, steps[-1] // 2)))
    return steps


def _residual(
    values: Array, times: Array, phi: Array, products: Products | None = None
) -> tuple[Array, float]:
    collapsed = collapse(values, times, phi, None, products)
    return _outside(values, collapsed, phi), collapsed.misfit


def _outside(values: Array, collapsed: Collapsed, phi: Array) -> Array:
    """What least squares leaves of the values outside the modes."""
    estimate = np.empty((len(values), values.shape[1], phi.shape[1]))
    for block in collapsed.blocks:
        estimate[block.paths] = block.estimate.transpose(2, 0, 1)
    return values - estimate @ phi.T


def _share_of_mean(residual: Array) -> float:
    """Share of the residual's energy in its mean at each point; (P, T, M), NaN for missing."""
    is_observed = ~np.isnan(residual)
    filled, n = np.where(is_observed, residual, 0.0), np.maximum(is_observed.sum((0, 1)), 1)
    total = float((filled**2).sum())
    return float((filled.sum((0, 1)) ** 2 / n).sum()) / total if total > 0 else 0.0


def _lag_one(residual: Array) -> float:
    now, then = residual[:, :-1], residual[:, 1:]
    both = ~np.isnan(now) & ~np.isnan(then)
    power = np.where(both, now**2 + then**2, 0.0).sum()
    return float(2.0 * np.where(both, now * then, 0.0).sum() / power) if power > 0 else 0.0


# ---------- Number of modes by the least Bayesian information criterion
#
# Every candidate explains all observed values, so the criteria compare like with like:
# ``BIC = -2 log p + k log(number of rows)``. As in the law that is fitted at last, the residual of
# each point has a variance and a correlation of its own: what single sensors remember needs no
# modes.


#: Coordinates of a law by group.
Parameters = dict[str, Array]

#: Paths that the choice uses, and the most modes it considers.
BIC_PATHS, MOST_MODES = 40, 32
#: The most with gaps, and of coupled modes; rows of data for each number in a row of their drift.
MOST_GAPPY, MOST_COUPLED, ROWS_PER_COUPLING = 20, 12, 10
#: Times of a record with gaps that the choice uses.
TIMES_GAPPY = 400
#: Share of a mode, relative to the largest, that those before it do not hold: less is none.
DEPENDENT_SHARE = 1e-10
#: Largest correlation of a residual from one time to the next.
MOST_CORRELATION = 0.999
#: Energy beyond the modes, relative to the field's, that counts as none.
NO_RESIDUAL = 1e-16


def choose_modes(observed: Observed, couples: bool = False) -> tuple[int, bool, str]:
    """Number of modes by BIC on some paths, whether no more are needed, and a sentence.

    Args:
        observed: the data.
        couples: whether the modes will be coupled. The criterion treats them as single ones all
            the same, but limits their number by the couplings that the data determine.
    """
    values, times = _spread_paths(observed, BIC_PATHS)
    is_gappy = bool(np.isnan(values).any())
    if is_gappy:
        window = _fullest_window(values, TIMES_GAPPY)
        values, times = values[:, window], times[..., window]
    per_row = int((~np.isnan(values)).sum(-1).max())
    # Points where every mode vanishes, such as Dirichlet ends, carry none.
    wide = observed.basis(observed.domain.available(min(MOST_MODES + 1, len(observed.points))))
    apart = min(int(np.linalg.matrix_rank(wide)) - 1, _n_distinguishable(wide))
    most = min(MOST_MODES, max(min(per_row - 1, apart), 1))
    most = min(most, MOST_GAPPY) if is_gappy else most
    if couples:
        rows = observed.n_paths * observed.times.shape[-1]
        most = min(most, MOST_COUPLED, max(rows // ROWS_PER_COUPLING, 1))
    energy = float(np.nansum(values**2))

    @functools.cache
    def collapsed(n: int) -> Collapsed:
        return collapse(values, times, observed.basis(n))

    for n in range(1, most + 1):
        if collapsed(n).misfit <= NO_RESIDUAL * energy and _hold_all(observed, n):
            return n, True, f"{n} modes chosen: they represent the fields to rounding errors"
    laws: dict[int, Parameters] = {}
    best = likeliest_total(lambda n: -_bic_of(observed, values, collapsed(n), laws), 1, most)
    paths = "1 path" if len(values) == 1 else f"{len(values)} paths"
    sentence = f"{best} modes chosen by BIC on {paths} among 1 to {most}"
    more = "; BIC would select more" if best == most else ""
    return best, not more, sentence + more


def _spread_paths(observed: Observed, n_paths: int) -> tuple[Array, Array]:
    """Values of paths from the first to the last, and their times; of lazy data the first."""
    if observed.is_lazy or observed.n_paths <= n_paths:
        return first_paths(observed, n_paths)
    which = np.linspace(0, observed.n_paths - 1, n_paths).round().astype(int)
    times = observed.times
    return observed.values[which], times if times.ndim == 1 else times[which]


def _fullest_window(values: Array, n_times: int) -> slice:
    """The run of times in which most is observed."""
    count = np.cumsum((~np.isnan(values)).sum((0, 2)))
    if len(count) <= n_times:
        return slice(None)
    begin = int(np.argmax(count[n_times - 1 :] - np.r_[0, count[:-n_times]]))
    return slice(begin, begin + n_times)


def _hold_all(observed: Observed, n_modes: int) -> bool:
    """Whether modes hold all values to rounding, beyond those that determine them."""
    if observed.is_lazy:
        return True
    values = observed.values
    n_beyond = np.maximum((~np.isnan(values)).sum(-1) - n_modes, 0).sum()
    misfit = collapse(values, observed.times, observed.basis(n_modes)).misfit
    return bool(n_beyond > 0 and misfit <= NO_RESIDUAL * float(np.nansum(values**2)))


def _n_distinguishable(basis: Array) -> int:
    """How many of the first modes are linearly independent at the points.

    Two levels of a box do not separate its first modes, however many points there are.
    """
    diagonal = np.abs(np.diag(np.linalg.qr(basis, mode="r")))
    alike = diagonal < DEPENDENT_SHARE * diagonal.max()
    return int(alike.argmax()) if alike.any() else len(diagonal)


def _bic_of(
    observed: Observed, values: Array, collapsed: Collapsed, laws: dict[int, Parameters]
) -> float:
    """BIC of the collapsed modes; stores their law in ``laws``."""
    n = collapsed.n_modes
    n_rows = collapsed.n_paths * len(collapsed.blocks[0].times)
    variance = max(collapsed.misfit / max(collapsed.n_values - n * n_rows, 1.0), 1e-300)
    moments = from_coefficients(collapsed, variance)
    kind = Decision("deterministic", {})
    free = parametrise(Model(), observed.domain, n, kind, moments, known_variance=None)
    first = np.concatenate([block.estimate[0] for block in collapsed.blocks], axis=1).mean(1)
    moments = moments._replace(mean=first)
    evaluate = functools.partial(evaluate_likelihood, collapsed)
    start = _warm_start(free, starting_vector(free, moments), laws)
    try:
        fitted = estimate(log_posterior(free, evaluate, moments, Model(), start), rough=True)
    except ConvergenceError:
        return np.inf
    laws[n] = {name: fitted.full[where] for name, where in free.slices.items()}
    noise = float(fitted.state_space.observation_variance)
    gain = _gain_of_memory(values, collapsed, observed.basis(n), noise)
    return -2.0 * (fitted.log_likelihood + gain) + fitted.n_free * np.log(n_rows)


def _gain_of_memory(values: Array, collapsed: Collapsed, phi: Array, noise: float) -> float:
    """Log-likelihood that a variance and a lag-one correlation per point add to white noise.

    With ``d_j`` degrees of freedom of the residual at point j, of variance ``s_j`` and correlation
    ``rho_j``,

        RSS / (2 r) + sum_j d_j [log r - log s_j (1 - rho_j^2) - 1] / 2.
    """
    outside = _outside(values, collapsed, phi)
    is_observed = ~np.isnan(outside)
    outside = np.where(is_observed, outside, 0.0)
    n_observed = is_observed.sum((0, 1))
    free = n_observed * np.maximum(1.0 - (np.linalg.qr(phi)[0] ** 2).sum(1), 0.0)
    power = (outside**2).sum((0, 1))
    counts = (free > DEPENDENT_SHARE * n_observed) & (power > 0)
    total = float(collapsed.n_values - collapsed.n_states)
    if total < 1.0 or not counts.any():
        return 0.0
    free, power = free[counts] * total / free[counts].sum(), power[counts]
    products = (outside[:, 1:] * outside[:, :-1])[..., counts].sum((0, 1))
    rho = np.clip(products / power, -MOST_CORRELATION, MOST_CORRELATION)
    variances = power / free * (1.0 - rho**2)
    fitted = (free * (np.log(noise / variances) - 1.0)).sum()
    return float(0.5 * (collapsed.misfit / noise + fitted))


def _warm_start(free: Parametrisation, start: Array, laws: dict[int, Parameters]) -> Array:
    """A start whose first modes are those of the fitted law with the nearest number of modes."""
    n = free.n_modes
    if laws:
        for name, coordinates in laws[min(laws, key=lambda m: abs(m - n))].items():
            target = start[free.slices[name]]  # a view
            target[: len(coordinates)] = coordinates[: len(target)]
    return start
