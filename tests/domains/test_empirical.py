"""Empirical: the inherited contract, a plain SVD as oracle, gaps, area weights, laws on it."""

import numpy as np
import pytest
import xarray as xr

import spdelaw as sl
from spdelaw.testing import DomainContract


def low_rank_fields(rank=20, seed=0, shape=(6, 5)):
    """Fields of a known rank with a falling spectrum on a grid (x, y)."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(2, 60, rank)) * 0.8 ** np.arange(rank)
    patterns = np.linalg.qr(rng.normal(size=(np.prod(shape), rank)))[0]
    values = (scores @ patterns.T).reshape(2, 60, *shape)
    axes = {"x": np.arange(shape[0]) / 7.0, "y": np.arange(shape[1]) * 1.0}
    coords = {"path": [0, 1], "time": np.arange(60.0), **axes}
    return xr.DataArray(values, coords, ("path", "time", "x", "y"))


class TestEmpirical(DomainContract):
    n_points = 1

    def make_domain(self):
        return sl.Empirical(low_rank_fields(), 20, weights=np.linspace(1, 2, 30))

    def scattered_points(self, domain, rng):
        return rng.permutation(domain.nodes)[:25]


class TestOnALine(DomainContract):
    n_modes = 3

    def make_domain(self):
        equation = sl.catalogue.heat(n_modes=8, initial="stationary")
        return sl.Empirical(sl.simulate(equation, 20, seed=0), 6)

    def scattered_points(self, domain, rng):
        return rng.permutation(domain.nodes)[:40]


@pytest.mark.parametrize("weighted", [False, True])
def test_against_a_plain_svd(weighted):
    fields = low_rank_fields()
    w = np.linspace(0.5, 2.0, 30) if weighted else np.ones(30)
    eofs = sl.Empirical(fields, 5, weights=w if weighted else None)
    rows = fields.values.reshape(-1, 30) * np.sqrt(w)
    _, s, v = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(eofs.spectrum, (s[0] / s[:5]) ** 2, rtol=1e-8)
    np.testing.assert_allclose(eofs.share, s[:5] ** 2 / (s**2).sum(), rtol=1e-8)
    overlap = np.abs((v[:5] / np.sqrt(w)) @ (w[:, None] * eofs.modes))
    np.testing.assert_allclose(overlap, np.eye(5), atol=1e-6)


def test_gaps_are_no_information():
    """A matrix of rank 3 is found through 40 % of random gaps."""
    fields = low_rank_fields(rank=3)
    whole = sl.Empirical(fields, 3)
    gappy = sl.Empirical(sl.mask(fields, "random", 0.4, seed=0), 3)
    np.testing.assert_allclose(gappy.spectrum, whole.spectrum, rtol=1e-3)
    overlap = np.abs(whole.modes.T @ gappy.modes)
    np.testing.assert_allclose(overlap, np.eye(3), atol=1e-3)


def test_points_never_seen_are_left_out():
    fields = low_rank_fields()
    land = fields.where((fields.x > 0.1) | (fields.y > 0.5))
    eofs = sl.Empirical(land, 4)
    assert len(eofs.nodes) == 29
    back = eofs.analyse(land, 4)
    assert not back.isnull().any()
    again = eofs.synthesise(back, eofs.nodes)
    assert again.dims == ("path", "time", "x", "y")
    assert int(again.isnull().all(("path", "time")).sum()) == 1


def test_area_weights_of_a_domain():
    sphere = sl.Sphere()
    equation = sl.catalogue.heat_on(sphere, 9)
    fields = sl.simulate(equation, 40, np.linspace(0, 4, 20), sphere.grid(10), seed=0)
    eofs = sl.Empirical(fields, 9, weights=sphere)
    assert eofs.dims == ("lat", "lon")
    np.testing.assert_allclose(eofs.volume, sphere.volume, rtol=1e-12)
    np.testing.assert_allclose(eofs.share.sum(), 1.0, rtol=1e-9)
    # The patterns span the harmonics: each is reproduced by the others' projection.
    h = sphere.eigenfunctions(eofs.nodes, 9)
    back = eofs.modes @ (eofs.modes.T @ (eofs.node_weights[:, None] * h))
    np.testing.assert_allclose(back, h, atol=1e-8)


@pytest.mark.parametrize("names", [["a", "b", "c", "d", "e"], [3804, 3805, 3806, 3807, 3808]])
def test_names_of_stations_are_no_places(names):
    """Once 'expected real numbers, got dtype <U9', or a third coordinate of numbers."""
    rng = np.random.default_rng(0)
    where = {"x": ("point", rng.uniform(size=5)), "y": ("point", rng.uniform(size=5))}
    values = np.cumsum(rng.standard_normal((40, 5)), axis=0)
    coords = {"time": np.arange(40.0), **where, "station": ("point", names)}
    table = xr.DataArray(values, coords, ("time", "point"))
    patterns = sl.Empirical(table, 2)
    assert patterns.dims == ("x", "y")
    how = {"nuisance": 0, "initial": "stationary", "mean": "zero", "observation_noise": 0.5}
    assert sl.fit(table, patterns, 2, **how).n_modes == 2


def test_a_law_of_patterns(tmp_path):
    """Stationary modes of different energy are their own patterns, so the law is theirs."""
    equation = sl.catalogue.heat(n_modes=4, initial="stationary")
    fields = sl.simulate(equation, 400, np.linspace(0, 1, 41), seed=0)
    eofs = sl.Empirical(fields, 4, weights=equation.domain)
    law = sl.fit(fields, eofs, 4, initial="stationary")
    table = law.parameters.eigenvalue.sel(statistic="estimate")
    np.testing.assert_allclose(table, equation.eigenvalues, rtol=0.1)
    law.save(tmp_path / "eof.law")
    loaded = sl.load(tmp_path / "eof.law")
    assert loaded.domain == eofs
    assert loaded.sample(1).dims == ("path", "time", "x")
