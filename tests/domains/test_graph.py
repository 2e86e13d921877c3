"""Graph: the inherited contract, closed forms, sparse against dense, bad matrices."""

import numpy as np
from scipy import sparse

import spdelaw as sl
from spdelaw.testing import DomainContract


def ring(n):
    step = np.roll(np.eye(n), 1, axis=1)
    return step + step.T


def random_graph(n=40, seed=0):
    rng = np.random.default_rng(seed)
    w = np.triu(rng.exponential(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.2), 1)
    return w + w.T + ring(n)


class TestGraph(DomainContract):
    def make_domain(self):
        return sl.Graph(random_graph(), positions=np.random.default_rng(1).normal(size=(40, 2)))

    def scattered_points(self, domain, rng):
        return rng.permutation(domain.nodes)[:30]


def test_ring():
    """``mu_k = 2 - 2 cos(2 pi k / n)``, each but the first and last twice."""
    n = 9
    k = np.sort(np.minimum(np.arange(n), n - np.arange(n)))
    expected = 2.0 - 2.0 * np.cos(2 * np.pi * k / n)
    np.testing.assert_allclose(sl.Graph(ring(n)).eigenvalues(n), expected, atol=1e-12)


def test_separate_parts_have_one_zero_each():
    mu = sl.Graph(sparse.block_diag([sparse.csr_array(ring(n)) for n in (5, 6, 4)])).eigenvalues(5)
    np.testing.assert_allclose(mu[:3], 0, atol=1e-12)
    assert mu[3] > 0.1


def test_sparse_and_dense_solvers_agree():
    """A path of 900 vertices is solved by shift-invert; its spectrum is known."""
    n = 900
    chain = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1])
    graph = sl.Graph(chain, n_modes=12)
    expected = 2.0 - 2.0 * np.cos(np.pi * np.arange(12) / n)
    np.testing.assert_allclose(graph.eigenvalues(12), expected, atol=1e-11)
    h = graph.modes
    np.testing.assert_allclose(h.T @ h, np.eye(12), atol=1e-9)
    again = sl.Graph(chain, n_modes=12)
    np.testing.assert_array_equal(again.modes, h)


def test_recovery():
    graph = sl.Graph(random_graph(20), n_modes=20)
    equation = sl.catalogue.heat_on(graph, 20, noise=sl.White())
    fields = sl.simulate(equation, 30, np.linspace(0, 2, 61), seed=0)
    assert fields.dims == ("path", "time", "vertex")
    law = sl.fit(sl.mask(fields, "sensors", 0.0), graph, 6, initial="stationary")
    table = law.parameters.eigenvalue
    z = (table.sel(statistic="estimate") - equation.eigenvalues[:6]) / table.sel(statistic="stderr")
    assert np.abs(z).max() < 4
