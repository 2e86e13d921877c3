"""Information from differences of the score: closed form, fewer moves where modes do not meet."""

import numpy as np
import pytest

from spdelaw.infer.optimise import SHARED, difference_information


@pytest.mark.parametrize("group", [False, True])
def test_quadratics_are_found_exactly(group):
    """Information of five modes with two coordinates each, a shared one and two known ones."""
    owners = np.array([*range(1, 6), *range(1, 6), SHARED, 1, 3])
    size, n_plain, calls = len(owners), len(owners) - 2, []
    a = np.random.default_rng(0).standard_normal((size, size))
    meets = (owners[:, None] == owners) | (owners == SHARED) | (owners[:, None] == SHARED)
    h = np.where(meets, a @ a.T + size * np.eye(size), 0.0)

    def objective(x):
        calls.append(1)
        return -0.5 * x @ h @ x, -h @ x

    scale = np.random.default_rng(1).uniform(0.5, 2.0, size)
    got = difference_information(
        objective, np.ones(size), scale, n_plain, lambda x: h[n_plain:, n_plain:],
        owners if group else None,
    )  # fmt: skip
    np.testing.assert_allclose(got, h, atol=1e-9)
    assert len(calls) == 2 * (3 if group else n_plain)


@pytest.mark.parametrize(
    ("bend", "rounding", "n_calls", "tolerance"),
    [
        (1.0, 0.0, 121, 2e-4),  # to one side: an error of the step times the bend
        (0.0, 1e-7, 251, 5e-5),  # rounding that shows on one side asks for both
        (0.0, 1e-5, 251, 5e-3),
    ],
)
def test_many_coordinates_are_moved_to_one_side(bend, rounding, n_calls, tolerance):
    """Of an objective that bends on, and whose score is rounded."""
    rng, calls = np.random.default_rng(0), []
    a = rng.standard_normal((120, 240))
    h = a @ a.T

    def objective(x):
        calls.append(1)
        slope = -h @ x - bend * x**2 * np.diag(h) ** 1.5
        return 0.0, slope + rounding * np.sqrt(np.diag(h)) * rng.standard_normal(120)

    scale = 1.0 / np.sqrt(np.diag(h))
    got = difference_information(objective, np.zeros(120), scale, 120, lambda x: h, None)
    assert len(calls) == n_calls
    np.testing.assert_allclose(got, h, atol=tolerance / scale.min() ** 2)
    if not rounding:
        errors = (np.sqrt(np.diag(np.linalg.inv(x))) for x in (got, h))
        np.testing.assert_allclose(*errors, rtol=1e-3)
