"""Likelihood and score: closed forms, the joint Gaussian in full, finite differences.

Every structure of drift and noise, every kind of initial state, every pattern of observation, with
and without seasons and a known forcing.
"""

import numpy as np
import pytest
from scipy import stats
from tests.model import _brute_force as oracle
from tests.model.cases import (
    KINDS,
    PATTERNS,
    STRUCTURES,
    basis,
    check_initial_information,
    make,
    parameters,
)
from tests.model.numbers import evaluate_likelihood

import spdelaw as sl
from spdelaw.model import collapse, rotate

EXACT = 1e-10
SCORE_TOLERANCE = 1e-6
SEASON = sl.Season(0.5, [3.0, 0.4, 1.1], origin=0.05)
FORCING = sl.Forcing(
    [-1.0, 0.4, 1.1, 9.0], [[3.0, -1.0, 2.0], [0.0, 4.0, 1.0], [5.0, 0.0, -6.0], [1.0, 2.0, 3.0]]
)

every_case = [
    (structure, kind, pattern, {})
    for structure in STRUCTURES
    for kind in KINDS
    for pattern in PATTERNS
]
in_time = [
    (structure, kind, pattern, extra)
    for structure in ("diagonal", "matrix", "dense_noise")
    for kind in ("deterministic", "gaussian")
    for pattern in ("orthogonal", "oblique", "random", "own_times")
    for extra in (
        {"season": SEASON},
        {"forcing": FORCING},
        {"season": SEASON, "forcing": FORCING},
    )
]
all_cases = pytest.mark.parametrize(("structure", "kind", "pattern", "extra"), every_case + in_time)


@all_cases
def test_likelihood_is_that_of_the_joint_gaussian(structure, kind, pattern, extra):
    case = make(kind, pattern, structure=structure, **extra)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    expected = [
        oracle.log_likelihood(case.parameters, y, case.clock(i), case.phi)
        for i, y in enumerate(case.values)
    ]
    # An ODE solver made the forced mean of the oracle.
    np.testing.assert_allclose(got, expected, rtol=1e-8 if "forcing" in extra else EXACT)


def slope(evaluate, p, field, way):
    """Central difference of the summed log-likelihood in a direction."""
    x, h = getattr(p, field), 1e-5
    ends = [evaluate(p._replace(**{field: x + s * h * way})) for s in (1, -1)]
    return (ends[0].log_likelihood.sum() - ends[1].log_likelihood.sum()) / (2 * h)


def ways(p, field, rng):
    """Two directions in which a number, a vector or a (symmetric) matrix may move."""
    x = np.asarray(getattr(p, field))
    for _ in range(2):
        way = rng.normal(size=x.shape) * max(0.3 * np.abs(x).max(), 0.01)
        yield way + way.T if x.ndim == 2 and field != "drift" else way


FIELDS = ("drift", "noise", "initial_mean", "initial_covariance", "observation_variance")


def check_score(evaluate, p):
    found, rng = evaluate(p), np.random.default_rng(1)
    for field in FIELDS:
        if field == "initial_covariance" and p.initial_kind == "deterministic":
            continue
        gradient = np.asarray(getattr(found, f"by_{field}"))
        assert gradient.shape == np.shape(getattr(p, field)), field
        for way in ways(p, field, rng):
            expected, scale = slope(evaluate, p, field, way), np.abs(gradient * way).max()
            assert (gradient * way).sum() == pytest.approx(
                expected, rel=SCORE_TOLERANCE, abs=SCORE_TOLERANCE * max(scale, 1.0)
            ), field
    if p.season is not None:
        # Weights keep their mean of 1: along a direction that does.
        way = np.array([1.0, -0.3, -0.7])
        moved = [
            evaluate(p._replace(season=p.season.with_weights(p.season.weights + s * 1e-6 * way)))
            for s in (1, -1)
        ]
        expected = (moved[0].log_likelihood.sum() - moved[1].log_likelihood.sum()) / 2e-6
        assert found.by_season @ way == pytest.approx(expected, rel=1e-5, abs=1e-4)


@all_cases
def test_score_by_differences(structure, kind, pattern, extra):
    # The forcing is there but the data were not made with it: nothing is at a maximum.
    case = make(kind, pattern, structure=structure)
    p = case.parameters._replace(**extra)
    check_score(lambda q: evaluate_likelihood(case.collapsed, q), p)
    if structure == "diagonal":
        rotated = rotate(case.collapsed)
        check_score(lambda q: evaluate_likelihood(rotated, q), p)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("pattern", ["oblique", "rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_score_without_misfit(structure, kind, pattern):
    case = make(kind, pattern, structure=structure)
    check_score(lambda q: evaluate_likelihood(case.collapsed, q, use_misfit=False), case.parameters)


@all_cases
def test_information_on_the_initial_mean(structure, kind, pattern, extra):
    check_initial_information(make(kind, pattern, structure=structure, **extra))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_diagonal_matrix_is_a_diagonal(kind, pattern):
    """Value and the diagonal of the score agree, whatever the shape of the operators."""
    case = make(kind, pattern)
    p = case.parameters
    full = p._replace(
        drift=np.diag(p.drift),
        noise=np.diag(p.noise),
        initial_covariance=np.diag(p.initial_covariance),
    )
    one, other = (evaluate_likelihood(case.collapsed, q) for q in (p, full))
    for name, expected in one._asdict().items():
        got = getattr(other, name)
        if name in ("by_drift", "by_noise", "by_initial_covariance"):
            got = np.diag(got)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9 * scale, err_msg=name)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "rows", "oblique_rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_misfit_it_is_the_density_of_the_estimates(structure, kind, pattern):
    case = make(kind, pattern, structure=structure)
    found = evaluate_likelihood(case.collapsed, case.parameters, use_misfit=False)
    expected = [
        oracle.estimate_log_likelihood(case.parameters, y, case.times, case.phi)
        for y in case.values
    ]
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=EXACT)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("pattern", ["orthogonal", "random", "own_times"])
def test_a_variance_for_each_point(structure, pattern):
    case = make("gaussian", pattern, structure=structure)
    r = np.random.default_rng(4).uniform(0.01, 0.2, len(case.phi))
    unit = case.parameters._replace(observation_variance=np.asarray(1.0))
    got = evaluate_likelihood(collapse(case.values, case.times, case.phi, 1 / r), unit)
    truth = case.parameters._replace(observation_variance=r)
    for i, y in enumerate(case.values):
        expected = oracle.log_likelihood(truth, y, case.clock(i), case.phi)
        np.testing.assert_allclose(got.log_likelihood[i], expected, rtol=EXACT)


def test_one_mode_at_one_free_time_in_closed_form():
    """y = h c(t) + e with c(t) ~ N(a m, omega): a scalar Gaussian."""
    p = parameters("deterministic", n_modes=1, observation_variance=0.3)
    t, h, y = np.array([0.0, 0.7]), 0.8, -0.9
    values = np.array([[[np.nan], [y]]])
    found = evaluate_likelihood(collapse(values, t, np.array([[h]])), p)
    lam, q, m = p.drift[0], p.noise[0], p.initial_mean[0]
    a = np.exp(-0.7 * lam)
    variance = h**2 * q * (1 - a**2) / (2 * lam) + 0.3
    expected = stats.norm.logpdf(y, h * a * m, np.sqrt(variance))
    np.testing.assert_allclose(found.log_likelihood, [expected], rtol=1e-14)
    pull = (y - h * a * m) / variance
    np.testing.assert_allclose(found.by_initial_mean, [h * a * pull], rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("orthogonal", [True, False])
def test_noise_free_limit_is_the_transition_density(kind, structure, orthogonal):
    """As r goes to 0 the density of the estimates goes to that of the states, like r."""
    phi = basis(orthogonal)
    t = np.array([0.0, 0.3, 0.5, 1.1])
    p = parameters(kind, structure=structure)
    c = np.random.default_rng(6).gamma(2.0, size=(4, 3))
    if kind == "deterministic":
        c[0] = p.initial_mean
    expected = oracle.state_log_density(p, c, t)
    errors = []
    for r in (1e-5, 1e-6):
        noisy = p._replace(observation_variance=np.asarray(r))
        found = evaluate_likelihood(collapse((c @ phi.T)[None], t, phi), noisy, use_misfit=False)
        first = 0.0
        if kind == "deterministic":
            # The first row observes a known state: the density of its noise alone.
            gram = phi.T @ phi
            first = 0.5 * np.linalg.slogdet(gram)[1] - 1.5 * np.log(2 * np.pi * r)
        errors.append(abs(found.log_likelihood[0] - first - expected))
    assert errors[0] < (5e-2 if structure == "diagonal" else 0.2)
    np.testing.assert_allclose(errors[0] / errors[1], 10.0, rtol=0.05)


def test_two_times_are_enough():
    case = make("deterministic", "random", n_times=2)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    expected = [
        oracle.log_likelihood(case.parameters, y, case.times, case.phi) for y in case.values
    ]
    np.testing.assert_allclose(got, expected, rtol=EXACT)


def test_threads_change_nothing():
    case = make("gaussian", "oblique", n_paths=12)
    values = case.values.copy()
    values[::3, 1, :3] = np.nan
    collapsed = collapse(values, case.times, case.phi)
    assert len(collapsed.blocks) > 1
    one = evaluate_likelihood(collapsed, case.parameters)
    two = evaluate_likelihood(collapsed, case.parameters, threads=2)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_rotated_paths_have_the_same_likelihood_under_a_forcing():
    case = make("gaussian", "orthogonal", n_paths=40)
    p, rotated = case.parameters._replace(forcing=FORCING), rotate(case.collapsed)
    assert rotated.blocks[0].unit.shape != (1, 1)
    one, other = (evaluate_likelihood(data, p) for data in (case.collapsed, rotated))
    np.testing.assert_allclose(one.log_likelihood.sum(), other.log_likelihood.sum(), rtol=1e-10)
    np.testing.assert_allclose(one.by_drift, other.by_drift, rtol=1e-8)


@pytest.mark.parametrize("r", [1e-8, 1e-10])
def test_almost_no_noise_keeps_the_likelihood(r):
    """Orthogonal modes are independent: five-by-five matrices that keep their digits."""
    phi = basis(orthogonal=True)
    p = parameters("gaussian")._replace(observation_variance=np.asarray(r))
    t = np.linspace(0.0, 1.0, 5)
    c = np.random.default_rng(0).gamma(2.0, size=(5, 3))
    found = evaluate_likelihood(collapse((c @ phi.T)[None], t, phi), p, use_misfit=False)
    gram = (phi**2).sum(0)
    expected = 0.0
    for n in range(3):
        covariance = oracle.mode_covariance(p, t)[..., n] + r / gram[n] * np.eye(5)
        expected += oracle.log_density(c[:, n], oracle.mode_mean(p, t)[:, n], covariance)
    np.testing.assert_allclose(found.log_likelihood, [expected], rtol=1e-9)
