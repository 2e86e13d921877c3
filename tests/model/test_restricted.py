"""The mean integrated out: the joint Gaussian in full, finite differences."""

import numpy as np
import pytest
from scipy import linalg
from tests.model import _brute_force as oracle
from tests.model.cases import KINDS, PATTERNS, STRUCTURES, basis, draw, make, parameters
from tests.model.numbers import evaluate_likelihood
from tests.model.test_likelihood import FORCING, SEASON, check_score

from spdelaw import model
from spdelaw.model import collect, rotate

every_case = [
    (structure, kind, pattern, {})
    for structure in ("diagonal", "matrix", "dense_noise")
    for kind in KINDS
    for pattern in PATTERNS
] + [
    (structure, "gaussian", pattern, {"season": SEASON, "forcing": FORCING})
    for structure in ("diagonal", "matrix")
    for pattern in ("orthogonal", "random", "own_times")
]
all_cases = pytest.mark.parametrize(("structure", "kind", "pattern", "extra"), every_case)


def restricted(design, y, mean, covariance):
    """``log int N(y; mean + X m, V) dm``, and mean and covariance of m given y."""
    solved = np.linalg.solve(covariance, np.column_stack([design, y - mean]))
    information = design.T @ solved[:, :-1]
    gradient = design.T @ solved[:, -1]
    spread = np.linalg.inv(information)
    best = spread @ gradient
    value = oracle.log_density(y, mean + design @ best, covariance)
    logs = len(best) * np.log(2 * np.pi) - np.linalg.slogdet(information)[1]
    return value + 0.5 * logs, best, spread


def joint_of_all(case):
    """Design, values, mean and covariance of all observed values of all paths."""
    designs, ys, means, blocks = [], [], [], []
    for i, y in enumerate(case.values):
        t = case.clock(i)
        mean, covariance = oracle.joint(case.parameters, t, case.phi)
        seen = ~np.isnan(y.ravel())
        designs.append(np.tile(case.phi, (len(t), 1))[seen])
        ys.append(y.ravel()[seen])
        means.append(mean[seen])
        blocks.append(covariance[np.ix_(seen, seen)])
    size = sum(map(len, ys))
    whole, at = np.zeros((size, size)), 0
    for block in blocks:
        whole[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return np.vstack(designs), np.concatenate(ys), np.concatenate(means), whole


@all_cases
def test_likelihood_and_mean_of_the_joint_gaussian(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    value, mean, covariance = restricted(*joint_of_all(case))
    space = case.parameters.state_space
    found, given = (
        model.evaluate_restricted(case.collapsed, space),
        model.mean_given(case.collapsed, space),
    )
    tolerance = 1e-7 if extra else 1e-9
    assert found.log_likelihood.sum() == pytest.approx(value, rel=tolerance)
    np.testing.assert_allclose(given[0], mean, atol=tolerance * np.abs(mean).max() * 10)
    np.testing.assert_allclose(given[1], covariance, atol=1e-8 * np.abs(covariance).max())


@all_cases
def test_score_by_differences(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)

    def evaluate(p):
        return model.evaluate_restricted(case.collapsed, p.state_space)

    check_score(evaluate, case.parameters)


@all_cases
def test_information_on_the_initial_mean(structure, kind, pattern, extra):
    """The restricted likelihood is quadratic in m0 as well."""
    case = make(kind, pattern, structure=structure, **extra)

    def evaluate(mean):
        p = case.parameters._replace(initial_mean=mean)
        return model.evaluate_restricted(case.collapsed, p.state_space)

    start = case.parameters.initial_mean
    found = evaluate(start).initial_information
    for n in range(3):
        way = np.eye(3)[n]
        difference = evaluate(start - way).by_initial_mean - evaluate(start + way).by_initial_mean
        np.testing.assert_allclose(
            found[:, n], 0.5 * difference, atol=1e-8 * np.abs(found).max() + 1e-9
        )


def test_rotated_paths_give_the_same():
    case = make("gaussian", "orthogonal", n_paths=40)
    one, other = (
        model.evaluate_restricted(data, case.parameters.state_space)
        for data in (case.collapsed, rotate(case.collapsed))
    )
    for name, expected in one._asdict().items():
        got = getattr(other, name)
        if name == "log_likelihood":
            got, expected = got.sum(), expected.sum()
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-8, err_msg=name)


TIMES = np.array([0.0, 0.1, 0.35, 0.5, 0.9, 1.0])


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("kind", KINDS)
def test_complete_paths(kind, structure):
    """Sums over complete paths: the density of the states with their mean integrated out."""
    rng, phi = np.random.default_rng(0), basis(False)
    p = parameters(kind, structure=structure, observation_variance=0.0)
    values = np.stack([draw(p, TIMES, phi, rng) for _ in range(4)])
    c = values @ np.linalg.pinv(phi).T
    s = collect([values], TIMES, np.linalg.pinv(phi), phi, pairs=True)
    states, spread = oracle.state_moments(p, TIMES)
    design = np.tile(np.eye(3), (len(TIMES), 1))
    if kind == "deterministic":  # conditional on the first states of the data
        decay = np.vstack([linalg.expm(-t * oracle.matrix(p.drift)) for t in TIMES])
        means = [decay @ x[0] for x in c]
        design, at = design - decay, slice(3, None)
    else:
        means, at = [states] * 4, slice(0, None)
    y = np.concatenate([x.ravel()[at] for x in c])
    mean = np.concatenate([m[at] for m in means])
    covariance = np.kron(np.eye(4), spread[at, at])
    value, best, own = restricted(np.tile(design[at], (4, 1)), y, mean, covariance)
    found = model.evaluate_restricted_statistics(s, p.state_space)
    assert found.log_likelihood.sum() == pytest.approx(value, rel=1e-8)
    given = model.mean_given_statistics(s, p.state_space)
    np.testing.assert_allclose(given[0], best, rtol=1e-7)
    np.testing.assert_allclose(given[1], own, rtol=1e-6, atol=1e-9 * np.abs(own).max())
    check_score(lambda q: model.evaluate_restricted_statistics(s, q.state_space), p)


def test_a_mean_shifts_the_data():
    case = make("stationary", "random")
    m = np.array([3.0, -1.0, 2.0])
    shifted = model.collapse(case.values + case.phi @ m, case.times, case.phi)
    space = case.parameters.state_space
    moved = space._replace(dynamics=space.linear.with_mean(m))
    got = model.evaluate_likelihood(shifted, moved).log_likelihood
    expected = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def anchored_oracle(case):
    """``log N(y; m_hat) - 1/2 log|1 + P I|`` with the start of the state, not of the deviation."""
    design, y, mean, covariance = joint_of_all(case)
    drift, noise = (oracle.matrix(x) for x in (case.parameters.drift, case.parameters.noise))
    rows = []
    for i, values in enumerate(case.values):
        t = case.clock(i)
        decay = np.stack([linalg.expm(-(s - t[0]) * drift) for s in t])
        own = (case.phi @ (np.eye(3) - decay)).reshape(-1, 3)
        rows.append(own[~np.isnan(values.ravel())])
    design = np.vstack(rows)
    value, best, spread = restricted(design, y, mean, covariance)
    information = np.linalg.inv(spread)
    p = linalg.solve_continuous_lyapunov(drift, noise)
    flat = 0.5 * (3 * np.log(2 * np.pi) - np.linalg.slogdet(information)[1])
    return value - flat - 0.5 * np.linalg.slogdet(np.eye(3) + p @ information)[1], best, spread


anchored_cases = pytest.mark.parametrize(
    ("structure", "kind", "pattern", "extra"),
    [
        (structure, kind, pattern, {})
        for structure in ("diagonal", "matrix")
        for kind in ("deterministic", "gaussian")
        for pattern in PATTERNS
    ]
    + [("diagonal", "gaussian", "random", {"season": SEASON, "forcing": FORCING})],
)


@anchored_cases
def test_an_anchored_start_stays_where_it_is(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    space = case.parameters.state_space
    found = model.evaluate_restricted(case.collapsed, space, anchored=True)
    if not extra:
        value, mean, covariance = anchored_oracle(case)
        given = model.mean_given(case.collapsed, space, anchored=True)
        assert found.log_likelihood.sum() == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(given[0], mean, atol=1e-8 * np.abs(mean).max())
        np.testing.assert_allclose(given[1], covariance, atol=1e-8 * np.abs(covariance).max())

    def evaluate(p):
        return model.evaluate_restricted(case.collapsed, p.state_space, anchored=True)

    check_score(evaluate, case.parameters)
    start = case.parameters.initial_mean
    by = [
        evaluate(case.parameters._replace(initial_mean=start + step * np.eye(3)[0])).by_initial_mean
        for step in (-1.0, 1.0)
    ]
    expected = found.initial_information[:, 0]
    np.testing.assert_allclose(0.5 * (by[0] - by[1]), expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("kind", ["deterministic", "gaussian"])
def test_complete_paths_with_an_anchored_start(kind, structure):
    """The volume of a flat prior and a stationary start, and the score by differences."""
    rng, phi = np.random.default_rng(0), basis(False)
    p = parameters(kind, structure=structure, observation_variance=0.0)
    values = np.stack([draw(p, TIMES, phi, rng) for _ in range(4)])
    s = collect([values], TIMES, np.linalg.pinv(phi), phi, pairs=True)
    found = model.evaluate_restricted_statistics(s, p.state_space, anchored=True)
    mean, covariance = model.mean_given_statistics(s, p.state_space, anchored=True)
    at = model.with_mean(p.state_space, mean, True)
    plain = model.evaluate_statistics(s, at).log_likelihood.sum()
    drift, noise = oracle.matrix(p.drift), oracle.matrix(p.noise)
    stationary = linalg.solve_continuous_lyapunov(drift, noise)
    volume = np.eye(3) + stationary @ np.linalg.inv(covariance)
    value = plain - 0.5 * np.linalg.slogdet(volume)[1]
    assert found.log_likelihood.sum() == pytest.approx(value, rel=1e-10)
    check_score(lambda q: model.evaluate_restricted_statistics(s, q.state_space, anchored=True), p)
