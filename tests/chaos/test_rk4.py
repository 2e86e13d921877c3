"""The paper's solver: fourth order to the closed form, one answer both ways, gradients, limits."""

import sys

import numpy as np
import pytest

from spdelaw.chaos.propagators import (
    CosineBasis,
    decode_states,
    expand,
    propagate,
    rk4_responses,
    rk4_states,
    unit_response,
    zero_order,
)
from spdelaw.errors import MissingExtraError

torch = pytest.importorskip("torch")
pytest.importorskip("torchdiffeq")

RATES = np.array([0.0, 1.0, 9.0])


def test_fourth_order():
    """Error against the closed form falls as dt^4: slopes in [3.8, 4.2] for every mode."""
    basis, steps = CosineBasis(), np.array([40, 80, 160])
    errors = []
    for n in steps:
        t = np.linspace(0, 1, n + 1)
        decay, psi = rk4_responses(basis, t, RATES, 4)
        both = np.concatenate([decay[:, None], psi], 1)
        exact = np.concatenate(
            [zero_order(t, RATES)[:, None], unit_response(basis, t, RATES, 4)], 1
        )
        errors.append(np.abs(both - exact).max((0, 1)))
    slopes = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert (np.abs(slopes - 4) < 0.2).all()


@pytest.mark.parametrize("dense", [False, True])
def test_per_path_shared_and_closed_form_decode_alike(dense):
    """Coefficients and gradients of all parameters: shared equals per path, both the closed form.

    Named tolerances: 1e-12 between the two systems, 1e-5 (values) and 1e-4 (gradients) to exact.
    """
    rng = np.random.default_rng(0)
    t, basis = np.linspace(0, 1, 81), CosineBasis()
    b = rng.normal(size=(2, 3)) if dense else rng.normal(size=3)
    z0, xi = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 2 if dense else 3))
    skew = torch.tensor(rng.normal(size=(4, 81, 3)))

    def run(decode):
        tensors = [torch.tensor(a, requires_grad=True) for a in (RATES, b, z0)]
        c = decode(*tensors, torch.tensor(xi))
        (c * skew).sum().backward()
        return [c.detach().numpy(), *(a.grad.numpy() for a in tensors)]

    def closed(lam, b, z0, xi):
        return expand(propagate(basis, t, lam, b, 3), z0, xi)

    def shared(lam, b, z0, xi):
        return expand(propagate(basis, t, lam, b, 3, method="rk4"), z0, xi)

    def per_path(lam, b, z0, xi):
        states = rk4_states(basis, t, lam, b, z0, 3)
        assert states.shape == (81, 4, 1 + 3 * xi.shape[-1], 3)
        return decode_states(states, xi)

    exact, one, two = run(closed), run(shared), run(per_path)
    for i, (x, y, z) in enumerate(zip(exact, one, two, strict=True)):
        np.testing.assert_allclose(z, y, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(y, x, rtol=1e-4 if i else 1e-5, atol=1e-4 if i else 1e-5)


def test_grid_that_starts_late_and_one_point():
    t = np.linspace(0.1, 1, 40)
    decay, psi = rk4_responses(CosineBasis(), t, [2.0], 2)
    assert psi.shape == (40, 2, 1)
    np.testing.assert_allclose(decay, zero_order(t, [2.0]), atol=1e-5)
    np.testing.assert_allclose(psi, unit_response(CosineBasis(), t, [2.0], 2), atol=1e-5)
    decay, psi = rk4_responses(CosineBasis(), [0.0], [2.0], 2)
    np.testing.assert_array_equal(decay, 1.0)
    np.testing.assert_array_equal(psi, 0.0)


@pytest.mark.parametrize("missing", ["torch", "torchdiffeq"])
def test_without_the_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"rk4 propagators.*spdelaw\[neural\]"):
        propagate(CosineBasis(), [0.0, 1.0], [1.0], [1.0], 2, method="rk4")
