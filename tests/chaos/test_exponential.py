"""Integrals of the exponential: special functions, torch, gradients at and around rate 0."""

import numpy as np
import pytest
from scipy import special

from spdelaw.chaos.propagators import SERIES_BELOW, decay_mean, namespace
from spdelaw.errors import InputError
from spdelaw.processes.operators import decay_mean as numpy_decay_mean

torch = pytest.importorskip("torch")

RATES = np.concatenate([[0.0, -0.5, SERIES_BELOW, -SERIES_BELOW], np.logspace(-18, 8, 53)])


def test_decay_mean_against_expm1_and_an_independent_function():
    """(1 - e^-x) / x is also Kummer's 1F1(1; 2; -x)."""
    np.testing.assert_allclose(decay_mean(RATES), numpy_decay_mean(RATES), rtol=4e-16)
    x = np.linspace(-2, 2, 41)
    np.testing.assert_allclose(decay_mean(x), special.hyp1f1(1, 2, -x), rtol=1e-14)


def derivative_series(x, order):
    """d^order/dx^order of (1 - e^-x) / x = int_0^1 (-s)^order e^(-x s) ds, by Gauss-Legendre."""
    s, w = np.polynomial.legendre.leggauss(60)
    s, w = 0.5 * (s + 1), 0.5 * w
    return (np.exp(-np.multiply.outer(x, s)) * (-s) ** order) @ w


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_right_on_both_sides_of_the_switch(dtype):
    """Two derivatives, at 0 and through the change of formula; float32 to its own rounding."""
    x = np.array(
        [
            0.0,
            1e-30,
            1e-9,
            0.5 * SERIES_BELOW,
            0.99 * SERIES_BELOW,
            1.01 * SERIES_BELOW,
            0.1,
            1.0,
            20.0,
        ]
    )
    t = torch.tensor(x, dtype=getattr(torch, dtype), requires_grad=True)
    (first,) = torch.autograd.grad(decay_mean(t).sum(), t, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), t)
    eps = np.finfo(dtype).eps
    first, second = first.detach().numpy(), second.numpy()
    np.testing.assert_allclose(first, derivative_series(x, 1), atol=10 * eps / SERIES_BELOW)
    np.testing.assert_allclose(second, derivative_series(x, 2), atol=10 * eps / SERIES_BELOW**2)


def test_namespace():
    assert namespace([1.0], np.zeros(2)) is np
    assert namespace([1.0], torch.zeros(2)) is torch
    assert namespace(torch.zeros(2), xp=np) is np
    with pytest.raises(InputError, match="numpy or torch"):
        namespace(xp="numpy")
