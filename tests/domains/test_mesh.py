"""Mesh: the inherited contract, convergence of eigenpairs, variable coefficients, any points."""

import sys

import numpy as np
import pytest
from scipy.spatial import Delaunay

import spdelaw as sl
from spdelaw.errors import MissingExtraError
from spdelaw.testing import DomainContract

pytest.importorskip("skfem")


def square(n, **settings):
    nodes = sl.Box((0, np.pi), (0, np.pi)).grid(n)
    return sl.Mesh(nodes, Delaunay(nodes).simplices, **settings)


def scattered_disk(n=150, seed=0):
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inner = np.random.default_rng(seed).uniform(-1, 1, (2 * n, 2))
    nodes = np.concatenate([rim, inner[np.hypot(*inner.T) < 0.93][:n]])
    return nodes, Delaunay(nodes).simplices


class TestMesh(DomainContract):
    def make_domain(self):
        return sl.Mesh(*scattered_disk(), n_modes=20)


class TestColdMesh(DomainContract):
    n_modes = 6

    def make_domain(self):
        return square(12, boundary="dirichlet", n_modes=14)


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_eigenvalues_converge_at_second_order(boundary):
    exact = sl.Box((0, np.pi), (0, np.pi), boundary=boundary).eigenvalues(6)
    errors = []
    for n in (11, 21):
        mu = square(n, boundary=boundary, n_modes=6).eigenvalues(6)
        errors.append(np.abs(mu - exact).max())
    assert 1.8 < np.log2(errors[0] / errors[1]) < 2.2, errors


def test_variable_diffusion():
    """``-(D u')'`` with ``D = (1 + x)^2`` has ``mu = 1/4 + (k pi / log 2)^2`` on (0, 1), no flux.

    With ``u = (1 + x)^(-1/2) f(log(1 + x))`` it is ``-f'' = (mu - 1/4) f``, ``f' = f / 2`` at both
    ends. On a narrow strip with no flux through its long sides the first modes do not depend on y.
    """
    strip = sl.Box((0, 1), (0, 0.05), boundary="neumann")
    nodes = strip.grid((161, 5))
    mesh = sl.Mesh(nodes, Delaunay(nodes).simplices, n_modes=4, diffusion=lambda x, y: (1 + x) ** 2)
    expected = 0.25 + (np.arange(1, 4) * np.pi / np.log(2)) ** 2
    np.testing.assert_allclose(mesh.eigenvalues(4)[1:], expected, rtol=2e-3)


def test_values_between_the_nodes_are_linear():
    mesh = square(8, n_modes=5)
    corners = mesh.triangles[17]
    share = np.array([0.2, 0.5, 0.3])
    point = share @ mesh.nodes[corners]
    np.testing.assert_allclose(
        mesh.eigenfunctions(point[None], 5)[0], share @ mesh.modes[corners], atol=1e-12
    )


def test_points_of_long_triangles_are_found():
    """The centres of many small triangles lie nearer than that of the right one."""
    rng = np.random.default_rng(0)
    cluster = np.array([5.0, 0.0]) + 0.01 * rng.uniform(-1, 1, (80, 2))
    nodes = np.concatenate([[[0, -5], [0, 5], [10, -5], [10, 5]], cluster])
    mesh = sl.Mesh(nodes, Delaunay(nodes).simplices, n_modes=3)
    points = np.array([[0.1, 0.0], [9.9, 4.0], [5.0, 0.0], [0.0, -5.0]])
    assert mesh.contains(points).all()
    assert not mesh.contains(np.array([[-0.1, 0.0]])).any()


def test_without_the_extra_the_message_pastes_the_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "skfem", None)
    with pytest.raises(MissingExtraError, match=r"spdelaw\[mesh\]"):
        square(5)


def test_a_law_on_an_odd_shape(tmp_path):
    import skfem

    mesh = sl.Mesh.from_skfem(skfem.MeshTri.init_lshaped().refined(3), n_modes=12)
    equation = sl.catalogue.heat_on(mesh, 12, noise=sl.PowerLaw(1.0))
    fields = sl.simulate(equation, 30, np.linspace(0, 1, 41), seed=0)
    assert fields.dims == ("path", "time", "point")
    law = sl.fit(fields, mesh, 6, initial="stationary")
    table = law.parameters.eigenvalue
    z = (table.sel(statistic="estimate") - equation.eigenvalues[:6]) / table.sel(statistic="stderr")
    assert np.abs(z).max() < 4
    law.save(tmp_path / "l.law")
    loaded = sl.load(tmp_path / "l.law")
    assert loaded.domain == mesh
    there = np.array([[-0.5, 0.5], [0.25, -0.3]])
    expected = law.reconstruct(fields[:2], there)["mean"]
    np.testing.assert_array_equal(loaded.reconstruct(fields[:2], there)["mean"], expected)
