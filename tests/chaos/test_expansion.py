"""expand: plain loops, the covariance it implies, torch, gradients, shapes, bad input."""

import numpy as np
import pytest
from tests.parameters import cross

from spdelaw.chaos.propagators import CosineBasis, HaarBasis, expand, propagate

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 1, 7)
RATES = np.array([0.0, 1.0, 30.0])
K = 4


def factor(kind):
    rng = np.random.default_rng(5)
    return {"diagonal": rng.normal(size=3), "dense": rng.normal(size=(2, 3))}[kind]


def draw(curves, *paths, seed=0):
    rng = np.random.default_rng(seed)
    xi = rng.normal(size=(*paths, curves.n_time, curves.n_noise))
    return rng.normal(size=(*paths, 3)), xi


@cross(kind=["diagonal", "dense"], basis=[CosineBasis(), HaarBasis()])
def test_against_loops(kind, basis):
    curves = propagate(basis, TIMES, RATES, factor(kind), K)
    z0, xi = draw(curves, 5)
    b = np.diag(factor(kind)) if kind == "diagonal" else factor(kind)
    expected = np.empty((5, 7, 3))
    for p, t, n in np.ndindex(expected.shape):
        c = np.exp(-RATES[n] * TIMES[t]) * z0[p, n]
        for k in range(K):
            for l in range(len(b)):
                c += b[l, n] * curves.response[t, k, n] * xi[p, k, l]
        expected[p, t, n] = c
    np.testing.assert_allclose(expand(curves, z0, xi), expected, atol=1e-13)


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_numpy_and_torch_are_one(kind):
    curves = propagate(CosineBasis(), TIMES, RATES, factor(kind), K)
    tensors = propagate(CosineBasis(), TIMES, RATES, factor(kind), K, xp=torch)
    z0, xi = draw(curves, 2, 3)
    plain = expand(curves, z0, xi)
    mixed = expand(curves, z0, torch.tensor(xi))  # NumPy curves, tensor coordinates
    result = expand(tensors, torch.tensor(z0), torch.tensor(xi))
    np.testing.assert_allclose(result.numpy(), plain, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(mixed.numpy(), plain, rtol=1e-12, atol=1e-13)
    half = expand(tensors, torch.tensor(z0), torch.tensor(xi, dtype=torch.float32))
    assert half.dtype == torch.float32
    np.testing.assert_allclose(half.numpy(), plain, atol=1e-5)


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_gradients_reach_every_argument(kind):
    """gradcheck from (lambda, B, z0, xi) to the coefficients."""
    curves = propagate(CosineBasis(), TIMES, RATES, factor(kind), 2)
    arguments = (RATES, factor(kind), *draw(curves, 2))

    def decode(lam, b, z0, xi):
        return expand(propagate(CosineBasis(), TIMES[:4], lam, b, 2), z0, xi)

    tensors = [torch.tensor(a, requires_grad=True) for a in arguments]
    assert torch.autograd.gradcheck(decode, tensors, atol=1e-7)


def test_leading_axes_broadcast():
    curves = propagate(CosineBasis(), TIMES, RATES, factor("dense"), K)
    z0, xi = draw(curves, 4, 5)
    whole = expand(curves, z0[0, 0], xi)
    assert whole.shape == (4, 5, 7, 3)
    np.testing.assert_allclose(whole[2, 3], expand(curves, z0[0, 0], xi[2, 3]), atol=1e-13)
    np.testing.assert_array_equal(expand(curves, z0[::-1], xi[::-1]), expand(curves, z0, xi)[::-1])
