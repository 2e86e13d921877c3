"""The paper's solver: fourth order to the closed form, one answer both ways, gradients, limits."""

import subprocess
import sys

import numpy as np
import pytest

from spdelaw.chaos import (
    CosineBasis,
    HaarBasis,
    decode_states,
    expand,
    propagate,
    rk4_responses,
    rk4_states,
    unit_response,
    zero_order,
)
from spdelaw.errors import ConvergenceError, InputError, MissingExtraError

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


def test_paper_grid_is_accurate():
    """201 times, 8 modes of Regime B, K = 16: what the method can do, and no worse.

    The decay is off by up to x^4 / (120 e), x = lambda dt <= 0.32, to leading order: 3.2e-5.
    """
    t, lam = np.linspace(0, 1, 201), np.arange(1.0, 9.0) ** 2
    curves = propagate(CosineBasis(), t, lam, np.ones(8), 16, method="rk4")
    assert isinstance(curves.response, np.ndarray)
    exact = propagate(CosineBasis(), t, lam, np.ones(8), 16)
    for got, expected in zip(curves, exact, strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=2 * 0.32**4 / (120 * np.e))
    np.testing.assert_allclose(curves.response, exact.response, atol=2e-6)


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


def test_other_bases_and_precisions():
    """Haar with its jumps on the grid is only first order there; float32 stays float32."""
    t = np.linspace(0, 1, 65)
    lam = torch.tensor([1.0], dtype=torch.float32)
    _, psi = rk4_responses(HaarBasis(), t, lam, 4)
    assert psi.dtype == torch.float32
    exact = unit_response(HaarBasis(), t, [1.0], 4)
    assert 1e-5 < np.abs(psi.numpy() - exact).max() < 2.0 / 64


def test_unstable_steps_are_refused():
    with pytest.raises(ConvergenceError, match="closed_form") as caught:
        rk4_responses(CosineBasis(), np.linspace(0, 1, 11), [30.0], 2)
    assert caught.value.got == "3"


@pytest.mark.parametrize("missing", ["torch", "torchdiffeq"])
def test_without_the_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"rk4 propagators.*spdelaw\[neural\]"):
        propagate(CosineBasis(), [0.0, 1.0], [1.0], [1.0], 2, method="rk4")


def test_import_costs_no_torch():
    code = (
        "import sys, spdelaw.chaos as c; c.propagate(c.CosineBasis(), [0.0, 1.0], [1.0], [1.0], 2);"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_bad_input():
    with pytest.raises(InputError, match="initial"):
        rk4_states(CosineBasis(), [0.0, 1.0], [1.0], [1.0], [1.0], 2)
    with pytest.raises(InputError, match="coordinates"):
        decode_states(torch.zeros(2, 4, 5, 1), torch.zeros(4, 5, 1))
