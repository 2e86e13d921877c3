"""The compiled kernel against the joint Gaussian in full and against the NumPy kernel."""

import importlib

import numpy as np
import pytest
from tests.model import _brute_force as oracle
from tests.model.cases import KINDS, make
from tests.model.numbers import evaluate_likelihood

from spdelaw.equation import transition
from spdelaw.model import _posterior
from spdelaw.model._chain import Prior
from spdelaw.model._compiler import kernels

numba = pytest.importorskip("numba", reason="the compiled kernel needs the extra 'fast'")
LANES = importlib.import_module("spdelaw.model._compiled").LANES

EXACT = 1e-10


@pytest.fixture
def solved(monkeypatch):
    """Every problem, however small, goes to the compiled kernel; counts those that did."""
    monkeypatch.setattr(_posterior, "COMPILED_SECONDS", 0.0)
    plain, calls = _posterior.kernels, []
    monkeypatch.setattr(_posterior, "kernels", lambda name: calls.append(name) or plain(name))
    return calls


@pytest.mark.parametrize("pattern", ["random", "own_times"])
@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern, solved):
    case = make(kind, pattern)
    got = evaluate_likelihood(case.collapsed, case.parameters)
    assert solved
    expected = [
        oracle.log_likelihood(case.parameters, y, case.clock(i), case.phi)
        for i, y in enumerate(case.values)
    ]
    np.testing.assert_allclose(got.log_likelihood, expected, rtol=EXACT)


def chain(n_modes, n_paths, n_times, columns, seed=0):
    """Gram matrices and vectors of every path, and a prior with that many columns."""
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((n_times, n_modes, n_modes + 2, n_paths))
    gram = np.einsum("tikb,tjkb->tijb", half, half)
    gram[rng.random(n_times) < 0.3] = 0.0  # times at which nothing was seen
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
    ("n_modes", "n_paths", "n_times", "columns"),
    [
        (1, 2, 5, 1),
        (3, LANES - 1, 4, 1),
        (4, LANES, 4, LANES),
        (5, LANES + 1, 3, LANES + 1),
        (8, 2 * LANES + 5, 6, 1),
        (17, 3, 3, 3),
        (2, 4, 1, 4),
    ],
)
def test_both_kernels_agree(n_modes, n_paths, n_times, columns, solved):
    problem = chain(n_modes, n_paths, n_times, columns)
    got, expected = _posterior._solved(*problem), _posterior._by_elimination(*problem)
    assert solved
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        scale = np.abs(other).max(initial=1.0)
        np.testing.assert_allclose(one, other, rtol=EXACT, atol=EXACT * scale)


def test_inputs_stay_as_they_were(solved):
    gram, vector, prior = chain(4, 7, 5, 1)
    before = gram.copy(), vector.copy()
    _posterior.posterior(gram, vector, prior, 7)
    np.testing.assert_array_equal(gram, before[0])
    np.testing.assert_array_equal(vector, before[1])


def test_determinants_of_extreme_matrices_do_not_overflow(solved):
    gram, vector, prior = chain(8, 3, 2, 1)
    huge = _posterior.posterior(1e60 * gram, vector, prior, 3)
    assert np.isfinite(huge.log_determinant).all()


def test_small_problems_and_a_switched_off_compiler_stay_with_numpy(monkeypatch):
    called, plain = [], _posterior._by_elimination
    monkeypatch.setattr(_posterior, "_by_elimination", lambda *a: called.append(1) or plain(*a))
    _posterior.posterior(*chain(3, 4, 5, 1), 4)
    monkeypatch.setattr(_posterior, "COMPILED_SECONDS", 0.0)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    kernels.cache_clear()
    try:
        _posterior.posterior(*chain(3, 4, 5, 1), 4)
    finally:
        kernels.cache_clear()
    assert len(called) == 2
