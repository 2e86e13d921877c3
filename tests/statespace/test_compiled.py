"""The compiled kernel against the joint Gaussian in full and against the NumPy kernel."""

import numpy as np
import pytest
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import KINDS, make
from tests.statespace.numbers import evaluate_likelihood

from spdelaw.processes.linear import transition
from spdelaw.statespace import posterior as posterior_module
from spdelaw.statespace.chain import Prior
from spdelaw.statespace.posterior import kernels

numba = pytest.importorskip("numba", reason="the compiled kernel needs the extra 'fast'")

EXACT = 1e-10
LANES = kernels().LANES


@pytest.fixture
def compiled(monkeypatch):
    """Every problem, however small, goes to the compiled kernel; counts those that did."""
    monkeypatch.setattr(posterior_module, "COMPILED_SECONDS", 0.0)
    plain, calls = posterior_module.kernels, []
    monkeypatch.setattr(posterior_module, "kernels", lambda: calls.append(1) or plain())
    yield
    assert calls


@cross(pattern=["random", "own_times"], kind=KINDS)
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern, compiled):
    case = make(kind, pattern)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    np.testing.assert_allclose(got, case.by_path(oracle.log_likelihood), rtol=EXACT)


def chain(n_modes, n_paths, n_times, columns, seed=0):
    """Gram matrices and vectors of every path, and a prior with that many columns."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((n_times, n_modes, n_modes + 2, n_paths))
    gram = np.einsum("tikb,tjkb->tijb", half, half)
    gram[rng.random(n_times) < 0.3] = 0.0  # times without an observation
    vector = np.einsum("tijb,tjb->tib", gram, rng.standard_normal((n_times, n_modes, n_paths)))
    variance, noise = rng.uniform(0.2, 2.0, (2, n_modes, n_times * columns))
    factor = rng.uniform(0.1, 0.99, noise.shape)
    which = np.arange((n_times - 1) * columns).reshape(n_times - 1, columns)
    unused = transition(np.ones(n_modes), np.ones(n_modes), np.ones(1))
    log = np.log(variance[:, :columns]).sum(0) + np.log(noise)[:, which].sum((0, 1))
    prior = Prior(
        unused, which, 0, rng.standard_normal((n_modes, columns)), 1 / variance[:, :columns], log,
        factor, 1 / noise, factor / noise, factor**2 / noise,
    )  # fmt: skip
    return gram, vector, prior


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 2, 5, 1), (3, LANES - 1, 4, 1), (4, LANES, 4, LANES), (5, LANES + 1, 3, LANES + 1),
        (8, 2 * LANES + 5, 6, 1), (17, 3, 3, 3), (2, 4, 1, 4),
    ],
)  # fmt: skip
def test_both_kernels_agree(sizes, compiled):
    gram, vector, prior = chain(*sizes)
    expected, before = (
        posterior_module._solve_by_elimination(gram, vector, prior),
        (gram.copy(), vector.copy()),
    )
    for one, other in zip(
        posterior_module._solve_fastest(gram, vector, prior), expected, strict=True
    ):
        assert one.shape == other.shape
        scale = np.abs(other).max(initial=1.0)
        np.testing.assert_allclose(one, other, rtol=EXACT, atol=EXACT * scale)
    np.testing.assert_array_equal(gram, before[0])
    np.testing.assert_array_equal(vector, before[1])


def test_determinants_of_extreme_matrices_do_not_overflow(compiled):
    gram, vector, prior = chain(8, 3, 2, 1)
    huge = posterior_module.posterior(1e60 * gram, vector, prior, 3)
    assert np.isfinite(huge.log_determinant).all()


def test_small_problems_and_a_switched_off_compiler_stay_with_numpy(monkeypatch):
    called, plain = [], posterior_module._solve_by_elimination
    monkeypatch.setattr(
        posterior_module, "_solve_by_elimination", lambda *a: called.append(1) or plain(*a)
    )
    posterior_module.posterior(*chain(3, 4, 5, 1), 4)
    monkeypatch.setattr(posterior_module, "COMPILED_SECONDS", 0.0)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    kernels.cache_clear()
    try:
        posterior_module.posterior(*chain(3, 4, 5, 1), 4)
    finally:
        kernels.cache_clear()
    assert len(called) == 2
