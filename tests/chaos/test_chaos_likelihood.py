"""Likelihood and score of the chaos model: the joint Gaussian, the exact engine, differences."""

import numpy as np
import pytest
from tests.chaos import _chaos_oracle as oracle
from tests.parameters import cross
from tests.statespace.cases import (
    KINDS,
    PATTERNS,
    Case,
    check_initial_information,
    check_score,
    make,
)
from tests.statespace.numbers import evaluate_chaos, evaluate_likelihood

from spdelaw.chaos.posterior import ChaosModel
from spdelaw.errors import InputError

EXACT = 1e-10
SAME_LIKELIHOOD = 1e-8


def model_of(case: Case, tail: str, n_time: int = 4) -> ChaosModel:
    return ChaosModel(n_time, float(np.ptp(case.times, axis=-1).max()), tail)


@cross(kind=KINDS, pattern=PATTERNS, n_time=[1, 5])
def test_likelihood_is_that_of_the_joint_gaussian(kind, pattern, n_time):
    """Coordinates and tail in one joint Gaussian have the likelihood of the untruncated law."""
    case = make(kind, pattern, n_times=9)
    dropped = model_of(case, "dropped", n_time)
    got = evaluate_chaos(case.collapsed, case.parameters, dropped).log_likelihood
    np.testing.assert_allclose(got, case.by_path(oracle.log_likelihood, dropped), rtol=EXACT)
    exact = evaluate_likelihood(case.collapsed, case.parameters).log_likelihood
    whole = case.by_path(oracle.log_likelihood, model_of(case, "modelled", n_time))
    np.testing.assert_allclose(exact, whole, rtol=SAME_LIKELIHOOD)


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


#: Estimates of a row exist where the row is whole.
@cross(
    kind=KINDS,
    at=[
        ("orthogonal", "fields"), ("orthogonal", "coefficients"), ("oblique", "fields"),
        ("oblique", "coefficients"), ("random", "fields"), ("rows", "coefficients"),
    ],
)  # fmt: skip
def test_score_and_information_by_differences(kind, at):
    pattern, density = at
    case = make(kind, pattern)
    model, data = model_of(case, "dropped"), case.collapsed

    def evaluate(p):
        return evaluate_chaos(data, p, model, density=density)

    check_score(evaluate, case.parameters)
    if kind == "deterministic" and density == "fields":
        check_initial_information(evaluate, case.parameters, 1e-8)


CASE = make("deterministic", "orthogonal")


def evaluate_at(model):
    return evaluate_chaos(CASE.collapsed, CASE.parameters, model)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ChaosModel(4, 1.0, "cut"), "tail: expected one of"),
        (lambda: ChaosModel(0), "n_time"),
        (lambda: evaluate_at(model_of(CASE, "modelled")), "a dropped tail"),
        (lambda: evaluate_at(ChaosModel(4, 0.1, "dropped")), "times"),
    ],
)
def test_refusals(call, word):
    with pytest.raises(InputError, match=word):
        call()
