"""Line: the inherited contract, Hermite polynomials to degree 100, non-orthogonal grids."""

import numpy as np
import pytest
from scipy import special

import spdelaw as sl
from spdelaw.errors import AliasingWarning, DomainError
from spdelaw.testing import DomainContract


class TestLine(DomainContract):
    tolerance = 1e-9

    def make_domain(self):
        return sl.Line()


def test_orthonormal_to_degree_100():
    x, w = sl.Line().quadrature(150)
    h = sl.Line().eigenfunctions(x, 101)
    np.testing.assert_allclose((w[:, None] * h).T @ h, np.eye(101), atol=1e-11)


@pytest.mark.parametrize("degree", [0, 1, 5, 20, 60, 100])
def test_against_scipy(degree):
    """An independent library: He_n / sqrt(n!) with the factorial through gammaln."""
    x = np.linspace(-4, 4, 33)
    expected = special.eval_hermitenorm(degree, x) * np.exp(-0.5 * special.gammaln(degree + 1))
    got = sl.Line().eigenfunctions(x, 101)[:, degree]
    np.testing.assert_allclose(got, expected, atol=1e-10 * np.abs(expected).max())


def test_eigenvalue_problem():
    """-h'' + x h' = n h, using the derivative h_n' = sqrt(n) h_{n-1}."""
    x = np.linspace(-3, 3, 41)
    h = sl.Line().eigenfunctions(x, 12)
    n = np.arange(2, 12)
    first, second = np.sqrt(n) * h[:, 1:-1], np.sqrt(n * (n - 1)) * h[:, :-2]
    np.testing.assert_allclose(-second + x[:, None] * first, n * h[:, 2:], atol=1e-10)


def test_gauss_hermite_grid_is_exact_quadrature():
    domain = sl.Line()
    x, _ = domain.quadrature(40)
    c = np.random.default_rng(0).normal(size=20)
    result = domain.analysis(domain.synthesise(c, x), x, 20)
    assert result.method == "quadrature"
    np.testing.assert_allclose(result.coefficients, c, atol=1e-10)


def test_uniform_window_aliases_and_says_so():
    """On [-3, 3] the polynomials are not orthogonal: degree 8 leaks into the first 8."""
    domain = sl.Line()
    x = domain.grid(200)
    c = 1.0 / np.arange(1, 13)
    with pytest.warns(AliasingWarning, match="condition"):
        got = domain.analyse(domain.synthesise(c, x), 8, x)
    assert np.abs(got - c[:8]).max() > 0.05


def test_bad_extent():
    with pytest.raises(DomainError, match="positive"):
        sl.Line(extent=-1)


def test_projection_that_overflows_is_refused():
    with pytest.raises(DomainError, match="finite coefficients"):
        sl.Line().project(lambda x: 10 * np.exp(-(x**2)), 400)
