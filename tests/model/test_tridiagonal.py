"""Block tridiagonal systems against the whole matrix, with and without machine code."""

import numpy as np
import pytest
from tests.model.cases import KINDS, make
from tests.model.numbers import evaluate_likelihood

from spdelaw.model import _compiler, _tridiagonal
from spdelaw.model._tridiagonal import solve_tridiagonal

EXACT = 1e-10
WAYS = ["numpy", "numba"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Every chain, however short, goes one way."""
    if request.param == "numba":
        pytest.importorskip("numba", reason="machine code needs the extra 'fast'")
        monkeypatch.setattr(_tridiagonal, "COMPILED_STEPS", 0)
    else:
        monkeypatch.setattr(_tridiagonal, "COMPILED_STEPS", np.inf)
    return request.param


def system(n_times, n, n_paths, kind, seed=0):
    """Blocks, couplings, diagonals, right-hand sides and which coupling belongs to which step."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((n_times, n, n + 2))
    blocks = half @ half.transpose(0, 2, 1) + 2.0 * n * np.eye(n)
    n_lengths = 2 if kind.endswith("shared") else n_times - 1
    shared = kind.endswith("shared")
    which = rng.integers(0, 2, n_times - 1) if shared else np.arange(n_times - 1)
    shape = (n_lengths, n, n) if kind.startswith("full") else (n_lengths, n)
    coupling = rng.gamma(2.0, 0.2, shape)
    own = rng.uniform(0.0, 3.0, (n_times, n))
    return blocks, coupling, own, rng.standard_normal((n_times, n, n_paths)), which


def whole_matrix(blocks, coupling, own, which):
    n_times, n, _ = blocks.shape
    out = np.zeros((n_times, n, n_times, n))
    for t in range(n_times):
        out[t, :, t] = blocks[t] + np.diag(own[t])
        if t:
            d = coupling[which[t - 1]]
            d = np.diag(d) if d.ndim == 1 else d
            out[t, :, t - 1], out[t - 1, :, t] = -d, -d.T
    return out.reshape(n_times * n, -1)


@pytest.mark.parametrize("kind", ["full", "full shared", "diagonal", "diagonal shared"])
@pytest.mark.parametrize(
    ("n_times", "n", "n_paths"), [(1, 3, 2), (2, 1, 1), (5, 1, 2), (6, 4, 3), (4, 8, 1), (5, 19, 2)]
)
def test_all_parts_are_those_of_the_whole_matrix(way, kind, n_times, n, n_paths):
    blocks, coupling, own, vector, which = system(n_times, n, n_paths, kind)
    before = blocks.copy(), vector.copy()
    got = solve_tridiagonal(blocks, coupling, vector, own, which)
    whole = whole_matrix(blocks, coupling, own, which)
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
    short = solve_tridiagonal(blocks, coupling, vector, own, which, crosses=False)
    assert short.cross.shape == (0, n, n)
    np.testing.assert_allclose(short.lag, got.lag, **close)


@pytest.mark.parametrize("n", [1, 5, 11])
def test_what_is_not_positive_definite_is_refused(way, n):
    blocks, coupling, own, vector, which = system(4, n, 1, "full")
    blocks[2] -= 100.0 * n * np.eye(n)
    with pytest.raises(np.linalg.LinAlgError):
        solve_tridiagonal(blocks, coupling, vector, own, which)


def test_badly_scaled_blocks_keep_their_digits(way):
    """Modes of very different size: the answer scales with them."""
    blocks, coupling, own, vector, which = system(5, 12, 1, "full")
    scale = np.logspace(-5, 5, 12)
    plain = solve_tridiagonal(blocks, coupling, vector, own, which)
    scaled = solve_tridiagonal(
        blocks * np.outer(scale, scale), coupling * np.outer(scale, scale),
        vector * scale[:, None], own * scale**2, which,
    )  # fmt: skip
    np.testing.assert_allclose(scaled.mean * scale[:, None], plain.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        scaled.covariance * np.outer(scale, scale), plain.covariance, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_of_one_gappy_path_does_not_depend_on_the_way(kind, monkeypatch):
    pytest.importorskip("numba", reason="machine code needs the extra 'fast'")
    case = make(kind, "shared", n_paths=1)
    assert not case.collapsed.is_diagonal
    plain = evaluate_likelihood(case.collapsed, case.parameters)
    monkeypatch.setattr(_tridiagonal, "COMPILED_STEPS", 0)
    for one, other in zip(plain, evaluate_likelihood(case.collapsed, case.parameters), strict=True):
        np.testing.assert_allclose(other, one, rtol=EXACT, atol=EXACT)


def test_short_chains_and_a_switched_off_compiler_stay_with_numpy(monkeypatch):
    numba = pytest.importorskip("numba", reason="there is no compiler to switch off")
    asked = []
    monkeypatch.setattr(_tridiagonal, "kernels", lambda name: asked.append(name))
    blocks, coupling, own, vector, which = system(6, 2, 1, "full")
    solve_tridiagonal(blocks, coupling, vector, own, which)
    assert not asked
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    _compiler.kernels.cache_clear()
    try:
        assert _compiler.kernels("_compiled_chain") is None
    finally:
        _compiler.kernels.cache_clear()
