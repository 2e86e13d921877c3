"""Stacks of small matrices against LAPACK, one by one."""

import numpy as np
from tests.parameters import cross

from spdelaw.statespace.blocks import EINSUM_SIZE, LAPACK_SIZE, apply, invert, multiply

TOLERANCE = 1e-11
#: Both sides of each switch.
SIZES = sorted({1, 2, 24} | {n + i for n in (EINSUM_SIZE, LAPACK_SIZE) for i in (-1, 0, 1)})


@cross(n=SIZES, batch=[1, 4])
def test_inverse_determinant_and_products(n, batch):
    rng = np.random.default_rng(n)
    half, b = rng.standard_normal((batch, n, n + 3)), rng.standard_normal((n, n, batch))
    stack, x = np.moveaxis(half @ half.transpose(0, 2, 1), 0, -1), rng.standard_normal((n, batch))
    before = stack.copy()
    inverse, logs = invert(stack)
    np.testing.assert_array_equal(stack, before)
    products, vectors = multiply(b, stack), apply(b, x)
    for i in range(batch):
        a, c = stack[..., i], b[..., i]
        expected = np.linalg.inv(a)
        bound = TOLERANCE * np.abs(expected).max()
        np.testing.assert_allclose(inverse[..., i], expected, atol=bound, rtol=0)
        np.testing.assert_allclose(logs[i], np.linalg.slogdet(a)[1], rtol=TOLERANCE)
        np.testing.assert_allclose(products[..., i], c @ a, atol=TOLERANCE)
        np.testing.assert_allclose(vectors[:, i], c @ x[:, i], atol=TOLERANCE)
    np.testing.assert_allclose(apply(b[..., :1], x), b[..., 0] @ x)  # one matrix, many vectors
