"""The catalogue: the paper's conventions, and every entry is usable."""

import numpy as np
import pytest

import spdelaw as sl
from spdelaw.processes.catalogue import EQUATIONS, heat_bump, line_bump


def test_regime_b():
    e = sl.catalogue.heat(n_modes=8)
    n = np.arange(1, 9)
    np.testing.assert_allclose(e.eigenvalues, n**2)
    np.testing.assert_allclose(e.noise_variance, n**-2.01)
    assert len(e.times) == 201
    assert (len(e.default_grid()), e.default_grid()[-1]) == (101, np.pi)
    x = np.linspace(0, np.pi, 50)
    np.testing.assert_allclose(sl.catalogue.heat(60).mean([0.0], x)[0], heat_bump(x), atol=2e-3)


def test_regime_a():
    e = sl.catalogue.ornstein_uhlenbeck(n_modes=8)
    np.testing.assert_allclose(e.eigenvalues, np.arange(1, 9))
    np.testing.assert_allclose(e.noise_variance, np.arange(1, 9) ** -2.01)
    assert len(e.default_grid()) == 200
    # <u0, h_0> = 10 sigma / sqrt(1 + sigma^2) for a Gaussian bump, in closed form.
    np.testing.assert_allclose(e.initial_mean[0], 8.0 / np.sqrt(1.64), rtol=1e-12)
    x = np.linspace(-1, 1, 20)
    np.testing.assert_allclose(
        sl.catalogue.ornstein_uhlenbeck(60).mean([0.0], x)[0], line_bump(x), atol=1e-3
    )


@pytest.mark.parametrize("name", sorted(EQUATIONS))
def test_every_entry_simulates(name):
    e = EQUATIONS[name](n_modes=5)
    fields = sl.simulate(e, 2, seed=0)
    assert np.isfinite(e.domain.flatten(fields)).all()  # cells outside a disk are NaN
    assert (e.eigenvalues > 0).all()


def test_relatives():
    np.testing.assert_allclose(sl.catalogue.fractional_heat(0.5, 3).eigenvalues, [1, 2, 3])
    np.testing.assert_allclose(sl.catalogue.damped_heat(2.0, 3).eigenvalues, [3, 6, 11])
    np.testing.assert_allclose(sl.catalogue.neumann_heat(3).eigenvalues, [1, 2, 5])
    np.testing.assert_allclose(sl.catalogue.periodic_heat(4).eigenvalues, [1, 5, 5, 17])
