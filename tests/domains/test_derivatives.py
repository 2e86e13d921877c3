import numpy as np
import pytest

import spdelaw as sl
from spdelaw.domains.box import gradients

DOMAINS = [
    sl.Interval(-1.0, 2.0, "dirichlet"),
    sl.Interval(0.5, 2.0, "neumann"),
    sl.Interval(-1.0, 3.0, "periodic"),
    sl.Box((0.0, 1.0), (-1.0, 2.0), boundary=("periodic", "neumann")),
    sl.Box((0.0, 1.0), (0.0, 2.0), (0.0, 3.0)),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_derivatives_are_those_of_the_modes(domain):
    n_dims, step = len(domain.dims), 1e-6
    middle = domain.quadrature(6)[0][3:8]
    slopes = gradients(domain, middle, 9)
    assert slopes.shape == (n_dims, len(middle), 9)
    for k in range(n_dims):
        shift = step * (1.0 if n_dims == 1 else np.eye(n_dims)[k])
        ahead, behind = (domain.eigenfunctions(middle + s, 9) for s in (shift, -shift))
        np.testing.assert_allclose(slopes[k], (ahead - behind) / (2 * step), atol=1e-6)
