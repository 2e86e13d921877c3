"""A linear SPDE with additive noise, diagonal in the domain's basis or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.checks import checked, from_settings
from spdelaw.domains.base import SHOWN_MODES, AbstractDomain, table_html
from spdelaw.domains.registry import from_dict as domain_from_dict
from spdelaw.errors import EquationError
from spdelaw.processes import operators
from spdelaw.processes import specification as given
from spdelaw.processes.forcing import Forcing, Season
from spdelaw.processes.linear import Linear
from spdelaw.processes.specification import (
    AbstractSpectrum,
    InitialState,
    OperatorFormula,
    is_matrix,
)

# ---------- Parts of an equation as text, for people


Array = np.ndarray


def in_html(e: SpectralSPDE, text: str) -> str:
    """Lines of text about an equation, and its first modes as a table."""
    title, *lines = text.splitlines()
    shown = {"lambda": e.eigenvalues, "q": e.noise_variance, "mean of X(0)": e.initial_mean}
    rows = [[name, *(f"{x:.4g}" for x in v[:SHOWN_MODES])] for name, v in shown.items()]
    modes = [str(i + 1) for i in range(len(rows[0]) - 1)]
    facts = [" ".join(line.split()) for line in lines]
    return table_html(title, facts, ["mode", *modes], rows, [])


def _plain_spectrum(given: Any) -> dict[str, Any]:
    if isinstance(given, AbstractSpectrum):
        return given.to_dict()
    return {"values": np.asarray(given, dtype=float).tolist()}


def _formula_text(given: Any) -> str:
    if is_matrix(given):
        return "of a matrix"
    return repr(given) if isinstance(given, AbstractSpectrum) else ""


def _shorten(v: Array) -> str:
    head = ", ".join(f"{x:.4g}" for x in v[:4])
    return f"[{head}{', ...' if len(v) > 4 else ''}]"


# ---------- A linear SPDE with additive noise, diagonal in the domain's basis or not


@checked(EquationError)
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SpectralSPDE:
    """``dX = A (X - m) dt + F dt + dW`` on the first ``n_modes`` modes of a domain.

    The coefficients are independent Ornstein-Uhlenbeck processes,
    ``dc_n = -lambda_n c_n dt + sqrt(q_n) dbeta_n`` (paper, eqs. 1-4). A drift or a noise that
    couples them is given as a matrix: ``dc = -Lambda c dt + dW`` with ``Cov dW = Q dt``. A known
    forcing F changes the mean only.

    Args:
        domain: domain of the field.
        n_modes: number of modes.
        drift: formula for ``lambda_n`` such as `OperatorFormula`, the numbers, or the matrix
            ``Lambda`` (N, N), no eigenvalue of which has a negative real part.
        noise: formula for ``q_n`` such as `PowerLaw`, the numbers, or the covariance ``Q`` (N, N).
        initial: function u0(x), or u0(x, y), coefficients, `Gaussian`, or ``"stationary"``.
        times: observation times used where none are given.
        n_points: size of the grid per dim, used where none is given; the domain's own by default.
        initial_time: time of the state ``initial``; all other times are later.
        label: a name.
        forcing: `Forcing`; it acts from ``initial_time`` on.
        season: `Season` of the noise.
        centre: coefficients of the mean ``m`` that X returns to, (N,), zero by default;
            ``initial`` is then the law of ``X - m``.

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
    centre: Any = None
    # Resolved from the above:
    dynamics: Linear = dataclasses.field(init=False)
    initial_state: given.InitialState = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Resolve formulas to numbers and check them."""
        given.check_part("domain", self.domain, AbstractDomain)
        given.check_part("forcing", self.forcing, Forcing)
        given.check_part("season", self.season, Season)
        n = self.domain.check_modes(self.n_modes)
        times = np.linspace(0.0, 1.0, 201) + self.initial_time if self.times is None else self.times
        mu = self.domain.eigenvalues(n)
        drift, noise = given.resolve_drift(self.drift, mu), given.resolve_noise(self.noise, mu)
        state = given.resolve_initial(self.initial, self.domain, drift, noise)
        if self.season is not None and state.kind == "stationary":
            expected = "an initial state, as seasonal noise has no stationary one"
            fix = "pass sl.Gaussian(mean, variance), or a function u0(x)"
            raise EquationError("initial", expected=expected, got="'stationary'", fix=fix)
        centre = None if self.centre is None else given.check_centre(self.centre, n)
        began, n_points = float(self.initial_time), self.n_points
        resolved = {
            "dynamics": Linear(drift, noise, self.season, self.forcing, began, centre),
            "initial_state": state,
            "times": given.frozen(self._times(times)),
            "n_points": self.domain.default_points if n_points is None else n_points,
            "centre": centre,
        }
        for name, value in resolved.items():
            object.__setattr__(self, name, value)

    # -- its numbers ----------------------------------------------------------------------

    @property
    def is_coupled(self) -> bool:
        """Whether drift, noise or initial state couple the modes."""
        diagonal = operators.is_diagonal(self.initial_state.covariance)
        return not (self.dynamics.is_diagonal and diagonal)

    @property
    def eigenvalues(self) -> Array:
        """``lambda``, (N,); of a matrix its eigenvalues, slowest first."""
        return operators.eigenvalues(self.dynamics.drift)

    @property
    def noise_variance(self) -> Array:
        """``q``, (N,); of a matrix its diagonal."""
        return operators.diagonal(self.dynamics.noise)

    @property
    def drift_matrix(self) -> Array:
        """``Lambda`` in ``dc = -Lambda c dt + dW``; (N, N)."""
        return operators.as_matrix(self.dynamics.drift)

    @property
    def noise_covariance(self) -> Array:
        """``Q`` in ``Cov dW = Q dt``; (N, N)."""
        return operators.as_matrix(self.dynamics.noise)

    @property
    def initial_kind(self) -> str:
        """Word for the initial state: "deterministic", "gaussian" or "stationary"."""
        return self.initial_state.kind

    @property
    def initial_mean(self) -> Array:
        """``E c(0)``; (N,)."""
        return self.initial_state.mean

    @property
    def initial_variance(self) -> Array:
        """``Var c_n(0)``; (N,)."""
        return operators.diagonal(self.initial_state.covariance)

    @property
    def initial_covariance(self) -> Array:
        """``Cov c(0)``; (N, N)."""
        return operators.as_matrix(self.initial_state.covariance)

    # -- closed-form moments ----------------------------------------------------------

    def mean(self, times: Any = None, grid: Any = None) -> xr.DataArray:
        """``E c(t) = e^(-Lambda t) m0``: dims (time, mode), or (time, x) on a grid.

        A mean of the law and the response to a forcing are added.
        """
        t = self._times(times)
        m = operators.apply_each(self._from_start(t).factor, self.initial_mean[None, None])[0]
        m = m + self.forced_mean(t)
        if grid is None:
            return self._per_mode(m, t)
        return self._per_point(self.domain.synthesise(m, grid), t, grid)

    def _from_start(self, t: Array) -> Any:
        """Transitions from the initial time to each of the times."""
        start = np.full(len(t), float(self.initial_time))
        return self.dynamics.over(t - self.initial_time, start)

    def forced_mean(self, times: Array) -> Array:
        """Centre and response to the forcing of the coefficients, zero without; (time, mode)."""
        return self.dynamics.response(np.asarray(times, float))

    @property
    def unforced(self) -> SpectralSPDE:
        """The same equation without its forcing."""
        return dataclasses.replace(self, forcing=None)

    def _covariances(self, t: Array) -> Array:
        """``Cov c(t) = F V0 F' + Omega``; (T, N), or (T, N, N) where modes are coupled."""
        step, v0 = self._from_start(t), self.initial_state.covariance
        f, omega = step.factor, step.covariance
        if not self.is_coupled:
            return f**2 * v0 + omega
        f, omega = (operators.embed(x) if x.ndim == 2 else x for x in (f, omega))
        return f @ operators.as_matrix(v0) @ np.swapaxes(f, 1, 2) + omega

    def variance(self, times: Any = None, grid: Any = None) -> xr.DataArray:
        """``Var c_n(t)``, or ``Var X(t, x) = h(x)' Cov c(t) h(x)`` on a grid."""
        t = self._times(times)
        v = self._covariances(t)
        if grid is None:
            return self._per_mode(v if v.ndim == 2 else np.einsum("tnn->tn", v), t)
        h = self.domain.eigenfunctions(self.domain.check_points(grid), self.n_modes)
        at = np.stack([operators.quadratic_form(h, one) for one in v])
        return self._per_point(at, t, grid)

    def covariance(self, times: Any = None) -> xr.DataArray:
        """``Cov(c(t), c(s)) = e^(-Lambda (t - s)) Cov c(s)`` for t >= s.

        Dims (time, time_2, mode), other modes are independent; (time, time_2, mode, mode_2) for
        coupled modes.
        """
        t = self._times(times)
        gap = t[:, None] - t[None, :]
        lengths, which = np.unique(np.abs(gap), return_inverse=True)
        factor = self.dynamics.over(lengths).factor[which.reshape(gap.shape)]
        axes = {"time": t, "time_2": t, "mode": self._modes, "mode_2": self._modes}
        if not self.is_coupled:
            early = np.minimum(np.arange(len(t))[:, None], np.arange(len(t))[None, :])
            del axes["mode_2"]
            return xr.DataArray(factor * self._covariances(t)[early], axes, tuple(axes))
        factor = operators.embed(factor) if factor.ndim == 3 else factor
        late = factor @ self._covariances(t)[None]
        whole = np.where((gap >= 0)[..., None, None], late, late.transpose(1, 0, 3, 2))
        return xr.DataArray(whole, axes, tuple(axes))

    def _stationary(self) -> Array:
        return operators.stationary_covariance(self.dynamics.drift, self.dynamics.noise)

    def stationary_variance(self) -> xr.DataArray:
        """``q_n / (2 lambda_n)``; infinite where ``lambda_n = 0``; with seasons their mean.

        For coupled modes the diagonal of ``P`` in ``Lambda P + P Lambda' = Q``.
        """
        v = operators.diagonal(self._stationary())
        return xr.DataArray(v, dims="mode", coords={"mode": self._modes})

    def stationary_covariance(self, grid: Any) -> xr.DataArray:
        """``Cov(X(x), X(y)) = h(x)' P h(y)`` with the stationary covariance P of the modes.

        Dims (x, x_2), and (point, point_2) in several dimensions.
        """
        x = self.domain.check_points(grid)
        h = self.domain.eigenfunctions(x, self.n_modes)
        c = operators.apply(self._stationary(), h) @ h.T
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
        t = given.check_times(self.times if times is None else times)
        if t[0] < self.initial_time:
            expected = f"times from the initial time, {self.initial_time:g}, on"
            fix = "shift the times, or set initial_time"
            raise EquationError("times", expected=expected, got=f"{t[0]:g}", fix=fix)
        return t

    def _per_mode(self, values: Array, t: Array) -> xr.DataArray:
        coords = {"time": t, "mode": self._modes}
        return xr.DataArray(values, dims=("time", "mode"), coords=coords)

    def _per_point(self, values: Array, t: Array, grid: Any) -> xr.DataArray:
        places = self.domain.places(grid)
        coords = {"time": t, **places.coords}
        return xr.DataArray(places.unflatten(values), coords, ("time", *places.dims))

    def default_grid(self) -> Array:
        """The domain's regular grid with ``n_points`` points per dim."""
        return self.domain.grid(self.n_points)

    def with_modes(self, n_modes: int) -> SpectralSPDE:
        """The same equation cut off after fewer modes."""
        n = self.domain.check_modes(n_modes)
        if n > self.n_modes:
            fix = "build the equation with more modes"
            raise EquationError("n_modes", expected=f"at most {self.n_modes}", got=str(n), fix=fix)
        first, initial = self.dynamics.leading(n), self.initial_state.leading(n).given
        leading_parts = {"drift": first.drift, "noise": first.noise, "initial": initial}
        return dataclasses.replace(self, n_modes=n, centre=first.mean, **leading_parts)

    # -- files and people -------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description (JSON types only) that `from_dict` turns back into an equal one."""
        parts = {"forcing": self.forcing, "season": self.season}
        kind, mean, covariance = self.initial_state
        return {
            "domain": self.domain.to_dict(),
            "n_modes": int(self.n_modes),
            "drift": _plain_spectrum(self.drift),
            "noise": _plain_spectrum(self.noise),
            "initial": {"kind": kind, "mean": mean.tolist(), "variance": covariance.tolist()},
            "times": self.times.tolist(),
            "n_points": int(self.n_points),
            "initial_time": float(self.initial_time),
            "label": self.label,
            **{name: part.to_dict() for name, part in parts.items() if part is not None},
            **({} if self.centre is None else {"centre": self.centre.tolist()}),
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> SpectralSPDE:
        """Equation from the plain description of `to_dict`."""
        try:
            d = dict(description)
            state = d["initial"]
            d["initial"] = InitialState(state["kind"], state["mean"], state["variance"]).given
            d["domain"] = domain_from_dict(d["domain"])
            for name in ("drift", "noise"):
                is_plain = "values" in d[name]
                spectrum = ("spectrum", given.SPECTRA, d[name], EquationError)
                d[name] = d[name]["values"] if is_plain else from_settings(*spectrum)
            for name, kind in (("forcing", Forcing), ("season", Season)):
                d |= {name: kind(**d[name])} if name in d else {}
            return cls(**d)
        except (KeyError, TypeError, AttributeError) as error:
            expected = "the plain description of SpectralSPDE.to_dict()"
            got, fix = f"{type(error).__name__}: {error}", "write it with to_dict()"
            raise EquationError("equation", expected=expected, got=got, fix=fix) from error

    def __eq__(self, other: object) -> bool:
        """Equal when they describe the same law on the same default times."""
        return isinstance(other, SpectralSPDE) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash of what equality compares first."""
        return hash((self.domain, self.n_modes, self.label))

    def __repr__(self) -> str:
        """One line per part."""
        name = f" ({self.label})" if self.label else ""
        lines = [
            f"SpectralSPDE{name}: dX = A X dt + dW, {self.n_modes} modes on {self.domain}",
            f"  lambda  {_shorten(self.eigenvalues)}  {_formula_text(self.drift)}",
            f"  q       {_shorten(self.noise_variance)}  {_formula_text(self.noise)}",
            *(["  modes coupled; see drift_matrix and noise_covariance"] * self.is_coupled),
            f"  X(0)    {self.initial_kind}, mean {_shorten(self.initial_mean)}",
            *([] if self.centre is None else [f"  centre  {_shorten(self.centre)}"]),
            *(["  forced; see forcing"] * (self.forcing is not None)),
            *(["  noise with seasons; see season"] * (self.season is not None)),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same with a table, for notebooks."""
        return in_html(self, repr(self))
