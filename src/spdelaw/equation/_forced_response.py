"""The mean that a piecewise linear forcing drives, and its gradient by the drift.

Between two knots ``m' = -Lambda m + f + s g`` with constant f and slope g, so after a time h

    m(h) = E m + h P1 f + h^2 P2 g,    E = e^(-Lambda h),  P1 = p1(Lambda h),  P2 = p2(Lambda h),

with ``p1(x) = (1 - e^-x) / x`` and ``p2(x) = (x - 1 + e^-x) / x^2``: closed forms for a diagonal
drift, and for a matrix the upper blocks of ``exp(h [[-Lambda, 1, 0], [0, 0, 1], [0, 0, 0]])``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdelaw.equation._decay import decay_means

Array = np.ndarray


class Drive(NamedTuple):
    """Knots (K,) from the start on, the forcing there (K, N), its slopes after them (K - 1, N)."""

    knots: Array
    value: Array
    slope: Array

    def locate(self, times: Array) -> tuple[Array, Array]:
        """Knot before each time, and the time since it."""
        last = len(self.slope) - 1
        index = np.clip(np.searchsorted(self.knots, times, side="right") - 1, 0, last)
        return index, times - self.knots[index]


def response(drive: Drive, drift: Array, times: Array) -> Array:
    """``m`` at times of any shape; (*times.shape, N)."""
    if drift.ndim == 1:
        return _diagonal(drive, drift, times)
    m = _at_knots(drive, drift)
    index, h = drive.locate(times)
    lengths, which = np.unique(h, return_inverse=True)
    blocks = _blocks(drift, lengths)[which.reshape(h.shape)]
    return np.einsum("...ij,...j->...i", blocks, _augmented(drive, m)[index])


def pull_back(drive: Drive, drift: Array, times: Array, by: Array) -> Array:
    """Gradient by the drift, from (*times.shape, N) by the response."""
    if drift.ndim == 1:
        tiny = 1e-200  # a complex step: the derivative is exact to rounding
        slope = _diagonal(drive, drift + 1j * tiny, times).imag / tiny
        return (by * slope).reshape(-1, len(drift)).sum(0)
    return _matrix_pull_back(drive, drift, times.ravel(), by.reshape(-1, len(drift)))


def _diagonal(drive: Drive, drift: Array, times: Array) -> Array:
    f, slope = drive.value, drive.slope
    m = np.zeros(f.shape, dtype=np.result_type(f, drift))
    for k, h in enumerate(np.diff(drive.knots)):
        m[k + 1] = _advance(m[k], f[k], slope[k], drift, h)
    index, h = drive.locate(times)
    return _advance(m[index], f[index], slope[index], drift, h[..., None])


def _advance(m: Array, f: Array, slope: Array, drift: Array, h: Array) -> Array:
    x = drift * h
    first, second = decay_means(x)
    return np.exp(-x) * m + h * f * first + h**2 * slope * second


# -- a drift that couples modes -----------------------------------------------------------


def _generator(drift: Array) -> Array:
    n = len(drift)
    out = np.zeros((3 * n, 3 * n))
    out[:n, :n] = -drift
    out[:n, n : 2 * n] = out[n : 2 * n, 2 * n :] = np.eye(n)
    return out


def _blocks(drift: Array, lengths: Array) -> Array:
    """``[E, h P1, h^2 P2]`` of each length; (U, N, 3 N)."""
    from scipy import linalg

    generator = _generator(drift)
    return np.stack([linalg.expm(h * generator)[: len(drift)] for h in lengths])


def _at_knots(drive: Drive, drift: Array) -> Array:
    lengths, which = np.unique(np.diff(drive.knots), return_inverse=True)
    blocks, n = _blocks(drift, lengths)[which], len(drift)
    m = np.zeros(drive.value.shape)
    for k, block in enumerate(blocks):
        driven = block[:, n : 2 * n] @ drive.value[k] + block[:, 2 * n :] @ drive.slope[k]
        m[k + 1] = block[:, :n] @ m[k] + driven
    return m


def _augmented(drive: Drive, m: Array) -> Array:
    """``(m, f, g)`` at the knots that have a slope after them; (K - 1, 3 N)."""
    return np.concatenate([m[:-1], drive.value[:-1], drive.slope], axis=1)


def _matrix_pull_back(drive: Drive, drift: Array, times: Array, by: Array) -> Array:
    """Adjoint of the recursion, then of the exponentials of all lengths that occur."""
    from scipy import linalg

    n, (index, h) = len(drift), drive.locate(times)
    steps = np.diff(drive.knots)
    lengths, which = np.unique(np.concatenate([steps, h]), return_inverse=True)
    blocks, z = _blocks(drift, lengths), _augmented(drive, _at_knots(drive, drift))
    by_block = np.zeros((len(lengths), 3 * n, 3 * n))
    pull = np.zeros((len(drive.knots), n))  # by m at the knots
    own = which[len(steps) :]
    np.add.at(by_block[:, :n], own, by[:, :, None] * z[index][:, None, :])
    np.add.at(pull, index, np.einsum("tij,ti->tj", blocks[own][..., :n], by))
    for k in range(len(steps) - 1, -1, -1):
        by_block[which[k], :n] += np.outer(pull[k + 1], z[k])
        pull[k] += blocks[which[k]][:, :n].T @ pull[k + 1]
    generator, total = _generator(drift).T, np.zeros((3 * n, 3 * n))
    for length, gradient in zip(lengths, by_block, strict=True):
        if length > 0:
            frechet = linalg.expm_frechet(length * generator, gradient, compute_expm=False)
            total += length * frechet
    return -total[:n, :n]
