"""Chaos coordinates given the data: the joint Gaussian, limits, the law of the coordinates."""

import numpy as np
import pytest
from tests.chaos import _chaos_oracle as oracle
from tests.chaos.test_chaos_likelihood import model_of
from tests.parameters import cross
from tests.statespace.cases import KINDS, PATTERNS, make
from tests.statespace.numbers import chaos_latents

from spdelaw.chaos.posterior import TAILS, project_on_decoder

EXACT = 1e-9


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=EXACT, atol=EXACT)


@cross(kind=KINDS, pattern=PATTERNS, tail=TAILS)
def test_posterior_is_that_of_the_joint_gaussian(kind, pattern, tail):
    case = make(kind, pattern)
    model = model_of(case, tail, 4)
    p, n, paths = case.parameters, 3, []
    scale, start = np.sqrt(p.initial_covariance), n * (kind != "deterministic")
    moments = case.by_path(oracle.posterior, model)
    for part in chaos_latents(case.collapsed, p, model):
        for i, path in enumerate(part.paths):
            mean, covariance = moments[path]
            std, ages = np.sqrt(np.diag(covariance)), case.clock(path) - case.clock(path)[0]
            close(part.initial_mean[:, i], p.initial_mean + (scale * mean[:n] if start else 0.0))
            close(part.initial_std, scale * std[:n] if start else np.zeros(n))
            close(part.mean[..., i], mean[start:].reshape(model.n_time, -1))
            close(part.std, std[start:].reshape(model.n_time, -1))
            decay = np.exp(-np.outer(ages, p.drift)) * p.initial_mean
            states = decay.ravel() + oracle.columns(p, ages, model) @ mean
            close(part.coefficients[..., i].ravel(), states)
            paths.append(path)
    assert sorted(paths) == list(range(len(case.values)))


@cross(tail=TAILS, pattern=["orthogonal", "oblique"])
def test_covariance_of_the_coordinates_of_one_mode(pattern, tail):
    case = make("deterministic", pattern)
    model = model_of(case, tail)
    (part,) = chaos_latents(case.collapsed, case.parameters, model)
    _, expected = oracle.posterior(case.parameters, case.values[0], case.times, case.phi, model)
    if len(part.covariance) == 1:
        close(part.covariance[0], expected)
    else:
        for n in range(3):
            close(part.covariance[n], expected[n::3, n::3])  # (k, l) with l fastest


@pytest.mark.parametrize("pattern", ["orthogonal", "oblique", "random"])
def test_a_weak_prior_gives_the_projection(pattern):
    """Large q and v0: the posterior mean is the least-squares fit of the times after the first.

    The first time is given no weight in the projection, so it is hidden here.
    """
    case = make("gaussian", pattern)
    case.values[:, 0] = np.nan
    p = case.parameters._replace(noise=np.full(3, 1e7), initial_covariance=np.full(3, 1e7))
    model = model_of(case, "dropped", n_time=2)
    fitted = {
        path: part.coefficients[1:, :, i]
        for part in chaos_latents(case.collapsed, p, model)
        for i, path in enumerate(part.paths)
    }
    for part in project_on_decoder(case.collapsed, p.drift, 2, model.horizon):
        for i, path in enumerate(part.paths):
            np.testing.assert_allclose(
                part.coefficients[1:, :, i], fitted[path], rtol=1e-3, atol=1e-3
            )
