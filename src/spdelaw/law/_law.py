"""The law: what was learned, and everything that follows from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from spdelaw.checks import whole
from spdelaw.data import Observed, Prepared, has_dates
from spdelaw.domain import AbstractDomain
from spdelaw.equation import Dynamics, Forcing, InitialState, Linear, SpectralSPDE, check_times
from spdelaw.errors import InputError
from spdelaw.law import _derived, _likelihood, _parameters_table, _predict
from spdelaw.law._divergence import kl_divergence
from spdelaw.law._observations import entered, undriven
from spdelaw.law._parameter_draws import over_parameters
from spdelaw.law._provenance import Provenance
from spdelaw.law._rest import Rest
from spdelaw.law._store import write_law
from spdelaw.law._text import as_html, as_text, citation
from spdelaw.law._user_units import wanted_times
from spdelaw.model import StateSpace, Statistics

Array = np.ndarray


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Law:
    """Law of a field, learned from data: dynamics of its modes, initial state, noise.

    Built by `spdelaw.fit`. The coefficients of the domain's eigenfunctions follow ``dynamics``, for
    linear ones ``dc = -Lambda (c - m) dt + dW`` with ``Cov dW = Q dt``, and are seen with white
    noise.

    Attributes:
        domain: where the field lives.
        n_modes: reported modes; nuisance modes come after them.
        parameters: Dataset with ``eigenvalue``, ``noise_variance``, ``initial_mean`` over
            ``mode`` and ``observation_std``; dim ``statistic`` = estimate, stderr, lower, upper.
            Laws with a mean have ``mean``; their ``initial_mean`` is that of the deviation from it.
            Laws of coupled modes have ``drift`` and ``noise_covariance`` over ``mode`` and
            ``mode_2`` instead of the first two.
        dynamics: what all modes do in time, a known forcing included.
        initial: law of all modes at the first time.
        observation_variance: of the noise, one number, or one per point.
        times, points: where the data were, the defaults for `sample`.
        unresolved_variance: mean square of the field beyond the modes.
        info: engine, route, timings, convergence, warnings; a record and a mapping.
        coordinates: what was estimated, with its covariance.
        statistics: sums over the data, with which `spdelaw.update` goes on.
        rest: memory of what the modes leave over, where ``rest="memory"`` found it; used by
            `reconstruct` and `forecast`, not by `log_likelihood`.
        preparation: what was done to the data first. Data that come in are prepared likewise;
            `sample`, `reconstruct` and `forecast` come back in the units of the data.
        offset: part of a known mean that lies outside the modes, at the points of the data: off the
            data that come in, in what goes out. None without.
    """

    domain: AbstractDomain
    n_modes: int
    parameters: xr.Dataset
    dynamics: Dynamics
    initial: InitialState
    observation_variance: Array
    times: Array
    points: Array
    unresolved_variance: float = 0.0
    info: Provenance = dataclasses.field(default_factory=Provenance)
    coordinates: xr.Dataset | None = None
    statistics: Statistics | None = None
    preparation: Prepared | None = None
    rest: Rest | None = None
    offset: Array | None = None
    #: Figures, `spdelaw.report.LawPlots`; a later stage puts it here.
    plot: ClassVar[Any]

    def __post_init__(self) -> None:
        """Plain entries for ``info`` become a record, a number for the noise an array."""
        object.__setattr__(self, "info", Provenance.of(self.info))
        noise = np.asarray(self.observation_variance, dtype=float)
        object.__setattr__(self, "observation_variance", noise)

    # -- its parts --------------------------------------------------------------------

    @property
    def state_space(self) -> StateSpace:
        """Dynamics, initial state and observation noise together."""
        return StateSpace(self.dynamics, self.initial, self.observation_variance)

    @property
    def linear(self) -> Linear:
        """The dynamics, or `InputError` where they are not linear."""
        if isinstance(self.dynamics, Linear):
            return self.dynamics
        expected = "a linear law, for what is defined by its drift and its noise"
        fix = "draw from it with law.sample(...) and estimate what you need"
        raise InputError("law", expected=expected, got=f"dynamics {self.dynamics.name!r}", fix=fix)

    @property
    def forcing(self) -> Forcing | None:
        """Known forcing under which the data arose, of a linear law."""
        return self.dynamics.forcing if isinstance(self.dynamics, Linear) else None

    @property
    def known_mean(self) -> Array | None:
        """Field over the points that a fit was told to take for the mean, None without."""
        if self.info.get("mean") != "known" or self.offset is None:
            return None
        own = self.dynamics.mean if isinstance(self.dynamics, Linear) else None
        if own is None:
            return self.offset
        return self.offset + self.domain.eigenfunctions(self.points, len(own)) @ own

    @property
    def equation(self) -> SpectralSPDE:
        """The learned linear equation, nuisance modes included, to simulate or to compare."""
        d = self.linear
        return SpectralSPDE(
            self.domain,
            d.n_modes,
            d.drift,
            noise=d.noise,
            initial=self.initial.given,
            times=self.times,
            initial_time=float(self.times[0]),
            label="learned law",
            forcing=d.forcing,
            season=d.season,
            centre=d.mean,
            **({"n_points": len(self.points)} if self.points.ndim == 1 else {}),
        )

    @property
    def bare(self) -> Law:
        """The same law for data that `prepared` returned: no preparation, mean, forcing, names."""
        own = self.dynamics
        if isinstance(own, Linear):
            own = own.undriven
        info = Provenance.of({key: self.info[key] for key in self.info if key != "labels"})
        return dataclasses.replace(self, preparation=None, dynamics=own, info=info, offset=None)

    def with_info(self, **entries: Any) -> Law:
        """The same law with more, or other, entries in its provenance."""
        return dataclasses.replace(self, info=Provenance.of({**self.info, **entries}))

    def observe(self, data: Any) -> Observed:
        """Data prepared for this law, once: pass the result wherever the law is asked about them.

        Canonical, prepared as the data that it was learned from, on its clock. Lazy data stay so.
        """
        return entered(self, data)

    def prepared(self, data: Any) -> xr.DataArray:
        """Fields of `observe`, less the mean of the law and its response to a forcing."""
        return undriven(self, data).labelled

    # -- new paths, and data under the law ----------------------------------------------

    def sample(
        self,
        n_paths: int,
        times: Any = None,
        grid: Any = None,
        *,
        seed: int = 0,
        observation_noise: bool = False,
        chunks: int | None = None,
    ) -> xr.DataArray:
        """New paths of the law; dims (path, time, x), or the domain's in place of x.

        Args:
            n_paths: how many.
            times: by default those of the data; dates where the data had dates.
            grid: by default the points of the data.
            seed: the same seed gives the same paths.
            observation_noise: add the learned noise to each value.
            chunks: paths of each block of a lazy result, as of `spdelaw.simulate`; write it with
                `spdelaw.write` to have more of them than memory holds.
        """
        return _predict.sample(self, n_paths, times, grid, seed, observation_noise, chunks)

    def log_likelihood(self, data: Any) -> xr.DataArray:
        """Log density of each path, in the units of the law; dim (path).

        ``attrs["of"]`` names the numbers: "values", with what lies outside the modes as white
        noise of the learned variance; or "coefficients", where a law without any noise gives
        values no density. ``attrs["count"]`` is how many.
        """
        return _likelihood.log_likelihood(self, data)

    def reconstruct(
        self, data: Any, grid: Any = None, *, parameter_draws: int = 0, seed: int = 0
    ) -> xr.Dataset:
        """Smoothed field through gaps and noise: ``mean`` and ``std``, dims (path, time, x).

        Args:
            data: fields; NaN marks what is missing.
            grid: where to reconstruct, by default the points of the data.
            parameter_draws: laws drawn around this one, so that ``std`` knows how well its
                parameters are known; 0 takes them as known.
            seed: of those draws.
        """
        own = self.observe(data)

        def predict(law: Law, _: int) -> xr.Dataset:
            return _predict.predict(law, own, grid, own.dated)

        return over_parameters(self, parameter_draws, seed, 0, predict)

    def forecast(
        self,
        history: Any,
        times: Any = None,
        *,
        steps: int | None = None,
        n_samples: int = 0,
        seed: int = 0,
        grid: Any = None,
        parameter_draws: int = 0,
    ) -> xr.Dataset:
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
            parameter_draws: laws drawn around this one, so that bands and samples know how well its
                parameters are known (20 are enough for a band); 0 takes them as known.
        """
        own, n_samples = self.observe(history), whole("n_samples", n_samples, 0)
        wanted = check_times(wanted_times(self, own.fields, times, steps))
        dated = own.dated if times is None else has_dates(times)

        def predict(law: Law, n: int) -> xr.Dataset:
            return _predict.predict(law, own, grid, dated, wanted, (n, seed))

        return over_parameters(self, parameter_draws, seed, n_samples, predict)

    def kl_divergence(self, other: Law | SpectralSPDE, times: Any = None) -> float:
        """``KL(other || self)`` per path on the reported modes, in nats.

        ``other`` is the reference, typically the truth: the expected loss in log-likelihood of
        describing its paths by this law. A regular fit of p parameters to M paths has an
        expected value of about ``p / (2 M)``.
        """
        t = self.times if times is None else check_times(times)
        truth = other.equation if isinstance(other, Law) else other
        if truth.n_modes < self.n_modes:
            expected, fix = f"at least {self.n_modes} modes", "compare with one that has as many"
            raise InputError("other", expected=expected, got=str(truth.n_modes), fix=fix)
        reference = StateSpace(truth.dynamics, truth.initial_state, np.zeros(()))
        own = StateSpace(self.linear, self.initial, self.observation_variance)
        return kl_divergence(reference.leading(self.n_modes), own.leading(self.n_modes), t)

    # -- what follows from a linear drift and its noise -------------------------------------

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
        return _derived.eigenmodes(self)

    def stationary_covariance(self) -> xr.DataArray:
        """``P`` with ``Lambda P + P Lambda' = Q``; dims (mode, mode_2, statistic).

        Where the noise has a season, the mean of the covariance over a period.
        """
        return _derived.stationary_covariance(self)

    def optimal_growth(self, times: Any) -> xr.Dataset:
        """Most that the energy of a pattern grows over lead times, without noise.

        ``growth`` is the squared spectral norm of ``e^(-Lambda t)``, dims (time, statistic);
        ``initial_pattern`` grows most, into ``final_pattern``, dims (time, mode).
        """
        return _derived.optimal_growth(self, times)

    def power_spectrum(self, frequencies: Any) -> xr.DataArray:
        """Spectral density of each coefficient; dims (frequency, mode, statistic).

        Two-sided, by cycles per unit of time: its integral over all frequencies is the
        stationary variance. Where the noise has a season, the mean over a period.
        """
        return _derived.power_spectrum(self, frequencies)

    def predictability(self, times: Any) -> xr.Dataset:
        """Mean-square error of the best forecast from a perfectly known state.

        Relative to the stationary variance: ``error`` of the field, dims (time, statistic),
        ``mode_error`` of each coefficient, and ``limit``, the lead time at which half of the
        variance is lost. Where the noise has a season, both are means over a period.
        """
        return _derived.predictability(self, times)

    # -- people and files ---------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the law to a directory; the old one stays until the new one is complete."""
        write_law(Path(path), self)

    def citation(self) -> str:
        """What to cite for this law, by what really ran."""
        return citation(self.info)

    def to_pandas(self) -> Any:
        """Parameters as one tidy DataFrame: columns parameter, mode, estimate, stderr, ...

        ``mode`` is missing for parameters that belong to no mode; for an observation noise per
        point it is the number of the point. Laws with matrices have a column ``mode_2``, semilinear
        ones a column ``term``.
        """
        return _parameters_table.to_pandas(self.parameters)

    def to_arviz(self, n_draws: int = 1000, seed: int = 0) -> Any:
        """Draws of the parameters from their asymptotic law as ArviZ InferenceData."""
        return _parameters_table.to_arviz(self.parameters, n_draws, seed)

    def __repr__(self) -> str:
        """Table of the parameters with their intervals."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        return as_html(self)

    def __dir__(self) -> list[str]:
        """What completion shows: public names alone."""
        return [name for name in super().__dir__() if not name.startswith("_")]


def state_space_law(
    observed: Observed, n_modes: int, space: StateSpace, parameters: xr.Dataset, **more: Any
) -> Law:
    """Law of observed fields by the numbers of a state space, at their times and points."""
    more |= {**space._asdict(), "times": np.unique(observed.times), "points": observed.points}
    return Law(observed.domain, n_modes, parameters, **more)
