"""Block tridiagonal systems against the whole matrix, with and without machine code."""

import numpy as np
import pytest
from tests.parameters import cross

from spdelaw.statespace import posterior as posterior_module
from spdelaw.statespace.posterior import kernels, solve_tridiagonal

EXACT = 1e-10
WAYS = ["numpy", "numba"]


def go(way, monkeypatch):
    """Every chain, however short, goes one way."""
    if way == "numba":
        pytest.importorskip("numba", reason="machine code needs the extra 'fast'")
    monkeypatch.setattr(posterior_module, "COMPILED_STEPS", 0 if way == "numba" else np.inf)


def system(n_times, n, n_paths, kind):
    """Blocks, couplings, right-hand sides, diagonals and which coupling belongs to which step."""
    rng, shared = np.random.default_rng(0), kind.endswith("shared")
    half = rng.standard_normal((n_times, n, n + 2))
    blocks = half @ half.transpose(0, 2, 1) + 2.0 * n * np.eye(n)
    n_lengths = 2 if shared else n_times - 1
    which = rng.integers(0, 2, n_times - 1) if shared else np.arange(n_times - 1)
    coupling = rng.gamma(2.0, 0.2, (n_lengths, n, n) if kind.startswith("full") else (n_lengths, n))
    diagonals = rng.uniform(0.0, 3.0, (n_times, n))
    return blocks, coupling, rng.standard_normal((n_times, n, n_paths)), diagonals, which


def whole_matrix(blocks, coupling, diagonals, which):
    n_times, n, _ = blocks.shape
    out = np.zeros((n_times, n, n_times, n))
    for t in range(n_times):
        out[t, :, t] = blocks[t] + np.diag(diagonals[t])
        if t:
            d = coupling[which[t - 1]]
            d = np.diag(d) if d.ndim == 1 else d
            out[t, :, t - 1], out[t - 1, :, t] = -d, -d.T
    return out.reshape(n_times * n, -1)


@cross(
    way=WAYS,
    kind=["full", "full shared", "diagonal", "diagonal shared"],
    sizes=[(1, 3, 2), (2, 1, 1), (5, 1, 2), (6, 4, 3), (4, 8, 1), (5, 19, 2)],
)
def test_all_parts_are_those_of_the_whole_matrix(monkeypatch, way, kind, sizes):
    go(way, monkeypatch)
    n_times, n, n_paths = sizes
    blocks, coupling, vector, diagonals, which = arguments = system(*sizes, kind)
    before = blocks.copy(), vector.copy()
    got = solve_tridiagonal(*arguments)
    whole = whole_matrix(blocks, coupling, diagonals, which)
    inverse = np.linalg.inv(whole).reshape(n_times, n, n_times, n)
    mean = np.linalg.solve(whole, vector.reshape(-1, n_paths)).reshape(vector.shape)
    here, later = np.arange(n_times), np.arange(n_times - 1)
    close = {"rtol": EXACT, "atol": EXACT * np.abs(inverse).max()}
    np.testing.assert_allclose(got.log_determinant, np.linalg.slogdet(whole)[1], rtol=EXACT)
    np.testing.assert_allclose(got.mean, mean, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(got.covariance, inverse[here, :, here], **close)
    cross = inverse[later, :, later + 1]
    np.testing.assert_allclose(got.cross, cross, **close)
    np.testing.assert_allclose(got.lag, np.einsum("tii->ti", cross), **close)
    np.testing.assert_array_equal(blocks, before[0])
    np.testing.assert_array_equal(vector, before[1])
    short = solve_tridiagonal(*arguments, crosses=False)
    assert short.cross.shape == (0, n, n)
    np.testing.assert_allclose(short.lag, got.lag, **close)


@cross(way=WAYS, n=[1, 5, 11])
def test_what_is_not_positive_definite_is_refused(monkeypatch, way, n):
    go(way, monkeypatch)
    blocks, *others = system(4, n, 1, "full")
    blocks[2] -= 100.0 * n * np.eye(n)
    with pytest.raises(np.linalg.LinAlgError):
        solve_tridiagonal(blocks, *others)


@pytest.mark.parametrize("way", WAYS)
def test_badly_scaled_blocks_keep_their_digits(monkeypatch, way):
    """Modes of very different size: the answer scales with them."""
    go(way, monkeypatch)
    blocks, coupling, vector, diagonals, which = system(5, 12, 1, "full")
    scale = np.logspace(-5, 5, 12)
    square, close = np.outer(scale, scale), {"rtol": 1e-9, "atol": 1e-12}
    plain = solve_tridiagonal(blocks, coupling, vector, diagonals, which)
    scaled = solve_tridiagonal(
        blocks * square, coupling * square, vector * scale[:, None], diagonals * scale**2, which
    )
    np.testing.assert_allclose(scaled.mean * scale[:, None], plain.mean, **close)
    np.testing.assert_allclose(scaled.covariance * square, plain.covariance, **close)


def test_short_chains_and_a_switched_off_compiler_stay_with_numpy(monkeypatch):
    numba = pytest.importorskip("numba", reason="there is no compiler to switch off")
    calls = []
    monkeypatch.setattr(posterior_module, "kernels", lambda: calls.append(1))
    solve_tridiagonal(*system(6, 2, 1, "full"))
    assert not calls
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    kernels.cache_clear()
    try:
        assert kernels() is None
    finally:
        kernels.cache_clear()
