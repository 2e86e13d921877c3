import numpy as np
import pytest

import spdelaw as sl
from spdelaw.processes import catalogue


@pytest.mark.parametrize("name", sorted(catalogue.SEMILINEAR))
def test_description_and_back(name):
    e = catalogue.SEMILINEAR[name](n_modes=5)
    assert sl.Semilinear.from_dict(e.to_dict()) == e
    assert hash(e) == hash(sl.Semilinear.from_dict(e.to_dict()))
    assert ("f(u)" in repr(e)) == bool(e.terms)
    assert e.label in repr(e)
    coefficients = ["coefficient"] if e.terms else []
    assert list(e.parameters) == ["eigenvalue", "noise_variance", *coefficients]


def test_drift_of_a_constant_field_is_that_of_the_ordinary_equation():
    e = catalogue.allen_cahn(5, a=0.7, b=0.3)
    u = 1.3
    state = e.domain.project(lambda x: u + 0.0 * x, 5)
    expected = e.domain.project(lambda x: 0.7 * u - 0.3 * u**3 + 0.0 * x, 5)
    np.testing.assert_allclose(e.dynamics.drift(state), expected, atol=1e-12)


def test_burgers_transport_moves_no_energy():
    """``<u, u u_x> = 0`` on a ring, exactly, because products are dealiased."""
    e = catalogue.burgers(9, nu=0.0, kappa=0.0)
    c = np.random.default_rng(0).standard_normal((6, 9))
    assert np.abs((c * e.dynamics.drift(c)).sum(1)).max() < 1e-12
