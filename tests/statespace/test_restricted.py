"""The mean integrated out: the joint Gaussian in full, finite differences."""

import numpy as np
import pytest
from scipy import linalg
from tests.parameters import cross
from tests.statespace import _brute_force as oracle
from tests.statespace.cases import (
    EXTRAS,
    KINDS,
    PATTERNS,
    STRUCTURES,
    basis,
    check_initial_information,
    check_score,
    draw,
    every_case,
    make,
    parameters,
)

from spdelaw.statespace.collapse import collapse
from spdelaw.statespace.likelihood import evaluate_likelihood
from spdelaw.statespace.mean import (
    evaluate_restricted,
    evaluate_restricted_statistics,
    mean_given,
    mean_given_statistics,
    mean_gradient_statistics,
    with_mean,
)
from spdelaw.statespace.statistics import collect, evaluate_statistics


def restricted(design, y, mean, covariance):
    """``log int N(y; mean + X m, V) dm``, and mean and covariance of m given y."""
    solved = np.linalg.solve(covariance, np.column_stack([design, y - mean]))
    information = design.T @ solved[:, :-1]
    spread = np.linalg.inv(information)
    best = spread @ (design.T @ solved[:, -1])
    value = oracle.log_density(y, mean + design @ best, covariance)
    logs = len(best) * np.log(2 * np.pi) - np.linalg.slogdet(information)[1]
    return value + 0.5 * logs, best, spread


def joint_of_all(case, anchored=False):
    """Design, values, mean and covariance of all observed values of all paths."""
    designs, ys, means, blocks = [], [], [], []
    for i, y in enumerate(case.values):
        t, there = case.clock(i), ~np.isnan(y.ravel())
        mean, covariance = oracle.joint(case.parameters, t, case.phi)
        share = np.tile(np.eye(3), (len(t), 1, 1))
        if anchored:  # the start is that of the state, not of the deviation from the mean
            share = share - linalg.expm(
                -(t - t[0])[:, None, None] * oracle.matrix(case.parameters.drift)
            )
        designs.append((case.phi @ share).reshape(-1, 3)[there])
        ys.append(y.ravel()[there])
        means.append(mean[there])
        blocks.append(covariance[np.ix_(there, there)])
    return np.vstack(designs), np.concatenate(ys), np.concatenate(means), linalg.block_diag(*blocks)


def stationary(p):
    return linalg.solve_continuous_lyapunov(oracle.matrix(p.drift), oracle.matrix(p.noise))


@every_case
def test_likelihood_mean_and_score_of_the_joint_gaussian(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    data, space = case.collapsed, case.parameters.state_space
    value, mean, covariance = restricted(*joint_of_all(case))

    def evaluate(p):
        return evaluate_restricted(data, p.state_space)

    got, given = evaluate(case.parameters).log_likelihood.sum(), mean_given(data, space)
    tolerance = 1e-7 if extra else 1e-9
    assert got == pytest.approx(value, rel=tolerance)
    np.testing.assert_allclose(given[0], mean, atol=tolerance * np.abs(mean).max() * 10)
    np.testing.assert_allclose(given[1], covariance, atol=1e-8 * np.abs(covariance).max())
    check_score(evaluate, case.parameters)
    check_initial_information(evaluate, case.parameters, 1e-8)


@cross(
    structure=["diagonal", "matrix"],
    kind=["deterministic", "gaussian"],
    pattern=PATTERNS,
    extra={key: EXTRAS[key] for key in ("plain", "both")},
)
def test_an_anchored_start_stays_where_it_is(structure, kind, pattern, extra):
    """``log N(y; m_hat) - 1/2 log|1 + P I|`` with the start of the state."""
    case = make(kind, pattern, structure=structure, **extra)
    data, p = case.collapsed, case.parameters

    def evaluate(q):
        return evaluate_restricted(data, q.state_space, anchored=True)

    if not extra:
        value, mean, covariance = restricted(*joint_of_all(case, anchored=True))
        information = np.linalg.inv(covariance)
        flat = 0.5 * (3 * np.log(2 * np.pi) - np.linalg.slogdet(information)[1])
        volume = 0.5 * np.linalg.slogdet(np.eye(3) + stationary(p) @ information)[1]
        given = mean_given(data, p.state_space, anchored=True)[:2]
        assert evaluate(p).log_likelihood.sum() == pytest.approx(value - flat - volume, rel=1e-9)
        np.testing.assert_allclose(given[0], mean, atol=1e-8 * np.abs(mean).max())
        np.testing.assert_allclose(given[1], covariance, atol=1e-8 * np.abs(covariance).max())
    check_score(evaluate, p)
    check_initial_information(evaluate, p, 1e-7)


MEAN = np.array([0.7, -0.4, 0.2])


def by_differences(log_likelihood, step=1e-4):
    """Gradient by the mean; the log-likelihood is quadratic in it."""
    ends = [[log_likelihood(MEAN + s * e) for s in (step, -step)] for e in np.eye(3)]
    return np.array([(high - low) / (2.0 * step) for high, low in ends])


@cross(
    structure=["diagonal", "matrix", "dense_drift"],
    kind=KINDS,
    pattern=PATTERNS,
    extra={key: EXTRAS[key] for key in ("plain", "both")},
)
def test_gradient_by_a_mean_whose_start_stays_where_it_is(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)

    def evaluate(mean):
        space = with_mean(case.parameters.state_space, mean, anchored=True)
        return evaluate_likelihood(case.collapsed, space)

    expected = by_differences(lambda mean: evaluate(mean).log_likelihood.sum())
    scale = np.abs(expected).max()
    np.testing.assert_allclose(evaluate(MEAN).by_mean, expected, rtol=1e-6, atol=1e-6 * scale)


TIMES = np.array([0.0, 0.1, 0.35, 0.5, 0.9, 1.0])


def complete(kind, structure):
    """Parameters, coefficients (P, T, N) and sums of complete paths."""
    phi, p = basis(False), parameters(kind, structure=structure, observation_variance=0.0)
    values = draw(p, TIMES, phi, np.random.default_rng(0), 4)
    inverse = np.linalg.pinv(phi)
    return p, values @ inverse.T, collect([values], TIMES, inverse, phi, pairs=True)


@cross(kind=KINDS, structure=STRUCTURES)
def test_gradient_by_the_mean_of_complete_paths(kind, structure):
    p, _, s = complete(kind, structure)
    anchored = kind != "stationary"

    def at(mean):
        return with_mean(p.state_space, mean, anchored)

    expected = by_differences(lambda mean: evaluate_statistics(s, at(mean)).log_likelihood.sum())
    got = mean_gradient_statistics(s, at(MEAN), anchored=anchored)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@cross(kind=KINDS, structure=STRUCTURES)
def test_complete_paths(kind, structure):
    """Sums over complete paths: the density of the states with their mean integrated out."""
    p, c, s = complete(kind, structure)
    states, spread = oracle.state_moments(p, TIMES)
    design, means, at = np.tile(np.eye(3), (len(TIMES), 1)), [states] * 4, slice(0, None)
    if kind == "deterministic":  # conditional on the first states of the data
        decay = np.vstack([linalg.expm(-t * oracle.matrix(p.drift)) for t in TIMES])
        design, means, at = design - decay, [decay @ x[0] for x in c], slice(3, None)
    y, mean = (np.concatenate([x.ravel()[at] for x in xs]) for xs in (c, means))
    covariance = np.kron(np.eye(4), spread[at, at])
    value, best, expected = restricted(np.tile(design[at], (4, 1)), y, mean, covariance)

    def evaluate(q):
        return evaluate_restricted_statistics(s, q.state_space)

    assert evaluate(p).log_likelihood.sum() == pytest.approx(value, rel=1e-8)
    given = mean_given_statistics(s, p.state_space)[:2]
    np.testing.assert_allclose(given[0], best, rtol=1e-7)
    np.testing.assert_allclose(given[1], expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())
    check_score(evaluate, p)


@cross(kind=["deterministic", "gaussian"], structure=STRUCTURES)
def test_complete_paths_with_an_anchored_start(kind, structure):
    """The volume of a flat prior and a stationary start, and the score by differences."""
    p, _, s = complete(kind, structure)

    def evaluate(q):
        return evaluate_restricted_statistics(s, q.state_space, anchored=True)

    mean, covariance = mean_given_statistics(s, p.state_space, anchored=True)[:2]
    at = with_mean(p.state_space, mean, True)
    volume = np.linalg.slogdet(np.eye(3) + stationary(p) @ np.linalg.inv(covariance))[1]
    value = evaluate_statistics(s, at).log_likelihood.sum() - 0.5 * volume
    assert evaluate(p).log_likelihood.sum() == pytest.approx(value, rel=1e-10)
    check_score(evaluate, p)


def test_a_mean_shifts_the_data():
    case = make("stationary", "random")
    m = np.array([3.0, -1.0, 2.0])
    shifted = collapse(case.values + case.phi @ m, case.times, case.phi)
    space = case.parameters.state_space
    moved = space._replace(dynamics=space.linear.with_mean(m))
    got = evaluate_likelihood(shifted, moved).log_likelihood
    expected = evaluate_likelihood(case.collapsed, case.parameters.state_space).log_likelihood
    np.testing.assert_allclose(got, expected, rtol=1e-9)
