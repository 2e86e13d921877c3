"""Orthonormal functions of time on [0, T], along which the driving noise is measured."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from spdelaw.chaos.array_namespace import Array, constant
from spdelaw.chaos.exponential import decay_mean
from spdelaw.checks import from_settings, positive, whole
from spdelaw.errors import InputError


@dataclasses.dataclass(frozen=True)
class TimeBasis(abc.ABC):
    """An orthonormal basis ``m_1, m_2, ...`` of ``L2([0, T])`` (paper, section 2.3).

    A subclass is a frozen dataclass that states a name and the values. Its propagators follow
    by quadrature; one that knows them in closed form says so, and one whose functions are
    not smooth names the places.

    Args:
        horizon: T, the end of the time interval.
    """

    horizon: float = 1.0
    #: Name under which the basis is stored in files.
    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Check the horizon."""
        object.__setattr__(self, "horizon", positive("horizon", self.horizon))

    @abc.abstractmethod
    def values(self, times: np.ndarray, n_time: int) -> np.ndarray:
        """``m_k(t)`` for times in [0, T] and k = 1 ... K; shape (T, K), float64."""

    def closed_form(
        self, times: np.ndarray, eigenvalues: Array, n_time: int, xp: Any
    ) -> Array | None:
        """``int_0^t e^(-lambda (t - s)) m_k(s) ds``, shape (T, K, N), or None: use quadrature."""
        return None

    def breakpoints(self, n_time: int) -> np.ndarray:
        """Times inside (0, T) where one of the first K functions is not smooth."""
        return np.empty(0)

    def to_dict(self) -> dict[str, Any]:
        """Plain description that `time_basis_from_dict` turns back into an equal basis."""
        return {"name": self.name, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class CosineBasis(TimeBasis):
    """``m_1 = 1 / sqrt(T)``, ``m_k = sqrt(2 / T) cos(w_k t)`` with ``w_k = (k - 1) pi / T``.

    The default: its propagators are known in closed form, and sampled at the midpoints of
    equal steps it stays orthonormal.

    Example:
        >>> CosineBasis(horizon=4.0).values(np.array([0.0, 2.0]), 3).round(6) + 0.0
        array([[ 0.5     ,  0.707107,  0.707107],
               [ 0.5     ,  0.      , -0.707107]])
    """

    name: ClassVar[str] = "cosine"

    def values(self, times: np.ndarray, n_time: int) -> np.ndarray:
        """``sqrt(2 / T) cos((k - 1) pi t / T)``, and ``1 / sqrt(T)`` for k = 1."""
        k = np.arange(whole("n_time", n_time, 1))
        phase = np.outer(np.asarray(times, float), k * (np.pi / self.horizon))
        return np.where(k == 0, 1.0, np.sqrt(2.0)) / np.sqrt(self.horizon) * np.cos(phase)

    def closed_form(self, times: np.ndarray, eigenvalues: Array, n_time: int, xp: Any) -> Array:
        """Unit responses (T, K, N) for every rate, 0 included.

        ``psi_1 = D / sqrt(T)`` with ``D = (1 - e^(-lambda t)) / lambda``, and for k > 1
        ``psi_k = sqrt(2/T) (lambda cos wt + w sin wt - lambda e^(-lambda t)) / (lambda^2 + w^2)``.

        The numerator is summed as ``lambda^2 D + w sin wt - 2 lambda sin^2(wt/2)``: for small t
        the first form takes a small difference of numbers near lambda. The trigonometry is
        float64 whatever the precision of lambda.
        """
        t = np.asarray(times, float)[:, None]
        w = np.arange(1, n_time) * (np.pi / self.horizon)
        lam, rate = eigenvalues, constant(w[:, None], eigenvalues, xp)
        swing = constant((w * np.sin(w * t))[..., None], lam, xp)
        droop = constant((2.0 * np.sin(0.5 * w * t) ** 2)[..., None], lam, xp)
        age = constant(t, lam, xp)
        mean = (age * decay_mean(age * lam, xp))[:, None, :]
        higher = (lam**2 * mean + swing - lam * droop) / (lam**2 + rate**2)
        scale = 1.0 / math.sqrt(self.horizon)
        return xp.concatenate([scale * mean, math.sqrt(2.0) * scale * higher], 1)


@dataclasses.dataclass(frozen=True)
class HaarBasis(TimeBasis):
    """``m_1 = 1 / sqrt(T)``, then wavelets: ``+-sqrt(2^j / T)`` on the halves of ``T / 2^j``.

    Function ``k = 2^j + i + 1`` lives on the i-th of ``2^j`` equal parts. Local in time, so a
    coordinate is about one stretch of the noise. Right-continuous, but at T.

    Example:
        >>> HaarBasis().values(np.array([0.0, 0.3, 0.6, 1.0]), 3).round(6)
        array([[ 1.      ,  1.      ,  1.414214],
               [ 1.      ,  1.      , -1.414214],
               [ 1.      , -1.      ,  0.      ],
               [ 1.      , -1.      ,  0.      ]])
    """

    name: ClassVar[str] = "haar"

    def values(self, times: np.ndarray, n_time: int) -> np.ndarray:
        """``2^(j/2) / sqrt(T)`` times +1, -1 or 0."""
        u = np.minimum(np.asarray(times, float) / self.horizon, np.nextafter(1.0, 0.0))
        out = np.ones((u.size, whole("n_time", n_time, 1)))
        for k in range(1, n_time):
            level, place = _level_and_place(k)
            half = np.floor(2 ** (level + 1) * u) - 2 * place  # 0 and 1 are its two halves
            out[:, k] = 2 ** (0.5 * level) * ((half == 0.0) * 1.0 - (half == 1.0))
        return out / np.sqrt(self.horizon)

    def breakpoints(self, n_time: int) -> np.ndarray:
        """The ends and middles of all dyadic parts in use."""
        if n_time == 1:
            return np.empty(0)
        parts = 2 ** (_level_and_place(n_time - 1)[0] + 1)
        return self.horizon * np.arange(1, parts) / parts


#: Time bases by the name under which files know them.
TIME_BASES: dict[str, type[TimeBasis]] = {cls.name: cls for cls in (CosineBasis, HaarBasis)}


def time_basis_from_dict(description: dict[str, Any]) -> TimeBasis:
    """Time basis from the plain description that ``basis.to_dict()`` gives.

    Example:
        >>> time_basis_from_dict({"name": "cosine", "horizon": 2.0})
        CosineBasis(horizon=2.0)
    """
    return from_settings("time basis", TIME_BASES, description)


def check_basis(basis: Any) -> TimeBasis:
    """Return the basis, or raise `InputError` for anything else, such as its name."""
    if not isinstance(basis, TimeBasis):
        fix = "pass CosineBasis(horizon=T)"
        raise InputError("basis", expected="a time basis", got=repr(basis), fix=fix)
    return basis


def _level_and_place(k: int) -> tuple[int, int]:
    """J and i of wavelet ``k = 2^j + i`` (counted from 0, which is the constant)."""
    level = k.bit_length() - 1
    return level, k - 2**level
