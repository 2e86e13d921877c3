"""Paths mixed by an orthogonal matrix: the same sums from fewer columns."""

import numpy as np
import pytest
from tests.model.cases import KINDS, parameters
from tests.model.numbers import evaluate_likelihood

from spdelaw.model import collapse, rotate

N_PATHS, TIMES = 60, np.array([0.0, 0.1, 0.25, 0.3, 0.7, 1.0])


def values_of(n_paths, n_times, phi, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_paths, n_times, phi.shape[1])) @ phi.T + 0.1


def orthogonal(n_points=7, n_modes=3):
    return np.linalg.qr(np.random.default_rng(1).standard_normal((n_points, n_modes)))[0]


@pytest.mark.parametrize("use_misfit", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_and_score_are_the_same(kind, use_misfit):
    phi = orthogonal()
    values = values_of(N_PATHS, len(TIMES), phi)
    values += 0.3 * np.random.default_rng(2).standard_normal(values.shape)
    values[:, 2] = np.nan  # a row that nobody saw
    collapsed = collapse(values, TIMES, phi)
    rotated = rotate(collapsed)
    assert rotated.blocks[0].estimate.shape == (len(TIMES), 3, len(TIMES) + 1)
    at = parameters(kind)
    one = evaluate_likelihood(collapsed, at, use_misfit=use_misfit)
    other = evaluate_likelihood(rotated, at, use_misfit=use_misfit)
    assert other.log_likelihood.shape == (N_PATHS,)
    np.testing.assert_allclose(other.log_likelihood.sum(), one.log_likelihood.sum(), rtol=1e-12)
    for name, expected in one._asdict().items():
        if name != "log_likelihood":
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                getattr(other, name), expected, rtol=1e-10, atol=1e-10 * scale, err_msg=name
            )


def test_blocks_that_gain_nothing_stay():
    phi = orthogonal()
    few = collapse(values_of(10, len(TIMES), phi), TIMES, phi)
    mixed = collapse(values_of(60, len(TIMES), phi + 0.1), TIMES, phi + 0.1)
    gappy = values_of(60, len(TIMES), phi)
    gappy[np.random.default_rng(3).random(gappy.shape) < 0.3] = np.nan
    own = collapse(gappy, TIMES, phi)
    clocks = collapse(values_of(60, 6, phi), TIMES + np.arange(60)[:, None], phi)
    for data in (few, mixed, own, clocks):
        assert all(a is b for a, b in zip(rotate(data).blocks, data.blocks, strict=True))
