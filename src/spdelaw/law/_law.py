"""The law: what was learned, and everything that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from spdelaw.data import Prepared
from spdelaw.domain import AbstractDomain
from spdelaw.equation import Gaussian, SpectralSPDE, check_times
from spdelaw.errors import DataError, FileError, InputError, MissingExtraError, SpdeLawError
from spdelaw.law import _citation
from spdelaw.law._check import check_law
from spdelaw.law._clock import extended_clocks, own_clock, own_rows, shared_clock
from spdelaw.law._divergence import kl_divergence
from spdelaw.law._document import from_document, to_document
from spdelaw.law._states import FieldMoments, batches, draw_fields, smooth_fields
from spdelaw.law._store import read_law, write_law
from spdelaw.law._text import describe
from spdelaw.law._user_units import to_clock, to_law, to_user
from spdelaw.model import Collapsed, Parameters, Statistics, evaluate_likelihood
from spdelaw.simulate import simulate

Array = np.ndarray

#: Observation variance, relative to the field's, below which the filter does not go.
VARIANCE_FLOOR = 1e-10


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Law:
    """Law of a field, learned from data: drift and noise spectrum, initial state, noise.

    Built by `spdelaw.fit`. The coefficients follow ``dc_n = -lambda_n c_n dt + sqrt(q_n) dbeta``
    and are seen through the domain's eigenfunctions with white noise.

    Attributes:
        domain: where the field lives.
        n_modes: reported modes; nuisance modes come after them in ``state``.
        parameters: Dataset with ``eigenvalue``, ``noise_variance``, ``initial_mean`` over
            ``mode`` and ``observation_std``; dim ``statistic`` = estimate, stderr, lower, upper.
        state: the estimated parameters of all modes as plain arrays.
        times, points: where the data were, the defaults for `sample`.
        unresolved_variance: mean square of the field beyond the modes.
        info: engine, route, timings, convergence, warnings.
        preparation: what was done to the data first. Data that come in are prepared likewise;
            `sample`, `reconstruct` and `forecast` come back in the units of the data.
    """

    domain: AbstractDomain
    n_modes: int
    parameters: xr.Dataset
    state: Parameters
    times: Array
    points: Array
    unresolved_variance: float
    info: dict[str, Any]
    coordinates: xr.Dataset | None = None
    statistics: Statistics | None = None
    preparation: Prepared | None = None
    #: Figures, `spdelaw.report.LawPlots`; a later stage puts it here.
    plot: ClassVar[Any]

    @property
    def bare(self) -> Law:
        """The same law for data that are prepared already: no preparation of its own."""
        return dataclasses.replace(self, preparation=None)

    def prepared(self, data: Any) -> xr.DataArray:
        """Data as the law sees them: canonical fields, prepared, on its clock."""
        return to_law(self, data)

    # -- the law as an equation -------------------------------------------------------

    @property
    def equation(self) -> SpectralSPDE:
        """The learned equation, nuisance modes included, to simulate or to compare."""
        s = self.state
        initial: Any = {
            "stationary": "stationary",
            "gaussian": Gaussian(s.initial_mean, s.initial_variance),
            "deterministic": s.initial_mean,
        }[s.initial_kind]
        return SpectralSPDE(
            self.domain, s.n_modes, s.eigenvalues, noise=s.noise_variance, initial=initial,
            times=self.times, n_points=len(self.points), initial_time=float(self.times[0]),
            label="learned law",
        )  # fmt: skip

    def sample(
        self, n_paths: int, times: Any = None, grid: Any = None, *, seed: int = 0,
        observation_noise: bool = False,
    ) -> xr.DataArray:  # fmt: skip
        """New paths of the law; dims (path, time, x).

        Args:
            n_paths: how many.
            times: by default those of the data; dates where the data had dates.
            grid: by default the points of the data.
            seed: the same seed gives the same paths.
            observation_noise: add the learned noise to each value.
        """
        points = self.points if grid is None else grid
        given, times = times, to_clock(self, times)
        std = np.sqrt(self.state.observation_variance) if observation_noise else np.zeros(())
        if std.ndim == 0:
            result = simulate(
                self.equation, n_paths, times, points, seed=seed, observation_std=float(std)
            )
        else:
            self._weights(np.size(points))  # noise of each point: only where it was learned
            result = simulate(self.equation, n_paths, times, points, seed=seed)
            result = result + std * np.random.default_rng([seed, 1]).standard_normal(result.shape)
        return to_user(self, result.to_dataset(name="field"), given)["field"]

    # -- data under the law -----------------------------------------------------------

    def log_likelihood(self, data: Any) -> xr.DataArray:
        """Log density of each path, in the units of the law; dim (path).

        What lies outside the modes counts as white noise of the learned variance.
        """
        fields, values, times, basis = self._seen(data)
        out = np.empty(len(values))
        for block in batches(values, times, basis, self._weights(len(basis))):
            part = block._replace(paths=np.arange(len(block.paths)))
            single = Collapsed((part,), len(part.paths), self.state.n_modes)
            out[block.paths] = evaluate_likelihood(single, self._working(values)).log_likelihood
        return xr.DataArray(out, dims="path", coords={"path": fields["path"]})

    def reconstruct(self, data: Any, grid: Any = None) -> xr.Dataset:
        """Smoothed field through gaps and noise: ``mean`` and ``std``, dims (path, time, x).

        Args:
            data: fields; NaN marks what is missing.
            grid: where to reconstruct, by default the points of the data.
        """
        fields, values, times, basis = self._seen(data)
        points, out_basis = self._target(fields, basis, grid)
        moments = smooth_fields(
            values, times, basis, self._working(values), out_basis, self._weights(len(basis))
        )
        rows = own_rows(fields, times)[:, :, None]
        shown = FieldMoments(*(np.take_along_axis(part, rows, axis=1) for part in moments))
        return to_user(self, self._moments_dataset(shown, self._coords(fields, points)), data)

    def forecast(
        self, history: Any, times: Any, *, n_samples: int = 0, seed: int = 0, grid: Any = None
    ) -> xr.Dataset:
        """Field at further times given a history: ``mean``, ``std`` and, on request, ``sample``.

        Args:
            history: fields up to now, with or without gaps.
            times: increasing times, or dates where the data had dates; those within the history
                are smoothed, not predicted.
            n_samples: joint draws, as variable ``sample`` with dim ``draw``.
            seed: of the draws.
            grid: where to predict, by default the points of the history.
        """
        fields, values, own, basis = self._seen(history)
        wanted = check_times(to_clock(self, times))
        if wanted[0] < own.min():
            raise InputError(
                "times", expected=f"times from the law's first, {own.min():g}, on",
                got=f"{wanted[0]:g}", fix="the law does not run backwards",
            )  # fmt: skip
        if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 0:
            raise InputError(
                "n_samples", expected="a non-negative integer", got=repr(n_samples),
                fix="pass n_samples=100",
            )  # fmt: skip
        points, out_basis = self._target(fields, basis, grid)
        working, weights = self._working(values), self._weights(len(basis))
        generator = np.random.default_rng(seed)
        means, variances, draws = [], [], []
        for clock, extended, at in extended_clocks(own, wanted, values):
            seen = (extended, clock, basis, working, out_basis)
            moments = smooth_fields(*seen, weights)
            means.append(moments.mean[:, at])
            variances.append(moments.variance[:, at])
            if n_samples:
                draws.append(draw_fields(*seen, n_samples, generator, weights)[:, :, at])
        coords = {"path": fields["path"].values, "time": wanted, self.domain.dims[0]: points}
        moments = FieldMoments(np.concatenate(means), np.concatenate(variances))
        result = self._moments_dataset(moments, coords)
        if n_samples:
            dims = ("draw", "path", "time", self.domain.dims[0])
            result["sample"] = (dims, np.concatenate(draws, axis=1))
        return to_user(self, result, times)

    def kl_divergence(self, other: Law | SpectralSPDE, times: Any = None) -> float:
        """``KL(other || self)`` per path on the reported modes, in nats.

        ``other`` is the reference, typically the truth: the expected loss in log-likelihood of
        describing its paths by this law. A regular fit of p parameters to M paths has an
        expected value of about ``p / (2 M)``.
        """
        t = self.times if times is None else check_times(times)
        return kl_divergence(_reported(other, self.n_modes), _reported(self, self.n_modes), t)

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
            positive = name != "initial_mean"
            relative = np.divide(s, x, out=np.zeros_like(s), where=x != 0)
            draws[str(name)] = x * np.exp(relative * z) if positive else x + s * z
        dims = {str(n): ["mode"] for n in self.parameters.data_vars
                if self.parameters[n].ndim == 2 and "mode" in self.parameters[n].dims}  # fmt: skip
        coords = {"mode": self.parameters["mode"].values}
        return arviz.from_dict(posterior=draws, dims=dims, coords=coords)

    def __repr__(self) -> str:
        """Table of the spectra with their intervals."""
        return describe(self)

    # -- helpers ------------------------------------------------------------------------

    def _basis(self, points: Array) -> Array:
        return self.domain.eigenfunctions(points, self.state.n_modes)

    def _seen(self, data: Any) -> tuple[xr.DataArray, Array, Array, Array]:
        fields = self.prepared(data)
        points = self.domain.check_points(fields[self.domain.dims[0]].values)
        if "path_time" in fields.coords:
            values, times = own_clock(fields, float(self.times[0]))
            return fields, values, times, self._basis(points)
        # The initial state belongs to the first time of the law, not to that of the data.
        values, times = shared_clock(fields, float(self.times[0]))
        if len(times) < 2:
            raise DataError(
                "time", expected="at least two times", got=str(len(times)),
                fix="pass the history from its first time on",
            )  # fmt: skip
        return fields, values, times, self._basis(points)

    def _target(self, fields: xr.DataArray, basis: Array, grid: Any) -> tuple[Array, Array]:
        if grid is None:
            return fields[self.domain.dims[0]].values, basis
        points = self.domain.check_points(grid)
        return points, self._basis(points)

    def _working(self, values: Array) -> Parameters:
        """Parameters for the filter: what the modes leave over acts as observation noise."""
        floor = VARIANCE_FLOOR * float(np.nanmean(values**2))
        r = self.state.observation_variance
        if np.ndim(r):
            return self.state._replace(observation_variance=np.asarray(1.0))
        return self.state._replace(
            observation_variance=np.asarray(max(float(r) + self.unresolved_variance, floor))
        )

    def _weights(self, n_points: int) -> Array | None:
        r = self.state.observation_variance
        if np.ndim(r) == 0:
            return None
        if len(r) != n_points:
            raise DataError(
                "points", expected=f"the {len(r)} points the noise was learned at",
                got=f"{n_points} points", fix="use the same grid, or fit one noise for all points",
            )  # fmt: skip
        return 1.0 / (np.asarray(r) + self.unresolved_variance)

    def _coords(self, fields: xr.DataArray, points: Array) -> dict[str, Any]:
        coords: dict[str, Any] = {"path": fields["path"].values, "time": fields["time"].values}
        if "path_time" in fields.coords:
            coords["path_time"] = fields["path_time"]
        return {**coords, self.domain.dims[0]: points}

    def _moments_dataset(self, moments: FieldMoments, coords: dict[str, Any]) -> xr.Dataset:
        dims = ("path", "time", self.domain.dims[0])
        variance = moments.variance + self.unresolved_variance
        return xr.Dataset(
            {"mean": (dims, moments.mean), "std": (dims, np.sqrt(variance))},
            coords=coords,
            attrs={"observation_std": float(np.sqrt(np.mean(self.state.observation_variance)))},
        )


def _reported(law: Law | SpectralSPDE, n_modes: int) -> Parameters:
    """The first modes' parameters of a law or an equation."""
    if isinstance(law, Law):
        s = law.state
        lam, q, kind = s.eigenvalues, s.noise_variance, s.initial_kind
    else:
        s = law  # type: ignore[assignment]
        lam, q, kind = law.eigenvalues, law.noise_variance, law.initial_kind  # type: ignore
    if len(lam) < n_modes:
        raise InputError(
            "other", expected=f"at least {n_modes} modes", got=str(len(lam)),
            fix="compare with an equation that has as many modes",
        )  # fmt: skip
    n = slice(n_modes)
    return Parameters(lam[n], q[n], s.initial_mean[n], s.initial_variance[n], np.asarray(0.0), kind)


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
            raise InputError(
                "name", expected="a free name", got=repr(name), fix="choose another name"
            )
        setattr(Law, name, property(cls))
        return cls

    return register


def load(path: str | Path) -> Law:
    """Load a law that `Law.save` wrote.

    Example:
        >>> import numpy as np, spdelaw as sl, tempfile, pathlib
        >>> data = sl.simulate(sl.catalogue.heat(n_modes=2), n_paths=20, seed=0)
        >>> law = sl.fit(data, domain=sl.Interval(0, np.pi), n_modes=2)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> law.save(folder / "heat.law")
        >>> bool(load(folder / "heat.law").parameters.equals(law.parameters))
        True
    """
    document, arrays, table = read_law(Path(path))
    try:
        law = Law(**from_document(document, arrays), parameters=table)
        check_law(law)
        return law
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, SpdeLawError):
            raise
        raise FileError(
            str(path), expected="a complete law", got=f"{type(error).__name__}: {error}",
            fix="fit again; the directory is damaged",
        ) from error  # fmt: skip
