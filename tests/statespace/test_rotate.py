"""Paths mixed by an orthogonal matrix: the same sums from fewer columns."""

from functools import partial

import numpy as np
from tests.parameters import cross
from tests.statespace.cases import EXTRAS, KINDS, parameters

from spdelaw.statespace.collapse import collapse, rotate
from spdelaw.statespace.likelihood import evaluate_likelihood
from spdelaw.statespace.mean import evaluate_restricted

N_PATHS, TIMES = 60, np.array([0.0, 0.1, 0.25, 0.3, 0.7, 1.0])
PHI = np.linalg.qr(np.random.default_rng(1).standard_normal((7, 3)))[0]


def fields(n_paths=N_PATHS, phi=PHI):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_paths, len(TIMES), 3)) @ phi.T + 0.1


EVALUATIONS = {
    "fields": evaluate_likelihood,
    "estimates": partial(evaluate_likelihood, use_misfit=False),
    "restricted": evaluate_restricted,
}


@cross(evaluate=EVALUATIONS, kind=KINDS, extra={key: EXTRAS[key] for key in ("plain", "forcing")})
def test_likelihood_and_score_are_the_same(kind, evaluate, extra):
    values = fields()
    values += 0.3 * np.random.default_rng(2).standard_normal(values.shape)
    values[:, 2] = np.nan  # a row without values
    collapsed = collapse(values, TIMES, PHI)
    rotated = rotate(collapsed)
    assert rotated.blocks[0].estimate.shape == (len(TIMES), 3, len(TIMES) + 1)
    space = parameters(kind)._replace(**extra).state_space
    one, other = (evaluate(data, space) for data in (collapsed, rotated))
    assert other.log_likelihood.shape == (N_PATHS,)
    np.testing.assert_allclose(other.log_likelihood.sum(), one.log_likelihood.sum(), rtol=1e-12)
    for name, got, expected in zip(one._fields[1:], other[1:], one[1:], strict=True):
        bound = 1e-10 * np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=bound, err_msg=name)


def test_blocks_that_gain_nothing_stay():
    """Few paths, modes that mix, different gaps, different clocks."""
    gappy = fields()
    gappy[np.random.default_rng(3).random(gappy.shape) < 0.3] = np.nan
    for data in (
        collapse(fields(10), TIMES, PHI),
        collapse(fields(phi=PHI + 0.1), TIMES, PHI + 0.1),
        collapse(gappy, TIMES, PHI),
        collapse(fields(), TIMES + np.arange(60)[:, None], PHI),
    ):
        assert all(a is b for a, b in zip(rotate(data).blocks, data.blocks, strict=True))
