"""One step of a mode: exact, or semi-implicit as in the paper.

Both are ``c_{t+1} = a_t c_t + s_t N(0, 1)``, so a scheme is a pair of arrays (a, s).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation import SpectralSPDE, decay_mean, transition
from spdelaw.errors import InputError
from spdelaw.simulate._coupled import CoupledSteps, coupled_steps, recurse_coupled

Array = np.ndarray
SCHEMES = ("exact", "semi_implicit")


class Steps(NamedTuple):
    """Coefficients of the recursion; each (n_steps, n_modes).

    Attributes:
        factor: ``a``.
        amplitude: ``s``.
        driving: share of the step's own normal in ``sqrt(q) dbeta``.
        bridge: amplitude of what is left of ``sqrt(q) dbeta`` given that normal.
    """

    factor: Array
    amplitude: Array
    driving: Array
    bridge: Array


def steps(equation: SpectralSPDE, dt: Array, scheme: str) -> Steps | CoupledSteps:
    """Recursion coefficients of a scheme for the steps ``dt`` (n_steps,)."""
    if scheme not in SCHEMES:
        raise InputError(
            "scheme", expected=f"one of {SCHEMES}", got=repr(scheme), fix="pass scheme='exact'"
        )
    if equation.is_coupled:
        return coupled_steps(equation, dt, scheme)
    lam, q, dt = equation.eigenvalues, equation.noise_variance, dt[:, None]
    return _exact(lam, q, dt) if scheme == "exact" else _semi_implicit(lam, q, dt)


def _exact(lam: Array, q: Array, dt: Array) -> Steps:
    """``a = exp(-lambda dt)``, ``s^2 = q (1 - a^2) / (2 lambda)``.

    The increment ``sqrt(q) dbeta`` has variance ``q dt`` and covariance
    ``q (1 - a) / lambda`` with the step's noise; the bridge is its part independent of it.
    """
    a, omega = transition(lam, q, dt)
    s = np.sqrt(omega)
    cross = q * dt * decay_mean(lam * dt)
    driving = np.divide(cross, s, out=np.zeros_like(s), where=s > 0)
    return Steps(a, s, driving, np.sqrt(np.maximum(q * dt - driving**2, 0.0)))


def _semi_implicit(lam: Array, q: Array, dt: Array) -> Steps:
    """``c <- (c + sqrt(q dt) N) / (1 + lambda dt)`` (paper, section 3.2).

    Weak order 1: with lambda dt = 0.32 the effective lambda is 13 % and q 25 % too small.
    """
    a = 1.0 / (1.0 + lam * dt)
    increment = np.sqrt(q * dt)
    return Steps(a, a * increment, increment, np.zeros_like(increment))


def recurse(state: Array, noise: Array, rule: Steps | CoupledSteps) -> Array:
    """``c_{t+1} = a_t c_t + s_t z_t``; noise (n_paths, n_steps, n_modes) becomes the path.

    Works in place on ``noise``: the array of normals is the array of states.
    """
    if isinstance(rule, CoupledSteps):
        return recurse_coupled(state, noise, rule)
    noise *= rule.amplitude
    previous = state
    for t in range(noise.shape[1]):
        now = noise[:, t]
        now += rule.factor[t] * previous
        previous = now
    return noise
