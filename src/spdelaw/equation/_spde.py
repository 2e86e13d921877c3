"""A linear SPDE with additive noise, diagonal in the domain's basis or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain
from spdelaw.equation._checks import check_part, check_times
from spdelaw.equation._description import arguments, describe, in_words
from spdelaw.equation._forcing import Forcing
from spdelaw.equation._initial import Gaussian
from spdelaw.equation._matrices import (
    Coupling,
    coupled_covariance,
    coupled_mean,
    coupled_variance,
)
from spdelaw.equation._matrix_transition import stationary_covariance
from spdelaw.equation._resolve import frozen, resolve
from spdelaw.equation._season import Season
from spdelaw.equation._spectra import (
    OperatorFormula,
)
from spdelaw.equation._transition import mode_variance
from spdelaw.errors import EquationError

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SpectralSPDE:
    """``dX = A X dt + F dt + dW`` on the first ``n_modes`` modes of a domain.

    The coefficients are independent Ornstein-Uhlenbeck processes,
    ``dc_n = -lambda_n c_n dt + sqrt(q_n) dbeta_n`` (paper, eqs. 1-4). A drift or a noise that
    couples them is given as a matrix: ``dc = -Lambda c dt + dW`` with ``Cov dW = Q dt``. A known
    forcing F moves the mean and nothing else.

    Args:
        domain: where the field lives.
        n_modes: number of modes.
        drift: formula for ``lambda_n`` such as `OperatorFormula`, the numbers, or the matrix
            ``Lambda`` (N, N), no eigenvalue of which has a negative real part.
        noise: formula for ``q_n`` such as `PowerLaw`, the numbers, or the covariance ``Q`` (N, N).
        initial: function u0(x), or u0(x, y), coefficients, `Gaussian`, or ``"stationary"``.
        times: observation times used where none are given.
        n_points: size of the grid used where none is given, a dim; the domain's own by default.
        initial_time: when the state is ``initial``; no time may lie before it.
        label: a name for people.
        forcing: `Forcing`, of equations whose modes are not coupled; it acts from
            ``initial_time`` on.
        season: `Season` of the noise, of equations whose modes are not coupled.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> equation = sl.SpectralSPDE(
        ...     sl.Interval(0, np.pi), 4, noise=sl.PowerLaw(2.0), initial="stationary"
        ... )
        >>> equation.stationary_variance().values
        array([0.5       , 0.03125   , 0.00617284, 0.00195312])
    """

    domain: AbstractDomain
    n_modes: int
    drift: Any = OperatorFormula()  # noqa: RUF009 (frozen)
    noise: Any = dataclasses.field(kw_only=True)
    initial: Any = 0.0
    times: Any = None
    n_points: int = None  # type: ignore[assignment]  # resolved to the domain's own
    initial_time: float = 0.0
    label: str = ""
    forcing: Forcing | None = None
    season: Season | None = None
    # Resolved from the above:
    eigenvalues: Array = dataclasses.field(init=False)
    noise_variance: Array = dataclasses.field(init=False)
    initial_kind: str = dataclasses.field(init=False)
    initial_mean: Array = dataclasses.field(init=False)
    initial_variance: Array = dataclasses.field(init=False)
    coupling: Coupling | None = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Resolve formulas to numbers and check them."""
        if not isinstance(self.domain, AbstractDomain):
            raise EquationError(
                "domain", expected="a domain", got=type(self.domain).__name__,
                fix="pass sl.Interval(0, np.pi) or sl.Line()",
            )  # fmt: skip
        n = self.domain.check_modes(self.n_modes)
        times = np.linspace(0.0, 1.0, 201) + self.initial_time if self.times is None else self.times
        found = resolve(self.domain, n, self.drift, self.noise, self.initial)
        check_part("forcing", self.forcing, Forcing, found.coupling)
        check_part("season", self.season, Season, found.coupling)
        if self.season is not None and found.initial_kind == "stationary":
            raise EquationError(
                "initial", expected="a state to start from, where the noise has seasons",
                got="'stationary'", fix="pass sl.Gaussian(mean, variance), or a function u0(x)",
            )  # fmt: skip
        n_points = self.domain.default_points if self.n_points is None else self.n_points
        self._set(**found._asdict(), times=frozen(self._times(times)), n_points=n_points)

    def _set(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)

    # -- the same as matrices -----------------------------------------------------------

    @property
    def is_coupled(self) -> bool:
        """Whether drift, noise or initial state couple the modes."""
        return self.coupling is not None

    @property
    def drift_matrix(self) -> Array:
        """``Lambda`` in ``dc = -Lambda c dt + dW``; (N, N)."""
        return np.diag(self.eigenvalues) if self.coupling is None else self.coupling.drift

    @property
    def noise_covariance(self) -> Array:
        """``Q`` in ``Cov dW = Q dt``; (N, N)."""
        return np.diag(self.noise_variance) if self.coupling is None else self.coupling.noise

    @property
    def initial_covariance(self) -> Array:
        """``Cov c(0)``; (N, N)."""
        return np.diag(self.initial_variance) if self.coupling is None else self.coupling.initial

    # -- closed-form moments ----------------------------------------------------------

    def mean(self, times: Any = None, grid: Any = None) -> xr.DataArray:
        """``E c_n(t) = e^(-lambda_n t) m_n``: dims (time, mode), or (time, x) on a grid.

        A forcing adds its response.
        """
        t = self._times(times)
        if self.coupling is not None:
            m = coupled_mean(self.coupling, self.initial_mean, t - self.initial_time)
        else:
            m = np.exp(-np.outer(t - self.initial_time, self.eigenvalues)) * self.initial_mean
        m = m + self.forced_mean(t)
        if grid is None:
            return self._per_mode(m, t)
        return self._per_point(self.domain.synthesise(m, grid), t, grid)

    def forced_mean(self, times: Array) -> Array:
        """Response of the coefficients to the forcing, zero without one; (time, mode)."""
        if self.forcing is None:
            return np.zeros((len(times), self.n_modes))
        return self.forcing.response(self.eigenvalues, times, self.initial_time)

    @property
    def unforced(self) -> SpectralSPDE:
        """The same equation without its forcing."""
        return dataclasses.replace(self, forcing=None)

    def variance(self, times: Any = None, grid: Any = None) -> xr.DataArray:
        """``Var c_n(t)``, or ``Var X(t, x) = sum_n Var c_n(t) h_n(x)^2`` on a grid."""
        t = self._times(times)
        age = t - self.initial_time
        if self.coupling is not None:
            return self._coupled_variance(coupled_variance(self.coupling, age), t, grid)
        v = mode_variance(
            self.eigenvalues, self.noise_variance, self.initial_variance, age[:, None]
        )
        if self.season is not None:
            double, start = 2.0 * self.eigenvalues, np.full((len(t), 1), float(self.initial_time))
            noise = self.noise_variance * self.season.integral(double, start, t[:, None])
            v = np.exp(-double * age[:, None]) * self.initial_variance + noise
        if grid is None:
            return self._per_mode(v, t)
        h = self.domain.eigenfunctions(self.domain.check_points(grid), self.n_modes)
        return self._per_point(v @ (h**2).T, t, grid)

    def _coupled_variance(self, v: Array, t: Array, grid: Any) -> xr.DataArray:
        if grid is None:
            return self._per_mode(np.einsum("tnn->tn", v), t)
        h = self.domain.eigenfunctions(self.domain.check_points(grid), self.n_modes)
        return self._per_point(np.einsum("xn,tnm,xm->tx", h, v, h), t, grid)

    def covariance(self, times: Any = None) -> xr.DataArray:
        """``Cov(c_n(t), c_n(s)) = e^(-lambda_n |t - s|) Var c_n(min(t, s))``.

        Dims (time, time_2, mode), other modes are independent; (time, time_2, mode, mode_2) for
        coupled modes.
        """
        t = self._times(times)
        if self.coupling is not None:
            full = coupled_covariance(self.coupling, t - self.initial_time)
            axes = {"time": t, "time_2": t, "mode": self._modes, "mode_2": self._modes}
            return xr.DataArray(full, dims=tuple(axes), coords=axes)
        gap = np.abs(t[:, None] - t[None, :])[..., None]
        v = self.variance(t).values
        early = np.minimum(np.arange(len(t))[:, None], np.arange(len(t))[None, :])
        c = np.exp(-gap * self.eigenvalues) * v[early]
        coords = {"time": t, "time_2": t, "mode": self._modes}
        return xr.DataArray(c, dims=("time", "time_2", "mode"), coords=coords)

    def stationary_variance(self) -> xr.DataArray:
        """``q_n / (2 lambda_n)``; infinite where ``lambda_n = 0``; with seasons their mean.

        For coupled modes the diagonal of ``P`` in ``Lambda P + P Lambda' = Q``.
        """
        if self.coupling is not None:
            p = np.diag(stationary_covariance(self.coupling.drift, self.coupling.noise))
            return xr.DataArray(p, dims="mode", coords={"mode": self._modes})
        with np.errstate(divide="ignore", invalid="ignore"):
            v = self.noise_variance / (2.0 * self.eigenvalues)
        return xr.DataArray(v, dims="mode", coords={"mode": self._modes})

    def stationary_covariance(self, grid: Any) -> xr.DataArray:
        """``Cov(X(x), X(y)) = sum_n q_n / (2 lambda_n) h_n(x) h_n(y)``.

        Dims (x, x_2), and (point, point_2) in several dimensions.
        """
        x = self.domain.check_points(grid)
        h = self.domain.eigenfunctions(x, self.n_modes)
        if self.coupling is None:
            c = (h * self.stationary_variance().values) @ h.T
        else:
            c = h @ stationary_covariance(self.coupling.drift, self.coupling.noise) @ h.T
        dim = self.domain.dims[0] if x.ndim == 1 else "point"
        columns = zip(self.domain.dims, x.reshape(len(x), -1).T, strict=True)
        coords: dict[str, Any] = {}
        for name, column in columns:
            coords |= {name: (dim, column), f"{name}_2": (f"{dim}_2", column)}
        return xr.DataArray(c, coords, (dim, f"{dim}_2"))

    def energy_spectrum(self, times: Any = None) -> xr.DataArray:
        """``E |c_n(t)|^2 = mean^2 + variance`` (paper, Appendix A); dims (time, mode)."""
        return self.mean(times) ** 2 + self.variance(times)

    # -- helpers ----------------------------------------------------------------------

    @property
    def _modes(self) -> Array:
        return np.arange(1, self.n_modes + 1)

    def _times(self, times: Any) -> Array:
        t = check_times(self.times if times is None else times)
        if t[0] < self.initial_time:
            raise EquationError(
                "times", expected=f"times from the initial one, {self.initial_time:g}, on",
                got=f"{t[0]:g}", fix="shift the times, or set initial_time",
            )  # fmt: skip
        return t

    def _per_mode(self, values: Array, t: Array) -> xr.DataArray:
        coords = {"time": t, "mode": self._modes}
        return xr.DataArray(values, dims=("time", "mode"), coords=coords)

    def _per_point(self, values: Array, t: Array, grid: Any) -> xr.DataArray:
        places = self.domain.places(grid)
        coords = {"time": t, **places.coords}
        return xr.DataArray(places.unflatten(values), coords, ("time", *places.dims))

    def default_grid(self) -> Array:
        """The domain's regular grid with ``n_points`` points a dim."""
        return self.domain.grid(self.n_points)

    def with_modes(self, n_modes: int) -> SpectralSPDE:
        """The same equation cut off after fewer modes."""
        n = self.domain.check_modes(n_modes)
        if n > self.n_modes:
            raise EquationError(
                "n_modes", expected=f"at most {self.n_modes}", got=str(n),
                fix="build the equation anew with more modes",
            )  # fmt: skip
        spread = self.initial_variance[:n]
        drift, noise = self.eigenvalues[:n], self.noise_variance[:n]
        if self.coupling is not None:
            drift, noise, spread = (matrix[:n, :n] for matrix in self.coupling)
        state = Gaussian(self.initial_mean[:n], spread)
        return dataclasses.replace(
            self,
            n_modes=n,
            drift=drift,
            noise=noise,
            initial="stationary" if self.initial_kind == "stationary"
            else state if self.initial_kind == "gaussian" else self.initial_mean[:n],
        )  # fmt: skip

    # -- files and people -------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description (JSON types only) that `from_dict` turns back into an equal one."""
        return describe(self)

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> SpectralSPDE:
        """Equation from the plain description of `to_dict`."""
        try:
            return cls(**arguments(description))
        except (KeyError, TypeError, AttributeError) as error:
            raise EquationError(
                "equation", expected="the plain description of SpectralSPDE.to_dict()",
                got=f"{type(error).__name__}: {error}", fix="write it with to_dict()",
            ) from error  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Equal when they describe the same law on the same default times."""
        return isinstance(other, SpectralSPDE) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash of what equality compares first."""
        return hash((self.domain, self.n_modes, self.label))

    def __repr__(self) -> str:
        """One line a part."""
        return in_words(self)
