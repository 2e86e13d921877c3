"""The four tasks a law is judged by, their scores and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from spdelaw.chaos.posterior import project_on_decoder
from spdelaw.checks import whole
from spdelaw.data.observed import Observed, observe
from spdelaw.domains.base import AbstractDomain
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.scores import LEVELS, Prediction, ScoreTable, units_of
from spdelaw.law.law import Law
from spdelaw.law.observations import modes_at, weights_of
from spdelaw.law.prediction import Unread, parts_of, reconstruct
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.statespace.collapse import collapse

Array = np.ndarray


# ---------- Distance of a learned law from the true one


#: Relative standard error from which on a parameter counts as undetermined.
UNDETERMINED = 1.5


def parameter_errors(law: Law, truth: SpectralSPDE) -> xr.Dataset:
    """Truth, estimate and ``z = (estimate - truth) / stderr`` of drift and noise.

    Dim ``mode`` for spectra, which are compared with the diagonals of a coupled truth; dims
    (``mode``, ``mode_2``) for matrices, where an entry that the structure fixes has z = 0.
    """
    variables, n = {}, law.n_modes
    for name, true in _true_numbers(law, truth).items():
        table = law.parameters[name]
        estimate = table.sel(statistic="estimate").values
        stderr = table.sel(statistic="stderr").values
        true = true[(slice(n),) * estimate.ndim]
        usable = np.isfinite(stderr) & ((stderr < UNDETERMINED * estimate) | (estimate.ndim == 2))
        fixed = (estimate.ndim == 2) & (stderr == 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(fixed, 0.0, (estimate - true) / stderr)
        # An estimate without a usable interval is no success, however small its z.
        z = np.where(usable, z, np.nan)
        for suffix, values in (("truth", true), ("estimate", estimate), ("z", z)):
            variables[f"{name}_{suffix}"] = (table.dims[:-1], values)
    axes = [dim for dim in ("mode", "mode_2") if dim in law.parameters.sizes]
    return xr.Dataset(variables, coords={dim: law.parameters[dim] for dim in axes})


def _true_numbers(law: Law, truth: SpectralSPDE) -> dict[str, np.ndarray]:
    if "drift" in law.parameters:
        return {"drift": truth.drift_matrix, "noise_covariance": truth.noise_covariance}
    return {"eigenvalue": np.diag(truth.drift_matrix), "noise_variance": truth.noise_variance}


def law_distance(law: Law, truth: SpectralSPDE) -> dict[str, Any]:
    """KL per path with its limit, largest errors, and second-order statistics at the end."""
    table = parameter_errors(law, truth)
    n = law.n_modes
    final = law.times[-1:]
    energy = law.equation.energy_spectrum(final).values[0, :n]
    true_energy = truth.energy_spectrum(final).values[0, :n]
    variance = law.equation.variance(law.times).values[:, :n].sum(1)
    true_variance = truth.variance(law.times).values[:, :n].sum(1)
    later = true_variance > 0
    # A network has weights besides the parameters of the law.
    n_parameters = law.info.get("n_law_parameters", law.info["n_parameters"])
    names = [str(name) for name in table.data_vars if str(name).endswith("_z")]
    z = np.abs([table[name].values for name in names])
    return {
        "kl_per_path": law.kl_divergence(truth),
        "kl_limit": n_parameters / (2.0 * law.info["n_paths"]),
        "largest_z": float(np.nanmax(z)) if np.isfinite(z).any() else float("nan"),
        "n_undetermined": int(np.isnan(z).sum()),
        **{name: table[name].values.tolist() for name in names},
        "energy_spectrum_error": float(np.abs(energy / true_energy - 1.0).max()),
        "variance_error": float(np.abs(variance[later] / true_variance[later] - 1.0).max()),
    }


# ---------- The four tasks of a law, by the values of a path that it is given
#
# - reconstruct: the whole path is given, the same values are scored;
# - predict: the first time is given, all later times are scored;
# - forecast: the first half of the times is given, the second half is scored;
# - gaps: all but a random fifth of the values are given, that fifth is scored.
#
# Scores are made of sums over values, so that one long lazy record is scored part by part.


TIERS = ("reconstruct", "predict", "forecast", "gaps")

#: Share of the observed values that the tier "gaps" holds out.
HELD_OUT = 0.2
#: Deviations below this share of the size of the data are rounding: the value is certain.
CERTAIN = 2e-3
#: Times of a stretch whose errors count as independent of those of others.
SHORTEST_STRETCH = 10


class TierScore(NamedTuple):
    """Scores of one tier."""

    relative_l2: float
    rmse: float
    crps: float
    coverage: float


class Task(NamedTuple):
    """What a predictor is given of some values, and what it is scored by; boolean (path, time, x).

    All other values are hidden from it.
    """

    given: Array
    scored: Array


def tier_task(
    values: Array, tier: str, seed: int, first: int = 0, n_times: int | None = None
) -> Task:
    """The task of a tier.

    Values of one path may be a part of it, from row ``first`` of ``n_times`` on.
    """
    observed = ~np.isnan(values)
    rows = first + np.arange(values.shape[1])[:, None]
    later = rows > 0
    if tier == "reconstruct":
        return Task(observed, observed & later)
    if tier == "predict":
        return Task(observed & ~later, observed & later)
    if tier == "forecast":
        half = rows < (n_times or values.shape[1]) // 2
        return Task(observed & half, observed & ~half)
    generator = np.random.PCG64(seed)
    generator.advance(first * values.shape[-1])  # as if the rows before had been drawn
    held = np.random.Generator(generator).uniform(size=values.shape) < HELD_OUT
    return Task(observed & ~held, observed & held & later)


#: Predictions of rivals of values (path, time, x) from those that a task gives.
Rivals = Callable[[Array, Task], list[Prediction]]


class LawPredictor(NamedTuple):
    """A law as a predictor of values in the units of its fields; it has no preparation.

    ``parameter_draws`` as in `spdelaw.Law.reconstruct`.
    """

    law: Law
    parameter_draws: int = 0
    seed: int = 0

    def fields(self, given: Observed, times: Array | None = None) -> xr.Dataset:
        """Mean and deviation of the field at the times of the data or at later ones."""
        if times is None:
            return reconstruct(self.law, given, None, self.parameter_draws, self.seed)
        return self.law.forecast(given, times)

    def predict(self, given: Observed, times: Array | None = None) -> Prediction:
        """Mean and deviation of values, noise included; (path, time, point)."""
        result = self.fields(given, times)
        return Prediction(*(result[name].values for name in Prediction._fields))


def predict_tier(
    law: Law, observed: Observed, tier: str, seed: int, parameter_draws: int = 0
) -> tuple[Array, Array, Array]:
    """Predictive mean and standard deviation of the values that a tier scores, and these values.

    Each (path, time, x), mean and values NaN where nothing is scored. The law is bare, the data are
    prepared for it.
    """
    observed = observed.flat
    task = tier_task(observed.fields.values, tier, seed)
    predictor = LawPredictor(law, parameter_draws, seed)
    mean, std, _ = predictor.predict(_given(observed, tier, seed))
    return (
        np.where(task.scored, mean, np.nan),
        std,
        np.where(task.scored, observed.fields.values, np.nan),
    )


def score_tier(
    law: Law,
    observed: Observed,
    tier: str,
    seed: int,
    level: float,
    scale: float,
    rivals: Rivals | None = None,
) -> tuple[TierScore, ScoreTable]:
    """Scores of the law's mean and intervals against the data, noise included.

    Args:
        law: bare.
        observed: prepared for it; one record may be lazy, in chunks of times.
        tier: one of `TIERS`.
        seed: of values held out.
        level: of the intervals.
        scale: of the data; relative to it, values whose deviation is rounding are certain.
        rivals: predictors of data in memory.

    Returns:
        The scores, and a table of law and rivals on the values that the law is uncertain of.
    """
    observed = observed.flat
    result = LawPredictor(law).fields(_given(observed, tier, seed))
    given = (tier, seed, observed.fields.sizes["time"], level, scale, rivals)
    std, weights = result["std"], weights_of(law, observed)
    if weights is not None and weights.ndim == 3:  # values held out have noise of their own
        std = (result["std_field"] ** 2 + 1.0 / weights) ** 0.5
    parts = over_parts(_tier_tables, observed, [result["mean"], std], *given)
    bands = ScoreTable.added([bands for _, bands in parts])
    return _total(parts), bands._replace(sums=np.delete(bands.sums, 1, axis=1))


def _given(observed: Observed, tier: str, seed: int) -> Observed:
    """The values that a tier gives to the law; one record may be lazy."""
    if tier == "reconstruct":
        return observed
    if not observed.is_lazy:
        return observed.masked(tier_task(observed.fields.values, tier, seed).given)
    n_times, values = len(observed.times), observed.values.rechunk({2: -1})

    def keep_inputs(block: Array, block_info: Any = None) -> Array:
        first = block_info[0]["array-location"][1][0]
        return np.where(tier_task(block, tier, seed, first, n_times).given, block, np.nan)

    lazy = values.map_blocks(keep_inputs, dtype=float, meta=np.zeros((0, 0, 0)))
    return observed._replace(survey=None).holding(observed.fields.copy(data=lazy))


def _tier_tables(
    values: Array, mean: Array, std: Array, first: int, tier: str, seed: int, n_times: int,
    level: float, scale: float, rivals: Rivals | None,
) -> tuple[ScoreTable, ScoreTable]:  # fmt: skip
    task = tier_task(values, tier, seed, first, n_times)
    truth = np.where(task.scored, values, np.nan)
    others = rivals(values, task) if rivals is not None and values.shape[1] == n_times else []
    n_paths, n_rows = values.shape[:2]
    units = units_of(n_paths, n_rows, SHORTEST_STRETCH) if n_rows == n_times else None
    return path_tables(mean, std, truth, level, scale, others, units)


def path_tables(
    mean: Array,
    std: Array,
    truth: Array,
    level: float = 0.95,
    scale: float = 0.0,
    others: Sequence[Prediction] = (),
    units: Array | None = None,
) -> tuple[ScoreTable, ScoreTable]:
    """Scores by path of a prediction, of zero and of others.

    The first table is of all values; the second of those that are uncertain, by ``units`` of paths
    and times, (path, time), where these are given.

    Arrays (path, time, x), NaN where nothing is scored; ``scale`` is the size of the data.
    """
    std = np.broadcast_to(std, truth.shape)
    zero = Prediction(np.zeros(truth.shape), np.ones(truth.shape))
    truth = np.where(np.isnan(mean), np.nan, truth)
    paths, levels = np.arange(len(truth))[:, None], (*LEVELS, 100 * level)
    bands = np.where(std > CERTAIN * scale, truth, np.nan)
    predictions = [Prediction(mean, std), zero, *others]
    units = paths if units is None else units
    return (
        ScoreTable.of(predictions, truth, paths[..., None], len(paths), levels),
        ScoreTable.of(predictions, bands, units[..., None], int(units.max()) + 1, levels),
    )


def _total(parts: Sequence[tuple[ScoreTable, ScoreTable]]) -> TierScore:
    """Scores of all parts together: ``|X_hat - X| / |X|`` by path, the others by value."""
    table, bands = (ScoreTable.added(tables) for tables in zip(*parts, strict=True))
    error, square = table.sums[:, :2, 0].T
    kept = square > 0
    relative = float(np.sqrt(error[kept] / square[kept]).mean()) if kept.any() else float("nan")
    rmse, crps = table.means()[0, :2]
    return TierScore(relative, float(rmse), float(crps), float(bands.means()[0, -1]))


def coverage(mean: Array, std: Array, truth: Array, level: float = 0.95) -> float:
    """Share of values inside the central interval; points without uncertainty do not count."""
    scale = float(np.sqrt(np.nanmean(truth**2)))
    return _total([path_tables(mean, std, truth, level, scale)]).coverage


def over_parts(function: Callable, observed: Observed, arrays: list, *parameters: Any) -> list:
    """``function(values, ..., first row, *parameters)`` of each part of times, of all together.

    Args:
        function: of values (P, t, M), of the same times of ``arrays``, and of the first row.
        observed: lazy as one record, or in memory, which is one part.
        arrays: further arrays over (path, time, point).
        parameters: the same for all parts.
    """
    if not observed.is_lazy:
        return [
            function(observed.fields.values, *(array.values for array in arrays), 0, *parameters)
        ]
    import dask

    call = dask.delayed(_call_on_unread, pure=False)
    return list(dask.compute(*(
        call(function, Unread(observed.fields.isel(time=rows).data),
             [array.isel(time=rows).data for array in arrays], rows.start, parameters)
        for rows in parts_of(observed)
    )))  # fmt: skip


def _call_on_unread(
    function: Callable, values: Unread, arrays: list, first: int, parameters: tuple
) -> Any:
    return function(values.read(), *arrays, first, *parameters)


# ---------- Limits: errors that no law, or none of its kind, can fall below


def projection_floor(observed: Observed, law: Law) -> TierScore:
    """Least-squares projection of the paths on the law's modes: no reconstruction beats it."""
    return _floor(over_parts(_project, observed, [], modes_at(law, observed.places)))


def _floor(parts: Sequence[tuple[ScoreTable, ScoreTable]]) -> TierScore:
    """Errors of a prediction that has no distribution."""
    return _total(parts)._replace(crps=np.nan, coverage=np.nan)


def _project(values: Array, first: int, basis: Array) -> tuple[ScoreTable, ScoreTable]:
    projected = np.full(values.shape, np.nan)
    rows, flat = values.reshape(-1, values.shape[-1]), projected.reshape(-1, values.shape[-1])
    observed = ~np.isnan(rows)
    complete = observed.all(1)
    flat[complete] = rows[complete] @ (basis @ np.linalg.pinv(basis)).T
    for i in np.flatnonzero(~complete & observed.any(1)):
        finite = observed[i]
        flat[i, finite] = (
            basis[finite] @ np.linalg.lstsq(basis[finite], rows[i, finite], rcond=None)[0]
        )
    projected[:, : first == 0] = np.nan
    return path_tables(projected, np.zeros(1), values)


def mean_predictor(data: Any, equation: Any) -> TierScore:
    """The exact mean of the true law: the best in mean square that sees only the first state."""
    observed = observe(data, equation.domain)
    at_modes = equation.mean(observed.fields["time"].values).values
    basis = observed.basis(equation.n_modes)
    return _floor(over_parts(_predict_mean, observed, [], at_modes, basis))


def _predict_mean(
    values: Array, first: int, at_modes: Array, basis: Array
) -> tuple[ScoreTable, ScoreTable]:
    rows = at_modes[first : first + values.shape[1]] @ basis.T
    mean = np.where(np.isnan(values), np.nan, rows)
    mean[:, : first == 0] = np.nan
    return path_tables(mean, np.zeros(1), values)


def decoder_floor(
    fields: Any, domain: AbstractDomain, n_modes: int, n_time: int, eigenvalues: Any
) -> TierScore:
    """Error of the least-squares projection of each path on the span of the decoder.

    The span holds ``h_n(x) e^(-lambda_n t)`` and ``h_n(x) psi_k(t; lambda_n)`` for n <= N and
    k <= K, with a free initial state in each path: no reconstruction by this decoder, at these
    eigenvalues, has a smaller error. As in the paper, the first time is not scored, and so
    not fitted.

    Args:
        fields: paths (path, time, x) on one clock; NaN is left out.
        domain: where the fields live.
        n_modes: N.
        n_time: K.
        eigenvalues: ``lambda_n``, shape (N,).

    Returns:
        `TierScore` with ``relative_l2`` and ``rmse``; the others are NaN.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> heat = sl.catalogue.heat(n_modes=4)
        >>> paths = sl.simulate(heat, n_paths=20, seed=0)
        >>> few, many = (decoder_floor(paths, heat.domain, 4, k, heat.eigenvalues) for k in (4, 64))
        >>> many.rmse < 0.5 * few.rmse
        True
    """
    observed = observe(fields, domain).in_memory()
    n, k = domain.check_modes(n_modes), whole("n_time", n_time, 1)
    lam = np.asarray(eigenvalues, float)
    if lam.shape != (n,):
        expected = f"one number per mode, shape ({n},)"
        fix = "pass equation.eigenvalues or law.dynamics.drift"
        raise InputError("eigenvalues", expected=expected, got=f"shape {lam.shape}", fix=fix)
    if observed.has_own_clocks:
        expected = "one clock for all paths"
        fix = "compute the floor for paths on a common grid of times"
        raise DataError("fields", expected=expected, got="times of each path's own", fix=fix)
    values, times, basis = observed.values, observed.times, observed.basis(n)
    projected = np.empty(values.shape)
    for block in project_on_decoder(collapse(values, times, basis), lam, k, float(np.ptp(times))):
        projected[block.paths] = block.coefficients.transpose(2, 0, 1) @ basis.T
    projected[:, 0] = np.nan
    return _floor([path_tables(projected, np.zeros(1), values)])
