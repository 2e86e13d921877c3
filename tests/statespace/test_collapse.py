"""Collapsed observations say all that the values say about the modes."""

import numpy as np
import pytest
from tests.parameters import cross
from tests.statespace.cases import PATTERNS, basis, make, of_path

import spdelaw as sl
from spdelaw.statespace import collapse as collapse_module
from spdelaw.statespace.collapse import collapse, first_paths
from spdelaw.statespace.likelihood import evaluate_likelihood

IDENTITY_TOLERANCE = 1e-11


@cross(weighted=[False, True], pattern=PATTERNS)
def test_misfit_identity(pattern, weighted):
    """(y - Phi c)' W (y - Phi c) = RSS + (c - c_hat)' G (c - c_hat), singular rows too."""
    case = make("gaussian", pattern, n_paths=9)
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(case.phi)) if weighted else None
    collapsed = collapse(case.values, case.times, case.phi, w)
    states = np.random.default_rng(2).gamma(2.0, size=(9, case.values.shape[1], 3))
    there, paths = ~np.isnan(case.values), []
    error = np.where(there, case.values - states @ case.phi.T, 0.0)
    expected = ((1.0 if w is None else w) * error**2).sum((1, 2))
    for block in collapsed.blocks:
        np.testing.assert_array_equal(block.n_values, there[block.paths].sum((1, 2)))
        for j, path in enumerate(block.paths):
            e, gram = states[path] - block.estimate[..., j], of_path(block.gram, j)
            formula = "tn,tn,tn->" if block.is_diagonal else "tn,tnm,tm->"
            got = block.misfit[j] + np.einsum(formula, e, gram, e)
            np.testing.assert_allclose(got, expected[path], rtol=IDENTITY_TOLERANCE)
            paths.append(path)
    assert sorted(paths) == list(range(9))
    # Which kernel, and how many patterns.
    assert collapsed.is_diagonal == (pattern in ("orthogonal", "rows") and not weighted)
    for block in collapsed.blocks:
        assert (block.gram.shape[-1] == 1) == (pattern in ("orthogonal", "oblique", "shared"))
        assert (block.times.shape[1] == 1) == (pattern != "own_times")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_first_paths_are_those_of_a_separate_collapse(pattern):
    case = make("gaussian", pattern, n_paths=9)
    times = case.times if case.times.ndim == 1 else case.times[:4]
    whole, space = case.collapsed, case.parameters.state_space
    expected = evaluate_likelihood(collapse(case.values[:4], times, case.phi), space)
    some = first_paths(whole, 4)
    assert some.n_values == (~np.isnan(case.values[:4])).sum()
    for one, other in zip(expected, evaluate_likelihood(some, space), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)
    assert first_paths(whole, 9) is whole


def test_few_patterns_among_many_paths_are_grouped():
    case = make("gaussian", "oblique", n_paths=12)
    case.values[::2, 1, :3] = np.nan
    blocks = case.collapsed.blocks
    even, odd = list(range(0, 12, 2)), list(range(1, 12, 2))
    assert sorted(list(block.paths) for block in blocks) == [even, odd]
    assert all(block.gram.shape[-1] == 1 for block in blocks)


def test_more_modes_than_points():
    phi = basis(orthogonal=False, n_modes=5, n_points=3)
    values = np.random.default_rng(0).gamma(2.0, size=(2, 3, 3))
    block = collapse(values, np.arange(3.0), phi).blocks[0]
    fitted = np.einsum("mn,tnp->ptm", phi, block.estimate)
    np.testing.assert_allclose(fitted, values, atol=1e-9)
    np.testing.assert_allclose(block.misfit, 0.0, atol=1e-16)


def test_small_noise_keeps_its_digits():
    """The residual of a field of size 1 with noise 1e-7 has nine correct digits."""
    phi, rng = basis(orthogonal=False, n_points=30), np.random.default_rng(0)
    noise = 1e-7 * rng.standard_normal((1, 4, 30))
    values = rng.gamma(2.0, size=(1, 4, 3)) @ phi.T + noise
    expected = ((noise - noise @ phi @ np.linalg.pinv(phi)) ** 2).sum()
    got = collapse(values, np.arange(4.0), phi).misfit
    np.testing.assert_allclose(got, expected, rtol=1e-7)


# -- many modes with different gaps --------------------------------------------------------


def gappy_case(n_modes=4):
    rng = np.random.default_rng(3)
    phi, values = rng.normal(size=(30, n_modes)), rng.normal(size=(5, 6, 30))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    values[0, 2] = np.nan
    values[1, 1, 2:] = np.nan  # two points for four modes
    return values, np.arange(6) * 0.1, phi, rng.uniform(0.5, 2.0, 30)


def test_decoupled_modes_are_the_marginals_of_least_squares(monkeypatch):
    values, times, phi, w = gappy_case()
    monkeypatch.setattr(collapse_module, "MOST_BYTES", 0.0)
    collapsed = collapse(values, times, phi, w)
    assert collapsed.decoupled
    (block,) = collapsed.blocks
    for p, t in np.ndindex(5, 6):
        there = ~np.isnan(values[p, t])
        if there.sum() < 4:
            assert not block.gram[t, :, p].any()
            continue
        g = phi[there].T @ (w[there, None] * phi[there])
        expected = np.linalg.solve(g, phi[there].T @ (w[there] * values[p, t, there]))
        np.testing.assert_allclose(block.estimate[t, :, p], expected, rtol=1e-9)
        np.testing.assert_allclose(block.gram[t, :, p], 1 / np.diag(np.linalg.inv(g)), rtol=1e-9)
    counts = (~np.isnan(values)).sum(-1)
    np.testing.assert_array_equal(block.n_values, np.where(counts >= 4, counts, 0).sum(1))


@pytest.mark.parametrize("weighted", [False, True])
def test_large_products_equal_small_ones(monkeypatch, weighted):
    *data, w = gappy_case()
    w = w if weighted else None
    small = collapse(*data, w)
    monkeypatch.setattr(collapse_module, "PAIR_BYTES", 0.0)
    for one, other in zip(small.blocks, collapse(*data, w).blocks, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


# -- products of modes that a domain provides ----------------------------------------------


def sparse_maps(boundary):
    """Maps with different gaps, a row without values, one with fewer than there are modes."""
    domain = sl.Box((0.0, 1.0), (0.0, 2.0), boundary=boundary)
    points, rng = domain.grid((9, 11)), np.random.default_rng(0)
    values = rng.gamma(2.0, size=(3, 5, len(points)))
    values[rng.random(values.shape) < 0.4] = np.nan
    values[0, 1] = np.nan
    values[1, 2, 8:] = np.nan
    return domain, points, values, rng.uniform(0.5, 2.0, len(points))


@cross(
    boundary={"neumann": "neumann", "mixed": ("periodic", "dirichlet")},
    n_modes=[13, 24],
    n_paths=[1, 3],
    decoupled=[False, True],
)
def test_looked_up_products_give_the_same(monkeypatch, boundary, n_modes, n_paths, decoupled):
    domain, points, values, w = sparse_maps(boundary)
    if decoupled:
        monkeypatch.setattr(collapse_module, "MOST_BYTES", -1.0)
    data = values[:n_paths], np.arange(5.0), domain.eigenfunctions(points, n_modes), w
    looked_up = collapse(*data, domain.products(points, n_modes))
    for one, other in zip(collapse(*data).blocks, looked_up.blocks, strict=True):
        for name, a, b in zip(one._fields, one, other, strict=True):
            scale = np.abs(a).max(initial=1.0)
            np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-10 * scale, err_msg=name)


@pytest.mark.parametrize("n_modes", [6, 24])  # LAPACK takes over in between
def test_estimates_and_volume_of_one_record_are_those_of_numpy(n_modes):
    """Rows with all, few and no values; the same pattern twice in a row."""
    domain, points, values, _ = sparse_maps("neumann")
    phi, volumes = domain.eigenfunctions(points, n_modes), values[:1, 2:].copy()
    values[0, 4] = np.where(np.isnan(values[0, 3]), np.nan, 1.0)
    (block,) = collapse(values[:1], np.arange(5.0), phi).blocks
    for t, row in enumerate(values[0]):
        there = ~np.isnan(row)
        expected = np.linalg.pinv(phi[there], rcond=1e-7) @ row[there] if there.any() else 0.0
        np.testing.assert_allclose(block.estimate[t, :, 0], expected, rtol=1e-7, atol=1e-7)
    (block,) = collapse(volumes, np.arange(3.0), phi).blocks
    grams = [phi[there].T @ phi[there] for there in ~np.isnan(volumes[0])]
    np.testing.assert_allclose(block.log_gram, np.linalg.slogdet(grams)[1].sum(), rtol=1e-10)
