"""The floor of the truncated decoder: plain least squares, the paper's two regimes."""

import numpy as np
import pytest
from tests.parameters import cross

import spdelaw as sl
from spdelaw.chaos.propagators import CosineBasis, propagate
from spdelaw.errors import DataError, InputError
from spdelaw.evaluation.tasks import decoder_floor
from spdelaw.law.derived import relative_l2, rmse

#: Over 150 paths the standard error of each floor is below 2 % of it; the rounding adds 1 %.
SAMPLING = 0.07


def by_least_squares(fields, domain, n_modes, n_time, eigenvalues):
    """One dense design matrix a path, the first time left out."""
    t, x = fields["time"].values, fields[domain.dims[0]].values
    phi = domain.eigenfunctions(x, n_modes)
    basis = CosineBasis(float(np.ptp(t)))
    curves = propagate(basis, t - t[0], eigenvalues, np.ones(n_modes), n_time)
    span = np.concatenate([curves.decay[:, None], curves.response], axis=1)
    design = np.einsum("tdn,xn->txdn", span, phi).reshape(len(t) * len(x), -1)
    out = np.full(fields.shape, np.nan)
    late = np.repeat(np.arange(len(t)) > 0, len(x))
    for i, y in enumerate(fields.values.reshape(len(fields), -1)):
        seen = late & ~np.isnan(y)
        weights = np.linalg.lstsq(design[seen], y[seen], rcond=None)[0]
        out[i].reshape(-1)[seen] = design[seen] @ weights
    truth = np.where(np.isnan(out), np.nan, fields.values)
    return relative_l2(out, truth), rmse(out, truth)


def small(equation, gaps=False):
    times = np.sort(np.random.default_rng(0).uniform(0.0, 1.5, 21))
    fields = sl.simulate(equation, 6, times, equation.domain.grid(17), seed=3)
    return sl.mask(fields, fraction=0.2, seed=1) if gaps else fields


@cross(name=["heat", "ornstein_uhlenbeck"], gaps=[False, True])
def test_floor_is_plain_least_squares(name, gaps):
    equation = getattr(sl.catalogue, name)(n_modes=4)
    fields = small(equation, gaps)
    got = decoder_floor(fields, equation.domain, 3, 4, equation.eigenvalues[:3])
    expected = by_least_squares(fields, equation.domain, 3, 4, equation.eigenvalues[:3])
    np.testing.assert_allclose(got[:2], expected, rtol=1e-8)


#: Regime, reference modes, K, floor of rel L2 and RMSE.
PUBLISHED = [
    ("heat", 8, 16, 0.087, 0.054),
    pytest.param("heat", 50, 16, 0.088, 0.055, marks=pytest.mark.slow),
    pytest.param("heat", 50, 32, 0.062, 0.039, marks=pytest.mark.slow),
    ("heat", 50, 64, 0.044, 0.027),
    ("ornstein_uhlenbeck", 8, 16, 0.040, 0.136),
    pytest.param("ornstein_uhlenbeck", 50, 16, 0.0464, 0.1545, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "reference", "n_time", "error", "pooled"), PUBLISHED)
def test_floors_of_the_two_regimes(name, reference, n_time, error, pooled):
    equation = getattr(sl.catalogue, name)(n_modes=reference)
    fields = sl.simulate(equation, n_paths=150, seed=1)
    got = decoder_floor(fields, equation.domain, 8, n_time, equation.eigenvalues[:8])
    np.testing.assert_allclose(got[:2], (error, pooled), rtol=SAMPLING)


def test_bad_input():
    heat = sl.catalogue.heat(n_modes=3)
    fields = small(heat)
    with pytest.raises(InputError, match="eigenvalues: expected one number per mode"):
        decoder_floor(fields, heat.domain, 3, 4, heat.eigenvalues[:2])
    with pytest.raises(InputError, match="n_time"):
        decoder_floor(fields, heat.domain, 3, 0, heat.eigenvalues)
    clocks = np.broadcast_to(fields["time"].values, fields.shape[:2]) + np.arange(6)[:, None]
    each = fields.drop_vars("time").assign_coords(path_time=(("path", "time"), clocks))
    with pytest.raises(DataError, match="one clock"):
        decoder_floor(each, heat.domain, 3, 4, heat.eigenvalues)
