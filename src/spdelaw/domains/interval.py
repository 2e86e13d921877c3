"""A bounded interval with Dirichlet, Neumann or periodic ends."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import numpy as np
import scipy

from spdelaw.checks import checked, one_of, real_array
from spdelaw.domains.base import AbstractDomain, Array, Turn, real, turns_of_neighbours
from spdelaw.domains.products import Pairs, Products, looked_up, pairs_of_waves
from spdelaw.errors import DomainError

Boundary = Literal["dirichlet", "neumann", "periodic"]
BOUNDARIES: tuple[Boundary, ...] = ("dirichlet", "neumann", "periodic")


@dataclasses.dataclass(frozen=True)
class Interval(AbstractDomain):
    """The interval ``[a, b]`` with ``-A0 = -d2/dx2``, ``L = b - a``.

    - dirichlet: ``sqrt(2/L) sin(n pi (x-a)/L)``, n = 1, 2, ..., with ``mu_n = (n pi/L)^2``;
    - neumann: ``1/sqrt(L)``, then ``sqrt(2/L) cos(n pi (x-a)/L)``, with ``mu = (n pi/L)^2``;
    - periodic: ``1/sqrt(L)``, then cosine and sine of ``2 pi k (x-a)/L``, ``mu = (2 pi k/L)^2``.

    Example:
        >>> import numpy as np, spdelaw as sl
        >>> sl.Interval(0, np.pi).eigenvalues(4)
        array([ 1.,  4.,  9., 16.])
    """

    a: float = 0.0
    b: float = 1.0
    boundary: Boundary = "dirichlet"
    name: ClassVar[str] = "interval"

    def __post_init__(self) -> None:
        """Check the ends and the boundary."""
        a, b = (real(f"end {end}", getattr(self, end), "use Interval(0, np.pi)") for end in "ab")
        if not a < b:
            expected = "finite ends with a < b"
            fix = "swap the ends, for example Interval(0, np.pi)"
            raise DomainError("Interval", expected=expected, got=f"a={a}, b={b}", fix=fix)
        one_of("boundary", self.boundary, BOUNDARIES, DomainError)
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)

    @property
    def volume(self) -> float:
        """Length ``b - a``."""
        return self.b - self.a

    def _wavenumbers(self, n_modes: int) -> Array:
        n = np.arange(n_modes)
        if self.boundary == "periodic":
            return (n + 1) // 2 * 2.0
        return n + (1.0 if self.boundary == "dirichlet" else 0.0)

    def _are_sines(self, n_modes: int) -> Array:
        """Which modes are sines, (n_modes,); the others are cosines."""
        n = np.arange(n_modes)
        is_pair = (n > 0) & (n % 2 == 0) & (self.boundary == "periodic")
        return is_pair | (self.boundary == "dirichlet")

    def gradient(self, points: Array, n_modes: int) -> Array:
        """``dh_n/dx``: k cos for sines and -k sin for cosines of ``k x``; (n_points, n_modes)."""
        k = np.sqrt(self.eigenvalues(n_modes))
        angle = np.multiply.outer(real_array("points", points) - self.a, k)
        slope = np.where(self._are_sines(n_modes), np.cos(angle), -np.sin(angle))
        return slope * k * np.sqrt(2.0 / self.volume)

    def eigenvalues(self, n_modes: int) -> Array:
        """``(k pi / L)^2`` with k = n, n - 1 or 2 floor(n/2) by boundary."""
        return (self._wavenumbers(self.check_modes(n_modes)) * np.pi / self.volume) ** 2

    def eigenfunctions(self, points: Array, n_modes: int) -> Array:
        """Sines, cosines or both, normalised in ``L2(a, b)``."""
        k = self._wavenumbers(self.check_modes(n_modes))
        angle = np.pi * np.multiply.outer(real_array("points", points) - self.a, k) / self.volume
        h = np.where(self._are_sines(n_modes), np.sin(angle), np.cos(angle))
        return h * np.where(k == 0, 1.0, np.sqrt(2.0)) / np.sqrt(self.volume)

    def quadrature(self, n_points: int) -> tuple[Array, Array]:
        """Gauss-Legendre, or the trapezoid rule on a periodic interval."""
        if self.boundary == "periodic":
            return self.grid(n_points), np.full(n_points, self.volume / n_points)
        x, w = scipy.special.roots_legendre(n_points)
        return self.a + 0.5 * self.volume * (x + 1.0), 0.5 * self.volume * w

    @checked()
    def grid(self, n_points: int) -> Array:
        """Uniform points with both ends; without the second end if periodic."""
        return np.linspace(self.a, self.b, n_points, endpoint=self.boundary != "periodic")

    def grid_weights(self, points: Array) -> Array:
        """Trapezoid weights; the cells reach the ends, or around the circle."""
        x = real_array("points", points)
        if self.boundary == "periodic":
            return self._circle_weights(x)
        order = np.argsort(x)
        s = x[order]
        # Half-cells on both sides; the outermost ones reach to the ends. A field is zero at a
        # Dirichlet end and flat at a Neumann end, so this is the trapezoid rule with the ends.
        inner = 0.5 * np.diff(s)
        outer = 1.0 if self.boundary == "neumann" else 0.5
        left = np.append(outer * max(s[0] - self.a, 0.0), inner)
        right = np.append(inner, outer * max(self.b - s[-1], 0.0))
        w = np.empty_like(x)
        w[order] = left + right
        return w

    def _circle_weights(self, x: Array) -> Array:
        position = np.mod(x - self.a, self.volume)
        order = np.argsort(position)
        s = position[order]
        gaps = np.diff(np.append(s, s[0] + self.volume))
        w = np.empty_like(x)
        w[order] = 0.5 * (gaps + np.roll(gaps, 1))
        return w

    def contains(self, points: Array) -> Array:
        """Whether points lie within ``[a, b]`` (1e-9 of the length is forgiven)."""
        slack = 1e-9 * self.volume
        return np.isfinite(points) & (points >= self.a - slack) & (points <= self.b + slack)

    @property
    def reach(self) -> str:
        """``[a, b]``."""
        return f"[{self.a:g}, {self.b:g}]"

    def fix_outside(self, points: Array) -> str:
        """The interval that would hold the points."""
        return f"rescale the coordinate, or use Interval({points.min():g}, {points.max():g})"

    def turns(self, n_modes: int) -> tuple[Turn, ...] | None:
        """Cosine and sine of each wavenumber where the ends are glued together."""
        if self.boundary != "periodic":
            return None
        k = self._wavenumbers(self.check_modes(n_modes)) * np.pi / self.volume
        return turns_of_neighbours(self._are_sines(n_modes), k)

    # -- products of modes ----------------------------------------------------------

    def products(self, points: Array, n_modes: int) -> Products:
        """Gram matrices looked up in cosine and sine sums of the weights."""
        n, x = self.check_modes(n_modes), real_array("points", points)
        return looked_up((self.mode_pairs(x, n),), np.arange(n)[:, None], np.arange(len(x)))

    def mode_pairs(self, points: Array, n_modes: int) -> Pairs:
        """Products of sines and cosines are cosines and sines of sums and differences."""
        k, turn, is_sine = self._wavenumbers(n_modes), np.pi / self.volume, self._are_sines(n_modes)
        if self.boundary == "periodic":
            # Only even multiples of half a turn occur: k counts whole turns.
            k, turn = k / 2.0, 2.0 * turn
        factor = np.sqrt(np.where(k == 0, 1.0, 2.0) / self.volume)
        return pairs_of_waves(turn * (real_array("points", points) - self.a), k, is_sine, factor)

    # -- fast transforms ------------------------------------------------------------

    def fast_analyse(self, values: Array, points: Array, n_modes: int) -> Array | None:
        """DST-I, DCT-I or real FFT on the grid of `grid`; None elsewhere."""
        from scipy import fft  # slow to import, and rarely needed

        m = self._cells(points, n_modes)
        if m is None:
            return None
        if self.boundary == "dirichlet":
            c = fft.dst(values[..., 1:-1], type=1)[..., :n_modes] * (0.5 / m)
            return c * np.sqrt(2.0 * self.volume)
        if self.boundary == "neumann":
            c = fft.dct(values, type=1)[..., :n_modes] * (0.5 / m) * np.sqrt(2.0 * self.volume)
            c[..., 0] /= np.sqrt(2.0)
            return c
        f = fft.rfft(values) * (np.sqrt(2.0 * self.volume) / m)
        c = np.empty((*values.shape[:-1], 2 * f.shape[-1] - 1))
        c[..., 0] = f.real[..., 0] / np.sqrt(2.0)
        c[..., 1::2], c[..., 2::2] = f.real[..., 1:], -f.imag[..., 1:]
        return np.ascontiguousarray(c[..., :n_modes])

    def fast_synthesise(self, coefficients: Array, points: Array) -> Array | None:
        """Inverse of `fast_analyse` on the same grids; None elsewhere."""
        from scipy import fft  # slow to import, and rarely needed

        n_modes = coefficients.shape[-1]
        m = self._cells(points, n_modes)
        if m is None:
            return None
        c = coefficients / np.sqrt(2.0 * self.volume)
        lead = c.shape[:-1]
        if self.boundary == "dirichlet":
            padded = np.concatenate([c, np.zeros((*lead, m - 1 - n_modes))], axis=-1)
            inside = fft.dst(padded, type=1)
            end = np.zeros((*lead, 1))
            return np.concatenate([end, inside, end], axis=-1)
        if self.boundary == "neumann":
            padded = np.concatenate([c, np.zeros((*lead, m + 1 - n_modes))], axis=-1)
            padded[..., 0] *= np.sqrt(2.0)
            return fft.dct(padded, type=1)
        f = np.zeros((*lead, m // 2 + 1), dtype=complex)
        f[..., 0] = c[..., 0] * np.sqrt(2.0)
        cos, sin = c[..., 1::2], c[..., 2::2]
        f[..., 1 : cos.shape[-1] + 1] += cos
        f[..., 1 : sin.shape[-1] + 1] -= 1j * sin
        return fft.irfft(f, n=m) * m

    def _cells(self, points: Array, n_modes: int) -> int | None:
        """Number of cells of the uniform grid, or None where the transform is not exact."""
        n = len(points)
        cells = n if self.boundary == "periodic" else n - 1
        if cells < 3 or not np.allclose(points, self.grid(n), rtol=0, atol=1e-12 * self.volume):
            return None
        # Modes up to here are orthogonal on the grid; the Nyquist mode is not normalised.
        return cells if self._wavenumbers(n_modes)[-1] < cells else None
