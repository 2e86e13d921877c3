"""Likelihood and score of coupled modes: the joint Gaussian in full, finite differences."""

import numpy as np
import pytest
from tests.model import cases
from tests.model import coupled_cases as coupled
from tests.model.cases import KINDS, PATTERNS, check_initial_information

from spdelaw.model import coupled_parameters, evaluate_likelihood

EXACT = 1e-10
SCORE_TOLERANCE = 1e-6

every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern):
    case = coupled.make(kind, pattern)
    got = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    expected = [
        coupled.log_likelihood(case.parameters, y, case.clock(i), case.phi)
        for i, y in enumerate(case.values)
    ]
    np.testing.assert_allclose(got, expected, rtol=EXACT)


def slope(case, field, way, **options):
    """Central difference of the summed log-likelihood in a direction."""
    x, h = getattr(case.parameters, field), 1e-5
    ends = [
        evaluate_likelihood(
            case.collapsed, case.parameters._replace(**{field: x + s * h * way}), **options
        ).log_likelihood.sum()
        for s in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * h)


SCORES = {
    "drift": ("by_drift", False),
    "noise_covariance": ("by_noise_covariance", True),
    "initial_covariance": ("by_initial_covariance", True),
}


without_misfit = [(kind, pattern, False) for kind in KINDS for pattern in ("oblique", "rows")]


@pytest.mark.parametrize(
    ("kind", "pattern", "use_misfit"), [(*case, True) for case in every_case] + without_misfit
)
def test_score_by_differences(kind, pattern, use_misfit):
    case = coupled.make(kind, pattern)
    found = evaluate_likelihood(case.collapsed, case.parameters, use_misfit=use_misfit)
    rng = np.random.default_rng(1)
    for field, (name, symmetric) in SCORES.items():
        if field == "initial_covariance" and kind == "deterministic":
            continue
        for _ in range(2):
            way = rng.normal(size=(3, 3))
            way = way + way.T if symmetric else way
            expected = slope(case, field, way, use_misfit=use_misfit)
            got = (getattr(found, name) * way).sum()
            scale = np.abs(getattr(found, name)).max()
            np.testing.assert_allclose(got, expected, rtol=SCORE_TOLERANCE, atol=1e-6 * scale)
    way = rng.normal(size=3)
    expected = slope(case, "initial_mean", way, use_misfit=use_misfit)
    np.testing.assert_allclose(found.by_initial_mean @ way, expected, rtol=SCORE_TOLERANCE)
    expected = slope(case, "observation_variance", 1e-2, use_misfit=use_misfit)
    got = 1e-2 * found.by_observation_variance
    np.testing.assert_allclose(got, expected, rtol=SCORE_TOLERANCE)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_information_on_the_initial_mean(kind, pattern):
    check_initial_information(coupled.make(kind, pattern))


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_uncoupled_modes_have_the_likelihood_of_the_fast_route(kind, pattern):
    """Value and the diagonal of the score agree with the kernel for spectra."""
    case = cases.make(kind, pattern)
    fast = evaluate_likelihood(case.collapsed, case.parameters)
    full = evaluate_likelihood(case.collapsed, coupled_parameters(case.parameters))
    np.testing.assert_allclose(full.log_likelihood, fast.log_likelihood, rtol=EXACT)
    pairs = (
        (np.diag(full.by_drift), fast.by_eigenvalue),
        (np.diag(full.by_noise_covariance), fast.by_noise_variance),
        (full.by_initial_mean, fast.by_initial_mean),
        (np.diag(full.by_initial_covariance), fast.by_initial_variance),
        (full.by_observation_variance, fast.by_observation_variance),
        (full.initial_information, fast.initial_information),
    )
    for got, expected in pairs:
        scale = np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9 * scale)


def test_splitting_a_step_changes_nothing():
    case = coupled.make("gaussian", "random")
    t = np.insert(case.times, 3, 0.5 * (case.times[2] + case.times[3]))
    more = case._replace(times=t, values=np.insert(case.values, 3, np.nan, axis=1))
    np.testing.assert_allclose(
        evaluate_likelihood(more.collapsed, more.parameters).log_likelihood,
        evaluate_likelihood(case.collapsed, case.parameters).log_likelihood,
        rtol=EXACT,
    )
