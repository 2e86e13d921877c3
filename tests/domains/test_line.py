"""Line: the inherited contract, Hermite polynomials to degree 100, non-orthogonal grids."""

import numpy as np
import pytest
from scipy import special

import spdelaw as sl
from spdelaw.errors import AliasingWarning
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


def test_uniform_window_aliases_and_says_so():
    """On [-3, 3] the polynomials are not orthogonal: degree 8 leaks into the first 8."""
    domain = sl.Line()
    x = domain.grid(200)
    c = 1.0 / np.arange(1, 13)
    with pytest.warns(AliasingWarning, match="condition"):
        got = domain.analyse(domain.synthesise(c, x), 8, x)
    assert np.abs(got - c[:8]).max() > 0.05
