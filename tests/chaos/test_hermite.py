"""Index sets and xi_alpha: brute force, orthonormality by quadrature, an independent library."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from spdelaw.chaos import IndexSet, total_degree_set
from spdelaw.domains.hermite import Line


def gauss_hermite_grid(n_points, shape):
    """Tensor Gauss-Hermite points (P, K, L) and weights (P,) for independent normals."""
    x, w = Line().quadrature(n_points)
    n = shape[0] * shape[1]
    points = np.stack(np.meshgrid(*[x] * n, indexing="ij"), -1).reshape(-1, *shape)
    weights = np.prod(np.stack(np.meshgrid(*[w] * n, indexing="ij"), -1), -1).ravel()
    return points, weights


@pytest.mark.parametrize(("k", "l", "p"), [(1, 1, 5), (2, 3, 3), (3, 2, 2), (4, 1, 0), (2, 2, 4)])
def test_a_set_is_all_indices_once_in_order(k, l, p):
    """Against every function from K x L to 0 ... p, and the formula C(KL + p, p)."""
    every = itertools.product(range(p + 1), repeat=k * l)
    brute = {degrees for degrees in every if sum(degrees) <= p}
    listed = [tuple(map(int, degrees.ravel())) for degrees in total_degree_set(k, l, p).degrees]
    assert set(listed) == brute
    assert len(listed) == len(brute) == math.comb(k * l + p, p)
    assert [sum(d) for d in listed] == sorted(map(sum, brute))


def test_order_one_is_the_papers_set():
    """J_{K,L} = {e_{k,l}}: K L indices, in the memory order of a (K, L) array."""
    first = total_degree_set(16, 8, 1).degrees[1:].reshape(128, 128)
    np.testing.assert_array_equal(first, np.eye(128))


@pytest.mark.parametrize(("shape", "p"), [((1, 1), 8), ((2, 1), 4), ((2, 2), 3)])
def test_orthonormal(shape, p):
    """E[xi_alpha xi_beta] = delta: a rule with p + 1 points is exact to degree 2 p + 1."""
    points, weights = gauss_hermite_grid(p + 1, shape)
    xi = total_degree_set(*shape, p).polynomials(points)
    np.testing.assert_allclose((weights[:, None] * xi).T @ xi, np.eye(xi.shape[1]), atol=1e-12)


def test_against_scipy():
    """prod He_a(x) / sqrt(alpha!) with scipy's own probabilists' polynomials."""
    xi = np.random.default_rng(0).normal(size=(7, 3, 2))
    indices = total_degree_set(3, 2, 5)
    hermite = [special.eval_hermitenorm(a, xi) / math.sqrt(math.factorial(a)) for a in range(6)]
    each = np.stack(hermite, -1)[:, None, ...]  # (7, 1, 3, 2, 6)
    chosen = np.take_along_axis(each, indices.degrees[None, ..., None].astype(int), -1)[..., 0]
    np.testing.assert_allclose(indices.polynomials(xi), chosen.prod((2, 3)), rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(indices.polynomials(xi)[:, indices.rows(1)], xi.reshape(7, 6))


def test_degree_beyond_the_range_of_factorials():
    """The generating function sum_n h_n(x) s^n / sqrt(n!) = exp(s x - s^2 / 2), and no overflow."""
    x, indices = np.array([[1.3]]), IndexSet(np.arange(128).reshape(-1, 1, 1))
    values = indices.polynomials(x)
    assert (np.abs(values) < np.exp(1.3**2 / 4) * 1.1).all()  # Cramer's bound
    n = np.arange(60)
    series = (values[:60] * 1.5**n / np.exp(0.5 * special.gammaln(n + 1))).sum()
    np.testing.assert_allclose(series, np.exp(1.5 * 1.3 - 1.5**2 / 2), rtol=1e-13)
