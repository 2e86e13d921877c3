"""Terms of several fields: products, closure, linear limits, and names that are refused."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.errors import EquationError
from spdelaw.processes import terms as terms_module
from spdelaw.processes.linear import Linear
from spdelaw.processes.semilinear import Reacting
from spdelaw.processes.terms import bound, flat_terms
from spdelaw.testing import DynamicsContract

RING = sl.Interval(0.0, 2.0 * np.pi, "periodic")
BOTH = sl.Fields(RING, ("u", "v"))
EXCITABLE = ("u: u", "u: u^3", "u: v", "v: 1", "v: u", "v: u v^2")


def reacting(terms=EXCITABLE, coefficients=(1.0, -1.0, -1.0, 0.1, 0.5, -0.3), each=3):
    n = 2 * each
    rates = np.column_stack([0.1 * RING.eigenvalues(each), 0.05 * RING.eigenvalues(each)]).ravel()
    noise = np.tile([0.05, 0.02], each) / np.arange(1.0, n + 1.0)
    return Reacting(BOTH, terms, np.array(coefficients), rates, noise)


class TestTwoFields(DynamicsContract):
    is_fitted = False
    spread, closure_error = 0.05, 0.03

    def make_dynamics(self):
        return reacting()

    def test_its_first_modes(self):
        """As many of each field."""
        assert self.make_dynamics().leading(2).n_modes == 2


def test_products_are_those_of_the_fields():
    dynamics, rng = reacting(), np.random.default_rng(0)
    c = rng.normal(size=(4, 6))
    x, w = RING.quadrature(64)
    h = RING.eigenfunctions(x, 3)
    u, v = c[:, 0::2] @ h.T, c[:, 1::2] @ h.T
    expected = np.empty((4, 6))
    expected[:, 0::2] = ((u - u**3 - v) * w) @ h
    expected[:, 1::2] = ((0.1 + 0.5 * u - 0.3 * u * v**2) * w) @ h
    got = dynamics.reaction.drift(dynamics.closure.total, c)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_sums_along_each_side_are_the_products(monkeypatch):
    """The way for many modes gives what matrices give."""
    square = sl.Fields(sl.Box((0, 1), (0, 2), boundary="periodic"), ("u", "v"))
    terms = ("u: 1", "u: u v^2", "v: v")
    dense, c = bound(terms, square, 18), np.random.default_rng(1).normal(size=(3, 18))
    monkeypatch.setattr(terms_module, "MOST_DENSE", 4)
    other = bound(terms, square, 18)
    assert isinstance(other, terms_module.Separable)
    assert other.n_modes == dense.n_modes
    np.testing.assert_allclose(other.values(c), dense.values(c), atol=1e-11)
    variance = np.random.default_rng(2).uniform(size=18)
    np.testing.assert_allclose(
        other.values(c, other.spread(variance)), dense.values(c, dense.spread(variance)), atol=1e-11
    )
    with pytest.raises(EquationError, match="draw from the law"):
        _ = other.covariance_products


def test_linear_terms_couple_the_fields_as_a_matrix_does():
    terms, theta = ("u: u", "u: v", "v: u", "v: v"), np.array([0.3, -1.0, 0.5, -0.2])
    dynamics = reacting(terms, theta)
    drift = np.diag(dynamics.rates) - np.kron(np.eye(3), theta.reshape(2, 2))
    mean = np.linspace(-1.0, 1.0, 6)
    exact = Linear(drift, np.diag(dynamics.noise)).moments(mean, 0.1 * np.eye(6), 0.0, 0.05)
    step = dynamics.moments(mean, 0.1 * np.eye(6), 0.0, 0.05)
    for a, b in zip(step[:3], exact[:3], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_spots_stay_between_nothing_and_all():
    """Few modes of Gray-Scott: food and autocatalyst move and stay bounded."""
    equation = sl.catalogue.gray_scott(49, times=np.arange(0.0, 3.0), noise=sl.White(1e-6))
    assert sl.Semilinear.from_dict(equation.to_dict()) == equation
    fields = sl.simulate(equation, 1, grid=equation.domain.grid(8))
    assert fields["variable"].values.tolist() == ["u", "v"]
    assert fields.sizes == {"path": 1, "time": 3, "variable": 2, "x": 8, "y": 8}
    assert float(np.abs(fields).max()) < 1.5
    assert float(np.abs(fields.diff("time")).max()) > 1e-3


def test_names_by_field_become_full_names():
    assert flat_terms({"u": ("u", "v"), "v": ("u",)}, ("u", "v")) == ("u: u", "u: v", "v: u")
    assert flat_terms({"u": {"u": 1.0}, "v": {}}, ("u", "v")) == {"u: u": 1.0}
    assert flat_terms({"u: u": 1.0}, ("u", "v")) == {"u: u": 1.0}
