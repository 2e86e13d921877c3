"""The law: what was learned, and everything that follows from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from spdelaw.data import Prepared
from spdelaw.domain import AbstractDomain
from spdelaw.equation import Forcing, Gaussian, SpectralSPDE, check_times
from spdelaw.errors import InputError, MissingExtraError
from spdelaw.law import _citation
from spdelaw.law._clock import extended_clocks, own_rows
from spdelaw.law._derived import (
    eigenmodes,
    law_stationary_covariance,
    optimal_growth,
    power_spectrum,
    predictability,
)
from spdelaw.law._divergence import kl_divergence, reported
from spdelaw.law._document import to_document
from spdelaw.law._seen import (
    clock_coords,
    moments_dataset,
    seen,
    target,
    weights,
    working,
)
from spdelaw.law._states import FieldMoments, batches, draw_fields, smooth_fields
from spdelaw.law._store import write_law
from spdelaw.law._text import describe
from spdelaw.law._user_units import to_clock, to_law, to_user, wanted_times
from spdelaw.model import AnyParameters, Collapsed, Statistics, evaluate_likelihood
from spdelaw.simulation import simulate

Array = np.ndarray

#: Parameters that are matrices, with entries of either sign.
MATRICES = ("drift", "noise_covariance", "initial_covariance")


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Law:
    """Law of a field, learned from data: drift and noise spectrum, initial state, noise.

    Built by `spdelaw.fit`. The coefficients follow ``dc_n = -lambda_n c_n dt + sqrt(q_n) dbeta``,
    or ``dc = -Lambda c dt + dW`` with ``Cov dW = Q dt`` where drift or noise couple them, and are
    seen through the domain's eigenfunctions with white noise.

    Attributes:
        domain: where the field lives.
        n_modes: reported modes; nuisance modes come after them in ``state``.
        parameters: Dataset with ``eigenvalue``, ``noise_variance``, ``initial_mean`` over
            ``mode`` and ``observation_std``; dim ``statistic`` = estimate, stderr, lower, upper.
            Laws of coupled modes have ``drift`` and ``noise_covariance`` over ``mode`` and
            ``mode_2`` instead of the first two.
        state: the estimated parameters of all modes as plain arrays.
        times, points: where the data were, the defaults for `sample`.
        unresolved_variance: mean square of the field beyond the modes.
        info: engine, route, timings, convergence, warnings.
        preparation: what was done to the data first. Data that come in are prepared likewise;
            `sample`, `reconstruct` and `forecast` come back in the units of the data.
        forcing: known forcing under which the data arose. Its response is taken off data that
            come in and added to results; ``state`` is that of the rest.
    """

    domain: AbstractDomain
    n_modes: int
    parameters: xr.Dataset
    state: AnyParameters
    times: Array
    points: Array
    unresolved_variance: float
    info: dict[str, Any]
    coordinates: xr.Dataset | None = None
    statistics: Statistics | None = None
    preparation: Prepared | None = None
    forcing: Forcing | None = None
    #: Figures, `spdelaw.report.LawPlots`; a later stage puts it here.
    plot: ClassVar[Any]

    @property
    def bare(self) -> Law:
        """The same law for data that `prepared` returned: no preparation, forcing, old names."""
        info = {key: value for key, value in self.info.items() if key != "labels"}
        return dataclasses.replace(self, preparation=None, forcing=None, info=info)

    def prepared(self, data: Any) -> xr.DataArray:
        """Data as the law sees them: canonical fields, prepared, on its clock, not forced."""
        return to_law(self, data)

    # -- the law as an equation -------------------------------------------------------

    @property
    def equation(self) -> SpectralSPDE:
        """The learned equation, nuisance modes included, to simulate or to compare."""
        s = self.state
        drift, noise, mean, spread = s[:4]
        initial: Any = {
            "stationary": "stationary",
            "gaussian": Gaussian(mean, spread),
            "deterministic": mean,
        }[s.initial_kind]
        return SpectralSPDE(
            self.domain, s.n_modes, drift, noise=noise, initial=initial, times=self.times,
            initial_time=float(self.times[0]), label="learned law", forcing=self.forcing,
            season=getattr(s, "season", None),
            **({"n_points": len(self.points)} if self.points.ndim == 1 else {}),
        )  # fmt: skip

    def sample(
        self, n_paths: int, times: Any = None, grid: Any = None, *, seed: int = 0,
        observation_noise: bool = False,
    ) -> xr.DataArray:  # fmt: skip
        """New paths of the law; dims (path, time, x), or the domain's in place of x.

        Args:
            n_paths: how many.
            times: by default those of the data; dates where the data had dates.
            grid: by default the points of the data.
            seed: the same seed gives the same paths.
            observation_noise: add the learned noise to each value.
        """
        equation = self.equation.unforced  # the response is added on the way out
        points = self.points if grid is None else grid
        given, times = times, to_clock(self, times)
        std = np.sqrt(self.state.observation_variance) if observation_noise else np.zeros(())
        if std.ndim == 0:
            result = simulate(
                equation, n_paths, times, points, seed=seed, observation_std=float(std)
            )
        else:
            places = self.domain.places(points)
            weights(self, len(places.points))  # noise of each point: only where it was learned
            result = simulate(equation, n_paths, times, points, seed=seed)
            own = places.unflatten(std)
            result = result + own * np.random.default_rng([seed, 1]).standard_normal(result.shape)
        named = to_user(self, result.to_dataset(name="field"), given)["field"]
        return named.rename(self.info.get("labels", {}).get("name", "field"))

    # -- data under the law -----------------------------------------------------------

    def log_likelihood(self, data: Any) -> xr.DataArray:
        """Log density of each path, in the units of the law; dim (path).

        What lies outside the modes counts as white noise of the learned variance.
        """
        fields, values, times, basis, _ = seen(self, data)
        out = np.empty(len(values))
        for block in batches(values, times, basis, weights(self, len(basis))):
            part = block._replace(paths=np.arange(len(block.paths)))
            single = Collapsed((part,), len(part.paths), self.state.n_modes)
            out[block.paths] = evaluate_likelihood(single, working(self, values)).log_likelihood
        return xr.DataArray(out, dims="path", coords={"path": fields["path"]})

    def reconstruct(self, data: Any, grid: Any = None) -> xr.Dataset:
        """Smoothed field through gaps and noise: ``mean`` and ``std``, dims (path, time, x).

        Args:
            data: fields; NaN marks what is missing.
            grid: where to reconstruct, by default the points of the data.
        """
        own = seen(self, data)
        places, out_basis = target(self, own, grid)
        moments = smooth_fields(
            own.values, own.times, own.basis, working(self, own.values), out_basis,
            weights(self, len(own.basis)),
        )  # fmt: skip
        rows = own_rows(own.fields, own.times)[:, :, None]
        shown = FieldMoments(*(np.take_along_axis(part, rows, axis=1) for part in moments))
        result = moments_dataset(self, shown, places, clock_coords(own.fields))
        return to_user(self, result, data, own.fields if grid is None else None)

    def forecast(
        self, history: Any, times: Any = None, *, steps: int | None = None, n_samples: int = 0,
        seed: int = 0, grid: Any = None,
    ) -> xr.Dataset:  # fmt: skip
        """Field at further times given a history: ``mean``, ``std`` and, on request, ``sample``.

        Args:
            history: fields up to now, with or without gaps.
            times: increasing times, or dates where the data had dates; those within the history
                are smoothed, not predicted.
            steps: in place of times, how many steps of the history to go on by; of monthly data
                these are calendar months.
            n_samples: joint draws, as variable ``sample`` with dim ``draw``.
            seed: of the draws.
            grid: where to predict, by default the points of the history.
        """
        own = seen(self, history)
        wanted = check_times(wanted_times(self, own.fields, times, steps))
        if wanted[0] < own.times.min():
            raise InputError(
                "times", expected=f"times from the law's first, {own.times.min():g}, on",
                got=f"{wanted[0]:g}", fix="the law does not run backwards",
            )  # fmt: skip
        if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 0:
            raise InputError(
                "n_samples", expected="a non-negative integer", got=repr(n_samples),
                fix="pass n_samples=100",
            )  # fmt: skip
        places, out_basis = target(self, own, grid)
        parameters, precision = working(self, own.values), weights(self, len(own.basis))
        generator = np.random.default_rng(seed)
        means, variances, draws = [], [], []
        for clock, extended, at in extended_clocks(own.times, wanted, own.values):
            given = (extended, clock, own.basis, parameters, out_basis)
            moments = smooth_fields(*given, precision)
            means.append(moments.mean[:, at])
            variances.append(moments.variance[:, at])
            if n_samples:
                draws.append(draw_fields(*given, n_samples, generator, precision)[:, :, at])
        coords = {"path": own.fields["path"].values, "time": wanted}
        moments = FieldMoments(np.concatenate(means), np.concatenate(variances))
        result = moments_dataset(self, moments, places, coords)
        if n_samples:
            dims = ("draw", "path", "time", *places.dims)
            result["sample"] = (dims, places.unflatten(np.concatenate(draws, axis=1)))
        like = history if times is None else times
        return to_user(self, result, like, own.fields if grid is None else None)

    def kl_divergence(self, other: Law | SpectralSPDE, times: Any = None) -> float:
        """``KL(other || self)`` per path on the reported modes, in nats.

        ``other`` is the reference, typically the truth: the expected loss in log-likelihood of
        describing its paths by this law. A regular fit of p parameters to M paths has an
        expected value of about ``p / (2 M)``.
        """
        t = self.times if times is None else check_times(times)
        n, truth = self.n_modes, other.equation if isinstance(other, Law) else other
        both = (truth, self.equation)
        if any(e.is_coupled for e in both) and any(e.forcing or e.season for e in both):
            raise InputError(
                "other", expected="no forcing and no seasons, where one law couples its modes",
                got="a law with one of them", fix="compare laws of modes on their own",
            )  # fmt: skip
        reference, own = reported(truth, n), reported(self.equation, n)
        gap = truth.forced_mean(t)[:, :n] - self.equation.forced_mean(t)[:, :n]
        return kl_divergence(reference, own, t, gap)

    # -- what follows from drift and noise ------------------------------------------------

    def eigenmodes(self) -> xr.Dataset:
        """Eigenmodes of the drift, slowest first; a pair of complex ones is one row.

        ``decay_rate``, ``e_folding_time``, ``frequency`` (radians per unit of time) and
        ``period`` with intervals, dims (eigenmode, statistic), and the complex ``pattern`` in
        mode coefficients. The period of a mode that does not turn is infinite.

        Example:
            >>> import spdelaw as sl
            >>> ring = sl.catalogue.advection_diffusion(3, speed=2.0)
            >>> fields = sl.simulate(ring, 100, seed=0)
            >>> law = sl.fit(fields, ring.domain, 3, drift="normal")
            >>> row = law.eigenmodes().frequency.sel(eigenmode=2)  # 2 k = 4
            >>> bool(row.sel(statistic="lower") < 4.0 < row.sel(statistic="upper"))
            True
        """
        return eigenmodes(self)

    def stationary_covariance(self) -> xr.DataArray:
        """``P`` with ``Lambda P + P Lambda' = Q``; dims (mode, mode_2, statistic).

        Where the noise has a season, the mean of the covariance over a period.
        """
        return law_stationary_covariance(self)

    def optimal_growth(self, times: Any) -> xr.Dataset:
        """Most that the energy of a pattern grows over lead times, without noise.

        ``growth`` is the squared spectral norm of ``e^(-Lambda t)``, dims (time, statistic);
        ``initial_pattern`` grows most, into ``final_pattern``, dims (time, mode).
        """
        return optimal_growth(self, times)

    def power_spectrum(self, frequencies: Any) -> xr.DataArray:
        """Spectral density of each coefficient; dims (frequency, mode, statistic).

        Two-sided, by cycles per unit of time: its integral over all frequencies is the
        stationary variance. Where the noise has a season, the mean over a period.
        """
        return power_spectrum(self, frequencies)

    def predictability(self, times: Any) -> xr.Dataset:
        """Mean-square error of the best forecast from a perfectly known state.

        Relative to the stationary variance: ``error`` of the field, dims (time, statistic),
        ``mode_error`` of each coefficient, and ``limit``, the lead time at which half of the
        variance is lost. Where the noise has a season, both are means over a period.
        """
        return predictability(self, times)

    # -- people and files ---------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the law to a directory; the old one stays until the new one is complete."""
        description, arrays = to_document(self)
        write_law(Path(path), description, arrays, self.parameters)

    def citation(self) -> str:
        """What to cite for this law, by what really ran."""
        return _citation.citation(self.info)

    def to_pandas(self) -> Any:
        """Parameters as one tidy DataFrame: columns parameter, mode, estimate, stderr, ...

        ``mode`` is missing for parameters that belong to no mode; ``point`` numbers appear there
        for an observation noise of each point.
        """
        import pandas as pd  # type: ignore[import-untyped]

        rows = []
        for name, table in self.parameters.data_vars.items():
            values = np.atleast_2d(table.values)
            labels = [None] if table.ndim == 1 else list(range(1, len(values) + 1))
            for label, numbers in zip(labels, values, strict=True):
                rows.append([str(name), label, *numbers.tolist()])
        columns = ["parameter", "mode", *(str(s) for s in self.parameters["statistic"].values)]
        return pd.DataFrame(rows, columns=columns).astype({"mode": "Int64"})

    def to_arviz(self, n_draws: int = 1000, seed: int = 0) -> Any:
        """Draws of the parameters from their asymptotic law as ArviZ InferenceData."""
        try:
            import arviz
        except ImportError as error:
            raise MissingExtraError("to_arviz", "arviz") from error
        generator = np.random.default_rng(seed)
        draws: dict[str, Array] = {}
        for name, table in self.parameters.data_vars.items():
            x = table.sel(statistic="estimate").values
            s = np.nan_to_num(table.sel(statistic="stderr").values, posinf=0.0)
            z = generator.standard_normal((1, n_draws, *np.shape(x)))
            positive = name not in ("initial_mean", *MATRICES)
            relative = np.divide(s, x, out=np.zeros_like(s), where=x != 0)
            draws[str(name)] = x * np.exp(relative * z) if positive else x + s * z
        names = {str(n): [str(d) for d in table.dims if d != "statistic"]
                 for n, table in self.parameters.data_vars.items()}  # fmt: skip
        dims = {n: found for n, found in names.items() if found and found != ["point"]}
        coords = {d: self.parameters[d].values for found in dims.values() for d in found}
        return arviz.from_dict(posterior=draws, dims=dims, coords=coords)

    def __repr__(self) -> str:
        """Table of the spectra with their intervals."""
        return describe(self)
