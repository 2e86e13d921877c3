"""Settings of a fit, checked once at the door."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spdelaw.equation import Forcing, Season
from spdelaw.errors import InputError

INITIAL = ("auto", "deterministic", "gaussian", "stationary")
OBSERVATION = ("auto", "none", "estimate", "per_point")
DRIFTS = ("diagonal", "parametric", "normal", "dense")
NOISES = ("diagonal", "parametric", "low_rank", "dense")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the exact engine fits; see `spdelaw.fit` for their meaning."""

    observation_noise: Any = "auto"
    initial: str = "auto"
    drift: str = "diagonal"
    noise: str = "diagonal"
    nuisance: int | str = "auto"
    fixed: Mapping[str, Any] | None = None
    priors: Mapping[str, Any] | None = None
    level: float = 0.95
    bootstrap: int = 0
    seed: int = 0
    threads: int = 1
    noise_rank: int = 1
    forcing: Forcing | None = None
    season: Season | None = None

    def __post_init__(self) -> None:
        """Check every setting before any work."""
        _one_of("initial", self.initial, INITIAL)
        _one_of("drift", self.drift, DRIFTS)
        _one_of("noise", self.noise, NOISES)
        if isinstance(self.observation_noise, str):
            _one_of("observation_noise", self.observation_noise, OBSERVATION)
        else:
            _check_known_noise(self.observation_noise)
        for what in ("fixed", "priors"):
            if not isinstance(getattr(self, what) or {}, Mapping):
                raise InputError(
                    what, expected="a dictionary by name of parameter",
                    got=repr(getattr(self, what)), fix=f"pass {what}={{'eigenvalue[1]': ...}}",
                )  # fmt: skip
        if self.nuisance != "auto":
            _whole("nuisance", self.nuisance, 0)
        _whole("bootstrap", self.bootstrap, 0)
        _whole("noise_rank", self.noise_rank, 1)
        _whole("threads", self.threads, 1)
        _whole("seed", self.seed, 0)
        if not (isinstance(self.level, float) and 0 < self.level < 1):
            raise InputError(
                "level", expected="a probability between 0 and 1", got=repr(self.level),
                fix="pass level=0.95",
            )  # fmt: skip

    @property
    def is_coupled(self) -> bool:
        """Whether drift or noise couple the modes."""
        return self.drift in ("normal", "dense") or self.noise in ("low_rank", "dense")

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


def _one_of(what: str, value: Any, words: tuple[str, ...]) -> None:
    if value not in words:
        raise InputError(
            what, expected=f"one of {words}", got=repr(value), fix=f"pass {what}={words[0]!r}"
        )


def _whole(what: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(
            what, expected=f"an integer of at least {least}", got=repr(value),
            fix=f"pass {what}={least}",
        )  # fmt: skip


def _check_known_noise(value: Any) -> None:
    try:
        std = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        std = np.array(np.nan)
    if (
        std.ndim > 1
        or not np.isfinite(std).all()
        or (std < 0).any()
        or (std.ndim and (std == 0).any())
    ):
        raise InputError(
            "observation_noise",
            expected=f"one of {OBSERVATION}, a standard deviation, or one a point",
            got=repr(value), fix="pass observation_noise='auto'",
        )  # fmt: skip
