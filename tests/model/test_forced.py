"""Likelihoods under a known forcing: the same data less the response, and finite differences."""

import numpy as np
import pytest
from tests.model.cases import KINDS, PATTERNS, make, parameters

import spdelaw as sl
from spdelaw.model import (
    collapse,
    collect,
    evaluate_forced,
    evaluate_forced_statistics,
    evaluate_likelihood,
    evaluate_statistics,
    rotate,
)

every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]
FORCING = sl.Forcing(
    [-1.0, 0.4, 1.1, 9.0], [[3.0, -1.0, 2.0], [0.0, 4.0, 1.0], [5.0, 0.0, -6.0], [1.0, 2.0, 3.0]]
)
SCORES = {
    "eigenvalues": "by_eigenvalue",
    "noise_variance": "by_noise_variance",
    "initial_mean": "by_initial_mean",
}


def response(case):
    m = FORCING.response(case.parameters.eigenvalues, case.times, 0.0)
    return np.broadcast_to(m @ case.phi.T, case.values.shape)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_forced_data_have_the_likelihood_of_what_the_forcing_leaves(kind, pattern):
    case = make(kind, pattern)
    forced = collapse(case.values + response(case), case.times, case.phi)
    got = evaluate_forced(forced, case.parameters, FORCING, 0.0).log_likelihood
    expected = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def by_differences(evaluate, p, n, field):
    x = np.asarray(getattr(p, field))
    h = 1e-5 * max(abs(float(x[n])), 0.1)
    ends = []
    for sign in (1, -1):
        y = x.copy()
        y[n] += sign * h
        ends.append(evaluate(p._replace(**{field: y})).log_likelihood.sum())
    return (ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_score_by_differences(kind, pattern):
    case = make(kind, pattern)
    # The forcing is there but the data were not made with it: nothing is at a maximum.
    for data in (case.collapsed, rotate(case.collapsed)):

        def evaluate(p, data=data):
            return evaluate_forced(data, p, FORCING, 0.0)

        found = evaluate(case.parameters)
        for field, name in SCORES.items():
            expected = [by_differences(evaluate, case.parameters, n, field) for n in range(3)]
            scale = np.abs(expected).max()
            np.testing.assert_allclose(getattr(found, name), expected, rtol=2e-6, atol=2e-6 * scale)


def test_rotated_paths_have_the_same_likelihood():
    p = parameters("gaussian")
    case = make("gaussian", "orthogonal", n_paths=40)
    rotated = rotate(case.collapsed)
    assert rotated.blocks[0].unit.shape != (1, 1)
    one, other = (evaluate_forced(data, p, FORCING, 0.0) for data in (case.collapsed, rotated))
    np.testing.assert_allclose(one.log_likelihood.sum(), other.log_likelihood.sum(), rtol=1e-10)
    np.testing.assert_allclose(one.by_eigenvalue, other.by_eigenvalue, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_complete_paths(kind):
    equation = sl.catalogue.heat(n_modes=3)
    times = np.array([0.0, 0.1, 0.25, 0.3, 0.7])
    fields = sl.simulate(equation, 6, times, seed=2).values
    phi = equation.domain.eigenfunctions(equation.default_grid(), 3)
    p = parameters(kind)
    m = FORCING.response(p.eigenvalues, times, times[0])
    pinv = np.linalg.pinv(phi)
    plain = collect([fields], times, pinv, phi)
    forced = collect([fields + m @ phi.T], times, pinv, phi)

    def evaluate(q):
        return evaluate_forced_statistics(forced, q, FORCING)

    found, expected = evaluate(p), evaluate_statistics(plain, p)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-9)
    np.testing.assert_allclose(found.by_noise_variance, expected.by_noise_variance, rtol=1e-7)
    slopes = [by_differences(evaluate, p, n, "eigenvalues") for n in range(3)]
    np.testing.assert_allclose(found.by_eigenvalue, slopes, rtol=1e-6)
