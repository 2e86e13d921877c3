import numpy as np
import pytest
from tests.parameters import cross

import spdelaw as sl
from spdelaw.processes.terms import TERMS, Means, bind, derivative, parse

RING = sl.Interval(0.0, 2 * np.pi, "periodic")
LINES = [sl.Interval(0.0, 2.0, b) for b in ("dirichlet", "neumann", "periodic")]


def test_names_are_read():
    assert parse("u u_x", 1) == {(1, 1, 0, 0): 1.0}
    assert parse("u*u_x", 1) == {(1, 1, 0, 0): 1.0}
    assert parse("u - 2 u^3", 1) == {(1, 0, 0, 0): 1.0, (3, 0, 0, 0): -2.0}
    assert parse("-1e-1 u + u", 1) == {(1, 0, 0, 0): 0.9}
    assert parse("|grad u|^2", 2) == {(0, 2, 0, 0): 1.0, (0, 0, 2, 0): 1.0}
    assert parse("1", 1) == {(0, 0, 0, 0): 1.0}


@cross(domain={d.boundary: d for d in LINES}, name=TERMS)
def test_values_are_exact_projections(domain, name):
    n = 9
    c = np.random.default_rng(1).standard_normal((4, n))
    x, w = domain.quadrature(600)
    h, step = domain.eigenfunctions(x, n), 1e-6
    ahead, behind = (domain.eigenfunctions(x + s, n) for s in (step, -step))
    u, slope = c @ h.T, c @ ((ahead - behind) / (2 * step)).T
    product = {
        "1": np.ones_like(u), "u": u, "u^2": u**2, "u^3": u**3, "u u_x": u * slope,
        "u_x^2": slope**2, "|grad u|^2": slope**2,
    }[name]  # fmt: skip
    expected = (product * w) @ h
    scale = np.abs(expected).max()
    # Differences of 1e-6 carry the slopes to some nine digits.
    np.testing.assert_allclose(bind([name], domain, n).values(c)[0], expected, atol=1e-8 * scale)


def test_powers_work_on_every_domain():
    for domain, n in (
        (sl.Sphere(), 9),
        (sl.Disk(), 5),
        (sl.Line(), 5),
        (sl.Box((0, 1), (0, 1)), 5),
    ):
        reaction = bind(["u^3"], domain, n)
        x, w = domain.quadrature(60)
        h = domain.eigenfunctions(x, n)
        c = np.random.default_rng(0).standard_normal(n)
        np.testing.assert_allclose(reaction.values(c)[0], (w * (h @ c) ** 3) @ h, atol=1e-6)


@pytest.mark.parametrize("name", ["u^3", "u u_x", "u_x^2", "u^2 u_x", "u^4 - 2 u u_x^2"])
def test_means_under_a_gaussian_are_exact(name):
    """Against a product Gauss-Hermite rule, which is exact for polynomials."""
    g = parse(name, 1)
    mean, cov = np.array([0.4, -0.7]), np.array([[0.5, 0.2], [0.2, 0.3]])
    z, w = np.polynomial.hermite_e.hermegauss(8)
    w = w / w.sum()
    grid = np.stack([a.ravel() for a in np.meshgrid(z, z)])
    a = mean[:, None] + np.linalg.cholesky(cov) @ grid
    weight = np.outer(w, w).ravel()

    def expected(p):
        return sum(v * (weight * a[0] ** k[0] * a[1] ** k[1]).sum() for k, v in p.items())

    means = Means(
        {0: mean[0], 1: mean[1]}, {(0, 0): cov[0, 0], (0, 1): cov[0, 1], (1, 1): cov[1, 1]}
    )
    for p in (g, derivative(g, 0), derivative(g, 1)):
        assert float(means.of(p)) == pytest.approx(expected(p), abs=1e-12)
