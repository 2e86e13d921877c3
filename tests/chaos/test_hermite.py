"""xi_alpha: orthonormality by exact quadrature, an independent library, shapes, bad input."""

import numpy as np
import pytest
from scipy import special

from spdelaw.chaos.indices import MultiIndex, TruncationSet, hermite_chaos
from spdelaw.domains.hermite import Line


def gauss_hermite_grid(n_points, shape):
    """Tensor Gauss-Hermite points (P, K, L) and weights (P,) for independent normals."""
    x, w = Line().quadrature(n_points)
    n = shape[0] * shape[1]
    points = np.stack(np.meshgrid(*[x] * n, indexing="ij"), -1).reshape(-1, *shape)
    weights = np.prod(np.stack(np.meshgrid(*[w] * n, indexing="ij"), -1), -1).ravel()
    return points, weights


@pytest.mark.parametrize(("shape", "p"), [((1, 1), 8), ((2, 1), 4), ((2, 2), 3)])
def test_orthonormal(shape, p):
    """E[xi_alpha xi_beta] = delta: a rule with p + 1 points is exact to degree 2 p + 1."""
    points, weights = gauss_hermite_grid(p + 1, shape)
    xi = hermite_chaos(TruncationSet(*shape, max_order=p), points)
    np.testing.assert_allclose((weights[:, None] * xi).T @ xi, np.eye(xi.shape[1]), atol=1e-12)


def test_against_scipy():
    """prod He_a(x) / sqrt(alpha!) with scipy's own probabilists' polynomials."""
    xi = np.random.default_rng(0).normal(size=(7, 3, 2))
    alpha = MultiIndex({(1, 2): 4, (3, 1): 3, (2, 2): 1})
    expected = (
        special.eval_hermitenorm(4, xi[:, 0, 1])
        * special.eval_hermitenorm(3, xi[:, 2, 0])
        * special.eval_hermitenorm(1, xi[:, 1, 1])
        / np.sqrt(alpha.factorial)
    )
    np.testing.assert_allclose(hermite_chaos(alpha, xi), expected, rtol=1e-12)
    first = hermite_chaos(TruncationSet(3, 2, 1, 1), xi)
    np.testing.assert_array_equal(first, xi.reshape(7, 6))
    assert hermite_chaos(MultiIndex(), xi).shape == (7,)
    assert hermite_chaos([], xi).shape == (7, 0)


def test_degree_beyond_the_range_of_factorials():
    """The generating function sum_n h_n(x) s^n / sqrt(n!) = exp(s x - s^2 / 2), and no overflow."""
    x = np.array([[1.3]])
    high = hermite_chaos(MultiIndex({(1, 1): 400}), x)
    assert np.isfinite(high)
    assert abs(high) < np.exp(1.3**2 / 4) * 1.1  # Cramer's bound
    values = hermite_chaos([MultiIndex({(1, 1): n}) for n in range(60)], x)
    n = np.arange(60)
    series = (values * 1.5**n / np.exp(0.5 * special.gammaln(n + 1))).sum()
    np.testing.assert_allclose(series, np.exp(1.5 * 1.3 - 1.5**2 / 2), rtol=1e-13)
