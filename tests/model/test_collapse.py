"""Collapsed observations say all that the values say about the modes."""

import numpy as np
import pytest
from tests.model.cases import PATTERNS, basis, make

import spdelaw as sl
from spdelaw.model import (
    _collapse,
    _row_grams,
    collapse,
    evaluate_likelihood,
    first_paths,
    linear_state_space,
)

IDENTITY_TOLERANCE = 1e-11


def gram_of(block, t, j):
    b = 0 if block.gram.shape[-1] == 1 else j
    g = block.gram[t, ..., b]
    return np.diag(g) if block.is_diagonal else g


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_misfit_identity(pattern, weighted):
    """(y - Phi c)' W (y - Phi c) = RSS + (c - c_hat)' G (c - c_hat), singular rows too."""
    case = make("gaussian", pattern, n_paths=9)
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(case.phi)) if weighted else None
    collapsed = collapse(case.values, case.times, case.phi, w)
    precision = np.ones(len(case.phi)) if w is None else w
    states = np.random.default_rng(2).gamma(2.0, size=(9, case.values.shape[1], 3))
    covered = []
    for block in collapsed.blocks:
        for j, path in enumerate(block.paths):
            seen = ~np.isnan(case.values[path])
            error = np.where(seen, case.values[path] - states[path] @ case.phi.T, 0.0)
            expected = (precision * error**2).sum()
            got = block.misfit[j]
            for t, c in enumerate(states[path]):
                e = c - block.estimate[t, :, j]
                got += e @ gram_of(block, t, j) @ e
            np.testing.assert_allclose(got, expected, rtol=IDENTITY_TOLERANCE)
            assert block.n_values[j] == seen.sum()
            covered.append(path)
    assert sorted(covered) == list(range(9))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_which_kernel_and_how_many_patterns(pattern):
    case = make("gaussian", pattern, n_paths=9)
    collapsed = case.collapsed
    assert collapsed.is_diagonal == (pattern in ("orthogonal", "rows"))
    shared = pattern in ("orthogonal", "oblique", "shared")
    assert all((block.gram.shape[-1] == 1) == shared for block in collapsed.blocks)
    assert all(
        (block.times.shape[1] == 1) == (pattern != "own_times") for block in collapsed.blocks
    )
    assert collapsed.n_values == (~np.isnan(case.values)).sum()


def test_few_patterns_among_many_paths_are_grouped():
    case = make("gaussian", "oblique", n_paths=12)
    values = case.values.copy()
    values[::2, 1, :3] = np.nan
    collapsed = collapse(values, case.times, case.phi)
    assert [list(block.paths) for block in collapsed.blocks] in (
        [list(range(0, 12, 2)), list(range(1, 12, 2))],
        [list(range(1, 12, 2)), list(range(0, 12, 2))],
    )
    assert all(block.gram.shape[-1] == 1 for block in collapsed.blocks)


def test_more_modes_than_points():
    phi = basis(orthogonal=False, n_modes=5, n_points=3)
    values = np.random.default_rng(0).gamma(2.0, size=(2, 3, 3))
    block = collapse(values, np.arange(3.0), phi).blocks[0]
    fitted = np.einsum("mn,tnp->ptm", phi, block.estimate)
    np.testing.assert_allclose(fitted, values, atol=1e-9)
    np.testing.assert_allclose(block.misfit, 0.0, atol=1e-16)


def test_small_noise_keeps_its_digits():
    """The residual of a field of size 1 with noise 1e-7 has nine correct digits."""
    phi = basis(orthogonal=False, n_points=30)
    rng = np.random.default_rng(0)
    noise = 1e-7 * rng.standard_normal((1, 4, 30))
    values = rng.gamma(2.0, size=(1, 4, 3)) @ phi.T + noise
    project = np.eye(30) - phi @ np.linalg.pinv(phi)
    expected = ((noise @ project) ** 2).sum()
    got = collapse(values, np.arange(4.0), phi).misfit
    np.testing.assert_allclose(got, expected, rtol=1e-7)


# -- many modes with gaps of their own ---------------------------------------------------


def gappy_case(n_paths=5, n_times=6, n_points=30, n_modes=4):
    rng = np.random.default_rng(3)
    phi = rng.normal(size=(n_points, n_modes))
    values = rng.normal(size=(n_paths, n_times, n_points))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    values[0, 2] = np.nan
    values[1, 1, 2:] = np.nan  # two points for four modes
    return values, np.arange(n_times) * 0.1, phi, rng.uniform(0.5, 2.0, n_points)


def test_decoupled_modes_are_the_marginals_of_least_squares(monkeypatch):
    values, times, phi, w = gappy_case()
    monkeypatch.setattr(_collapse, "MOST_BYTES", 0.0)
    collapsed = collapse(values, times, phi, w)
    assert collapsed.decoupled
    (block,) = collapsed.blocks
    for p, t in np.ndindex(5, 6):
        seen = ~np.isnan(values[p, t])
        if seen.sum() < 4:
            assert not block.gram[t, :, p].any()
            continue
        g = phi[seen].T @ (w[seen, None] * phi[seen])
        expected = np.linalg.solve(g, phi[seen].T @ (w[seen] * values[p, t, seen]))
        np.testing.assert_allclose(block.estimate[t, :, p], expected, rtol=1e-9)
        np.testing.assert_allclose(block.gram[t, :, p], 1 / np.diag(np.linalg.inv(g)), rtol=1e-9)
    used = ~np.isnan(values) & ((~np.isnan(values)).sum(-1) >= 4)[..., None]
    np.testing.assert_array_equal(block.n_values, used.sum((1, 2)))


def test_decoupled_likelihood_is_exact_for_a_single_mode(monkeypatch):
    """With one mode there is no correlation between modes to leave out."""
    values, times, phi, w = gappy_case(n_modes=1)
    values[1, 1, 2:] = 0.0
    parameters = linear_state_space(
        np.array([2.0]), np.array([0.7]), np.array([0.1]), np.array([0.4]), np.asarray(0.3),
        "gaussian",
    )  # fmt: skip
    exact = evaluate_likelihood(collapse(values, times, phi, w), parameters)
    monkeypatch.setattr(_collapse, "MOST_BYTES", 0.0)
    decoupled = collapse(values, times, phi, w)
    assert decoupled.decoupled
    got = evaluate_likelihood(decoupled, parameters)
    for one, other in zip(exact, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_large_products_equal_small_ones(monkeypatch, weighted):
    values, times, phi, w = gappy_case()
    w = w if weighted else None
    small = collapse(values, times, phi, w)
    monkeypatch.setattr(_row_grams, "PAIR_BYTES", 0.0)
    for one, other in zip(small.blocks, collapse(values, times, phi, w).blocks, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_first_paths_are_those_of_a_collapse_of_their_own(pattern):
    case = make("gaussian", pattern, n_paths=9)
    times = case.times if case.times.ndim == 1 else case.times[:4]
    space = case.parameters.state_space
    expected = evaluate_likelihood(collapse(case.values[:4], times, case.phi), space)
    some = first_paths(case.collapsed, 4)
    got = evaluate_likelihood(some, space)
    assert some.n_values == (~np.isnan(case.values[:4])).sum()
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)
    whole = case.collapsed
    assert first_paths(whole, 9) is whole


# -- products of modes that a domain knows ------------------------------------------------


def sparse_maps(boundary, seed=0):
    """Maps with gaps of their own, a row without values, one with fewer than there are modes."""
    domain = sl.Box((0.0, 1.0), (0.0, 2.0), boundary=boundary)
    points, rng = domain.grid((9, 11)), np.random.default_rng(seed)
    values = rng.gamma(2.0, size=(3, 5, len(points)))
    values[rng.random(values.shape) < 0.4] = np.nan
    values[0, 1] = np.nan
    values[1, 2, 8:] = np.nan
    return domain, points, values, rng.uniform(0.5, 2.0, len(points))


@pytest.mark.parametrize("n_paths", [1, 3])
@pytest.mark.parametrize("n_modes", [13, 24])
@pytest.mark.parametrize("boundary", ["neumann", ("periodic", "dirichlet")])
@pytest.mark.parametrize("decoupled", [False, True])
def test_looked_up_products_give_the_same(monkeypatch, boundary, n_modes, n_paths, decoupled):
    domain, points, values, w = sparse_maps(boundary)
    values = values[:n_paths]
    if decoupled:
        monkeypatch.setattr(_collapse, "MOST_BYTES", -1.0)
    phi, times = domain.eigenfunctions(points, n_modes), np.arange(5.0)
    plain = collapse(values, times, phi, w)
    looked_up = collapse(values, times, phi, w, domain.products(points, n_modes))
    for one, other in zip(plain.blocks, looked_up.blocks, strict=True):
        for name, a, b in zip(one._fields, one, other, strict=True):
            scale = np.abs(a).max(initial=1.0)
            np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-10 * scale, err_msg=name)


def test_estimates_of_one_record_are_those_of_numpy_least_squares():
    """Rows with all, few and no values; the same pattern twice in a row."""
    for n_modes in (6, 24):  # below and above the size from which LAPACK takes over
        domain, points, values, _ = sparse_maps("neumann")
        values = values[:1]
        values[0, 4, np.isnan(values[0, 3])] = np.nan
        values[0, 4, ~np.isnan(values[0, 3])] = 1.0
        phi = domain.eigenfunctions(points, n_modes)
        (block,) = collapse(values, np.arange(5.0), phi).blocks
        for t, row in enumerate(values[0]):
            seen = ~np.isnan(row)
            expected = np.linalg.pinv(phi[seen], rcond=1e-7) @ row[seen] if seen.any() else 0.0
            np.testing.assert_allclose(block.estimate[t, :, 0], expected, rtol=1e-7, atol=1e-7)


def test_volume_of_one_record_is_that_of_its_regular_rows():
    for n_modes in (6, 24):
        domain, points, values, _ = sparse_maps("neumann")
        phi = domain.eigenfunctions(points, n_modes)
        (block,) = collapse(values[:1, 2:], np.arange(3.0), phi).blocks
        grams = [phi[seen].T @ phi[seen] for seen in ~np.isnan(values[0, 2:])]
        expected = np.linalg.slogdet(grams)[1].sum()
        np.testing.assert_allclose(block.log_gram, expected, rtol=1e-10)
