"""Assumptions about a law."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from spdelaw.checks import checked, numbers, one_of, shown
from spdelaw.errors import InputError
from spdelaw.processes.forcing import Season
from spdelaw.processes.state_noise import STATE_NOISES

INITIALS = ("auto", "deterministic", "gaussian", "stationary")
OBSERVATION_NOISES = ("auto", "none", "estimate", "per_point")
DRIFTS = ("diagonal", "parametric", "normal", "dense")
NOISES = ("diagonal", "parametric", "low_rank", "dense")
MEANS = ("auto", "zero", "constant")
RESIDUALS = ("white", "memory", "auto")


@checked()
@dataclasses.dataclass(frozen=True)
class LowRank:
    """One noise variance per mode, and ``rank`` patterns that all modes share.

    Example:
        >>> LowRank(3)
        LowRank(rank=3)
    """

    rank: int = 1


@checked()
@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """Assumptions of a fit; every option is also a keyword of `spdelaw.fit`.

    The first sentence of each entry is also the help of the shell's option.

    Args:
        drift: form of the linear drift: "diagonal" (one eigenvalue per mode), "parametric"
            (``kappa + nu mu^s``), "normal" (pairs of modes that decay and rotate, as with transport
            around a ring, a disk or a sphere) or "dense" (any stable matrix).
        noise: covariance of the noise of the equation: "diagonal" (one variance per mode),
            "parametric" (``scale n^-exponent``), "low_rank" (one variance per mode, and a few
            patterns that all modes share) or "dense" (any covariance). `spdelaw.LowRank` states
            "low_rank" with its number of patterns.
        noise_rank: number of shared patterns with ``noise="low_rank"``.
        initial: distribution of the first state: "deterministic" (the same state for all paths),
            "gaussian" (one mean and covariance for all paths), "stationary", or "auto" (chosen
            from the data).
        observation_noise: noise of the observations: "none", "estimate" (one variance), "per_point"
            (one variance per point), "auto" (decided from the data), or the known standard
            deviation. The known standard deviation is one number, one per point, or one per value
            (a DataArray like the data); "auto" takes it from the coordinate ``observation_std``.
        nuisance: number of further modes that are modelled but not reported, or "auto" (as many as
            are needed to keep finer scales out of the reported modes).
        fixed: parameters to hold at known values. Such as ``{"s": 1.0}`` or
            ``{"eigenvalue": [1.0, np.nan, ...]}``.
        priors: prior distributions of parameters; the estimate is then MAP. Such as
            ``{"eigenvalue": sl.LogNormal(5.0, 1.0)}``.
        forcing: known forcing ``F`` in ``dX = A X dt + F dt + dW``, in units of the field per unit
            of time, linear between its times. Fields (time, x) on the clock of the data, or
            `spdelaw.Forcing`. Forecasts need it up to their last time.
        season: period of the noise, in the unit of time of the data, and the number of parts of the
            period with their own noise variance. Such as ``sl.Season(365.25, 4)`` for data in days.
            For seasonal means see `spdelaw.Preparation`.
        mean: state ``m`` that the field returns to in ``dc = -Lambda (c - m) dt + dW``: "zero",
            "constant" (estimated), "auto" (estimated, and dropped where it is compatible with
            zero in every mode), or a known field. "auto" is "zero" where ``fixed`` or ``priors``
            concern the initial mean.
        residual: model of the residual outside the modes: "white", "memory" (one decay rate and
            variance per point, estimated after the law and used in forecasts and reconstructions),
            or "auto" (memory where residuals are clearly correlated in time; tested for linear
            laws of data that are not lazy).
        state_noise: how the noise of the equation depends on the field, in the sense of Ito: "none"
            (additive), "proportional" (``X dW``), "affine" (``(offset + X) dW``) or "square_root"
            (``sqrt(X) dW``, W white in space). ``noise_variance`` is then the spectrum of W, and
            ``noise_offset`` the offset. Such a law can have ``terms`` too.

    Example:
        >>> Model(drift="dense", noise=LowRank(2)).noise_rank
        2
    """

    drift: str = "diagonal"
    noise: str | LowRank = "diagonal"
    noise_rank: int = 1
    initial: str = "auto"
    observation_noise: Any = "auto"
    nuisance: int | str = "auto"
    fixed: Mapping[str, Any] | None = None
    priors: Mapping[str, Any] | None = None
    forcing: Any = None
    season: Season | None = None
    mean: Any = "auto"
    residual: str = "auto"
    state_noise: str = "none"

    def __post_init__(self) -> None:
        """Check every word before any work."""
        if isinstance(self.noise, LowRank):
            object.__setattr__(self, "noise_rank", self.noise.rank)
            object.__setattr__(self, "noise", "low_rank")
        one_of("initial", self.initial, INITIALS)
        one_of("drift", self.drift, DRIFTS)
        one_of("noise", self.noise, NOISES)
        one_of("residual", self.residual, RESIDUALS)
        one_of("state_noise", self.state_noise, STATE_NOISES)
        if isinstance(self.observation_noise, str):
            one_of("observation_noise", self.observation_noise, OBSERVATION_NOISES)
        else:
            _check_fixed_noise(self.observation_noise)
        if isinstance(self.mean, str):
            one_of("mean", self.mean, MEANS)
        if isinstance(self.nuisance, str):
            one_of("nuisance", self.nuisance, ("auto",))
        if self.season is not None:
            self._check_season()

    def _check_season(self) -> None:
        if self.initial == "stationary":
            expected = "an initial state, as seasonal noise has no stationary one"
            fix = "pass initial='auto'"
            raise InputError("initial", expected=expected, got="'stationary'", fix=fix)

    @property
    def couples_drift(self) -> bool:
        """Whether the drift is a matrix."""
        return self.drift in ("normal", "dense")

    @property
    def couples(self) -> bool:
        """Whether drift or noise are matrices."""
        return self.couples_drift or self.noise in ("low_rank", "dense")

    @property
    def noise_word(self) -> str | None:
        """The word for the observation noise, None where its standard deviation is given."""
        return self.observation_noise if isinstance(self.observation_noise, str) else None

    @property
    def known_variance(self) -> float | np.ndarray | None:
        """Observation variance where it is given, 0 for "none", None where unknown."""
        if isinstance(self.observation_noise, str):
            return 0.0 if self.observation_noise == "none" else None
        variance = np.asarray(self.observation_noise, float) ** 2
        return float(variance) if variance.ndim == 0 else variance

    @property
    def states_initial(self) -> bool:
        """Whether fixed values or priors concern the initial state."""
        names = [*(self.fixed or {}), *(self.priors or {})]
        return any(name.startswith("initial") for name in names)

    @property
    def initial_is_open(self) -> bool:
        """Whether the data select the initial state; noise with seasons has no stationary one."""
        return self.initial == "auto" and self.season is None and not self.states_initial

    @property
    def value_noise(self) -> Any:
        """Standard deviations of single values where they are given, else None."""
        given = self.observation_noise
        return given if not isinstance(given, str) and np.ndim(given) > 1 else None

    @property
    def known_mean(self) -> Any:
        """The field of a known mean, None where there is none."""
        return None if isinstance(self.mean, str) else self.mean

    def non_default(self) -> dict[str, Any]:
        """Words that differ from their defaults."""
        return {name: value for name, value in vars(self).items() if value is not WORDS[name]}

    def __repr__(self) -> str:
        """Words that differ from their defaults."""
        return (
            f"Model({', '.join(f'{name}={value!r}' for name, value in self.non_default().items())})"
        )


#: Every word of a model with its default; the shell and `spdelaw.fit` take these.
WORDS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(Model)}


def _check_fixed_noise(value: Any) -> None:
    std = numbers(value)
    given_std = std if std.ndim < 2 else std[~np.isnan(std)]  # missing where the value is
    is_bad = not given_std.size or not np.isfinite(given_std).all() or (given_std < 0).any()
    if is_bad or np.asarray(value).dtype == bool or (std.ndim and (given_std == 0).any()):
        words = ", ".join(map(repr, OBSERVATION_NOISES))
        expected = f"{words}, a standard deviation, or one per point or value"
        word = {True: "estimate", False: "none"}[value] if isinstance(value, bool) else "auto"
        fix = f"pass observation_noise={word!r}"
        raise InputError("observation_noise", expected=expected, got=shown(value), fix=fix)


class Decision(NamedTuple):
    """A decision about the data, and the numbers that it compared."""

    answer: str | int
    compared: dict[str, float]
