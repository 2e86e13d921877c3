"""A linear SPDE with additive noise that is diagonal in the domain's basis."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from spdelaw.domain import AbstractDomain
from spdelaw.domain import from_dict as domain_from_dict
from spdelaw.equation._initial import Gaussian, resolve_initial
from spdelaw.equation._spectra import (
    AbstractSpectrum,
    OperatorFormula,
    spectrum_from_dict,
)
from spdelaw.equation._transition import mode_variance
from spdelaw.errors import EquationError

Array = np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SpectralSPDE:
    """``dX = A X dt + dW`` on the first ``n_modes`` modes of a domain.

    The coefficients are independent Ornstein-Uhlenbeck processes,
    ``dc_n = -lambda_n c_n dt + sqrt(q_n) dbeta_n`` (paper, eqs. 1-4).

    Args:
        domain: where the field lives.
        n_modes: number of modes.
        drift: formula for ``lambda_n`` such as `OperatorFormula`, or the numbers.
        noise: formula for ``q_n`` such as `PowerLaw`, or the numbers.
        initial: function u0(x), or u0(x, y), coefficients, `Gaussian`, or ``"stationary"``.
        times: observation times used where none are given.
        n_points: size of the grid used where none is given, a dim; the domain's own by default.
        initial_time: when the state is ``initial``; no time may lie before it.
        label: a name for people.

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
    # Resolved from the above:
    eigenvalues: Array = dataclasses.field(init=False)
    noise_variance: Array = dataclasses.field(init=False)
    initial_kind: str = dataclasses.field(init=False)
    initial_mean: Array = dataclasses.field(init=False)
    initial_variance: Array = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Resolve formulas to numbers and check them."""
        if not isinstance(self.domain, AbstractDomain):
            raise EquationError(
                "domain", expected="a domain", got=type(self.domain).__name__,
                fix="pass sl.Interval(0, np.pi) or sl.Line()",
            )  # fmt: skip
        n = self.domain.check_modes(self.n_modes)
        mu = self.domain.eigenvalues(n)
        times = np.linspace(0.0, 1.0, 201) + self.initial_time if self.times is None else self.times
        lam = _resolve("drift", self.drift, mu)
        q = _resolve("noise", self.noise, mu)
        state = resolve_initial(self.initial, self.domain, lam, q)
        self._set(
            n_points=self.domain.default_points if self.n_points is None else self.n_points,
            times=_frozen(self._times(times)),
            eigenvalues=_frozen(lam),
            noise_variance=_frozen(q),
            initial_kind=state.kind,
            initial_mean=_frozen(state.mean),
            initial_variance=_frozen(state.variance),
        )

    def _set(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)

    # -- closed-form moments ----------------------------------------------------------

    def mean(self, times: Any = None, grid: Any = None) -> xr.DataArray:
        """``E c_n(t) = e^(-lambda_n t) m_n``: dims (time, mode), or (time, x) on a grid."""
        t = self._times(times)
        m = np.exp(-np.outer(t - self.initial_time, self.eigenvalues)) * self.initial_mean
        if grid is None:
            return self._per_mode(m, t)
        return self._per_point(self.domain.synthesise(m, grid), t, grid)

    def variance(self, times: Any = None, grid: Any = None) -> xr.DataArray:
        """``Var c_n(t)``, or ``Var X(t, x) = sum_n Var c_n(t) h_n(x)^2`` on a grid."""
        t = self._times(times)
        age = (t - self.initial_time)[:, None]
        v = mode_variance(self.eigenvalues, self.noise_variance, self.initial_variance, age)
        if grid is None:
            return self._per_mode(v, t)
        h = self.domain.eigenfunctions(self.domain.check_points(grid), self.n_modes)
        return self._per_point(v @ (h**2).T, t, grid)

    def covariance(self, times: Any = None) -> xr.DataArray:
        """``Cov(c_n(t), c_n(s)) = e^(-lambda_n |t - s|) Var c_n(min(t, s))``.

        Dims (time, time_2, mode); other modes are independent.
        """
        t = self._times(times)
        gap = np.abs(t[:, None] - t[None, :])[..., None]
        v = self.variance(t).values
        early = np.minimum(np.arange(len(t))[:, None], np.arange(len(t))[None, :])
        c = np.exp(-gap * self.eigenvalues) * v[early]
        coords = {"time": t, "time_2": t, "mode": self._modes}
        return xr.DataArray(c, dims=("time", "time_2", "mode"), coords=coords)

    def stationary_variance(self) -> xr.DataArray:
        """``q_n / (2 lambda_n)``; infinite where ``lambda_n = 0``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            v = self.noise_variance / (2.0 * self.eigenvalues)
        return xr.DataArray(v, dims="mode", coords={"mode": self._modes})

    def stationary_covariance(self, grid: Any) -> xr.DataArray:
        """``Cov(X(x), X(y)) = sum_n q_n / (2 lambda_n) h_n(x) h_n(y)``.

        Dims (x, x_2), and (point, point_2) in several dimensions.
        """
        x = self.domain.check_points(grid)
        h = self.domain.eigenfunctions(x, self.n_modes)
        c = (h * self.stationary_variance().values) @ h.T
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
        state = Gaussian(self.initial_mean[:n], self.initial_variance[:n])
        return dataclasses.replace(
            self,
            n_modes=n,
            drift=self.eigenvalues[:n],
            noise=self.noise_variance[:n],
            initial="stationary" if self.initial_kind == "stationary"
            else state if self.initial_kind == "gaussian" else self.initial_mean[:n],
        )  # fmt: skip

    # -- files and people -------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain description (JSON types only) that `from_dict` turns back into an equal one."""
        return {
            "domain": self.domain.to_dict(),
            "n_modes": int(self.n_modes),
            "drift": _describe(self.drift, self.eigenvalues),
            "noise": _describe(self.noise, self.noise_variance),
            "initial": {
                "kind": self.initial_kind,
                "mean": self.initial_mean.tolist(),
                "variance": self.initial_variance.tolist(),
            },
            "times": self.times.tolist(),
            "n_points": int(self.n_points),
            "initial_time": float(self.initial_time),
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> SpectralSPDE:
        """Equation from the plain description of `to_dict`."""
        try:
            d = dict(description)
            state = d.pop("initial")
            initial: Any = {
                "stationary": "stationary",
                "gaussian": Gaussian(state["mean"], state["variance"]),
                "deterministic": state["mean"],
            }[state["kind"]]
            domain = domain_from_dict(d.pop("domain"))
            drift, noise = _undescribe(d.pop("drift")), _undescribe(d.pop("noise"))
            return cls(domain=domain, drift=drift, noise=noise, initial=initial, **d)
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
        name = f" ({self.label})" if self.label else ""
        return "\n".join(
            [
                f"SpectralSPDE{name}: dX = A X dt + dW, {self.n_modes} modes on {self.domain}",
                f"  lambda  {_shorten(self.eigenvalues)}  {_formula(self.drift)}",
                f"  q       {_shorten(self.noise_variance)}  {_formula(self.noise)}",
                f"  X(0)    {self.initial_kind}, mean {_shorten(self.initial_mean)}",
            ]
        )


def check_times(times: Any) -> Array:
    """Times as float64, strictly increasing, or raise `EquationError`."""
    try:
        t = np.atleast_1d(np.asarray(times, dtype=float))
    except (TypeError, ValueError) as error:
        raise EquationError(
            "times", expected="numbers", got=repr(times), fix="np.linspace(0, 1, 201)"
        ) from error
    if t.ndim != 1 or t.size == 0 or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        raise EquationError(
            "times", expected="a strictly increasing vector of finite times",
            got=f"shape {t.shape}" if t.ndim != 1 or t.size == 0 else "unsorted, repeated or NaN",
            fix="np.unique(times), or np.linspace(0, 1, 201)",
        )  # fmt: skip
    return t


def _resolve(what: str, given: Any, mu: Array) -> Array:
    try:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            raw = given.values(mu) if isinstance(given, AbstractSpectrum) else given
            v = np.array(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise EquationError(
            what, expected="a spectrum or numbers", got=repr(given), fix="pass sl.PowerLaw(2.0)"
        ) from error
    if v.shape != mu.shape or not np.isfinite(v).all() or (v < 0).any():
        got = f"shape {v.shape}" if v.shape != mu.shape else f"values from {v.min()} to {v.max()}"
        raise EquationError(
            what, expected=f"{len(mu)} finite, non-negative numbers", got=got,
            fix="give one number a mode; lambda_n and q_n enter as -lambda_n and sqrt(q_n)",
        )  # fmt: skip
    return v


def _describe(given: Any, values: Array) -> dict[str, Any]:
    return given.to_dict() if isinstance(given, AbstractSpectrum) else {"values": values.tolist()}


def _undescribe(description: dict[str, Any]) -> Any:
    return description["values"] if "values" in description else spectrum_from_dict(description)


def _frozen(values: Array) -> Array:
    values = np.array(values, dtype=float)
    values.setflags(write=False)
    return values


def _formula(given: Any) -> str:
    return repr(given) if isinstance(given, AbstractSpectrum) else ""


def _shorten(v: Array) -> str:
    head = ", ".join(f"{x:.4g}" for x in v[:4])
    return f"[{head}{', ...' if len(v) > 4 else ''}]"
