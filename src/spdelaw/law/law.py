"""The law: what was learned, and everything that follows from it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from spdelaw.checks import checked
from spdelaw.data.clock import has_dates
from spdelaw.data.io.sources import is_labelled
from spdelaw.data.observed import Observed
from spdelaw.data.prepare import Prepared
from spdelaw.domains.base import AbstractDomain, table_html
from spdelaw.errors import InputError
from spdelaw.law import derived, likelihood, parameters, prediction
from spdelaw.law.derived import kl_divergence
from spdelaw.law.observations import (
    VALUE_NOISE,
    forecast_times,
    prepare_for_law,
    subtract_mean_and_forcing,
)
from spdelaw.law.parameters import over_parameters
from spdelaw.law.provenance import Provenance
from spdelaw.law.residuals import AR1, White
from spdelaw.processes.forcing import Forcing
from spdelaw.processes.linear import Dynamics, Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.spde import SpectralSPDE
from spdelaw.processes.specification import InitialState, check_times
from spdelaw.statespace.chain import StateSpace
from spdelaw.statespace.statistics import Statistics

# ---------- Accessors that other packages add to a law


def register_accessor(name: str) -> Callable[[type], type]:
    """Make ``law.name`` an instance of the decorated class, which takes the law.

    For later stages and other packages, as xarray's accessors are.

    Example:
        >>> from spdelaw.law import Law, register_accessor
        >>> @register_accessor("size")
        ... class Size:
        ...     def __init__(self, law):
        ...         self.modes = law.n_modes
        >>> isinstance(Law.size, property)
        True
        >>> del Law.size
    """

    def register(cls: type) -> type:
        taken = {field.name for field in dataclasses.fields(Law)}
        if not name.isidentifier() or hasattr(Law, name) or name in taken:
            fix = "choose another name"
            raise InputError("name", expected="a free name", got=repr(name), fix=fix)
        setattr(Law, name, property(cls))
        return cls

    return register


# ---------- Representations of a law: plain text, HTML table, citation


PAPER = (
    "S. Zeng, A. Petersson, W. Bock: Latent-Variable Learning of SPDEs via Wiener Chaos. "
    "Preprint, 2026."
)
SOFTWARE = "spdelaw {version}: learning the law of stochastic PDEs from observed fields."
#: Most rows of a table.
MOST_ROWS = 12
#: Widths of the columns of intervals.
COLUMN_WIDTHS = (28, 30)


def as_text(law: Law) -> str:
    """Head line, one line per mode with intervals, observation noise, warnings."""
    title, facts, header, rows, notes = summary(law)
    *facts, level = facts
    widths = [len(header[0]), *COLUMN_WIDTHS, *[COLUMN_WIDTHS[-1]] * len(header)]
    head, *table = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        for row in (header, *rows)
    )
    return "\n  ".join([title, *facts, f"{head}   {level}", *table, *notes])


def summary(law: Law) -> tuple[str, list[str], list[str], list[list[str]], list[str]]:
    """Title, facts, the last of which is the level, header and rows of intervals, and notes."""
    p, info = law.parameters, law.info
    facts = [
        f"engine {info.engine}, {info.n_paths} paths, log-likelihood {info.log_likelihood:.6g}"
    ]
    facts.append(f"assumed: {assumed(law)}")
    if "drift" in p:
        facts.append(
            f"modes coupled: drift {info.drift}, noise {info.noise}; matrices in .parameters"
        )
    header, rows, more = _eigenmode_rows(law) if "drift" in p else _mode_rows(law)
    facts.append(f"{100 * p.attrs['interval_level']:g} % intervals")
    notes = [f" ... {more}"] if len(rows) > MOST_ROWS else []
    if "observation_std" in p and p.observation_std.ndim == 1:
        notes.append(f"observation noise {interval(p.observation_std.values)}")
    if not isinstance(law.dynamics, Linear):
        single = [name for name in law.dynamics.parameters if name in p and p[name].ndim == 1]
        notes += [f"{name} {interval(p[name].values)}" for name in single]
    if law.residual_memory is not None:
        unit = str(info.get("time", {}).get("units", "")).split(" since ")[0]
        notes.append(f"residual: {law.residual_memory.in_words(unit)}")
    if "coefficient" in p:
        terms = zip(p["term"].values, p.coefficient.values, strict=True)
        notes += [f"coefficient of {name}: {interval(row)}" for name, row in terms]
    if "season" in p:
        parts = ", ".join(interval(row) for row in p.season.values)
        notes.append(f"noise by season, relative: {parts}")
    notes += [f"note: {note}" for note in info.notes]
    title = f"Law of {law.n_modes} modes on {law.domain}"
    return title, facts, header, rows[:MOST_ROWS], notes


#: Text for the mean of a law.
MEANS = {"zero": "mean zero", "constant": "mean estimated", "known": "mean known"}


#: Words for noise that depends on the state.
STATE_NOISE_TEXT = {
    "proportional": "noise in proportion to the field (Ito)",
    "affine": "noise that grows with the field from an offset (Ito)",
    "square_root": "noise that grows with the square root of the field (Ito)",
}


def assumed(law: Law) -> str:
    """What the law takes for granted, in one line: modes, mean, initial state, noise, residual."""
    info, noise = law.info, law.observation_variance
    nuisance = f" and {info.n_nuisance} nuisance modes" if info.n_nuisance else ""
    parts = [f"{law.n_modes} mode{'s' if law.n_modes > 1 else ''}{nuisance}"]
    parts += [MEANS[info.mean]] if info.mean in MEANS else []
    parts.append(f"initial state {law.initial.kind}")
    if getattr(law.dynamics, "state_noise", "none") != "none":
        parts.append(STATE_NOISE_TEXT.get(law.dynamics.state_noise_kind, "noise by operators"))  # type: ignore[attr-defined]
    if info.get("observation_noise") == VALUE_NOISE:
        parts.append("observation noise known for each value")
    elif noise.ndim:
        parts.append("observation noise of each point")
    else:
        parts.append("one observation noise" if noise > 0 else "no observation noise")
    parts.append(
        "residual white" if law.residual_memory is None else "residual with memory at each point"
    )
    if _rotates(law):
        half_turn = np.pi / float(np.median(np.diff(law.times)))
        parts.append(f"no rotation faster than {half_turn:.4g}, half a turn between observations")
    return ", ".join(parts)


def _rotates(law: Law) -> bool:
    """Whether the drift turns modes into one another: it is learned up to whole turns per step."""
    drift = law.dynamics.drift if isinstance(law.dynamics, Linear) else np.zeros(1)
    return drift.ndim == 2 and bool(np.abs(np.linalg.eigvals(drift).imag).max() > 0)


def _mode_rows(law: Law) -> tuple[list[str], list[list[str]], str]:
    """One row per mode: all parameters that belong to modes, the initial state apart."""
    names = [
        name
        for name, table in law.parameters.data_vars.items()
        if table.dims == ("mode", "statistic") and not str(name).startswith("initial")
    ]
    tables = [law.parameters[name].values for name in names]
    rows = [[str(n + 1), *(interval(t[n]) for t in tables)] for n in range(law.n_modes)]
    header = ["mode", *(str(name).replace("_", " ") for name in names)]
    return header, rows, f"{law.n_modes - MOST_ROWS} more modes in .parameters"


def _eigenmode_rows(law: Law) -> tuple[list[str], list[list[str]], str]:
    """One row per eigenmode of the drift: e-folding time and period."""
    table = law.eigenmodes()
    lives = map(interval, table.e_folding_time.values)
    turns = (interval(p) if np.isfinite(p[0]) else "none" for p in table.period.values)
    rows = [[str(n + 1), *both] for n, both in enumerate(zip(lives, turns, strict=True))]
    header = ["eigenmode", "e-folding time", "period"]
    return header, rows, f"{len(rows) - MOST_ROWS} more in .eigenmodes()"


def interval(values: np.ndarray) -> str:
    """Estimate with its interval."""
    estimate, _, lower, upper = values
    return f"{estimate:.4g} [{lower:.4g}, {upper:.4g}]"


def citation(info: Mapping[str, Any]) -> str:
    """Software and, where its method was used, the paper."""
    is_used = info.get("engine") in ("chaos", "amortized")
    follows = "" if is_used else "The problem and the spectral setting follow "
    return f"{SOFTWARE.format(version=info.get('version', ''))}\n{follows}{PAPER}"


# ---------- The law


Array = np.ndarray


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Law:
    """Law of a field, estimated from data: dynamics of its modes, initial state, noise.

    `spdelaw.fit` returns it. The coefficients of the domain's eigenfunctions follow ``dynamics``,
    for linear ones ``dc = -Lambda (c - m) dt + dW`` with ``Cov dW = Q dt``, and are observed with
    white noise.

    Attributes:
        domain: where the field lives.
        n_modes: reported modes; nuisance modes come after them.
        parameters: Dataset with ``eigenvalue``, ``noise_variance``, ``initial_mean`` over
            ``mode`` and ``observation_std``; dim ``statistic`` = estimate, stderr, lower, upper.
            The attribute ``units`` is set if the data have units. Laws with a mean have ``mean``;
            their ``initial_mean`` is that of the deviation from it. Laws of coupled modes have
            ``drift`` and ``noise_covariance`` over ``mode`` and ``mode_2`` instead of the first
            two.
        dynamics: dynamics of all modes, including a known forcing.
        initial: law of all modes at the first time.
        observation_variance: of the noise, one number, or one per point.
        times, points: those of the data, the defaults of `sample`.
        unresolved_variance: mean square of the field beyond the modes.
        info: engine, route, timings, convergence, warnings; a record and a mapping.
        coordinates: the estimated parameters, with their covariance.
        statistics: sums over the data, which `spdelaw.update` needs.
        residual_memory: memory of the residual, where the fit detected it; used by `reconstruct`
            and `forecast`, not by `log_likelihood`.
        preparation: preparation of the training data. New data are prepared in the same way;
            results of `sample`, `reconstruct` and `forecast` are in the units of the data.
        offset: part of a known mean outside the modes, at the points of the data: subtracted from
            new data and added to results; or None.
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
    residual_memory: AR1 | None = None
    offset: Array | None = None
    #: Figures, `spdelaw.report.LawPlots`; a later stage puts it here.
    plot: ClassVar[Any]

    def __post_init__(self) -> None:
        """Plain entries for ``info`` become a record, a number for the noise an array."""
        object.__setattr__(self, "info", Provenance.of(self.info))
        if isinstance(self.dynamics, Linear | Reacting):  # others name their numbers as they like
            time = str(self.info.get("time", {}).get("units", "")).split(" since ")[0]
            field = str(self.info.get("labels", {}).get("attrs", {}).get("units", ""))
            if self.preparation is not None and self.preparation.how.standardise:
                field = "1"
            kind = getattr(self.dynamics, "state_noise_kind", "none")
            table = parameters.with_units(self.parameters, field, time, kind)
            object.__setattr__(self, "parameters", table)
        noise = np.asarray(self.observation_variance, dtype=float)
        object.__setattr__(self, "observation_variance", noise)

    # -- its parts --------------------------------------------------------------------

    @property
    def state_space(self) -> StateSpace:
        """Dynamics, initial state and observation noise together."""
        return StateSpace(self.dynamics, self.initial, self.observation_variance)

    @property
    def residual(self) -> White | AR1:
        """Model of the residual outside the modes: with memory per point, or white."""
        if self.residual_memory is not None:
            return self.residual_memory
        return White(self.unresolved_variance, self.observation_variance)

    @property
    def rest(self) -> AR1 | None:
        """Earlier name of `residual_memory`."""
        return self.residual_memory

    @property
    def linear(self) -> Linear:
        """The dynamics, or `InputError` if they are not linear."""
        if isinstance(self.dynamics, Linear):
            return self.dynamics
        expected = "a linear law, for what is defined by its drift and its noise"
        fix = "draw from it with law.sample(...) and estimate what you need"
        raise InputError("law", expected=expected, got=f"dynamics {self.dynamics.name!r}", fix=fix)

    @property
    def forcing(self) -> Forcing | None:
        """Known forcing of a linear law."""
        return self.dynamics.forcing if isinstance(self.dynamics, Linear) else None

    @property
    def known_mean(self) -> Array | None:
        """Mean field over the points that the user passed to the fit, None without."""
        if self.info.get("mean") != "known" or self.offset is None:
            return None
        mode_mean = self.dynamics.mean if isinstance(self.dynamics, Linear) else None
        if mode_mean is None:
            return self.offset
        return self.offset + self.domain.eigenfunctions(self.points, len(mode_mean)) @ mode_mean

    @property
    def equation(self) -> SpectralSPDE:
        """The estimated linear equation, including nuisance modes."""
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
    def without_preparation_and_mean(self) -> Law:
        """The same law for data that `prepared` returned: no preparation, mean, forcing, names."""
        dynamics = self.dynamics
        if isinstance(dynamics, Linear):
            dynamics = dynamics.unforced
        info = Provenance.of({key: self.info[key] for key in self.info if key != "labels"})
        parts = {"dynamics": dynamics, "info": info, "preparation": None, "offset": None}
        return dataclasses.replace(self, **parts)  # type: ignore[arg-type]

    @property
    def bare(self) -> Law:
        """Deprecated name of `without_preparation_and_mean`."""
        text = "Law.bare is deprecated: use Law.without_preparation_and_mean"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.without_preparation_and_mean

    def with_info(self, **entries: Any) -> Law:
        """The same law with new or replaced entries in its provenance."""
        return dataclasses.replace(self, info=Provenance.of({**self.info, **entries}))

    def observe(self, data: Any, **adapter: Any) -> Observed:
        """Prepare data for this law once, to pass the result to several of its methods.

        The result is canonical, prepared like the training data, on their clock. Lazy data stay
        lazy.

        Args:
            data: fields in any form that `spdelaw.fit` takes.
            adapter: ``times`` and ``points`` of a bare array, ``variable``, ``time_unit``.
        """
        return prepare_for_law(self, data, **adapter)

    def prepared(self, data: Any) -> xr.DataArray:
        """Fields of `observe`, less the mean of the law and its response to a forcing."""
        return subtract_mean_and_forcing(self, data).labelled

    # -- new paths, and data under the law ----------------------------------------------

    @checked()
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
            observation_noise: add the estimated noise to each value.
            chunks: paths of each block of a lazy result, as of `spdelaw.simulate`; write it with
                `spdelaw.write` if it is larger than memory.
        """
        return prediction.sample(self, n_paths, times, grid, seed, observation_noise, chunks)

    def log_likelihood(self, data: Any, **adapter: Any) -> xr.DataArray:
        """Log density of each path, in the units of the law; dim (path).

        ``attrs["of"]`` names the values: "values", with the residual outside the modes as white
        noise of the estimated variance; or "coefficients", if the law has no noise and values have
        no density. ``attrs["count"]`` is how many. ``adapter``: as of `observe`.
        """
        return likelihood.log_likelihood(self, self.observe(data, **adapter) if adapter else data)

    @checked()
    def reconstruct(
        self,
        data: Any,
        grid: Any = None,
        *,
        parameter_draws: int = 0,
        seed: int = 0,
        **adapter: Any,
    ) -> xr.Dataset:
        """Smoothed field through gaps and noise: ``mean``, ``std``, ``std_field``.

        ``std`` is the standard deviation of an observed value: ``mean +- 1.96 std`` contains 95 %
        of them. ``std_field`` is that of the field without observation noise. Dims (path, time, x).
        At points without an estimated or known noise, the mean noise of the others is used.

        Args:
            data: fields in any form that `spdelaw.fit` takes; NaN marks what is missing.
            grid: points of the result, by default those of the data. At new points the climatology
                of a preparation comes from its neighbours, and ``std`` includes the uncertainty of
                that.
            parameter_draws: number of draws of the parameters, whose uncertainty ``std`` and
                ``std_field`` then include; 0 ignores it.
            seed: of those draws.
            adapter: ``times`` and ``points`` of a bare array, as of `observe`.
        """
        observed = self.observe(data, **adapter)
        return prediction.reconstruct(self, observed, grid, parameter_draws, seed)

    @checked()
    def forecast(
        self,
        history: Any,
        at: Any = None,
        *,
        steps: int | None = None,
        n_samples: int = 0,
        seed: int = 0,
        grid: Any = None,
        parameter_draws: int = 0,
        times: Any = None,
        **adapter: Any,
    ) -> xr.Dataset:
        """Field at further times given a history, with the variables of `reconstruct`.

        ``n_samples`` adds ``sample``, draws of the field without observation noise. All variables
        include the error of an estimated mean. Of a law with nonlinear terms, mean and deviation
        are those of an ensemble of 100 members.

        Args:
            history: fields up to now in any form that `spdelaw.fit` takes, with or without gaps.
            at: increasing times, or dates where the data had dates; times within the history are
                smoothed.
            steps: instead of ``at``, number of steps of the history to forecast; calendar months
                for monthly data.
            n_samples: joint draws, as variable ``sample`` with dim ``draw``.
            seed: of the draws.
            grid: points of the forecast, by default those of the history; at new points as in
                `reconstruct`.
            parameter_draws: number of draws of the parameters, whose uncertainty the result then
                includes (20 are enough for a band); 0 ignores it.
            times: of a history that is a bare array, with ``points``; of labelled data, the same
                as ``at``.
            adapter: ``points`` of a bare array, and others as of `observe`.
        """
        if times is not None and at is None and is_labelled(history):
            at, times = times, None
        observed = self.observe(history, **adapter | ({} if times is None else {"times": times}))
        requested_times = check_times(forecast_times(self, observed.fields, at, steps))
        dated = observed.dated if at is None else has_dates(at)

        def predict(law: Law, n: int) -> xr.Dataset:
            return prediction.predict(law, observed, grid, dated, requested_times, (n, seed))

        return over_parameters(self, parameter_draws, seed, n_samples, predict)

    @checked()
    def kl_divergence(self, other: Law | SpectralSPDE, times: Any = None) -> float:
        """``KL(other || self)`` per path on the reported modes, in nats.

        ``other`` is the reference, typically the truth: the expected loss in log-likelihood of
        describing its paths by this law. A regular fit of p parameters to M paths has an
        expected value of about ``p / (2 M)``.
        """
        t = self.times if times is None else check_times(times)
        if t.size < 2:
            expected, fix = "at least two times", "pass times=None for those of the data"
            raise InputError("times", expected=expected, got=str(t.size), fix=fix)
        truth = other.equation if isinstance(other, Law) else other
        if truth.n_modes < self.n_modes:
            expected, fix = f"at least {self.n_modes} modes", "compare with one that has as many"
            raise InputError("other", expected=expected, got=str(truth.n_modes), fix=fix)
        reference = StateSpace(truth.dynamics, truth.initial_state, np.zeros(()))
        learned = StateSpace(self.linear, self.initial, self.observation_variance)
        return kl_divergence(reference.leading(self.n_modes), learned.leading(self.n_modes), t)

    # -- what follows from a linear drift and its noise -------------------------------------

    def eigenmodes(self) -> xr.Dataset:
        """Eigenmodes of the drift, slowest first; a pair of complex ones is one row.

        ``decay_rate``, ``e_folding_time``, ``frequency`` (radians per unit of time) and
        ``period`` with intervals, dims (eigenmode, statistic), and the complex ``pattern`` in
        mode coefficients. The period of a mode that does not rotate is infinite.

        Example:
            >>> import spdelaw as sl
            >>> ring = sl.catalogue.advection_diffusion(3, speed=2.0)
            >>> fields = sl.simulate(ring, 100, seed=0)
            >>> law = sl.fit(fields, ring.domain, 3, drift="normal")
            >>> row = law.eigenmodes().frequency.sel(eigenmode=2)  # 2 k = 4
            >>> bool(row.sel(statistic="lower") < 4.0 < row.sel(statistic="upper"))
            True
        """
        return derived.eigenmodes(self)

    def stationary_covariance(self) -> xr.DataArray:
        """``P`` with ``Lambda P + P Lambda' = Q``; dims (mode, mode_2, statistic).

        Where the noise has a season, the mean of the covariance over a period.
        """
        return derived.stationary_covariance(self)

    def optimal_growth(self, times: Any) -> xr.Dataset:
        """Largest growth of the energy of a pattern over lead times, without noise.

        ``growth`` is the squared spectral norm of ``e^(-Lambda t)``, dims (time, statistic);
        ``initial_pattern`` grows most, into ``final_pattern``, dims (time, mode).
        """
        return derived.optimal_growth(self, times)

    def power_spectrum(self, frequencies: Any) -> xr.DataArray:
        """Spectral density of each coefficient; dims (frequency, mode, statistic).

        Two-sided, by cycles per unit of time: its integral over all frequencies is the
        stationary variance. Where the noise has a season, the mean over a period.
        """
        return derived.power_spectrum(self, frequencies)

    def predictability(self, times: Any) -> xr.Dataset:
        """Mean-square error of the best forecast from a perfectly known state.

        Relative to the stationary variance: ``error`` of the field, dims (time, statistic),
        ``mode_error`` of each coefficient, and ``limit``, the lead time at which half of the
        variance is lost. Where the noise has a season, both are means over a period.
        """
        return derived.predictability(self, times)

    # -- people and files ---------------------------------------------------------------

    @checked()
    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the law to a directory.

        Args:
            path: directory, such as "heat.law".
            overwrite: whether to replace an existing law, after the new one is complete.
        """
        from spdelaw.law.io import write_law  # reading builds laws

        write_law(Path(path), self, overwrite)

    def citation(self) -> str:
        """What to cite for this law, by the engine that ran."""
        return citation(self.info)

    def to_pandas(self) -> Any:
        """Parameters as one tidy DataFrame: columns parameter, mode, estimate, stderr, ...

        ``mode`` is missing for parameters without a mode; for an observation noise per point it is
        the number of the point. Laws with matrices have a column ``mode_2``, semilinear ones a
        column ``term``.
        """
        return parameters.to_pandas(self.parameters)

    @checked()
    def to_arviz(self, n_draws: int = 1000, seed: int = 0) -> Any:
        """Draws of the parameters from their asymptotic distribution as ArviZ InferenceData."""
        return parameters.to_arviz(self.parameters, n_draws, seed)

    def __repr__(self) -> str:
        """Table of the parameters with their intervals."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        return table_html(*summary(self))

    def __dir__(self) -> list[str]:
        """What completion shows: public names, without the deprecated one."""
        return [name for name in super().__dir__() if not name.startswith("_") and name != "bare"]


def state_space_law(
    observed: Observed, n_modes: int, space: StateSpace, parameters: xr.Dataset, **more: Any
) -> Law:
    """Law of observed fields by the numbers of a state space, at their times and points."""
    more |= {**space._asdict(), "times": np.unique(observed.times), "points": observed.points}
    return Law(observed.domain, n_modes, parameters, **more)
