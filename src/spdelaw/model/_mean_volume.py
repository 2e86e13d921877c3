"""The mean m given the other parameters, and what integrating it out adds to the likelihood.

With the information ``I`` and the gradient ``g`` at zero, ``m_hat = I^-1 g`` with covariance
``C = I^-1``. A prior of m multiplies the likelihood at ``m_hat`` by a volume:

    flat:               (2 pi)^(N/2) |I|^(-1/2)
    N(m_hat, P):        |1 + P I|^(-1/2)          P = stationary covariance of the law

The flat one needs a stationary start. Where the start is known or has a law of its own, ``I`` goes
to zero with the decay squared, because a state that does not decay has no mean, and the flat volume
would prefer no decay whatever the data say. The second is as wide as the law itself; for complete
paths it is the very volume that a stationary start gives the flat one.
"""

from __future__ import annotations

import numpy as np

from spdelaw.equation import Linear, operators

Array = np.ndarray

#: Directions of the mean with less than this share of the largest information are not seen.
UNSEEN = 1e-12


def solve_mean(information: Array, gradient: Array) -> tuple[Array, Array, float]:
    """``m_hat``, ``C`` and the log of the flat volume, on the directions that are seen."""
    scale = np.sqrt(np.maximum(np.diag(information), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
    seen = values > UNSEEN * max(float(values[-1]), 1e-300)
    part = vectors[:, seen] / scale[:, None]
    covariance = (part / values[seen]) @ part.T
    volume = np.log(values[seen]).sum() + 2.0 * np.log(scale).sum()
    logs = 0.5 * (seen.sum() * np.log(2 * np.pi) - volume)
    return covariance @ gradient, covariance, float(logs)


def volume(
    dynamics: Linear, information: Array, flat: tuple[Array, float], anchored: bool
) -> tuple[float, Array, Array, Array]:
    """Logarithm of a volume, its spread, and its gradient by drift and noise through the prior.

    The spread ``S = (I + prior precision)^-1``, (N, N), is minus twice the gradient by ``I``. By P
    the gradient is ``-1/2 (I - I S I)``.

    Args:
        dynamics: the law.
        information: ``I``, (N, N).
        flat: ``C`` and the log of the flat volume.
        anchored: whether the prior is the one as wide as the law.
    """
    drift, noise = dynamics.drift, dynamics.noise
    if not anchored:
        return flat[1], flat[0], np.zeros_like(drift), np.zeros_like(noise)
    p = operators.stationary_covariance(drift, noise)
    root = operators.root(operators.as_matrix(p))
    inner = np.eye(len(root)) + root @ information @ root
    spread = root @ np.linalg.solve(inner, root)
    by_p = -0.5 * (information - information @ spread @ information)
    own = operators.stationary_pull_back(drift, noise, p, operators.like(p, by_p))
    return -0.5 * float(np.linalg.slogdet(inner)[1]), spread, *own
