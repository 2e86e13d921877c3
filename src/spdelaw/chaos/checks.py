"""What may enter this package: times on [0, T], eigenvalues and the noise factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdelaw.chaos.array_namespace import Array, as_floating, to_numpy
from spdelaw.equation import check_times
from spdelaw.errors import InputError

#: Share of T by which a time may pass T: rounding of ``t - initial_time``.
SLACK = 1e-9


def check_ages(times: Any, horizon: float) -> np.ndarray:
    """Times since the initial state: increasing, in [0, T]; NumPy float64 (T,).

    Example:
        >>> check_ages([0, 0.5, 1], 1.0)
        array([0. , 0.5, 1. ])
    """
    t = check_times(to_numpy(times) if hasattr(times, "detach") else times)
    if t[0] < 0.0 or t[-1] > horizon * (1.0 + SLACK):
        expected = f"times since the initial state in [0, {horizon:g}]"
        fix = "subtract initial_time, or build the time basis with a longer horizon"
        raise InputError("times", expected=expected, got=f"{t[0]:g} to {t[-1]:g}", fix=fix)
    return t


def check_eigenvalues(eigenvalues: Any, xp: Any) -> Array:
    """Eigenvalues as a floating vector (N,).

    Values are looked at in NumPy only: asking a tensor waits for its device, and a NaN in
    training has to reach the loss, where it is diagnosed.
    """
    lam = as_floating(eigenvalues, xp)
    if lam.ndim != 1 or lam.shape[0] == 0:
        expected, got = "one number per mode, shape (N,)", f"shape {tuple(lam.shape)}"
        raise InputError("eigenvalues", expected=expected, got=got, fix="pass equation.eigenvalues")
    if xp is np and not np.isfinite(lam).all():
        fix = "remove NaN and infinity"
        raise InputError("eigenvalues", expected="finite numbers", got=f"{lam}", fix=fix)
    return lam


def check_noise_factor(noise_factor: Any, eigenvalues: Array, xp: Any) -> Array:
    """Amplitudes ``sqrt(q_n)`` (N,) or ``<Q^(1/2) h_l, h_n>`` (L, N), in the form of lambda."""
    given = as_floating(noise_factor, xp)
    b = given if xp is np else given.to(eigenvalues)
    n = eigenvalues.shape[0]
    if b.ndim not in (1, 2) or b.shape[-1] != n or 0 in b.shape:
        expected = f"amplitudes sqrt(q_n) of shape ({n},) or a factor of shape (L, {n})"
        fix = "pass np.sqrt(equation.noise_variance)"
        raise InputError("noise_factor", expected=expected, got=f"shape {tuple(b.shape)}", fix=fix)
    if xp is np and not np.isfinite(b).all():
        fix = "remove NaN and infinity"
        raise InputError("noise_factor", expected="finite numbers", got=f"{b}", fix=fix)
    return b
