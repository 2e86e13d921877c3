"""Likelihood and score of the chaos model: the joint Gaussian, the exact engine, differences."""

import numpy as np
import pytest
from tests.model import _chaos_oracle as oracle
from tests.model.cases import KINDS, PATTERNS, Case, basis, make
from tests.model.numbers import chaos_latents, evaluate_chaos, evaluate_likelihood

from spdelaw.errors import ConvergenceError, DataError, InputError
from spdelaw.model import ChaosModel, collapse

EXACT = 1e-10
SAME_LIKELIHOOD = 1e-8
SCORE_TOLERANCE = 2e-6
FACTOR = np.array([[0.9, 0.2, -0.3], [0.0, 0.5, 0.4]])  # two noises, three modes

every_case = [(kind, pattern) for kind in KINDS for pattern in PATTERNS]


def model_of(case: Case, tail: str, n_time: int = 4, factor=None) -> ChaosModel:
    return ChaosModel(n_time, float(np.ptp(case.times, axis=-1).max()), tail, factor)


def by_brute_force(case, model):
    return [
        oracle.log_likelihood(case.parameters, y, case.clock(i), case.phi, model)
        for i, y in enumerate(case.values)
    ]


@pytest.mark.parametrize(("kind", "pattern"), every_case)
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern):
    case = make(kind, pattern)
    model = model_of(case, "dropped")
    got = evaluate_chaos(case.collapsed, case.parameters, model).log_likelihood
    np.testing.assert_allclose(got, by_brute_force(case, model), rtol=EXACT)


@pytest.mark.parametrize(("kind", "pattern"), every_case)
@pytest.mark.parametrize("n_time", [1, 5])
def test_modelled_tail_is_the_exact_engine(kind, pattern, n_time):
    """Coordinates and tail in one joint Gaussian have the likelihood of the untruncated law."""
    case = make(kind, pattern, n_times=9)
    exact = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    found = by_brute_force(case, model_of(case, "modelled", n_time))
    np.testing.assert_allclose(exact, found, rtol=SAME_LIKELIHOOD)


@pytest.mark.parametrize("kind", KINDS)
def test_density_of_the_coefficients(kind):
    """That of the fields less what lies outside the modes and, if it is shared, at the start."""
    case = make(kind, "orthogonal")
    model, p = model_of(case, "dropped"), case.parameters
    block = case.collapsed.blocks[0]
    r, n = float(p.observation_variance), p.n_modes
    outside = block.n_values - n * len(case.times)
    fields = evaluate_chaos(case.collapsed, p, model).log_likelihood
    expected = fields + 0.5 * (outside * np.log(2 * np.pi * r) + block.misfit / r)
    expected = expected + 0.5 * np.log(block.gram).sum()
    if kind == "deterministic":
        g = block.gram[0]
        error = block.estimate[0] - p.initial_mean[:, None]
        expected = expected + 0.5 * (np.log(2 * np.pi * r / g) + g * error**2 / r).sum(0)
    got = evaluate_chaos(case.collapsed, p, model, density="coefficients").log_likelihood
    np.testing.assert_allclose(got, expected, rtol=EXACT)


SCORES = {
    "drift": "by_drift",
    "noise": "by_noise",
    "initial_mean": "by_initial_mean",
    "initial_covariance": "by_initial_covariance",
    "observation_variance": "by_observation_variance",
}


def differences(case, model, field, **options):
    x = np.asarray(getattr(case.parameters, field), float)
    out = []
    for i in range(x.size):
        h = 1e-5 * max(abs(float(x.reshape(-1)[i])), 0.1)
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved.reshape(-1)[i] += sign * h
            trial = case.parameters._replace(**{field: moved})
            ends.append(evaluate_chaos(case.collapsed, trial, model, **options).log_likelihood)
        out.append((ends[0].sum() - ends[1].sum()) / (2 * h))
    return np.array(out)


complete = [(kind, pattern) for kind in KINDS for pattern in ("orthogonal", "oblique")]
#: Estimates of a row exist where the row is whole.
scored = [(*case, density) for case in complete for density in ("fields", "coefficients")]
scored += [("gaussian", "random", "fields"), ("deterministic", "rows", "coefficients")]


@pytest.mark.parametrize(("kind", "pattern", "density"), scored)
def test_score_by_differences(kind, pattern, density):
    case = make(kind, pattern)
    model = model_of(case, "dropped")
    found = evaluate_chaos(case.collapsed, case.parameters, model, density=density)
    for field, name in SCORES.items():
        if field == "initial_covariance" and kind == "deterministic":
            continue
        expected = differences(case, model, field, density=density)
        tolerance = SCORE_TOLERANCE * np.abs(expected).max()
        got = np.atleast_1d(getattr(found, name))
        np.testing.assert_allclose(got, expected, rtol=SCORE_TOLERANCE, atol=tolerance)


@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random"])
def test_information_of_the_initial_mean_is_its_curvature(pattern):
    case = make("deterministic", pattern)
    model = model_of(case, "dropped")
    found = evaluate_chaos(case.collapsed, case.parameters, model)
    for n in range(3):
        moved = case.parameters.initial_mean + np.eye(3)[n]
        there = evaluate_chaos(case.collapsed, case.parameters._replace(initial_mean=moved), model)
        curvature = found.by_initial_mean - there.by_initial_mean
        np.testing.assert_allclose(found.initial_information[n], curvature, rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("size", [0.5, 12.0, 50.0])
def test_many_functions_of_time_leave_no_tail(size):
    """log p(dropped) -> log p(exact) as K grows: the gap falls at least as 1 / K."""
    case = make("deterministic", "orthogonal", n_times=9)
    p = case.parameters._replace(drift=np.array([0.1, 1.0, size]))
    exact = evaluate_likelihood(case.collapsed, p).log_likelihood
    models = (model_of(case, "dropped", k) for k in (64, 1024))
    found = (evaluate_chaos(case.collapsed, p, model).log_likelihood for model in models)
    gaps = [np.abs(each - exact).max() for each in found]
    assert gaps[1] < 0.1 * gaps[0]


def test_bad_input():
    with pytest.raises(InputError, match="tail: expected one of"):
        ChaosModel(4, 1.0, "cut")
    with pytest.raises(InputError, match="n_time"):
        ChaosModel(0)
    with pytest.raises(InputError, match="noise_factor"):
        ChaosModel(4, 1.0, "dropped", np.ones(3))
    case = make("deterministic", "orthogonal")
    for other in (model_of(case, "dropped", factor=FACTOR), model_of(case, "modelled")):
        with pytest.raises(InputError, match="a dropped tail, and noise of its own"):
            evaluate_chaos(case.collapsed, case.parameters, other)
    with pytest.raises(InputError, match="times"):
        evaluate_chaos(case.collapsed, case.parameters, ChaosModel(4, 0.1, "dropped"))


def test_covariances_that_are_too_large_or_singular_are_refused():
    phi = basis(orthogonal=False)
    long = np.linspace(0.0, 1.0, 1002)
    data = collapse(np.ones((1, len(long), len(phi))), long, phi)
    p = make("deterministic", "oblique").parameters
    with pytest.raises(DataError, match="at most 3000"):
        chaos_latents(data, p, ChaosModel(4, 1.0, "modelled", FACTOR))
    case = make("deterministic", "orthogonal")
    still = case.parameters._replace(observation_variance=np.asarray(0.0))
    with pytest.raises(ConvergenceError, match="positive definite"):
        chaos_latents(case.collapsed, still, model_of(case, "modelled", factor=0.0 * FACTOR))
