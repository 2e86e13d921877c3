"""Time bases: orthonormality, files, and one that a user might write."""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import pytest
from scipy import integrate
from tests.parameters import cross

from spdelaw.chaos.propagators import (
    CosineBasis,
    HaarBasis,
    TimeBasis,
    response_by_quadrature,
    unit_response,
)

torch = pytest.importorskip("torch")


@dataclasses.dataclass(frozen=True)
class LegendreBasis(TimeBasis):
    """A stranger's basis that knows nothing but its values."""

    name: ClassVar[str] = "legendre"

    def values(self, times, n_time):
        u = 2.0 * np.asarray(times) / self.horizon - 1.0
        norm = np.sqrt((2.0 * np.arange(n_time) + 1.0) / self.horizon)
        return norm * np.polynomial.legendre.legvander(u, n_time - 1)


BASES = [CosineBasis, HaarBasis, LegendreBasis]


@cross(make=BASES, n_time=[1, 2, 7, 16])
def test_orthonormal(make, n_time):
    """int_0^T m_j m_k = delta_jk by Gauss-Legendre on 64 pieces, with T = 2.5."""
    basis = make(2.5)
    u, w = np.polynomial.legendre.leggauss(12)
    t = ((np.arange(64)[:, None] + 0.5 * (1 + u)) * 2.5 / 64).ravel()
    m = basis.values(t, n_time)
    np.testing.assert_array_equal(m, basis.values(t, 17)[:, :n_time])
    gram = (np.tile(w, 64)[:, None] * 2.5 / 128 * m).T @ m
    np.testing.assert_allclose(gram, np.eye(n_time), atol=1e-12)


@pytest.mark.parametrize("make", BASES)
def test_response_against_an_ode_solver(make):
    """psi' = -lambda psi + m_k, with solve_ivp restarted at the breakpoints."""
    basis, lam, k = make(2.0), np.array([0.0, 0.7, 30.0]), 6
    t = np.array([0.3, 0.31, 1.1, 2.0])
    knots = np.concatenate([[0.0], basis.breakpoints(k), [2.0]])
    state, expected = np.zeros(k * 3), np.zeros((4, k, 3))

    def slope(t, y):
        return (m_k(t)[:, None] - lam * y.reshape(k, 3)).ravel()

    for a, b in itertools.pairwise(knots):

        def m_k(t, a=a, b=b):
            # The value inside the piece: a solver may ask for the end it shares with the next.
            return basis.values(np.clip([t], a, np.nextafter(b, a)), k)[0]

        inside = (t > a) & (t <= b)
        stops = np.unique(np.append(t[inside], b))
        run = integrate.solve_ivp(
            slope, (a, b), state, "DOP853", stops, rtol=1e-12, atol=1e-14, max_step=0.05
        )
        expected[inside] = run.y.T[: inside.sum()].reshape(-1, k, 3)
        state = run.y[:, -1]
    np.testing.assert_allclose(unit_response(basis, t, lam, k), expected, atol=1e-10)


def test_quadrature_equals_the_closed_form_for_every_rate():
    """The cosines know their responses: what any other smooth basis gets is this accurate."""
    basis = CosineBasis(2.0)
    lam = np.array([0.0, 1e-9, 1e-3, 1.0, 64.0, 1e4, 1e8])
    for t in (np.linspace(0, 2, 201), np.array([1.7]), np.array([0.0, 1e-3, 1.999, 2.0])):
        exact = unit_response(basis, t, lam, 16)
        scale = np.abs(unit_response(basis, np.linspace(0, 2, 41), lam, 16)).max((0, 1))
        error = np.abs(response_by_quadrature(basis, t, lam, 16, np) - exact).max((0, 1))
        assert (error < 1e-12 * scale).all()


@pytest.mark.parametrize("make", [HaarBasis, LegendreBasis])
def test_quadrature_in_torch_with_gradients(make):
    """A basis of plain NumPy values has responses and gradients in torch, at lambda 0 too."""
    basis, t = make(1.0), np.linspace(0, 1, 9)
    lam = np.array([0.0, 3.0, 1e4])
    tensor = torch.tensor(lam, requires_grad=True)
    psi = unit_response(basis, t, tensor, 5)
    np.testing.assert_allclose(psi.detach().numpy(), unit_response(basis, t, lam, 5), atol=1e-13)
    skew = np.random.default_rng(0).normal(size=(9, 5, 1))
    (psi * torch.tensor(skew)).sum().backward()
    step = 1e-4 * np.maximum(lam, 1.0)
    up, down = (unit_response(basis, t, lam + s * step, 5) for s in (1, -1))
    fd = ((up - down) * skew).sum((0, 1)) / (2 * step)
    np.testing.assert_allclose(tensor.grad.numpy(), fd, rtol=1e-6)
