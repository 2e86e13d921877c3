"""From the information on the numbers of a law to that on its coordinates.

With theta the drift, noise, first variance, first mean and observation variance of single modes and
x the coordinates,

    I_x = J' I_theta J - sum_k (d log p / d theta_k) d2 theta_k / dx dx',    J = d theta / dx.

The last term, which ties and logarithms have away from a maximum, is a difference of the chain rule
with the score held: no likelihood is evaluated.
"""

from __future__ import annotations

import numpy as np

from spdelaw.infer._parametrisation import Parametrisation
from spdelaw.model import Evaluation

Array = np.ndarray

#: Step of the difference, of logarithms and numbers of order one.
STEP = 1e-4
#: Where parts with one number per mode stand in theta, in units of N.
PLACES = {"drift": 0, "noise": 1, "initial_variance": 2, "initial_mean": 3}


def coordinate_information(
    parametrisation: Parametrisation, full: Array, found: Evaluation, by_numbers: Array
) -> Array:
    """Information on the full vector; (p, p).

    Args:
        parametrisation: of a law of single modes.
        full: where.
        found: likelihood and score there.
        by_numbers: information on the numbers, (4 N + 1, 4 N + 1).
    """
    jacobian, size = _jacobian(parametrisation, full), len(full)
    bend = np.empty((size, size))
    for i, step in enumerate(STEP * np.eye(size)):
        ends = (full - step, full + step)
        at = [parametrisation.score(x, parametrisation.state_space(x), found) for x in ends]
        bend[i] = (at[1] - at[0]) / (2.0 * STEP)
    return jacobian.T @ by_numbers @ jacobian - 0.5 * (bend + bend.T)


def _jacobian(parametrisation: Parametrisation, full: Array) -> Array:
    """``d theta / dx``, (4 N + 1, p)."""
    n, slices = parametrisation.n_modes, parametrisation.slices
    out = np.zeros((4 * n + 1, len(full)))
    for part, where in slices.items():
        own = np.reshape(parametrisation.jacobian(part, full), (-1, where.stop - where.start))
        at = 4 * n if part == "observation" else PLACES[part] * n
        out[at : at + len(own), where] = own
    if parametrisation.initial_kind == "stationary":  # v = q / (2 lambda)
        values = parametrisation.values(full)
        rate, noise = values["drift"][:, None], values["noise"][:, None]
        out[2 * n : 3 * n] = out[n : 2 * n] / (2.0 * rate) - noise * out[:n] / (2.0 * rate**2)
    return out
