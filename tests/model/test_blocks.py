"""Stacks of small matrices against LAPACK, one by one."""

import numpy as np
import pytest

from spdelaw.model._blocks import EINSUM_SIZE, LAPACK_SIZE, apply, invert, multiply

TOLERANCE = 1e-11


def positive_definite(n, batch):
    rng = np.random.default_rng(n)
    half = rng.standard_normal((batch, n, n + 3))
    return np.moveaxis(half @ half.transpose(0, 2, 1), 0, -1)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("n", range(1, 25))
def test_inverse_and_determinant(n, batch):
    stack = positive_definite(n, batch)
    before = stack.copy()
    inverse, logs = invert(stack)
    np.testing.assert_array_equal(stack, before)
    for b in range(batch):
        expected = np.linalg.inv(stack[..., b])
        scale = np.abs(expected).max()
        np.testing.assert_allclose(inverse[..., b], expected, atol=TOLERANCE * scale, rtol=0)
        np.testing.assert_allclose(logs[b], np.linalg.slogdet(stack[..., b])[1], rtol=TOLERANCE)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("n", range(1, 25))
def test_products(n, batch):
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n, n, batch))
    x = rng.standard_normal((n, batch))
    for i in range(batch):
        np.testing.assert_allclose(multiply(a, b)[..., i], a[..., i] @ b[..., i], atol=TOLERANCE)
        np.testing.assert_allclose(apply(a, x)[:, i], a[..., i] @ x[:, i], atol=TOLERANCE)


def test_one_matrix_serves_many_vectors():
    a = np.arange(9.0).reshape(3, 3, 1)
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(apply(a, x), a[..., 0] @ x)


def test_sizes_on_both_sides_of_each_switch_are_tested():
    assert EINSUM_SIZE < 24
    assert LAPACK_SIZE < 24
