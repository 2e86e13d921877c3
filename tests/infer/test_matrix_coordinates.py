"""Coordinates of matrices: Jacobians by differences, round trips, stability everywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.infer.coupled import stable

from spdelaw.infer.parameters import (
    Covariance,
    LowRankCovariance,
    OperatorTied,
    PowerTied,
    Rotating,
    Single,
    Stable,
    WithNuisance,
)
from spdelaw.processes import operators

SCALE = (1.0, 0.3, 2.0, 0.1)
PAIRS = ((1, 2),)

every = {
    "diagonal": Single("eigenvalue", 4),
    "tied": OperatorTied((0.0, 1.0, 4.0, 9.0)),
    "rotating": Rotating(4, PAIRS),
    "covariance": Covariance("noise", SCALE),
    "stable": Stable(SCALE),
    "low_rank_1": LowRankCovariance(SCALE, 1),
    "low_rank_2": LowRankCovariance(SCALE, 2),
    "joined": WithNuisance(Stable(SCALE), PowerTied(2, 5, "nuisance_"), 4),
}


@pytest.mark.parametrize("name", every)
def test_jacobian_by_differences(name):
    c = every[name]
    phi = 0.4 * np.random.default_rng(0).normal(size=len(c.names))
    assert len(set(c.names)) == len(c.names) == len(c.is_log)
    jacobian = c.jacobian(phi)
    for k in range(len(phi)):
        step = 1e-6 * np.eye(len(phi))[k]
        expected = (c.values(phi + step) - c.values(phi - step)) / 2e-6
        np.testing.assert_allclose(jacobian[..., k], expected, atol=1e-8)
    by = np.random.default_rng(1).normal(size=jacobian.shape[:-1])
    expected = np.tensordot(by, jacobian, by.ndim)
    np.testing.assert_allclose(c.pull_back(phi, by), expected, atol=1e-12)
    columns = np.random.default_rng(2).normal(size=(len(phi), 3))
    expected = np.tensordot(jacobian, columns, 1)
    np.testing.assert_allclose(c.push(phi, columns), expected, atol=1e-12)


@pytest.mark.parametrize("name", every)
def test_start_finds_its_own_values(name):
    c = every[name]
    phi = 0.3 * np.random.default_rng(1).normal(size=len(c.names))
    if name == "tied":
        phi[2] = 0.0  # its start supposes s = 1
    matrix = c.values(phi)
    found = c.values(c.start(matrix))
    # Principal factors only come near.
    tolerance = {"low_rank_1": 0.3, "low_rank_2": 0.3, "tied": 0.1}.get(name, 1e-10)
    assert np.abs(found - matrix).max() < tolerance * np.abs(matrix).max()


@pytest.mark.parametrize("name", every)
def test_either_shape_of_an_operator_is_a_start(name):
    """A spectrum and the same numbers on the diagonal of a matrix."""
    c = every[name]
    n = len(c.values(np.zeros(len(c.names))))
    spectrum = 1.0 + 0.5 * np.arange(n)
    np.testing.assert_array_equal(c.start(spectrum), c.start(np.diag(spectrum)))
    assert operators.diagonal(c.values(c.start(spectrum))).shape == (n,)


@pytest.mark.parametrize("seed", range(5))
def test_every_stable_matrix_has_coordinates(seed):
    drift, noise = stable(4, seed)
    c = Stable(SCALE)
    np.testing.assert_allclose(c.values(c.start(drift)), drift, rtol=1e-8, atol=1e-9)
    q = Covariance("noise", SCALE)
    np.testing.assert_allclose(q.values(q.start(noise)), noise, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(float, 16, elements=st.floats(-4, 4)))
def test_all_coordinates_are_stable(phi):
    matrix = Stable(SCALE).values(phi)
    rounding = 1e-13 * np.abs(matrix).max()  # of the eigenvalues of a matrix far from normal
    assert np.linalg.eigvals(matrix).real.min() > -rounding


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(float, 11, elements=st.floats(-4, 4)))
def test_all_noise_is_positive(phi):
    for c in (Covariance("noise", SCALE), LowRankCovariance(SCALE, 2)):
        q = c.values(phi[: len(c.names)])
        np.testing.assert_array_equal(q, q.T)
        assert np.linalg.eigvalsh(q / np.sqrt(np.outer(np.diag(q), np.diag(q))))[0] > -1e-14
