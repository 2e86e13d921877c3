"""Collapsed observations say all that the values say about the modes."""

import numpy as np
import pytest
from tests.model.cases import PATTERNS, basis, make

from spdelaw.model import collapse

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
