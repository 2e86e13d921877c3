"""Noise that depends on the state: its covariance rate, gradients, draws and operators.

All equations are in the sense of Ito. With modes ``h_l``, independent Brownian motions ``w_l`` and
the spectrum q of the driving noise W,

    dc = f(c) dt + sum_l sqrt(q_l) (B_l c + gamma b_l) dw_l

covers three cases: proportional noise ``X dW``, where ``B_l`` multiplies by ``h_l``; affine noise
``(gamma + X) dW``, where also ``b_l = e_l``; and operators of the user's own, such as transport
noise. With ``M = P + m m'`` the covariance rate is

    Q(m, P) = sum_l q_l (B_l M B_l' + gamma (B_l m b_l' + b_l m' B_l') + gamma^2 b_l b_l').

For pointwise products it is ``Q = A' (S o C) A``, with ``S_ij = E (X_i + gamma)(X_j + gamma)`` and
``C_ij = sum_l q_l h_l(x_i) h_l(x_j)`` at quadrature points, and ``A_in = w_i h_n(x_i)``.
Square-root noise ``sqrt(X) dW`` has a rate that is linear in X where W is white in space,

    Q = q A' diag(m(x_i)+ / w_i) A;

for other spectra the rate is no moment of X, so they are refused.

An equation in the sense of Stratonovich is the Ito equation with the drift
``sum_l q_l B_l (B_l c + gamma b_l) / 2`` added (`AbstractStateNoise.correction`).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from spdelaw.checks import numbers, one_of
from spdelaw.domains.base import AbstractDomain
from spdelaw.domains.fields import Fields
from spdelaw.errors import EquationError
from spdelaw.processes.terms import quadrature

Array = np.ndarray

STATE_NOISES = ("none", "proportional", "affine", "square_root")


class PulledRate(NamedTuple):
    """Gradients by what a covariance rate depends on, of B states each.

    Attributes:
        mean: by m, (B, N).
        covariance: by P, (B, N, N).
        noise: by q, (B, L).
        offset: by gamma, (B,).
    """

    mean: Array
    covariance: Array
    noise: Array
    offset: Array


def second_moment(mean: Array, covariance: Array | None) -> Array:
    """``m m' + P``; None is a covariance of zero."""
    square = mean[..., :, None] * mean[..., None, :]
    return square if covariance is None else square + covariance


class AbstractStateNoise(abc.ABC):
    """Noise whose amplitude depends on the state; q and gamma are passed to its verbs."""

    @property
    @abc.abstractmethod
    def n_drivers(self) -> int:
        """How many standard normals a draw needs."""

    @abc.abstractmethod
    def rate(self, q: Array, offset: float, mean: Array, covariance: Array | None) -> Array:
        """``Q(m, P)`` of states (B, N), (B, N, N); None is a covariance of zero."""

    @abc.abstractmethod
    def pull_back(
        self, q: Array, offset: float, mean: Array, covariance: Array | None, by: Array
    ) -> PulledRate:
        """Gradients from that by Q, (B, N, N) and symmetric."""

    @abc.abstractmethod
    def draw(self, q: Array, offset: float, state: Array, normals: Array, h: float) -> Array:
        """Increment of the noise over h from states (..., N) and normals (..., n_drivers).

        Milstein's scheme without Levy areas, which multiplications do not need: for them it has
        strong order 1 and weak order 2. Square-root noise is drawn by Euler's.
        """

    @abc.abstractmethod
    def correction(self, q: Array, offset: float) -> tuple[Array, Array]:
        """``sum_l q_l B_l B_l / 2`` and ``gamma sum_l q_l B_l b_l / 2``; (N, N) and (N,)."""

    @abc.abstractmethod
    def speed(self, q: Array) -> float:
        """Largest rate at which the noise makes the variance of the field grow."""

    @property
    @abc.abstractmethod
    def operators(self) -> Array:
        """``B_l``, (L, N, N)."""

    @property
    def constants(self) -> Array:
        """``b_l``, (L, N), which gamma multiplies."""
        return np.zeros(self.operators.shape[:2])

    @property
    def is_linear(self) -> bool:
        """Whether the noise is linear in the state, so that moments close."""
        return True


@dataclasses.dataclass(frozen=True, eq=False)
class PointwiseNoise(AbstractStateNoise):
    """``X dW``, ``(gamma + X) dW``: a product at every point.

    Attributes:
        modes: ``h_n(x_i)``, (n_points, N).
        weights: ``w_i``, (n_points,).
    """

    modes: Array
    weights: Array

    @functools.cached_property
    def analysis(self) -> Array:
        """``A_in = w_i h_n(x_i)``."""
        return self.weights[:, None] * self.modes

    @property
    def n_drivers(self) -> int:
        """One per mode of W."""
        return self.modes.shape[1]

    def _at_points(self, offset: float, mean: Array, covariance: Array | None) -> Array:
        """``S_ij``."""
        h = self.modes
        spread = None if covariance is None else h @ covariance @ h.T
        return second_moment(mean @ h.T + offset, spread)

    def _correlation(self, q: Array) -> Array:
        return (self.modes * q) @ self.modes.T

    def rate(self, q: Array, offset: float, mean: Array, covariance: Array | None) -> Array:
        """``A' (S o C) A``."""
        s = self._at_points(offset, mean, covariance) * self._correlation(q)
        return np.asarray(self.analysis.T @ s @ self.analysis)

    def pull_back(
        self, q: Array, offset: float, mean: Array, covariance: Array | None, by: Array
    ) -> PulledRate:
        """With ``G = A Q* A'``: ``S* = G o C`` and ``q_l* = h_l' (S o G) h_l``."""
        h, a = self.modes, self.analysis
        g = a @ by @ a.T
        s = self._at_points(offset, mean, covariance)
        by_noise = (((s * g) @ h) * h).sum(1)
        g *= self._correlation(q)
        by_field = 2.0 * (g @ (mean @ h.T + offset)[..., None])[..., 0]
        by_covariance = np.zeros((1, 1, 1)) if covariance is None else h.T @ g @ h
        return PulledRate(by_field @ h, by_covariance, by_noise, by_field.sum(1))

    def draw(self, q: Array, offset: float, state: Array, normals: Array, h: float) -> Array:
        """``c -> P((X + gamma) w)``, and half of it again less its mean."""
        w = (np.sqrt(q * h) * normals) @ self.modes.T
        first = ((state @ self.modes.T + offset) * w) @ self.analysis
        matrix, constant = self.correction(q, offset)
        again = 0.5 * ((first @ self.modes.T) * w) @ self.analysis
        return np.asarray(first + again - h * (state @ matrix.T + constant))

    def correction(self, q: Array, offset: float) -> tuple[Array, Array]:
        """``A' (C o H A') H / 2`` and ``gamma A' sum_l q_l h_l^2 / 2``."""
        h, a = self.modes, self.analysis
        matrix = 0.5 * a.T @ (self._correlation(q) * (h @ a.T)) @ h
        return matrix, 0.5 * offset * (a.T @ (h**2 @ q))

    def speed(self, q: Array) -> float:
        """``max_x sum_l q_l h_l(x)^2``."""
        return float((self.modes**2 @ q).max())

    @property
    def operators(self) -> Array:
        """``B_l[n, m] = <h_l h_m, h_n>``."""
        return np.einsum("il,im,in->lnm", self.modes, self.modes, self.analysis, optimize=True)

    @property
    def constants(self) -> Array:
        """``e_l``: the projection of ``h_l``."""
        return np.eye(self.modes.shape[1])


@dataclasses.dataclass(frozen=True, eq=False)
class SquareRootNoise(PointwiseNoise):
    """``sqrt(X) dW`` with W white in space; there is no noise where X is negative."""

    @property
    def n_drivers(self) -> int:
        """One per point: white noise has all modes."""
        return len(self.modes)

    def rate(self, q: Array, offset: float, mean: Array, covariance: Array | None) -> Array:
        """``q A' diag(m+ / w) A``."""
        u = q.mean() * np.maximum(mean @ self.modes.T, 0.0)
        return np.asarray((self.modes.T * u[:, None, :]) @ self.analysis)

    def pull_back(
        self, q: Array, offset: float, mean: Array, covariance: Array | None, by: Array
    ) -> PulledRate:
        """Only the mean and q enter."""
        u, nothing = mean @ self.modes.T, np.zeros((1, 1, 1))
        g = ((self.modes @ by) * self.analysis).sum(2)
        by_mean = q.mean() * (g * (u > 0)) @ self.modes
        by_noise = (g * np.maximum(u, 0.0)).sum(1, keepdims=True) / len(q)
        return PulledRate(by_mean, nothing, by_noise, np.zeros(len(u)))

    def draw(self, q: Array, offset: float, state: Array, normals: Array, h: float) -> Array:
        """``P(sqrt(X+) dW)`` with independent noise of variance ``q h / w_i`` at the points."""
        u = np.sqrt(np.maximum(state @ self.modes.T, 0.0))
        return np.asarray((u * normals * np.sqrt(q.mean() * h / self.weights)) @ self.analysis)

    def correction(self, q: Array, offset: float) -> tuple[Array, Array]:
        """Refused: it has no operators."""
        raise self._no_operators()

    def speed(self, q: Array) -> float:
        """It depends on the size of the field; steps are checked by halving."""
        return 0.0

    @property
    def is_linear(self) -> bool:
        """A square root is not."""
        return False

    @property
    def operators(self) -> Array:
        """Refused: a square root is not linear."""
        raise self._no_operators()

    @staticmethod
    def _no_operators() -> EquationError:
        expected, got = "noise that is linear in the state", "square_root"
        fix = "use state_noise='proportional' or 'affine'"
        return EquationError("state_noise", expected=expected, got=got, fix=fix)


@dataclasses.dataclass(frozen=True, eq=False)
class OperatorNoise(AbstractStateNoise):
    """``sum_l sqrt(q_l) B_l c dw_l`` with operators of the user's own; L may differ from N.

    Attributes:
        matrices: ``B_l``, (L, N, N).
    """

    matrices: Array

    @property
    def n_drivers(self) -> int:
        """One per operator."""
        return len(self.matrices)

    @property
    def operators(self) -> Array:
        """The operators as they were passed."""
        return self.matrices

    def rate(self, q: Array, offset: float, mean: Array, covariance: Array | None) -> Array:
        """``sum_l q_l B_l M B_l'``."""
        b, second = self.matrices, second_moment(mean, covariance)
        return np.asarray(np.einsum("l,lij,bjk,lmk->bim", q, b, second, b, optimize=True))

    def pull_back(
        self, q: Array, offset: float, mean: Array, covariance: Array | None, by: Array
    ) -> PulledRate:
        """``M* = sum_l q_l B_l' Q* B_l``."""
        b, second = self.matrices, second_moment(mean, covariance)
        each = np.einsum("lij,bim,lmk->bljk", b, by, b, optimize=True)
        by_second = np.einsum("l,bljk->bjk", q, each)
        by_mean = 2.0 * np.einsum("bjk,bk->bj", by_second, mean)
        return PulledRate(
            by_mean, by_second, np.einsum("bljk,bjk->bl", each, second), np.zeros(len(mean))
        )

    def draw(self, q: Array, offset: float, state: Array, normals: Array, h: float) -> Array:
        """``D c + D D c / 2 - h sum_l q_l B_l B_l c / 2``, ``D = sum_l sqrt(q_l h) z_l B_l``."""
        moved = np.tensordot(np.sqrt(q * h) * normals, self.matrices, 1)
        first = (moved @ state[..., None])[..., 0]
        again = 0.5 * (moved @ first[..., None])[..., 0]
        return np.asarray(first + again - h * state @ self.correction(q, offset)[0].T)

    def correction(self, q: Array, offset: float) -> tuple[Array, Array]:
        """``sum_l q_l B_l B_l / 2``, and no constant."""
        matrix = 0.5 * np.einsum("l,lij,ljk->ik", q, self.matrices, self.matrices, optimize=True)
        return matrix, np.zeros(len(matrix))

    def speed(self, q: Array) -> float:
        """Largest eigenvalue of ``sum_l q_l B_l' B_l``."""
        rate = np.einsum("l,lji,ljk->ik", q, self.matrices, self.matrices, optimize=True)
        return float(np.linalg.eigvalsh(rate)[-1])


@functools.lru_cache(maxsize=16)
def _rule(domain: AbstractDomain, n_modes: int) -> tuple[Array, Array]:
    """Modes and weights at points that integrate products of three modes."""
    points, w = quadrature(domain, n_modes, 2)
    return domain.eigenfunctions(points, n_modes), w


def bind_state_noise(
    kind: str | Array, domain: AbstractDomain, n_modes: int
) -> AbstractStateNoise | None:
    """State noise on the modes of a domain; None where the noise is additive.

    Args:
        kind: one of `STATE_NOISES`, or operators (L, N, N).
        domain: where the field lives.
        n_modes: N.

    Raises:
        EquationError: an unknown word, operators of another shape, or several fields.
    """
    if not isinstance(kind, str):
        return OperatorNoise(_checked_operators(kind, n_modes))
    one_of("state_noise", kind, STATE_NOISES)
    if kind == "none":
        return None
    if isinstance(domain, Fields):
        expected, fix = "'none' for several fields", "fit each field by itself"
        raise EquationError("state_noise", expected=expected, got=repr(kind), fix=fix)
    cls = SquareRootNoise if kind == "square_root" else PointwiseNoise
    return cls(*_rule(domain, n_modes))


def _checked_operators(given: Any, n_modes: int) -> Array:
    matrices = numbers(given)
    if matrices.ndim != 3 or matrices.shape[1:] != (n_modes, n_modes) or not len(matrices):
        expected = f"operators (L, {n_modes}, {n_modes}), or one of {STATE_NOISES}"
        got, fix = f"shape {matrices.shape}", "stack the matrices B_l along a first axis"
        raise EquationError("state_noise", expected=expected, got=got, fix=fix)
    if not np.isfinite(matrices).all():
        expected, fix = "finite numbers in the operators", "check the matrices"
        raise EquationError("state_noise", expected=expected, got="NaN or infinity", fix=fix)
    return matrices
